"""Ranking by key, tie and id, and the scores it ranks."""

from __future__ import annotations

import numpy as np

from polyvec.neighbors.metric import Metric
from polyvec.neighbors.reference import rank, score_all
from polyvec.testing import vectors


def test_the_highest_key_comes_first_then_the_tie_then_the_lowest_id() -> None:
    keys = np.array([1.0, 2.0, 1.0, np.nan, 1.0, 2.0])
    ties = np.array([0.0, 0.0, 5.0, 9.0, 0.0, 0.0])
    ids = np.array([10, 21, 12, 1, 9, 20])
    found, scores, kept = rank(keys, ties, ids, 9)
    assert found.tolist() == [20, 21, 12, 9, 10, 1] and np.isnan(scores[-1]) and kept[2] == 5
    assert rank(keys, ties, ids, 2)[0].tolist() == [20, 21]


def test_infinite_keys_are_ranked_and_no_key_is_last() -> None:
    keys = np.array([np.nan, -np.inf, np.inf])
    assert rank(keys, np.zeros(3), np.arange(3), 3)[0].tolist() == [2, 1, 0]


def test_scores_of_every_row_and_query() -> None:
    rows, queries = vectors(7, 5), vectors(3, 5, np.float64, seed=2)
    keys, ties = score_all(rows, queries, Metric.IP)
    assert keys.shape == ties.shape == (3, 7) and np.allclose(keys, queries @ rows.T.astype(np.float64))
