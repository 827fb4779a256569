"""Which rows a key asks for: Python's rules for slices, NumPy's for indices. Nothing beyond the rows is ever read.

Slices are clamped, indices beyond the rows are an IndexError, negative ones count from the end. Everything that cuts
a column, words, records or a collection asks here, so that they all cut alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, rows_per_block

Rows = range | Array  # row numbers, each of them from 0 to the last

NO_NUMBER = "rows are chosen by whole numbers, slices, arrays of whole numbers or a mask"


def bounds(start: int, stop: int | None, rows: int) -> tuple[int, int]:
    """The ends of ``[start:stop]`` of so many rows, as Python cuts: clamped, negative ones from the end.

    >>> bounds(3, 99, 10), bounds(-2, None, 10), bounds(20, 30, 10), bounds(5, 2, 10)
    ((3, 10), (8, 10), (10, 10), (5, 5))
    """
    if stop is not None and 0 <= start <= stop <= rows:
        return start, stop
    first, last, _ = slice(start, stop).indices(rows)
    return first, max(first, last)


def row_numbers(key: Any, rows: int, what: str = "rows") -> Rows:
    """Row numbers of an array, a sequence, a range or a mask (one entry a row), in the shape they were given.

    IndexError where one is beyond the rows, or where they are no whole numbers at all.

    >>> row_numbers([0, -1], 5), row_numbers(range(1, 3), 5)
    (array([0, 4]), range(1, 3))
    """
    if isinstance(key, range) and not key:
        return range(0)
    if isinstance(key, range) and min(key[0], key[-1]) >= 0 and max(key[0], key[-1]) < rows:
        return key
    array: Array = np.arange(key.start, key.stop, key.step) if isinstance(key, range) else np.asarray(key)
    if array.dtype == bool:
        if array.shape != (rows,):
            raise IndexError(f"a mask must have one entry a row ({rows}), not shape {array.shape}")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        if array.size or isinstance(key, np.ndarray):
            raise IndexError(f"{NO_NUMBER}, not by {array.dtype} values")
        return array.astype(np.int64)  # an empty list has no type of its own
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < -rows or high >= rows:
            there = f"0 to {rows - 1}" if rows else "none"
            raise IndexError(f"{what} are {there}, and {high if high >= rows else low} was asked for")
        array = array.astype(np.int64, copy=False)
        return np.where(array < 0, array + rows, array) if low < 0 else array
    return array.astype(np.int64)


def as_slice(rows: range) -> slice:
    """A range of rows as the slice that cuts them, also where it runs down to the first."""
    return slice(rows.start, None if rows.stop < 0 else rows.stop, rows.step)


def one_row(key: Any, rows: int, what: str = "row") -> int | None:
    """The row that a single number means; None where the key is none. Truth values are not numbers here."""
    if isinstance(key, (bool, np.bool_)):
        raise IndexError(f"{NO_NUMBER}, not by {key}")
    try:
        row = operator.index(key)
    except TypeError:
        if isinstance(key, (float, np.floating)):
            raise IndexError(f"{NO_NUMBER}, not by the number {key}") from None
        return None
    if not -rows <= row < rows:
        raise IndexError(f"{what} {row} of {rows} rows")
    return row + rows if row < 0 else row


def select(
    key: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    name: str,
    *,
    read: Callable[[int, int], Array],
    take: Callable[[Array], Array],
) -> Any:
    """What ``array[key]`` would be of a column, reading the rows it needs: ``read(start, stop)`` and ``take(rows)``.

    Of a key with places inside the rows (``[:, :4]``) a block of rows is held at a time, and what is asked for of it.
    """
    rows, row_shape = shape[0], shape[1:]
    first, *inner = _places(key, len(shape))
    inside = tuple(inner)
    if all(isinstance(place, slice) and place == slice(None) for place in inside):
        return _rows(first, rows, name, read, take)
    step = rows_per_block(dtype, row_shape)
    _probe(inside, row_shape, dtype)
    if isinstance(first, slice):
        start, stop, stride = first.indices(rows)
        wanted = range(start, stop, stride)
        shaped: tuple[int, ...] = (len(wanted),)
    else:
        row = one_row(first, rows, f"column {name!r}: row")
        if row is not None:
            return read(row, row + 1)[(0, *inside)]
        found = row_numbers(first, rows, f"rows of column {name!r}")
        shaped = (len(found),) if isinstance(found, range) else found.shape
        wanted = np.asarray(found).reshape(-1)  # type: ignore[assignment]
        if any(not isinstance(place, (slice, int)) for place in inside):
            # Numbers of rows and of values are matched one by one, as NumPy does.
            return take(np.asarray(wanted))[(np.arange(len(wanted)).reshape(shaped), *inside)]
    chosen = [place for place in inside if not isinstance(place, slice)]
    if len(chosen) > 1 and not all(isinstance(place, int) for place in chosen):
        return take(np.asarray(wanted, np.int64))[(slice(None), *inside)]
    pieces = [
        _some(wanted[at : at + step], read, take)[(slice(None), *inside)] for at in range(0, len(wanted), step)
    ] or [np.empty((0, *row_shape), dtype)[(slice(None), *inside)]]
    whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    # A copy: what is kept must not hold on to the whole rows it was cut from.
    return np.ascontiguousarray(whole).reshape(*shaped, *whole.shape[1:])


def _places(key: Any, axes: int) -> list[Any]:
    """One place for each axis; `...` stands for as many whole ones as are missing."""
    places = list(key) if isinstance(key, tuple) else [key]
    if any(place is None for place in places):
        raise IndexError("a column has no new axes to give; read the rows first: column[...][None]")
    dots = [number for number, place in enumerate(places) if place is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis (...)")
    given = len(places) - len(dots)
    if given > axes:
        raise IndexError(f"too many indices: the column has {axes} axes, and {given} were given")
    at = dots[0] if dots else len(places)
    places[at : at + len(dots)] = [slice(None)] * (axes - given)
    for number, place in enumerate(places[1:], 1):
        if isinstance(place, (bool, np.bool_)):
            raise IndexError(f"values of a row are chosen by whole numbers, not by {place}")
        if isinstance(place, np.integer) or (isinstance(place, np.ndarray) and not place.ndim):
            places[number] = operator.index(place)
    return places


def _rows(key: Any, rows: int, name: str, read: Callable[[int, int], Array], take: Callable[[Array], Array]) -> Any:
    """Whole rows by a slice, a number or numbers."""
    if isinstance(key, slice):
        start, stop, step = key.indices(rows)
        return read(start, max(start, stop)) if step == 1 else take(np.arange(start, stop, step))
    row = one_row(key, rows, f"column {name!r}: row")
    if row is not None:
        return read(row, row + 1)[0]
    return take(np.asarray(row_numbers(key, rows, f"rows of column {name!r}")))


def _some(wanted: Rows, read: Callable[[int, int], Array], take: Callable[[Array], Array]) -> Array:
    if isinstance(wanted, range) and wanted.step == 1:
        return read(wanted.start, wanted.stop)
    return take(np.asarray(wanted))


def _probe(inside: tuple[Any, ...], row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """IndexError where the places inside a row are not there, before anything is read."""
    row = np.broadcast_to(np.zeros((), dtype), (1, *row_shape))
    try:
        row[(slice(None), *inside)]
    except IndexError as error:
        raise IndexError(f"values of a row of shape {row_shape}: {error}") from None
