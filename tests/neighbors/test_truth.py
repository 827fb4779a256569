"""Ground truth: written in every style, resumed after a kill, and refused where it is of another base."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors import inputs as inputs_module
from polyvec.neighbors import truth as truth_module
from polyvec.neighbors.listed import check_ids
from polyvec.neighbors.truth import compute_truth, write_truth
from polyvec.neighbors.truth_check import verify_truth

from .test_scan import brute_force

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((400, 10)).astype(np.float32)
QUERIES = RNG.standard_normal((8, 10)).astype(np.float32)


@pytest.fixture
def files(tmp_path):
    pv.write(tmp_path / "base.fbin", ROWS)
    pv.write(tmp_path / "queries.fbin", QUERIES)
    return tmp_path / "base.fbin", tmp_path / "queries.fbin"


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_truth_is_the_brute_force(files, metric):
    found = compute_truth(*files, k=20, metric=metric)
    ids, scores = brute_force(ROWS, QUERIES, 20, metric)
    np.testing.assert_array_equal(found.rows, ids)
    np.testing.assert_array_equal(found.scores, scores)


@pytest.mark.parametrize(
    ("name", "style"), [("gt.ibin", None), ("gt.truth", None), ("gt.ibin", "big-ann"), ("gt.ibin", "cuvs")]
)
def test_every_style_reads_back(files, tmp_path, name, style):
    receipt = write_truth(*files, tmp_path / name, k=5, metric="l2", style=style)
    ids, scores = brute_force(ROWS, QUERIES, 5, "l2")
    with pv.open(tmp_path / name) as c:
        np.testing.assert_array_equal(c["ids"].to_numpy(), ids)
        if "distances" in c.columns:
            np.testing.assert_array_equal(c["distances"].to_numpy(), scores.astype(np.float32))
        assert ("distances" in c.columns) == (style == "big-ann" or name == "gt.truth")
    if style == "cuvs":
        with pv.open(tmp_path / "gt.distances.fbin") as c:
            np.testing.assert_array_equal(c.vectors.to_numpy(), scores.astype(np.float32))
    assert receipt.base_rows == 400 and all((tmp_path / o).exists() for o in receipt.outputs)
    verify_truth(*files, tmp_path / name, metric="l2")


def test_hdf5_holds_all_four_sets(files, tmp_path):
    h5py = pytest.importorskip("h5py")
    try:
        write_truth(*files, tmp_path / "gt.hdf5", k=5, metric="cosine")
    except InputError as error:
        pytest.skip(str(error))
    with h5py.File(tmp_path / "gt.hdf5") as f:
        ids, scores = brute_force(ROWS, QUERIES, 5, "cosine")
        np.testing.assert_array_equal(f["neighbors"][:], ids)
        np.testing.assert_allclose(f["distances"][:], 1 - scores, atol=1e-6)
        assert f["train"].shape == (400, 10) and f["test"].shape == (8, 10)


def test_shards_are_one_base(files, tmp_path):
    for i in range(4):
        pv.write(tmp_path / f"part_{i}.fbin", ROWS[i * 100 : (i + 1) * 100])
    write_truth(str(tmp_path / "part_*.fbin"), files[1], tmp_path / "a.ibin", k=7, metric="l2")
    write_truth([str(tmp_path / f"part_{i}.fbin") for i in range(4)], files[1], tmp_path / "b.ibin", k=7, metric="l2")
    ids, _ = brute_force(ROWS, QUERIES, 7, "l2")
    for name in ("a.ibin", "b.ibin"):
        np.testing.assert_array_equal(pv.open(tmp_path / name)["ids"].to_numpy(), ids)


def test_a_killed_run_is_resumed(files, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(truth_module, "SAVE_SECONDS", 0.0)
    out = tmp_path / "gt.ibin"

    class Killed(BaseException):
        pass

    def kill(done, total):
        if done > 200:
            raise Killed

    with pytest.raises(Killed):
        write_truth(*files, out, k=6, metric="l2", progress=kill)
    assert not out.exists() and (tmp_path / ".gt.ibin.truth-state").exists()
    with pytest.raises(Killed):  # another k is another run: it starts over
        write_truth(*files, out, k=5, metric="l2", progress=kill)
    with pytest.raises(Killed):
        write_truth(*files, out, k=6, metric="l2", progress=kill)
    seen = []
    receipt = write_truth(*files, out, k=6, metric="l2", progress=lambda done, total: seen.append(done))
    assert receipt.resumed_at == 200 and seen == sorted(seen)  # rows that are done are read again, not scanned
    np.testing.assert_array_equal(pv.open(out)["ids"].to_numpy(), brute_force(ROWS, QUERIES, 6, "l2")[0])
    assert not (tmp_path / ".gt.ibin.truth-state").exists()


def test_a_resumed_run_ranks_scores_that_float64_cannot_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(truth_module, "SAVE_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    rows, queries = rng.standard_normal((300, 8)) * 1e-200, rng.standard_normal((3, 8)) * 1e-200
    np.save(tmp_path / "base.npy", rows)
    np.save(tmp_path / "queries.npy", queries)
    files = (tmp_path / "base.npy", tmp_path / "queries.npy")
    with pytest.raises(Stopped):
        write_truth(*files, tmp_path / "gt.ibin", k=6, metric="ip", progress=stop_at(200))
    assert write_truth(*files, tmp_path / "gt.ibin", k=6, metric="ip").resumed_at > 0
    found = pv.open(tmp_path / "gt.ibin")["ids"].to_numpy()
    np.testing.assert_array_equal(found, np.argsort(-(queries * 1e200) @ (rows * 1e200).T, axis=1)[:, :6])


def test_a_run_killed_by_the_system_is_resumed(files, tmp_path):
    code = f"""
import time
from polyvec.neighbors import inputs, truth
inputs.BLOCK_BYTES, truth.SAVE_SECONDS = 2000, 0.0
def slow(done, total):
    print(done, flush=True)
    time.sleep(0.05)
truth.write_truth({str(files[0])!r}, {str(files[1])!r}, {str(tmp_path / "gt.ibin")!r}, k=6, metric="l2", progress=slow)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    lines = [child.stdout.readline() for _ in range(4)]
    child.kill()
    child.wait()
    child.stdout.close()
    assert int(lines[-1]) > 0 and not (tmp_path / "gt.ibin").exists()
    assert write_truth(*files, tmp_path / "gt.ibin", k=6, metric="l2").resumed_at > 0
    np.testing.assert_array_equal(
        pv.open(tmp_path / "gt.ibin")["ids"].to_numpy(), brute_force(ROWS, QUERIES, 6, "l2")[0]
    )
    assert not [p for p in tmp_path.iterdir() if "truth-state" in p.name]


class Stopped(BaseException):
    pass


def stop_at(row):
    def watch(done, total):
        if done > row:
            raise Stopped

    return watch


def test_a_run_over_a_base_that_was_changed_since_starts_over(files, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(truth_module, "SAVE_SECONDS", 0.0)
    for row in (0, 57, 199):  # scanned before the stop, and none of the few rows that an even sample would look at
        pv.write(files[0], ROWS)
        with pytest.raises(Stopped):
            write_truth(*files, tmp_path / "gt.ibin", k=6, metric="l2", progress=stop_at(250))
        stamp = files[0].stat()
        rows = ROWS.copy()
        rows[row] = QUERIES[3]
        pv.write(files[0], rows)
        os.utime(files[0], ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        receipt = write_truth(*files, tmp_path / "gt.ibin", k=6, metric="l2")
        assert receipt.resumed_at == 0
        assert receipt.notes == ("the base has changed since the saved run; all rows were scanned again",)
        np.testing.assert_array_equal(
            pv.open(tmp_path / "gt.ibin")["ids"].to_numpy(), brute_force(rows, QUERIES, 6, "l2")[0]
        )


def test_a_copy_of_the_base_is_the_same_base(files, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(truth_module, "SAVE_SECONDS", 0.0)
    with pytest.raises(Stopped):
        write_truth(*files, tmp_path / "gt.ibin", k=6, metric="l2", progress=stop_at(250))
    pv.convert(files[0], tmp_path / "copy.npy")
    receipt = write_truth(tmp_path / "copy.npy", files[1], tmp_path / "gt.ibin", k=6, metric="l2")
    assert receipt.resumed_at > 200 and receipt.notes == ()


def test_a_base_that_changes_under_the_run_is_refused(files, tmp_path):
    def write_to_it(done, total):
        with files[0].open("r+b") as file:
            file.seek(20)
            file.write(b"other")

    with pytest.raises(InputError, match="were changed while they were read"):
        write_truth(*files, tmp_path / "gt.ibin", k=6, metric="l2", progress=write_to_it)
    assert not (tmp_path / "gt.ibin").exists()


def test_rows_are_listed_and_it_is_said_where_the_base_has_ids(files, tmp_path):
    pv.write(tmp_path / "named.npy", ROWS, ids=np.arange(400) + 1000)
    receipt = write_truth(tmp_path / "named.npy", files[1], tmp_path / "gt.ibin", k=3, metric="l2")
    assert receipt.notes == ("the base has ids of its own; the truth lists row numbers, as such files do",)
    np.testing.assert_array_equal(
        pv.open(tmp_path / "gt.ibin")["ids"].to_numpy(), brute_force(ROWS, QUERIES, 3, "l2")[0]
    )


def test_without_a_stated_metric_it_is_asked_for(files, tmp_path):
    with pytest.raises(InputError, match=r"nothing states the metric; name it with --metric .*ip, cosine, l2"):
        write_truth(*files, tmp_path / "gt.ibin", k=3)
    pv.write(tmp_path / "stated.npy", ROWS, metadata={"distance": "angular"})
    receipt = write_truth(tmp_path / "stated.npy", files[1], tmp_path / "gt.ibin", k=3)
    assert (receipt.metric, receipt.metric_from) == ("cosine", "stated by stated.npy (distance=angular)")
    with pv.open(tmp_path / "gt.ibin") as c:
        assert c.metadata == {"metric": "cosine"}


def test_a_damaged_state_is_passed_over(files, tmp_path, monkeypatch):
    state = tmp_path / ".gt.ibin.truth-state"
    for data in (b"", b"PVTRUTH1", b"PVTRUTH1\xff\xff\xff\xff", bytes(5000)):
        state.write_bytes(data)
        assert write_truth(*files, tmp_path / "gt.ibin", k=3, metric="l2").resumed_at == 0


def test_truth_of_another_base_is_detected(files, tmp_path):
    write_truth(*files, tmp_path / "gt.ibin", k=5, metric="l2")
    other = RNG.standard_normal((400, 10)).astype(np.float32)
    with pytest.raises(InputError, match="not of this base under l2: for query 0"):
        verify_truth(other, QUERIES, tmp_path / "gt.ibin")
    with pytest.raises(InputError, match=r"id \d+ of query \d+ .* is out of range; the base has 50 rows"):
        verify_truth(ROWS[:50], QUERIES, tmp_path / "gt.ibin")
    with pytest.raises(InputError, match="is of 8 queries and there are 3"):
        verify_truth(ROWS, QUERIES[:3], tmp_path / "gt.ibin")
    stored = {"ids": brute_force(ROWS, QUERIES, 5, "l2")[0].astype(np.int32), "distances": np.ones((8, 5), np.float32)}
    with pytest.raises(InputError, match="distances are not of this base"):
        verify_truth(ROWS, QUERIES, pv.Collection.from_arrays(stored), metric="l2")


def test_bad_input_is_one_clear_line(files, tmp_path):
    with pytest.raises(InputError, match="style 'x' is unknown; use one of ids, big-ann, cuvs, hdf5"):
        write_truth(*files, tmp_path / "gt.ibin", style="x")
    with pytest.raises(InputError, match="k is 500 and the base has only 400 rows"):
        write_truth(*files, tmp_path / "gt.ibin", k=500, metric="l2")
    with pytest.raises(InputError, match="the output is also an input"):
        write_truth(*files, files[0], k=1, metric="l2")
    with pytest.raises(InputError, match="does not exist"):
        write_truth(*files, tmp_path / "no" / "gt.ibin", k=1, metric="l2")
    with pytest.raises(InputError, match=r"id 7 of query 0 \(place 1\) is out of range; the base has 5 rows"):
        check_ids(np.array([[1, 7]]), 5)
    with pytest.raises(InputError, match="expected ids"):
        check_ids(np.array([[1.0, 7.0]]), 5)


@pytest.mark.parametrize(
    ("name", "style"), [("gt.fbin", None), ("gt.xyz", None), ("gt.npy", "cuvs"), ("gt.ibin", "hdf5")]
)
def test_a_name_that_promises_another_kind_of_file_is_refused(files, tmp_path, name, style):
    with pytest.raises(InputError, match=r"a ground truth of style .* is a .* file, not"):
        write_truth(*files, tmp_path / name, k=5, metric="l2", style=style)
    assert not (tmp_path / name).exists()
