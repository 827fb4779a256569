"""Rows that are held and searched again and again: exact, with all that tie, on every path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from polyvec.core.errors import InputError
from polyvec.kernels import available_paths, use_path
from polyvec.neighbors.held import HeldRows
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
    search = HeldRows(matrix)
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
    found, scores = HeldRows(matrix).nearest(matrix[3], 5)
    assert found.tolist() == [3, *range(8, 40)]
    assert set(scores.tolist()) == {1.0}


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_every_scale_rank_as_a_scan_ranks_them(path: str, seed: int) -> None:
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
        found = HeldRows(matrix).nearest_many(queries, k)
        for j, (some, scores) in enumerate(found):
            assert some.tolist() == rows_wanted[j, : len(some)].tolist()
            assert np.array_equal(scores, scores_wanted[j, : len(some)], equal_nan=True)
            assert len(some) >= k


def test_a_row_without_a_score_does_not_hide_its_neighbours(path: str) -> None:
    matrix = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    for bad in (np.nan, np.inf):
        odd = matrix.copy()
        odd[[0, 16, 32, 48], 3] = bad
        found, scores = HeldRows(odd).nearest(matrix[5], 64)
        assert found[0] == 5 and len(found) == 64
        assert found[-4:].tolist() == [0, 16, 32, 48] and np.isnan(scores[-4:]).all()


@pytest.mark.parametrize("query", [[1, np.nan, 0, 0], [0, 0, np.inf, 0], [0, 0, 0, 0]])
def test_a_query_without_a_direction_is_refused_as_by_every_search(path: str, query: list[float]) -> None:
    with pytest.raises(InputError, match="query 0"):
        HeldRows(np.eye(3, 4, dtype=np.float32)).nearest(np.array(query, np.float32), 2)


def test_more_rows_than_there_are_gives_all(path: str) -> None:
    matrix = np.eye(3, 4, dtype=np.float32)
    assert len(HeldRows(matrix).nearest(matrix[0], 10)[0]) == 3
    assert len(HeldRows(matrix[:0]).nearest(matrix[0], 10)[0]) == 0


def test_all_paths_give_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((2000, 37)).astype(np.float32)
    query = rng.standard_normal(37).astype(np.float32)
    fast = HeldRows(matrix).nearest(query, 20)
    with use_path("numpy"):
        slow = HeldRows(matrix).nearest(query, 20)
    assert fast[0].tolist() == slow[0].tolist()
    assert fast[1].tolist() == slow[1].tolist()


def test_ties_go_on_as_far_as_they_go(path: str) -> None:
    matrix = np.zeros((3000, 5), np.float32)
    matrix[::3, 1] = np.arange(1, 1001)
    found, scores = HeldRows(matrix).nearest(np.array([0, 2, 0, 0, 0]), 4)
    assert found.tolist() == list(range(0, 3000, 3)) and set(scores.tolist()) == {1.0}
    both = HeldRows(matrix).nearest_many(np.array([[0, 2, 0, 0, 0], [0, -1, 0, 0, 0]]), 2001)
    assert [len(found) for found, _ in both] == [3000, 3000]
    assert both[1][0][:2000].tolist() == [row for row in range(3000) if row % 3]
