"""Columns made of other columns: shards joined, a range, chosen rows. Nothing is read until it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from polyvec.core.blocks import Array, Block, Codec, Extent, Raw, rows_per_block
from polyvec.core.columns import Column, FileColumn, Segment
from polyvec.core.selection import bounds, row_numbers


class ConcatColumn(Column):
    """Several columns, one after the other: the shards of a collection."""

    def __init__(self, name: str, columns: Sequence[Column]) -> None:
        self.name = name
        self._columns = tuple(columns)
        self._starts = [0]
        for column in self._columns:
            self._starts.append(self._starts[-1] + column.rows)
        self.shape = (self._starts[-1], *columns[0].row_shape)
        self.dtype = columns[0].dtype
        encodings = {column.encoding for column in columns}
        self.encoding = encodings.pop() if len(encodings) == 1 else "mixed"
        self.lengths = all(column.lengths for column in columns)

    @property
    def parallel(self) -> bool:
        return all(column.parallel for column in self._columns)

    @property
    def codec(self) -> Codec | None:
        first = self._columns[0].codec
        return first if all(column.codec == first for column in self._columns) else None

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        for first, column in zip(self._starts, self._columns):
            low, high = max(0, start - first), min(column.rows, stop - first)
            if low < high:
                for block in column.blocks(rows, start=low, stop=high, reuse=reuse):
                    yield Block(first + block.start, block.parts, block.codec, block.rows)

    def _find_extents(self, start: int, stop: int) -> Iterator[Extent]:
        """The extents of all the columns, counted in this one; their offsets belong to several files.

        None where one of the columns has none: half of the rows would be taken for all of them.
        """
        found: list[Extent] = []
        for first, column in zip(self._starts, self._columns):
            low, high = max(0, start - first), min(column.rows, stop - first)
            if low < high:
                some = [replace(extent, start=first + extent.start) for extent in column.extents(low, high)]
                if not some:
                    return iter(())
                found += some
        return iter(found)

    def segments(self, codec: Codec) -> list[Segment] | None:
        found = [column.segments(codec) for column in self._columns]
        return None if any(s is None for s in found) else [s for many in found if many is not None for s in many]


class RangeColumn(Column):
    """Rows ``start`` to ``stop`` of another column, as slices cut: what is beyond its end is not there."""

    def __init__(self, column: Column, start: int, stop: int | None = None) -> None:
        start, stop = bounds(start, stop, column.rows)
        self.name, self.dtype, self.encoding = column.name, column.dtype, column.encoding
        self.lengths = column.lengths
        self._column = column
        self._start = start
        self.shape = (stop - start, *column.row_shape)

    @property
    def parallel(self) -> bool:
        return self._column.parallel

    @property
    def codec(self) -> Codec | None:
        return self._column.codec

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        for block in self._column.blocks(rows, start=self._start + start, stop=self._start + stop, reuse=reuse):
            yield Block(block.start - self._start, block.parts, block.codec, block.rows)

    def _find_extents(self, start: int, stop: int) -> Iterator[Extent]:
        for extent in self._column.extents(self._start + start, self._start + stop):
            yield replace(extent, start=extent.start - self._start)

    def segments(self, codec: Codec) -> list[Segment] | None:
        if not isinstance(self._column, FileColumn):
            return None
        extents = tuple(self._column.extents(self._start, self._start + self.rows))
        part = FileColumn(
            self.name, self._column.source, extents, row_shape=self.row_shape, encoding=self.encoding, dtype=self.dtype
        )
        return part.segments(codec)


class TakeColumn(Column):
    """Chosen rows of another column, by indices (negative ones from its end), a range or a mask."""

    def __init__(self, column: Column, indices: Sequence[int] | Array) -> None:
        found = row_numbers(indices, column.rows, f"rows of column {column.name!r}")
        if not isinstance(found, range) and found.ndim != 1:
            raise IndexError(f"rows are chosen by a flat list of numbers, not by an array of shape {found.shape}")
        self.name, self.dtype, self.encoding = column.name, column.dtype, column.encoding
        self.lengths = column.lengths
        self._column = column
        self._indices = found
        self.shape = (len(found), *column.row_shape)

    @property
    def parallel(self) -> bool:
        return self._column.parallel

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        rows = rows or rows_per_block(self.dtype, self.row_shape)
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            taken = self._column.take(np.asarray(self._indices[at:end], np.int64))
            yield Block(at, {"codes": taken}, Raw(self.dtype), end - at)
