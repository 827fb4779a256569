"""Rows of a matrix: gathered, measured and scaled, the same bits on every path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from polyvec.kernels import available_paths, rows, use_path
from polyvec.kernels.scores import query_norms

PATHS = ["avx512", "avx2", "neon", "portable", "numpy"]


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param not in available_paths():
        pytest.skip(f"no {request.param} path here")
    with use_path(request.param):
        yield request.param


def test_all_paths_give_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((2000, 37)).astype(np.float32)
    norms = rows.row_norms(matrix)
    taken = rows.take(matrix, [5, 3, 5])
    with use_path("numpy"):
        assert norms.tobytes() == rows.row_norms(matrix).tobytes()
        assert taken.tobytes() == rows.take(matrix, [5, 3, 5]).tobytes()


@pytest.mark.parametrize("dim", [1, 7, 8, 15, 16, 17, 300, 1024])
def test_a_length_is_the_sum_that_scores_are_made_of(path: str, dim: int) -> None:
    matrix = np.random.default_rng(dim).standard_normal((40, dim)).astype(np.float32)
    assert rows.row_norms(matrix).tolist() == query_norms(matrix.astype(np.float64)).astype(np.float32).tolist()


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
