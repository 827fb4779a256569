"""Search over product codes as they are: by lookup tables, no row is decoded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.product import Product
from polyvec.core.blocks import Block
from polyvec.core.errors import Corrupt
from polyvec.kernels.product import ProductSearch, make_tables
from polyvec.kernels.rows import row_norms, unit_of

Floats = NDArray[np.float32]
Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]
BLOCK = 16384


class CodeSearch:
    """The nearest rows by cosine over the codes (n, parts) of a product codec. Keeps 1 / length of each row."""

    def __init__(self, codec: Product, codes: NDArray[np.uint8]) -> None:
        self._codec = codec
        codes = np.ascontiguousarray(codes)
        self._search = ProductSearch(codes, codec.centroids, inverse_norms(codec, codes))

    def nearest(self, query: Floats, k: int) -> Ranked:
        """The k nearest rows and those tied with the last, best first, with their cosines."""
        unit = unit_of(query)
        if self._codec.projection is not None:
            unit = unit @ self._codec.projection
        try:
            return self._search.nearest(make_tables(np.ascontiguousarray(unit), self._codec.books), k)
        except IndexError as error:
            raise Corrupt(f"a code names no centroid: {error}", field="codes") from None

    def nearest_many(self, queries: Floats, k: int) -> list[Ranked]:
        """`nearest` for several queries."""
        return [self.nearest(query, k) for query in queries]


def inverse_norms(codec: Product, codes: NDArray[np.uint8]) -> Floats:
    """1 / length of each decoded row, its stored norm left out: what makes a table sum a cosine. 0 for zero rows."""
    plain = Product(codec.books, codec.projection, False)
    norms = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), BLOCK):
        piece = np.ascontiguousarray(codes[start : start + BLOCK])
        norms[start : start + BLOCK] = row_norms(plain.decode(Block(start, {"codes": piece}, plain, len(piece))))
    return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
