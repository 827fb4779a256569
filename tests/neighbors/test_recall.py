"""Recall counts what it says, fairly to ties."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors.recall import interval, measure_recall


def test_recall_is_the_share_of_true_neighbours_found():
    truth = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    result = np.array([[0, 9, 1, 2], [8, 9, 10, 4]])
    one, two, four = measure_recall(result, truth, k=[1, 2, 4])
    assert (one.recall, two.recall, four.recall) == (0.5, 0.25, 0.5)
    assert one.perfect == 1 and four.queries == 2


def test_repeated_and_missing_ids_count_once_or_not():
    assert measure_recall(np.array([[1, 1, -1]]), np.array([[1, 2, -1]]), k=[3])[0].recall == pytest.approx(1 / 3)


def test_equal_neighbours_are_interchangeable():
    truth = pv.Collection.from_arrays(
        {"ids": np.array([[5, 6, 7]]), "distances": np.array([[0.0, 1.0, 1.0]], np.float32)}
    )
    found = measure_recall(np.array([[5, 7]]), truth, k=[2])[0]
    assert found.recall == 1.0 and found.ties == 1
    base = np.array([[0], [1], [1], [3]], np.float32)
    query = np.array([[0]], np.float32)
    assert measure_recall(np.array([[0, 2]]), np.array([[0, 1]]), k=[2])[0].recall == 0.5
    assert measure_recall(np.array([[0, 2]]), np.array([[0, 1]]), k=[2], base=base, queries=query)[0].recall == 1.0
    assert measure_recall(np.array([[0, 3]]), np.array([[0, 1]]), k=[2], base=base, queries=query)[0].recall == 0.5


def test_the_interval_holds_the_mean_and_narrows():
    rng = np.random.default_rng(0)
    shares = rng.integers(8, 11, 1000) / 10
    low, high = interval(shares)
    assert low < shares.mean() < high
    assert high - low < interval(shares[:50])[1] - interval(shares[:50])[0]
    assert interval(np.ones(100))[0] > 0.95 and interval(np.ones(100))[1] == 1.0


@pytest.mark.parametrize(
    ("result", "truth", "options", "says"),
    [
        (np.zeros((2, 3), int), np.zeros((3, 3), int), {}, "of 2 queries and the truth of 3"),
        (np.zeros((2, 3), int), np.zeros((2, 3), int), {"k": [0]}, "k is 0"),
        (np.zeros((2, 3), int), np.zeros((2, 2), int), {"k": [3]}, "k is 3 and the truth has 2 neighbours"),
        (np.zeros((2, 3)), np.zeros((2, 3), int), {"k": [1]}, "expected neighbours' ids"),
        (np.zeros((1, 1), int), np.array([[9]]), {"k": [1], "base": np.ones((3, 2), np.float32)}, "the truth: id 9"),
        (
            np.array([[0, 1, 2]] * 3), np.array([[2, 1, 0]] * 3),
            {"k": [3], "base": np.array([[0], [1], [2]], np.float32), "queries": np.zeros((3, 1), np.float32)},
            "not of this base under l2",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(result, truth, options, says):
    with pytest.raises(InputError, match=says):
        measure_recall(result, truth, **options)
