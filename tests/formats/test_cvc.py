"""CVC: the suite's promises, golden files of an independent writer, hostile files, and what convert keeps."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.codecs import BytePlanes
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.records import RunRecords
from polyvec.formats.cvc import FORMAT, encoding
from polyvec.formats.cvc.header import read_header
from polyvec.testing import FormatSuite, MemorySource, Sample, vectors

GOLDEN = Path(__file__).parent.parent / "golden" / "cvc"
SINGLE = sorted(path.stem for path in GOLDEN.glob("v[01]_*.cvc"))


def parts(data: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    """Prelude, header and the rest of a file in either layout."""
    header = read_header(MemorySource(data, "x.cvc"))
    return data[: header.json_offset - 4], header.json, data[header.json_offset + header.header_len :]


def with_header(data: bytes, change: Any) -> bytes:
    """The file with a changed header: a function of its JSON, or its bytes."""
    prelude, found, rest = parts(data)
    if callable(change):
        change(found)
        change = json.dumps(found).encode()
    return prelude + struct.pack("<I", len(change)) + change + rest


class TestCvc(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        """Small, for every bit of each is flipped; other encodings and options have tests of their own below."""
        rows = vectors(4, 3)
        plain = Collection.from_arrays(rows)
        yield Sample("lossless by default", plain)
        yield Sample("float16", plain, encoding="float16", tolerance=2e-3)
        yield Sample("int8", plain, encoding="int8", options={"chunk_rows": 3, "layout": "versioned"}, tolerance=0.01)
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        runs = RunRecords([(0, 1, {"s": "a"}), (1, 4, {"s": "b"})], 4)
        yield Sample("sections", Collection(plain.columns, records=runs), encoding="raw")
        columns = {"v": rows, "n": np.arange(4, dtype=np.int32)}
        yield Sample("columns", Collection.from_arrays(columns, metadata={"model": "m", "chunks": 3}, ids=list("abcd")))

    def hostile_files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        yield from hostile_headers(data)


def hostile_headers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Headers that lie."""
    found = parts(data)[1]
    big = (2**31, 2**53, 10**30, -1, 1.0, True, "7", None, [], 1e308)
    for key in ("num_vectors", "dimension", "compression", "chunks", "columns", "sections", "format_type"):
        for value in (*big, "zip", {}, [{}], [[]]):
            yield f"{key} = {value!r}", with_header(data, lambda h, k=key, v=value: h.update({k: v}))
        yield f"without {key}", with_header(data, lambda h, k=key: h.pop(k, None))
    for key in ("rows", "compression", "min", "scale", "crc32", "file_offset", "columns", "sections"):
        for value in (*big, {}, [{}]):
            if found["chunks"]:
                yield (
                    f"chunk {key} = {value!r}",
                    with_header(data, lambda h, k=key, v=value: h["chunks"][0].update({k: v})),
                )
    if found["chunks"] and "columns" in found["chunks"][0]:
        for key in ("offset", "size", "compression", "min", "crc32"):
            for value in (*big, 1, 2, 8):
                yield (
                    f"place {key} = {value!r}",
                    with_header(
                        data, lambda h, k=key, v=value: next(iter(h["chunks"][0]["columns"].values())).update({k: v})
                    ),
                )
        for key in ("name", "dimension", "dtype", "compression"):
            for value in (*big, "float32", "object", "O"):
                yield (
                    f"column {key} = {value!r}",
                    with_header(data, lambda h, k=key, v=value: h["columns"][0].update({k: v})),
                )
    sections = [{"start_index": 0, "end_index": 5, "metadata": {}}, {"start_index": 4, "end_index": 7, "metadata": {}}]
    yield "sections overlap", with_header(data, lambda h: h.update(sections=sections))
    for name, text in (
        ("depth bomb", b"[" * 300_000),
        ("object bomb", b'{"a":' * 200_000),
        ("a list", b"[]"),
        ("a number", b"1"),
        ("nothing", b""),
        ("NaN", b'{"num_vectors": NaN}'),
        ("Infinity", b'{"num_vectors": Infinity}'),
        ("twice", b'{"num_vectors": 1, "num_vectors": 2}'),
        ("not UTF-8", b'{"a\xff": 1}'),
        ("many digits", b'{"num_vectors": ' + b"9" * 5000 + b"}"),
        ("not JSON", b"{num_vectors}"),
    ):
        yield name, with_header(data, text)


@pytest.mark.parametrize("encoding", ["raw", "float16", "bfloat16", "int8", "lossless"])
@pytest.mark.parametrize("options", [{}, {"layout": "versioned"}, {"mmap_optimized": True}, {"chunk_rows": 3}], ids=str)
def test_every_encoding_in_every_layout(encoding: str, options: dict[str, Any], tmp_path: Path) -> None:
    rows, tolerance = vectors(20, 5), {"float16": 2e-3, "bfloat16": 2e-2, "int8": 0.02}.get(encoding, 0.0)
    data = {"v": rows, "n": vectors(20, 2, np.int64), "score": rows[:, 0].copy()}
    for given in (rows, data):
        pv.write(tmp_path / "a.cvc", given, encoding=encoding, measure=False, **options)
        with pv.open(tmp_path / "a.cvc") as found:
            for name, array in data.items() if given is data else [("vectors", rows)]:
                assert found[name].dtype == array.dtype and found[name].shape == array.shape
                allowed = tolerance if array.dtype.kind == "f" else 0.0
                assert np.abs(found[name].to_numpy() - array).max() <= allowed
        assert pv.verify(tmp_path / "a.cvc").ok
    if encoding in ("raw", "lossless"):
        pv.write(tmp_path / "a.cvc", vectors(20, 5), encoding=encoding, measure=False, **options)
        with pv.open(tmp_path / "a.cvc") as found:
            assert found.vectors.to_numpy().tobytes() == rows.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
def test_every_dtype_is_kept_in_columns(dtype: str, tmp_path: Path) -> None:
    array = vectors(9, 2, np.dtype(dtype)) if dtype != "?" else vectors(9, 2) > 0
    pv.write(tmp_path / "a.cvc", {"a": array, "b": vectors(9, 2)}, measure=False)
    with pv.open(tmp_path / "a.cvc") as found:
        assert found["a"].dtype == array.dtype and found["a"].to_numpy().tobytes() == array.tobytes()


# -- golden files


@pytest.mark.parametrize("name", SINGLE)
def test_golden_files_load_as_their_writer_loads_them(name: str) -> None:
    with pv.open(GOLDEN / f"{name}.cvc") as collection:
        found = collection.vectors.to_numpy()
    assert found.dtype == np.float32
    assert np.array_equal(found, np.load(GOLDEN / f"{name}.expected.npy"))
    assert pv.verify(GOLDEN / f"{name}.cvc").ok


def test_the_golden_columnar_file_gives_its_true_columns() -> None:
    with pv.open(GOLDEN / "v2_columnar.cvc") as collection:
        for name in ("doc_id", "tag4"):
            true = np.load(GOLDEN / f"v2_columnar.input_{name}.npy")
            assert np.array_equal(collection[name].to_numpy(), true) and collection[name].dtype == true.dtype
        for name in ("text", "score"):
            half = np.load(GOLDEN / f"v2_columnar.input_{name}.npy").astype(np.float16).astype(np.float32)
            assert np.array_equal(collection[name].to_numpy(), half)
        assert np.abs(collection["img"].to_numpy() - np.load(GOLDEN / "v2_columnar.input_img.npy")).max() < 0.014


def test_the_golden_lossless_file_is_its_input_bit_for_bit() -> None:
    with pv.open(GOLDEN / "v1_lossless.cvc") as collection:
        assert collection.vectors.to_numpy().tobytes() == np.load(GOLDEN / "input.npy").tobytes()


def test_golden_sections_and_chunk_metadata_become_records() -> None:
    with pv.open(GOLDEN / "v1_sections_fp16.cvc") as collection:
        assert collection.records is not None
        runs = [(start, stop, record["source"]) for start, stop, record in collection.records.runs()]
        assert runs == [(0, 70, "wiki"), (70, 180, "arxiv"), (180, 250, "wiki2")]
    with pv.open(GOLDEN / "v1_fp16_chunkmeta.cvc") as collection:
        assert collection.records is not None
        assert [collection.records[row]["source"] for row in (0, 150, 249)] == ["a", "b", "a"]


@pytest.mark.parametrize("path", sorted((GOLDEN / "malformed").glob("*.cvc")), ids=lambda path: path.stem)
def test_every_malformed_golden_file_is_a_format_error_with_its_place(path: Path) -> None:
    with pytest.raises(pv.FormatError) as caught, pv.open(path, format="cvc") as collection:
        collection.vectors.to_numpy()
    error = caught.value
    assert error.offset is not None and error.field and str(path) in str(error)
    assert not pv.verify(path, format="cvc").ok


# -- layouts


def test_both_layouts_are_told_apart_by_parsing_not_by_number_ranges() -> None:
    """A document-layout header of 65537 bytes reads like version 1.1 to those who guess by ranges."""
    header = {"num_vectors": 1, "dimension": 2, "compression": "fp16", "chunks": [{"rows": 1}]}
    text = json.dumps(header).encode().ljust(65537)
    payload = np.ones(2, "<f2").tobytes()
    data = b"CVCF" + struct.pack("<I", len(text)) + text + struct.pack("<I", 4) + payload
    found = read_header(MemorySource(data, "x.cvc"))
    assert (found.layout, found.header_len) == ("document", 65537)
    versioned = (
        b"CVCF" + struct.pack("<HHI", 1, 0, 0x7B) + text[:0x7B] + struct.pack("<II", 4, zlib.crc32(payload)) + payload
    )
    found = read_header(MemorySource(versioned, "x.cvc"))
    assert (found.layout, found.version) == ("versioned", (1, 0)), "a header_len of '{' is no document header"


@pytest.mark.parametrize("rows", [1, 7, 4000])
def test_a_document_header_never_looks_like_a_version(rows: int, tmp_path: Path) -> None:
    pv.write(tmp_path / "a.cvc", vectors(rows, 2), encoding="float16", chunk_rows=1)
    word = int.from_bytes((tmp_path / "a.cvc").read_bytes()[4:8], "little")
    assert not (1 <= word & 0xFFFF <= 10 and word >> 16 <= 100)


def test_plain_files_have_the_document_layout_with_checksums_and_all_others_the_versioned_one(tmp_path: Path) -> None:
    def layout(**options: Any) -> str:
        pv.write(tmp_path / "a.cvc", options.pop("data", vectors(5, 3)), measure=False, **options)
        header = read_header(pv.open_source(tmp_path / "a.cvc"))
        assert all(chunk.crc is not None for chunk in header.chunks)
        return header.layout

    assert layout(encoding="float16") == "document"
    assert layout(encoding="float16", layout="versioned") == "versioned"
    assert layout(mmap_optimized=True) == "versioned"
    assert layout(data={"a": vectors(5, 3), "b": vectors(5, 2)}) == "versioned"
    assert layout(records=[{"s": 1}] * 5) == "versioned"
    assert layout(records=[{"s": 1}] * 5, layout="document") == "document"


def test_mapped_chunks_lie_on_pages_however_many_there_are(tmp_path: Path) -> None:
    rows = vectors(300, 2)
    pv.write(tmp_path / "a.cvc", rows, encoding="raw", chunk_rows=1, mmap_optimized=True)
    header = read_header(pv.open_source(tmp_path / "a.cvc"))
    assert len(header.chunks) == 300
    assert all(chunk.offset % 4096 == 0 and chunk.entry["file_offset"] == chunk.offset for chunk in header.chunks)
    with pv.open(tmp_path / "a.cvc") as collection:
        assert np.array_equal(collection.vectors.to_numpy(), rows)


def test_a_chunk_that_would_reach_4_gib_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MAX_CHUNK_BYTES", 2048 + 100)
    pv.write(tmp_path / "a.cvc", vectors(30, 5), encoding="float16", chunk_rows=30)
    assert {chunk.rows for chunk in read_header(pv.open_source(tmp_path / "a.cvc")).chunks} == {10}
    monkeypatch.undo()
    assert (
        encoding.most_rows([encoding.choose(ArrayColumn("v", vectors(1, 768)), "none", columnar=False)]) * 768 * 4
        < 2**32
    )


def test_scattered_rows_of_a_lossless_file_decode_each_chunk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = vectors(1000, 4)
    pv.write(tmp_path / "a.cvc", rows, encoding="lossless", chunk_rows=100, measure=False)
    decoded = []
    monkeypatch.setattr(BytePlanes, "decode", lambda *a, real=BytePlanes.decode: decoded.append(1) or real(*a))
    wanted = np.random.default_rng(1).integers(0, 1000, 300)
    with pv.open(tmp_path / "a.cvc") as collection:
        assert np.array_equal(collection.vectors[wanted], rows[wanted]) and len(decoded) == 10
        decoded.clear()
        assert np.array_equal(np.concatenate(list(collection.vectors.batches(7))), rows) and len(decoded) <= 30


def test_chunk_metadata_that_no_chunk_can_hold_becomes_sections(tmp_path: Path) -> None:
    cvc.pack_cvc(vectors(10, 2), tmp_path / "a.cvc", chunk_size=4, chunk_metadata=[{"s": 1}, {}, {"s": 3}])
    pv.convert(tmp_path / "a.cvc", tmp_path / "b.cvc", chunk_rows=6)
    with pv.open(tmp_path / "b.cvc") as found:
        assert found.records is not None
        assert [dict(r) for r in found.records] == [{"s": 1}] * 4 + [{}] * 4 + [{"s": 3}] * 2
    pv.convert(tmp_path / "a.cvc", tmp_path / "c.cvc")
    kept = [chunk.entry.get("metadata") for chunk in read_header(pv.open_source(tmp_path / "c.cvc")).chunks]
    assert kept == [{"s": 1}, None, {"s": 3}]


# -- what convert keeps


@pytest.mark.parametrize("name", [*SINGLE, "v2_columnar"])
def test_cvc_to_cvc_copies_the_payloads_and_keeps_the_chunks(name: str, tmp_path: Path) -> None:
    pv.convert(GOLDEN / f"{name}.cvc", tmp_path / "out.cvc")
    before, after = (pv.open_source(path) for path in (GOLDEN / f"{name}.cvc", tmp_path / "out.cvc"))
    old, new = read_header(before), read_header(after)
    assert [chunk.rows for chunk in old.chunks] == [chunk.rows for chunk in new.chunks]
    for one, two in zip(old.chunks, new.chunks):
        assert before.read_at(one.payload, one.size) == after.read_at(two.payload, two.size)
        assert one.entry.get("metadata") == two.entry.get("metadata")
    assert old.sections == new.sections
    assert pv.verify(tmp_path / "out.cvc").ok


def test_merging_int8_files_keeps_every_code(tmp_path: Path) -> None:
    for number in range(2):
        pv.write(tmp_path / f"{number}.cvc", vectors(10, 3, seed=number), encoding="int8", chunk_rows=4)
    pv.merge([tmp_path / "0.cvc", tmp_path / "1.cvc"], tmp_path / "all.cvc")
    header = read_header(pv.open_source(tmp_path / "all.cvc"))
    assert [chunk.rows for chunk in header.chunks] == [4, 4, 2, 4, 4, 2]
    with (
        pv.open(tmp_path / "all.cvc") as merged,
        pv.open(tmp_path / "0.cvc") as one,
        pv.open(tmp_path / "1.cvc") as two,
    ):
        assert merged.vectors.encoding == "int8"
        both = np.concatenate([one.vectors.to_numpy(), two.vectors.to_numpy()])
        assert np.array_equal(merged.vectors.to_numpy(), both)


@pytest.mark.parametrize("suffix", [".fbin", ".npy"])
def test_other_formats_go_to_cvc_and_back_exactly(suffix: str, tmp_path: Path) -> None:
    rows = vectors(50, 8)
    pv.write(tmp_path / f"a{suffix}", rows)
    receipt = pv.convert(tmp_path / f"a{suffix}", tmp_path / "b.cvc")
    assert receipt.loss is not None and receipt.loss.exact and receipt.codec.endswith("-> lossless")
    pv.convert(tmp_path / "b.cvc", tmp_path / f"c{suffix}")
    assert (tmp_path / f"c{suffix}").read_bytes() == (tmp_path / f"a{suffix}").read_bytes()


def test_records_of_sections_survive_other_formats(tmp_path: Path) -> None:
    pv.convert(GOLDEN / "v1_sections_fp16.cvc", tmp_path / "a.npy")
    pv.convert(tmp_path / "a.npy", tmp_path / "b.cvc", encoding="float16")
    found, golden = (read_header(pv.open_source(p)) for p in (tmp_path / "b.cvc", GOLDEN / "v1_sections_fp16.cvc"))
    assert found.sections == golden.sections


def test_records_that_are_no_sections_go_beside_the_file(tmp_path: Path) -> None:
    records = [{"row": row} for row in range(5000)]
    receipt = pv.write(tmp_path / "a.cvc", vectors(5000, 2), records=records)
    assert receipt.sidecars == ("a.cvc.records.jsonl",)
    with pv.open(tmp_path / "a.cvc") as collection:
        assert collection.records is not None and collection.records[4999] == {"row": 4999}


def test_columns_of_different_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match=r"a \(5 rows\), b \(4 rows\)"):
        pv.write(tmp_path / "a.cvc", {"a": vectors(5, 2), "b": vectors(4, 2)})
    assert not list(tmp_path.iterdir())


def test_hdf5_goes_to_cvc_and_back(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    rows = vectors(30, 4)
    pv.write(tmp_path / "a.hdf5", rows)
    assert pv.convert(tmp_path / "a.hdf5", tmp_path / "b.cvc").loss.exact  # type: ignore[union-attr]
    pv.convert(tmp_path / "b.cvc", tmp_path / "c.hdf5")
    with pv.open(tmp_path / "c.hdf5") as found:
        assert np.array_equal(found.vectors.to_numpy(), rows)


def test_the_command_line_converts_verifies_and_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from polyvec.cli import run

    pv.write(tmp_path / "a.fbin", vectors(30, 4))
    assert run(["convert", str(tmp_path / "a.fbin"), str(tmp_path / "b.cvc"), "--encoding", "int8"]) == 0
    assert run(["verify", str(tmp_path / "b.cvc")]) == 0
    assert run(["verify", str(GOLDEN / "malformed" / "11_bitflip_payload.cvc")]) == 1
    capsys.readouterr()
    assert run(["info", "--layout", str(tmp_path / "b.cvc")]) == 0
    text = capsys.readouterr().out
    assert "cvc" in text and "header_len" in text and "30 rows, int8" in text
    assert run(["info", str(GOLDEN / "v1_sections_fp16.cvc")]) == 0
    assert "source" in capsys.readouterr().out


def test_the_byte_map_covers_the_file(tmp_path: Path) -> None:
    for path in (GOLDEN / "v2_columnar.cvc", GOLDEN / "v1_fp16_mmap.cvc", GOLDEN / "v0_release010_int8.cvc"):
        spans = sorted(FORMAT.layout(pv.open_source(path)), key=lambda span: span.offset)
        at = 0
        for span in spans:
            assert span.offset == at
            at += span.size
        assert at == path.stat().st_size


def test_verify_names_every_damaged_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    pv.write(path, vectors(40, 4), encoding="int8", chunk_rows=10)
    data = bytearray(path.read_bytes())
    for chunk in read_header(pv.open_source(path)).chunks[1:3]:
        data[chunk.payload + 5] ^= 1
    path.write_bytes(data)
    found = [finding for finding in pv.verify(path).findings if finding.severity == "error"]
    assert ["rows 10 to 19" in found[0].message, "rows 20 to 29" in found[1].message, len(found)] == [True, True, 2]


def test_a_small_file_starts_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = vectors(100, 8)
    cvc.pack_cvc(rows, tmp_path / "a.cvc", compression="none", chunk_size=7, durable=False)
    monkeypatch.setattr("polyvec.kernels.threads.ThreadPoolExecutor", None)  # under tight limits one may never start
    assert np.array_equal(cvc.load_cvc(tmp_path / "a.cvc"), rows)
