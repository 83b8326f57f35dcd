"""Writing output: a file appears whole or not at all, and a failure says what to do.

The path ``-`` means standard output, as everywhere on a command line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from pathlib import Path

from pddplan.errors import InputError, Problem

STANDARD_STREAM = "-"

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or write to another disk"),
    errno.EROFS: ("the file system is read-only", "write to a folder that can be written"),
    errno.EACCES: ("permission denied", "write to a folder that you own, or change its permissions"),
    errno.EPERM: ("permission denied", "write to a folder that you own, or change its permissions"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter file name"),
}


def write_atomically(path: str | Path, content: str | bytes, *, encoding: str = "utf-8") -> None:
    """Write ``content`` to ``path`` so that a reader sees either the old file or the whole new one.

    The content goes to a temporary file in the same folder, which is then renamed over the target.
    A symbolic link is followed, so that it keeps pointing where it did; permissions of an existing file stay.
    Devices (``/dev/null``) and pipes are written directly, because they cannot be replaced.

    Raises:  InputError when the folder is missing or cannot be written, or the disk is full.
    """
    data = content.encode(encoding) if isinstance(content, str) else content
    if str(path) == STANDARD_STREAM:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    shown = str(path)
    try:
        target = Path(path).expanduser().resolve()
        _refuse_bad_target(target, shown)
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        _replace(target, data)
    except OSError as error:
        reason, fix = _REASONS.get(error.errno or 0, (error.strerror or str(error), "check the path"))
        raise InputError(Problem(what=f"cannot write the file: {reason}", fix=fix, where=shown)) from error
    except (ValueError, RuntimeError) as error:  # a NUL byte in the name; ~user without such a user; a loop of links
        raise InputError(Problem(what=f"not a usable file name: {error}", fix="check the path", where=shown)) from error


def _refuse_bad_target(target: Path, shown: str) -> None:
    if target.is_dir():
        raise InputError(
            Problem(what="cannot write the file: this is a folder", fix="give a file name inside it", where=shown)
        )
    if not target.parent.is_dir():
        raise InputError(
            Problem(
                what=f"cannot write the file: there is no folder {str(target.parent)!r}",
                fix=f"create it first (mkdir -p {target.parent}), or write elsewhere",
                where=shown,
            )
        )


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode_for(target))
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _mode_for(target: Path) -> int:
    """Permissions of the file that is replaced, or what a new file would get."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
