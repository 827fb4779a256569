"""The NumPy twins of native/shadows.cpp and native/rescores.cpp: the same results, bit for bit.

Without the compiled module a search has no shadow: `near_rows` says what must be scored, `PlainBest` keeps the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.scores import LANES, pad_lanes, query_norms, score_plainly, sum_lanes, sum_products
from polyvec.neighbors.metric import Metric

TINY = np.float32(1e-30)

Rows = NDArray[Any]
Floats = NDArray[np.float64]


def score_all(rows: Rows, queries: Floats, metric: Metric) -> tuple[Floats, Floats]:
    """Keys (higher is better) and ties of every row for every query, shape (queries, rows); NaN where there is none."""
    return score_plainly(rows, queries, query_norms(queries), int(metric))


def rank(keys: Floats, ties: Floats, ids: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The best k of one query's keys: highest first, then the higher tie, then the lowest id; NaN last."""
    none = np.isnan(keys)
    order = np.lexsort((ids, -np.where(none, -np.inf, ties), -np.where(none, -np.inf, keys)))[:k]
    return ids[order], keys[order], ties[order]


class PlainBest:
    """The NumPy twin of native Best."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self._rows = [np.empty(0, np.int64) for _ in range(queries)]
        self._keys = [np.empty(0) for _ in range(queries)]
        self._ties = [np.empty(0) for _ in range(queries)]

    def offer_one(self, query: int, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        rows = np.concatenate([self._rows[query], rows])
        keys = np.concatenate([self._keys[query], keys])
        ties = np.concatenate([self._ties[query], ties])
        found = rank(keys, ties, rows, self.k)
        self._rows[query], self._keys[query], self._ties[query] = found

    def offer(self, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        for query in range(len(rows)):
            real = rows[query] >= 0
            self.offer_one(query, rows[query][real], keys[query][real], ties[query][real])

    def kth(self, out: Floats) -> None:
        for query, keys in enumerate(self._keys):
            out[query] = keys[-1] if len(keys) == self.k and not np.isnan(keys[-1]) else -np.inf

    def read(self, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        rows[:], keys[:], ties[:] = -1, np.nan, 0
        for query, found in enumerate(self._rows):
            part = slice(0, len(found))
            rows[query, part], keys[query, part], ties[query, part] = found, self._keys[query], self._ties[query]


def near_rows(rows: Rows, queries: Floats, norms: Floats, metric: Metric, k: int) -> Iterator[NDArray[np.int64]]:
    """For each query the rows that may be among its best k by float64 BLAS, whose error any order of sums bounds."""
    if len(rows) <= k:
        yield from (np.arange(len(rows)) for _ in queries)
        return
    with np.errstate(all="ignore"):
        wide = rows.astype(np.float64)
        squares = np.einsum("ij,ij->i", wide, wide)
        lengths = np.sqrt(squares)
        # The bound is relative: rows whose squares may have lost bits to underflow, or overflowed, are all scored.
        fair = (squares >= 2.0**-800) & (squares <= 2.0**800)
        if rows.dtype != np.float64:
            fair |= squares == 0
    for query, norm in zip(queries, norms):
        with np.errstate(all="ignore"):
            product = wide @ query
            if metric is Metric.L2:
                keys, size = 2 * product - squares, squares + norm * norm
            elif metric is Metric.COSINE:
                keys, size = product / (lengths * norm), np.ones(len(rows))
                keys[squares == 0] = 0
            else:
                keys, size = product, lengths * norm
            bound = size * (len(query) + 16) * 2.0**-50
            sound = fair & bool(2.0**-400 <= norm <= 2.0**400 or not query.any())
            lower = np.where(sound, keys - bound, -np.inf)
            limit = np.partition(lower, len(lower) - k)[len(lower) - k]
            found = np.flatnonzero(~(sound & (keys + bound < limit)))
        yield found


def shadow(  # noqa: PLR0913  # as the native kernel takes them
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
        norm2[start:stop] = sum_products(wide, wide)
        if middle is None:
            centred2[start:stop] = norm2[start:stop]
            along[start:stop] = 0.0
        else:
            z = y.astype(np.float64)
            centred2[start:stop] = sum_products(z, z)
            along[start:stop] = sum_products(np.broadcast_to(middle, z.shape), z)
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
