"""Counts that a header promises and a size that does not agree: cut short, byte-swapped, or damaged. Not a format.

A missing tail costs rows, and ``lenient`` takes the others. It never makes up a shape: a file whose bytes are exactly as
many rows of another width has a damaged header, and one whose header fits in the other byte order was written on another
kind of machine; the one is refused, the other read with ``lenient``, and said.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.errors import Corrupt, FormatError, Truncated
from polyvec.core.sources import Source

FEW_ROWS = 8  # of so few rows a cut file is often exactly as long as rows of another width would be
PROBE_BYTES = 1 << 16  # of values, to see which byte order makes sense of them
SWAPPED = "the file is in big-endian byte order"
LENIENT = "read it with --lenient (lenient=True), which turns the bytes"


def refuse_other_width(
    rows: int, width: int, there: int, itemsize: int, *, offset: int, field: str, but: tuple[int, ...] = ()
) -> None:
    """`Corrupt` where the bytes that are there are exactly ``rows`` rows of another width than the header's."""
    if rows < FEW_ROWS or not there or there % (rows * itemsize):
        return
    found = there // (rows * itemsize)
    if found not in (width, *but):
        raise Corrupt(
            f"the file is exactly {rows} rows of {found} values and its header says {width}: one of its counts is damaged",
            offset=offset,
            field=field,
            expected=found,
            found=width,
            remedy="fetch the file again, or repair the header; no shape is guessed",
        )


def rows_there(rows: int, row_bytes: int, there: int) -> int:
    """How many whole rows exist of a file whose end is missing; `Truncated` where there is not one."""
    whole = there // row_bytes if row_bytes else 0
    if rows and not whole:
        raise Truncated(
            "not one whole row exists",
            expected=f"{row_bytes} bytes a row",
            found=f"{max(0, there)} bytes",
            remedy="fetch the file again",
        )
    return min(rows, whole)


def refuse_swapped(shape: str, offset: int = 0, field: str = "header") -> FormatError:
    """The error for a header that fits the size in the other byte order; ``shape`` is what it then says."""
    return Corrupt(
        SWAPPED,
        offset=offset,
        field=field,
        expected="little-endian counts",
        found=f"counts that fit only when swapped: {shape}",
        remedy=LENIENT,
    )


def values_swapped(source: Source, offset: int, dtype: np.dtype[Any], skip: int = 0) -> bool:
    """Whether values, too, make sense only in big-endian order: some programs swap the header alone.

    ``skip`` bytes before each row of ``dtype`` (a subarray of it) are left out.
    """
    if dtype.base.itemsize == 1:
        return False
    raw = np.frombuffer(source.read_at(offset, PROBE_BYTES), np.uint8)
    row = skip + dtype.itemsize
    if skip:
        raw = raw[: len(raw) // row * row].reshape(-1, row)[:, skip:].reshape(-1)
    raw = raw[: len(raw) // dtype.base.itemsize * dtype.base.itemsize]
    little = np.ascontiguousarray(raw).view(dtype.base.newbyteorder("<"))
    return _sense(little.byteswap()) >= _sense(little)


def _sense(values: Array) -> float:
    """The share of values that look like values: floats of a usual size, small whole numbers."""
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f":
            size = np.abs(values.astype(np.float64))
            usual = (size == 0) | ((size > 1e-12) & (size < 1e12))
            whole = size[np.isfinite(size)]
            # Swapped floats are of all sizes; where both readings are usual, the narrower spread is the right one.
            spread = float(np.log2(whole[whole > 0]).std()) if np.any(whole > 0) else 0.0
            return float(usual.mean()) - spread / 1000 if len(values) else 0.0
        size = np.abs(values.astype(np.float64))
        return -float(np.log2(size + 1).mean()) if len(values) else 0.0


def swapped_column(
    name: str, source: Source, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, turned: bool = True
) -> Column:
    """Packed rows whose values are turned to little-endian as they are read (or left as they are)."""
    stored = dtype.newbyteorder(">") if turned else dtype
    width = prod(shape[1:]) * dtype.itemsize

    def read(start: int, stop: int) -> Array:
        raw = np.empty((stop - start, *shape[1:]), stored)
        source.read_into(offset + start * width, raw)
        return raw.astype(dtype, copy=False)

    return ReaderColumn(name, shape, dtype, read)


def swapped_note(values: bool) -> str:
    """What is said of a file that is read with its bytes turned."""
    what = "its counts and values are" if values else "its counts (not its values) are"
    return f"{SWAPPED}: {what} turned as they are read"
