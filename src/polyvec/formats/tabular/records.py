"""The rows of a table of Arrow data as records: what is neither vectors nor ids. Not a format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.exchange import arrow, number_type, text_type
from polyvec.core.plain import stored
from polyvec.core.records import ListRecords, Record, Records
from polyvec.core.strict_json import parse_json
from polyvec.formats.tabular.table import SCAN_ROWS, Table

MISSING = object()  # a field that a record does not have


class TableRecords(Records):
    """The columns of a table that are nothing else, as one mapping a row."""

    def __init__(self, table: Table, names: Mapping[str, str], texts: Sequence[str] = ()) -> None:
        self._table = table
        self._keys = dict(names)  # name in the table -> key
        self._texts = set(texts)
        self._cursor = table.cursor(*names) if names else None

    def __len__(self) -> int:
        return self._table.rows

    @property
    def fields(self) -> list[str]:
        return list(self._keys.values())

    def _by_value(self, protocol: Any) -> Any:
        return ListRecords, (list(self),)

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        if self._cursor is None:
            for _ in range(start, stop):
                yield {}
            return
        for at in range(start, stop, SCAN_ROWS):
            for first, batch in self._cursor.read(at, min(at + SCAN_ROWS, stop), SCAN_ROWS):
                yield from self._rows(batch, first)

    def _rows(self, batch: Any, first: int, places: NDArray[np.int64] | None = None) -> list[Record]:
        """The rows of a batch, or some; columns are made plain as a whole, and only where their type needs it."""
        columns: list[list[Any]] = []
        for name in self._keys:
            with self._table.wrapped():
                array = batch.column(name)
                values = array.to_pylist() if places is None else picked(array, places)
            if name in self._texts:
                numbers = range(len(values)) if places is None else places.tolist()
                values = [self._value(name, value, first + row) for row, value in zip(numbers, values)]
            elif number_type(array.type) is None and not text_type(array.type):
                values = [stored(value) for value in values]
            columns.append(values)
        keys = list(self._keys.values())
        if not self._texts:
            return [dict(zip(keys, row)) for row in zip(*columns)]
        return [{key: value for key, value in zip(keys, row) if value is not MISSING} for row in zip(*columns)]

    def _value(self, name: str, text: str | None, place: int) -> Any:
        if text is None:  # null: the record has no such field
            return MISSING
        return parse_json(text.encode("utf-8"), path=self._table.label, field=f"{name}, row {place}")

    def take(self, rows: NDArray[Any]) -> list[Record]:
        """Records by row, in one pass over the groups that have some."""
        if self._cursor is None:
            return [{} for _ in rows]
        found: dict[int, Record] = {}
        wanted = np.unique(rows)
        for places in np.split(wanted, np.flatnonzero(np.diff(wanted // SCAN_ROWS)) + 1) if len(wanted) else ():
            for first, batch in self._cursor.read(int(places[0]), int(places[-1]) + 1, SCAN_ROWS):
                inside = places[(places >= first) & (places < first + batch.num_rows)]
                found.update(zip(inside.tolist(), self._rows(batch, first, inside - first)))
        return [found[int(row)] for row in rows]


def picked(array: Any, places: NDArray[np.int64]) -> list[Any]:
    """Some values of an Arrow array; one by one where Arrow has no way to take them, as of views of text."""
    pa = arrow()
    try:
        values: list[Any] = array.take(pa.array(places)).to_pylist()
    except pa.ArrowNotImplementedError:
        values = [array[place].as_py() for place in places.tolist()]
    return values
