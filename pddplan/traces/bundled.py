"""Traces that come with the package."""

from __future__ import annotations

from pathlib import Path

from pddplan.profiles.lookup import Kind, bundled_root

TRACE_ENDINGS = (".jsonl", ".csv", ".parquet")


def bundled_traces() -> dict[str, Path]:
    """Their paths by name."""
    folder = bundled_root() / Kind.TRACE.folder
    if not folder.is_dir():
        return {}
    found = [path for path in sorted(folder.iterdir()) if any(ending in path.name for ending in TRACE_ENDINGS)]
    return {path.name.split(".")[0]: path for path in found}
