"""Recall counts what it says, fairly to ties."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors import listed as listed_module
from polyvec.reports.recall import interval, measure_recall


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
    found = measure_recall(np.array([[5, 7]]), truth, k=[2], metric="l2")[0]
    assert found.recall == 1.0 and found.ties == 1
    base = np.array([[0], [1], [1], [3]], np.float32)
    query = np.array([[0]], np.float32)
    assert measure_recall(np.array([[0, 2]]), np.array([[0, 1]]), k=[2])[0].recall == 0.5
    assert (
        measure_recall(np.array([[0, 2]]), np.array([[0, 1]]), k=[2], base=base, queries=query, metric="l2")[0].recall
        == 1.0
    )
    assert (
        measure_recall(np.array([[0, 3]]), np.array([[0, 1]]), k=[2], base=base, queries=query, metric="l2")[0].recall
        == 0.5
    )


def test_what_a_result_says_of_its_distances_makes_no_hits_of_other_rows():
    rng = np.random.default_rng(4)
    rows, queries = rng.standard_normal((500, 8)), rng.standard_normal((20, 8))
    distances = ((rows[None] - queries[:, None]) ** 2).sum(axis=2)
    order = np.argsort(distances, axis=1)
    true = {"ids": order[:, :10], "distances": np.take_along_axis(distances, order, 1)[:, :10].astype(np.float32)}
    others = {"ids": order[:, 200:210]}
    for shrunk in (0.0, 0.9):  # nothing computed at all; the distances of a compressed copy
        others["distances"] = (shrunk * true["distances"]).astype(np.float32)
        found = measure_recall(
            pv.Collection.from_arrays(others), pv.Collection.from_arrays(true), metric="l2", k=[1, 10]
        )
        assert [one.recall for one in found] == [0, 0]
        assert any("they are approximations and make no ties" in note for note in found.notes)
    same = measure_recall(pv.Collection.from_arrays(true), pv.Collection.from_arrays(true), metric="l2", k=[10])
    assert same[0].recall == 1 and not any("approximations" in note for note in same.notes)


def test_by_default_the_usual_ks_that_both_list_are_measured():
    ids = np.tile(np.arange(20), (3, 1))
    assert [one.k for one in measure_recall(ids, ids)] == [1, 10]
    assert [one.k for one in measure_recall(ids[:, :5], ids)] == [1]


def arrays(ids, near=None, **metadata):
    named = {"ids": np.asarray(ids)}
    if near is not None:
        named["distances"] = np.asarray(near, np.float32)
    return pv.Collection.from_arrays(named, metadata=metadata)


def test_files_of_different_conventions_compare_by_the_same_distance():
    truth = arrays([[0, 1, 2]], [[1.0, 2.0, 3.0]], distance="euclidean")
    result = arrays([[0, 7, 8]], [[1.0, 4.0, 9.1]], distances="squared euclidean")
    found = measure_recall(result, truth, k=[1, 2, 3])
    # 7 is as near as 1 at 2; no exact truth leaves it out of the first 3, and 8 is farther than 2.
    assert [r.recall for r in found] == [1.0, 1.0, pytest.approx(1 / 3)]
    assert (found.metric, found.metric_from) == ("l2", "stated by the truth")
    near = arrays([[0, 7]], [[0.1, 0.3]], distance="angular")
    cosines = arrays([[0, 1]], [[0.9, 0.7]], metric="cosine", distances="cosine")
    assert measure_recall(cosines, near, k=[2])[0].recall == 1.0


def test_distances_without_a_metric_ask_for_it_and_ids_alone_do_not():
    truth, ids = arrays([[0, 1]], [[1.0, 2.0]]), np.array([[0, 2]])
    with pytest.raises(InputError, match=r"nothing states the metric; name it with --metric .*ip, cosine, l2"):
        measure_recall(ids, truth, k=[2])
    found = measure_recall(ids, truth, k=[2], metric="l2")
    assert found.notes == ("the distances of the truth are taken to be squared euclidean; nothing in it says so",)
    assert measure_recall(ids, np.array([[0, 1]]), k=[2]).metric is None
    rows, queries = np.eye(3, dtype=np.float32), np.ones((1, 3), np.float32)
    with pytest.raises(InputError, match="nothing states the metric"):
        measure_recall(ids, np.array([[0, 1]]), k=[2], base=rows, queries=queries)
    assert measure_recall(ids, np.array([[0, 1]]), k=[2], base=rows, queries=queries, metric="ip").metric == "ip"


def test_a_truth_of_another_metric_is_an_error():
    truth = arrays([[0, 1]], [[1.0, 2.0]], distance="euclidean")
    with pytest.raises(InputError, match="the truth states l2 and cosine was asked for"):
        measure_recall(np.array([[0, 1]]), truth, k=[1], metric="cosine")
    result = arrays([[0, 1]], metric="ip")
    with pytest.raises(InputError, match=r"of different metrics.*: the result states ip and the truth l2"):
        measure_recall(result, truth, k=[1])
    falling = arrays([[0, 1]], [[2.0, 1.0]], distance="euclidean")
    with pytest.raises(InputError, match="says that its distances are euclidean, but they fall"):
        measure_recall(np.array([[0, 1]]), falling, k=[1])


def test_where_there_is_no_kth_neighbour_nothing_ties_with_it():
    rows, queries = np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)[:1]
    truth, result = np.array([[0, 1, -1]]), np.array([[0, 3, 2]])
    found = measure_recall(result, truth, k=[3], base=rows, queries=queries, metric="l2")[0]
    assert found.recall == pytest.approx(1 / 3)
    told = arrays(truth, [[0.0, 2.0, np.inf]], metric="l2", distances="squared euclidean")
    assert measure_recall(result, told, k=[3])[0].recall == pytest.approx(1 / 3)


def test_directions_that_differ_little_do_not_tie_under_cosine():
    turns = np.array([0.0, 1e-4, 1.1e-3, 2e-3, 2.1e-3])
    rows = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    queries = rows[:1]
    found = measure_recall(np.array([[0, 2]]), np.array([[0, 1]]), k=[2], base=rows, queries=queries, metric="cosine")
    assert found[0].recall == 0.5


def test_a_query_that_is_not_finite_is_named_by_its_own_number(monkeypatch):
    monkeypatch.setattr(listed_module, "GATHER_BYTES", 64)  # a query at a time
    rows, queries = np.eye(3, dtype=np.float32), np.ones((3, 3), np.float32)
    queries[2, 1] = np.nan
    ids = np.array([[0, 1]] * 3)
    with pytest.raises(InputError, match="query 2 holds a NaN"):
        measure_recall(ids, ids, k=[1], base=rows, queries=queries, metric="l2")


def test_duplicates_and_ties_count_as_a_plain_count_of_distances_does():
    rng = np.random.default_rng(8)
    rows = rng.integers(-2, 3, (200, 3)).astype(np.float32)  # few places: nearly all rows tie with others
    queries = rng.integers(-2, 3, (30, 3)).astype(np.float32)
    squares = ((queries[:, None] - rows[None]) ** 2).sum(axis=2)
    truth = np.argsort(squares, axis=1, kind="stable")[:, :10]
    result = np.array([rng.choice(np.argsort(s, kind="stable")[:25], 10, replace=False) for s in squares])
    for k in (1, 5, 10):
        limit = np.sort(squares, axis=1)[:, k - 1 : k]
        plain = (np.take_along_axis(squares, result[:, :k], axis=1) <= limit).mean()
        found = measure_recall(result, truth, k=[k], base=rows, queries=queries, metric="l2")[0]
        assert found.recall == pytest.approx(plain) and found.ties > 0


def test_intervals_hold_the_true_mean_as_often_as_they_say():
    rng = np.random.default_rng(5)
    for n, spread in ((3, 2.0), (8, 4.0), (50, 1.0), (500, 8.0)):
        held = 0
        for _ in range(400):
            shares = rng.binomial(10, rng.beta(8 * spread, 2 * spread, n)) / 10
            low, high = interval(shares)
            held += low <= 0.8 <= high
        assert held / 400 > 0.92


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
            np.array([[0, 1, 2]] * 3),
            np.array([[2, 1, 0]] * 3),
            {
                "k": [3],
                "base": np.array([[0], [1], [2]], np.float32),
                "queries": np.zeros((3, 1), np.float32),
                "metric": "l2",
            },
            "not of this base under l2",
        ),
    ],
)
def test_bad_input_is_one_clear_line(result, truth, options, says):
    with pytest.raises(InputError, match=says):
        measure_recall(result, truth, **options)
