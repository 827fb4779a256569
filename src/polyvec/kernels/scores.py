"""The score of a row for a query, defined down to its last bit: the NumPy twin of native/scores.hpp.

Sums have 16 lanes: lane l adds the elements l, l + 16, ..., and the lanes are added as a tree of halves, in float64.
Where such a sum could have underflowed or has overflowed it is taken again with numbers whose exponent has no bounds
(`Wide`): the same 53 bits, the same order of additions. A score beyond float64's range then reads 0 or infinity, and a
second number, the tie, still ranks it (docs/exact-search.md).
"""

from __future__ import annotations

from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.paths import native

IP, COSINE, L2 = 0, 1, 2
LANES = 16
FEW_VALUES = 1 << 15  # so few are squared all at once
LOW, HIGH = 2.0**-900, 2.0**1000  # a sum of squares in between lost nothing that its own rounding would show
SAFE_LOW, SAFE_HIGH = 2.0**-440, 2.0**440  # queries whose products with float32, int8 and uint8 rows stay in range
NOTHING = -(10**7)  # the exponent of a zero
TIE_SHIFT = 1500
VERSION = 5  # of native/scores.hpp, and of what hands it rows

Rows = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wide:
    """Numbers `part * 2^power` with |part| in [0.5, 1) or 0: float64 without bounds on the exponent."""

    part: Floats
    power: NDArray[np.int64]

    @classmethod
    def of(cls, values: Floats, power: NDArray[np.int64] | int = 0) -> Wide:
        part, shift = np.frexp(values)
        return cls(part, np.where(part == 0, NOTHING, shift.astype(np.int64) + power))

    def __getitem__(self, place: Any) -> Wide:
        return Wide(self.part[place], self.power[place])

    def __add__(self, other: Wide) -> Wide:
        power = np.maximum(self.power, other.power)
        # What lies 300 bits below the other cannot change its rounding.
        a, b = (np.ldexp(v.part, np.maximum(v.power - power, -300).astype(np.int32)) for v in (self, other))
        return Wide.of(a + b, power)

    def __mul__(self, other: Wide) -> Wide:
        return Wide.of(self.part * other.part, self.power + other.power)

    def __truediv__(self, other: Wide) -> Wide:
        return Wide.of(self.part / other.part, self.power - other.power)

    def sqrt(self) -> Wide:
        odd = self.power % 2
        return Wide.of(np.sqrt(self.part * (1 + odd)), (self.power - odd) // 2)

    def read(self) -> tuple[Floats, Floats]:
        """The nearest float64 numbers, and what ranks those that are equal for want of range (else 0)."""
        value = np.where(self.power < -2500, 0.0, _shifted(self.part, self.power))  # only a cosine can be as small
        beyond = (self.power >= -2500) & ~((np.abs(value) >= 2.0**-1022) & np.isfinite(value))
        tie = _shifted(self.part, self.power + np.where(self.power > 0, -TIE_SHIFT, TIE_SHIFT))
        return value, np.where(beyond, tie, 0.0)


def _shifted(part: Floats, power: NDArray[np.int64]) -> Floats:
    return np.asarray(np.ldexp(part, np.clip(power, -5000, 5000).astype(np.int32)))


def compiled() -> Any:
    """The compiled module; None where NumPy is to do the work, or the module was built of other sources than these."""
    module = native()
    return module if getattr(module, "SCORES", None) == VERSION else None


class plain_floats(ContextDecorator):
    """Subnormals kept, also by NumPy on this thread: other libraries set threads to flush them to zero."""

    __slots__ = ("_before", "_module")

    def _recreate_cm(self) -> plain_floats:
        return plain_floats()  # a call of its own: decorated functions call one another

    def __enter__(self) -> None:
        self._module = compiled()
        if self._module is not None:
            self._before = self._module.float_mode()
            if self._before:
                self._module.set_float_mode(0)

    def __exit__(self, *_: object) -> None:
        if self._module is not None and self._before:
            self._module.set_float_mode(self._before)


def sum_lanes(lanes: Any) -> Any:
    """The tree of halves over the last axis (16 lanes)."""
    half = lanes[..., :8] + lanes[..., 8:]
    quarter = half[..., :4] + half[..., 4:]
    return (quarter[..., 0] + quarter[..., 2]) + (quarter[..., 1] + quarter[..., 3])


def pad_lanes(rows: Rows) -> Rows:
    """The rows with zeros up to a multiple of 16 columns."""
    dim = rows.shape[-1]
    if dim % LANES == 0:
        return rows
    padded = np.zeros((*rows.shape[:-1], -(-dim // LANES) * LANES), rows.dtype)
    padded[..., :dim] = rows
    return padded


def sum_products(a: Floats, b: Floats) -> Floats:
    """a . b of padded rows, in lanes."""
    lanes = np.zeros((len(a), LANES))
    for d in range(0, a.shape[1], LANES):
        lanes += a[:, d : d + LANES] * b[:, d : d + LANES]
    total: Floats = sum_lanes(lanes)
    return total


def sum_squares(rows: Rows) -> Floats:
    """The squared length of each row, in lanes."""
    wide = pad_lanes(np.asarray(rows, np.float64))
    if wide.size > FEW_VALUES or not wide.size:
        return sum_products(wide, wide)
    # The same sums in the same order, in one call: along an axis that is not the last NumPy adds one after the other.
    total: Floats = sum_lanes((wide * wide).reshape(len(wide), -1, LANES).sum(axis=1))
    return total


def query_norms(queries: Floats) -> Floats:
    """The length of each query as the scores use it: 0 or infinity where float64 squares cannot hold it."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(sum_squares(queries)))


def safe_queries(queries: Floats) -> NDArray[np.bool_]:
    """Which queries have values of ordinary size alone."""
    size = np.abs(queries)
    return np.asarray(((size == 0) | ((size >= SAFE_LOW) & (size <= SAFE_HIGH))).all(axis=1))


def score_rows(rows: Rows, queries: Floats, norms: Floats, metric: int) -> tuple[Floats, Floats]:
    """Keys (higher is better; NaN: none) and their ties, of every row for every query, shape (queries, rows)."""
    module = compiled()
    if module is None:
        return score_plainly(rows, queries, norms, metric)
    keys, ties = np.empty((len(queries), len(rows))), np.empty((len(queries), len(rows)))
    module.score_rows(rows, queries, norms, metric, keys, ties)
    return keys, ties


def score_plainly(rows: Rows, queries: Floats, norms: Floats, metric: int) -> tuple[Floats, Floats]:
    """`score_rows` in NumPy alone: the definition."""
    narrow = rows.dtype != np.float64
    x = pad_lanes(np.asarray(rows, np.float64))
    asked = pad_lanes(queries)
    keys, ties = np.empty((len(queries), len(rows))), np.zeros((len(queries), len(rows)))
    safe = safe_queries(queries) & narrow
    with np.errstate(all="ignore"):
        squares = sum_products(x, x) if metric == COSINE else np.zeros(len(rows))
        for j, query in enumerate(asked):
            line = np.broadcast_to(query, x.shape)
            if metric == L2:
                gap = x - line
                total = sum_products(gap, gap)
                plain = (total >= LOW) & np.isfinite(total)
                keys[j] = -total
            else:
                total = sum_products(x, line)
                plain = ((np.abs(total) >= LOW) | safe[j]) & np.isfinite(total)
                keys[j] = total
            if metric == COSINE:
                keys[j] = total / (np.sqrt(squares) * norms[j])
                plain &= (squares >= LOW) & (squares <= HIGH) & (norms[j] >= 2.0**-450) & (norms[j] <= 2.0**500)
            odd = np.flatnonzero(~plain)
            if len(odd):
                keys[j, odd], ties[j, odd] = _score_widely(x[odd], query, metric)
    return keys, ties


def _score_widely(x: Floats, query: Floats, metric: int) -> tuple[Floats, Floats]:
    """Keys and ties of padded rows, no exponent too small or too large."""
    q = Wide.of(query)
    rows = Wide.of(x)
    if metric == L2:
        gap = rows + Wide(np.broadcast_to(-q.part, x.shape), np.broadcast_to(q.power, x.shape))
        total = _sum_widely(gap, gap)
    else:
        line = Wide(np.broadcast_to(q.part, x.shape), np.broadcast_to(q.power, x.shape))
        total = _sum_widely(rows, line)
    if metric == COSINE:
        lengths = _sum_widely(rows, rows).sqrt()
        size = lengths * _sum_widely(q[None], q[None]).sqrt()
        zero = (lengths.part == 0) | (total.part == 0)
        cosine = total / size
        total = Wide(np.where(zero, 0.0, cosine.part), np.where(zero, NOTHING, cosine.power))
    keys, ties = total.read()
    if metric == L2:
        keys, ties = -keys, -ties
    lost = ~np.isfinite(x).all(axis=1)
    keys[lost], ties[lost] = np.nan, 0.0
    return keys, ties


def _sum_widely(a: Wide, b: Wide) -> Wide:
    lanes = Wide.of(np.zeros((*a.part.shape[:-1], LANES)))
    for d in range(0, a.part.shape[-1], LANES):
        lanes = lanes + a[..., d : d + LANES] * b[..., d : d + LANES]
    total: Wide = sum_lanes(lanes)
    return total
