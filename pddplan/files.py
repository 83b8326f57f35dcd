"""Reading and writing files: bounded and in words; what is written appears whole or not at all.

The path ``-`` means standard input or output, as everywhere on a command line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from pddplan.errors import InputError, Problem, did_you_mean

STANDARD_STREAM = "-"
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
_STANDARD_OUTPUTS = (STANDARD_STREAM, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Other names of standard output: a file behind it must not be replaced while more is printed to it."""

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or write to another disk"),
    errno.EROFS: ("the file system is read-only", "write to a folder that can be written"),
    errno.EACCES: ("permission denied", "write to a folder that you own, or change its permissions"),
    errno.EPERM: ("permission denied", "write to a folder that you own, or change its permissions"),
    errno.EFBIG: ("it would be larger than a file may be here", "raise the limit (ulimit -f), or write elsewhere"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter file name"),
}


def home_path(path: str | Path) -> Path:
    """A path with ``~`` and ``~user`` written out.

    Raises:  InputError when there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        _refuse("whose home is this? There is no such user", fix="check the path", where=str(path))


def is_file(path: Path) -> bool:
    """Whether there is such a file; no file has a name that no file system takes."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is such a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two names lead to the same file, which need not exist yet."""
    try:
        return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def read_bytes(path: str | Path, *, limit: int, name: str | None = None) -> bytes:
    """Bytes of a file or of standard input (``-``), at most ``limit`` of them.

    Raises:  InputError when there is nothing to read, or more than that.
    """
    shown = name or str(path)
    try:
        if str(path) == STANDARD_STREAM:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with home_path(path).open("rb") as stream:
                data = stream.read(limit + 1)
    except FileNotFoundError:
        _refuse("there is no such file", fix=f"check the path{_neighbour(Path(path))}", where=shown)
    except IsADirectoryError:
        _refuse("this is a folder, not a file", fix="name a file inside it", where=shown)
    except PermissionError:
        _refuse("the file may not be read", fix="change its permissions", where=shown)
    except (OSError, ValueError) as error:
        _refuse(f"cannot be read: {error}", fix="check the path", where=shown)
    if len(data) > limit:
        _refuse(f"is larger than {limit:,} bytes", fix="this kind of file is small; is it the right one?", where=shown)
    return data


def decode(data: bytes, *, name: str) -> str:
    """UTF-8 text of a file, with or without byte-order mark.

    Raises:  InputError for another encoding, and for a packed file.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse("is UTF-16, not UTF-8", fix="save the file as UTF-8", where=name)
    if data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")):
        _refuse("is a compressed file, not text", fix="decompress it first", where=name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _refuse(
            f"is not UTF-8 text (byte 0x{data[error.start]:02x})", fix="save the file as UTF-8", where=f"{name}:{line}"
        )


def read_text(path: str | Path, *, limit: int, name: str | None = None) -> str:
    """UTF-8 text of a file of at most ``limit`` bytes.

    Raises:  InputError as ``read_bytes`` and ``decode``.
    """
    return decode(read_bytes(path, limit=limit, name=name), name=name or str(path))


def _neighbour(path: Path) -> str:
    try:
        return did_you_mean(path.name, [p.name for p in path.parent.iterdir()][:1000])
    except (OSError, ValueError):
        return ""


def _refuse(what: str, *, fix: str, where: str) -> NoReturn:
    raise InputError(Problem(what=what, fix=fix, where=where))


def is_standard_output(path: str | Path) -> bool:
    """Whether this names standard output."""
    return str(path) in _STANDARD_OUTPUTS


def is_replaced(path: str | Path) -> bool:
    """Whether writing here makes a file or replaces one; devices, pipes and standard output are written directly."""
    if is_standard_output(path):
        return False
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        target = Path(path).expanduser()
        return target.is_file() or not target.exists()
    return False


def check_target(path: str | Path) -> None:
    """Say before any work is done what writing would run into at its end.

    Raises:  InputError when the folder is missing, the target is a folder, or either may not be written.
    """
    if not is_standard_output(path):
        with _in_words(str(path)):
            target = _resolved(path)
            if is_replaced(target):
                tempfile.TemporaryFile(dir=target.parent).close()


def write_atomically(path: str | Path, content: str | bytes, *, encoding: str = "utf-8") -> None:
    """Write ``content`` to ``path`` so that a reader sees either the old file or the whole new one.

    The content goes to a temporary file in the same folder, which is then renamed over the target.
    A symbolic link is followed, so that it keeps pointing where it did; permissions of an existing file stay,
    and a file that may not be written is not replaced either.
    Devices (``/dev/null``) and pipes are written directly, because they cannot be replaced.

    Raises:  InputError when the folder is missing or cannot be written, or the disk is full.
    """
    data = _encoded(content, encoding, shown=str(path)) if isinstance(content, str) else content
    if is_standard_output(path):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with _in_words(str(path)):
        target = _resolved(path)
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        _replace(target, data)


def append(path: str | Path, text: str) -> None:
    """Add text at the end of a file, on disk before this returns.

    Raises:  InputError as ``write_atomically``.
    """
    with _in_words(str(path)), _resolved(path).open("ab") as stream:
        stream.write(_encoded(text, "utf-8", shown=str(path)))


@contextlib.contextmanager
def _in_words(shown: str) -> Iterator[None]:
    """Turn what the system says about a target into an InputError."""
    try:
        yield
    except OSError as error:
        reason, fix = _REASONS.get(error.errno or 0, (error.strerror or str(error), "check the path"))
        raise InputError(Problem(what=f"cannot write the file: {reason}", fix=fix, where=shown)) from error
    except (ValueError, RuntimeError) as error:  # a NUL byte in the name; ~user without such a user; a loop of links
        raise InputError(Problem(what=f"not a usable file name: {error}", fix="check the path", where=shown)) from error


def _encoded(text: str, encoding: str, *, shown: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        piece = ascii(text[max(error.start - 10, 0) : error.end + 10])
        _refuse(
            f"cannot write the file: a character in {piece} has no place in {encoding}",
            fix="correct the name or text it comes from",
            where=shown,
        )


def _resolved(path: str | Path) -> Path:
    """Where a target really is; refused when it cannot be written."""
    named = Path(path).expanduser()
    # a pipe behind /dev/fd has no path of its own: it is written under the name given
    target = named if named.exists() and not named.is_file() else named.resolve()
    if target.is_dir():
        _refuse("cannot write the file: this is a folder", fix="give a file name inside it", where=str(path))
    folder = target.parent
    if not folder.is_dir():
        _refuse(
            f"cannot write the file: there is no folder {str(folder)!r}",
            fix=f"create it first (mkdir -p {folder}), or write elsewhere",
            where=str(path),
        )
    if target.is_file():
        target.open("r+b").close()  # a file that may not be written is not replaced either
    return target


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


@contextlib.contextmanager
def muted(descriptor: int) -> Iterator[None]:
    """Point a standard stream at the null device for a while: silences libraries that write past Python."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        kept = os.dup(descriptor)
    except OSError:  # started without this stream: nothing to keep clean
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
        yield
        sys.stdout.flush()
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
        os.close(null)
