"""Product codes: rows of centroids, rotated in order, and which rows a query cannot do without, from tables of products."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import available_paths, use_path
from polyvec.kernels.product import ProductScan, decode_product, make_tables, rotate_rows, sum_tables
from polyvec.kernels.threads import limit_threads

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


def test_of_many_codes_without_a_centroid_the_first_is_named_whatever_the_threads() -> None:
    codes = np.zeros((40_000, 3), np.uint8)
    codes[30_000:, 1] = codes[25_001, 2] = 5
    for threads in (1, 2, 7):
        with limit_threads(threads), pytest.raises(IndexError) as caught:
            decode_product(codes, BOOKS)
        assert caught.value.args[1] == 25_001 * 3 + 2


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
    assert np.allclose(sum_tables(CODES[some], tables), ROWS[some] @ query, atol=1e-5)


def test_the_best_rows_are_candidates_with_all_that_tie_with_the_last() -> None:
    query = RNG.standard_normal(6).astype(np.float32)
    codes = np.concatenate([CODES, CODES])
    weights = np.ones(80, np.float32)
    rows = ProductScan(codes, 5, weights).candidates(make_tables(query, BOOKS), 5, 1e-5)
    truth = np.concatenate([ROWS, ROWS]) @ query
    assert len(rows) >= 6 and np.all(np.diff(rows) > 0), "every row is there twice, so five have a sixth"
    assert np.all(np.delete(truth, rows) <= np.sort(truth)[-5] + 1e-5)
    assert set(np.argsort(-truth)[:5]) <= set(rows.tolist())


def test_no_rows_asked_for_and_more_than_there_are() -> None:
    scan = ProductScan(CODES, 5, np.ones(40, np.float32))
    tables = make_tables(np.ones(6, np.float32), BOOKS)
    assert len(scan.candidates(tables, 0, 0.0)) == 0
    assert scan.candidates(tables, 99, 0.0).tolist() == list(range(40))


def test_rows_of_weight_zero_come_last() -> None:
    weights = np.ones(40, np.float32)
    weights[:35] = 0
    tables = np.abs(make_tables(np.ones(6, np.float32), BOOKS)) + 1
    rows = ProductScan(CODES, 5, weights).candidates(tables, 5, 0.0)
    assert set(range(35, 40)) <= set(rows.tolist())


@pytest.mark.parametrize(("parts", "centroids", "width"), [(15, 256, 2), (300, 16, 1), (5, 200, 3)])
def test_codes_decode_and_rank_as_their_rows_do(parts: int, centroids: int, width: int) -> None:
    rng = np.random.default_rng(parts)
    books = rng.standard_normal((parts, centroids, width)).astype(np.float32)
    codes = rng.integers(0, centroids, (1001, parts)).astype(np.uint8)
    weights = rng.random(1001).astype(np.float32)
    decoded = decode_product(codes, books, weights=weights)
    expected = np.concatenate([books[p][codes[:, p]] for p in range(parts)], axis=1) * weights[:, None]
    assert decoded.tobytes() == expected.tobytes()
    query = rng.standard_normal(parts * width).astype(np.float32)
    tables = make_tables(query, books)
    scan = ProductScan(codes, centroids, weights)
    exact = decoded.astype(np.float64) @ query
    assert np.allclose(sum_tables(codes, tables) * weights, exact, rtol=1e-4, atol=1e-4)
    best = np.argsort(-exact)[:10]
    for margin in (1e-3, 1.0):
        found = scan.candidates(tables, 10, margin)
        assert set(best) <= set(found.tolist()) and (np.diff(found) > 0).all()


def test_a_row_without_a_weight_is_no_candidate_and_hides_none() -> None:
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 256, (2000, 12)).astype(np.uint8)
    codes[100:140] = codes[7]
    tables = rng.standard_normal((12, 256)).astype(np.float32)
    weights = np.ones(2000, np.float32)
    weights[::2] = np.nan
    sums = sum_tables(codes, tables)
    found = ProductScan(codes, 256, weights).candidates(tables, 10, 0.0)
    odd = np.arange(1, 2000, 2)
    assert set(odd[np.argsort(-sums[odd], kind="stable")[:10]]) <= set(found.tolist())
    assert (found % 2 == 1).all()
