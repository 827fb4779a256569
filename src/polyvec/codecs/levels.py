"""Unit rows as int8 levels of 1/127: how they are rounded, the rules they keep, and the words of a refusal.

The browser client (web/client/format.js) refuses with the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import Array
from polyvec.core.errors import Corrupt, FormatError, InputError, Truncated
from polyvec.kernels.rounding import LEVELS, SQUARES_HIGH, SQUARES_LOW, Rounding, round_levels, round_levels_reference

Codes = NDArray[np.int8]

ROUNDINGS: tuple[Rounding, ...] = ("norm", "nearest", "truncate")
UNIT_TOLERANCE = 1e-3  # how far a source row's norm may be from 1: what rows stored as float16 still keep
REEXPORT = "Re-export embeddings using export_for_browser.py (python -m polyvec.browser)"


@dataclass(frozen=True, slots=True)
class Levels:
    """Rounded rows: ``codes`` (n, dim), ``squares`` (n,), the largest and the summed error in levels."""

    codes: Codes
    squares: NDArray[np.int32]
    max_error: float
    sum_error: float


def quantize_rows(
    rows: Array,
    *,
    start: int = 0,
    rounding: Rounding = "norm",
    normalize: bool = False,
    reach: bool = False,
    flag: str = "--option normalize=true",
    drop: str = "remove it",
) -> Levels:
    """Round unit rows to levels and check each; ``start`` is the number of the first, for messages.

    `InputError` with index and norm at the first row that is not of length one (or, with ``normalize``, has none),
    or whose codes leave the norm's bounds. ``reach`` lets errors come up to a whole level for rows that need it.
    ``rounding="truncate"`` keeps to no bounds: it exists to reproduce old files. ``flag`` and ``drop`` are what
    errors advise, for rows of another length and for rows of none.
    """
    if rounding not in ROUNDINGS:
        raise InputError(f"unknown rounding {rounding!r}; there are {', '.join(ROUNDINGS)}")
    x = np.ascontiguousarray(rows, dtype=np.float32)
    x = _unit(x, start=start, normalize=normalize, flag=flag, drop=drop)
    codes, squares = round_levels(x, rounding=rounding)
    bad = np.flatnonzero((squares < SQUARES_LOW) | (squares > SQUARES_HIGH))
    if len(bad) and reach and rounding == "norm":
        codes[bad], squares[bad] = round_levels_reference(x[bad], least_residual=0.0)
        bad = bad[(squares[bad] < SQUARES_LOW) | (squares[bad] > SQUARES_HIGH)]
    if len(bad) and rounding != "truncate":
        row = int(bad[0])
        hint = "; rounding='norm' (the default) keeps more rows" if rounding == "nearest" else ""
        raise InputError(norm_message(math.sqrt(int(squares[row])) / LEVELS, start + row) + hint)
    error = np.abs(x * np.float32(LEVELS) - codes)
    return Levels(codes, squares, float(error.max(initial=0.0)), float(error.sum(dtype=np.float64)))


def _unit(rows: NDArray[np.float32], *, start: int, normalize: bool, flag: str, drop: str) -> NDArray[np.float32]:
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        good = (norms > 0) & np.isfinite(norms) if normalize else np.abs(norms - 1.0) <= UNIT_TOLERANCE
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        what = "has no direction" if normalize else "is not of length one"
        remedy = drop if normalize or not norms[row] > 0 else f"normalise rows first, or use {flag} (normalize=True)"
        raise InputError(f"row {start + row} {what}: its L2 norm is {as_number(float(norms[row]))}; {remedy}")
    return (rows / norms[:, None]).astype(np.float32) if normalize else rows


def check_size(rows: int, dim: int, actual: int) -> None:
    """`Truncated` or `Corrupt`, in the document's words, unless a file of ``actual`` bytes holds rows x dim codes."""
    expected = rows * dim
    if actual == expected:
        return
    message = (
        f"Embedding file size mismatch: expected {expected} bytes ({rows} cards × {dim} dims), got {actual} bytes. "
        f"{REEXPORT}"
    )
    if actual == 2 * expected:
        message += ". The file has the size of the old float16 format (v1.x), which is no longer supported."
    raise (Truncated if actual < expected else Corrupt)(message, offset=min(actual, expected))


def bad_rows(codes: Codes, *, start: int = 0) -> Iterator[FormatError]:
    """An error for each row that holds -128 or whose norm is out of bounds; ``start`` is the number of the first."""
    dim = codes.shape[1]
    wide = codes.astype(np.int32)
    squares = np.einsum("ij,ij->i", wide, wide)
    flawed = (codes.min(axis=1, initial=0) < -LEVELS) | (squares < SQUARES_LOW) | (squares > SQUARES_HIGH)
    for row in map(int, np.flatnonzero(flawed)):
        offset = (start + row) * dim
        low = np.flatnonzero(codes[row] < -LEVELS)
        if len(low):
            index = offset + int(low[0])
            message = f"Invalid int8 value at index {index}: -128. Values must be in range [-127, 127]."
            yield Corrupt(message, offset=index)
        else:
            yield Corrupt(norm_message(math.sqrt(int(squares[row])) / LEVELS, start + row), offset=offset)


def norm_message(norm: float, row: int | None = None) -> str:
    """The refusal of a norm out of bounds."""
    where = "" if row is None else f" Row {row}."
    return (
        f"L2 norm out of expected range: {as_number(norm)}. Expected approximately 1.0 (within ±0.008). "
        f"Check quantization parameters.{where}"
    )


def as_number(value: float) -> str:
    """A number as JavaScript writes it, so that both sides say the same."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
