"""Listed neighbours: read with what their distances are, refused where they contradict, scored again at any scale."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.neighbors.distances import KEY, Convention
from polyvec.neighbors.listed import (
    Listed,
    check_ids,
    in_order_under,
    listed_in,
    look_up,
    metric_of,
    out_of_order,
    read_scores,
    score_listed,
    spread,
)
from polyvec.neighbors.metric import Metric
from polyvec.testing import vectors

IDS = np.array([[2, 0, 1], [1, 2, 0]])
NEAR = np.float32([[0, 1, 2], [0, 3, 4]])


def listed(**parts: object) -> Listed:
    given = {"ids": IDS, "distances": NEAR, "convention": None, "container": "", "metric": None, "label": "t"}
    return Listed(**{**given, **parts})  # type: ignore[arg-type]


def test_columns_are_known_by_their_usual_names_and_metadata_says_the_rest() -> None:
    found = listed_in(
        Collection.from_arrays(
            {"train": vectors(3, 2), "Neighbors": IDS, "distances": NEAR}, metadata={KEY: "euclidean"}
        )
    )
    assert np.array_equal(found.ids, IDS) and np.array_equal(found.distances, NEAR)
    assert found.convention is Convention.EUCLIDEAN and not found.by_id
    assert listed_in(Collection.from_arrays({"neighbors_id": IDS})).by_id


def test_what_lists_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="expected neighbours' ids"):
        listed_in(Collection.from_arrays(vectors(3, 2)))
    with pytest.raises(InputError, match="do not belong to ids"):
        listed_in(Collection.from_arrays({"ids": IDS, "distances": NEAR[:, :2]}))


def test_a_metric_that_contradicts_the_file_is_refused() -> None:
    assert metric_of(listed(metric=Metric.L2), None) is Metric.L2
    assert metric_of(listed(convention=Convention.COSINE), None) is Metric.COSINE
    assert metric_of(listed(), Metric.IP) is Metric.IP and metric_of(listed(), None) is None
    with pytest.raises(InputError, match="t states"):
        metric_of(listed(metric=Metric.L2), Metric.IP)


def test_distances_are_scores_by_what_is_said_or_by_how_they_run() -> None:
    assert read_scores(listed(convention=Convention.EUCLIDEAN), Metric.L2)[0].tolist() == (NEAR**2).tolist()
    scores, notes = read_scores(listed(), Metric.IP)
    assert scores.tolist() == (-NEAR).tolist() and "taken to be minus inner product" in notes[0]
    assert read_scores(listed(distances=-NEAR), Metric.IP)[0].tolist() == (-NEAR).tolist()
    with pytest.raises(InputError, match="they fall from the best"):
        read_scores(listed(convention=Convention.SQUARED, distances=-NEAR), Metric.L2)
    with pytest.raises(InputError, match="not of"):
        read_scores(listed(convention=Convention.COSINE), Metric.L2)
    with pytest.raises(InputError, match="fall from the best neighbour on"):
        read_scores(listed(distances=-NEAR), Metric.L2)


def test_ids_that_are_no_rows_are_told_with_their_place() -> None:
    check_ids(np.array([[0, -1, 2]]), 3)
    for ids, says in (([[0, 3]], "id 3 of query 0 .place 1."), ([[-2]], "id -2"), ([[0.0]], "expected ids")):
        with pytest.raises(InputError, match=says):
            check_ids(np.array(ids), 3)
    with pytest.raises(InputError, match="ids are 0 to 2"):
        check_ids(np.array([[7]], np.uint32), 3)


def test_ids_of_the_base_are_looked_up() -> None:
    own = np.array([30, 10, 20])
    assert look_up(np.array([[10, -1, 30]]), own, "t").tolist() == [[1, -1, 0]]
    with pytest.raises(InputError, match="no row of the base has the id 15"):
        look_up(np.array([[15]]), own, "t")


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("power", [0, -500, 500])
def test_scores_are_those_of_the_mathematics_at_any_scale(metric: Metric, power: int) -> None:
    rows, queries = vectors(3, 5, np.float64), vectors(2, 5, np.float64, seed=1)
    scored = score_listed(ArrayColumn("v", rows * 2.0**power), queries * 2.0**power, IDS, metric)
    near = rows[IDS]
    wanted = {
        Metric.L2: ((near - queries[:, None]) ** 2).sum(axis=2),
        Metric.IP: np.einsum("qkd,qd->qk", near, queries),
    }.get(metric)
    if wanted is None:
        wanted = (
            np.einsum("qkd,qd->qk", near, queries)
            / np.linalg.norm(near, axis=2)
            / np.linalg.norm(queries, axis=1)[:, None]
        )
        assert np.allclose(scored.scores, wanted)
    else:
        assert np.allclose(np.ldexp(scored.scores, scored.power - 2 * power), wanted)
    assert (scored.slack > 0).all()


def test_a_neighbour_that_was_not_found_has_no_score() -> None:
    scored = score_listed(ArrayColumn("v", vectors(3, 2)), vectors(1, 2), np.array([[0, -1]]), Metric.L2)
    assert np.isfinite(scored.scores[0, 0]) and np.isnan(scored.scores[0, 1])


def test_a_list_out_of_order_is_seen_and_told_by_another_metric() -> None:
    rows = np.float32([[1, 0], [10, 0], [3, 3]])
    column, query = ArrayColumn("v", rows), np.float32([1, 0])
    by_product = np.array([1, 2, 0])
    assert out_of_order(score_listed(column, query[None], by_product[None], Metric.L2), Metric.L2).any()
    assert Metric.IP in in_order_under(column, query, by_product, Metric.L2)


def test_numbers_are_spread_from_end_to_end() -> None:
    assert spread(10, 3).tolist() == [0, 4, 9] and spread(2, 9).tolist() == [0, 1] and spread(0, 3).tolist() == []
