"""What lies in the folders given with ``--profiles``: tables of chips and models, configs, and where profiles may be.

Folders are looked through with all that is below them, as model hubs and their caches lay files out
(``NAME.json``, ``NAME/config.json``, ``models--ORG--NAME/snapshots/HASH/config.json``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pddplan.errors import InputError, Problem
from pddplan.files import home_path
from pddplan.performance.delimited_table import header_of
from pddplan.profiles import lookup
from pddplan.profiles.hf_fields import read_json
from pddplan.profiles.tables import CHIP_COLUMNS, LLM_COLUMNS, read_table

MOST_FOLDERS = 2_000
MOST_FILES = 50_000
_HUB_FOLDER = re.compile(r"models--(?:.*--)?(?P<name>.+)")
_TABLES, _CONFIG = (".csv", ".tsv"), "config"
_LLM_KEYS, _CHIP_KEYS = ("model", "id"), ("chip", "id", "reference_id")
_TABLE_NAMES = re.compile(r"chip|gpu|accelerator|model|llm", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A row of a table of chips or models."""

    where: str
    cells: Mapping[str, str]
    twice: bool = False
    """Another row of the same file has this name and other numbers."""


@dataclass(slots=True)
class FolderIndex:
    """Names found in folders; the first folder that has a name wins."""

    folders: list[Path] = field(default_factory=list)
    """All folders, those that were given first."""
    chips: dict[str, TableEntry] = field(default_factory=dict)
    llms: dict[str, TableEntry] = field(default_factory=dict)
    configs: dict[str, Path] = field(default_factory=dict)
    profiles: dict[str, Path] = field(default_factory=dict)
    """YAML files by name, of whatever kind."""
    unread: list[str] = field(default_factory=list)
    """Tables that look as if they should have been read, and why they were not."""


def index_folders(dirs: Iterable[Path]) -> FolderIndex:
    """Look through folders and all that is below them.

    Raises:  InputError when they hold more than such folders can.
    """
    found = FolderIndex()
    given = [home_path(folder) for folder in dirs]
    trees = [_tree(folder) for folder in given]
    found.folders = [*given, *(sub for tree in trees for sub, _ in tree[1:])]
    files = [path for tree in trees for _, paths in tree for path in paths]
    configs = []
    for path in files:
        suffix = path.suffix.lower()
        if suffix in _TABLES:
            _file_table(path, found)
        elif suffix in (".yaml", ".yml"):
            found.profiles.setdefault(lookup.canonical(path.stem), path)
        elif suffix == ".json":
            configs.append((path, list(_config_names(path, given))))
    for path, names in configs:
        for name in names:
            found.configs.setdefault(name, path)
    for path, names in configs:  # after all full names: those of releases without tuning and format
        for shorter in (short for name in names for short in released_names(name)):
            found.configs.setdefault(shorter, path)
    return found


def _tree(folder: Path) -> list[tuple[Path, list[Path]]]:
    tree: list[tuple[Path, list[Path]]] = []
    count = 0
    for root, below, files in os.walk(folder, followlinks=False):
        below[:] = sorted(name for name in below if not name.startswith("."))
        tree.append((Path(root), [Path(root) / name for name in sorted(files)]))
        count += len(files)
        if len(tree) > MOST_FOLDERS or count > MOST_FILES:
            raise InputError(
                Problem(
                    what=f"there are more than {MOST_FOLDERS:,} folders or {MOST_FILES:,} files below it",
                    fix="give a folder of profiles alone",
                    where=str(folder),
                )
            )
    return tree


def _config_names(path: Path, given: list[Path]) -> Iterator[str]:
    """Names under which a config may be asked for: its own, its folder's, or the one that it gives itself."""
    stem = re.sub(r"[._-]config$", "", path.stem, flags=re.IGNORECASE)
    if stem.lower() != _CONFIG:
        yield lookup.canonical(stem)
        return
    for folder in path.parents:
        hub = _HUB_FOLDER.fullmatch(folder.name)
        if hub:
            yield lookup.canonical(hub["name"])
            return
        if folder in given:
            break
    yield lookup.canonical(path.parent.name)
    if path.parent in given:
        try:
            own = read_json(path).get("_name_or_path")
        except InputError:
            return  # what is wrong with it is said when it is asked for
        if isinstance(own, str) and own.strip("/"):
            yield lookup.canonical(own.strip("/").rpartition("/")[2])


def _file_table(path: Path, found: FolderIndex) -> None:
    """File the rows of a chips or models table under their names; other tables are left alone."""
    columns = set(header_of(path))
    keys: tuple[str, ...]
    if columns >= LLM_COLUMNS and columns & {"model", "id"}:
        known, keys = found.llms, _LLM_KEYS
    elif columns & CHIP_COLUMNS and columns & {"chip", "id"}:
        known, keys = found.chips, _CHIP_KEYS
    else:
        if _TABLE_NAMES.search(path.stem) and "value" not in columns:
            found.unread.append(f"{path.name}: no columns of a table of chips or models")
        return
    try:
        rows = read_table(path)
    except InputError as fault:
        found.unread.append(f"{path.name}: {fault.problems[0].what}")
        return
    own: dict[str, TableEntry] = {}
    for key in keys:  # a row's own name before names that it shares with others
        for where, cells in rows:
            name = lookup.canonical(cells.get(key) or "")
            if not name:
                continue
            first = own.setdefault(name, TableEntry(where, cells))
            if key == keys[0] and first.where != where and first.cells != cells:
                own[name] = TableEntry(where, cells, twice=True)
    for name, entry in own.items():
        known.setdefault(name, entry)


_RELEASE_WORDS = re.compile(
    r"[-.](instruct|chat|hf|it|base|thinking|dynamic|block|fp8|fp4|nvfp4|mxfp4|awq|gptq|int4|int8|bf16|w4a16|w8a8|kv"
    r"|fp8-kv|v\d(\.\d+)?|\d{4})$"
)
"""Ends of a released model's name that do not change its layers: tuning, format, version, month."""


def released_names(name: str) -> Iterator[str]:
    """Ever shorter names of a released model, e.g. of ``meta-llama/Llama-3.1-8B-Instruct-FP8``."""
    shorter = lookup.canonical(name.rpartition("/")[2])
    for prefix in ("", "meta-"):
        rest = shorter.removeprefix(prefix)
        if prefix and rest == shorter:
            continue
        if prefix:
            yield rest
        while (cut := _RELEASE_WORDS.sub("", rest)) != rest:
            rest = cut
            yield rest
