"""A tally: errors, turns and drift of one encoding, added up block by block as one computation would have them."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.errors import InputError
from polyvec.neighbors.metric import Metric
from polyvec.neighbors.scan import Scan
from polyvec.reports.tally import ERROR_BINS, Tally, cut, feed
from polyvec.testing import vectors

ROWS = vectors(60, 8)
QUERIES = vectors(3, 8, seed=3)
NONE = np.empty(0, np.int64)


def scan() -> Scan:
    return Scan(QUERIES, k=5, metric=Metric.L2)


def tallied(decode, step: int) -> Tally:
    tally = Tally("half", "Half", 960.0, scan())
    tally.decode = decode
    for start in range(0, 60, step):
        stop = min(start + step, 60)
        tally.add(cut(start, stop, ROWS[start:stop], np.arange(start, stop), NONE))
    return tally


def truth():
    found = scan()
    feed(found, ROWS, np.arange(60))
    return found.result()


@pytest.mark.parametrize("step", [60, 7])
def test_figures_are_those_of_one_computation(step: int) -> None:
    after = np.float32(ROWS * 0.5 + 0.01)
    tally = tallied(lambda rows, numbers: after[numbers], step)
    entry = tally.entry(*truth(), ks=(5,), raw=1920, metric=Metric.L2)
    gap = np.abs(ROWS - after).astype(np.float64)
    cosine = (ROWS * after).sum(axis=1) / np.linalg.norm(ROWS, axis=1) / np.linalg.norm(after, axis=1)
    drift = np.abs(np.linalg.norm(after, axis=1) / np.linalg.norm(ROWS, axis=1) - 1)
    assert entry.max_error == pytest.approx(gap.max()) and entry.mean_error == pytest.approx(gap.mean(), rel=1e-5)
    assert entry.max_distortion == pytest.approx((1 - cosine).max(), abs=1e-6)
    assert entry.norm_drift == pytest.approx(drift.mean(), rel=1e-4) and entry.ratio == 2
    assert sum(entry.error_histogram) == gap.size and len(entry.error_histogram) == len(ERROR_BINS) - 1


def test_rows_that_do_not_change_lose_nothing() -> None:
    entry = tallied(lambda rows, _: rows, 60).entry(*truth(), ks=(5,), raw=1920, metric=Metric.L2)
    assert entry.max_error == entry.norm_drift == 0 and entry.recall(5).recall == 1 and entry.recall(9) is None
    assert entry.error_histogram[0] == ROWS.size


def test_an_encoding_that_fails_says_why_and_is_left_alone() -> None:
    def fail(rows, numbers):
        raise InputError("too wide")

    entry = tallied(fail, 7).entry(*truth(), ks=(5,), raw=1920, metric=Metric.L2)
    assert entry.failed == "too wide" and entry.recalls == ()


def test_rows_held_out_as_queries_are_not_searched() -> None:
    block = cut(10, 14, ROWS[10:14], np.arange(10, 14), np.array([11, 99]))
    assert block.ids.tolist() == [10, 12, 13] and block.kept.tolist() == [True, False, True, True]
    assert np.array_equal(block.searched, ROWS[[10, 12, 13]]) and len(block.norms) == 3
    assert cut(10, 14, ROWS[10:14], np.arange(10, 14), NONE).kept is None
