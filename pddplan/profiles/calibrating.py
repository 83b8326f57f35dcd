"""From result files to an efficiency overlay: reads, fits, and says what was done."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pddplan.domain.plan import Shape
from pddplan.errors import InputError, Problem
from pddplan.performance.benchmark_files import measurements_of, read_benchmark, runs_of_records
from pddplan.performance.benchmark_run import BenchmarkRun
from pddplan.performance.delimited_table import header_of
from pddplan.performance.measurement import Measurement, read_measurements
from pddplan.performance.own_fit import OwnFit
from pddplan.performance.own_fit import calibrate as fit_own
from pddplan.profiles import yaml_source
from pddplan.profiles.catalog import ProfileCatalog
from pddplan.profiles.efficiency_profile import dump_overlay, engine_of
from pddplan.units import MS_PER_S

MOST_REASONS = 3
"""Runs whose refusal is told one by one when none is left."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A finished calibration."""

    fit: OwnFit
    read: tuple[str, ...]
    """One line per file or run: what was found in it."""
    overlay: str
    """The YAML of the overlay profile."""
    chip: str
    stack: str


def calibrate(
    files: Sequence[Path],
    *,
    chip: str,
    llm: str,
    stack: str = "",
    shape: Shape | None = None,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    profiles: Sequence[Path] = (),
) -> Calibration:
    """Fit the efficiencies of a chip under a stack to result files and tables of measurements.

    Raises:  InputError for unreadable files, unknown names, runs of several systems, and files without usable runs.
    """
    catalog = ProfileCatalog(dirs=tuple(profiles))
    wanted_chip, wanted_llm = catalog.chip(chip), catalog.llm(llm)
    measurements: list[Measurement] = []
    said: list[str] = []
    for path in files:
        if _is_table(path):
            rows = read_measurements(path)
            kept = []
            for row in rows:
                m = row.measurement
                if m is None:
                    said.append(f"{row.where}: not read: {row.reason}")
                elif _same(catalog, m, chip=wanted_chip.id, llm=wanted_llm.id):
                    kept.append(m)
            counted = f"{path}: {len(rows)} rows, {len(kept)} of {wanted_llm.id} on {wanted_chip.id}"
            if not kept:
                seen = sorted({f"{m.model} on {m.chip}" for row in rows if (m := row.measurement) is not None})
                counted += f": not used: its rows are of {', '.join(seen[:MOST_REASONS]) or 'nothing that can be read'}"
                counted += f" and {len(seen) - MOST_REASONS} more" if len(seen) > MOST_REASONS else ""
            said.append(counted)
            measurements += kept
            continue
        for run in _runs(path):
            said.append(
                f"{run.where}: {run.client}{f' ({run.llm})' if run.llm else ''}, {run.requests} requests, "
                f"{run.input_tokens:.0f} tokens in, {run.output_tokens:.0f} out, "
                f"{run.in_flight or 0:.1f} in flight, TPOT {MS_PER_S * (run.tpot_s or 0):.2f} ms"
                + (f" ({run.corrected})" if run.corrected else "")
                + (f"; {run.remark}" if run.remark else "")
            )
            if run.remark:
                said.append(f"{run.where}: not used: {run.remark}")
                continue
            measurements += measurements_of(
                run,
                chip=chip,
                llm=llm,
                shape=shape or Shape(),
                framework=stack,
                weights_dtype=weights_dtype,
                kv_dtype=kv_dtype,
            )
    refused = [line for line in said if ": not used: " in line or ": not read: " in line]
    if not measurements and refused:
        more = f" (and {len(refused) - MOST_REASONS} more)" if len(refused) > MOST_REASONS else ""
        raise InputError(
            Problem(
                what="no measurement can be used for a fit: " + "; ".join(refused[:MOST_REASONS]) + more,
                fix="give runs of one instance with TPOT or throughput, token counts and concurrency, below saturation",
            )
        )
    found = fit_own(measurements, catalog)
    numbers = {n.name: (_short(n.after), _short(n.low), _short(n.high)) for n in found.numbers if n.told}
    dates = sorted({m.date for m in found.used if m.date})
    overlay = dump_overlay(
        numbers,
        title=f"{len(found.used)} measurements of {wanted_llm.id} from " + ", ".join(p.name for p in files),
        chip=wanted_chip.id,
        stack=found.base.name,
        engine=engine_of(stack or (found.used[0].framework if found.used else "")),
        date=dates[-1] if dates else datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d"),
    )
    return Calibration(fit=found, read=tuple(said), overlay=overlay, chip=wanted_chip.id, stack=found.base.name)


def _runs(path: Path) -> list[BenchmarkRun]:
    """Runs of a result file; reports may be YAML, too."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return runs_of_records([yaml_source.load(path).data], str(path))
    return read_benchmark(path)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _is_table(path: Path) -> bool:
    """A table in the measurement schema has its columns in the first line."""
    return {"kind", "model", "chip", "value"} <= set(header_of(path))


def _same(catalog: ProfileCatalog, m: Measurement, *, chip: str, llm: str) -> bool:
    try:
        return catalog.chip(m.chip).id == chip and catalog.llm(m.model).id == llm
    except InputError:
        return False
