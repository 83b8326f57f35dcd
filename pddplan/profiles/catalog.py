"""Chips, models and efficiencies by the names that stand in a measurement table.

Searched in this order: YAML profiles and Hugging Face configs of the given folders, ``chips.csv`` and ``models.csv``
tables in them, then what is bundled. A row of a models table that names a ``reference_config`` known here is read
from there, because a profile says more than a table can (indexers, windows, formats).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.errors import InputError, Problem, ProblemList, did_you_mean
from pddplan.files import is_file
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.parameters import total_parameters
from pddplan.profiles import lookup
from pddplan.profiles.chip_profile import chip_ids, load_chip
from pddplan.profiles.efficiency_profile import efficiency_for, resolve_stack
from pddplan.profiles.llm_profile import load_llm
from pddplan.profiles.tables import chip_from_row, llm_from_row, read_table
from pddplan.units import GIGA

T = TypeVar("T")

LONGEST_HEADER = 10_000
_RELEASE_WORDS = re.compile(
    r"[-.](instruct|chat|hf|it|base|thinking|dynamic|block|fp8|fp4|nvfp4|mxfp4|awq|gptq|int4|int8|bf16|w4a16|w8a8|kv"
    r"|fp8-kv|v\d(\.\d+)?|\d{4})$"
)
"""Ends of a released model's name that do not change its layers: tuning, format, version, month."""
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
    """Finds what the rows of a table refer to; answers are kept."""

    dirs: tuple[Path, ...] = ()
    stack: str | None = None
    """Stack to use instead of the one a row's framework tells."""
    _chips: dict[str, Chip | InputError] = field(default_factory=dict)
    _llms: dict[str, Llm | InputError] = field(default_factory=dict)
    _efficiencies: dict[tuple[str, str, str, bool], Efficiency] = field(default_factory=dict)
    _chip_rows: dict[str, tuple[str, dict[str, str | None]]] = field(default_factory=dict)
    _llm_rows: dict[str, tuple[str, dict[str, str | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in self.dirs:
            for path in sorted(folder.glob("*.csv")):
                _index(path, self._chip_rows, self._llm_rows)

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
        with lookup.use_profiles(self.dirs):
            row = self._chip_rows.get(lookup.canonical(name))
            own = _own_file(self.dirs, name)
            if row is not None and own is None:
                problems = ProblemList()
                chip = chip_from_row(row[1], where=row[0], problems=problems)
                problems.raise_if_any()
                return self._completed(chip)
            try:
                return load_chip(name)
            except InputError:
                for shorter, memory_gb in _chip_names(name):
                    try:
                        chip = load_chip(shorter)
                    except InputError:
                        continue
                    if memory_gb is None or abs(chip.memory_bytes / GIGA / memory_gb - 1.0) < MEMORY_SHARE:
                        return chip
                known = [*chip_ids(), *self._chip_rows]
                raise InputError(
                    Problem(
                        what=f"unknown chip {name!r}{did_you_mean(lookup.canonical(name), known)}",
                        fix="give a folder with a profile of it or a chips.csv with --profiles",
                    )
                ) from None

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

    def _released_llm(self, name: str) -> Llm:
        """A model by its own name, or by that of the release it was tuned or quantised from."""
        try:
            return load_llm(name)
        except InputError as fault:
            for shorter in _llm_names(name):
                if shorter in self._llm_rows:
                    return self._find_llm(shorter)
                try:
                    return load_llm(shorter)
                except InputError:
                    continue
            raise fault

    def _find_llm(self, name: str) -> Llm:
        with lookup.use_profiles(self.dirs):
            row = self._llm_rows.get(lookup.canonical(name))
            if row is None or _own_file(self.dirs, name) is not None:
                return self._released_llm(name)
            problems = ProblemList()
            llm = llm_from_row(row[1], where=row[0], problems=problems)
            problems.raise_if_any()
            for other in (row[1].get("reference_config"), name):
                if not other:
                    continue
                try:
                    profile = load_llm(other)
                except InputError:
                    continue
                if abs(total_parameters(profile) / max(total_parameters(llm), 1.0) - 1.0) < SAME_MODEL_SHARE:
                    return profile
            return llm


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


def _llm_names(name: str) -> Iterator[str]:
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


def _own_file(dirs: Iterable[Path], name: str) -> Path | None:
    """A YAML profile or config of that name in the given folders."""
    for folder in dirs:
        for stem in (name, lookup.canonical(name)):
            for suffix in (".yaml", ".yml", ".json"):
                path = folder / f"{stem}{suffix}"
                if is_file(path):
                    return path
    return None


def _index(
    path: Path,
    chips: dict[str, tuple[str, dict[str, str | None]]],
    llms: dict[str, tuple[str, dict[str, str | None]]],
) -> None:
    """File the rows of a chips or models table under their names; other tables are left alone."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            header = stream.readline(LONGEST_HEADER).lower()
    except OSError:
        return
    is_llm = "n_layers" in header and "hidden" in header
    is_chip = "bf16" in header and ("mem_gb" in header or "hbm_gb" in header)
    if not (is_llm or is_chip):
        return
    for where, row in read_table(path):
        keys = (
            (row.get("model"), row.get("id")) if is_llm else (row.get("chip"), row.get("id"), row.get("reference_id"))
        )
        for key in keys:
            if key:
                (llms if is_llm else chips).setdefault(lookup.canonical(key), (where, row))
