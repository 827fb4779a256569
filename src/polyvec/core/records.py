"""Records: one mapping a row, lazy and sliceable, never a list of dicts in memory.

Columnar (`ColumnRecords`), by runs of equal neighbours (`RunRecords`: sections), or lines of a JSONL file found
through a sparse index (`LineRecords`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import one_a_row
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.origins import Once, Part
from polyvec.core.plain import json_default, stored
from polyvec.core.selection import Rows, bounds, one_row, row_numbers
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json, parse_lines, parse_plain

Record = Mapping[str, Any]

LINES_PER_MARK = 256  # a mark of 8 bytes finds 256 lines: a billion records index in 32 MB
SCAN_BYTES = 1 << 20
TAKEN_ROWS = 4096  # of chosen records: fetched together


class Records(Part, ABC):
    """One mapping a row."""

    @abstractmethod
    def __len__(self) -> int: ...

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[Record]:
        """Records ``start`` to ``stop``, in order; the two cut as slices do."""
        return self._iterate(*bounds(start, stop, len(self)))

    @abstractmethod
    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        """Records that are there."""

    def __iter__(self) -> Iterator[Record]:
        return self.iterate(0, len(self))

    def __getitem__(self, key: Any) -> Any:
        """A record by row, a list of records by slice or indices."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return list(self.iterate(start, max(start, stop)))
            return self.take(np.arange(start, stop, step))
        row = one_row(key, len(self), "record")
        if row is not None:
            return self._one(row)
        return self.take(np.asarray(row_numbers(key, len(self), "records")))

    def _one(self, row: int) -> Record:
        return next(self._iterate(row, row + 1))

    def take(self, rows: NDArray[Any]) -> list[Record]:
        """The records of rows that are there, in the order given."""
        return [self._one(int(row)) for row in rows]

    def json_lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Records ``start`` to ``stop`` as lines of JSON, one or more at a time, each with its line break."""
        for record in self.iterate(start, stop):
            yield encode_record(record) + b"\n"

    def runs(self) -> Iterator[tuple[int, int, Record]]:
        """Equal neighbours as ``(start, stop, record)``: sections, where records came from sections."""
        start, current = 0, None
        for row, record in enumerate(self):
            if current is None:
                current = record
            elif record != current:
                yield start, row, current
                start, current = row, record
        if current is not None:
            yield start, len(self), current

    def view(self, rows: Sequence[int] | Rows) -> Records:
        """The records of some rows, by a range, an array of indices or a mask; IndexError beyond the last."""
        return ViewRecords(self, row_numbers(rows, len(self), "records"))

    @property
    def fields(self) -> list[str]:
        """Keys of the first record; a preview, since records need not agree."""
        return list(self[0]) if len(self) else []


class ColumnRecords(Records):
    """Records held as one sequence a field."""

    def __init__(self, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> None:
        self.columns = dict(columns)
        lengths = {len(values) for values in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"fields differ in length: { ({k: len(v) for k, v in self.columns.items()}) }")
        self._length = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._length

    @property
    def fields(self) -> list[str]:
        return list(self.columns)

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        names = list(self.columns)
        for row in range(start, stop):
            found = ((name, self.columns[name][row]) for name in names)
            yield {name: stored(value) if isinstance(value, np.generic) else value for name, value in found}


class ListRecords(Records):
    """Records given as Python mappings, for small collections made in memory."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        yield from self._records[start:stop]


class RunRecords(Records):
    """Records that hold for whole ranges of rows: ``(start, stop, record)``, gaps hold an empty record."""

    def __init__(self, runs: Sequence[tuple[int, int, Record]], rows: int) -> None:
        self._rows = rows
        self._runs: list[tuple[int, int, Record]] = []
        at = 0
        for start, stop, record in runs:
            if start > at:
                self._runs.append((at, start, {}))
            self._runs.append((start, stop, record))
            at = stop
        if at < rows:
            self._runs.append((at, rows, {}))
        self._starts = [run[0] for run in self._runs]

    def __len__(self) -> int:
        return self._rows

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        if start >= stop:
            return
        for first, last, record in self._runs[bisect_right(self._starts, start) - 1 :]:
            for _ in range(max(first, start), min(last, stop)):
                yield record
            if last >= stop:
                return

    def runs(self) -> Iterator[tuple[int, int, Record]]:
        yield from self._runs


class ViewRecords(Records):
    """Some rows of other records."""

    def __init__(self, records: Records, rows: Rows) -> None:
        self._records = records
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        if isinstance(self._rows, range) and self._rows.step == 1:
            first = self._rows.start
            yield from self._records.iterate(first + start, first + stop)
        else:
            for at in range(start, stop, TAKEN_ROWS):
                yield from self._records.take(np.asarray(self._rows[at : min(at + TAKEN_ROWS, stop)]))

    def take(self, rows: NDArray[Any]) -> list[Record]:
        return self._records.take(np.asarray(self._rows)[rows] if len(rows) else rows)

    def json_lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        low, high = bounds(start, stop, len(self))
        if isinstance(self._rows, range) and self._rows.step == 1:
            yield from self._records.json_lines(self._rows.start + low, self._rows.start + high)
        else:
            yield from super().json_lines(low, high)


class ConcatRecords(Records):
    """The records of several collections, one after the other."""

    def __init__(self, many: Sequence[Records]) -> None:
        self._many = many
        self._starts = [0]
        for records in many:
            self._starts.append(self._starts[-1] + len(records))

    def __len__(self) -> int:
        return self._starts[-1]

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        for first, records in zip(self._starts, self._many):
            low, high = max(0, start - first), min(len(records), stop - first)
            if low < high:
                yield from records.iterate(low, high)

    def take(self, rows: NDArray[Any]) -> list[Record]:
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        found: dict[int, Record] = {}
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            found.update(zip(places.tolist(), self._many[owner].take(rows[places] - self._starts[owner])))
        return [found[place] for place in range(len(rows))]

    def json_lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        low, high = bounds(start, stop, len(self))
        for first, records in zip(self._starts, self._many):
            if max(low, first) < min(high, first + len(records)):
                yield from records.json_lines(max(0, low - first), min(len(records), high - first))


class Marks(NamedTuple):
    """Where some lines of a file start."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    lines: int  # in all


class LineRecords(Records):
    """The lines of a JSONL file, one object each; a sparse index is built on first use."""

    def __init__(self, source: Source, rows: int | None = None) -> None:
        self.source = source
        self._expected = rows
        self._marks: Once[Marks] = Once()

    def _index(self) -> Marks:
        return self._marks.get(self._find_marks)

    def _find_marks(self) -> Marks:
        """Lines and where they start: every 256th, and the first of each megabyte, so that none is far."""
        offsets, rows = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        lines, at, size = 0, 0, self.source.size
        while at < size:
            piece = np.frombuffer(self.source.read_at(at, SCAN_BYTES), np.uint8)
            ends = np.flatnonzero(piece == 0x0A)
            chosen = np.arange(-(lines + 1) % LINES_PER_MARK, len(ends), LINES_PER_MARK)
            if len(ends) and (not len(chosen) or chosen[0]):
                chosen = np.concatenate([[0], chosen])
            offsets.append(at + ends[chosen] + 1)
            rows.append(lines + chosen + 1)
            lines += len(ends)
            at += len(piece)
        if size and self.source.read_at(size - 1, 1) != b"\n":
            lines += 1
        if self._expected is not None and lines != self._expected:
            raise Corrupt(
                "the records do not match the rows",
                path=self.source.label,
                field="records",
                expected=f"{self._expected} lines",
                found=f"{lines} lines",
                remedy="rebuild the records file, or convert with --no-sidecar",
            )
        return Marks(np.concatenate(offsets), np.concatenate(rows), lines)

    def __len__(self) -> int:
        if self._expected is not None and not self._marks.made:
            return self._expected
        return self._index().lines

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """Lines ``start`` to ``stop`` in blocks: the first line, its offset, and the bytes."""
        offsets, rows, lines_in_all = self._index()
        block = int(np.searchsorted(rows, start, side="right")) - 1
        while start < stop:
            offset, row = int(offsets[block]), int(rows[block])
            end = int(offsets[block + 1]) if block + 1 < len(offsets) else self.source.size
            last = int(rows[block + 1]) if block + 1 < len(rows) else lines_in_all
            data = self.source.read_at(offset, end - offset)
            if row < start or stop < last:
                lines = data.split(b"\n")
                skipped = sum(map(len, lines[: start - row])) + start - row
                data = b"\n".join(lines[start - row : min(stop, last) - row]) + b"\n"
                offset += skipped
            yield start, offset, data
            start, block = last, block + 1

    def _parse(self, row: int, offset: int, data: bytes) -> list[Record]:
        records = parse_lines(data, path=self.source.label, offset=offset)
        if set(map(type, records)) <= {dict}:
            return records
        return [self._record(row + n, offset, line) for n, line in enumerate(data.removesuffix(b"\n").split(b"\n"))]

    def _record(self, row: int, offset: int, line: bytes) -> Record:
        record = parse_json(line, path=self.source.label, offset=offset)
        if not isinstance(record, dict):
            raise Corrupt(
                "a record is not a JSON object",
                path=self.source.label,
                offset=offset,
                field=f"line {row + 1}",
                expected="{…}",
                found=type(record).__name__,
            )
        return record

    def take(self, rows: NDArray[Any]) -> list[Record]:
        """Records by row; each block of lines is read and cut once, and only the lines asked for are parsed."""
        marks = self._index().rows
        found: dict[int, Record] = {}
        wanted = np.unique(rows)
        blocks = np.searchsorted(marks, wanted, side="right")
        for places in np.split(wanted, np.flatnonzero(np.diff(blocks)) + 1) if len(wanted) else ():
            first = int(places[0])
            for row, offset, data in self._blocks(first, int(places[-1]) + 1):
                lines = data.split(b"\n")
                chosen = [lines[place - row] for place in places.tolist()]
                if (records := parse_plain(b"\n".join(chosen), len(chosen))) is None:
                    ends = np.cumsum([0, *(len(line) + 1 for line in lines)])
                    starts = (offset + ends[places - row]).tolist()
                    records = list(map(self._record, places.tolist(), starts, chosen))
                found.update(zip(places.tolist(), records))
        return [found[int(row)] for row in rows]

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        for row, offset, data in self._blocks(start, stop):
            yield from self._parse(row, offset, data)

    def json_lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The lines as they lie in the file, after a look whether each of them is an object."""
        for row, offset, data in self._blocks(*bounds(start, stop, len(self))):
            self._parse(row, offset, data)
            yield data if data.endswith(b"\n") else data + b"\n"

    def runs(self) -> Iterator[tuple[int, int, Record]]:
        """Equal neighbours; lines of equal bytes are not parsed again."""
        start, current, before = 0, None, None
        for row, offset, data in self._blocks(0, len(self)):
            for number, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
                if line != before:
                    record = self._record(row + number, offset, line)
                    if current is not None and record != current:
                        yield start, row + number, current
                        start = row + number
                    current, before = record, line
                offset += len(line) + 1
        if current is not None:
            yield start, len(self), current


def encode_record(record: Record) -> bytes:
    """A record as JSON, without a line break; `InputError` where JSON has no word for it."""
    try:
        return _ENCODER.encode(record).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a record or metadata cannot be kept beside the output as JSON: {error}; use --no-sidecar (sidecar=False)"
        ) from None


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=json_default)


def as_records(value: Any) -> Records | None:
    """Records from what people hold: records, a list of mappings, or one sequence a field."""
    if value is None or isinstance(value, Records):
        return value
    if isinstance(value, Mapping):
        return ColumnRecords(value)
    records = one_a_row("records", value)
    odd = next((row for row, record in enumerate(records) if not isinstance(record, Mapping)), None)
    if odd is not None:
        raise InputError(
            f"a record is one mapping a row, not {type(records[odd]).__name__} {str(records[odd])[:40]!r} (row {odd})"
        )
    return ListRecords(records)


Filter = Callable[[Record], bool]
