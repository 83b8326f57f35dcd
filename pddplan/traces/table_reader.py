"""Rows of JSON lines, CSV and Parquet files with one request per row.

Whole blocks go through polars. A block that polars refuses is read again line by line, which is slower and can
say which line is wrong and why.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.traces.events import each_flattened
from pddplan.traces.formats import GENERIC, TableFormat
from pddplan.traces.json_rows import Objects, bad_line, json_objects, number_of, whole_json
from pddplan.traces.keys import UNKNOWN, KeyTable, Names, joined_prints, prints_of
from pddplan.traces.parquet import ROWS_AT_ONCE, parquet_fields, parquet_in_words, refuse_deadly, row_count
from pddplan.traces.recognise import Recognised, path_of, pick
from pddplan.traces.rows import BadRow, Ints, Rows
from pddplan.traces.source import BLOCK_BYTES, Source, TextBlock
from pddplan.traces.times import parse_times
from pddplan.units import MIB

if TYPE_CHECKING:
    import polars as pl

NUMBER_ROLES = ("input", "output", "hit", "appended", "written")
FAILED_WORDS = frozenset({"failed", "failure", "error", "errored", "timeout", "cancelled", "canceled", "aborted"})
ID_WORD = r"[^\s,;\[\](){}\"']+"
"""A block id inside a cell of text."""
LARGEST_ID = 2**63
LARGEST_WHOLE_FLOAT = 2**53
LARGEST_ARRAY_BYTES = 256 * MIB


class TableReader:
    """Reads one table; remembers names of sessions across blocks."""

    def __init__(self, source: Source, found: Recognised, *, block_bytes: int = BLOCK_BYTES) -> None:
        assert found.table is not None
        self.source, self.found, self.block_bytes = source, found, block_bytes
        self.table: TableFormat = found.table
        optional = {role: name for role, name in self.table.optional.items() if name in found.columns}
        self.columns: dict[str, str] = {**self.table.columns, **optional}
        self.sessions = Names()
        self.chats = KeyTable()
        self.text_times = False
        self.mixed = self.table.id == GENERIC and any(self._no_request(row) for row in found.sample)
        """The log holds events of other kinds, too."""

    def rows(self) -> Iterator[Rows]:
        """All rows, block by block."""
        match self.found.container:
            case "jsonl":
                yield from self._json_rows()
            case "json":  # lines are counted by elements
                objects = self._objects(whole_json(self.source, limit=LARGEST_ARRAY_BYTES))
                yield self._slowly((place, row) for place, (_, row) in enumerate(objects, start=1))
            case "csv":
                yield from self._csv_rows()
            case "parquet":
                yield from self._parquet_rows()
            case other:
                raise InputError(
                    Problem(
                        what=f"format {self.table.id} cannot be read from {other}",
                        fix="give JSON lines, CSV or Parquet",
                        where=self.source.name,
                    )
                )

    # -- JSON lines --------------------------------------------------------------------------------------------

    def _json_rows(self) -> Iterator[Rows]:
        import polars as pl

        paths = self._paths()
        schema = self._json_schema(paths)
        for block in self.source.blocks(block_bytes=self.block_bytes):
            if self.mixed or self.found.exported or any(path is None for path in paths.values()):
                yield self._slowly(self._objects(json_objects(block)))
                continue
            try:
                frame = pl.read_ndjson(io.BytesIO(block.data), schema=schema)
                frame = frame.select([_at(path).alias(column) for column, path in paths.items() if path is not None])
            except (pl.exceptions.PolarsError, UnicodeDecodeError, OverflowError, ValueError):
                yield self._slowly(self._objects(json_objects(block)))
                continue
            lines = _line_numbers(block, frame.height)
            yield (
                self._from_frame(frame, lines)
                if lines is not None
                else self._slowly(self._objects(json_objects(block)))
            )

    def _objects(self, objects: Objects) -> Objects:
        return each_flattened(objects) if self.table.id == GENERIC or self.found.exported else objects

    def _no_request(self, row: Mapping[str, Any]) -> bool:
        """Whether an object of a log says nothing of tokens at all."""
        return all(pick(row, self.columns[role]) is None for role in NUMBER_ROLES if role in self.columns)

    def _paths(self) -> dict[str, tuple[str, ...] | None]:
        """Keys that lead to each column; None when they are not the same in all objects."""
        found: dict[str, tuple[str, ...] | None] = {}
        for column in self.columns.values():
            paths = {path for row in self.found.sample if (path := path_of(row, column)) is not None}
            found[column] = next(iter(paths)) if len(paths) == 1 else None
        return found

    def _json_schema(self, paths: Mapping[str, tuple[str, ...] | None]) -> dict[str, pl.DataType]:
        """Types of the columns, inside the objects they stand in."""
        tree: dict[str, Any] = {}
        for column, kind in self._json_types().items():
            inner = tree
            *outer, last = paths[column] or (column,)
            for key in outer:
                inner = inner.setdefault(key, {})
            inner[last] = kind
        return {key: _struct(kind) for key, kind in tree.items()}

    def _json_types(self) -> dict[str, Any]:
        import polars as pl

        schema: dict[str, Any] = {}
        for role, column in self.columns.items():
            values = [value for row in self.found.sample if (value := pick(row, column)) is not None]
            if role == "ids":
                texts = any(isinstance(value, list) and any(isinstance(i, str) for i in value) for value in values)
                schema[column] = pl.List(pl.String if texts else pl.Int64)
            elif role in NUMBER_ROLES:
                schema[column] = pl.Int64
            elif role in ("status", "lane") or any(isinstance(value, str) for value in values):
                schema[column] = pl.String
            else:
                schema[column] = pl.Float64 if role == "time" else pl.Int64
        return schema

    # -- CSV ---------------------------------------------------------------------------------------------------

    def _csv_rows(self) -> Iterator[Rows]:
        import polars as pl

        header: bytes | None = None
        for block in self.source.blocks(block_bytes=self.block_bytes, quotes=True):
            data, lines_before = block.data, block.first_line
            if header is None and self.found.headless:
                header = self.found.delimiter.join(self.found.columns).encode() + b"\n"
            elif header is None:
                blank = len(data) - len(data.lstrip(b"\r\n"))
                end = data.find(b"\n", blank) + 1 or len(data)
                header = data[blank:end].rstrip(b"\r\n") + b"\n"
                data, lines_before = data[end:], block.first_line + data.count(b"\n", 0, end)
            if not data.strip():
                continue
            body = TextBlock(data, lines_before)
            if self._is_ragged(data, header):
                yield self._slowly(self._csv_objects(body))
                continue
            try:
                frame = pl.read_csv(
                    io.BytesIO(header + data), separator=self.found.delimiter, infer_schema=False, low_memory=True
                )
                frame = frame.rename({name: name.strip() for name in frame.columns})
                frame = frame.select(list(dict.fromkeys(self.columns.values())))
            except (pl.exceptions.PolarsError, UnicodeDecodeError, ValueError):
                yield self._slowly(self._csv_objects(body))
                continue
            lines = _line_numbers(body, frame.height)
            yield self._from_frame(frame, lines) if lines is not None else self._slowly(self._csv_objects(body))

    def _is_ragged(self, data: bytes, header: bytes) -> bool:
        """Blank lines, or a last line that breaks off: the fast way would take them for rows of nothing."""
        mark = self.found.delimiter.encode()
        last = data[data.rfind(b"\n") + 1 :]
        return b"\n\n" in data or b"\n\r\n" in data or (last != b"" and last.count(mark) < header.count(mark))

    def _csv_objects(self, block: TextBlock) -> Objects:
        names = self.found.columns
        try:
            text = block.data.decode("utf-8")
        except UnicodeDecodeError:
            text = block.data.decode("utf-8", errors="replace")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.found.delimiter)
        line = block.first_line
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, bad_line(block, line, f"cannot be read as CSV: {error}")
                line = block.first_line + reader.line_num
                continue
            if cells:
                if len(cells) == len(names):
                    yield line, dict(zip(names, cells, strict=True))
                else:
                    yield line, bad_line(block, line, f"has {len(cells)} cells where the header has {len(names)}")
            line = block.first_line + reader.line_num

    # -- Parquet -----------------------------------------------------------------------------------------------

    def _parquet_rows(self) -> Iterator[Rows]:
        import polars as pl

        path = self.source.path
        if path is None or self.source.packed:
            raise InputError(
                Problem(
                    what="Parquet cannot be read from standard input or a packed file",
                    fix="give the path of an unpacked Parquet file",
                    where=self.source.name,
                )
            )
        with parquet_in_words(str(path)):
            fields = parquet_fields(pl.scan_parquet(path).collect_schema())
        names = list(dict.fromkeys(fields[column][0] for column in self.columns.values()))
        wanted = [_at(fields[column]).alias(column) for column in dict.fromkeys(self.columns.values())]
        total = row_count(path)
        refuse_deadly(path, names)
        for start in range(0, total, ROWS_AT_ONCE):
            with parquet_in_words(str(path)):
                frame = pl.scan_parquet(path).select(wanted).slice(start, ROWS_AT_ONCE).collect()
                rows = self._from_frame(frame, np.arange(start + 1, start + 1 + frame.height))
            yield rows
        self.source.digest_file()

    # -- from columns to rows ----------------------------------------------------------------------------------

    def _from_frame(self, frame: pl.DataFrame, lines: Ints) -> Rows:
        """Rows of a block that polars could read."""
        get: Callable[[str], Any] = lambda role: frame[self.columns[role]] if role in self.columns else None  # noqa: E731
        numbers = {role: _floats(get(role)) for role in NUMBER_ROLES if role in self.columns}
        inputs, hits = self._inputs(numbers)
        rows = Rows(line=lines, input_tokens=inputs, output_tokens=numbers["output"], hit_tokens=hits)
        if "time" in self.columns:
            rows.time_s, texts = parse_times(get("time"))
            self.text_times |= texts
        if "status" in self.columns:
            words = get("status").cast(_string()).str.to_lowercase().to_list()
            rows.failed = np.array([_is_failure(word) for word in words], dtype=bool)
        if "session" in self.columns:
            rows.session = self._sessions(get)
        if "ids" in self.columns:
            rows.offsets, rows.ids, broken = _lists(get("ids"))
            if broken.any():
                keep = ~broken
                bad = [BadRow(int(line), "block ids are missing or not whole numbers") for line in lines[broken]]
                rows = rows.take(keep)
                rows.bad = bad
        return rows

    def _slowly(self, objects: Objects) -> Rows:
        """Rows of a block that holds something odd; what cannot be read is named by line."""
        lines: list[int] = []
        bad: list[BadRow] = []
        values: dict[str, list[Any]] = {role: [] for role in self.columns}
        lengths, flat, others = [0], [], 0
        for line, row in objects:
            if isinstance(row, BadRow):
                bad.append(row)
                continue
            if self.mixed and self._no_request(row):
                others += 1
                continue
            fault: str | None = None
            ids: list[int] = []
            cells: dict[str, Any] = {}
            for role, column in self.columns.items():
                cells[role] = pick(row, column)
                if cells[role] is None and column not in row and role not in self.table.optional:
                    fault = f"has no {column!r}"
                    break
            if fault is None:
                fault = self._fault(cells)
            if fault is None and "ids" in cells:
                ids, fault = _id_list(cells["ids"])
            if fault is not None:
                bad.append(BadRow(line, fault))
                continue
            lines.append(line)
            for role, cell in cells.items():
                values[role].append(cell)
            lengths.append(len(ids))
            flat.extend(ids)
        numbers = {role: np.array([number_of(v) for v in values[role]]) for role in NUMBER_ROLES if role in values}
        inputs, hits = self._inputs(numbers)
        rows = Rows(
            line=np.array(lines, dtype=np.int64), input_tokens=inputs, output_tokens=numbers["output"], hit_tokens=hits
        )
        rows.bad, rows.others = bad, others
        if "time" in self.columns:
            rows.time_s, texts = parse_times(values["time"])
            self.text_times |= texts
        if "status" in self.columns:
            rows.failed = np.array([_is_failure(str(word).lower()) for word in values["status"]], dtype=bool)
        if "session" in self.columns:
            rows.session = self._sessions(values.__getitem__)
        if "ids" in self.columns:
            rows.offsets = np.cumsum(np.array(lengths, dtype=np.int64))
            rows.ids = np.array(flat, dtype=np.int64)
        return rows

    def _fault(self, cells: Mapping[str, Any]) -> str | None:
        """Why a row cannot be used, as far as single cells tell."""
        for role in NUMBER_ROLES:
            if role in cells and role not in self.table.optional and math.isnan(number_of(cells[role])):
                return f"{self.columns[role]} must be a number, got {short_text(cells[role])}"
        if "time" in cells and not isinstance(cells["time"], (int, float, str)):
            return f"{self.columns['time']} must be a time, got {short_text(cells['time'])}"
        return None

    def _inputs(self, numbers: Mapping[str, Array]) -> tuple[Array, Array | None]:
        """Input tokens, and reported cached tokens where there are any."""
        hits = numbers.get("hit")
        if hits is not None and "hit" in self.table.optional and not np.isfinite(hits).all():
            hits = np.nan_to_num(hits, nan=0.0)
        if "appended" in numbers and hits is not None:
            written = np.nan_to_num(numbers["written"], nan=0.0) if "written" in numbers else 0.0
            return hits + numbers["appended"] + written, hits
        return numbers["input"], hits

    def _sessions(self, get: Callable[[str], Any]) -> Ints:
        """Number of the conversation of each row; a request without a session is a conversation of its own."""
        names = prints_of(get("session"))
        if "lane" in self.columns:
            names = joined_prints([names, prints_of(get("lane"))])
        if not (self.table.chat_chain and "parent" in self.columns):
            return self.sessions.many(*names)
        return self._chains(names[0], prints_of(get("parent"))[0])

    def _chains(self, chats: Ints, parents: Ints) -> Ints:
        """Conversations of chats that name the chat before."""
        known, known_parent = self.chats.lookup(chats).tolist(), self.chats.lookup(parents).tolist()
        here: dict[int, int] = {}
        numbers = np.empty(chats.size, dtype=np.int64)
        for place, (chat, parent) in enumerate(zip(chats.tolist(), parents.tolist(), strict=True)):
            number = here.get(parent, known_parent[place])
            if number == UNKNOWN:
                number = here.get(chat, known[place])
            if number == UNKNOWN:
                number = int(self.sessions.fresh(1)[0])
            here[chat] = numbers[place] = number
        new = np.unique(chats[self.chats.lookup(chats) == UNKNOWN])
        self.chats.insert(new, np.array([here[chat] for chat in new.tolist()], dtype=np.int32))
        return numbers


def _line_numbers(block: TextBlock, rows: int) -> Ints | None:
    """Line of each row when every line is a row (the usual case); None when that is not so."""
    ends = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    if ends != rows:
        return None
    return np.arange(block.first_line, block.first_line + rows, dtype=np.int64)


def _at(path: Sequence[str]) -> pl.Expr:
    """The column that stands inside objects at the end of a path."""
    import polars as pl

    found = pl.col(path[0])
    for key in path[1:]:
        found = found.struct.field(key)
    return found


def _struct(kind: Any) -> Any:
    """Type of an object with these types inside, or the type itself."""
    import polars as pl

    return pl.Struct({key: _struct(inner) for key, inner in kind.items()}) if isinstance(kind, dict) else kind


def _floats(series: Any) -> Array:
    """Numbers of a column; NaN for nothing, and for text that is no number."""
    import polars as pl

    if series.dtype == pl.String:
        series = series.str.strip_chars().cast(pl.Float64, strict=False)
    elif not series.dtype.is_numeric():
        return np.full(len(series), np.nan)
    return np.asarray(series.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _lists(series: Any) -> tuple[Ints, Ints, np.ndarray]:
    """Offsets, ids, and which rows have no usable list (those count as empty)."""
    import polars as pl

    if series.dtype == pl.String:  # CSV: "[1, 2, 3]", "1 2 3" or "['a1', 'b2']"
        series = series.str.extract_all(ID_WORD)
        ids = _word_ids(series.explode(empty_as_null=False, keep_nulls=False))
        broken = series.is_null().to_numpy()
    elif series.dtype in (pl.List(pl.String), pl.List(pl.Binary)):
        if series.dtype == pl.List(pl.Binary):
            series = series.list.eval(pl.element().bin.encode("hex"))
        flat = series.explode(empty_as_null=False, keep_nulls=False).hash(seed=0)
        ids = flat.to_numpy().view(np.int64)
        broken = (series.is_null() | series.list.eval(pl.element().is_null()).list.any()).to_numpy()
    else:
        if series.dtype == pl.List(pl.UInt64):
            series = series.list.eval(pl.element().reinterpret(signed=True))
        series = series.cast(pl.List(pl.Int64))
        flat = series.explode(empty_as_null=False, keep_nulls=False)
        broken = series.is_null().to_numpy()
        if flat.null_count():
            inner = series.list.eval(pl.element().is_null()).list.any().fill_null(False)
            broken = broken | inner.to_numpy()
            flat = flat.fill_null(0)
        ids = np.asarray(flat.to_numpy(), dtype=np.int64)
    lengths = series.list.len().fill_null(0).to_numpy().astype(np.int64)
    return np.concatenate(([0], np.cumsum(lengths))), ids, np.asarray(broken, dtype=bool)


def _word_ids(words: Any) -> Ints:
    """Ids of words: whole numbers of 64 bits as they are, other words by their print."""
    import polars as pl

    signed, unsigned = words.cast(pl.Int64, strict=False), words.cast(pl.UInt64, strict=False)
    ids = signed.fill_null(unsigned.reinterpret(signed=True))
    return np.asarray(ids.fill_null(words.hash(seed=0).reinterpret(signed=True)).to_numpy(), dtype=np.int64)


def _id_list(value: Any) -> tuple[list[int], str | None]:
    if isinstance(value, str):
        words = re.findall(ID_WORD, value)
        value = [int(word) if re.fullmatch(r"[+-]?\d{1,20}", word) else word for word in words]
    if not isinstance(value, list):
        return [], f"block ids must be a list, got {_kind(value)}"
    ids = []
    for item in value:
        if isinstance(item, str):
            ids.append(_text_id(item))
        elif isinstance(item, float) and item.is_integer() and abs(item) < LARGEST_WHOLE_FLOAT:
            ids.append(int(item))
        elif isinstance(item, int) and not isinstance(item, bool):
            wide = not -LARGEST_ID <= item < 2 * LARGEST_ID
            ids.append(_text_id(str(item)) if wide else (item + LARGEST_ID) % (2 * LARGEST_ID) - LARGEST_ID)
        else:
            return [], f"block ids must be whole numbers or texts, got {_kind(item)}"
    return ids, None


def _text_id(text: str) -> int:
    """Same number for a text id as the fast way gives."""
    import polars as pl

    text = text.encode(errors="replace").decode()
    return int(pl.Series([text]).hash(seed=0).to_numpy().view(np.int64)[0])


def _is_failure(status: str | None) -> bool:
    """Whether a status is a word for failure, or an HTTP code of one."""
    return status in FAILED_WORDS or (status is not None and re.fullmatch(r"[45]\d\d(\.0)?", status) is not None)


def _kind(value: object) -> str:
    """What a value is, without showing it: ids are nobody's business."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def short_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _string() -> Any:
    import polars as pl

    return pl.String
