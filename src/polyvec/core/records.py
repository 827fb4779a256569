"""Records: one mapping a row, lazy and sliceable, never a list of dicts in memory.

Columnar (`ColumnRecords`), by runs of equal neighbours (`RunRecords`: sections), or lines of a JSONL file found
through a sparse index (`LineRecords`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt
from polyvec.core.files import Source
from polyvec.core.selection import Rows, bounds, one_row, row_numbers
from polyvec.core.strict_json import parse_json

Record = Mapping[str, Any]

LINES_PER_MARK = 256  # a mark of 8 bytes finds 256 lines: a billion records index in 32 MB
SCAN_BYTES = 1 << 20


class Records(ABC):
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
            return [self._one(row) for row in range(start, stop, step)]
        row = one_row(key, len(self), "record")
        if row is not None:
            return self._one(row)
        return [self._one(int(row)) for row in np.asarray(row_numbers(key, len(self), "records"))]

    def _one(self, row: int) -> Record:
        return next(self._iterate(row, row + 1))

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
            yield {name: _plain(self.columns[name][row]) for name in names}


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
            for row in self._rows[start:stop]:
                yield self._records[int(row)]


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


class LineRecords(Records):
    """The lines of a JSONL file, one object each; a sparse index is built on first use."""

    def __init__(self, source: Source, rows: int | None = None) -> None:
        self.source = source
        self._expected = rows
        self._marks: list[int] | None = None
        self._length = 0

    def _index(self) -> list[int]:
        if self._marks is None:
            marks, lines, at, size = [0], 0, 0, self.source.size
            while at < size:
                piece = np.frombuffer(self.source.read_at(at, SCAN_BYTES), np.uint8)
                ends = np.flatnonzero(piece == 0x0A)
                first = -(lines + 1) % LINES_PER_MARK
                marks.extend(int(at + end + 1) for end in ends[first::LINES_PER_MARK])
                lines += len(ends)
                at += len(piece)
            if size and self.source.read_at(size - 1, 1) != b"\n":
                lines += 1
            if self._expected is not None and lines != self._expected:
                raise Corrupt(
                    "the records do not match the rows", path=self.source.label, field="records",
                    expected=f"{self._expected} lines", found=f"{lines} lines",
                    remedy="rebuild the records file, or convert with --no-sidecar",
                )  # fmt: skip
            self._marks, self._length = marks, lines
        return self._marks

    def __len__(self) -> int:
        if self._expected is not None and self._marks is None:
            return self._expected
        self._index()
        return self._length

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        if start >= stop:
            return
        marks = self._index()
        offset = marks[start // LINES_PER_MARK]
        skip = start % LINES_PER_MARK
        row = start
        for at, line in _lines(self.source, offset):
            if skip:
                skip -= 1
                continue
            record = parse_json(line, path=self.source.label, offset=at)
            if not isinstance(record, dict):
                raise Corrupt("a record is not a JSON object", path=self.source.label, offset=at,
                              field=f"line {row + 1}", expected="{…}", found=type(record).__name__)  # fmt: skip
            yield record
            row += 1
            if row >= stop:
                return


def _lines(source: Source, offset: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their offsets, from ``offset`` on."""
    rest, at = b"", offset
    while piece := source.read_at(offset, SCAN_BYTES):
        offset += len(piece)
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield at, line
            at += len(line) + 1
    if rest:
        yield at, rest


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def as_records(value: Any) -> Records | None:
    """Records from what people hold: records, a list of mappings, or one sequence a field."""
    if value is None or isinstance(value, Records):
        return value
    if isinstance(value, Mapping):
        return ColumnRecords(value)
    return ListRecords(list(value))


Filter = Callable[[Record], bool]
