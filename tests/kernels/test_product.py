"""Product codes: rows of centroids, rotated in order, and the best rows straight from tables of products."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import available_paths, use_path
from polyvec.kernels.product import ProductSearch, decode_product, make_tables, rotate_rows, score_product

RNG = np.random.default_rng(5)
BOOKS = RNG.standard_normal((3, 5, 2)).astype(np.float32)
CODES = RNG.integers(0, 5, (40, 3)).astype(np.uint8)
ROWS = np.concatenate([BOOKS[part][CODES[:, part]] for part in range(3)], axis=1)


@pytest.fixture(params=sorted({*available_paths(), "numpy"}), autouse=True)
def _path(request):
    with use_path(request.param):
        yield


def test_rows_are_their_centroids_times_a_weight() -> None:
    weights = RNG.uniform(0, 2, 40).astype(np.float32)
    assert decode_product(CODES, BOOKS).tobytes() == ROWS.tobytes()
    out = np.empty_like(ROWS)
    assert decode_product(CODES, BOOKS, weights=weights, out=out) is out
    assert out.tobytes() == (ROWS * weights[:, None]).tobytes()


def test_the_first_code_without_a_centroid_is_named_with_its_place() -> None:
    codes = CODES.copy()
    codes[7, 2] = codes[30, 0] = 5
    with pytest.raises(IndexError, match="code 5 at row 7, part 2 has no centroid among 5") as caught:
        decode_product(codes, BOOKS)
    assert caught.value.args[1] == 7 * 3 + 2


def test_a_row_is_turned_alone_as_among_many() -> None:
    turn = RNG.standard_normal((6, 6)).astype(np.float32)
    whole = rotate_rows(ROWS, turn)
    wanted = np.zeros((40, 6), np.float32)
    for component in range(6):
        wanted += ROWS[:, component, None] * turn[component]
    assert whole.tobytes() == wanted.tobytes()
    assert rotate_rows(ROWS[9:10], turn).tobytes() == whole[9:10].tobytes()


def test_table_sums_are_the_products_with_the_rows() -> None:
    query = RNG.standard_normal(6).astype(np.float32)
    tables = make_tables(query, BOOKS)
    assert tables.shape == (3, 5)
    some = np.array([3, 3, 39])
    assert np.allclose(score_product(CODES, tables, some), ROWS[some] @ query, atol=1e-5)


def test_the_best_rows_come_first_with_all_that_tie_with_the_last() -> None:
    query = RNG.standard_normal(6).astype(np.float32)
    codes = np.concatenate([CODES, CODES])
    weights = np.ones(80, np.float32)
    rows, scores = ProductSearch(codes, 5, weights).nearest(make_tables(query, BOOKS), 5)
    truth = np.concatenate([ROWS, ROWS]) @ query
    assert len(rows) >= 6 and np.all(np.diff(scores) <= 0), "every row is there twice, so five have a sixth"
    assert np.allclose(truth[rows], scores, atol=1e-5)
    assert np.all(np.delete(truth, rows) <= scores[-1] + 1e-5)


def test_no_rows_asked_for_and_more_than_there_are() -> None:
    search = ProductSearch(CODES, 5, np.ones(40, np.float32))
    tables = make_tables(np.ones(6, np.float32), BOOKS)
    assert len(search.nearest(tables, 0)[0]) == 0
    assert sorted(search.nearest(tables, 99)[0].tolist()) == list(range(40))


def test_rows_without_a_weight_come_last() -> None:
    weights = np.ones(40, np.float32)
    weights[:35] = 0
    tables = np.abs(make_tables(np.ones(6, np.float32), BOOKS)) + 1
    rows, scores = ProductSearch(CODES, 5, weights).nearest(tables, 5)
    assert set(rows.tolist()) == set(range(35, 40)) and (scores > 0).all()
