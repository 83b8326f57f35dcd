"""Entry point: runs a command and turns what goes wrong into a message and an exit code.

0 done; 2 bad usage or input; 3 no plan keeps the promises; 4 the solver failed; 130 interrupted;
143 told to end; 1 a bug of ours.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys

TYPE_CHECKING = False  # nothing that takes time, as typing does, stands above ``main``: an interrupt must find it ready
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from pddplan.errors import PddplanError, Relaxation

    Handler = Callable[[int, FrameType | None], None]

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_TERMINATED = 143

_NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up", errno.EIO: "the device failed"}


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; only bugs escape as exceptions."""
    from pddplan.errors import EXIT_INPUT, PddplanError

    try:
        return _command(arguments)
    except KeyboardInterrupt:
        return _stopped()
    except BrokenPipeError:
        _mute_output()
        return EXIT_BROKEN_PIPE
    except SystemExit as end:
        # typer ends this way when writing its own help to a closed pipe, after muting standard output
        return EXIT_BROKEN_PIPE if type(sys.stdout).__name__ == "PacifyFlushWrapper" else _code(end)
    except PddplanError as error:
        print(message(error), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:
            _mute_output()
            print(f"error: cannot write to standard output: {_NO_ROOM[error.errno]}", file=sys.stderr)
            return EXIT_INPUT
        return _stopped_or_bug()
    except Exception:  # noqa: BLE001 (a bug is raised again)
        return _stopped_or_bug()


def _stopped() -> int:
    print("interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def _stopped_or_bug() -> int:
    """While compiled modules load, an interrupt may surface as ``ImportError: initialization failed``."""
    if signal.getsignal(signal.SIGINT) is _leave_at_once:  # as ``_interrupt`` leaves it
        return _stopped()
    raise


def _command(arguments: Sequence[str] | None) -> int:
    """Parse and run; how typer ends becomes an exit code. Imported here, so that an interrupt finds ``run`` ready."""
    import typer

    from pddplan.cli.app import build
    from pddplan.errors import EXIT_INPUT, EXIT_OK

    usage_error = typer.BadParameter.__mro__[2]  # ClickException, from whichever click this release of typer brings
    try:
        code = build()(args=arguments, prog_name="pddplan", standalone_mode=False)
        sys.stdout.flush()
        if code == EXIT_INTERRUPTED:  # how typer takes an interrupt
            raise KeyboardInterrupt
        return code if isinstance(code, int) and not isinstance(code, bool) else EXIT_OK
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not isinstance(error, usage_error):
            raise
        error.show()  # type: ignore[attr-defined]
        return EXIT_INPUT


def _mute_output() -> None:
    """Nobody reads on (head, less), or nothing fits: keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code(end: SystemExit) -> int:
    from pddplan.errors import EXIT_INPUT, EXIT_OK

    return end.code if isinstance(end.code, int) else EXIT_OK if end.code is None else EXIT_INPUT


def message(error: PddplanError) -> str:
    """What standard error says about an expected failure."""
    from pddplan.errors import InfeasibleError, InputError

    if isinstance(error, InputError):
        return "\n".join(f"error: {problem}" for problem in error.problems)
    if isinstance(error, InfeasibleError):
        lines = [error.what if "no plan" in error.what else f"no plan: {error.what}"]
        lines += [f"  conflict: {conflict}" for conflict in error.conflicts]
        if error.relaxations:
            lines.append("  any one of these makes it possible:")
        lines += [_relaxed(r) for r in error.relaxations]
        if error.joint:
            lines.append("  all of these together make it possible (the smallest set found, not proven least:")
            lines.append("  each counts 1, plus the fraction of what was asked by which it is relaxed):")
        lines += [_relaxed(r) for r in error.joint]
        return "\n".join(lines)
    return f"error: {error}"


_DIGITS = (4, 6, 9)
"""As few as tell the two sides of a relaxation apart."""


def _relaxed(r: Relaxation) -> str:
    digits = next((d for d in _DIGITS if f"{r.asked:.{d}g}" != f"{r.needed:.{d}g}"), _DIGITS[-1])
    asked, needed = (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}" for value in (r.asked, r.needed))
    return f"    {r.limit}: {asked} -> {needed} {r.unit}   ({r.hint})"


def main() -> None:
    """Console entry point."""
    interrupts = signal.getsignal(signal.SIGINT) != signal.SIG_IGN  # as for a job in the background of a script
    _on_signals(_leave_at_once, _leave_at_once, interrupts=interrupts)
    _open_streams()
    import pddplan.errors  # noqa: F401 (the last thing needed to end in words)

    _on_signals(_interrupt, _terminate, interrupts=interrupts)
    code = run()
    _on_signals(_leave_at_once, _leave_at_once, interrupts=interrupts)
    sys.exit(code)


def _on_signals(interrupt: Handler, terminate: Handler, *, interrupts: bool) -> None:
    signal.signal(signal.SIGTERM, terminate)
    if interrupts:
        signal.signal(signal.SIGINT, interrupt)


def _leave_at_once(number: int, frame: FrameType | None) -> None:
    """Before the work and after it there is nothing to tidy up, and a traceback would say nothing."""
    os._exit(EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_TERMINATED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The first Ctrl-C stops what runs; a search then answers with its best plan so far. The second leaves at once."""
    signal.signal(signal.SIGINT, _leave_at_once)
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    """Asked to end: files that are half written go, as with any exception."""
    raise SystemExit(EXIT_TERMINATED)


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere; characters that a terminal does not have are written as codes."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 (lives as long as the process)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
