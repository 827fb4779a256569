"""One rule for metrics: what is named, else what the collection states, else cosine; every answer carries it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors.metric import Metric, choose_metric, parse_metric, stated_metric
from polyvec.reports.quality import measure_quality

from .test_scan import brute_force

RNG = np.random.default_rng(4)
ROWS = (RNG.standard_normal((60, 6)) * RNG.uniform(0.1, 9, (60, 1))).astype(np.float32)
QUERIES = RNG.standard_normal((4, 6)).astype(np.float32)


def stating(**metadata):
    return pv.Collection.from_arrays(ROWS, metadata=metadata)


def test_a_search_without_a_metric_is_by_cosine_and_says_so():
    hits = pv.search(ROWS, QUERIES, k=5)
    np.testing.assert_array_equal(hits.rows, brute_force(ROWS, QUERIES, 5, "cosine")[0])
    assert (hits.metric, hits.metric_from, hits.notes) == ("cosine", "default", ())
    assert hits.to_dict()["metric"] == "cosine" and hits.to_dict()["metric_from"] == "default"
    again = pv.Index.build(ROWS).search(QUERIES, k=5)
    np.testing.assert_array_equal(again.rows, hits.rows)
    assert again.metric == "cosine"


@pytest.mark.parametrize(
    ("key", "value", "metric"),
    [
        ("distance", "euclidean", "l2"),
        ("distance", "angular", "cosine"),
        ("distance", "dot", "ip"),
        ("metric", "ip", "ip"),
        ("metric_type", "L2", "l2"),
        ("hnsw:space", "l2", "l2"),
        ("similarity_fn_name", "dot", "ip"),
        ("distance_metric", "inner_product", "ip"),
    ],
)
def test_the_collections_own_metric_ranks(key, value, metric):
    hits = pv.search(stating(**{key: value}), QUERIES, k=5)
    np.testing.assert_array_equal(hits.rows, brute_force(ROWS, QUERIES, 5, metric)[0])
    assert hits.metric == metric and hits.metric_from == f"stated by the collection ({key}={value})"
    assert measure_quality(stating(**{key: value}), encodings=["float16"], k=[1], sample_queries=5).metric == metric


def test_a_file_that_states_its_metric_is_searched_by_it(tmp_path):
    for name in ("a.cvc", "a.npy", "a.hdf5", "a.parquet", "a.safetensors"):
        pv.write(tmp_path / name, ROWS, metadata={"metric": "l2"})
        hits = pv.search(tmp_path / name, QUERIES, k=3)
        np.testing.assert_array_equal(hits.rows, brute_force(ROWS, QUERIES, 3, "l2")[0])
        assert hits.metric_from == f"stated by {name} (metric=l2)"


def test_another_metric_than_the_stated_one_is_used_with_a_note():
    hits = pv.search(stating(distance="euclidean"), QUERIES, k=5, metric="ip")
    np.testing.assert_array_equal(hits.rows, brute_force(ROWS, QUERIES, 5, "ip")[0])
    assert (hits.metric, hits.metric_from) == ("ip", "given")
    assert hits.notes == ("ranked by ip as asked; the collection (distance=euclidean) states another metric",)
    assert pv.search(stating(distance="euclidean"), QUERIES, k=5, metric="l2").notes == ()


def test_a_stated_metric_that_is_not_had_is_never_replaced_in_silence():
    with pytest.raises(InputError, match=r"distance=hamming.* does not have; name one .*ip, cosine, l2"):
        pv.search(stating(distance="hamming"), QUERIES, k=1)
    assert "states another metric" in pv.search(stating(distance="hamming"), QUERIES, k=1, metric="l2").notes[0]
    with pytest.raises(InputError, match=r"two metrics are stated: .*metric=ip.* and .*distance=euclidean"):
        pv.search(stating(metric="ip", distance="euclidean"), QUERIES, k=1)
    assert pv.search(stating(metric="ip", distance="euclidean"), QUERIES, k=1, metric="ip").notes == ()


def test_metadata_that_means_something_else_states_nothing():
    for metadata in (
        {"distance": 5},
        {"metric": "accuracy"},
        {"similarity": ["cosine"]},
        {"metric": "cosine", "distance": "angular"},
    ):
        choice = choose_metric(None, [stating(**metadata)], default=Metric.COSINE)
        assert choice.metric is Metric.COSINE
    assert stated_metric(stating(distance=5)) is None


def test_where_there_is_no_default_the_three_are_asked_for():
    with pytest.raises(InputError, match=r"nothing states the metric; name it with --metric .*ip, cosine, l2"):
        choose_metric(None, [stating()])
    assert choose_metric(None, [stating(), stating(distance="dot")]).metric is Metric.IP


def test_the_fields_names_are_known():
    assert [parse_metric(n).word for n in ("euclidean", "Angular", "inner-product", "COSINE")] == [
        "l2",
        "cosine",
        "ip",
        "cosine",
    ]
    with pytest.raises(InputError, match="metric 'hamming' is unknown; use one of ip, cosine, l2"):
        parse_metric("hamming")


def test_nothing_has_a_default_of_its_own():
    from polyvec.gpu.search import DeviceIndex
    from polyvec.neighbors.scan import Scan

    for function in (pv.search, pv.Index.search, measure_quality):
        assert inspect.signature(function).parameters["metric"].default is None
    for function in (Scan.__init__, DeviceIndex.search):
        assert inspect.signature(function).parameters["metric"].default is inspect.Parameter.empty
