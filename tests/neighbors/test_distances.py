"""What a distance in a file is: every convention there and back, and what float32 cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.errors import InputError
from polyvec.neighbors.distances import (
    ALL,
    TABLE,
    Convention,
    conventions_of,
    differing,
    fitting,
    from_scores,
    held_by,
    lost_range,
    parse_convention,
    recast,
    to_scores,
)
from polyvec.neighbors.metric import Metric


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL), st.floats(0, 1, width=32))
def test_scores_come_back_from_every_convention(convention: Convention, score: float) -> None:
    told = from_scores(np.array([score]), convention)
    assert told.dtype == np.float32 and abs(to_scores(told, convention)[0] - score) < 1e-6


def test_the_best_has_the_lowest_number_where_distances_rise() -> None:
    for convention in ALL:
        better, worse = (0.1, 0.4) if convention.metric is Metric.L2 else (0.4, 0.1)
        one, two = from_scores(np.array([better, worse]), convention)
        assert (one < two) == convention.rising


def test_every_container_has_a_convention_of_every_metric() -> None:
    for container, told in TABLE.items():
        assert set(told) == set(Metric)
        assert all(convention.metric is metric for metric, convention in told.items())
        assert held_by(container, Metric.L2)[0] is told[Metric.L2]
    assert held_by("big-ann", Metric.COSINE) == [Convention.COSINE, Convention.CHORD]
    assert held_by("unheard of", Metric.L2) == []


def test_plain_scores_come_first_among_the_conventions_of_a_metric() -> None:
    assert conventions_of(Metric.L2)[0] is Convention.SQUARED and conventions_of(Metric.IP)[0] is Convention.PRODUCT
    assert parse_convention("1 - cosine") is Convention.ANGULAR
    assert parse_convention("hamming") is None and parse_convention(None) is None


def test_a_negative_length_stays_wrong() -> None:
    assert to_scores(np.float32([-3]), Convention.EUCLIDEAN).tolist() == [-9]


def test_distances_are_recast_within_a_metric_only() -> None:
    given_rows = np.array([0.0, 4.0])
    assert recast(given_rows, Convention.SQUARED, Convention.EUCLIDEAN).tolist() == [0, 2]
    assert recast(given_rows, Convention.SQUARED, Convention.SQUARED).dtype == np.float32
    with pytest.raises(InputError, match="the metrics differ"):
        recast(given_rows, Convention.SQUARED, Convention.COSINE)


def test_the_convention_of_stored_distances_is_the_one_that_fits() -> None:
    scores, slack = np.array([0.0, 0.25, 4.0]), np.full(3, 1e-6)
    assert fitting(np.float32([0, 0.5, 2]), scores, slack, Metric.L2) == [Convention.EUCLIDEAN]
    assert fitting(np.float32([0, 1, 1]), np.array([0.0, 1, 1]), slack, Metric.L2) == conventions_of(Metric.L2)
    assert fitting(np.float32([9, 9, 9]), scores, slack, Metric.L2) == []


def test_a_score_that_is_none_and_one_beyond_float32_differ_from_nothing() -> None:
    scores = np.array([np.nan, 1e60, 1e-60, 1.0])
    stored = np.float32([7, np.inf, 0, 2])
    assert differing(stored, scores, np.zeros(4), Convention.SQUARED).tolist() == [False, False, False, True]


def test_what_float32_loses_is_counted() -> None:
    scores = np.array([1e60, 1e-60, 0.0, 1.0])
    notes = lost_range(scores, from_scores(scores, Convention.SQUARED))
    assert len(notes) == 2 and notes[0].startswith("1 of 4 distances are beyond") and "below" in notes[1]
    assert lost_range(scores[2:], from_scores(scores[2:], Convention.SQUARED)) == []
