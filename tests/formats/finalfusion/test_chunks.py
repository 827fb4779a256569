"""The chunks of a file: found where they are, measured, and refused by field and byte where they lie."""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyvec as pv
from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.formats.finalfusion.chunks import read_file
from polyvec.testing import MemorySource

sys.path.insert(0, str(Path(__file__).parent))
from fifu import GOLDEN, MANIFEST, OFFSET, dense, quantized, simple


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.FormatWarning)
        yield


def test_norms_missing_from_the_header_are_found(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "simple_norms.fifu").read_bytes())
    start = MANIFEST["simple_norms.fifu"]["layout"]["chunks"][2]["offset"]
    short = struct.pack("<4sII2I", b"FiFu", 0, 2, 1, 2) + data[24:start]
    # Without its identifier all that follows moves by four bytes, which leaves the padding as it was.
    with pv.open(bytes(short + data[start:]), format="finalfusion") as collection:
        assert any("not listed" in note for note in collection.notes)
        with pv.open(GOLDEN / "simple_norms.fifu") as listed:
            assert collection["norms"].to_numpy().tobytes() == listed["norms"].to_numpy().tobytes()


def test_bytes_after_the_last_chunk_are_a_warning() -> None:
    with pytest.warns(pv.FormatWarning, match="5 bytes after the last chunk"):
        pv.open((GOLDEN / "simple.fifu").read_bytes() + b"extra", format="finalfusion").close()


def test_a_document_matrix_with_both_flags_off_may_still_hold_both(tmp_path: Path) -> None:
    pv.write(tmp_path / "d.fifu", quantized(projection=True, norms=True), dialect="document", durable=False)
    data = bytearray((tmp_path / "d.fifu").read_bytes())
    with pv.open(tmp_path / "d.fifu") as collection:
        codes = next(collection.vectors.blocks()).parts["codes"]
    flags = data.index(struct.pack("<IIIII", 1, 1, 2, 2, 4))
    data[flags : flags + 8] = bytes(8)
    with pv.open(bytes(data), format="finalfusion") as collection:
        block = next(collection.vectors.blocks())
        assert block.parts["codes"].tobytes() == codes.tobytes()
        assert collection.vectors.codec.projection is None and not collection.vectors.codec.norms


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (b"FiFx" + simple()[4:], Corrupt, "magic"),
        (simple()[:4] + struct.pack("<I", 1) + simple()[8:], Unsupported, "version"),
        (simple()[:8] + struct.pack("<I", 2**32 - 1) + simple()[12:], Corrupt, "n_chunks"),
        (simple([b"a", b"\xff"]), Corrupt, "word 1"),
        (simple([b"a", b""]), Corrupt, "word 1"),
        (simple([b"a", b"b", b"c"], matrix=dense(OFFSET + 5)), Corrupt, "matrix.rows"),
        (simple(matrix=dense(OFFSET, rows=1, size=4)), Corrupt, "matrix.rows"),
        (simple(matrix=dense(OFFSET, rows=2**63)), Corrupt, "matrix.rows, matrix.cols"),
        (simple(matrix=dense(OFFSET, kind=12)), Corrupt, "type"),
        (simple(matrix=dense(OFFSET, kind=8)), Unsupported, "type"),
        (simple(matrix=dense(OFFSET, kind=9)), Unsupported, "type"),
        (simple(matrix=dense(OFFSET, cols=0, size=0)), Corrupt, "matrix.cols"),
        (simple(ids=(2, 1)), Corrupt, "chunk.id"),
        (simple(ids=(1, 1), matrix=simple()[20:]), Corrupt, "chunk.id"),
        (simple(ids=(1,), matrix=b""), Corrupt, "chunk_ids"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 1) + struct.pack("<IQQI", 1, 12, 1, 2**32 - 1), Truncated, "word 0"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 1) + struct.pack("<IQQI", 1, 12, 2**63, 0), Truncated, "vocab.words"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 5) + struct.pack("<IQ", 5, 5) + b"a = =", Corrupt, "metadata"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 5) + struct.pack("<IQ", 5, 2) + b"\xff\xff", Corrupt, "metadata"),
        (
            struct.pack("<4sIII", b"FiFu", 0, 1, 3) + struct.pack("<IQQIII", 3, 20, 0, 6, 3, 2),
            Corrupt,
            "vocab.min_n, vocab.max_n",
        ),
        (
            struct.pack("<4sIII", b"FiFu", 0, 1, 3) + struct.pack("<IQQIII", 3, 20, 0, 3, 6, 64),
            Corrupt,
            "vocab.bucket_exp",
        ),
    ],
)
def test_a_lie_is_a_format_error_with_its_field(data: bytes, error: type[FormatError], field: str) -> None:
    with pytest.raises(error) as caught:
        pv.open(data, format="finalfusion")
    assert caught.value.field == field
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (8, 3, "quantized.quantized_len"),
        (16, 257, "quantized.n_centroids"),
        (16, 0, "quantized.n_centroids"),
        (0, 2, "quantized.projection"),
        (28, 3, "quantized.quantized_type"),
        (32, 11, "quantized.reconstructed_type"),
        (8, 0, "quantized.quantized_len"),
    ],
)
def test_a_quantised_matrix_that_lies_is_refused(place: int, value: int, field: str) -> None:
    data = bytearray((GOLDEN / "pq_proj1_norms1.fifu").read_bytes())
    start = MANIFEST["pq_proj1_norms1.fifu"]["layout"]["chunks"][1]["offset"] + 12
    struct.pack_into("<I", data, start + place, value)
    with pytest.raises(FormatError) as caught:
        pv.open(bytes(data), format="finalfusion")
    assert caught.value.field == field


def test_lossy_replaces_invalid_words_and_keeps_empty_ones() -> None:
    with pv.open(simple([b"a\xff", b""]), format="finalfusion", lossy=True) as collection:
        assert list(collection.vocab) == ["a�", ""]
        assert collection.vocab.index("a�") == 0


def norms(n: int = 2, kind: int = 10, *, offset: int, size: int | None = None) -> bytes:
    pad = 4 - (offset + 24) % 4
    size = 4 * n if size is None else size
    return struct.pack("<IQQI", 6, 12 + pad + size, n, kind) + bytes(pad + size)


def test_a_file_is_where_its_words_rows_and_norms_lie() -> None:
    plain = simple(ids=(1, 2, 6))
    data = plain + norms(offset=len(plain))
    file = read_file(MemorySource(data, "x.fifu"))
    assert file.dialect == "reference" and [chunk.id for chunk in file.chunks] == [1, 2, 6]
    assert file.words is not None and list(file.words.strings) == ["a", "b"]
    assert file.matrix is not None and (file.matrix.rows, file.matrix.dim) == (2, 1)
    assert (file.matrix.data, file.norms) == (len(plain) - 8, len(data) - 8)
    at = 0
    for span in sorted((span for span in file.spans if span.size), key=lambda span: span.offset):
        assert span.offset == at
        at += span.size
    assert at == len(data) and not file.notes


@pytest.mark.parametrize(
    ("change", "kind", "field", "offset"),
    [
        ({"kind": 11}, Unsupported, "norms.type", 20),
        ({"n": 3}, Corrupt, "norms.n", 12),
        ({"size": 12}, Corrupt, "norms.n", 4),
    ],
)
def test_norms_that_lie_are_told_with_their_field(
    change: dict[str, int], kind: type[FormatError], field: str, offset: int
) -> None:
    plain = simple(ids=(1, 2, 6))
    with pytest.raises(kind) as caught:
        read_file(MemorySource(plain + norms(offset=len(plain), **change), "x.fifu"))
    assert (caught.value.field, caught.value.offset) == (field, len(plain) + offset)


def test_listed_norms_that_are_not_there_are_missing() -> None:
    data = simple(ids=(1, 2, 6))
    with pytest.raises(Truncated, match="ends before its norms") as caught:
        read_file(MemorySource(data, "x.fifu"))
    assert caught.value.offset == len(data)


def test_a_chunk_that_the_file_cuts_off_is_told_with_its_length() -> None:
    data = simple()
    with pytest.raises(Truncated, match="the file ends inside NdArray") as caught:
        read_file(MemorySource(data[:-1], "x.fifu"))
    assert (caught.value.field, caught.value.offset) == ("chunk.len", OFFSET + 4)


def test_a_chunk_out_of_order_is_told_with_what_came_before() -> None:
    metadata = struct.pack("<IQ", 5, 5) + b"a = 1"
    with pytest.raises(Corrupt, match=r"Metadata is out of order.*found SimpleVocab Metadata"):
        read_file(MemorySource(simple(ids=(1, 5), matrix=metadata), "x.fifu"))
    second = simple(ids=(1, 2, 2))
    with pytest.raises(Corrupt, match="NdArray is out of order") as caught:
        read_file(MemorySource(second + second[OFFSET + 4 :], "x.fifu"))
    assert (caught.value.field, caught.value.offset) == ("chunk.id", len(second))


def test_bytes_behind_the_chunks_that_are_no_norms_are_extra() -> None:
    file = read_file(MemorySource(simple() + struct.pack("<IQ", 6, 99) + b"short", "x.fifu"))
    assert file.norms is None and file.notes == [
        f"17 bytes after the last chunk, from byte {len(simple())} on, are ignored"
    ]
