"""The CVC face: the peer's names and defaults, and what they promise beyond it."""

from __future__ import annotations

import inspect
import json
import os
import struct
import threading
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc, kernels
from polyvec.core import devices
from polyvec.core.reading import load_extents
from polyvec.core.sources import open_source
from polyvec.cvc.loading import File
from polyvec.formats.cvc import writer
from polyvec.formats.cvc.header import read_header
from polyvec.kernels.threads import limit_threads
from polyvec.testing import vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "cvc"
ROWS = vectors(1000, 8)
HALF = ROWS.astype(np.float16).astype(np.float32)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    cvc.pack_cvc(ROWS, tmp_path / "a.cvc", chunk_size=300)
    return tmp_path / "a.cvc"


@pytest.fixture
def columnar(tmp_path: Path) -> Path:
    data = {f"c{number}": vectors(400, 8, seed=number) for number in range(10)}
    cvc.pack_cvc_columns(data, tmp_path / "c.cvc", chunk_size=150)
    return tmp_path / "c.cvc"


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


# -- names


def test_names_arguments_and_defaults_are_the_peers() -> None:
    signatures = {
        "load_cvc": [
            "path",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "on_corruption='raise'",
            "fill_value=0.0",
        ],
        "pack_cvc": [
            "vectors",
            "output_path",
            "compression='fp16'",
            "chunk_size=100000",
            "chunk_metadata=None",
            "mmap_optimized=False",
        ],
        "pack_cvc_sections": ["sections", "output_path", "compression='fp16'", "chunk_size=100000"],
        "pack_cvc_columns": ["data", "output_path", "compressions=None", "chunk_size=100000"],
        "pack_cvc_sections_columnar": ["sections", "output_path", "compressions=None", "chunk_size=100000"],
        "load_cvc_chunked": ["path", "chunk_indices=None", "device='cpu'", "framework='torch'", "backend='auto'"],
        "load_cvc_range": [
            "path",
            "chunk_indices=None",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "metadata_key=None",
            "metadata_value=None",
            "section_key=None",
            "section_value=None",
        ],
        "load_cvc_columns": [
            "path",
            "columns=None",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "section_key=None",
            "section_value=None",
        ],
        "add_column": ["path", "column_name", "data", "compression=None", "output_path=None"],
        "update_column": ["path", "column_name", "data", "compression=None", "output_path=None"],
        "delete_column": ["path", "column_name", "output_path=None"],
        "rename_column": ["path", "old_name", "new_name", "output_path=None"],
        "list_columns": ["path"],
        "get_cvc_info": ["path"],
        "validate_cvc": ["path"],
        "detect_version": ["path"],
        "validate_cvc_integrity": ["path", "verbose=False"],
        "validate_cvc_version": ["path"],
        "upgrade_cvc": ["input_path", "output_path", "verbose=False"],
        "get_available_backends": [],
        "get_backend_errors": [],
    }
    for name, expected in signatures.items():
        parameters = inspect.signature(getattr(cvc, name)).parameters.values()
        positional = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        found = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional]
        assert found == expected, name
    assert {*signatures, "MMapCVCLoader", "CorruptedChunkError"} == set(cvc.__all__)


# -- loading


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


# -- damage


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


# -- packing


def test_an_iterator_a_collection_and_an_array_give_the_same_vectors(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    for compression in ("fp16", "int8", "lossless", "none"):
        cvc.pack_cvc(ROWS, tmp_path / "1.cvc", compression=compression, chunk_size=300)
        cvc.pack_cvc(
            (ROWS[at : at + 70] for at in range(0, 1000, 70)),
            tmp_path / "2.cvc",
            compression=compression,
            chunk_size=300,
        )
        with pv.open(tmp_path / "a.fbin") as collection:
            cvc.pack_cvc(collection, tmp_path / "3.cvc", compression=compression, chunk_size=300)
        payloads = []
        for number in (1, 2, 3):
            with open_source(tmp_path / f"{number}.cvc") as source:
                chunks = read_header(source).chunks
                payloads.append([source.read_at(chunk.payload, chunk.size) for chunk in chunks])
        assert payloads[0] == payloads[1] == payloads[2]


def test_large_arrays_are_packed_as_small_ones_are(tmp_path: Path) -> None:
    """Stretches written by several threads join to what one thread writes."""
    rows = vectors(30_000, 100)
    for compression in ("fp16", "int8", "lossless", "none", "bfloat16"):
        cvc.pack_cvc(rows, tmp_path / "1.cvc", compression=compression, chunk_size=30_000, durable=False)
        with limit_threads(1):
            cvc.pack_cvc(rows, tmp_path / "2.cvc", compression=compression, chunk_size=30_000, durable=False)
        assert (tmp_path / "1.cvc").read_bytes() == (tmp_path / "2.cvc").read_bytes()
        assert cvc.validate_cvc_integrity(tmp_path / "1.cvc")["valid"]
    assert np.array_equal(cvc.load_cvc(tmp_path / "1.cvc").view(np.uint32) & 0xFFFF, np.zeros((30_000, 100)))


def test_a_header_that_outgrows_its_room_is_given_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "UNKNOWN_RESERVE", 64)
    for mapped in (False, True):
        cvc.pack_cvc(
            iter(np.array_split(ROWS, 7)), tmp_path / "a.cvc", compression="none", chunk_size=10, mmap_optimized=mapped
        )
        assert np.array_equal(cvc.load_cvc(tmp_path / "a.cvc"), ROWS)
        assert pv.verify(tmp_path / "a.cvc").ok
        assert all(c.offset % 4096 == 0 for c in read_header(open_source(tmp_path / "a.cvc")).chunks) or not mapped


def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    nan, large = ROWS.copy(), ROWS.copy()
    nan[700, 3] = np.nan
    large[701, 2] = 1e6
    infinite = nan.copy()
    infinite[700, 3] = np.inf
    path = tmp_path / "z.cvc"
    cases: list[tuple[str, dict[str, Any]]] = [
        ("row 700, column 3", {"vectors": nan, "compression": "int8", "chunk_size": 300}),
        ("inf in row 700", {"vectors": infinite, "compression": "int8", "chunk_size": 300}),
        ("nan in row 700", {"vectors": iter([nan[:650], nan[650:]]), "compression": "int8", "chunk_size": 300}),
        ("1e\\+06 in row 701, column 2", {"vectors": large, "chunk_size": 300}),
        ("at least 1 row, not -5", {"vectors": ROWS, "chunk_size": -5}),
        ("at least 1 row, not 0", {"vectors": ROWS, "chunk_size": 0}),
        ("at least 1 row, not True", {"vectors": ROWS, "chunk_size": True}),
        ("unknown compression 'zip'", {"vectors": ROWS, "compression": "zip"}),
        ("unknown layout", {"vectors": ROWS, "layout": "v3"}),
        ("shape \\(8,\\)", {"vectors": ROWS[0]}),
        ("expected numbers", {"vectors": np.array([["a"]])}),
        ("follows arrays", {"vectors": iter([ROWS, ROWS[:, :3]])}),
        ("no array", {"vectors": iter([])}),
        ("more chunks", {"vectors": iter([ROWS]), "chunk_size": 300, "chunk_metadata": [{}]}),
        ("JSON cannot hold", {"vectors": ROWS, "chunk_metadata": [{"x": float("nan")}]}),
        ("JSON cannot hold", {"vectors": ROWS, "chunk_metadata": [{"x": object()}]}),
    ]
    for message, arguments in cases:
        with pytest.raises(pv.InputError, match=message):
            cvc.pack_cvc(output_path=path, **arguments)
    with pytest.raises(pv.InputError, match="different lengths"):
        cvc.pack_cvc_columns({"a": ROWS, "b": ROWS[:5]}, path)
    with pytest.raises(pv.InputError, match="no columns"):
        cvc.pack_cvc_columns({}, path)
    with pytest.raises(pv.InputError, match="only 'none' keeps whole numbers"):
        cvc.pack_cvc_columns({"a": np.arange(5)}, path, {"a": "fp16"})
    with pytest.raises(pv.InputError, match="names no column"):
        cvc.pack_cvc_columns({"a": ROWS}, path, {"b": "fp16"})
    for sections in ([], [(ROWS, "no mapping")], [(ROWS, {}), (ROWS[:, :2], {})]):
        with pytest.raises(pv.InputError):
            cvc.pack_cvc_sections(sections, path)
    for broken in ([], [({"a": ROWS}, {}), ({"b": ROWS}, {})], [({"a": ROWS, "b": ROWS[:3]}, {})]):
        with pytest.raises(pv.InputError):
            cvc.pack_cvc_sections_columnar(broken, path)
    assert not list(tmp_path.iterdir())
    cvc.pack_cvc(large, path, allow_overflow=True)
    assert np.isinf(cvc.load_cvc(path)[701, 2])


def test_constant_chunks_nan_halves_and_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(np.full((5, 3), 2.5, np.float32), path, compression="int8")
    entry = read_header(open_source(path)).chunks[0].entry
    assert (entry["min"], entry["scale"]) == (2.5, 1.0) and (cvc.load_cvc(path) == 2.5).all()
    cvc.pack_cvc(np.array([[np.nan, np.inf]], np.float32), path)
    assert np.array_equal(cvc.load_cvc(path), [[np.nan, np.inf]], equal_nan=True)
    for layout in ("document", "versioned"):
        cvc.pack_cvc(ROWS[:0], path, layout=layout)
        assert cvc.load_cvc(path).shape == (0, 8) and pv.verify(path).ok
    cvc.pack_cvc_columns({"a": ROWS[:0], "b": np.zeros(0, np.int32)}, path)
    assert cvc.load_cvc_columns(path)["b"].shape == (0,)


# -- columns


def test_edits_copy_the_other_columns_bytes_and_keep_what_they_do_not_know(tmp_path: Path) -> None:
    path = tmp_path / "c.cvc"
    sections = [
        ({"v": ROWS[:600], "w": ROWS[:600, :3], "id": np.arange(600)}, {"s": "a"}),
        ({"v": ROWS[600:], "w": ROWS[600:, :3], "id": np.arange(600, 1000)}, {"s": "b"}),
    ]
    cvc.pack_cvc_sections_columnar(sections, path, {"w": "int8"}, chunk_size=300)
    data = path.read_bytes()
    header = read_header(open_source(path))
    header.json["later"] = {"keep": ["me"]}
    header.json["columns"][0]["unit"] = "m"
    header.json["chunks"][1]["note"] = 1
    header.json["chunks"][1]["columns"]["w"]["note"] = 2
    text = json.dumps(header.json).encode()
    path.write_bytes(data[:8] + struct.pack("<I", len(text)) + text + data[header.json_offset + header.header_len :])
    before = cvc.load_cvc_columns(path)
    old = path.read_bytes()

    cvc.add_column(path, "new", ROWS[:, 0], output_path=tmp_path / "other.cvc")
    assert path.read_bytes() == old
    cvc.add_column(path, "new", ROWS[:, 0])
    assert path.read_bytes() == (tmp_path / "other.cvc").read_bytes()
    cvc.update_column(path, "v", ROWS[:, :2] * 2, compression="none")
    cvc.rename_column(path, "w", "x")
    cvc.delete_column(path, "id")
    assert [column["name"] for column in cvc.list_columns(path)] == ["v", "x", "new"]
    after = cvc.load_cvc_columns(path)
    assert np.array_equal(after["x"], before["w"]) and np.array_equal(after["new"], HALF[:, 0])
    assert np.array_equal(after["v"], ROWS[:, :2] * 2)
    found = read_header(open_source(path))
    assert found.json["later"] == {"keep": ["me"]} and found.json["columns"][0]["unit"] == "m"
    assert found.chunks[1].entry["note"] == 1 and found.chunks[1].entry["columns"]["x"]["note"] == 2
    assert len(cvc.load_cvc_columns(path, section_key="s", section_value="b")["v"]) == 400
    assert pv.verify(path).ok and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("layout", ["document", "versioned"])
@pytest.mark.parametrize("mapped", [False, True])
def test_edits_keep_layout_and_pages(layout: str, mapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "c.cvc"
    cvc.pack_cvc_columns({"a": ROWS, "b": ROWS[:, 0]}, path, chunk_size=90, layout=layout, mmap_optimized=mapped)
    cvc.update_column(path, "b", ROWS[:, 1])
    header = read_header(open_source(path))
    assert (header.layout, header.mapped) == (layout, mapped)
    assert not mapped or all(chunk.offset % 4096 == 0 for chunk in header.chunks)
    assert np.array_equal(cvc.load_cvc_columns(path)["b"], HALF[:, 1]) and pv.verify(path).ok


def test_wrong_edits_change_nothing(columnar: Path, packed: Path) -> None:
    before = columnar.read_bytes()
    wrong: list[Any] = [
        lambda: cvc.add_column(columnar, "c0", np.zeros(400, np.float32)),
        lambda: cvc.add_column(columnar, "new", np.zeros(399, np.float32)),
        lambda: cvc.add_column(columnar, "new", np.full(400, np.nan, np.float32), compression="int8"),
        lambda: cvc.update_column(columnar, "zzz", np.zeros(400, np.float32)),
        lambda: cvc.rename_column(columnar, "c0", "c1"),
        lambda: cvc.rename_column(columnar, "zzz", "c1"),
        lambda: cvc.delete_column(columnar, "zzz"),
        lambda: cvc.delete_column(columnar, "c0", output_path=columnar),
        lambda: cvc.list_columns(packed),
        lambda: cvc.add_column(packed, "new", np.zeros(1000, np.float32)),
        lambda: cvc.load_cvc_columns(packed),
        lambda: cvc.load_cvc_columns(columnar, ["zzz"]),
        lambda: cvc.load_cvc(columnar, out=np.empty(1)),
    ]
    for edit in wrong:
        with pytest.raises(pv.InputError):
            edit()
    assert columnar.read_bytes() == before and len(list(columnar.parent.iterdir())) == 2


# -- looking


def test_info_validation_and_versions(packed: Path, columnar: Path, tmp_path: Path) -> None:
    info = cvc.get_cvc_info(packed)
    assert (info["format_type"], info["num_vectors"], info["dimension"], info["compression"], info["num_chunks"]) == (
        "single",
        1000,
        8,
        "fp16",
        4,
    )
    assert info["file_size"] == packed.stat().st_size
    report = cvc.validate_cvc(packed)
    assert report["valid"] and report["version"] == "v0.1" and not report["errors"]
    assert cvc.validate_cvc(columnar)["columns"][9]["name"] == "c9"
    for path in (GOLDEN / "malformed").glob("*.cvc"):
        if "bitflip" not in path.stem:
            assert not cvc.validate_cvc(path)["valid"] and cvc.validate_cvc(path)["errors"]
    assert cvc.detect_version(GOLDEN / "v2_columnar.cvc") == (2, 0)
    assert cvc.detect_version(GOLDEN / "v0_release010_int8.cvc") == (0, 1)
    assert cvc.validate_cvc_version(GOLDEN / "v0_release010_int8.cvc")["needs_upgrade"]
    assert not cvc.validate_cvc_version(GOLDEN / "malformed" / "01_bad_magic.cvc")["valid"]
    for check in (
        cvc.get_cvc_info,
        cvc.validate_cvc,
        cvc.validate_cvc_integrity,
        cvc.validate_cvc_version,
        cvc.load_cvc,
    ):
        with pytest.raises(FileNotFoundError):
            check(tmp_path / "missing.cvc")


def test_upgrading_adds_checksums_and_copies_payloads(tmp_path: Path) -> None:
    old = GOLDEN / "v0_release010_int8.cvc"
    assert "no checksums" in cvc.validate_cvc_integrity(old)["error"]
    report = cvc.upgrade_cvc(old, tmp_path / "new.cvc")
    assert (report["input_version"], report["output_version"], report["num_chunks"]) == ("v0.1", "v1.0", 3)
    assert cvc.validate_cvc_integrity(tmp_path / "new.cvc")["valid"]
    assert np.array_equal(cvc.load_cvc(tmp_path / "new.cvc"), cvc.load_cvc(old))
    with pytest.raises(FileExistsError):
        cvc.upgrade_cvc(old, tmp_path / "new.cvc")
    cvc.upgrade_cvc(GOLDEN / "v2_columnar.cvc", tmp_path / "columns.cvc")
    assert cvc.detect_version(tmp_path / "columns.cvc") == (2, 0) and pv.verify(tmp_path / "columns.cvc").ok


# -- maps


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


# -- devices


class Fake:
    """A device whose memory is this process's."""

    def __init__(self) -> None:
        self.loads: list[tuple[int, int]] = []

    def __call__(self, column: Any, *, start: int, stop: int, check: bool, **_: Any) -> Any:
        self.loads.append((start, stop))
        column.check = check
        return column[start:stop]


@pytest.fixture
def fake() -> Iterator[Fake]:
    device = Fake()
    devices.register(devices.Device("fake", device, ("thing", "broken"), lambda: {"broken": "it is broken"}))
    yield device
    devices.unregister("fake")


def test_other_devices_are_asked_through_the_registry(fake: Fake, packed: Path) -> None:
    assert np.array_equal(cvc.load_cvc(packed, device="fake"), HALF)
    assert np.array_equal(cvc.load_cvc(packed, device="fake:0", backend="thing", rows=slice(3, 9)), HALF[3:9])
    assert fake.loads == [(0, 1000), (3, 9)]
    with pytest.raises(pv.PolyvecError, match="it is broken"):
        cvc.load_cvc(packed, device="fake", backend="broken")
    flip(packed, 2)
    with pytest.raises(cvc.CorruptedChunkError):
        cvc.load_cvc(packed, device="fake")
    filled = cvc.load_cvc(packed, device="fake", on_corruption="skip", fill_value=3)
    assert (filled[600:900] == 3).all() and np.array_equal(filled[:600], HALF[:600])
    assert cvc.get_backend_errors()["broken"] == "it is broken" and cvc.get_available_backends()["thing"]


def test_backends_and_devices_that_are_not_there_say_so(packed: Path) -> None:
    available = cvc.get_available_backends()
    assert available["python"] and available["cpp"] == kernels.NATIVE and {"cuda", "triton"} <= set(available)
    errors = cvc.get_backend_errors()
    assert all((errors[name] is None) == able for name, able in available.items())
    assert np.array_equal(cvc.load_cvc(packed, backend="python"), HALF)
    for arguments in (
        {"device": "abacus"},
        {"backend": "cuda"},
        {"backend": "zzz"},
        {"device": "cuda", "framework": "jax"},
        {"device": "cuda", "backend": "python"},
    ):
        with pytest.raises(pv.InputError):
            cvc.load_cvc(packed, **arguments)
    if not (available["cuda"] or available["triton"]):
        with pytest.raises(pv.PolyvecError, match=r"device 'cuda'.*(pip install|driver)"):
            cvc.load_cvc(packed, device="cuda", backend="triton")
        with pytest.warns(pv.DeviceWarning, match=r"device 'cuda'.*(pip install|driver).*CPU instead") as seen:
            assert np.array_equal(cvc.load_cvc(packed, device="cuda", framework="cupy"), HALF)
        assert seen[0].filename == __file__


def test_a_killed_writer_thread_says_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "no space left on device")

    before = threading.active_count()
    monkeypatch.setattr(os, "pwrite", full)
    for data in (ROWS, iter([ROWS]), vectors(30_000, 100)):
        with pytest.raises(OSError, match="no space"):
            cvc.pack_cvc(data, tmp_path / "a.cvc", durable=False)
    monkeypatch.undo()
    assert not list(tmp_path.iterdir()) and threading.active_count() == before
