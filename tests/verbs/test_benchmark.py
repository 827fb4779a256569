"""Base, queries and truth into one file and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.neighbors.truth import write_truth
from polyvec.neighbors.truth_check import verify_truth
from polyvec.verbs.benchmark import assemble, take_apart

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(5)
BASE = RNG.standard_normal((50, 8)).astype(np.float32)
QUERIES = RNG.standard_normal((6, 8)).astype(np.float32)
SQUARES = ((QUERIES[:, None] - BASE[None]) ** 2).sum(axis=2)
IDS = np.argsort(SQUARES, axis=1)[:, :10].astype(np.int32)
DISTANCES = np.take_along_axis(SQUARES, IDS, axis=1).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pv.write(tmp_path / "base.fbin", BASE)
    pv.write(tmp_path / "q.fbin", QUERIES)
    pv.write(tmp_path / "gt.ibin", {"ids": IDS, "distances": DISTANCES}, format="truth")
    pv.write(tmp_path / "ids.ibin", IDS)
    pv.write(tmp_path / "near.fbin", DISTANCES)
    return tmp_path


def test_ann_benchmarks_reads_what_was_assembled(folder: Path) -> None:
    assemble(
        folder / "base.fbin", folder / "out.hdf5", queries=folder / "q.fbin", truth=folder / "gt.ibin", metric="l2"
    )
    with h5py.File(folder / "out.hdf5") as f:
        for name, array in (("train", BASE), ("test", QUERIES), ("neighbors", IDS), ("distances", np.sqrt(DISTANCES))):
            assert np.array_equal(f[name][:], array) and f[name].dtype == array.dtype
            assert f[name].chunks is None and f[name].compression is None
        assert f.attrs["type"] == "dense" and f.attrs["distance"] == "euclidean" and f.attrs["dimension"] == 8
        assert f.attrs["point_type"] == "float"
    assert pv.verify(folder / "out.hdf5").ok


def test_apart_again_gives_the_same_files(folder: Path) -> None:
    assemble(folder / "base.fbin", folder / "out.hdf5", queries=folder / "q.fbin", truth=folder / "gt.ibin")
    take_apart(
        folder / "out.hdf5", folder / "b2.fbin", queries=folder / "q2.fbin", truth=folder / "gt2.ibin", sidecar=False
    )
    for one, two in (("base.fbin", "b2.fbin"), ("q.fbin", "q2.fbin")):
        assert (folder / one).read_bytes() == (folder / two).read_bytes()
    with pv.open(folder / "gt2.ibin") as c:
        assert np.array_equal(c["ids"].to_numpy(), IDS)
        np.testing.assert_allclose(c["distances"].to_numpy(), DISTANCES, rtol=3e-7)  # a root and a square, in float32


def test_distances_may_have_a_file_of_their_own_both_ways(folder: Path) -> None:
    assemble(
        folder / "base.fbin",
        folder / "out.h5",
        queries=folder / "q.fbin",
        truth=folder / "ids.ibin",
        distances=folder / "near.fbin",
    )
    take_apart(
        folder / "out.h5", folder / "b2.fbin", truth=folder / "i2.ibin", distances=folder / "n2.fbin", sidecar=False
    )
    assert (folder / "i2.ibin").read_bytes() == (folder / "ids.ibin").read_bytes()
    with pv.open(folder / "n2.fbin") as c:
        np.testing.assert_allclose(c.vectors.to_numpy(), DISTANCES, rtol=3e-7)


def plain(metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores of the ten best, by plain NumPy in float64: squared distances, cosines or products."""
    base, queries = BASE.astype(np.float64), QUERIES.astype(np.float64)
    if metric == "l2":
        scores = ((queries[:, None] - base[None]) ** 2).sum(axis=2)
    else:
        scores = queries @ base.T
        if metric == "cosine":
            scores /= np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(base, axis=1)
    ids = np.argsort(scores if metric == "l2" else -scores, axis=1, kind="stable")[:, :10]
    return ids.astype(np.int32), np.take_along_axis(scores, ids, axis=1)


def peer_distance(metric: str, a: np.ndarray, b: np.ndarray) -> float:
    """The distance as ann-benchmarks (and for dot its forks) defines it, of two rows."""
    if metric == "euclidean":
        return float(np.sqrt(((a - b) ** 2).sum()))
    if metric == "angular":
        return float(1 - a @ b / np.sqrt((a @ a) * (b @ b)))
    return float(-(a @ b))


def peer_recall(path: Path, found: np.ndarray, k: int) -> tuple[float, float]:
    """ann-benchmarks' two rules: found distances up to the k-th true one plus 0.001, and up to it times 1.01."""
    with h5py.File(path) as f:
        metric, train, test = f.attrs["distance"], f["train"][:], f["test"][:]
        true = f["distances"][:]
    near = [[peer_distance(metric, test[q], train[i]) for i in row[:k]] for q, row in enumerate(found)]
    plus = np.mean([[d <= true[q][k - 1] + 1e-3 for d in row] for q, row in enumerate(near)])
    times = np.mean([[d <= true[q][k - 1] * 1.01 for d in row] for q, row in enumerate(near)])
    return float(plus), float(times)


RAW = {"l2": "squared euclidean", "cosine": "cosine", "ip": "inner product"}
LABEL = {"l2": "euclidean", "cosine": "angular", "ip": "dot"}


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("how", ["ids alone", "with distances", "computed"])
def test_the_peers_own_rule_gives_the_recall_of_plain_counting(folder: Path, metric: str, how: str) -> None:
    ids, scores = plain(metric)
    out = folder / "out.hdf5"
    if how == "computed":
        write_truth(folder / "base.fbin", folder / "q.fbin", out, k=10, metric=metric)
    else:
        data = {"ids": ids} if how == "ids alone" else {"ids": ids, "distances": scores.astype(np.float32)}
        pv.write(folder / "t.ibin", data, format="ibin" if how == "ids alone" else "truth")
        receipt = assemble(folder / "base.fbin", out, queries=folder / "q.fbin", truth=folder / "t.ibin", metric=metric)
        said = "were computed" if how == "ids alone" else f"distances were {RAW[metric]} and are now"
        assert any(said in note for note in receipt.notes)
    with h5py.File(out) as f:
        assert f.attrs["distance"] == LABEL[metric]
        want = {"l2": np.sqrt(np.maximum(scores, 0)), "cosine": 1 - scores, "ip": -scores}[metric]
        np.testing.assert_allclose(f["distances"][:], want, rtol=1e-6, atol=2e-7)
    random = np.random.default_rng(0).permuted(np.tile(np.arange(50), (6, 1)), axis=1)[:, :10]
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(random, ids)])
    assert peer_recall(out, ids, 10)[0] == 1.0 and peer_recall(out, random, 10)[0] == pytest.approx(share, abs=0.02)
    if metric != "ip":
        assert peer_recall(out, random, 10)[1] < 0.6
    assert verify_truth(folder / "base.fbin", folder / "q.fbin", out).metric == metric
    assert verify_truth(out, out, out).distances is not None  # a benchmark is its own base and queries


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_there_and_back_is_the_truth_again(folder: Path, metric: str) -> None:
    ids, scores = plain(metric)
    write_truth(folder / "base.fbin", folder / "q.fbin", folder / "b.hdf5", k=10, metric=metric)
    take_apart(folder / "b.hdf5", folder / "b2.fbin", queries=folder / "q2.fbin", truth=folder / "t2.ibin")
    with pv.open(folder / "t2.ibin") as c:
        assert np.array_equal(c["ids"].to_numpy(), ids)
        np.testing.assert_allclose(c["distances"].to_numpy(), scores, rtol=1e-6, atol=2e-7)
        assert c.metadata == {"metric": metric, "distances": RAW[metric]}
    assert verify_truth(folder / "b2.fbin", folder / "q2.fbin", folder / "t2.ibin").distances == RAW[metric]
    take_apart(folder / "b.hdf5", folder / "b3.fbin", truth=folder / "t3.ibin", distances=folder / "t3.distances.fbin")
    held = verify_truth(folder / "b2.fbin", folder / "q2.fbin", folder / "t3.ibin")
    assert held.distances == {**RAW, "cosine": "1 - cosine"}[metric]


def test_squared_distances_that_a_file_calls_euclidean_are_seen_both_ways(folder: Path) -> None:
    with h5py.File(folder / "wrong.hdf5", "w") as f:
        f["train"], f["test"], f["neighbors"], f["distances"] = BASE, QUERIES, IDS, DISTANCES
        f.attrs["distance"] = "euclidean"
    with pytest.raises(
        pv.InputError, match="its distances are squared euclidean, and the layout of ann-benchmarks says"
    ):
        verify_truth(folder / "base.fbin", folder / "q.fbin", folder / "wrong.hdf5")
    receipts = take_apart(folder / "wrong.hdf5", folder / "b2.fbin", truth=folder / "t2.ibin")
    assert "distances are squared euclidean, where it should hold euclidean" in receipts[0].notes[0]
    with pv.open(folder / "t2.ibin") as c:
        np.testing.assert_array_equal(c["distances"].to_numpy(), DISTANCES)


def test_the_metric_is_found_by_the_distances_or_asked_for(folder: Path) -> None:
    receipt = assemble(folder / "base.fbin", folder / "a.hdf5", queries=folder / "q.fbin", truth=folder / "gt.ibin")
    assert receipt.notes[0] == "metric l2: found by comparing the truth's distances with the rows"
    with pytest.raises(pv.InputError, match=r"nothing states the metric; name it with --metric .*ip, cosine, l2"):
        assemble(folder / "base.fbin", folder / "b.hdf5", queries=folder / "q.fbin", truth=folder / "ids.ibin")
    with pytest.raises(pv.InputError, match="not those of base and queries under ip; name the metric"):
        assemble(
            folder / "base.fbin", folder / "b.hdf5", queries=folder / "q.fbin", truth=folder / "gt.ibin", metric="dot"
        )
    with pytest.raises(pv.InputError, match="metric 'euclidian' is unknown"):
        assemble(
            folder / "base.fbin",
            folder / "b.hdf5",
            queries=folder / "q.fbin",
            truth=folder / "gt.ibin",
            metric="euclidian",
        )
    assert not (folder / "b.hdf5").exists()


@pytest.mark.parametrize("truth", ["gt.ibin", "ids.ibin"])
def test_a_base_compressed_since_its_truth_was_made_is_said(folder: Path, truth: str) -> None:
    pv.convert(folder / "base.fbin", folder / "small.f16bin", encoding="float16")
    receipt = assemble(
        folder / "small.f16bin", folder / "o.hdf5", queries=folder / "q.fbin", truth=folder / truth, metric="l2"
    )
    assert "slightly other rows than this base" in receipt.notes[0] or truth == "ids.ibin"
    with h5py.File(folder / "o.hdf5") as f:
        np.testing.assert_allclose(f["distances"][:], np.sqrt(DISTANCES), rtol=2e-3)
    other = np.random.default_rng(9).standard_normal((50, 8)).astype(np.float32)
    pv.write(folder / "other.fbin", other)
    with pytest.raises(pv.InputError, match="not those of base and queries under l2"):
        assemble(folder / "other.fbin", folder / "p.hdf5", queries=folder / "q.fbin", truth=folder / truth, metric="l2")


def test_a_metric_that_is_not_had_keeps_its_name_and_its_distances(folder: Path) -> None:
    receipt = assemble(
        folder / "base.fbin", folder / "o.hdf5", queries=folder / "q.fbin", truth=folder / "gt.ibin", metric="hamming"
    )
    assert receipt.notes == ("polyvec has no hamming: the distances are copied as they are",)
    with h5py.File(folder / "o.hdf5") as f:
        assert f.attrs["distance"] == "hamming" and np.array_equal(f["distances"][:], DISTANCES)
    notes = take_apart(folder / "o.hdf5", folder / "b2.fbin", truth=folder / "t2.ibin")[0].notes
    assert notes[0].startswith("the distances are copied as they are: o.hdf5 (distance=hamming) states a metric")


def test_ids_of_the_base_become_row_numbers(folder: Path) -> None:
    names = np.random.default_rng(1).permutation(50) + 1000
    pv.write(folder / "train.parquet", BASE, ids=names)
    pv.write(folder / "neighbors.parquet", {"neighbors_id": names[IDS]})
    assemble(
        folder / "train.parquet",
        folder / "o.hdf5",
        queries=folder / "q.fbin",
        truth=folder / "neighbors.parquet",
        metric="l2",
        sidecar=False,
    )
    with h5py.File(folder / "o.hdf5") as f:
        assert np.array_equal(f["neighbors"][:], IDS)
    held = verify_truth(folder / "train.parquet", folder / "q.fbin", folder / "neighbors.parquet", metric="l2")
    assert held.queries == 6 and held.distances is None
    with pytest.raises(pv.InputError, match="no row of the base has the id 7 "):
        pv.write(folder / "bad.parquet", {"neighbors_id": np.where(IDS[0, 0] == IDS, 7, names[IDS])})
        verify_truth(folder / "train.parquet", folder / "q.fbin", folder / "bad.parquet", metric="l2")


def test_other_names_for_the_datasets_are_known(folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as f:
        f["X"], f["Q"], f["knn"], f["dists"] = BASE, QUERIES, IDS.astype(np.int64), DISTANCES
    take_apart(folder / "other.h5", folder / "b2.fbin", queries=folder / "q2.fbin", truth=folder / "gt2.ibin")
    assert (folder / "gt2.ibin").read_bytes() == (folder / "gt.ibin").read_bytes()


@pytest.mark.parametrize("value", [50, -1, 2**31 - 1])
def test_an_id_outside_the_base_is_one_clear_line(folder: Path, value: int) -> None:
    ids = IDS.copy()
    ids[4, 7] = value
    pv.write(folder / "bad.ibin", ids)
    with pytest.raises(pv.Corrupt, match=rf"outside the base .*query 4, neighbour 7.*expected 0 to 49, found {value}"):
        assemble(folder / "base.fbin", folder / "out.hdf5", queries=folder / "q.fbin", truth=folder / "bad.ibin")
    assert not (folder / "out.hdf5").exists()


def test_queries_of_another_dimension_are_refused(folder: Path) -> None:
    pv.write(folder / "q7.fbin", QUERIES[:, :7])
    with pytest.raises(pv.InputError, match="queries of dimension 7 do not belong to a base of dimension 8"):
        assemble(folder / "base.fbin", folder / "out.hdf5", queries=folder / "q7.fbin")


def test_a_truth_of_other_queries_is_refused(folder: Path) -> None:
    pv.write(folder / "short.ibin", IDS[:5])
    with pytest.raises(pv.InputError, match="5 queries does not belong to 6 queries"):
        assemble(folder / "base.fbin", folder / "out.hdf5", queries=folder / "q.fbin", truth=folder / "short.ibin")


def test_a_target_of_one_column_is_refused(folder: Path) -> None:
    with pytest.raises(pv.InputError, match=r"name the output \.hdf5"):
        assemble(folder / "base.fbin", folder / "out.fbin", queries=folder / "q.fbin")


def test_a_part_that_is_not_there_is_named(folder: Path) -> None:
    assemble(folder / "base.fbin", folder / "out.hdf5", queries=folder / "q.fbin")
    with pytest.raises(pv.InputError, match="there is no truth in it; it has"):
        take_apart(folder / "out.hdf5", folder / "b2.fbin", truth=folder / "t.ibin")
    assert not (folder / "b2.fbin").exists()


def test_the_output_may_not_be_an_input(folder: Path) -> None:
    with pytest.raises(pv.InputError, match="also an input"):
        assemble(folder / "base.fbin", folder / "q.fbin", queries=folder / "q.fbin", format="hdf5")
