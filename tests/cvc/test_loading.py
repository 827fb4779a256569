"""Loading CVC: whole, by rows, columns, chunks and sections; damage is told or filled; views without a copy."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc, kernels
from polyvec.core.reading import load_extents
from polyvec.core.sources import open_source
from polyvec.cvc.loading import File
from polyvec.formats.cvc.header import read_header
from polyvec.testing import vectors
from polyvec.testing.descriptors import no_descriptors_left

GOLDEN = Path(__file__).parents[1] / "golden" / "cvc"
ROWS = vectors(1000, 8)
HALF = ROWS.astype(np.float16).astype(np.float32)


def flip(path: Path, chunk: int, at: int = 3) -> None:
    """Damage a chunk."""
    data = bytearray(path.read_bytes())
    data[read_header(open_source(path)).chunks[chunk].payload + at] ^= 1
    path.write_bytes(data)


def bytes_of(path: Path, load: Any) -> int:
    """Payload bytes that a load reads."""
    with open_source(path) as source:
        file = File(source, "cpu", "torch", "auto", "raise", 0.0, None)
        before = source.bytes_read
        load(file)
        return source.bytes_read - before


def test_out_is_filled_and_returned(packed: Path) -> None:
    out = np.empty((1000, 8), np.float32)
    assert cvc.load_cvc(packed, out=out) is out and np.array_equal(out, HALF)
    for wrong in (np.empty((999, 8), np.float32), np.empty((1000, 8)), np.broadcast_to(np.float32(0), (1000, 8))):
        with pytest.raises(pv.InputError, match="out must be"):
            cvc.load_cvc(packed, out=wrong)
    wide = np.zeros((1000, 16), np.float32)
    cvc.load_cvc(packed, out=wide[:, ::2])
    assert np.array_equal(wide[:, ::2], HALF) and not wide[:, 1::2].any()


@pytest.mark.parametrize("compression", ["fp16", "int8", "none", "lossless", "bfloat16"])
def test_rows_are_those_of_the_whole_and_only_their_bytes_are_read(compression: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, compression=compression, chunk_size=300)
    whole = cvc.load_cvc(path)
    for rows in (slice(0, 1), slice(299, 301), slice(-10, None), slice(5, 5), slice(None, None), slice(250, 950)):
        assert np.array_equal(cvc.load_cvc(path, rows=rows), whole[rows])
        assert np.array_equal(cvc.load_cvc_range(path, rows=rows), whole[rows])
    read = bytes_of(path, lambda file: file.load("vectors", [range(290, 310)]))
    width = {"fp16": 2, "bfloat16": 2, "int8": 1, "none": 4}.get(compression)
    if width:
        assert read == 20 * 8 * width
    else:  # a lossless chunk is one piece: two are touched, two are not
        assert read == sum(chunk.size for chunk in read_header(open_source(path)).chunks[:2])
    with pytest.raises(pv.InputError, match="step"):
        cvc.load_cvc(path, rows=slice(0, 10, 2))


def test_one_column_of_ten_reads_a_tenth_of_the_bytes(columnar: Path) -> None:
    read = bytes_of(columnar, lambda file: file.load("c7", [range(400)]))
    assert read == 400 * 8 * 2
    one = cvc.load_cvc_columns(columnar, columns=["c7"])
    assert list(one) == ["c7"]
    assert np.array_equal(one["c7"], vectors(400, 8, seed=7).astype(np.float16).astype(np.float32))
    assert np.array_equal(cvc.load_cvc(columnar, columns="c7", rows=slice(10, 20)), one["c7"][10:20])
    assert list(cvc.load_cvc(columnar, columns=["c2", "c1"])) == ["c2", "c1"]
    assert len(cvc.load_cvc(columnar)) == 10


def test_one_damaged_column_leaves_the_others_readable(columnar: Path) -> None:
    flip(columnar, 1)
    with pytest.raises(cvc.CorruptedChunkError) as caught:
        cvc.load_cvc_columns(columnar, columns=["c0"])
    assert caught.value.field == "crc32" and "rows 150 to 299" in str(caught.value)
    assert len(cvc.load_cvc_columns(columnar, columns=["c1"])["c1"]) == 400


def test_a_peers_columnar_file_is_checked_when_all_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    path.write_bytes((GOLDEN / "v2_columnar.cvc").read_bytes())
    flip(path, 1, at=3900)
    with pytest.raises(cvc.CorruptedChunkError):
        cvc.load_cvc_columns(path)
    filled = cvc.load_cvc_columns(path, on_corruption="skip", fill_value=7)
    good = cvc.load_cvc_columns(GOLDEN / "v2_columnar.cvc")
    for name, array in filled.items():
        assert (array[100:200] == 7).all() and np.array_equal(array[:100], good[name][:100])
    with pytest.raises(pv.Corrupt):
        pv.convert(path, tmp_path / "b.cvc")
    with pytest.raises(pv.Corrupt):
        cvc.rename_column(path, "text", "words")


def test_chunks_come_one_by_one_in_the_files_order(packed: Path) -> None:
    found = list(cvc.load_cvc_chunked(packed))
    assert [index for index, _ in found] == [0, 1, 2, 3]
    assert np.array_equal(np.concatenate([array for _, array in found]), HALF)
    assert [(i, len(a)) for i, a in cvc.load_cvc_chunked(packed, [3, 1])] == [(1, 300), (3, 100)]
    for wrong in ([4], [-1]):
        with pytest.raises(pv.InputError, match="no chunk"):
            list(cvc.load_cvc_chunked(packed, wrong))
    out = np.empty((300, 8), np.float32)
    for index, array in cvc.load_cvc_chunked(packed, out=out):
        assert array.base is out and np.array_equal(array, HALF[index * 300 : index * 300 + 300])


def test_interleaved_chunked_loads_leave_the_process_on_its_code_path(packed: Path) -> None:
    usual = kernels.cpu_path()
    first, second = (cvc.load_cvc_chunked(packed, backend="python") for _ in range(2))
    for (_, one), (_, other) in zip(first, second, strict=True):
        assert np.array_equal(one, other)
        assert kernels.cpu_path() == usual  # also while they wait
    started = cvc.load_cvc_chunked(packed, backend="python")
    next(started)
    again = cvc.load_cvc_chunked(packed, backend="python")
    next(again)
    started.close()  # the first to come is the first to go
    again.close()
    assert kernels.cpu_path() == usual


def test_the_python_backend_decodes_in_numpy_at_every_step(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met = []

    def watched(*arguments: Any, **options: Any) -> Any:
        met.append(kernels.cpu_path())
        return load_extents(*arguments, **options)

    monkeypatch.setattr("polyvec.cvc.loading.load_extents", watched)
    for backend, path in (("python", "numpy"), ("auto", kernels.cpu_path())):
        list(cvc.load_cvc_chunked(packed, backend=backend))
        assert met == [path] * 4
        met.clear()


def test_chunked_loading_and_streaming_hold_less_than_two_chunks(tmp_path: Path) -> None:
    path, rows, dim = tmp_path / "a.cvc", 20_000, 128
    chunk = rows * dim * 4
    piece = np.ones((1000, dim), np.float32)
    for compression in ("fp16", "int8", "lossless"):
        tracemalloc.start()
        cvc.pack_cvc((piece for _ in range(60)), path, compression=compression, chunk_size=rows, durable=False)
        assert tracemalloc.get_traced_memory()[1] < 2 * chunk
        tracemalloc.stop()
        out = np.empty((rows, dim), np.float32)
        tracemalloc.start()
        for _, array in cvc.load_cvc_chunked(path, out=out):
            assert (array == 1).all()
        assert tracemalloc.get_traced_memory()[1] < chunk
        tracemalloc.stop()


def test_sections_are_found_by_key_and_value_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "s.cvc"
    sections = [
        (ROWS[:10], {"s": "a", "n": 1}),
        (ROWS[10:15], {"s": "b"}),
        (ROWS[15:40], {"s": "a"}),
        (ROWS[40:40], {}),
        (ROWS[40:900], {"s": None}),
    ]
    cvc.pack_cvc_sections(sections, path, compression="none", chunk_size=100)
    found = cvc.load_cvc_range(path, section_key="s", section_value="a")
    assert np.array_equal(found, np.concatenate([ROWS[:10], ROWS[15:40]])), "two sections in one chunk, both"
    assert np.array_equal(cvc.load_cvc_range(path, section_key="s", section_value=None), ROWS[40:900])
    read = bytes_of(path, lambda file: file.load("vectors", file.sections("s", "b")))
    assert read == 5 * 8 * 4
    for key, value in (("s", "z"), ("n", 2), ("zzz", None)):
        with pytest.raises(pv.InputError, match="no section"):
            cvc.load_cvc_range(path, section_key=key, section_value=value)
    with pytest.raises(pv.InputError, match="give one of"):
        cvc.load_cvc_range(path, chunk_indices=[0], section_key="s")
    assert [s["num_vectors"] for s in cvc.get_cvc_info(path)["sections"]] == [10, 5, 25, 0, 860]


def test_sections_of_columnar_files(tmp_path: Path) -> None:
    path = tmp_path / "s.cvc"
    sections = [
        ({"v": ROWS[a:b], "id": np.arange(a, b)}, {"s": s}) for a, b, s in ((0, 7, "x"), (7, 9, "y"), (9, 20, "x"))
    ]
    cvc.pack_cvc_sections_columnar(sections, path, {"v": "none"}, chunk_size=8)
    found = cvc.load_cvc_columns(path, section_key="s", section_value="x")
    assert found["id"].tolist() == [*range(7), *range(9, 20)] and found["id"].dtype == np.int64
    assert np.array_equal(found["v"], ROWS[[*range(7), *range(9, 20)]])
    assert cvc.load_cvc_columns(path, ["id"], section_key="s", section_value="y")["id"].tolist() == [7, 8]


def test_chunks_are_found_by_their_metadata(tmp_path: Path) -> None:
    path = tmp_path / "m.cvc"
    metadata = [{"source": "a"}, {"source": "b"}, {"source": "a"}, {}]
    cvc.pack_cvc(ROWS, path, compression="none", chunk_size=300, chunk_metadata=metadata)
    found = cvc.load_cvc_range(path, metadata_key="source", metadata_value="a")
    assert np.array_equal(found, np.concatenate([ROWS[:300], ROWS[600:900]]))
    assert [c["metadata"] for c in cvc.get_cvc_info(path)["chunks"]] == [*metadata[:3], None]
    with pytest.raises(pv.InputError, match="no chunk"):
        cvc.load_cvc_range(path, metadata_key="source", metadata_value="c")
    with pytest.raises(pv.InputError, match="3 entries for 4 chunks"):
        cvc.pack_cvc(ROWS, path, chunk_size=300, chunk_metadata=metadata[:3])


@pytest.mark.parametrize("layout", ["document", "versioned"])
def test_damage_raises_or_is_filled_and_said(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, chunk_size=300, layout=layout)
    flip(path, 1)
    with pytest.raises(cvc.CorruptedChunkError) as caught:
        cvc.load_cvc(path)
    assert isinstance(caught.value, pv.FormatError) and caught.value.offset and "rows 300 to 599" in str(caught.value)
    with pytest.raises(cvc.CorruptedChunkError):
        list(cvc.load_cvc_chunked(path))
    corrupted: list[tuple[int, int]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skipped = cvc.load_cvc(path, on_corruption="skip", fill_value=9, corrupted=corrupted)
    assert corrupted == [(300, 600)]
    assert (skipped[300:600] == 9).all() and np.array_equal(
        np.delete(skipped, range(300, 600), 0), np.delete(HALF, range(300, 600), 0)
    )
    with pytest.warns(pv.FormatWarning, match="rows 300 to 599 are damaged"):
        warned = cvc.load_cvc(path, on_corruption="warn", fill_value=np.nan)
    assert np.isnan(warned[300:600]).all() and not np.isnan(warned[:300]).any()
    with pytest.raises(pv.InputError, match="on_corruption"):
        cvc.load_cvc(path, on_corruption="bogus")
    report = cvc.validate_cvc_integrity(path, verbose=True)
    assert (report["valid"], report["corrupted_chunks"], report["corrupted_ranges"]) == (False, [1], [(300, 600)])
    detail = report["checksum_details"][1]
    assert (
        not detail["valid"]
        and detail["expected_crc32"] != detail["actual_crc32"]
        and detail["vector_range"] == (300, 600)
    )


def test_a_damaged_lossless_chunk_without_a_checksum_is_filled_too(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, compression="lossless", chunk_size=300)
    data = bytearray(path.read_bytes())
    header = read_header(open_source(path))
    found = header.json
    for entry in found["chunks"]:
        del entry["crc32"]
    data[header.json_offset : header.json_offset + header.header_len] = (
        json.dumps(found).encode().ljust(header.header_len)
    )
    data[header.chunks[2].payload] ^= 1  # its count of values
    path.write_bytes(data)
    filled = cvc.load_cvc(path, on_corruption="skip")
    assert (
        not filled[600:900].any()
        and np.array_equal(filled[:600], ROWS[:600])
        and np.array_equal(filled[900:], ROWS[900:])
    )
    with pytest.raises(cvc.CorruptedChunkError, match="n_values"):
        cvc.load_cvc(path)


def test_mapped_views_are_the_file_without_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "m.cvc"
    cvc.pack_cvc(ROWS, path, compression="none", chunk_size=300, mmap_optimized=True)
    with cvc.MMapCVCLoader(path) as loader:
        view = loader.get_column_view(2)
        assert np.array_equal(view, ROWS[600:900]) and not view.flags.owndata and not view.flags.writeable
        assert bytes(loader.get_chunk_view(3)) == ROWS[900:].tobytes()
        assert view.ctypes.data % 8 == 0 and loader.is_mmap_optimized
        assert np.array_equal(loader.load_chunk(1), ROWS[300:600]) and np.array_equal(loader.load(), ROWS)
        assert loader.get_info()["mmap_optimized"] and loader.get_info()["num_chunks"] == 4
        with pytest.raises(pv.InputError, match="no chunk 4"):
            loader.load_chunk(4)
    assert view[0, 0] == ROWS[600, 0], "a view outlives the loader"
    with pytest.raises(pv.InputError, match="not open"):
        loader.load()
    cvc.pack_cvc(ROWS, path, compression="int8")
    with cvc.MMapCVCLoader(path) as loader, pytest.raises(pv.InputError, match="load_chunk decodes it"):
        loader.get_column_view(0)
    flip(path, 0)
    with cvc.MMapCVCLoader(path) as loader, pytest.raises(cvc.CorruptedChunkError):
        loader.load()


def test_mapped_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.cvc"
    cvc.pack_cvc_columns({"a": ROWS, "id": np.arange(1000)}, path, chunk_size=300, mmap_optimized=True)
    with cvc.MMapCVCLoader(path) as loader:
        assert loader.get_column_view(1, "id").tolist() == [*range(300, 600)]
        assert loader.get_column_view(0, "a").dtype == np.float16
        assert np.array_equal(loader.load_chunk(3, column="a"), HALF[900:])


def test_a_chunked_load_that_is_abandoned_or_fails_leaves_no_file_open(packed: Path) -> None:
    next(iter(cvc.load_cvc_chunked(packed)))
    with no_descriptors_left(collected=True):
        chunks = cvc.load_cvc_chunked(packed)
        next(chunks)
        del chunks
    with no_descriptors_left():
        chunks = cvc.load_cvc_chunked(packed)
        next(chunks)
        chunks.close()
    flip(packed, 1)
    with no_descriptors_left(), pytest.raises(cvc.CorruptedChunkError) as told:
        list(cvc.load_cvc_chunked(packed))
    assert told.traceback  # whose frames hold what was open


def test_a_mapped_loader_opened_twice_or_failing_leaves_no_file_open(packed: Path, tmp_path: Path) -> None:
    with no_descriptors_left():
        loader = cvc.MMapCVCLoader(packed).open()
        held = loader._open.source
        with loader as again:
            assert again is loader and loader.load_chunk(0).shape == (300, 8)
            assert loader._open.source is held, "a second file was opened, and nobody closes the first"
        with pytest.raises(ValueError, match="closed"):
            held.read_at(0, 1)
    with no_descriptors_left():
        with cvc.MMapCVCLoader(packed) as loader, pytest.raises(pv.InputError) as told:
            loader.load_chunk(99)
        (tmp_path / "bad.cvc").write_bytes(packed.read_bytes()[:40])
        with pytest.raises(pv.FormatError) as worse:
            cvc.MMapCVCLoader(tmp_path / "bad.cvc").open()
    assert told.traceback and worse.traceback
