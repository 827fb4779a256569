"""The exact scan gives the rows and scores of a float64 brute force, on data made to defeat it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.errors import InputError
from polyvec.kernels import available_paths, use_path
from polyvec.neighbors import reference
from polyvec.neighbors.metric import NAMES, Metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan

from .datasets import CASES


def brute_force(rows, queries, k, metric):
    """Every row scored in the defined order, sorted by score and id."""
    metric = NAMES[metric]
    wide = np.atleast_2d(np.asarray(queries)).astype(np.float64)
    keys, ties = reference.score_all(scorable(np.asarray(rows)), wide, metric)
    ids = np.arange(len(rows))
    found = [reference.rank(row, tie, ids, k) for row, tie in zip(keys, ties)]
    scores = np.array([f[1] for f in found])
    return np.array([f[0] for f in found]), (-scores if metric is Metric.L2 else scores)


def scan(rows, queries, k, metric, *, scores="auto", step=None, threads=2):
    work = Scan(queries, k=k, metric=metric, scores=scores, threads=threads)
    step = step or max(1, len(rows))
    for at in range(0, len(rows), step):
        work.feed(rows[at : at + step])
    return work.result()


def assert_exact(rows, queries, k, metric, **how):
    ids, scores = scan(rows, queries, k, metric, **how)
    want_ids, want_scores = brute_force(rows, queries, k, metric)
    np.testing.assert_array_equal(scores, want_scores)
    np.testing.assert_array_equal(ids, want_ids)


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scores", ["int8", "float32"])
def test_hard_data_gives_what_a_brute_force_gives(name, metric, scores):
    for seed, (n, d, q, k) in enumerate([(700, 33, 19, 10), (300, 3, 2, 300), (900, 130, 70, 5)]):
        rows, queries = CASES[name](np.random.default_rng(seed), n, d, q)
        assert_exact(rows, queries, k, metric, scores=scores, step=256)


@pytest.mark.parametrize("path", available_paths())
@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("name", ["near_ties", "all_lengths", "not_finite", "uint8_rows", "constant_dimensions"])
def test_every_cpu_path_gives_the_same(path, name, metric):
    rows, queries = CASES[name](np.random.default_rng(7), 400, 37, 21)
    with use_path(path):
        for scores in ("int8", "float32"):
            assert_exact(rows, queries, 9, metric, scores=scores, step=150)
        assert_exact(rows, queries[:1], 9, metric, scores="int8")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 600),
    d=st.integers(1, 70),
    q=st.integers(1, 40),
    name=st.sampled_from(sorted(CASES)),
    metric=st.sampled_from(sorted(NAMES)),
    step=st.integers(1, 600),
    k=st.integers(1, 30),
    scores=st.sampled_from(["int8", "float32", "auto"]),
    threads=st.integers(1, 3),
)
def test_any_data_any_blocks_any_threads(seed, n, d, q, name, metric, step, k, scores, threads):
    rows, queries = CASES[name](np.random.default_rng(seed), n, d, q)
    if metric == "cosine":
        queries = queries[(queries.astype(np.float64) != 0).any(axis=1)]
    if len(queries):
        assert_exact(rows, queries, min(k, n), metric, scores=scores, step=max(step, n // 4), threads=threads)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=6, max_size=90),
    query=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    metric=st.sampled_from(["ip", "l2"]),
    scores=st.sampled_from(["int8", "float32"]),
)
def test_any_three_floats_a_row(values, query, metric, scores):
    rows = np.array(values[: len(values) // 3 * 3], np.float32).reshape(-1, 3)
    assert_exact(rows, np.array([query], np.float32), min(3, len(rows)), metric, scores=scores)


def test_the_defined_order_agrees_with_any_other_to_rounding():
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((50, 77)), rng.standard_normal((5, 77))
    norms = np.linalg.norm(queries, axis=1)
    keys = {metric: reference.score_all(rows, queries, metric)[0] for metric in Metric}
    np.testing.assert_allclose(keys[Metric.IP], queries @ rows.T, rtol=1e-12, atol=1e-12)
    distances = ((queries[:, None] - rows[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(-keys[Metric.L2], distances, rtol=1e-12)
    cosines = queries @ rows.T / np.linalg.norm(rows, axis=1) / norms[:, None]
    np.testing.assert_allclose(keys[Metric.COSINE], cosines, rtol=1e-12, atol=1e-12)


def test_ties_go_to_the_lowest_id_across_blocks_and_threads():
    rows = np.zeros((1000, 4), np.float32)
    rows[::2] = 1
    ids, scores = scan(rows, np.ones((70, 4), np.float32), 5, "ip", scores="int8", step=130)
    assert (ids == [0, 2, 4, 6, 8]).all() and (scores == 4).all()


def test_a_row_without_a_score_comes_last_and_by_id():
    rows = np.array([[np.nan, 1], [1, 1], [np.inf, 1], [0, 0]], np.float32)
    ids, scores = scan(rows, np.array([[1, 1]], np.float32), 4, "cosine")
    assert ids.tolist() == [[1, 3, 0, 2]]
    assert scores[0, 1] == 0 and np.isnan(scores[0, 2:]).all()


def test_int8_that_does_not_pay_is_left_for_float32():
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((8192, 64)) * np.r_[1e6, np.ones(63)]).astype(np.float32)
    queries = (rng.standard_normal((64, 64)) * np.r_[1e-9, np.ones(63)]).astype(np.float32)
    work = Scan(queries, k=3, metric="ip")
    for at in range(0, len(rows), 2048):
        work.feed(rows[at : at + 2048])
    ids, _ = work.result()
    np.testing.assert_array_equal(ids, brute_force(rows, queries, 3, "ip")[0])


def test_a_scan_resumes_from_what_another_found():
    rng = np.random.default_rng(5)
    rows, queries = rng.standard_normal((500, 20)).astype(np.float32), rng.standard_normal((9, 20)).astype(np.float32)
    for metric in NAMES:
        ids, scores = scan(rows[:200], queries, 7, metric)
        work = Scan(queries, k=7, metric=metric)
        work.resume(ids, scores)
        work.rows = 200
        work.feed(rows[200:])
        np.testing.assert_array_equal(work.result()[0], brute_force(rows, queries, 7, metric)[0])


@pytest.mark.parametrize(
    ("queries", "metric", "k", "says"),
    [
        (np.ones((2, 3), np.float32), "ip", 0, "k is 0"),
        (np.full((2, 3), np.nan, np.float32), "ip", 1, "query 0 holds a NaN"),
        (np.array([[1, 1, 1], [1, np.inf, 1]], np.float32), "l2", 1, "query 1 holds a NaN or an infinity"),
        (np.zeros((1, 3), np.float32), "cosine", 1, "query 0 is zero"),
        (np.ones((1, 3), np.float32), "l7", 1, "metric 'l7' is unknown; use one of ip, cosine, l2"),
        (np.array(["a"]), "ip", 1, "rows of numbers"),
        (np.array([[1, 2, -np.inf]]), "ip", 1, "query 0 holds a NaN or an infinity"),
    ],
)
def test_bad_queries_are_one_clear_line(queries, metric, k, says):
    with pytest.raises(InputError, match=says) as caught:
        Scan(queries, k=k, metric=metric)
    assert "\n" not in str(caught.value)


def test_a_dimension_mismatch_names_both():
    with pytest.raises(InputError, match=r"queries have 3 dimensions and the base has 4"):
        Scan(np.ones((1, 3), np.float32), k=1, metric="ip").feed(np.ones((5, 4), np.float32))
