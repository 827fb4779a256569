"""Shards: merged whole and in order, validated before, nothing left of a cancelled merge."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin


def no_temp_files(folder):
    return not [path for path in folder.iterdir() if path.name.endswith(".polyvec-tmp")]


def test_merge_is_whole_ordered_and_hashed(shards, tmp_path, data):
    before = [p.read_bytes() for p in shards]
    result = fbin.ShardMerger().merge(shards, tmp_path / "m.fbin", compute_checksum=True)
    content = (tmp_path / "m.fbin").read_bytes()
    assert content == struct.pack("<II", 90, 8) + data[:90].tobytes()
    assert result["checksum"] == hashlib.sha256(content).hexdigest()
    assert list(result) == [
        "output_path",
        "total_vectors",
        "dimension",
        "shards_merged",
        "output_format",
        "dry_run",
        "file_size_bytes",
        "checksum",
    ]
    assert [p.read_bytes() for p in shards] == before


def test_merge_to_npy_and_dry_run(shards, tmp_path, data):
    planned = fbin.merge_fbin_shards(shards, tmp_path / "m.npy", output_format="npy", dry_run=True)
    assert not (tmp_path / "m.npy").exists()
    fbin.merge_fbin_shards(shards, tmp_path / "m.npy", output_format="npy")
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), data[:90])
    assert planned["expected_size_bytes"] == (tmp_path / "m.npy").stat().st_size


def test_one_shard_merges(shards, tmp_path, data):
    assert fbin.merge_fbin_shards(shards[:1], tmp_path / "m.fbin")["shards_merged"] == 1
    np.testing.assert_array_equal(fbin.FBINReader(tmp_path / "m.fbin").load(), data[:30])


def test_merge_into_a_shard_is_refused(shards):
    before = shards[0].read_bytes()
    with pytest.raises(pv.InputError, match="also an input"):
        fbin.merge_fbin_shards(shards, shards[0])
    assert shards[0].read_bytes() == before


def test_validation_names_each_fault(shards, tmp_path):
    fbin.write_fbin(tmp_path / "wide.fbin", np.zeros((2, 9), np.float32))
    (tmp_path / "cut.fbin").write_bytes(shards[0].read_bytes()[:-1])
    (tmp_path / "tiny.fbin").write_bytes(b"abc")
    fbin.write_ibin(tmp_path / "ids.ibin", np.zeros((2, 8), np.int32))
    names = ["wide.fbin", "cut.fbin", "tiny.fbin", "none.fbin", "ids.ibin"]
    infos = fbin.ShardMerger().validate_shards([shards[0], *(tmp_path / n for n in names)])
    assert [info.validation_result.value for info in infos] == [
        "compatible",
        "incompatible_dimension",
        "file_size_mismatch",
        "file_corrupted",
        "file_not_found",
        "incompatible_dtype",
    ]
    preview = fbin.ShardMerger().preview_merge([shards[0], tmp_path / "wide.fbin"])
    assert not preview.all_compatible and len(preview.incompatible_shards) == 1
    with pytest.raises(pv.InputError, match="expected dimension 8, found 9"):
        fbin.merge_fbin_shards([shards[0], tmp_path / "wide.fbin"], tmp_path / "m.fbin")
    assert not (tmp_path / "m.fbin").exists()


def test_a_cancelled_merge_leaves_nothing(shards, tmp_path):
    merger = fbin.ShardMerger(chunk_size=10, progress_callback=lambda *_: merger.cancel())
    with pytest.raises(pv.Cancelled):
        merger.merge(shards, tmp_path / "m.fbin")
    assert not (tmp_path / "m.fbin").exists() and no_temp_files(tmp_path)


def test_merge_reports_progress_and_log(shards, tmp_path):
    calls, lines = [], []
    fbin.merge_fbin_shards(
        shards,
        tmp_path / "m.fbin",
        chunk_size=15,
        progress_callback=lambda *a: calls.append(a),
        log_callback=lines.append,
    )
    assert calls[-1] == (90, 90) and len(calls) == 6 and lines
