"""polyvec.fbin: names, arguments and result keys of the FBIN/IBIN document, and its guarantees."""

from __future__ import annotations

import hashlib
import struct
import warnings

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin


@pytest.fixture
def data():
    return np.random.default_rng(7).standard_normal((100, 8)).astype(np.float32)


@pytest.fixture
def path(tmp_path, data):
    fbin.write_fbin(tmp_path / "v.fbin", data)
    return tmp_path / "v.fbin"


def no_temp_files(folder):
    return not [path for path in folder.iterdir() if path.name.endswith(".polyvec-tmp")]


def test_the_bytes_are_those_of_the_document(path, data):
    assert path.read_bytes() == struct.pack("<II", 100, 8) + data.tobytes()


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


def test_ids_beyond_int32_are_refused_and_the_target_stays(tmp_path):
    target = tmp_path / "g.ibin"
    target.write_bytes(b"old")
    with pytest.raises(pv.InputError, match="does not fit int32"):
        fbin.write_ibin(target, np.array([[1, 2**31]]))
    assert target.read_bytes() == b"old" and no_temp_files(tmp_path)


def test_float_ids_are_refused(tmp_path):
    with pytest.raises(pv.LossyConversion):
        fbin.write_ibin(tmp_path / "g.ibin", np.array([[1.5, 2.0]]))


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


def test_writer_result_and_callbacks(tmp_path, data):
    calls = []
    writer = fbin.FBINWriter(tmp_path / "o.fbin", progress_callback=lambda *a: calls.append(a))
    result = writer.write(data, chunk_size=25, compute_checksum=True)
    assert calls == [(25, 100), (50, 100), (75, 100), (100, 100)]
    content = (tmp_path / "o.fbin").read_bytes()
    assert result["checksum"] == hashlib.sha256(content).hexdigest() and len(result["checksum"]) == 64
    assert {"output_path", "vector_count", "dimension", "file_size_bytes"} <= set(result)
    assert result["file_size_bytes"] == len(content)


def test_write_from_chunks_checks_the_promised_count(tmp_path, data):
    writer = fbin.FBINWriter(tmp_path / "o.fbin")
    writer.write_from_chunks(iter([data[:60], data[60:]]), 100, 8)
    np.testing.assert_array_equal(fbin.FBINReader(tmp_path / "o.fbin").load(), data)
    for count in (99, 101):
        with pytest.raises(pv.InputError, match="rows in all"):
            writer.write_from_chunks(iter([data]), count, 8)
    with pytest.raises(pv.InputError, match="shape"):
        writer.write_from_chunks(iter([data]), 100, 9)


def test_a_cancelled_write_leaves_the_old_file(tmp_path, data):
    target = tmp_path / "o.fbin"
    target.write_bytes(b"old")
    writer = fbin.FBINWriter(target, progress_callback=lambda current, total: writer.cancel())
    with pytest.raises(pv.Cancelled):
        writer.write(data, chunk_size=10)
    assert target.read_bytes() == b"old" and no_temp_files(tmp_path)


@pytest.fixture
def shards(tmp_path, data):
    paths = []
    for number in range(3):
        path = tmp_path / f"shard_{number}.fbin"
        fbin.write_fbin(path, data[number * 30 : number * 30 + 30])
        paths.append(path)
    return paths


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


@pytest.mark.parametrize(
    "call",
    [
        lambda p, t: fbin.FBINReader(p).sample_strided(stride=0),
        lambda p, t: fbin.FBINReader(p).sample_strided(stride=-1),
        lambda p, t: fbin.FBINReader(p).sample(start=-1),
        lambda p, t: fbin.FBINReader(p).sample(count=-1),
        lambda p, t: fbin.FBINReader(p).sample_random(count=-1),
        lambda p, t: list(fbin.FBINReader(p).read_sequential(chunk_size=0)),
        lambda p, t: fbin.FBINWriter(t).write(np.zeros((2, 2)), chunk_size=0),
        lambda p, t: fbin.FBINWriter(t).write(np.zeros(3)),
        lambda p, t: fbin.ShardMerger(chunk_size=0),
        lambda p, t: fbin.merge_fbin_shards([p], t, output_format="parquet"),
        lambda p, t: fbin.merge_fbin_shards([], t),
        lambda p, t: fbin.convert_fbin_to_npy(p, t, chunk_size=0),
        lambda p, t: fbin.convert_fbin_to_npy(p, p),
    ],
)
def test_bad_arguments_are_input_errors(path, tmp_path, call):
    with pytest.raises(pv.InputError):
        call(path, tmp_path / "target")
    assert not (tmp_path / "target").exists() and no_temp_files(tmp_path)


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


def test_no_warning_on_a_sound_file(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbin.FBINReader(path).close()
