"""Product quantisation: rows from codes, and the nearest rows straight from the codes.

A code names a centroid of one part of the row. A query's products with all centroids of a part make a table; a
row's sum over its parts' entries in float32, times the row's weight, is near its score: it says which rows must be
scored. Where the processor has AVX-512 VBMI, tables rounded to bytes say it for 64 rows at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.strings import Floats, Longs
from polyvec.kernels.threads import default_threads

Codes = npt.NDArray[np.uint8]

BLOCK = 65536  # rows that NumPy sums at a time


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
    return np.ascontiguousarray(tables)


def sum_tables(codes: Codes, tables: Floats) -> Floats:
    """The float32 table sums of codes, part by part."""
    module = native()
    if module is not None:
        sums: Floats = module.score_product(np.ascontiguousarray(codes), tables, np.arange(len(codes)))
        return sums
    if tables.shape[1] < 256 and (codes >= tables.shape[1]).any():
        raise IndexError(f"a code beyond the {tables.shape[1]} centroids")
    sums = np.zeros(len(codes), np.float32)
    for part in range(codes.shape[1]):
        sums += tables[part][codes[:, part]]
    return sums


@dataclass(slots=True)
class ProductScan:
    """Codes that table sums are taken of, row by row. `weights` turn a sum into a score; a row of weight NaN has none."""

    codes: Codes
    centroids: int
    weights: Floats
    _packed: npt.NDArray[np.uint8] | None = field(init=False, default=None)

    def candidates(self, tables: Floats, k: int, margin: float) -> Longs:
        """The rows, ascending, within `margin` of the k-th largest score: twice what a score may be off by."""
        k = min(k, len(self.codes))
        module = native()
        rows: Longs
        if k == 0:
            rows = np.empty(0, np.int64)
        elif module is None:
            rows = self._scan(tables, k, margin)
        elif module.can_scan_packed():
            rows = self._scan_packed(module, tables, k, margin)
        else:
            rows = module.scan_product(self.codes, tables, self.weights, k, margin, default_threads())
        return rows

    def _scan(self, tables: Floats, k: int, margin: float) -> Longs:
        scores = np.concatenate(
            [sum_tables(self.codes[at : at + BLOCK], tables) for at in range(0, len(self.codes), BLOCK)]
        )
        scores *= self.weights
        known = np.sort(scores[~np.isnan(scores)])
        bar = known[-k] - np.float32(margin) if len(known) >= k else -np.inf
        return np.flatnonzero(scores >= bar)

    def _scan_packed(self, module: Any, tables: Floats, k: int, margin: float) -> Longs:
        if self._packed is None:
            self._packed = module.pack_product(self.codes, self.centroids, default_threads())
        low = tables.min(axis=1, keepdims=True).astype(np.float64)
        step = float((tables - low).max()) / 255 or 1.0
        steps = np.zeros((len(tables), 256), np.uint8)
        steps[:, : tables.shape[1]] = np.rint((tables - low) / step)
        heaviest = float(np.nanmax(np.abs(self.weights), initial=0))
        # Each part is off by half a step at most; float32 adds a little of its own.
        bound = heaviest * (len(tables) * step / 2 + 1e-5 * float(np.abs(tables).max(axis=1).sum()))
        rows: Longs = module.scan_packed(
            self._packed, steps, self.weights, float(low.sum()), step, k, 2 * bound + margin, default_threads()
        )
        return rows
