"""The search kernels, launched by hand, against NumPy: the best of each tile, and the rows that reach a floor."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="triton is not installed: no GPU tests")

from polyvec.gpu import triton_search  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, STEP, WIDE = 64, 32, 16  # rows a tile, rows a step, queries a program
COUNT, ASKED = 150, 5  # two tiles and a piece of a third


def put(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


def weights(plain):
    rng = np.random.default_rng(9)
    if plain:
        return np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)
    return tuple(np.round(rng.standard_normal(COUNT) * 4).astype(np.float32) / 4 for _ in range(3))


def tiles_of(scores):
    """The highest of each tile; whole numbers and quarters, so that any order of sums gives the same."""
    return np.stack([scores[:, at : at + ROWS].max(axis=1) for at in range(0, COUNT, ROWS)], axis=1)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("dim", [16, 32, 40])
def test_the_best_of_each_tile_is_found_and_rows_beyond_the_last_count_for_nothing(dim, plain):
    rng = np.random.default_rng(dim)
    codes = rng.integers(-9, 9, (COUNT, dim)).astype(np.float16)
    queries = rng.integers(-9, 9, (ASKED, dim)).astype(np.float16)
    a, b, c = weights(plain)
    sums = queries.astype(np.float32).sum(axis=1)
    best = torch.full((ASKED, 3), 7e7, device=DEVICE)
    shape = {"ROWS": ROWS, "STEP": STEP, "QUERIES": WIDE, "DEPTH": 32, "PLAIN": plain, "WHOLE": dim % 32 == 0}
    triton_search.best_of_tiles[(3, 1)](*map(put, (codes, queries, a, b, c, sums)), best, COUNT, dim, ASKED, 3, **shape)
    product = queries.astype(np.float32) @ codes.astype(np.float32).T
    np.testing.assert_array_equal(best.cpu().numpy(), tiles_of(a * product + b * sums[:, None] + c))


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("dim", [32, 20, 70])
def test_int8_products_of_both_halves_of_a_query_are_added(dim, plain):
    rng = np.random.default_rng(dim)
    codes = rng.integers(-128, 128, (COUNT, dim)).astype(np.int8)
    high, low = (rng.integers(-60, 60, (ASKED, dim)).astype(np.int8) for _ in range(2))
    a, b, c = weights(plain)
    sums = np.arange(ASKED, dtype=np.float32)
    best = torch.full((ASKED, 3), 7e7, device=DEVICE)
    once = dim <= 32
    shape = {"ROWS": ROWS, "STEP": STEP, "QUERIES": WIDE, "DEPTH": 32, "PLAIN": plain}
    triton_search.best_of_int8_tiles[(3, 1)](
        *map(put, (codes, high, low, a, b, c, sums)),
        best,
        COUNT,
        dim,
        ASKED,
        3,
        WHOLE=dim == 32,
        ONCE=once,
        **shape,
    )
    query = 128 * high.astype(np.int64) + low
    product = (query @ codes.astype(np.int64).T).astype(np.float64)
    wanted = tiles_of(a * product + b * sums[:, None] + c)
    np.testing.assert_allclose(best.cpu().numpy(), wanted, rtol=1e-6)


def pairs(room, floors):
    """What the kernel lists for all pairs of 2 queries and 3 tiles; how many reached their floor."""
    rng = np.random.default_rng(3)
    codes = rng.integers(-9, 9, (COUNT, 20)).astype(np.int8)
    queries = rng.integers(-9, 9, (2, 20)).astype(np.float32)
    a, b, c = weights(False)
    sums = queries.sum(axis=1)
    count = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    out = torch.full((2, COUNT * 2), -1, dtype=torch.int64, device=DEVICE)
    triton_search.rows_of_pairs[(6,)](
        *map(put, (codes, queries, a, b, c, sums)),
        put(np.repeat(np.arange(2), 3)),
        put(np.tile(np.arange(3), 2)),
        put(np.asarray(floors, np.float32)),
        count,
        out[0],
        out[1],
        COUNT,
        20,
        room,
        ROWS=ROWS,
        STEP=STEP,
        DEPTH=32,
        PLAIN=False,
    )
    scores = a * (queries @ codes.astype(np.float32).T) + b * sums[:, None] + c
    return scores, int(count), out.cpu().numpy()


def test_the_rows_that_reach_their_querys_floor_are_listed_once():
    scores, _, _ = pairs(0, [np.inf, np.inf])
    floors = np.sort(scores, axis=1)[:, [-7, -20]].diagonal()  # the 7th of one, the 20th of the other
    _, count, (query, row) = pairs(300, floors)
    wanted = {(q, r) for q in range(2) for r in range(COUNT) if scores[q, r] >= floors[q]}
    assert count == len(wanted) >= 27
    assert {*zip(query[:count].tolist(), row[:count].tolist())} == wanted and (query[count:] == -1).all()


def test_a_list_that_is_full_is_counted_on_and_not_written_beyond():
    _, count, (query, row) = pairs(10, [-np.inf, -np.inf])
    assert count == 2 * COUNT
    assert (query[:10] >= 0).all() and (query[10:] == -1).all() and (row[10:] == -1).all()
