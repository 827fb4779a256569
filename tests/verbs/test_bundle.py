"""Base, queries and truth into one file and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.verbs.bundle import assemble, take_apart

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
        for name, array in (("train", BASE), ("test", QUERIES), ("neighbors", IDS), ("distances", DISTANCES)):
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
    for one, two in (("base.fbin", "b2.fbin"), ("q.fbin", "q2.fbin"), ("gt.ibin", "gt2.ibin")):
        assert (folder / one).read_bytes() == (folder / two).read_bytes()


def test_distances_may_have_a_file_of_their_own_both_ways(folder: Path) -> None:
    assemble(folder / "base.fbin", folder / "out.h5", queries=folder / "q.fbin", truth=folder / "ids.ibin",
             distances=folder / "near.fbin")  # fmt: skip
    take_apart(
        folder / "out.h5", folder / "b2.fbin", truth=folder / "i2.ibin", distances=folder / "n2.fbin", sidecar=False
    )
    assert (folder / "i2.ibin").read_bytes() == (folder / "ids.ibin").read_bytes()
    assert (folder / "n2.fbin").read_bytes() == (folder / "near.fbin").read_bytes()


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
