"""Batches: three ways to score and one without compiled kernels, the same rows, scores and ties from all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from polyvec.kernels import available_paths, use_path
from polyvec.kernels.scores import compiled, query_norms
from polyvec.neighbors import batch as batch_module
from polyvec.neighbors import reference
from polyvec.neighbors.batch import FEW, Batch
from polyvec.neighbors.metric import NAMES
from polyvec.neighbors.rows import RowBlock
from polyvec.neighbors.shadow import cast_shadow, choose_frame

RNG = np.random.default_rng(4)
ROWS = RNG.standard_normal((700, 20)).astype(np.float32)
ROWS[50], ROWS[60], ROWS[70] = ROWS[7], 0, np.nan
QUERIES = np.concatenate([ROWS[7:8], RNG.standard_normal((FEW + 4, 20))]).astype(np.float64)

PATHS = sorted({*available_paths(), "numpy"})
needs_kernels = pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")


def batch_of(queries, k, metric, threads=1):
    return Batch(queries, query_norms(queries), k, NAMES[metric], threads)


def truth(queries, k, metric, ids=None):
    keys, ties = reference.score_all(ROWS, queries, NAMES[metric])
    ids = np.arange(len(ROWS)) if ids is None else ids
    found = [reference.rank(key, tie, ids, k) for key, tie in zip(keys, ties)]
    return [np.array(part) for part in zip(*found)]


def scan(batch, block, *, narrow, pool=None):
    shadow = cast_shadow(ROWS[block.first : block.first + block.count], choose_frame(ROWS), narrow=narrow)
    return batch.scan(block, shadow, shadow.terms(batch.metric), pool)


def same(batch, wanted):
    for found, part in zip(batch.result(), wanted):
        np.testing.assert_array_equal(found, part)


@needs_kernels
@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize(("count", "narrow"), [(1, True), (FEW, True), (FEW + 1, True), (1, False), (FEW + 4, False)])
def test_every_way_gives_the_definition(count, narrow, metric):
    if narrow and count > FEW:
        pytest.importorskip("numkong")
    queries = QUERIES[:count]
    for threads in (1, 3):
        batch = batch_of(queries, 9, metric, threads)
        with ThreadPoolExecutor(threads) as pool:
            for first in (0, 300):
                part = ROWS[first : 300 if first == 0 else 700]
                rescored = scan(batch, RowBlock(first, len(part), part), narrow=narrow, pool=pool)
            assert rescored < count * len(part) // 2  # the first block has set the bar
        same(batch, truth(queries, 9, metric))


@pytest.mark.parametrize("metric", NAMES)
def test_without_the_kernels_the_answer_is_the_same(metric):
    with use_path("numpy"):
        batch = batch_of(QUERIES, 9, metric)
        for first in (0, 300):
            part = ROWS[first : 300 if first == 0 else 700]
            batch.scan_plainly(part, RowBlock(first, len(part), part))
        same(batch, truth(QUERIES, 9, metric))


@needs_kernels
@pytest.mark.parametrize("narrow", [True, False])
def test_rows_that_are_not_at_hand_are_fetched_once_and_only_where_needed(narrow):
    asked = []

    def fetch(ids):
        asked.extend(ids.tolist())
        return ROWS[ids]

    batch = batch_of(QUERIES[:2], 5, "l2")
    scan(batch, RowBlock(0, 700, fetch=fetch), narrow=narrow)
    same(batch, truth(QUERIES[:2], 5, "l2"))
    assert len(set(asked)) == len(asked) < 700


@pytest.mark.parametrize("path", PATHS)
def test_a_selection_is_told_by_its_own_ids(path):
    ids = np.arange(700, dtype=np.int64) * 3 + 5
    with use_path(path):
        batch = batch_of(QUERIES[:3], 6, "cosine")
        block = RowBlock(0, 700, ROWS, ids=ids)
        if compiled() is None:
            batch.scan_plainly(ROWS, block)
        else:
            scan(batch, block, narrow=True)
        same(batch, truth(QUERIES[:3], 6, "cosine", ids))


@needs_kernels
@pytest.mark.parametrize(("count", "narrow"), [(2, True), (FEW + 2, True), (3, False)])
def test_near_ties_are_settled_on_the_way_and_change_nothing(count, narrow, monkeypatch):
    if narrow and count > FEW:
        pytest.importorskip("numkong")
    rows = np.tile(ROWS[7], (140_000 if count <= FEW and narrow else 9000, 1))
    settled = []
    whole = Batch._settle
    monkeypatch.setattr(batch_module, "HELD", 40)
    monkeypatch.setattr(Batch, "_settle", lambda self, *rest: settled.append(whole(self, *rest)) or settled[-1])
    batch = batch_of(QUERIES[:count], 4, "cosine")
    shadow = cast_shadow(rows, choose_frame(ROWS), narrow=narrow)
    assert batch.scan(RowBlock(0, len(rows), rows), shadow, shadow.terms(batch.metric), None) == sum(settled)
    assert len(settled) > 1 and (batch.result()[0] == [0, 1, 2, 3]).all()


@pytest.mark.parametrize("path", PATHS)
def test_fewer_rows_than_k_leave_minus_one_and_nan(path):
    with use_path(path):
        batch = batch_of(QUERIES[:1], 4, "ip")
        assert batch.kth().tolist() == [-np.inf]
        batch.offer(np.array([[3, 8, -1, -1]]), np.array([[0.5, 2.0, 9.0, 9.0]]), np.zeros((1, 4)))
        rows, keys, _ = batch.result()
        assert rows.tolist() == [[8, 3, -1, -1]] and keys[0, :2].tolist() == [2.0, 0.5] and np.isnan(keys[0, 2:]).all()
        assert batch.kth().tolist() == [-np.inf]
        batch.offer(np.array([[1, 2]]), np.array([[0.25, 0.5]]), np.zeros((1, 2)))
        assert batch.result()[0].tolist() == [[8, 2, 3, 1]] and batch.kth().tolist() == [0.25]
