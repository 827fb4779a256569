"""Product quantisation: rows from codes, and the nearest rows straight from the codes.

A code names a centroid of one part of the row. A query's products with all centroids of a part make a table; a
row's score is the sum of its parts' entries in float32, in order, times the row's weight. Where the processor has
AVX-512 VBMI, tables rounded to bytes pick the candidates 64 rows at a time, and float32 tables then rank them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.rows import best, make_candidates
from polyvec.kernels.strings import Floats, Longs
from polyvec.kernels.threads import default_threads

Codes = npt.NDArray[np.uint8]


def decode_product(codes: Codes, books: Floats, *, weights: Floats | None = None, out: Floats | None = None) -> Floats:
    """Rows (n, parts * width) from codes (n, parts) and codebooks (parts, centroids, width).

    `weights`, one a row, multiply them. A code without a centroid is an IndexError whose second argument is its place.
    """
    count, parts = codes.shape
    size, width = books.shape[1:]
    rows = np.empty((count, parts * width), np.float32) if out is None else out
    module = native()
    if module is not None and codes.flags.c_contiguous and rows.flags.c_contiguous:
        bad = module.decode_product(codes, books, weights, rows, default_threads())
    else:
        over = codes >= size if size < 256 else np.zeros(0, bool)
        bad = int(over.argmax()) if over.any() else -1
        if bad < 0:
            for part in range(parts):
                rows[:, part * width : (part + 1) * width] = books[part][codes[:, part]]
            if weights is not None:
                rows *= weights[:, None]
    if bad >= 0:
        found = int(codes.reshape(-1)[bad])
        where = f"row {bad // parts}, part {bad % parts}"
        raise IndexError(f"code {found} at {where} has no centroid among {size}", bad)
    return rows


def rotate_rows(rows: Floats, turn: Floats, *, out: Floats | None = None) -> Floats:
    """rows @ turn, each value summed in order in float32: one row alone gives the same bits as among many."""
    result = np.empty(rows.shape, np.float32) if out is None else out
    module = native()
    if module is not None and result.flags.c_contiguous:
        module.rotate_rows(np.ascontiguousarray(rows), np.ascontiguousarray(turn), result, default_threads())
        return result
    result[...] = 0
    for component in range(rows.shape[1]):
        result += rows[:, component, None] * turn[component]
    return result


def make_tables(query: Floats, books: Floats) -> Floats:
    """The products of the query's parts with every centroid: (parts, centroids)."""
    parts, _, width = books.shape
    tables: Floats = np.einsum("pcw,pw->pc", books, query.reshape(parts, width)).astype(np.float32)
    return tables


def score_product(codes: Codes, tables: Floats, rows: Longs) -> Floats:
    """The float32 table sums of some rows."""
    module = native()
    if module is not None:
        scores: Floats = module.score_product(codes, tables, rows)
        return scores
    return _sum_tables(codes[rows], tables)


def _sum_tables(codes: Codes, tables: Floats) -> Floats:
    sums = np.zeros(len(codes), np.float32)
    for part in range(codes.shape[1]):
        sums += tables[part][codes[:, part]]
    return sums


@dataclass(slots=True)
class ProductSearch:
    """Nearest rows over codes. `weights` turn a table sum into the score: a norm, or its share of a cosine."""

    codes: Codes
    centroids: int
    weights: Floats
    _packed: npt.NDArray[np.uint8] | None = field(init=False, default=None)

    def nearest(self, tables: Floats, k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
        """The k rows of the largest score and every row tied with the last, best first."""
        k = min(k, len(self.codes))
        module = native()
        if k == 0:
            return np.empty(0, np.int64), np.empty(0)
        if module is None:
            rows = self._scan(tables, k)
        elif module.can_scan_packed():
            rows = self._scan_packed(tables, k)
        else:
            rows = module.scan_product(self.codes, tables, self.weights, k, default_threads())
        scores = score_product(self.codes, tables, rows) * self.weights[rows]
        return best(rows, scores.astype(np.float64), k)

    def _scan(self, tables: Floats, k: int) -> Longs:
        candidates = make_candidates(1, k, 0)
        for at in range(0, len(self.codes), 65536):
            scores = _sum_tables(self.codes[at : at + 65536], tables) * self.weights[at : at + 65536]
            candidates.push(scores[None], at, 1)
        return candidates.rows(0)

    def _scan_packed(self, tables: Floats, k: int) -> Longs:
        module = native()
        assert module is not None
        if self._packed is None:
            self._packed = module.pack_product(self.codes, self.centroids, default_threads())
        low = tables.min(axis=1, keepdims=True).astype(np.float64)
        step = float((tables - low).max()) / 255 or 1.0
        steps = np.zeros((len(tables), 256), np.uint8)
        steps[:, : tables.shape[1]] = np.rint((tables - low) / step)
        heaviest = float(np.abs(self.weights).max(initial=0))
        # Each part is off by half a step at most; float32 adds a little of its own.
        bound = heaviest * (len(tables) * step / 2 + 1e-5 * float(np.abs(tables).max(axis=1).sum()))
        rows: Longs = module.scan_packed(
            self._packed, steps, self.weights, float(low.sum()), step, k, 2 * bound, default_threads()
        )
        return rows
