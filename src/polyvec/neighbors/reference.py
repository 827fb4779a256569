"""The NumPy twins of native/shadows.cpp and native/rescores.cpp: the same results, bit for bit.

Sums have 16 lanes: lane l adds the elements l, l + 16, ..., and the lanes are added as a tree of halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.neighbors.metric import Metric

LANES = 16
TINY = np.float32(1e-30)

Rows = NDArray[Any]
Floats = NDArray[np.float64]


def sum_lanes(lanes: NDArray[Any]) -> NDArray[Any]:
    """The tree of halves over the last axis (16 lanes)."""
    half = lanes[..., :8] + lanes[..., 8:]
    quarter = half[..., :4] + half[..., 4:]
    total: NDArray[Any] = (quarter[..., 0] + quarter[..., 2]) + (quarter[..., 1] + quarter[..., 3])
    return total


def pad_lanes(rows: Rows) -> Rows:
    """The rows with zeros up to a multiple of 16 columns."""
    short = -rows.shape[-1] % LANES
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, short)]) if short else rows


def score_all(rows: Rows, queries: Floats, norms: Floats, metric: Metric) -> Floats:
    """Keys (higher is better) of every row for every query, shape (queries, rows); NaN where there is none."""
    x = pad_lanes(np.asarray(rows, np.float64))
    out = np.empty((len(queries), len(rows)))
    squares = np.zeros((len(rows), LANES))
    with np.errstate(all="ignore"):
        if metric is Metric.COSINE:
            for d in range(0, x.shape[1], LANES):
                squares += x[:, d : d + LANES] * x[:, d : d + LANES]
        lengths = np.sqrt(sum_lanes(squares))
        for j, query in enumerate(pad_lanes(queries)):
            lanes = np.zeros((len(rows), LANES))
            for d in range(0, x.shape[1], LANES):
                piece = x[:, d : d + LANES]
                if metric is Metric.L2:
                    gap = piece - query[d : d + LANES]
                    lanes += gap * gap
                else:
                    lanes += piece * query[d : d + LANES]
            total = sum_lanes(lanes)
            total[~np.isfinite(total)] = np.nan
            if metric is Metric.L2:
                out[j] = -total
            elif metric is Metric.IP:
                out[j] = total
            else:
                cosine = total / (lengths * norms[j])
                cosine[(lengths == 0) & ~np.isnan(total)] = 0.0
                cosine[~np.isfinite(lengths)] = np.nan
                out[j] = cosine
    return out


def rank(keys: Floats, ids: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], Floats]:
    """The best k of one query's keys: highest first, ties by lowest id, NaN last."""
    worst = np.where(np.isnan(keys), -np.inf, keys)
    order = np.lexsort((ids, -worst))[:k]
    return ids[order], keys[order]


def shadow(
    rows: Rows,
    center: NDArray[np.float32] | None,
    codes: NDArray[np.int8] | None,
    copy: NDArray[np.float32] | None,
    scale: NDArray[np.float32],
    residue: NDArray[np.float32],
    peak: NDArray[np.float32],
    squares: NDArray[np.int32],
    norm2: Floats,
    centred2: Floats,
    along: Floats,
    start: int,
    stop: int,
) -> None:
    """Fill `start:stop` of the outputs; see native/shadows.cpp."""
    with np.errstate(all="ignore"):
        wide = pad_lanes(np.asarray(rows[start:stop], np.float64))
        middle = None if center is None else pad_lanes(center.astype(np.float64))
        y = (wide if middle is None else wide - middle).astype(np.float32)
        norm2[start:stop] = _sum_products(wide, wide)
        if middle is None:
            centred2[start:stop] = norm2[start:stop]
            along[start:stop] = 0.0
        else:
            z = y.astype(np.float64)
            centred2[start:stop] = _sum_products(z, z)
            along[start:stop] = _sum_products(np.broadcast_to(middle, z.shape), z)
        top = np.fmax.reduce(np.abs(y), axis=1, initial=np.float32(0))
        sound = np.isfinite(norm2[start:stop]) & np.isfinite(centred2[start:stop]) & np.isfinite(along[start:stop])
        top[~sound | ~np.isfinite(top)] = np.inf
        peak[start:stop] = top
        scale[start:stop] = residue[start:stop] = 0
        squares[start:stop] = 0
        if copy is not None:
            copy[start:stop] = y[:, : rows.shape[1]]
        if codes is None:
            return
        usable = (top >= TINY) & np.isfinite(top)
        steps = np.where(usable, top / np.float32(127), np.float32(0)).astype(np.float32)
        inverse = (np.float32(1) / np.where(usable, steps, np.float32(1))).astype(np.float32)
        v = y * inverse[:, None]
        c = np.clip(np.rint(v), -127, 127).astype(np.float32)
        c[~usable] = 0
        r = np.where(usable[:, None], v - c, np.float32(0)).astype(np.float32)
        lanes = np.zeros((len(y), LANES), np.float32)
        for d in range(0, y.shape[1], LANES):
            piece = r[:, d : d + LANES]
            lanes += piece * piece
        scale[start:stop] = steps
        residue[start:stop] = sum_lanes(lanes)
        whole = c.astype(np.int32)
        squares[start:stop] = (whole * whole).sum(axis=1, dtype=np.int32)
        codes[start:stop] = whole[:, : rows.shape[1]].astype(np.int8)


def _sum_products(a: Floats, b: Floats) -> Floats:
    lanes = np.zeros((len(a), LANES))
    for d in range(0, a.shape[1], LANES):
        lanes += a[:, d : d + LANES] * b[:, d : d + LANES]
    total: Floats = sum_lanes(lanes)
    return total
