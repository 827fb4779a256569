"""Search over product codes as they are: lookup tables say which rows may be the nearest, and only those are decoded.

A table sum is off from the cosine by float32 roundings alone, which are bounded below (u is the query, turned where the
codec turns rows; `stretch` is how much longer a row's centroids are than what they decode to, 1 but for rounding):

- u, the tables and the weight are rounded once or twice each, and the sum has one addition a part:
  (parts + 8) 2^-24 |u| stretch;
- rows are decoded in float32: 4 * 2^-24, and where they are turned, sums of dim products: 2 (dim + 2) 2^-24 |turn| stretch.

What lies within twice that of the k-th best is decoded and scored by the one definition (`polyvec.kernels.scores`), so a
search over codes gives the scores of a search over the decoded rows, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.product import Product
from polyvec.core.blocks import Block
from polyvec.core.errors import Corrupt
from polyvec.kernels.lengths import unit_query
from polyvec.kernels.product import ProductScan, make_tables, sum_tables
from polyvec.kernels.rows import row_norms
from polyvec.kernels.scores import plain_floats
from polyvec.neighbors.held import Ranked, rank_rows

Floats = NDArray[np.float32]
BLOCK = 16384
SHORT, LONG = 1e-18, 1e18  # lengths between which float32 sums neither lose nor overflow; other rows are always scored


class CodeSearch:
    """The nearest rows by cosine over the codes (n, parts) of a product codec, and their norms where they are apart."""

    def __init__(self, codec: Product, codes: NDArray[np.uint8], norms: Floats | None = None) -> None:
        self._codec = codec
        self._codes, self._norms = np.ascontiguousarray(codes), norms
        with np.errstate(all="ignore"):
            weights, self._odd, stretch = self._measure()
        self._scan = ProductScan(self._codes, codec.centroids, weights)
        parts, turn = codec.parts_count, codec.projection
        turned = 0.0 if turn is None else float(np.linalg.norm(turn.astype(np.float64)))
        self._sums, self._rows = (parts + 8) * stretch, 4 + 2 * (codec.books.shape[2] * parts + 2) * turned * stretch

    def nearest(self, query: NDArray[np.floating], k: int) -> Ranked:
        """The k nearest rows and those tied with the last, best first, with their cosines."""
        unit = unit_query(query)
        if self._codec.projection is not None:
            unit = unit @ self._codec.projection.astype(np.float64)
        margin = 2 * ((self._sums * float(np.sqrt(unit @ unit)) + self._rows) * 2.0**-24 + 2.0**-20)
        try:
            near = self._scan.candidates(make_tables(unit.astype(np.float32), self._codec.books), k, margin)
        except IndexError as error:
            raise Corrupt(f"a code names no centroid: {error}", field="codes") from None
        rows = np.union1d(near, self._odd) if len(self._odd) else near
        return rank_rows(self.decode, rows, query, k)

    def nearest_many(self, queries: NDArray[np.floating], k: int) -> list[Ranked]:
        """`nearest` for several queries."""
        return [self.nearest(query, k) for query in queries]

    def decode(self, rows: slice | NDArray[np.int64]) -> Floats:
        """Some rows, as the codec decodes them."""
        parts = {"codes": np.ascontiguousarray(self._codes[rows])}
        if self._norms is not None:
            parts["norms"] = np.ascontiguousarray(self._norms[rows])
        with np.errstate(all="ignore"):
            return self._codec.decode(Block(-1, parts, self._codec, len(parts["codes"])))

    @plain_floats()
    def _measure(self) -> tuple[Floats, NDArray[np.int64], float]:
        """What makes a row's table sum a cosine (NaN for rows that are always scored), those rows, and the stretch."""
        count = len(self._codes)
        weights = np.empty(count, np.float32)
        squares = np.einsum("pcw,pcw->pc", *[self._codec.books.astype(np.float64)] * 2).astype(np.float32)
        odd = []
        stretch = 1.0
        for start in range(0, count, BLOCK):
            part = slice(start, min(start + BLOCK, count))
            lengths = row_norms(self.decode(part)).astype(np.float64)
            spans = np.sqrt(sum_tables(self._codes[part], squares), dtype=np.float64)
            norms = 1.0 if self._norms is None else self._norms[part].astype(np.float64)
            weight = norms / lengths
            drawn = np.abs(weight) * spans
            fair = (lengths >= SHORT) & (lengths <= LONG) & (spans >= SHORT) & (spans <= LONG) & (drawn < 2.0)
            zero = (lengths == 0) & (spans == 0) & np.isfinite(norms)
            weights[part] = np.where(fair, weight, np.where(zero, 0.0, np.nan))
            odd.append(np.flatnonzero(~(fair | zero)) + start)
            stretch = max(stretch, float(drawn[fair].max(initial=0.0)) * (1 + 2.0**-10))
        return weights, np.concatenate(odd) if odd else np.empty(0, np.int64), stretch
