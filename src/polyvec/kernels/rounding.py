"""Rounding of unit rows to int8 levels of 1/127, natively and in NumPy, bit for bit the same.

``nearest`` rounds half to even. ``norm`` (norm-tuned rounding) then moves components to their other neighbour,
nearest to the .5 boundary first (ties: lowest index), while each move brings the row's sum of squares strictly closer
to 127². A component moves only where its error stays below .6 of a level. ``truncate`` drops the fraction, as old
exporters did.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.threads import resolve_threads

Rounding = Literal["norm", "nearest", "truncate"]

LEVELS = 127
TARGET = LEVELS * LEVELS
LEAST_RESIDUAL = 0.4  # a moved component's error is 1 - residual, so it stays under .6 of a level
SQUARES_LOW = 15872  # ceil((0.992 * 127)^2): the document's norm bounds in integers
SQUARES_HIGH = 16388  # floor((1.008 * 127)^2)


def round_levels(
    rows: npt.ArrayLike, *, rounding: Rounding = "norm", num_threads: int | None = None
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """Round float rows (n, dim) to int8 levels; return the codes (n, dim) and each row's sum of squares (n,).

    Values beyond ±1 clamp to ±127 and NaN becomes 0: callers that care check norms first.
    """
    x = np.ascontiguousarray(rows, dtype=np.float32)
    if x.ndim != 2:
        raise ValueError(f"expected rows of shape (n, dim), found shape {x.shape}")
    module = native()
    if module is None or rounding == "truncate":
        return round_levels_reference(x, rounding=rounding)
    codes = np.empty(x.shape, np.int8)
    squares = np.empty(x.shape[0], np.int32)
    module.round_levels(x, codes, squares, x.shape[1], rounding == "norm", resolve_threads(num_threads))
    return codes, squares


def round_levels_reference(
    rows: npt.NDArray[np.float32],
    *,
    rounding: Rounding = "norm",
    least_residual: float = LEAST_RESIDUAL,
    block: int = 1024,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """The oracle of `round_levels` in NumPy.

    A smaller ``least_residual`` lets errors grow up to one level (at 0), for rows that cannot be tuned otherwise.
    """
    codes = np.empty(rows.shape, np.int8)
    squares = np.empty(rows.shape[0], np.int32)
    for start in range(0, rows.shape[0], block):
        stop = start + block
        levels = _exact_levels(rows[start:stop])
        if rounding == "truncate":
            chosen = np.trunc(levels).astype(np.int32)
            total = (chosen * chosen).sum(axis=1)
        elif rounding == "nearest":
            chosen = np.rint(levels).astype(np.int32)
            total = (chosen * chosen).sum(axis=1)
        else:
            chosen, total = _tune(levels, least_residual)
        codes[start:stop] = chosen
        squares[start:stop] = total
    return codes, squares


def _exact_levels(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """127 times each value, exact in float64, clamped to ±127; NaN becomes 0."""
    levels = rows.astype(np.float64) * LEVELS
    levels[np.isnan(levels)] = 0.0
    return np.clip(levels, -LEVELS, LEVELS, out=levels)


def _tune(levels: npt.NDArray[np.float64], least: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Round to nearest, then move components, best first, one rank of every row at a time."""
    nearest = np.rint(levels)
    residual = levels - nearest
    codes = nearest.astype(np.int32)
    total = (codes * codes).sum(axis=1, dtype=np.int32)
    size = np.abs(residual)
    step = np.where(residual < 0, -1, 1).astype(np.int32)
    order = np.argsort(-size, axis=1, kind="stable")
    movable = (size > least).sum(axis=1)
    for rank in range(int(movable.max(initial=0))):
        live = np.flatnonzero((rank < movable) & (total != TARGET))
        if not live.size:
            break
        at = order[live, rank]
        before = codes[live, at]
        moved = before + step[live, at]
        after = total[live] + moved * moved - before * before
        better = np.abs(after - TARGET) < np.abs(total[live] - TARGET)
        codes[live[better], at[better]] = moved[better]
        total[live[better]] = after[better]
    return codes, total


def row_squares(codes: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Each row's exact sum of squares (n,), by blocks, so that memory stays bounded."""
    out = np.empty(codes.shape[0], np.int64)
    step = max(1, (1 << 22) // max(1, codes.shape[1]))
    for start in range(0, codes.shape[0], step):
        wide = codes[start : start + step].astype(np.int32)
        out[start : start + step] = np.einsum("ij,ij->i", wide, wide)
    return out
