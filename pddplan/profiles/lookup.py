"""Finding a profile by its id: the user's folders first, then what the package brings.

Folders are searched in this order; the first hit wins, so a user's file replaces a bundled one of the same id:

1. folders given with ``--profiles`` (or ``use_profiles``),
2. those named in ``PDDPLAN_PROFILES`` (separated as in ``PATH``),
3. ``$XDG_CONFIG_HOME/pddplan`` or ``~/.config/pddplan``,
4. the bundled ones: the checkout in an editable install, ``pddplan/bundled`` in a wheel.

Inside a user's folder a file may stand where the bundled tree has it (``hardware_profiles/x.yaml``) or at its top.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import cache
from pathlib import Path

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.files import home_path, is_file, is_folder
from pddplan.profiles import yaml_source

ENVIRONMENT_VARIABLE = "PDDPLAN_PROFILES"
_SUFFIXES = (".yaml", ".yml")
_TRACES = (".jsonl", ".csv", ".tsv", ".parquet", ".gz", ".zst")
"""Endings of traces; no workload is called like that."""
_user_dirs: ContextVar[tuple[Path, ...]] = ContextVar("pddplan_profile_dirs", default=())


class Kind(Enum):
    """What can be looked up, and the folder (below a root) in which it stands."""

    CHIP = ("chip", "hardware_profiles")
    EFFICIENCY = ("efficiency", "hardware_profiles/efficiency")
    LATENCY_TABLE = ("latency-table", "hardware_profiles/measured")
    LLM = ("model", "workloads/models")
    WORKLOAD = ("workload", "workloads")
    SITES = ("sites", "workloads/sites")
    FINANCE = ("finance", "workloads/finance")
    TRACE = ("trace", "workloads/traces")

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def folder(self) -> str:
        return self.value[1]


LISTED_BY = {
    Kind.CHIP: "pddplan hardware list",
    Kind.LLM: "pddplan model list",
    Kind.WORKLOAD: "pddplan workload list",
    Kind.SITES: "pddplan sites list",
}
MOST_LISTED = 12
"""More names than this are not spelled out in a message: the command that lists them is."""


@cache
def bundled_root() -> Path:
    """Folder that holds ``hardware_profiles`` and ``workloads``."""
    package = Path(__file__).resolve().parent.parent
    in_wheel = package / "bundled"
    return in_wheel if in_wheel.is_dir() else package.parent


@contextmanager
def use_profiles(dirs: Iterable[str | Path]) -> Iterator[None]:
    """Search these folders first, inside the ``with`` block.

    Raises:  InputError when one of them is no folder.
    """
    folders = tuple(home_path(d) for d in dirs)
    for folder in folders:
        if not is_folder(folder):
            raise InputError(
                Problem(what="there is no such folder of profiles", fix="check --profiles", where=str(folder))
            )
    token = _user_dirs.set(folders + _user_dirs.get())
    try:
        yield
    finally:
        _user_dirs.reset(token)


def roots() -> tuple[Path, ...]:
    """All roots that are searched, most specific first."""
    found = list(_user_dirs.get())
    found += [home_path(p) for p in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if p]
    if config := os.environ.get("XDG_CONFIG_HOME"):
        found.append(home_path(config) / "pddplan")
    else:
        with contextlib.suppress(InputError):  # a container whose user has no name and no home
            found.append(home_path("~/.config/pddplan"))
    return (*found, bundled_root())


def names(kind: Kind) -> tuple[str, ...]:
    """Ids of everything of a kind that can be found, sorted."""
    return tuple(sorted(_files(kind)))


def find(kind: Kind, name: str | Path) -> Path:
    """Path of a profile given by id, alias or file name.

    Anything with a folder separator or ending in ``.yaml`` is a path and is taken as it is.

    Raises:  InputError naming the nearest known id.
    """
    text = str(name)
    if is_path(text):
        if kind is Kind.WORKLOAD and text.lower().endswith(_TRACES) and home_path(text).is_file():
            raise _no_workload(text)
        return home_path(text)
    wanted = canonical(text)
    files = _files(kind)
    if wanted in files:
        return files[wanted]
    aliases = _aliases(files.values())
    if wanted in aliases:
        return aliases[wanted]
    what = f"unknown {kind.word} {text!r}{did_you_mean(wanted, [*files, *aliases])}"
    if kind is Kind.WORKLOAD and is_file(home_path(text)):
        raise _no_workload(text)
    known = ", ".join(sorted(files)) or "none"
    if len(files) > MOST_LISTED and kind in LISTED_BY:
        raise InputError(Problem(what=what, fix=f"see {LISTED_BY[kind]}; or give the path of a YAML file"))
    raise InputError(Problem(what=what, fix=f"use one of: {known}; or give the path of a YAML file"))


def _no_workload(name: str) -> InputError:
    """That a file is something else than a workload, most likely a trace."""
    return InputError(
        Problem(
            what=f"{name!r} is no workload: those are YAML files",
            fix=f"if it is a trace: pddplan workload import {name} --model MODEL --out workload.yaml",
        )
    )


def is_path(name: str) -> bool:
    """Whether the user gave a file rather than an id."""
    return name == "-" or name.endswith(_SUFFIXES) or os.sep in name or (os.altsep is not None and os.altsep in name)


def canonical(name: str) -> str:
    """Ids are lower case with dashes: ``H200 SXM`` and ``h200_sxm`` are ``h200-sxm``."""
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def shown(path: Path) -> str:
    """A path as messages show it: bundled files relative to their root, others as given."""
    try:
        return str(path.relative_to(bundled_root()))
    except ValueError:
        return str(path)


def load(kind: Kind, name: str | Path) -> yaml_source.SourceDocument:
    """Find and read a profile."""
    path = find(kind, name)
    return yaml_source.load(path, name=shown(path))


def load_all(kind: Kind) -> Iterator[tuple[str, yaml_source.SourceDocument]]:
    """Read every profile of a kind: ids, sorted, and documents."""
    for name, path in sorted(_files(kind).items()):
        yield name, yaml_source.load(path, name=shown(path))


def _files(kind: Kind) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in roots():
        bundled = root == bundled_root()
        for folder in [root / kind.folder] if bundled else [root / kind.folder, root]:
            for path in _yaml_files(folder):
                if folder == root and not _is_of_kind(path, kind):
                    continue  # the top of a user's folder may mix kinds
                found.setdefault(canonical(path.stem), path)
    return found


def _yaml_files(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and p.is_file())
    except OSError:
        return []


def _is_of_kind(path: Path, kind: Kind) -> bool:
    """Read the ``schema: chip/1`` line without parsing the file."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            head = stream.read(4096)
    except OSError:
        return False
    found = re.search(r"^schema:\s*['\"]?([a-z_-]+)/", head, re.MULTILINE)
    return found is not None and found.group(1) == kind.word


def _aliases(paths: Iterable[Path]) -> dict[str, Path]:
    """Other names that files give themselves (``aliases: [...]`` at the top); only looked at when an id is unknown."""
    found: dict[str, Path] = {}
    for path in paths:
        try:
            aliases = yaml_source.load(path).data.get("aliases") or []
        except InputError:
            continue  # a broken file must not hide the others
        for alias in aliases if isinstance(aliases, list) else []:
            found.setdefault(canonical(str(alias)), path)
    return found
