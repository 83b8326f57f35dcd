"""Bytes of a trace: plain or packed, from a file or standard input, with checksum, line numbers and progress."""

from __future__ import annotations

import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.files import home_path
from pddplan.units import KIB, MIB

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC = b"PAR1"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

BLOCK_BYTES = 16 * MIB
"""Bytes of text that are parsed at a time."""
READ_BYTES = MIB
LONGEST_LINE_BYTES = 64 * MIB
UNPACKED_BYTES = 4 * MIB
"""Most that is unpacked at a time: a megabyte of zeros packs into a kilobyte."""
ZSTD_FEED_BYTES = KIB
"""Packed bytes given to zstd at a time; four of them may hold 128 KiB."""
HEAD_BYTES = 4 * MIB
"""Bytes at the start of a file that are looked at to recognise its format."""

Progress = Callable[[int, int | None], None]
"""Called with bytes read so far and bytes in all (None if unknown)."""


@dataclass(slots=True)
class TextBlock:
    """Whole lines of a text file."""

    data: bytes
    first_line: int
    """Number of its first line, counted from 1."""


@dataclass(slots=True)
class Source:
    """One trace file; reads once, front to back."""

    path: Path | None
    """None for standard input."""
    name: str
    progress: Progress | None = None
    byte_order_mark: bool = False
    missing_newline: bool = False
    """The last line had no line end (it may be whole nevertheless)."""
    truncated_archive: bool = False
    """A packed file ended in the middle; what could be unpacked was used."""
    packed: str | None = None
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    _raw: BinaryIO | None = None
    _pending: bytes = b""
    _unpack: _Gunzip | _Unzstd | None = None
    _read_bytes: int = 0
    _size: int | None = None

    @property
    def sha256(self) -> str:
        """Checksum of all bytes read so far, as they are in the file (packed or not)."""
        return self._digest.hexdigest()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file (standard input stays open)."""
        if self._raw is not None and self._raw is not sys.stdin.buffer:
            self._raw.close()

    def head(self) -> bytes:
        """First unpacked bytes; reading goes on from the start afterwards."""
        while len(self._pending) < HEAD_BYTES:
            more = self._next()
            if not more:
                break
            self._pending += more
        return self._pending[:HEAD_BYTES]

    def blocks(self, *, block_bytes: int = BLOCK_BYTES, quotes: bool = False) -> Iterator[TextBlock]:
        """The file in blocks of whole lines.

        Parameters:  block_bytes, about this many bytes per block; quotes, lines may continue inside double quotes
        Raises:      InputError for a line longer than LONGEST_LINE_BYTES or text that is not UTF-8.
        """
        line = 1
        parts: list[bytes] = []
        size, enough = 0, block_bytes
        for chunk in self._chunks():
            parts.append(chunk)
            size += len(chunk)
            if size < enough and size <= LONGEST_LINE_BYTES:
                continue
            data = b"".join(parts)
            cut = _last_line_end(data, quotes=quotes)
            if cut < 0:
                if size > LONGEST_LINE_BYTES:
                    raise InputError(
                        Problem(
                            what=f"a line is longer than {LONGEST_LINE_BYTES // MIB} MiB"
                            + (", or a quotation mark in it is never closed" if quotes else ""),
                            fix="give a trace with one request per line",
                            where=f"{self.name}:{line}",
                        )
                    )
                parts, enough = [data], 2 * size  # joining again for every chunk would take quadratic time
                continue
            yield TextBlock(data[:cut], line)
            line += data.count(b"\n", 0, cut)
            parts, size, enough = [data[cut:]], len(data) - cut, block_bytes
        data = b"".join(parts)
        if data:
            self.missing_newline = not data.endswith(b"\n")
            yield TextBlock(data, line)

    def read_all(self, *, limit: int) -> bytes:
        """All bytes of a small file.

        Raises:  InputError if there are more than ``limit``.
        """
        parts, size = [], 0
        for chunk in self._chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                raise InputError(
                    Problem(
                        what=f"is larger than {limit // MIB} MiB unpacked, too large for one JSON object",
                        fix="write one session per line (JSON lines)",
                        where=self.name,
                    )
                )
        return b"".join(parts)

    def digest_file(self) -> None:
        """Take the checksum of the file without keeping its bytes (for files that a library reads itself)."""
        for _ in iter(self._next, b""):
            self._pending = b""

    def _chunks(self) -> Iterator[bytes]:
        first = True
        while True:
            chunk, self._pending = (self._pending, b"") if self._pending else (self._next(), b"")
            if not chunk:
                return
            if first and chunk.startswith(BYTE_ORDER_MARK):
                self.byte_order_mark = True
                chunk = chunk[len(BYTE_ORDER_MARK) :]
            first = False
            yield chunk

    def _next(self) -> bytes:
        """Next unpacked bytes, empty at the end."""
        assert self._raw is not None
        while True:
            if self._unpack is not None and (data := self._unpack.pull()):
                return data
            try:
                raw = self._raw.read(READ_BYTES)
            except OSError as error:
                raise InputError(
                    Problem(what=f"cannot be read: {error}", fix="check the file", where=self.name)
                ) from None
            if self._read_bytes == 0 and raw:
                self._start(raw)
            self._read_bytes += len(raw)
            self._digest.update(raw)
            if self.progress:
                self.progress(self._read_bytes, self._size)
            if self._unpack is None:
                return raw
            if not raw:
                self.truncated_archive |= not self._unpack.complete
                return b""
            self._unpack.packed = raw

    def _start(self, raw: bytes) -> None:
        if raw.startswith(GZIP_MAGIC):
            self.packed, self._unpack = "gzip", _Gunzip(self.name)
        elif raw.startswith(ZSTD_MAGIC):
            self.packed, self._unpack = "zstd", _Unzstd(self.name)
        elif raw.startswith((b"BZh", b"\xfd7zXZ", b"PK\x03\x04")):
            raise InputError(
                Problem(
                    what="is packed in a way that is not read here",
                    fix="unpack it, or pack it with gzip or zstd",
                    where=self.name,
                )
            )
        elif raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(Problem(what="is UTF-16, not UTF-8", fix="save the file as UTF-8", where=self.name))


def open_source(path: str | Path, *, progress: Progress | None = None) -> Source:
    """Open a file, or standard input for ``-``.

    Raises:  InputError when there is nothing to read.
    """
    if str(path) == "-":
        source = Source(path=None, name="<standard input>", progress=progress)
        source._raw = sys.stdin.buffer
        return source
    file = home_path(path)
    where = str(path)
    try:
        size = file.stat().st_size
        raw = file.open("rb")
    except FileNotFoundError:
        raise InputError(
            Problem(what="there is no such file", fix=f"check the path{_neighbour(file)}", where=where)
        ) from None
    except IsADirectoryError:
        raise InputError(Problem(what="this is a folder", fix="name a file inside it", where=where)) from None
    except PermissionError:
        raise InputError(Problem(what="may not be read", fix="change its permissions", where=where)) from None
    except (OSError, ValueError) as error:
        raise InputError(Problem(what=f"cannot be read: {error}", fix="check the path", where=where)) from None
    if size == 0 and file.is_file():
        raw.close()
        raise InputError(Problem(what="the file is empty", fix="give a trace with at least one request", where=where))
    source = Source(path=file, name=where, progress=progress)
    source._raw, source._size = raw, size or None
    return source


def from_bytes(data: bytes, *, name: str = "<bytes>") -> Source:
    """A source over bytes in memory."""
    source = Source(path=None, name=name)
    source._raw, source._size = io.BytesIO(data), len(data)
    return source


class _Gunzip:
    """Unpacks gzip members one after the other; a file cut off in the middle gives what there is."""

    def __init__(self, name: str) -> None:
        self.name, self.inflate = name, zlib.decompressobj(wbits=31)
        self.packed = b""
        """Bytes that wait to be unpacked."""
        self._more = False

    @property
    def complete(self) -> bool:
        return self.inflate.eof

    def pull(self) -> bytes:
        """Next unpacked bytes, about UNPACKED_BYTES at most; empty when more packed ones are needed."""
        while self.packed or self._more:
            if self.inflate.eof:
                if not self.packed.startswith(GZIP_MAGIC):
                    self.packed = b""  # padding after the last member
                    break
                self.inflate = zlib.decompressobj(wbits=31)
            try:
                data = self.inflate.decompress(self.packed, UNPACKED_BYTES)
            except zlib.error as error:
                raise _damaged(self.name, error) from None
            self.packed = self.inflate.unused_data if self.inflate.eof else self.inflate.unconsumed_tail
            self._more = len(data) == UNPACKED_BYTES and not self.inflate.eof
            if data:
                return data
        return b""


class _Unzstd:
    """The same for zstd frames."""

    def __init__(self, name: str) -> None:
        import zstandard

        self.name, self.error = name, zstandard.ZstdError
        self.new = zstandard.ZstdDecompressor().decompressobj
        self.inflate = self.new()
        self.packed = b""

    @property
    def complete(self) -> bool:
        return bool(self.inflate.eof)

    def pull(self) -> bytes:
        """Next unpacked bytes; empty when more packed ones are needed."""
        start, parts, size = 0, [], 0
        while start < len(self.packed) and size < UNPACKED_BYTES:
            piece = self.packed[start : start + ZSTD_FEED_BYTES]
            start += len(piece)
            try:
                if self.inflate.eof:
                    self.inflate = self.new()
                data = self.inflate.decompress(piece)
            except self.error as error:
                raise _damaged(self.name, error) from None
            start -= len(self.inflate.unused_data) if self.inflate.eof else 0
            parts.append(data)
            size += len(data)
        self.packed = self.packed[start:]
        return b"".join(parts)


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(Problem(what=f"the packed file is damaged: {error}", fix="fetch it again", where=name))


def _last_line_end(data: bytes, *, quotes: bool) -> int:
    """Position after the last line end that may be cut at; -1 if there is none."""
    if not quotes or b'"' not in data:
        return data.rfind(b"\n") + 1 or -1
    end, before = len(data), data.count(b'"')
    while (cut := data.rfind(b"\n", 0, end)) >= 0:
        before -= data.count(b'"', cut, end)
        if before % 2 == 0:
            return cut + 1
        end = cut
    return -1


def _neighbour(path: Path) -> str:
    try:
        return did_you_mean(path.name, [p.name for p in path.parent.iterdir() if p.name != path.name][:1000])
    except (OSError, ValueError):
        return ""
