"""What is searched: a path, shards, a collection, a column or an array, as a stream of row blocks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.arguments import array_of
from polyvec.core.blocks import MAX_BLOCK_BYTES
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column, FileColumn
from polyvec.core.errors import InputError
from polyvec.core.places import Place
from polyvec.formats.truth import QUERY_NAMES
from polyvec.kernels.threads import Crew
from polyvec.neighbors.rows import SCORED, RowBlock, Rows, scorable

Base = str | os.PathLike[str] | Sequence[str] | Collection | Column | Rows

Stamp = tuple[int | str, ...]

BLOCK_BYTES = MAX_BLOCK_BYTES // 2  # as the kernels take it; one block is scanned while the next is read
SETTLED = 50_000_000  # nanoseconds after which another write gives a file another time


@contextmanager
def opened(base: Base, column: str | None = None) -> Iterator[tuple[Collection, Column]]:
    """The collection and the column to search; a path is closed again, what was given stays open."""
    if isinstance(base, Collection):
        yield base, pick_column(base, column)
    elif isinstance(base, Column):
        yield Collection({base.name: base}), base
    elif isinstance(base, (str, os.PathLike)):
        with formats.open(base) as collection:
            yield collection, pick_column(collection, column)
    elif isinstance(base, (list, tuple)) and base and all(isinstance(b, (str, os.PathLike)) for b in base):
        with formats.open_many([os.fspath(b) for b in base]) as collection:
            yield collection, pick_column(collection, column)
    else:
        array = array_of(base)
        array = array[None, :] if array.ndim == 1 else array
        collection = Collection.from_arrays(array)
        yield collection, collection.vectors


@contextmanager
def opened_queries(queries: Base) -> Iterator[tuple[Collection, Column]]:
    """The collection and the column of queries: of a file that holds base and queries, as benchmarks do, the latter."""
    with opened(queries) as (collection, column):
        names = {name.lower(): name for name in collection.columns}
        own = next((names[n] for n in QUERY_NAMES if n in names), None)
        yield collection, column if own is None else collection[own]


def pick_column(collection: Collection, name: str | None) -> Column:
    """The named column, else the main one."""
    if name is None:
        return collection.vectors
    if name not in collection.columns:
        raise InputError(f"no column {name!r}; there are {', '.join(collection.columns)}")
    return collection.columns[name]


def check_vectors(column: Column, label: str = "the base") -> None:
    """`InputError` unless the column holds vectors that can be scored."""
    if len(column.row_shape) != 1:
        raise InputError(f"{label}: column {column.name!r} has shape {column.shape}; expected rows of numbers")
    if column.dtype.kind == "b" or (column.dtype.kind in "iu" and column.dtype.itemsize > 1):
        raise InputError(
            f"{label}: column {column.name!r} holds {column.dtype} whole numbers, such as ids, not vectors; "
            "name a column of floats, int8 or uint8"
        )


def memory_view(column: Column) -> Rows | None:
    """The column's rows where they are in memory already, as the kernels take them; else None."""
    if not isinstance(column, ArrayColumn):
        return None
    view = column.view()
    usable = view is not None and view.flags.c_contiguous and view.dtype in SCORED
    return view if usable else None


def block_rows(column: Column) -> int:
    """Rows of a block: about BLOCK_BYTES as float32."""
    return max(1, BLOCK_BYTES // max(1, column.row_shape[0] * max(4, column.dtype.itemsize)))


def row_blocks(
    column: Column,
    *,
    mask: Callable[[int, int], NDArray[np.bool_]] | None = None,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[RowBlock]:
    """The column as blocks; one is read ahead on a thread of its own. `mask(start, stop)` selects rows."""
    stop = column.rows if stop is None else stop
    step = block_rows(column)
    view = memory_view(column)
    if view is not None:
        for at in range(start, stop, step):
            yield _select(at, view[at : min(at + step, stop)], mask)
        return
    with Crew(1) as ahead:
        next_rows = ahead.submit(_read, column, start, min(start + step, stop)) if start < stop else None
        for at in range(start, stop, step):
            assert next_rows is not None
            rows = next_rows.result()
            after = at + step
            next_rows = ahead.submit(_read, column, after, min(after + step, stop)) if after < stop else None
            yield _select(at, rows, mask)


def _read(column: Column, start: int, stop: int) -> Rows:
    return scorable(column[start:stop])


def _select(at: int, rows: Rows, mask: Callable[[int, int], NDArray[np.bool_]] | None) -> RowBlock:
    if mask is None:
        return RowBlock(at, len(rows), rows)
    chosen = np.flatnonzero(mask(at, at + len(rows)))
    return RowBlock(at, len(chosen), np.ascontiguousarray(rows[chosen]), ids=chosen + at)


def stamp_of(base: Base, column: Column, *, settled: bool = False) -> Stamp | None:
    """Size, time of writing and time of change of the one file that holds the rows; None where there is none.

    With `settled`, wait until a later write is sure to give it another time.
    """
    place: Place | None = None
    if isinstance(base, (str, os.PathLike)):
        place = Place.of(base)
    elif isinstance(column, FileColumn):
        place = column.source.place
    found = place.identity() if place is not None and place.is_file() else None
    if place is None or found is None:
        return None
    young = int(found.changed or 0) + SETTLED - time.time_ns()
    if settled and 0 < young <= SETTLED:
        time.sleep(young / 1e9)
        found = place.identity() or found
    return tuple(found.to_json()[:3])  # inodes are left out
