"""Every way to search gives the same rows and scores at any scale, and those of whole-number arithmetic.

`make fuzz-search` runs many more cases than the sample here (POLYVEC_FUZZ_CASES).
"""

from __future__ import annotations

import os
import platform

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.vocab import Vocab
from polyvec.finalfusion import Embeddings
from polyvec.kernels import available_paths, use_path
from polyvec.kernels.scores import compiled
from polyvec.neighbors import reference
from polyvec.neighbors.held import HeldRows
from polyvec.neighbors.index import Index
from polyvec.neighbors.metric import NAMES, Metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan
from polyvec.neighbors.search import search

from .extremes import DIMS, DTYPES, make_case, oracle

CASES = int(os.environ.get("POLYVEC_FUZZ_CASES", "0"))
PATHS = sorted({*available_paths(), "numpy"})


def rank_all(rows, queries, metric):
    keys, ties = reference.score_all(scorable(rows), queries, NAMES[metric])
    ids = np.arange(len(rows))
    found = [reference.rank(key, tie, ids, len(rows)) for key, tie in zip(keys, ties)]
    scores = np.array([f[1] for f in found])
    return np.array([f[0] for f in found]), (-scores if metric == "l2" else scores)


def scan(rows, queries, k, metric, *, scores="auto", step=None):
    work = Scan(queries, k=k, metric=metric, scores=scores, threads=2)
    for at in range(0, len(rows), step or len(rows)):
        work.feed(rows[at : at + (step or len(rows))])
    return work.result()


def same(found, wanted, k, case, how):
    np.testing.assert_array_equal(found[0], wanted[0][:, :k], err_msg=f"{case}: {how}")
    np.testing.assert_array_equal(found[1], wanted[1][:, :k], err_msg=f"{case}: {how}")


def seeds(few):
    return range(CASES or few)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_definition_is_that_of_whole_numbers(dtype, dim):
    for seed in seeds(2):
        case = make_case(seed, dtype, dim, 12)
        for metric in NAMES:
            ids, scores = rank_all(case.rows, case.queries, metric)
            for j, query in enumerate(case.queries):
                want_ids, want_scores = oracle(case.rows, query, metric)
                assert ids[j].tolist() == want_ids, f"{case}, query {j}, {metric}"
                np.testing.assert_array_equal(scores[j], want_scores, err_msg=f"{case}, query {j}, {metric}")


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_path_and_split_gives_the_definition(dtype, dim):
    for seed in seeds(2):
        n = (40, 500)[seed % 2]
        case = make_case(1000 + seed, dtype, dim, n)
        rng = np.random.default_rng(seed)
        for metric in NAMES:
            wanted = rank_all(case.rows, case.queries, metric)
            for path in PATHS:
                with use_path(path):
                    for scores in ("int8", "float32", "auto"):
                        k, step = int(rng.choice([1, 10, n])), int(rng.choice([n, 100, 33]))
                        how = f"{metric}, {path}, {scores}, k {k}, blocks of {step}"
                        same(scan(case.rows, case.queries, k, metric, scores=scores, step=step), wanted, k, case, how)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_index_a_filter_and_a_wish_for_more_give_the_definition(dtype, tmp_path):
    for seed in seeds(2):
        case = make_case(2000 + seed, dtype, DIMS[seed % 4], 400)
        mask = np.random.default_rng(seed).random(400) < 0.05
        index = Index.build(case.rows)
        index.save(tmp_path / "a.pvindex")
        again = Index.open(tmp_path / "a.pvindex", case.rows)
        for metric in NAMES:
            wanted = rank_all(case.rows, case.queries, metric)
            for one in (index, again):
                for k in (1, 10, 400):
                    hits = one.search(case.queries, k, metric)
                    same((hits.rows, hits.scores), wanted, k, case, f"index, {metric}, k {k}")
            hits = search(case.rows, case.queries, 30, metric, where=mask)
            for j in range(len(case.queries)):
                passed = mask[wanted[0][j]]
                some = wanted[0][j][passed][:30]
                assert hits.rows[j].tolist() == [*some, *[-1] * (30 - len(some))], f"{case}: filter, {metric}"
            more = scan(case.rows, case.queries, 410, metric, step=150)
            same((more[0][:, :400], more[1][:, :400]), wanted, 400, case, f"k beyond the rows, {metric}")
            assert (more[0][:, 400:] == -1).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_words_and_held_rows_give_the_definition_and_all_ties(dtype, path):
    for seed in seeds(2):
        case = make_case(4000 + seed, dtype, DIMS[seed % 4], 300)
        words = Vocab([f"w{row:03d}" for row in range(300)])
        asked = [query for query in case.queries if query.any()]
        with use_path(path):
            model = Embeddings(Collection({"vectors": ArrayColumn("vectors", case.rows)}, vocab=words))
            for metric in NAMES if asked else ():
                held = HeldRows(case.rows, NAMES[metric])
                ids, scores = rank_all(case.rows, np.stack(asked), metric)
                for k in (1, 10, 300):
                    for j, (found, told) in enumerate(held.nearest_many(np.stack(asked), k)):
                        count = k + int(np.count_nonzero(scores[j, k:] == scores[j, k - 1]))
                        how = f"{case}: held, {metric}, {path}, k {k}, query {j}"
                        np.testing.assert_array_equal(found, ids[j, :count], err_msg=how)
                        np.testing.assert_array_equal(told, scores[j, :count], err_msg=how)
                    if metric == "cosine":
                        for j, hits in enumerate(model.similar_many(asked, k)):
                            np.testing.assert_array_equal([hit.similarity for hit in hits], scores[j, :k])


@pytest.mark.parametrize("path", PATHS)
def test_a_faint_query_among_faint_rows_finds_its_neighbour(path):
    rng = np.random.default_rng(0)
    query = (rng.standard_normal(257) * 4e-36).astype(np.float32)
    rows = (rng.standard_normal((1000, 257)) * 1e-20).astype(np.float32)
    rows[5], rows[900] = 0, query * np.float32(0.07)
    with use_path(path):
        for scores in ("int8", "float32"):
            for step in (1000, 100):
                assert scan(rows, query, 1, "l2", scores=scores, step=step)[0].tolist() == [[900]]
        assert Index.build(rows).search(query, 1, "l2").rows.tolist() == [[900]]


def test_scores_beyond_float64_are_ranked_and_read_zero_or_infinity():
    rows = np.array([[3e-200], [1e-200], [2e-200], [0.0]])
    ids, scores = scan(rows, np.array([[1e-200]]), 4, "ip")
    assert ids.tolist() == [[0, 2, 1, 3]] and (scores == 0).all()
    ids, scores = scan(rows, np.array([[1e-200]]), 4, "l2")
    assert ids.tolist() == [[1, 2, 3, 0]] and (scores == 0).all()
    ids, scores = scan(rows, np.array([[1e-200]]), 4, "cosine")
    assert ids.tolist() == [[0, 1, 2, 3]] and scores.tolist() == [[1, 1, 1, 0]]
    huge = np.array([[1e200], [-1e300], [1e300], [np.nan], [1.0]])
    ids, scores = scan(huge, np.array([[1e200]]), 5, "ip")
    assert ids.tolist() == [[2, 0, 4, 1, 3]]
    assert scores[0, :4].tolist() == [np.inf, np.inf, 1e200, -np.inf] and np.isnan(scores[0, 4])


def test_a_scan_resumes_with_the_ties_of_another():
    rows = np.array([[3e-200], [1e-200], [2e-200], [4e-200], [1.5e-200]])
    for path in PATHS:
        with use_path(path):
            first = Scan(np.array([[1e-200]]), k=2, metric="ip")
            first.feed(rows[:3])
            second = Scan(np.array([[1e-200]]), k=2, metric="ip")
            second.resume(*first.peek(), first.ties())
            second.rows = 3
            second.feed(rows[3:])
            assert second.result()[0].tolist() == [[3, 0]]
            first.result()


@pytest.mark.skipif(compiled() is None, reason="the mode of a thread is changed by the compiled module")
def test_a_thread_that_flushes_subnormals_gets_the_same_answers():
    module = compiled()
    flush = {"aarch64": 1 << 24, "x86_64": 0x1F80 | 0x8040}.get(platform.machine(), 0)
    if not flush:
        pytest.skip("no such mode is known here")
    for seed in seeds(4):
        for dtype in ("float64", "float32"):
            case = make_case(3000 + seed, dtype, DIMS[seed % 4], 300)
            for metric in NAMES:
                wanted = rank_all(case.rows, case.queries, metric)
                index = Index.build(case.rows)
                for scores in ("int8", "float32"):
                    before = module.float_mode()
                    module.set_float_mode(flush)
                    try:
                        assert np.float64(1e-310) * np.float64(0.5) == 0  # the mode is on
                        found = scan(case.rows, case.queries, 5, metric, scores=scores, step=100)
                        hits = index.search(case.queries, 5, metric)
                    finally:
                        module.set_float_mode(before)
                    same(found, wanted, 5, case, f"flushing, {metric}, {scores}")
                    same((hits.rows, hits.scores), wanted, 5, case, f"flushing, {metric}, index")


def test_the_metrics_have_the_numbers_of_the_kernels():
    assert [int(m) for m in (Metric.IP, Metric.COSINE, Metric.L2)] == [0, 1, 2]
