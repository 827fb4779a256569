"""Benchmarks, resumed work and the field's formats from the command line; bad input is one line each."""

from __future__ import annotations

import json

import numpy as np
import pytest

import polyvec as pv

RNG = np.random.default_rng(8)
BASE = RNG.standard_normal((40, 4)).astype(np.float32)


@pytest.fixture
def benchmark(folder):
    pytest.importorskip("h5py")
    pv.write(folder / "base.fbin", BASE)
    pv.write(folder / "q.fbin", BASE[:3])
    squares = ((BASE[:3, None].astype(np.float64) - BASE) ** 2).sum(axis=2)
    ids = np.argsort(squares, axis=1)[:, :5]
    near = np.take_along_axis(squares, ids, axis=1).astype(np.float32)
    truth = {"ids": ids.astype(np.int32), "distances": near}
    pv.write(folder / "gt.ibin", truth, format="truth")
    return folder


def test_a_benchmark_goes_into_hdf5_and_back(benchmark, cli):
    code, out, _ = cli(
        "convert", "base.fbin", "--queries", "q.fbin", "--truth", "gt.ibin", "out.hdf5", "--metric", "l2"
    )
    assert code == 0 and "wrote out.hdf5" in out
    code, out, _ = cli("convert", "out.hdf5", "b2.fbin", "--queries", "q2.fbin", "--truth", "gt2.ibin", "--json")
    receipt = json.loads(out)
    assert code == 0 and receipt["output"] == "b2.fbin"
    assert [other["output"] for other in receipt["others"]] == ["q2.fbin", "gt2.ibin"]
    for one, two in (("base.fbin", "b2.fbin"), ("q.fbin", "q2.fbin")):
        assert (benchmark / one).read_bytes() == (benchmark / two).read_bytes()
    with pv.open("gt.ibin") as before, pv.open("gt2.ibin") as after:
        assert np.array_equal(before["ids"].to_numpy(), after["ids"].to_numpy())
        np.testing.assert_allclose(before["distances"].to_numpy(), after["distances"].to_numpy(), rtol=3e-7)


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("base.fbin", "--truth", "gt.ibin", "out.hdf5"), 2, "holds no queries"),
        (("base.fbin", "--queries", "q.fbin", "out.hdf5", "--resume"), 2, "go without"),
        (("base.fbin", "out.hdf5", "--metric", "l2"), 2, "--metric belongs to"),
        (("base.fbin", "--queries", "q.fbin", "--truth", "far.ibin", "out.hdf5"), 1, "outside the base"),
    ],
)
def test_a_benchmark_that_makes_no_sense_is_one_line(benchmark, cli, arguments, code, words):
    pv.write(benchmark / "far.ibin", np.full((3, 5), 40, np.int32))
    found, _, err = cli("convert", *arguments)
    assert found == code and words in err and err.count("\n") == 1
    assert not (benchmark / "out.hdf5").exists()


def test_resume_is_an_option_of_merge_and_convert(folder, cli):
    assert cli("merge", "shard-*.fbin", "--output", "all.fbin", "--resume")[0] == 0
    assert cli("convert", "shard-*.fbin", "all.npy", "--resume")[0] == 0
    assert cli("merge", "shard-*.fbin", "--output", "plain.fbin")[0] == 0
    assert (folder / "all.fbin").read_bytes() == (folder / "plain.fbin").read_bytes()
    assert not list(folder.glob("*.parts"))


def ragged(path):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"emb": [[1.0, 2.0], [3.0]]}), path)


def two_candidates(path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [[1.0, 2.0]], "b": [[3.0, 4.0]]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def no_matrix(path):
    with pytest.importorskip("h5py").File(path, "w") as f:
        f["x"] = np.arange(4)


def objects(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


def object_archive(path):
    np.savez(path, a=np.array([{}], dtype=object))


def overlapping(path):
    entry = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    text = json.dumps({"a": entry, "b": entry}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))


@pytest.mark.parametrize(
    "name, make, code, words",
    [
        ("x.parquet", ragged, 1, "lists differ in length"),
        ("x.parquet", two_candidates, 2, "choose one with --column"),
        ("x.hdf5", no_matrix, 1, "no dataset of numbers has two dimensions"),
        ("x.npy", objects, 1, "pickles and are never read"),
        ("x.npz", object_archive, 1, "pickles and are never read"),
        ("x.safetensors", overlapping, 1, "tensors overlap"),
    ],
)
def test_bad_input_is_one_clear_line(folder, cli, name, make, code, words):
    make(folder / name)
    found, _, err = cli("convert", name, "out.fbin")
    assert found == code and words in err and err.count("\n") == 1
    assert code == 2 or name in err
    assert not (folder / "out.fbin").exists()


@pytest.mark.parametrize(
    "change, words", [(np.asfortranarray, "Fortran order"), (lambda a: a.astype(">f4"), "big-endian")]
)
def test_odd_npy_files_are_converted_and_it_is_said(folder, cli, change, words):
    np.save(folder / "odd.npy", change(BASE))
    code, _, err = cli("convert", "odd.npy", "out.fbin")
    assert code == 0 and words in err
    with pv.open(folder / "out.fbin") as c:
        assert np.array_equal(c.vectors, BASE)
