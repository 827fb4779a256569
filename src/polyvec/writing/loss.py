"""Loss: how far written rows are from those they were made of, right at every scale and for every dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import Array
from polyvec.core.columns import Column, clusters

SAMPLE_ROWS = 1024  # rows compared after a conversion; spread evenly over the file
SAMPLE_BYTES = 32 << 20  # of the source's rows: wide ones are compared at fewer places
PLACES = 128  # that the sampled rows lie at, where each costs a read of its own
FEW = 16

Floats = NDArray[Any]
Flags = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Loss:
    """Measured difference between source and target rows, over ``rows`` of them. ``exact`` where all bits agree.

    Where the dtypes differ, exact means the same numbers. A number that became NaN or infinite is an infinite error,
    and such a row has cosine 0, as has a row that became zero.
    """

    rows: int
    exact: bool
    max_error: float
    mean_error: float
    min_cosine: float


def choose_sample(columns: Sequence[Column], rows: int = SAMPLE_ROWS) -> NDArray[np.int64]:
    """The rows to compare of columns that should be equal: the first, the last, and up to ``rows`` spread between."""
    first = columns[0]
    if not first.rows:
        return np.empty(0, np.int64)
    # Of all columns' own samples the one in fewest places: it costs the fewest reads.
    chosen = min((column.spread(rows) for column in columns), key=lambda found: np.count_nonzero(np.diff(found) > 1))
    if (
        np.count_nonzero(np.diff(chosen) > 1) >= PLACES
    ):  # a few neighbours at each of fewer places: as many rows, read faster
        starts = np.linspace(0, first.rows - rows // PLACES, PLACES).astype(np.int64)
        chosen = clusters(first.rows, rows, starts.tolist())
    if len(chosen) > 1 and first.nbytes / first.rows * len(chosen) > SAMPLE_BYTES:
        chosen = chosen[:: max(1, len(chosen) // FEW)]
    # Where every row costs all before it the last would cost a second reading of the whole.
    last = [] if any(column.forward for column in columns) else [first.rows - 1]
    return np.unique(np.concatenate([chosen, np.array([0, *last])]).astype(np.int64))


def measure_columns(before: Column, after: Column, *, rows: int = SAMPLE_ROWS) -> Loss:
    """The loss between two columns of equal shape, by a sample of their rows."""
    chosen = choose_sample((before, after), rows)
    if not len(chosen):
        return Loss(0, True, 0.0, 0.0, 1.0)
    return compare(before.take(chosen), after.take(chosen))


def compare(before: Array, after: Array) -> Loss:
    """The loss between two arrays of rows."""
    one, two = before.reshape(len(before), -1), after.reshape(len(after), -1)
    same = _same(one, two)
    if same.all():
        return Loss(len(one), True, 0.0, 0.0, 1.0)
    if not (_is_number(one.dtype) and _is_number(two.dtype)):
        return Loss(len(one), False, inf, inf, 0.0)
    error = _errors(one, two, same)
    with np.errstate(over="ignore"):
        largest = float(error.max())
        # Summed of the largest one's shares: the sum of huge errors would overflow where their mean does not.
        mean = largest * float((error / largest).mean()) if 0 < largest < inf else largest
    return Loss(len(one), False, largest, mean, float(_cosines(one, two, same).min()))


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype are numbers; bfloat16 and its kind are void to NumPy, and yet are."""
    return dtype.kind in "fiub" or (dtype.kind == "V" and dtype.names is None and not dtype.name.startswith("void"))


def _same(one: Array, two: Array) -> Flags:
    """Where two arrays agree: bit for bit in one dtype, as exact numbers across two."""
    if one.dtype.newbyteorder("=") == two.dtype.newbyteorder("="):
        width = one.dtype.itemsize
        left, right = (np.ascontiguousarray(a, a.dtype.newbyteorder("=")) for a in (one, two))
        if width in (1, 2, 4, 8) and not one.dtype.hasobject:
            kind = np.dtype(f"u{width}")
            return np.asarray(left.view(kind) == right.view(kind))
        return np.asarray(left == right, bool).reshape(one.shape)
    if not (_is_number(one.dtype) and _is_number(two.dtype)):
        return np.zeros(one.shape, bool)
    if one.dtype.kind in "iub" and two.dtype.kind in "iub":
        # The signs first: beyond them int64 and uint64 share but one type, and NumPy may choose float64 for both.
        return np.asarray(((one < 0) == (two < 0)) & (one.astype(np.uint64) == two.astype(np.uint64)))
    if one.dtype.kind in "iub" or two.dtype.kind in "iub":
        whole, real = (one, two) if one.dtype.kind in "iub" else (two, one)
        return _holds(whole, real.astype(np.float64))
    left, right = one.astype(np.float64), two.astype(np.float64)
    numbers = (left == right) & (np.signbit(left) == np.signbit(right))
    return np.asarray(numbers | (np.isnan(left) & np.isnan(right)))


def _holds(whole: Array, real: Floats) -> Flags:
    """Where a float is exactly an integer: beyond 2**53 many integers round to one float."""
    rounded = whole.astype(np.float64)
    if whole.dtype.itemsize < 8:
        return np.asarray(rounded == real)
    limits = np.iinfo(whole.dtype)
    inside = (rounded >= float(limits.min)) & (rounded < float(limits.max))
    back = np.where(inside, rounded, 0.0).astype(whole.dtype)
    return np.asarray((rounded == real) & inside & (back == whole))


def _errors(one: Array, two: Array, same: Flags) -> Floats:
    """Absolute differences; infinite where a number is none any more."""
    if one.dtype.kind in "iub" and two.dtype.kind in "iub" and one.dtype == two.dtype and one.dtype.kind != "b":
        unsigned = np.dtype(f"u{one.dtype.itemsize}")
        # The difference of two integers fits the unsigned type of their width, whatever their signs.
        gaps = np.where(one > two, one.view(unsigned) - two.view(unsigned), two.view(unsigned) - one.view(unsigned))
        return np.asarray(gaps, np.float64)
    left, right = one.astype(np.float64), two.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(left - right)
    error[same | (left == right)] = 0.0
    error[np.isnan(left) & np.isnan(right)] = 0.0
    error[np.isnan(error)] = inf
    return error


def _cosines(one: Array, two: Array, same: Flags) -> Floats:
    """The cosine of each pair of rows, in float64, of rows scaled by powers of two: nothing over- or underflows."""
    left, right = one.astype(np.float64), two.astype(np.float64)
    found = np.ones(len(left))
    changed = ~same.all(axis=1)
    left, right = left[changed], right[changed]
    odd = ~(np.isfinite(left) & np.isfinite(right))
    agree = (left == right) | (np.isnan(left) & np.isnan(right))
    broken = (odd & ~agree).any(axis=1)
    # Values that are NaN or infinite on both sides say nothing about the rest of their row.
    left, right = (_scaled(np.where(odd, 0.0, side)) for side in (left, right))
    lengths = np.sqrt((left * left).sum(axis=1)) * np.sqrt((right * right).sum(axis=1))
    both_zero = ~left.any(axis=1) & ~right.any(axis=1)
    cosine = np.divide((left * right).sum(axis=1), lengths, out=np.zeros(len(left)), where=lengths > 0)
    found[changed] = np.where(broken, 0.0, np.where(both_zero, 1.0, np.clip(cosine, -1.0, 1.0)))
    return found


def _scaled(rows: Floats) -> Floats:
    """Rows times a power of two each, so that the largest value is near 1."""
    _, exponent = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    return np.asarray(np.ldexp(rows, -exponent[:, None]))
