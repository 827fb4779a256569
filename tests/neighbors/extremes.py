"""Rows and queries of every scale that floats have, and scores computed in whole numbers to judge by.

The oracle is Python's integers: float64 arithmetic as documented (53 bits, 16 lanes, a tree of halves), the exponent
without bounds. Nothing of polyvec is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

SCALES = [
    1e-320,
    1e-310,
    1e-300,
    1e-200,
    1e-162,
    1e-158,
    1e-154,
    1e-150,
    1e-110,
    1e-75,
    1e-46,
    1e-43,
    1e-40,
    1e-38,
    4e-36,
    1e-33,
    1e-30,
    1e-25,
    1e-20,
    1e-12,
    1e-5,
    1.0,
    1e4,
    1e10,
    1e18,
    1e20,
    1e30,
    1e37,
    1e38,
    1e60,
    1e100,
    1e150,
    1e154,
    1e160,
    1e200,
    1e300,
]
DTYPES = {
    "float64": (np.float64, 1e-320, 1e300),
    "float32": (np.float32, 1e-46, 1e38),
    "float16": (np.float16, 1e-12, 1e4),
    "bfloat16": (ml_dtypes.bfloat16, 1e-43, 1e38),
    "int8": (np.int8, 1.0, 1e4),
}
DIMS = (1, 3, 64, 257)

# ---- whole numbers ------------------------------------------------------------------------------------------------

Number = tuple[int, int]  # m * 2^e
ZERO: Number = (0, 0)


def number(value: float) -> Number:
    above, below = value.as_integer_ratio()
    return rounded(above, -(below.bit_length() - 1))


def rounded(m: int, e: int, sticky: bool = False) -> Number:
    """To 53 bits, ties to even; `sticky`: m stands for a little more."""
    extra = abs(m).bit_length() - 53
    if extra <= 0:
        assert not sticky
        return (m, e) if m else ZERO
    sign, size = (-1, -m) if m < 0 else (1, m)
    kept, rest, half = size >> extra, size & ((1 << extra) - 1), 1 << (extra - 1)
    if rest > half or (rest == half and (sticky or kept & 1)):
        kept += 1
    return sign * kept, e + extra


def times(a: Number, b: Number) -> Number:
    return rounded(a[0] * b[0], a[1] + b[1])


def plus(a: Number, b: Number) -> Number:
    if not a[0] or not b[0]:
        return a if a[0] else b
    e = min(a[1], b[1])
    return rounded((a[0] << (a[1] - e)) + (b[0] << (b[1] - e)), e)


def root(a: Number) -> Number:
    m, e = a
    if not m:
        return ZERO
    up = 240 + (e % 2)
    m, e = m << up, e - up
    found = math.isqrt(m)
    return rounded(found, e // 2, sticky=found * found != m)


def over(a: Number, b: Number) -> Number:
    if not a[0]:
        return ZERO
    m = abs(a[0]) << 200
    found, rest = divmod(m, b[0])
    n, e = rounded(found, a[1] - 200 - b[1], sticky=bool(rest))
    return (n if a[0] > 0 else -n), e


def dot(a: list[Number], b: list[Number]) -> Number:
    lanes = [ZERO] * 16
    for i, (x, y) in enumerate(zip(a, b)):
        lanes[i % 16] = plus(lanes[i % 16], times(x, y))
    for width in (8, 4, 2, 1):
        lanes = [plus(lanes[i], lanes[i + width]) for i in range(width)]
    return lanes[0]


def true_key(row: NDArray, query: NDArray, metric: str) -> Fraction | None:
    """The key (higher is better) of a row with an unbounded exponent; None where a value is not finite."""
    if not np.isfinite(row).all():
        return None
    x, q = [number(float(v)) for v in row], [number(float(v)) for v in query]
    if metric == "l2":
        gap = [plus(a, (-b[0], b[1])) for a, b in zip(x, q)]
        m, e = dot(gap, gap)
        return fraction((-m, e))
    total = dot(x, q)
    if metric == "cosine":
        size = times(root(dot(x, x)), root(dot(q, q)))
        total = over(total, size) if size[0] and total[0] else ZERO
    return fraction(total)


def fraction(value: Number) -> Fraction:
    m, e = value
    return Fraction(m << e) if e >= 0 else Fraction(m, 1 << -e)


def nearest_float(value: Fraction) -> float:
    """The float64 number, or an infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def oracle(rows: NDArray, query: NDArray, metric: str) -> tuple[list[int], list[float]]:
    """All rows, best first, with their scores."""
    keys = [true_key(row, query, metric) for row in rows.astype(np.float64)]
    scored = sorted((i for i, key in enumerate(keys) if key is not None), key=lambda i: (-keys[i], i))
    order = scored + [i for i, key in enumerate(keys) if key is None]
    scores = [math.nan if keys[i] is None else nearest_float(keys[i]) for i in order]
    return order, [-s for s in scores] if metric == "l2" else scores


# ---- data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    seed: int
    dtype: str
    rows: NDArray
    queries: NDArray

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.dtype} {self.rows.shape}"


def make_case(seed: int, dtype: str, dim: int, n: int) -> Case:
    """Rows of one or several scales with the odd ones among them, and queries near some of them."""
    rng = np.random.default_rng([seed, dim, n])
    kind, low, high = DTYPES[dtype]
    scales = [s for s in SCALES if low <= s <= high]
    chosen = rng.choice(scales, rng.integers(1, 5))
    wide = rng.standard_normal((n, dim))
    if rng.random() < 0.3:  # rows about a center
        wide = wide * 0.01 + rng.standard_normal(dim)
    wide *= rng.choice(chosen, (n, 1))
    if rng.random() < 0.3:  # scales mixed inside a row
        wide *= 10.0 ** -rng.integers(0, 12, (n, dim))
    size = float(rng.choice(np.append(chosen, rng.choice(scales, 2))))
    queries = rng.standard_normal((3, dim)) * size
    if rng.random() < 0.5:
        queries[1] = wide[rng.integers(n)] * rng.choice([1, -1, 1e-5, 1e5])
    queries = np.clip(np.nan_to_num(queries), -1e307, 1e307)
    if dtype != "float64" and rng.random() < 0.8:
        queries = np.clip(queries, -3e38, 3e38).astype(np.float32).astype(np.float64)
    for row in rng.integers(0, n, max(4, n // 30)):
        query = queries[rng.integers(3)]
        odd = rng.integers(9)
        if odd == 0:
            wide[row] = 0
        elif odd == 1:
            wide[row] = wide[rng.integers(n)]
        elif odd == 2:
            wide[row] = -wide[rng.integers(n)]
        elif odd == 3:
            wide[row] = query * rng.choice([0.07, 0.5, 2, -1, 1e-3, 1e3])
        elif odd == 4:
            wide[row] = query
        elif odd == 5:
            wide[row] = low * rng.integers(-9, 9, dim)
        elif odd == 6:
            wide[row, rng.integers(dim)] = rng.choice([np.nan, np.inf, -np.inf])
        elif odd == 7:
            wide[row] = rng.standard_normal(dim) * rng.choice(scales)
        else:
            wide[row] = 0
            wide[row, rng.integers(dim)] = rng.choice([1, -1]) * rng.choice(scales)
    with np.errstate(all="ignore"):
        if dtype == "int8":
            rows = np.clip(np.nan_to_num(wide / max(chosen)) * 40, -128, 127).astype(np.int8)
        else:
            rows = wide.astype(kind)
    queries = queries[queries.any(axis=1)]
    return Case(seed, dtype, rows, queries if len(queries) else np.full((1, dim), size or 1.0))
