"""Reading FBIN and IBIN: the reference keys, every way the same rows, sizes that do not match."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin
from polyvec.testing.descriptors import no_descriptors_left


def test_metadata_has_the_reference_keys(path):
    with fbin.FBINReader(path) as reader:
        metadata = reader.get_metadata()
    assert list(metadata) == [
        "file_path",
        "format",
        "vector_count",
        "dimension",
        "dtype",
        "shape",
        "file_size_bytes",
        "file_size_mb",
        "expected_size_bytes",
        "size_match",
    ]
    assert metadata["shape"] == (100, 8) and metadata["size_match"] and metadata["expected_size_bytes"] == 3208
    assert metadata["file_size_mb"] == pytest.approx(3208 / 1024 / 1024)


@pytest.mark.parametrize("mmap_mode", [True, False])
def test_every_way_of_reading_gives_the_same_rows(path, data, mmap_mode):
    with fbin.FBINReader(path, mmap_mode=mmap_mode) as reader:
        assert len(reader) == 100
        np.testing.assert_array_equal(reader.load(), data)
        np.testing.assert_array_equal(reader.sample(start=5, count=3), data[5:8])
        np.testing.assert_array_equal(reader.sample(start=98, count=10), data[98:])
        np.testing.assert_array_equal(reader.get_vector(42), data[42])
        indices, rows = reader.sample_random(count=10, seed=42)
        assert list(indices) == sorted(set(indices.tolist())) and len(indices) == 10
        np.testing.assert_array_equal(rows, data[indices])
        np.testing.assert_array_equal(reader.sample_random(count=10, seed=42)[0], indices)
        np.testing.assert_array_equal(reader.sample_strided(stride=30), data[::30])
        np.testing.assert_array_equal(reader.sample_strided(stride=30, max_count=2), data[::30][:2])
        np.testing.assert_array_equal(np.concatenate(list(reader.read_sequential(chunk_size=33))), data)
        np.testing.assert_array_equal(np.concatenate(list(reader.read_sequential(10, 25, 7))), data[10:35])


def test_what_is_read_is_ours_to_change(path):
    with fbin.FBINReader(path) as reader:
        reader.load()[0] = 1
        reader.sample()[0] = 1
        reader.get_vector(0)[0] = 1


def test_ibin_has_k_and_neighbors(tmp_path):
    ids = np.arange(12).reshape(3, 4)
    result = fbin.write_ibin(tmp_path / "g.ibin", ids)
    assert result["k"] == 4
    with fbin.IBINReader(tmp_path / "g.ibin") as reader:
        assert reader.get_metadata()["k"] == 4 and reader.get_metadata()["dtype"] == "int32"
        assert reader.get_neighbors(query_index=1).tolist() == [4, 5, 6, 7]


def test_size_mismatch_warns_and_strict_raises(path, data):
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(pv.SizeMismatchWarning, match="size mismatch"):
        reader = fbin.FBINReader(path)
    assert not reader.get_metadata()["size_match"] and reader.get_metadata()["vector_count"] == 100
    np.testing.assert_array_equal(reader.load(), data[:99])
    with pytest.raises(pv.Truncated):
        fbin.FBINReader(path, strict=True)


def test_extra_bytes_warn_too(path, data):
    path.write_bytes(path.read_bytes() + b"xx")
    with pytest.warns(pv.SizeMismatchWarning):
        reader = fbin.FBINReader(path)
    np.testing.assert_array_equal(reader.load(), data)


def test_no_warning_on_a_sound_file(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbin.FBINReader(path).close()


@pytest.mark.parametrize("mmap_mode", [True, False])
def test_a_sequence_that_is_abandoned_leaves_no_file_open(path, mmap_mode):
    next(fbin.FBINReader(path, mmap_mode).read_sequential())
    with no_descriptors_left(collected=True):
        pieces = fbin.FBINReader(path, mmap_mode).read_sequential(chunk_size=10)
        next(pieces)
        del pieces
    with no_descriptors_left(), fbin.FBINReader(path, False) as reader:
        pieces = reader.read_sequential(chunk_size=10)
        next(pieces)


def test_a_reader_that_fails_leaves_no_file_open(path):
    path.write_bytes(path.read_bytes()[:-5])
    with no_descriptors_left(), pytest.raises(pv.FormatError) as told:
        fbin.FBINReader(path, strict=True)
    path.write_bytes(b"PK")
    with no_descriptors_left(), pytest.raises(pv.FormatError) as worse:
        fbin.FBINReader(path)
    assert told.traceback and worse.traceback
