"""FBIN to NPY and HDF5 and back."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin


def no_temp_files(folder):
    return not [path for path in folder.iterdir() if path.name.endswith(".polyvec-tmp")]


def test_conversions_round_trip(path, tmp_path, data):
    planned = fbin.convert_fbin_to_npy(path, tmp_path / "a.npy", dry_run=True)
    assert planned["dry_run"] and not (tmp_path / "a.npy").exists()
    result = fbin.convert_fbin_to_npy(path, tmp_path / "a.npy")
    assert result["file_size_bytes"] == planned["expected_size_bytes"] and result["shape"] == (100, 8)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), data)
    back = fbin.convert_npy_to_fbin(tmp_path / "a.npy", tmp_path / "b.fbin", compute_checksum=True)
    assert (tmp_path / "b.fbin").read_bytes() == path.read_bytes()
    assert back["checksum"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_float64_npy_is_rounded_to_float32(tmp_path, data):
    np.save(tmp_path / "d.npy", data.astype(np.float64))
    fbin.convert_npy_to_fbin(tmp_path / "d.npy", tmp_path / "d.fbin")
    np.testing.assert_array_equal(fbin.FBINReader(tmp_path / "d.fbin").load(), data)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_holds_the_same_rows(path, tmp_path, data, compression):
    h5py = pytest.importorskip("h5py")
    calls = []
    result = fbin.convert_fbin_to_hdf5(
        path,
        tmp_path / "o.h5",
        dataset_name="x",
        chunk_size=30,
        compression=compression,
        progress_callback=lambda *a: calls.append(a),
    )
    assert result["dataset_name"] == "x" and result["compression"] == compression and calls[-1] == (100, 100)
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(file["x"][:], data)
        assert file["x"].compression == compression
    assert result["file_size_bytes"] == (tmp_path / "o.h5").stat().st_size and no_temp_files(tmp_path)


def test_a_missing_h5py_says_what_to_install(path, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(pv.MissingExtra, match=r"polyvec\[hdf5\]"):
        fbin.convert_fbin_to_hdf5(path, tmp_path / "o.h5")
