"""A ground truth is approved only where ids, order, distances and their convention are right."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors import truth_check
from polyvec.neighbors.distances import TABLE, Convention, conventions_of, from_scores, recast, to_scores
from polyvec.neighbors.listed import score_listed
from polyvec.neighbors.metric import Metric
from polyvec.neighbors.truth import write_truth
from polyvec.neighbors.truth_check import verify_truth
from polyvec.reports.recall import measure_recall

from .test_scan import brute_force

RNG = np.random.default_rng(2)
ROWS = RNG.standard_normal((300, 9)).astype(np.float32)
QUERIES = RNG.standard_normal((40, 9)).astype(np.float32)


def truth(metric, convention=None, *, metadata=None, k=12):
    ids, scores = brute_force(ROWS, QUERIES, k, metric)
    arrays = {"ids": ids.astype(np.int32)}
    if convention is not None:
        arrays["distances"] = from_scores(scores, convention)
    return pv.Collection.from_arrays(arrays, metadata=metadata)


def changed(collection, column, query, place, value):
    arrays = {name: c.to_numpy().copy() for name, c in collection.columns.items()}
    arrays[column][query, place] = value
    return pv.Collection.from_arrays(arrays, metadata=collection.metadata)


@pytest.mark.parametrize("convention", list(Convention))
def test_every_convention_is_known_by_its_numbers(convention):
    metric = convention.metric.word
    held = verify_truth(ROWS, QUERIES, truth(metric, convention), metric=metric)
    assert (held.ok, held.distances, held.searched) == (True, convention.value, 40)
    stated = {"metric": metric, "distances": convention.value}
    assert verify_truth(ROWS, QUERIES, truth(metric, convention, metadata=stated)).metric == metric
    for other in conventions_of(convention.metric):
        if other is not convention:
            wrong = {"metric": metric, "distances": other.value}
            with pytest.raises(InputError, match=f"its distances are {convention}, and its metadata says {other}"):
                verify_truth(ROWS, QUERIES, truth(metric, convention, metadata=wrong))


@pytest.mark.parametrize("container", TABLE)
@pytest.mark.parametrize("metric", list(Metric))
def test_the_table_goes_there_and_back(container, metric):
    convention = TABLE[container][metric]
    scores = np.abs(RNG.standard_normal((5, 4))) / 4
    near = from_scores(scores, convention)
    np.testing.assert_allclose(to_scores(near, convention), scores, atol=1e-6)
    for other in conventions_of(metric):
        np.testing.assert_allclose(to_scores(recast(near, convention, other), other), scores, atol=1e-6)
    with pytest.raises(InputError, match="the metrics differ"):
        recast(near, convention, next(c for c in Convention if c.metric is not metric))


@pytest.mark.parametrize(("metric", "named"), [("l2", "ip"), ("ip", "l2"), ("cosine", "l2"), ("l2", "cosine")])
def test_a_truth_of_another_metric_is_refused(metric, named):
    with pytest.raises(InputError, match=f"not of this base under {named}: .*; under {metric} its list is in order"):
        verify_truth(ROWS, QUERIES, truth(metric), metric=named)
    with pytest.raises(InputError, match=f"states {metric} and {named} was asked for"):
        verify_truth(ROWS, QUERIES, truth(metric, metadata={"metric": metric}), metric=named)
    label = {"l2": "euclidean", "ip": "dot", "cosine": "angular"}[named]
    with pytest.raises(InputError, match=f"not of this base under {named}"):
        verify_truth(ROWS, QUERIES, truth(metric, metadata={"distance": label}))


def test_without_any_statement_the_metric_is_asked_for():
    with pytest.raises(InputError, match=r"nothing states the metric; name it .*ip, cosine, l2"):
        verify_truth(ROWS, QUERIES, truth("l2"))
    base = pv.Collection.from_arrays(ROWS, metadata={"distance": "euclidean"})
    assert verify_truth(base, QUERIES, truth("l2")).metric_from == "stated by the collection (distance=euclidean)"


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(("query", "place"), [(0, 0), (17, 5), (39, 11)])
def test_one_tampered_id_or_distance_is_found(metric, query, place):
    good = truth(metric, TABLE["big-ann"][Metric[metric.upper()]], metadata={"metric": metric})
    far = brute_force(ROWS, QUERIES, 300, metric)[0][query, 200]
    with pytest.raises(InputError, match=r"not of this base|is nearer than"):
        verify_truth(ROWS, QUERIES, changed(good, "ids", query, place, far))
    alone = pv.Collection.from_arrays({"ids": good["ids"].to_numpy()}, metadata={"metric": metric})
    with pytest.raises(InputError, match=r"not of this base|is nearer than"):
        verify_truth(ROWS, QUERIES, changed(alone, "ids", query, place, far))
    value = float(good["distances"].to_numpy()[query, place])
    with pytest.raises(InputError, match=f"query {query}, place {place} holds"):
        verify_truth(ROWS, QUERIES, changed(good, "distances", query, place, value * 1.001 + 1e-3))
    with pytest.raises(InputError, match=r"names row .* twice for query"):
        verify_truth(ROWS, QUERIES, changed(good, "ids", query, place, good["ids"].to_numpy()[query, place - 1]))
    # float32 programs round otherwise
    rounded = np.nextafter(np.float32(value), np.float32(np.inf))
    assert verify_truth(ROWS, QUERIES, changed(good, "distances", query, place, rounded)).ok


def test_near_neighbours_are_told_apart_where_far_ones_are_huge():
    rows = np.concatenate([RNG.standard_normal((50, 4)) * 1e-3, RNG.standard_normal((50, 4)) * 1e4]).astype(np.float32)
    query = np.zeros((1, 4), np.float32)
    ids = brute_force(rows, query, 60, "l2")[0]
    assert verify_truth(rows, query, ids, metric="l2").ok
    ids[0, [0, 1]] = ids[0, [30, 1]]
    ids[0, 30] = 0
    with pytest.raises(InputError, match=r"is nearer than|twice"):
        verify_truth(rows, query, ids, metric="l2")


def test_large_bases_are_searched_for_an_even_sample_and_it_is_said(monkeypatch):
    monkeypatch.setattr(truth_check, "EXACT_COST", 300 * 9 * 10)
    held = verify_truth(ROWS, QUERIES, truth("l2"), metric="l2")
    assert (held.searched, held.queries) == (10, 40)
    # what the sample does not search is scored again all the same
    with pytest.raises(InputError, match="query 1, place"):
        far = brute_force(ROWS, QUERIES, 300, "l2")[0][1, 250]
        verify_truth(ROWS, QUERIES, changed(truth("l2"), "ids", 1, 4, far), metric="l2")


def test_ties_may_be_named_in_any_order():
    rows = np.repeat(ROWS[:30], 3, axis=0)
    ids = brute_force(rows, QUERIES, 6, "l2")[0]
    assert verify_truth(rows, QUERIES, ids[:, [2, 0, 1, 5, 4, 3]], metric="l2").ok


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(
    ("name", "style"), [("t.ibin", "ids"), ("t.truth", "big-ann"), ("t.ibin", "cuvs"), ("t.h5", "hdf5")]
)
def test_what_is_written_states_its_metric_and_is_approved(tmp_path, metric, name, style):
    pv.write(tmp_path / "b.fbin", ROWS)
    pv.write(tmp_path / "q.fbin", QUERIES)
    receipt = write_truth(tmp_path / "b.fbin", tmp_path / "q.fbin", tmp_path / name, k=5, metric=metric, style=style)
    held = verify_truth(tmp_path / "b.fbin", tmp_path / "q.fbin", tmp_path / name)
    assert (held.metric, held.metric_from, held.distances) == (metric, f"stated by {name}", receipt.distances)
    assert (held.distances is None) == (style == "ids")


def test_the_second_file_of_cuvs_is_checked_too(tmp_path):
    pv.write(tmp_path / "b.fbin", ROWS)
    pv.write(tmp_path / "q.fbin", QUERIES)
    write_truth(tmp_path / "b.fbin", tmp_path / "q.fbin", tmp_path / "t.ibin", k=5, metric="l2", style="cuvs")
    pv.write(tmp_path / "t.distances.fbin", np.ones((40, 5), np.float32))
    with pytest.raises(InputError, match="distances are not of this base under l2"):
        verify_truth(tmp_path / "b.fbin", tmp_path / "q.fbin", tmp_path / "t.ibin")
    ids, scores = brute_force(ROWS, QUERIES, 5, "ip")
    pv.write(tmp_path / "groundtruth.neighbors.ibin", ids.astype(np.int32))
    pv.write(tmp_path / "groundtruth.distances.fbin", (-scores).astype(np.float32))
    with pytest.raises(
        InputError, match="distances are minus inner product, and the layout of cuvs says inner product"
    ):
        verify_truth(ROWS, QUERIES, tmp_path / "groundtruth.neighbors.ibin", metric="ip")


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_listed_neighbours_are_scored_by_cosine_at_every_scale(scale):
    ids, scores = brute_force(ROWS, QUERIES, 5, "cosine")
    column = pv.Collection.from_arrays(ROWS.astype(np.float64) * scale).vectors
    found = score_listed(column, QUERIES.astype(np.float64) * scale, ids.astype(np.int64), Metric.COSINE)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-12)


SCALES = (1e-310, 1e-200, 1e-160, 1e-60, 1e-30, 1e-20, 1e20, 1e60, 1e150, 1e200, 1e300)


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_truth_is_judged_alike_at_every_scale(tmp_path, scale, metric):
    rows, queries = ROWS.astype(np.float64) * scale, QUERIES[:6].astype(np.float64) * scale
    ids = brute_force(ROWS.astype(np.float64), QUERIES[:6].astype(np.float64), 12, metric)[0].astype(np.int32)
    verify_truth(rows, queries, ids, metric=metric)
    with pytest.raises(InputError, match="not of this base"):
        verify_truth(rows, queries, changed(pv.Collection.from_arrays(ids), "vectors", 3, 11, 0), metric=metric)
    at_random = np.argsort(RNG.random((6, 300)), axis=1)[:, :12]
    plain = measure_recall(at_random, ids, base=ROWS, queries=QUERIES[:6], metric=metric, k=[10])[0].recall
    assert measure_recall(at_random, ids, base=rows, queries=queries, metric=metric, k=[10])[0].recall == plain < 0.5
    for name in ("t.hdf5", "t.truth"):
        write_truth(rows, queries, tmp_path / name, k=12, metric=metric)
        verify_truth(rows, queries, tmp_path / name)


@pytest.mark.parametrize(("scale", "said"), [(1e-30, "below what float32 holds"), (1e30, "beyond what float32 holds")])
def test_distances_that_float32_cannot_hold_are_said(tmp_path, scale, said):
    rows = (ROWS * np.float32(scale)).astype(np.float32)
    receipt = write_truth(rows, rows[:5], tmp_path / "t.truth", k=3, metric="ip")
    assert said in receipt.notes[0]
    assert write_truth(ROWS, QUERIES, tmp_path / "plain.truth", k=3, metric="l2").notes == ()
