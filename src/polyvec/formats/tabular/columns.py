"""Columns and strings of a table of Arrow data, read batch by batch and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import Array, Block, Codec, Raw, bounded_rows, rows_per_block
from polyvec.core.columns import ArrayColumn, Column, clusters
from polyvec.core.errors import Corrupt, FormatError
from polyvec.core.exchange import arrow
from polyvec.core.origins import Once
from polyvec.core.vocab import Strings
from polyvec.formats.tabular.table import SCAN_ROWS, Table


class TableColumn(Column):
    """A column of numbers or of equal lists of numbers."""

    encoding = "raw"

    def __init__(
        self, table: Table, name: str, row_shape: tuple[int, ...], dtype: np.dtype[Any], stored: str | None = None
    ) -> None:
        self.name = name
        self.shape = (table.rows, *row_shape)
        self.dtype = dtype
        self.stored = stored or name  # its name in the table
        self._table = table
        self._cursor = table.cursor(self.stored)

    @property
    def codec(self) -> Codec | None:
        return Raw(self.dtype)

    def _by_value(self, protocol: Any) -> Any:
        return ArrayColumn, (self.name, self.to_numpy())

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        most = bounded_rows(rows, self.dtype, self.row_shape)
        at = start
        while at < stop:
            end = min(at + most, stop)
            for first, batch in self._cursor.read(at, end, most):
                values = rows_of(batch.column(0), self.row_shape, self.dtype, self._table.label, self.stored, first)
                yield Block(first, {"codes": values}, Raw(self.dtype), len(values))
            at = end

    def spread(self, count: int) -> Array:
        """Rows from the starts of up to eight groups: each other row would cost all before it."""
        edges = np.concatenate([[0], np.cumsum(self._table.groups)[:-1]]) if self._table.groups else np.zeros(1)
        chosen = edges[np.unique(np.linspace(0, len(edges) - 1, min(8, len(edges))).astype(int))]
        return clusters(self.rows, count, [int(start) for start in np.unique(chosen)])

    def _take(self, indices: Array) -> Array:
        """Rows by index, in the order given, in one pass over the groups that have some."""
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        out = np.empty((len(indices), *self.row_shape), self.dtype)
        done = 0
        while done < len(wanted):
            first = int(wanted[done])
            stop = min(first + rows_per_block(self.dtype, self.row_shape), self.rows)
            end = int(np.searchsorted(wanted, stop, side="left"))
            stop = int(wanted[end - 1]) + 1
            for block in self.blocks(start=first, stop=stop):
                low, high = np.searchsorted(wanted, [block.start, block.start + block.rows])
                out[order[low:high]] = block.decode()[wanted[low:high] - block.start]
            done = end
        return out


def rows_of(array: Any, row_shape: tuple[int, ...], dtype: np.dtype[Any], label: str, name: str, start: int) -> Array:
    """An Arrow array as rows; ragged lists and nulls are `Corrupt`, with their row."""
    pa = arrow()
    rows = len(array)
    each = 1
    for size in row_shape:
        if array.null_count:
            refuse_null(array, label, name, start, each)
        each *= size
        if not pa.types.is_fixed_size_list(array.type):
            lengths = np.diff(np.asarray(array.offsets))
            wrong = np.flatnonzero(lengths != size)
            if len(wrong):
                raise ragged(label, name, start + int(wrong[0]), size, int(lengths[wrong[0]]))
        array = array.flatten()
    if array.null_count:
        refuse_null(array, label, name, start, each)
    values: Array = array.to_numpy(zero_copy_only=False)
    if len(values) != rows * prod(row_shape):
        raise Corrupt(
            "lists do not have the values they say",
            path=label,
            field=name,
            expected=rows * prod(row_shape),
            found=len(values),
        )
    return np.ascontiguousarray(values).astype(dtype, copy=False).reshape(rows, *row_shape)


def ragged(label: str, name: str, row: int, expected: int, found: int) -> FormatError:
    """Lists of different lengths."""
    return Corrupt(
        "lists differ in length",
        path=label,
        field=f"{name}, row {row}",
        expected=f"{expected} values",
        found=f"{found} values",
        remedy="keep vectors of one dimension in a column",
    )


def refuse_null(array: Any, label: str, name: str, start: int, each: int) -> None:
    """Raise `Corrupt` for the first null; ``each`` values make a row."""
    row = start + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) // each
    raise Corrupt(
        "a null where a number must be",
        path=label,
        field=f"{name}, row {row}",
        expected="a number",
        found="null",
        remedy="drop or fill the nulls first",
    )


class TableStrings(Strings):
    """A column of strings, read when the first one is asked for."""

    def __init__(self, table: Table, name: str) -> None:
        self.label, self.lossy = table.label, False
        self._table, self._name = table, name
        self._read: Once[Strings] = Once()

    @property
    def _loaded(self) -> Strings:
        return self._read.get(self._load)

    def _load(self) -> Strings:
        pieces: list[bytes] = []
        sizes: list[NDArray[np.int64]] = []
        with self._table.lock:  # columns of the table may be read at the same time
            for start, batch in self._table.cursor(self._name).walk(0, self._table.rows, SCAN_ROWS):
                array = batch.column(0)
                if array.null_count:
                    refuse_null(array, self.label, self._name, start, 1)
                with self._table.wrapped():
                    array = array.cast(arrow().large_string())
                    _, places, data = array.buffers()
                    edges = np.frombuffer(places, np.int64, len(array) + 1, array.offset * 8)
                    pieces.append(data[int(edges[0]) : int(edges[-1])].to_pybytes() if data is not None else b"")
                sizes.append(np.diff(edges))
        stops = np.cumsum(np.concatenate(sizes)) if sizes else np.empty(0, np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if len(stops) else stops
        return Strings(b"".join(pieces), starts, stops, label=self.label)

    data = property(lambda self: self._loaded.data)
    starts = property(lambda self: self._loaded.starts)
    stops = property(lambda self: self._loaded.stops)

    def __len__(self) -> int:
        return self._table.rows

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Strings:
        return self._loaded.view(rows)
