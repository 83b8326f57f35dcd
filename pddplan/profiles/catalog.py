"""Chips, models and efficiencies by the names that stand in a measurement table.

Searched in this order: YAML profiles and Hugging Face configs of the given folders, ``chips.csv`` and ``models.csv``
tables in them, then what is bundled. A row of a models table that names a ``reference_config`` known here is read
from there, because a profile says more than a table can (indexers, windows, formats).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.errors import InputError, Problem, ProblemList, did_you_mean
from pddplan.performance.delimited_table import BLANKS
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.parameters import total_parameters
from pddplan.profiles import lookup
from pddplan.profiles.chip_profile import chip_ids, load_chip
from pddplan.profiles.efficiency_profile import check_stack, efficiency_for, resolve_stack
from pddplan.profiles.folder_index import FolderIndex, TableEntry, index_folders, released_names
from pddplan.profiles.hf_config import import_config
from pddplan.profiles.llm_profile import llm_ids, load_llm
from pddplan.profiles.tables import chip_from_row, llm_from_row
from pddplan.units import GIGA

T = TypeVar("T")

_CHIP_WORDS = frozenset(
    ("nvidia", "amd", "intel", "instinct", "tensor", "core", "gpu", "accelerator", "hbm2", "hbm2e", "hbm3", "hbm3e")
)
"""Words in the name of a chip that do not tell it apart."""
_FORMS = frozenset(("sxm", "oam", "nvl", "nvl72"))
MEMORY_SHARE = 0.15
"""A chip found under a shorter name has the memory its full name states, within this share."""
SAME_MODEL_SHARE = 0.03
"""A profile stands in for a table row when their parameter counts differ by less than this share."""


@dataclass(slots=True)
class ProfileCatalog:
    """Finds what the rows of a table refer to; answers are kept.

    Raises:  InputError for a stack that does not exist, and for folders that hold too much.
    """

    dirs: tuple[Path, ...] = ()
    stack: str | None = None
    """Stack to use instead of the one a row's framework tells."""
    _chips: dict[str, Chip | InputError] = field(default_factory=dict)
    _llms: dict[str, Llm | InputError] = field(default_factory=dict)
    _efficiencies: dict[tuple[str, str, str, bool], Efficiency] = field(default_factory=dict)
    index: FolderIndex = field(default_factory=FolderIndex)

    def __post_init__(self) -> None:
        self.index = index_folders(self.dirs)
        if self.stack is not None:
            with lookup.use_profiles(self.index.folders):
                check_stack(self.stack)

    def chip(self, name: str) -> Chip:
        """A chip by id, alias or table row.

        Raises:  InputError naming the nearest known id.
        """
        found = self._chips.get(name)
        if found is None:
            found = self._chips[name] = _answer(lambda: self._find_chip(name))
        if isinstance(found, InputError):
            raise found
        return found

    def llm(self, name: str) -> Llm:
        """A model by id, alias, config or table row.

        Raises:  InputError naming the nearest known id.
        """
        found = self._llms.get(name)
        if found is None:
            found = self._llms[name] = _answer(lambda: self._find_llm(name))
        if isinstance(found, InputError):
            raise found
        return found

    def efficiency(self, chip: Chip, framework: str, date: str, *, operators: bool = False) -> Efficiency:
        """What the stack of a row makes of a chip.

        Raises:  InputError when no profile covers it.
        """
        month = date[:7]
        stack = self.stack or resolve_stack(framework, month, operators=operators).id
        key = (chip.id, stack, chip.vendor, operators)
        found = self._efficiencies.get(key)
        if found is None:
            found = efficiency_for(chip, stack)
            self._efficiencies[key] = found
        return found

    def _find_chip(self, name: str) -> Chip:
        with lookup.use_profiles(self.index.folders):
            for shorter, memory_gb in ((name, None), *_chip_names(name)):
                try:
                    chip = self._chip_called(lookup.canonical(shorter))
                except _UnknownError:
                    continue
                if memory_gb is None or abs(chip.memory_bytes / GIGA / memory_gb - 1.0) < MEMORY_SHARE:
                    return chip
            raise self._unknown("chip", name, [*chip_ids(), *self.index.chips], table="chips.csv")

    def _chip_called(self, name: str) -> Chip:
        """A chip of exactly this name: a profile of the given folders, a table row, or a bundled profile."""
        entry = self.index.chips.get(name)
        if entry is None or name in self.index.profiles:
            return _known(load_chip, name)
        problems = ProblemList()
        _check_entry(entry, name, problems)
        chip = chip_from_row(entry.cells, where=entry.where, problems=problems)
        problems.raise_if_any()
        return self._completed(chip)

    def _unknown(self, kind: str, name: str, known: list[str], *, table: str) -> InputError:
        unread = "".join(f"; not read: {reason}" for reason in self.index.unread)
        return InputError(
            Problem(
                what=f"unknown {kind} {name!r}{did_you_mean(lookup.canonical(name), known)}{unread}",
                fix=f"give a folder with a profile of it or a {table} with --profiles",
            )
        )

    def _completed(self, chip: Chip) -> Chip:
        """Fill in what a table does not hold (NIC, wiring) from a profile of the same chip."""
        try:
            known = load_chip(chip.id)
        except InputError:
            return chip
        return replace(
            chip,
            vendor=chip.vendor or known.vendor,
            nic_bytes_per_s=chip.nic_bytes_per_s or known.nic_bytes_per_s,
            fabric=known.fabric,
            tdp_w=chip.tdp_w or known.tdp_w,
            price=chip.price or known.price,
            aliases=tuple(dict.fromkeys((*chip.aliases, *known.aliases))),
        )

    def _find_llm(self, name: str) -> Llm:
        with lookup.use_profiles(self.index.folders):
            full = lookup.canonical(name)
            names = dict.fromkeys((full, full.rpartition("/")[2], *released_names(name)))
            known = [*llm_ids(), *self.index.llms, *self.index.configs]
            # llama2-70b is llama-2-70b, but qwen2-57b is not qwen2.5-7b
            close = [other for other in known if _closed_up(other) in {_closed_up(n) for n in names}]
            for shorter in (*names, *dict.fromkeys(close)):
                try:
                    return self._llm_called(shorter)
                except _UnknownError:
                    continue
            raise self._unknown("model", name, known, table="models.csv, or its config.json,")

    def _llm_called(self, name: str) -> Llm:
        """A model of exactly this name: a profile or config of the given folders, a table row, or a bundled profile."""
        entry = self.index.llms.get(name)
        if name in self.index.profiles:
            return _known(load_llm, name)
        if name in self.index.configs:
            return import_config(self.index.configs[name], model_id=name).llm
        if entry is None:
            return _known(load_llm, name)
        reference = self._profile_of(entry, name)
        problems = ProblemList()
        _check_entry(entry, name, problems)
        llm = llm_from_row(entry.cells, where=entry.where, problems=problems)
        if reference is not None and not problems.problems:
            same = abs(total_parameters(reference) / max(total_parameters(llm), 1.0) - 1.0) < SAME_MODEL_SHARE
            return reference if same else llm
        if reference is not None and not entry.twice:
            return reference  # a row that cannot say what the model is, but names its config
        problems.raise_if_any()
        return llm

    def _profile_of(self, entry: TableEntry, name: str) -> Llm | None:
        """The profile or config that a row names, or the bundled one of its own name."""
        for other in (entry.cells.get("reference_config") or "", name):
            stem = lookup.canonical(Path(other).name.removesuffix(".json").removesuffix(".yaml"))
            if not stem or stem in BLANKS:
                continue
            try:
                config = self.index.configs.get(stem)
                return load_llm(stem) if config is None else import_config(config, model_id=stem).llm
            except InputError:
                continue
        return None


class _UnknownError(Exception):
    """Nothing has that name."""


def _known(load: Callable[[str], T], name: str) -> T:
    """Load what a name stands for; a name that nothing has is told from a file with faults."""
    try:
        return load(name)
    except InputError as fault:
        if any(p.what.startswith("unknown ") and not p.where for p in fault.problems):
            raise _UnknownError from fault
        raise


def _check_entry(entry: TableEntry, name: str, problems: ProblemList) -> None:
    if entry.twice:
        problems.add(
            f"{name} stands twice in the table, with different numbers", fix="leave one of them", where=entry.where
        )


def _closed_up(name: str) -> str:
    return re.sub(r"(?<=[a-z])-(?=\d)", "", name)


def _answer(find: Callable[[], T]) -> T | InputError:
    try:
        return find()
    except InputError as fault:
        return fault


def _chip_names(name: str) -> Iterator[tuple[str, float | None]]:
    """Shorter names of a chip as drivers report it, e.g. ``NVIDIA A100-SXM4-80GB``, and the memory it states."""
    words, memory = [], None
    for word in lookup.canonical(name).split("-"):
        size = re.fullmatch(r"(\d{2,3})(gb|g)?", word)
        if size:
            memory = float(size.group(1))
        elif word not in _CHIP_WORDS:
            words.append(re.sub(r"^(sxm|oam)\d?$", r"\1", word))
    bare = [word for word in words if word not in _FORMS]
    if memory is not None:
        yield "-".join([*words, f"{memory:.0f}g"]), memory
        yield "-".join([*bare, f"{memory:.0f}g"]), memory
    yield "-".join(words), memory
    yield "-".join(bare), memory
