"""Ways to spoil a file: as text, as structured data, as a table, as bytes, and the monsters nobody writes by hand.

Everything is drawn from a ``random.Random`` that the caller seeds: the same seed spoils the same file the same way.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = (
    "0", "-0.0", "-1", "1", "0.5", "1e308", "-1e308", "1.7976931348623157e308", "1e309", "5e-324", "1e-300", "1e22",
    "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 39, "9" * 400,
    "NaN", "nan", ".nan", "inf", "-inf", ".inf", "-.inf", "Infinity", "-Infinity", "0x1F", "0o17", "0b1", "1_000",
    "1,000", "1.000,5", "1e", "--1", "+5", "1e12", "1E400", "٣", "½", "1/2", "50%", "1e3.5", "0.9999999999999999",
)  # fmt: skip
WORDS = (
    "", " ", "null", "~", "true", "false", "yes", "no", "on", "off", "[]", "{}", "[1, 2]", "{a: 1}", "12:30:45",
    "2026-01-01", "<<", "*a", "&a", "!!python/object:os.system", "!!binary aGk=", "|", ">", "%", "@", "`", "'", '"',
    "\\", "../../etc/passwd", "/dev/zero", "%s%n", "{0}", "${HOME}", "<script>", "=1+1", "é", "漢字", "\u202e", "\x00",
    "\x1b[31m", "\r", "\t", "\u2028", "\ufeff", "\U0001f4a5", "x" * 3000, "TP8", "bf16", "fp8", "USD", "P", "MD",
)  # fmt: skip
TOKENS = NUMBERS + WORDS
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -0.0, -1, 1, 0.5, 2, 10**6, 10**9, 1e308, -1e308, 5e-324, 1e-300, 2**31, 2**63, 2**64,
    10**40, float("nan"), float("inf"), float("-inf"), "", " ", "1e5", "nan", "inf", "abc", "é漢", "\ud800",
    "\x00", "x" * 3000, [], {}, [[]], [None], [1, 2, 3], [float("nan")], {"a": 1}, {"": None}, "null", "-1",
    [[1, 2], [3]], {"mean": "x"}, {"mean": None}, {"value": float("nan")}, "2026-01-01T00:00:00", 1.5, 3.0,
)  # fmt: skip
_SCALAR = re.compile(rb"[-+]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(rb"[A-Za-z][A-Za-z0-9_.-]*")

Mutator = Callable[[bytes, random.Random], bytes]


# -- text ------------------------------------------------------------------------------------------------------------


def _token(rng: random.Random) -> bytes:
    return rng.choice(TOKENS).encode("utf-8", errors="surrogatepass")


def replace_number(data: bytes, rng: random.Random) -> bytes:
    """Another text where a number stood."""
    return _replace_match(data, _SCALAR, rng)


def replace_word(data: bytes, rng: random.Random) -> bytes:
    """Another text where a word stood."""
    return _replace_match(data, _WORD, rng)


def _replace_match(data: bytes, pattern: re.Pattern[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    found = pattern.search(data, start) or pattern.search(data)
    return data if found is None else data[: found.start()] + _token(rng) + data[found.end() :]


def spoil_lines(data: bytes, rng: random.Random) -> bytes:
    """Lines dropped, doubled, swapped, indented, cut."""
    lines = data.split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[place]
        case 1:
            lines.insert(other, lines[place])
        case 2:
            lines[place], lines[other] = lines[other], lines[place]
        case 3:
            lines[place] = b" " * rng.randrange(1, 5) + lines[place]
        case 4:
            lines[place] = lines[place].lstrip()
        case _:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
    return b"\n".join(lines)


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, inserted, removed."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(spoiled) + 1)
        match rng.randrange(4):
            case 0 if place < len(spoiled):
                spoiled[place] = rng.randrange(256)
            case 1 if place < len(spoiled):
                del spoiled[place : place + rng.choice((1, 1, 4, 64))]
            case 2:
                spoiled[place:place] = _token(rng)
            case _:
                spoiled[place:place] = bytes([rng.choice(b"\x00\xff\n\r\t{}[],:\"'#&*!|>%-")])
    return bytes(spoiled)


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Only the start of the file."""
    return data[: rng.randrange(len(data) + 1)]


def recode(data: bytes, rng: random.Random) -> bytes:
    """Another encoding or other line ends."""
    text = data.decode("utf-8", errors="replace")
    match rng.randrange(7):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("utf-16-le", errors="replace")
        case 2:
            return (text + " é ü").encode("latin-1", errors="replace")
        case 3:
            return b"\xef\xbb\xbf" + data
        case 4:
            return data.replace(b"\n", b"\r\n")
        case 5:
            return data.replace(b"\n", b"\r")
        case _:
            return data.replace(b"\n", b"\n\x00", 1)


def insert_piece(data: bytes, rng: random.Random) -> bytes:
    """A piece of the file again elsewhere."""
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 10, 100, 1000))]
    place = rng.randrange(len(data) + 1)
    return data[:place] + piece * rng.choice((1, 1, 3)) + data[place:]


TEXT: tuple[Mutator, ...] = (
    replace_number, replace_number, replace_number, replace_word, spoil_lines, spoil_lines, spoil_bytes, truncate,
    recode, insert_piece,
)  # fmt: skip


# -- structured data -------------------------------------------------------------------------------------------------


def spoil_json(data: bytes, rng: random.Random) -> bytes:
    """One or more values of a JSON document exchanged, removed or added; numbers as other programs write them."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        tree = spoil_tree(tree, rng)
    return json.dumps(tree).encode()


def spoil_json_lines(data: bytes, rng: random.Random) -> bytes:
    """The same for one line of JSON lines."""
    lines = data.splitlines()
    for _ in range(rng.choice((1, 1, 3))):
        place = rng.randrange(len(lines))
        try:
            lines[place] = spoil_json(lines[place], rng)
        except ValueError:
            continue
    return b"\n".join(lines) + b"\n"


def spoil_tree(tree: Any, rng: random.Random) -> Any:
    """A copy of plain data with one place changed."""
    tree = copy.deepcopy(tree)
    places: list[tuple[Any, Any]] = []
    _collect(tree, places, limit=4000)
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("", "x", "schema", "a" * 300, "__class__", "$type"))] = copy.deepcopy(rng.choice(VALUES))
        case 1:
            holder.insert(key, copy.deepcopy(holder[key]))
        case 2:
            holder[key] = [holder[key]]
        case 3:
            holder[key] = str(holder[key])
        case 4 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * rng.choice((-1, 0, 1e-9, 1e3, 1e9, 1e30))
        case _:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    return tree


def _collect(tree: Any, places: list[tuple[Any, Any]], *, limit: int) -> None:
    if len(places) >= limit:
        return
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        places.append((tree, key))
        _collect(value, places, limit=limit)


# -- tables ----------------------------------------------------------------------------------------------------------


def spoil_cells(data: bytes, rng: random.Random) -> bytes:
    """Cells exchanged, columns dropped or doubled, quotes opened."""
    rows = [line.split(b",") for line in data.split(b"\n")]
    place = rng.randrange(len(rows))
    column = rng.randrange(len(rows[place]))
    match rng.randrange(6):
        case 0:
            rows = [row[:column] + row[column + 1 :] for row in rows]
        case 1:
            rows = [[*row, row[min(column, len(row) - 1)]] for row in rows]
        case 2:
            rows[place][column] = b'"' + rows[place][column]
        case 3:
            rows[0][min(column, len(rows[0]) - 1)] = _token(rng)
        case _:
            for _ in range(rng.choice((1, 1, 4))):
                place = rng.randrange(len(rows))
                rows[place][rng.randrange(len(rows[place]))] = _token(rng)
    return b"\n".join(b",".join(row) for row in rows)


# -- packed files ----------------------------------------------------------------------------------------------------


def spoil_packed(data: bytes, rng: random.Random) -> bytes:
    """A packed file, damaged, cut off, packed twice, or with something behind it."""
    packed = gzip.compress(data, compresslevel=1, mtime=0)
    if rng.random() < 0.4:
        import zstandard

        packed = zstandard.ZstdCompressor(level=1).compress(data)
    match rng.randrange(6):
        case 0:
            return packed[: rng.randrange(len(packed))]
        case 1:
            return spoil_bytes(packed, rng)
        case 2:
            return gzip.compress(packed, compresslevel=1, mtime=0)
        case 3:
            return packed + packed
        case 4:
            return packed + bytes(rng.randrange(1, 100))
        case _:
            return packed + b"garbage"


# -- monsters --------------------------------------------------------------------------------------------------------


def alias_bomb() -> bytes:
    """Nine levels of nine aliases: a billion laughs."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join(['*' + before] * 9)}]")
    return "\n".join(lines).encode()


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=1).compress(data)


def monsters() -> dict[str, Callable[[], bytes]]:
    """Files that are large, deep, empty or not of any kind, made when called; every reader gets all of them."""
    deep = 100_000
    ten_mb = 10_000_000
    return {
        "empty": lambda: b"",
        "blank": lambda: b" \n\n\t\n",
        "NUL bytes": lambda: bytes(5000),
        "high bytes": lambda: b"\xff" * 5000,
        "UTF-16": lambda: "schema: chip/1\n".encode("utf-16"),
        "alias bomb": lambda: alias_bomb(),
        "alias of itself": lambda: b"a: &a [*a]\n",
        "deep lists": lambda: b"[" * deep + b"]" * deep,
        "deep JSON mapping": lambda: b'{"a":' * deep + b"1" + b"}" * deep,
        "deep YAML": lambda: b"\n".join(b" " * n + b"a:" for n in range(3000)),
        "ten megabytes in a line": lambda: b"schema: " + b"x" * ten_mb,
        "ten megabytes of digits": lambda: b"1" * ten_mb,
        "ten megabytes of JSON": lambda: b'{"a": "' + b"x" * ten_mb + b'"}',
        "ten megabytes of commas": lambda: b"a,b\n" + b"," * ten_mb,
        "ten megabytes of quotes": lambda: b'"' * ten_mb,
        "many values": lambda: b"a: [" + b"1," * 4_000_000 + b"1]",
        "many JSON lists": lambda: b'{"a": [' + b"[]," * 3_000_000 + b"[]]}",
        "many small mappings": lambda: b"a: [" + b"{}," * 3_000_000 + b"{}]",
        "many lines of numbers": lambda: b"1,2,3\n" * 1_500_000,
        "many lines with an open quotation mark": lambda: b'a,b\n"' + b"1,2\n" * 2_000_000,
        "many keys": lambda: b"\n".join(b"k%d: 1" % n for n in range(200_000)),
        "many JSON keys": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b"}",
        "many short lines": lambda: b"1\n" * 2_000_000,
        "many empty objects": lambda: b"{}\n" * 200_000,
        "one key twice": lambda: b"schema: chip/1\nschema: chip/1\n",
        "one JSON key twice": lambda: b'{"a": 1, "a": 2}',
        "gzip bomb": lambda: gzip.compress(bytes(300_000_000), compresslevel=9, mtime=0),
        "zstd bomb": lambda: _zstd(bytes(100_000_000)) * 10,
        "zeros in many gzip members": lambda: gzip.compress(bytes(10_000_000), mtime=0) * 100,
        "list of numbers": lambda: b"[1e999, -1e999, NaN, Infinity, 1e-999]",
        "a number": lambda: b"7",
        "a word": lambda: b"null",
        "zip": lambda: b"PK\x03\x04" + bytes(100),
        "parquet": lambda: b"PAR1" + bytes(100) + b"PAR1",
        "many documents": lambda: b"---\na: 1\n" * 10_000,
    }
