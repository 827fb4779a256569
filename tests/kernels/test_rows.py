"""Row search and product quantisation: every path gives the reference's rows and scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from polyvec.kernels import available_paths, product, rows, use_path
from polyvec.neighbors.scan import Scan

PATHS = ["avx512", "avx2", "neon", "portable", "numpy"]


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param not in available_paths():
        pytest.skip(f"no {request.param} path here")
    with use_path(request.param):
        yield request.param


def cosines(matrix: np.ndarray, query: np.ndarray) -> np.ndarray:
    wide = matrix.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    dots = wide @ query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
    return np.divide(dots, lengths, out=np.zeros(len(wide)), where=lengths > 0)


@pytest.mark.parametrize("dim", [1, 7, 64, 75])
def test_the_nearest_rows_are_exact(path: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    matrix = rng.standard_normal((3000, dim)).astype(np.float32) * rng.random((3000, 1)).astype(np.float32)
    matrix[77] = 0
    search = rows.RowSearch(matrix)
    for query in rng.standard_normal((4, dim)).astype(np.float32):
        found, scores = search.nearest(query, 10)
        expected = cosines(matrix, query)
        assert np.allclose(scores[:10], np.sort(expected)[::-1][:10], atol=1e-6)
        assert np.allclose(scores, expected[found], atol=1e-6)
        again, same = search.nearest_many(query[None], 10)[0]
        assert found.tolist() == again.tolist()
        assert scores.tolist() == same.tolist()


def test_all_that_tie_with_the_last_are_kept(path: str) -> None:
    matrix = np.eye(40, 8, dtype=np.float32)
    matrix[8:] = matrix[3]
    found, scores = rows.RowSearch(matrix).nearest(matrix[3], 5)
    assert found.tolist() == [3, *range(8, 40)]
    assert set(scores.tolist()) == {1.0}


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_every_scale_rank_as_an_exact_search_ranks_them(path: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim = int(rng.choice([1, 3, 64, 257]))
    scales = np.float32(rng.choice([1e-45, 1e-43, 1e-38, 1e-30, 1e-20, 1, 1e19, 1e30, 1e38], 4))
    with np.errstate(over="ignore"):
        matrix = (rng.standard_normal((600, dim)) * rng.choice(scales, (600, 1))).astype(np.float32)
    matrix[17], matrix[29, 0], matrix[33, -1], matrix[400] = 0, np.nan, np.inf, matrix[3]
    queries = (rng.standard_normal((5, dim)) * rng.choice(scales, (5, 1))).astype(np.float32)
    queries[1] = matrix[3]
    queries = queries[np.isfinite(queries).all(axis=1) & queries.any(axis=1)]
    for k in (1, 10, 600):
        wanted = Scan(queries, k=600, metric="cosine")
        wanted.feed(matrix)
        rows_wanted, scores_wanted = wanted.result()
        found = rows.RowSearch(matrix).nearest_many(queries, k)
        for j, (some, scores) in enumerate(found):
            assert some.tolist() == rows_wanted[j, : len(some)].tolist()
            assert np.array_equal(scores, scores_wanted[j, : len(some)], equal_nan=True)
            assert len(some) >= k


def test_a_row_without_a_score_does_not_hide_its_neighbours(path: str) -> None:
    matrix = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    for bad in (np.nan, np.inf):
        odd = matrix.copy()
        odd[[0, 16, 32, 48], 3] = bad
        found, scores = rows.RowSearch(odd).nearest(matrix[5], 64)
        assert found[0] == 5 and len(found) == 64
        assert found[-4:].tolist() == [0, 16, 32, 48] and np.isnan(scores[-4:]).all()


def test_a_query_that_is_not_finite_ranks_nothing(path: str) -> None:
    matrix = np.eye(3, 4, dtype=np.float32)
    found, scores = rows.RowSearch(matrix).nearest(np.array([1, np.nan, 0, 0], np.float32), 2)
    assert found.tolist() == [0, 1] and np.isnan(scores).all()


def test_more_rows_than_there_are_gives_all(path: str) -> None:
    matrix = np.eye(3, 4, dtype=np.float32)
    assert len(rows.RowSearch(matrix).nearest(matrix[0], 10)[0]) == 3
    assert len(rows.RowSearch(matrix[:0]).nearest(matrix[0], 10)[0]) == 0


def test_all_paths_give_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((2000, 37)).astype(np.float32)
    query = rng.standard_normal(37).astype(np.float32)
    fast = rows.RowSearch(matrix).nearest(query, 20)
    norms = rows.row_norms(matrix)
    taken = rows.take(matrix, [5, 3, 5])
    with use_path("numpy"):
        slow = rows.RowSearch(matrix).nearest(query, 20)
        assert fast[0].tolist() == slow[0].tolist()
        assert fast[1].tolist() == slow[1].tolist()
        assert norms.tobytes() == rows.row_norms(matrix).tobytes()
        assert taken.tobytes() == rows.take(matrix, [5, 3, 5]).tobytes()


def test_normalised_rows_scale_back(path: str) -> None:
    matrix = np.random.default_rng(6).standard_normal((50, 9)).astype(np.float32)
    matrix[4] = 0
    unit = matrix.copy()
    norms = rows.normalize_rows(unit)
    assert np.allclose(np.linalg.norm(unit, axis=1)[norms > 0], 1, atol=1e-6)
    assert unit[4].tolist() == [0] * 9
    assert np.allclose(rows.scale_rows(unit, norms), matrix, rtol=1e-6)


def test_a_row_outside_the_bytes_is_refused(path: str) -> None:
    with pytest.raises(IndexError):
        rows.take_rows(np.zeros(10, np.uint8), np.array([7]), np.empty((1, 4), np.uint8))


@pytest.mark.parametrize(("parts", "centroids", "width"), [(15, 256, 2), (300, 16, 1), (5, 200, 3)])
def test_codes_decode_and_rank_as_their_rows_do(path: str, parts: int, centroids: int, width: int) -> None:
    rng = np.random.default_rng(parts)
    books = rng.standard_normal((parts, centroids, width)).astype(np.float32)
    codes = rng.integers(0, centroids, (1001, parts)).astype(np.uint8)
    weights = rng.random(1001).astype(np.float32)
    decoded = product.decode_product(codes, books, weights=weights)
    expected = np.concatenate([books[p][codes[:, p]] for p in range(parts)], axis=1) * weights[:, None]
    assert decoded.tobytes() == expected.tobytes()
    query = rng.standard_normal(parts * width).astype(np.float32)
    tables = product.make_tables(query, books)
    found, scores = product.ProductSearch(codes, centroids, weights).nearest(tables, 10)
    exact = decoded.astype(np.float64) @ query
    assert np.allclose(scores[:10], np.sort(exact)[::-1][:10], rtol=1e-4, atol=1e-4)
    assert np.allclose(scores, exact[found], rtol=1e-4, atol=1e-4)


def test_product_paths_give_the_same_bits() -> None:
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 256, (2000, 12)).astype(np.uint8)
    codes[100:140] = codes[7]
    tables = rng.standard_normal((12, 256)).astype(np.float32)
    weights = np.ones(2000, np.float32)
    results = []
    for name in available_paths():
        with use_path(name):
            found, scores = product.ProductSearch(codes, 256, weights).nearest(tables, 10)
        results.append((found.tolist(), scores.tolist()))
    assert all(result == results[0] for result in results)


def test_a_code_without_a_centroid_is_named(path: str) -> None:
    codes = np.zeros((10, 4), np.uint8)
    codes[5, 3] = 20
    with pytest.raises(IndexError, match="code 20 at row 5, part 3 has no centroid among 16"):
        product.decode_product(codes, np.zeros((4, 16, 2), np.float32))
