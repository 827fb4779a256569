"""A search over product codes gives the rows and the bits of a search over the decoded rows."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.codecs.product import Product
from polyvec.core.blocks import Block
from polyvec.core.errors import Corrupt
from polyvec.kernels import available_paths, use_path
from polyvec.neighbors.held import HeldRows
from polyvec.words.codes import CodeSearch

PATHS = sorted({*available_paths(), "numpy"})


def quantized(seed: int, *, parts: int = 12, width: int = 2, turned: bool = False, norms: bool = False):
    rng = np.random.default_rng(seed)
    books = rng.standard_normal((parts, 256, width)).astype(np.float32)
    dim = parts * width
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32) if turned else None
    codec = Product(books, turn, norms)
    codes = rng.integers(0, 256, (2000, parts)).astype(np.uint8)
    codes[100:140] = codes[7]
    apart = (rng.random(2000) * 10 - 2).astype(np.float32) if norms else None
    if apart is not None:
        apart[[5, 9, 11, 12, 13]] = [0, np.nan, np.inf, 1e-40, 1e38]
    parts_held = {"codes": codes} if apart is None else {"codes": codes, "norms": apart}
    return codec, codes, apart, codec.decode(Block(0, parts_held, codec, len(codes)))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_codes_are_ranked_and_scored_as_their_rows(path: str, turned: bool, norms: bool) -> None:
    codec, codes, apart, rows = quantized(3, turned=turned, norms=norms)
    rng = np.random.default_rng(4)
    queries = np.concatenate([rows[[7, 50]].astype(np.float64), rng.standard_normal((3, rows.shape[1]))])
    with use_path(path):
        search, held = CodeSearch(codec, codes, apart), HeldRows(rows)
        for k in (1, 10, 45, 2000):
            for (found, scores), (wanted, exact) in zip(search.nearest_many(queries, k), held.nearest_many(queries, k)):
                assert found.tolist() == wanted.tolist()
                assert np.array_equal(scores, exact, equal_nan=True)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_codes_of_any_scale_are_ranked_as_their_rows(scale: float) -> None:
    codec, codes, _, _ = quantized(5)
    codec = Product(codec.books * np.float32(scale), None, False)
    codec.books[3, 17] = 0
    codes[30] = 0
    codec.books[:, 0] = 0
    rows = codec.decode(Block(0, {"codes": codes}, codec, len(codes)))
    query = np.random.default_rng(6).standard_normal(rows.shape[1])
    found, scores = CodeSearch(codec, codes).nearest(query, 30)
    wanted, exact = HeldRows(rows).nearest(query, 30)
    assert found.tolist() == wanted.tolist() and scores.tolist() == exact.tolist()


@pytest.mark.parametrize("path", PATHS)
def test_a_code_without_a_centroid_is_corrupt(path: str) -> None:
    codec = Product(np.ones((4, 16, 2), np.float32), None, False)
    codes = np.zeros((10, 4), np.uint8)
    codes[5, 3] = 20
    with use_path(path), pytest.raises(Corrupt, match="names no centroid"):
        CodeSearch(codec, codes).nearest(np.ones(8), 2)
