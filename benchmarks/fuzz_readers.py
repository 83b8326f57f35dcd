"""Spoil files by the hundred thousand and read them: no traceback, no hang, no flood of memory.

    python benchmarks/fuzz_readers.py --cases 100000
    python benchmarks/fuzz_readers.py --only trace --cases 5000 --seed 7 --keep /tmp/faults
    python benchmarks/fuzz_readers.py --guided --cases 100000      # needs: pip install 'pddplan[fuzz]'

Every case must end in a result or in one of our own errors within five seconds, with warnings as errors.
Each reader has a process of its own, which must stay below 500 MB. ``--guided`` lets atheris watch which lines
of ours a case reached, and spoil further what reached new ones. Exits 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fuzz_mutations import monsters
from benchmarks.fuzz_targets import ROOT, Target, targets
from pddplan.errors import PddplanError
from pddplan.units import KIB, MIB

HANG_S = 5.0
STOP_S = 120
"""By the clock, so that a standstill ends too; far above the limit, for machines that do other work."""
MEMORY_LIMIT_MIB = 500
GROWTH_MIB = 60
"""A case that lifts the peak of the process by more is named."""
ADDRESS_SPACE_BYTES = 6 << 30
BLIND_SHARE = 0.25
"""How often a guided case is spoiled without knowing what kind of file it is."""


class TooSlow(BaseException):
    """Raised into a case that would go on for ever."""


@dataclass(slots=True)
class Tally:
    """What became of the cases of one reader."""

    cases: int = 0
    accepted: int = 0
    refused: int = 0
    hangs: int = 0
    slowest_s: float = 0.0
    spent_s: float = 0.0
    peak_mib: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    growth: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.faults and not self.hangs and self.peak_mib <= MEMORY_LIMIT_MIB


def peak_mib() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / MIB


@contextlib.contextmanager
def stopped_after(seconds: int) -> Iterator[None]:
    """Raise TooSlow into the block when it takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_case(target: Target, data: bytes, path: Path, tally: Tally, *, what: str, keep: Path | None = None) -> None:
    """Read one file and write down what happened."""
    path.write_bytes(data)
    before, start, fault = peak_mib(), time.process_time(), None
    tally.cases += 1
    try:
        with stopped_after(STOP_S):
            target.read(path)
        tally.accepted += 1
    except PddplanError as error:
        tally.refused += 1
        if not str(error).strip():
            fault = "an error without a word"
    except TooSlow:
        fault = f"still running after {STOP_S} s"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        fault = f"{type(error).__name__}: {str(error)[:90]} at {_place(error)}"
    spent = time.process_time() - start
    tally.spent_s += spent
    tally.slowest_s = max(tally.slowest_s, spent)
    if spent > HANG_S:
        tally.hangs += 1
        tally.growth.append(f"{what}: {spent:.1f} s")
    if (grown := peak_mib() - before) > GROWTH_MIB:
        tally.growth.append(f"{what}: +{grown:.0f} MiB")
    if fault is not None:
        tally.faults[fault] += 1
    if keep is not None and (fault is not None or spent > HANG_S) and tally.faults[fault or ""] <= 1:
        name = hashlib.sha256(data).hexdigest()[:12]
        (keep / f"{target.name}-{name}{target.suffix}").write_bytes(data)


def _place(error: BaseException) -> str:
    """Innermost line of ours in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/pddplan/" in f.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def run(target: Target, *, cases: int, seed: int, keep: Path | None = None, with_monsters: bool = True) -> Tally:
    """All cases of one reader: the monsters, then spoiled files."""
    tally = Tally()
    with quiet_folder() as folder:
        path = folder / f"case{target.suffix}"
        for what, make in monsters().items() if with_monsters else ():
            data = make()
            run_case(target, data, path, tally, what=f"{target.name}: {what}", keep=keep)
            del data
            gc.collect()
        rng = random.Random(f"{seed} {target.name}")
        for number in range(cases):
            run_case(target, target.case(rng), path, tally, what=f"{target.name}: case {number}", keep=keep)
    return tally


def run_guided(target: Target, *, cases: int, seed: int, keep: Path | None, tell: Callable[[Tally], None]) -> None:
    """The same, spoiling further what reached new lines. The process ends with it: atheris does not give it back."""
    import atheris

    from benchmarks.fuzz_guided import watch

    tally = Tally()
    watch()
    with quiet_folder() as folder:
        path, corpus = folder / f"case{target.suffix}", folder / "corpus"
        corpus.mkdir()
        for number, sample in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(sample)

        def one(data: bytes) -> None:
            run_case(target, data, path, tally, what=f"{target.name}: case {tally.cases}", keep=keep)
            if tally.cases >= cases:
                tell(tally)
                os._exit(0)

        def spoil(data: bytes, limit: int, number: int) -> bytes:
            """Mostly as we know the file, now and then as libFuzzer does."""
            rng = random.Random(number)
            return atheris.Mutate(data, limit) if rng.random() < BLIND_SHARE else target.spoiled(data, rng)[:limit]

        # libFuzzer has limits of its own; ours are kept in run_case
        flags = [f"-seed={seed}", "-rss_limit_mb=0", "-timeout=600", "-max_len=60000", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *flags, str(corpus)], one, custom_mutator=spoil)
        atheris.Fuzz()


@contextlib.contextmanager
def quiet_folder() -> Iterator[Path]:
    """A folder for one process, with warnings as errors."""
    with tempfile.TemporaryDirectory(prefix="pddplan-fuzz-") as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        yield Path(name)


def table(tallies: dict[str, Tally]) -> str:
    """One line a reader, then everything that went wrong."""
    head = f"{'reader':<22}{'cases':>8}{'accepted':>10}{'refused':>9}{'faults':>8}{'hangs':>7}"
    head += f"{'slowest s':>11}{'mean ms':>9}{'peak MiB':>10}"
    lines = [head]
    for name, t in tallies.items():
        mean = 1e3 * t.spent_s / max(t.cases, 1)
        lines.append(
            f"{name:<22}{t.cases:>8}{t.accepted:>10}{t.refused:>9}{t.faults.total():>8}{t.hangs:>7}"
            f"{t.slowest_s:>11.2f}{mean:>9.1f}{t.peak_mib:>10.0f}"
        )
    cases, faults = sum(t.cases for t in tallies.values()), sum(t.faults.total() for t in tallies.values())
    lines.append(f"{'all':<22}{cases:>8}{'':>19}{faults:>8}{sum(t.hangs for t in tallies.values()):>7}")
    lines.append(f"limits: {HANG_S:.0f} s a case, {MEMORY_LIMIT_MIB} MiB a process")
    for name, t in tallies.items():
        lines += [f"  {count:>5} x {name}: {fault}" for fault, count in t.faults.most_common(25)]
        lines += [f"        {line}" for line in t.growth[:25]]
    return "\n".join(lines)


def in_own_process(target: Target, asked: argparse.Namespace, *, cases: int) -> Tally:
    """What a process for this reader alone found."""
    with tempfile.NamedTemporaryFile(prefix="pddplan-tally-") as file:
        words = [*sys.argv[1:], "--tally", file.name, "--only", target.name, "--cases", str(cases)]
        command = [sys.executable, str(Path(__file__).resolve()), *words]
        done = subprocess.run(command, stderr=subprocess.PIPE, check=False)  # where atheris lists what it watches
        told = Path(file.name).read_bytes()
    tally = Tally(**json.loads(told)) if told else Tally()
    tally.faults = Counter(tally.faults)
    if not told:
        sys.stderr.buffer.write(done.stderr)
        tally.faults[f"the process ended with {done.returncode} and told nothing"] += 1
    return tally


def main() -> int:
    """Run and print; 1 if a case ended in anything but a result or a message."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="readers whose name contains this")
    parser.add_argument("--keep", type=Path, help="keep files that show a fault in this folder")
    parser.add_argument("--no-monsters", action="store_true", help="leave out the large and deep files")
    parser.add_argument("--guided", action="store_true", help="let atheris look for new ways through the code")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("PDDPLAN_SHARED", ROOT.parent / "shared")))
    parser.add_argument("--tally", type=Path, help=argparse.SUPPRESS)  # the process of one reader: answer goes here
    asked = parser.parse_args()
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    chosen = [t for t in targets(asked.shared if asked.shared.is_dir() else None) if (asked.only or "") in t.name]
    if asked.tally:
        return _one_reader(next(t for t in chosen if t.name == asked.only), asked)
    total = sum(t.weight for t in chosen)
    found = {t.name: in_own_process(t, asked, cases=round(asked.cases * t.weight / total)) for t in chosen}
    sys.stdout.write(table(found) + "\n")
    return 0 if all(tally.is_clean for tally in found.values()) else 1


def _one_reader(target: Target, asked: argparse.Namespace) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"

    def tell(tally: Tally) -> None:
        tally.peak_mib = peak_mib()
        asked.tally.write_text(json.dumps({spec.name: getattr(tally, spec.name) for spec in fields(tally)}))

    if asked.guided:
        run_guided(target, cases=asked.cases, seed=asked.seed, keep=asked.keep, tell=tell)
    else:
        tell(run(target, cases=asked.cases, seed=asked.seed, keep=asked.keep, with_monsters=not asked.no_monsters))
    return 0


if __name__ == "__main__":
    sys.exit(main())
