"""search: any collection, streamed, with filters and ids; bad input is one clear line."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors import inputs as inputs_module
from polyvec.neighbors.search import search
from polyvec.testing.descriptors import no_descriptors_left

from .test_scan import brute_force

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((500, 12)).astype(np.float32)
QUERIES = RNG.standard_normal((6, 12)).astype(np.float32)


@pytest.mark.parametrize("suffix", ["fbin", "f16bin", "dbin", "npy"])
@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_a_file_is_streamed_in_blocks(tmp_path, monkeypatch, suffix, metric):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 4096)
    path = tmp_path / f"base.{suffix}"
    pv.write(
        path, ROWS.astype(np.float16).astype(np.float32), **({"encoding": "float16"} if suffix == "f16bin" else {})
    )
    with pv.open(path) as c:
        stored = c.vectors.to_numpy()
        hits = search(c, QUERIES, 9, metric)
    ids, scores = brute_force(stored, QUERIES, 9, metric)
    np.testing.assert_array_equal(hits.rows, ids)
    np.testing.assert_array_equal(hits.scores, scores)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.cvc", {}),
        ("b.cvc", {"encoding": "int8"}),
        ("c.cvc", {"encoding": "float16"}),
        ("d.fifu", {}),
        ("e.fvecs", {}),
        ("f.i8bin", {"format": "i8bin"}),
        ("g.hdf5", {}),
        ("h.cvc", {"encoding": "lossless"}),
    ],
)
def test_any_format_and_encoding(tmp_path, name, options):
    if name.endswith("hdf5"):
        pytest.importorskip("h5py")
    rows = RNG.standard_normal((150, 512)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pv.write(tmp_path / name, rows, **options, **({"vocab": [f"w{i}" for i in range(150)]} if "fifu" in name else {}))
    with pv.open(tmp_path / name) as c:
        stored = c.vectors.to_numpy()
        hits = search(c, rows[:5], 4, "cosine")
        few = pv.Index.build(c).search(rows[:5], 4, "cosine")
    ids, scores = brute_force(stored, rows[:5], 4, "cosine")
    np.testing.assert_array_equal(hits.rows, ids)
    np.testing.assert_array_equal(hits.scores, scores)
    np.testing.assert_array_equal(few.rows, ids)


def test_shards_are_one_base(tmp_path):
    for i in range(3):
        pv.write(tmp_path / f"part-{i}.fbin", ROWS[i * 100 : (i + 1) * 100])
    pv.write(tmp_path / "queries.fbin", QUERIES)
    hits = search(str(tmp_path / "part-*.fbin"), tmp_path / "queries.fbin", 5)
    np.testing.assert_array_equal(hits.rows, brute_force(ROWS[:300], QUERIES, 5, "cosine")[0])


def test_ids_are_the_collections_own():
    c = pv.Collection.from_arrays(ROWS, ids=np.arange(500) * 10)
    hits = search(c, QUERIES, 3)
    np.testing.assert_array_equal(hits.ids, hits.rows * 10)
    named = pv.Collection.from_arrays(ROWS, ids=[f"row {i}" for i in range(500)])
    hits = search(named, QUERIES, 3)
    assert hits.ids[2, 1] == f"row {hits.rows[2, 1]}"


@pytest.mark.parametrize("how", ["mapping", "predicate", "mask", "several"])
def test_a_filter_keeps_only_matching_records(monkeypatch, how):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 4096)
    kinds = ["a", "b", "c"]
    c = pv.Collection.from_arrays(ROWS, records={"kind": [kinds[i % 3] for i in range(500)], "n": list(range(500))})
    keep = np.arange(500) % 3 == 1
    where = {
        "mapping": {"kind": "b"},
        "predicate": lambda record: record["n"] % 3 == 1,
        "mask": keep,
        "several": {"kind": ["b", "z"]},
    }[how]
    hits = search(c, QUERIES, 5, "l2", where=where)
    ids, scores = brute_force(ROWS[keep], QUERIES, 5, "l2")
    np.testing.assert_array_equal(hits.rows, np.flatnonzero(keep)[ids])
    np.testing.assert_array_equal(hits.scores, scores)


def test_fewer_matches_than_k_leave_places_empty():
    mask = np.zeros(500, bool)
    mask[[7, 9]] = True
    hits = search(ROWS, QUERIES[:1], 4, where=mask)
    assert set(hits.rows[0, :2]) == {7, 9} and (hits.rows[0, 2:] == -1).all() and np.isnan(hits.scores[0, 2:]).all()


def test_progress_ends_at_the_last_row(monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 4096)
    seen = []
    search(ROWS, QUERIES, 2, progress=lambda now, total: seen.append((now, total)))
    assert seen[-1] == (500, 500) and len(seen) > 2 and seen == sorted(seen)


@pytest.mark.parametrize(
    ("base", "queries", "options", "says"),
    [
        (ROWS, QUERIES[:, :5], {}, "queries have 5 dimensions and the base has 12"),
        (ROWS, QUERIES, {"k": 0}, "k is 0"),
        (ROWS, QUERIES, {"k": 501}, "k is 501 and the base has only 500 rows"),
        (ROWS[:0], QUERIES, {}, "the base is empty"),
        (ROWS.astype(np.int32), QUERIES, {}, "int32 whole numbers, such as ids"),
        (ROWS, QUERIES * np.nan, {"metric": "cosine"}, "query 0 holds a NaN"),
        (ROWS, QUERIES * 0, {"metric": "cosine"}, "query 0 is zero"),
        (ROWS, QUERIES, {"metric": "hamming"}, "metric 'hamming' is unknown; use one of ip, cosine, l2"),
        (ROWS, QUERIES, {"where": {"kind": "a"}}, "a filter needs records"),
        (ROWS, QUERIES, {"where": np.ones(3, bool)}, "one bool a row"),
        (ROWS, QUERIES, {"column": "other"}, None),
    ],
)
def test_bad_input_is_one_clear_line(base, queries, options, says):
    if says is None:
        with pytest.raises(InputError, match="no column 'other'; there are vectors"):
            search(pv.Collection.from_arrays(base), queries, **options)
        return
    with pytest.raises(InputError, match=says) as caught:
        search(base, queries, **options)
    assert "\n" not in str(caught.value)


def test_a_search_that_its_progress_stops_leaves_no_file_open(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 4096)
    pv.write(tmp_path / "a.fbin", ROWS)
    pv.write(tmp_path / "q.npy", QUERIES)

    def stop(now, total):
        raise KeyboardInterrupt

    search(tmp_path / "a.fbin", tmp_path / "q.npy", 2)
    for base in (tmp_path / "a.fbin", [tmp_path / "a.fbin", tmp_path / "a.fbin"]):
        with no_descriptors_left(), pytest.raises(KeyboardInterrupt) as told:
            search(base, tmp_path / "q.npy", 2, progress=stop)
    with no_descriptors_left(), pytest.raises(KeyboardInterrupt):
        pv.Index.build(tmp_path / "a.fbin", progress=stop)
    assert told.traceback
