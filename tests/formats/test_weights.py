"""EMBD .weights."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt, FormatError, FormatWarning, InputError, Truncated, Unsupported
from polyvec.core.sources import open_source
from polyvec.formats.weights import FORMAT, read_model, read_tensor
from polyvec.formats.weights.records import Contents, hash_name
from polyvec.kernels import available_paths, use_path
from polyvec.testing import FormatSuite, Sample, vectors

DTYPES = ("f4", "f2", ml_dtypes.bfloat16, "i4", "i2", "i1", "u4", "u2", "u1")
WORDS = "embeddings.word_embeddings.weight"


def seal(data: bytes) -> bytes:
    """Both footer checksums and the header's, made right where the places they stand at still exist."""
    body = bytearray(data)
    if len(body) >= 80:
        body[56:60] = zlib.crc32(body[:56]).to_bytes(4, "little")
        start = min(int.from_bytes(body[36:40], "little"), len(body) - 16)
        body[-16:-12] = zlib.crc32(body[start:-16]).to_bytes(4, "little")
        body[-12:-8] = zlib.crc32(body[:-16]).to_bytes(4, "little")
    return bytes(body)


class TestWeights(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        rows = vectors(6, 5)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "é"]
        yield Sample("plain vectors", Collection.from_arrays(rows))
        model = {"a": vectors(3, 2), WORDS: rows, "bias": rows[0]}
        yield Sample(
            "words", Collection.from_arrays(model, vocab=words, main=WORDS, metadata={"model_name": "m", "n": 3})
        )
        typed = {np.dtype(kind).name[:4]: vectors(1, 2, kind) for kind in ("f2", ml_dtypes.bfloat16, "i2", "u1")}
        yield Sample("several dtypes", Collection.from_arrays(typed))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        yield Sample("int8", Collection.from_arrays(rows), encoding="int8", tolerance=0.02)

    def seal(self, data: bytes) -> bytes:
        return seal(data)

    def protected(self, sample: Sample, data: bytes) -> list[range]:
        return [range(len(data))]


def model_bytes(tmp_path: Path, **more: Any) -> bytes:
    tensors = {WORDS: vectors(4, 3), "t.275672f2": vectors(2, 2), "t.7be8e215": vectors(2, 2, seed=1)}
    pv.write(tmp_path / "m.weights", tensors, vocab=["a", "b", "c", "d"], **more)
    return (tmp_path / "m.weights").read_bytes()


def patched(data: bytes, offset: int, code: str, value: Any, *, sealed: bool = True) -> bytes:
    body = bytearray(data)
    struct.pack_into("<" + code, body, offset, value)
    return seal(bytes(body)) if sealed else bytes(body)


def opened(data: bytes) -> Collection:
    return FORMAT.open(open_source(data, name="m.weights"))


def index_of(data: bytes) -> int:
    return int.from_bytes(data[28:32], "little")


def test_the_bytes_are_those_of_the_document(tmp_path: Path) -> None:
    """Every field by hand, with the standard library alone."""
    data = model_bytes(tmp_path)
    (
        magic,
        major,
        minor,
        flags,
        meta_at,
        meta_size,
        vocab_at,
        vocab_size,
        index_at,
        count,
        data_at,
        data_size,
        total,
        crc,
        reserved,
    ) = struct.unpack("<4sHHIIIIIIIIQQII", data[:64])
    assert (magic, major, minor, flags, reserved) == (b"EMBD", 1, 0, 0b111, 0)
    assert crc == zlib.crc32(data[:56]) and total == len(data)
    assert meta_at == 64 and vocab_at == meta_at + meta_size and index_at == vocab_at + vocab_size
    entries, size = struct.unpack_from("<II", data, meta_at)
    assert size == meta_size - 8
    keys, at = [], meta_at + 8
    for _ in range(entries):
        key, value = struct.unpack_from("<HH", data, at)
        keys.append(data[at + 4 : at + 4 + key].decode())
        at += 4 + key + value
    assert at == vocab_at
    assert keys[:10] == [
        "model_name",
        "model_version",
        "embedding_dim",
        "vocab_size",
        "num_layers",
        "num_attention_heads",
        "hidden_size",
        "intermediate_size",
        "max_position_emb",
        "created_at",
    ]
    tokens, token_bytes, specials = struct.unpack_from("<III", data, vocab_at)
    assert (tokens, token_bytes) == (4, 12) and data[vocab_at + 12 :][:12] == b"\1\0a\1\0b\1\0c\1\0d"
    assert specials == vocab_at + 24 and struct.unpack_from("<5I", data, specials) == (0, 0, 0, 0, 0)
    names = data[index_at + 32 * count :]
    assert data_at % 64 == 0
    for number, (name, shape) in enumerate([(WORDS, (4, 3)), ("t.275672f2", (2, 2)), ("t.7be8e215", (2, 2))]):
        hashed, dtype, ndim, length, *sizes, offset = struct.unpack_from("<IBBHIIIIQ", data, index_at + 32 * number)
        assert (hashed, dtype, ndim, length) == (hash_name(name.encode()), 0, 2, len(name))
        assert names[:length] == name.encode() and tuple(sizes) == (*shape, 0, 0) and offset % 64 == 0
        names = names[length:]
    data_crc, file_crc, end, zero = struct.unpack("<II4sI", data[-16:])
    assert data_at + data_size == len(data) - 16
    assert (data_crc, file_crc, end, zero) == (zlib.crc32(data[data_at:-16]), zlib.crc32(data[:-16]), b"DBME", 0)


def test_hashes_that_collide_do_not_mix_tensors_up(tmp_path: Path) -> None:
    assert hash_name(b"t.275672f2") == hash_name(b"t.7be8e215") == 0xCA58D392
    with opened(model_bytes(tmp_path)) as c:
        assert np.array_equal(c["t.275672f2"].to_numpy(), vectors(2, 2))
        assert np.array_equal(c["t.7be8e215"].to_numpy(), vectors(2, 2, seed=1))


def test_words_name_the_rows_of_the_word_embeddings(tmp_path: Path) -> None:
    with opened(model_bytes(tmp_path)) as c:
        assert c.main == WORDS and c.vocab is not None and c.vocab.index("c") == 2
        assert c.metadata["special_tokens"] == dict.fromkeys(("pad_id", "unk_id", "cls_id", "sep_id", "mask_id"), 0)


def test_tensors_are_views_of_the_mapped_file_on_64_bytes(tmp_path: Path) -> None:
    model_bytes(tmp_path)
    with open_source(tmp_path / "m.weights") as source:
        contents = read_model(source)
        assert isinstance(contents, Contents)
        for tensor in contents.tensors:
            view = read_tensor(source, tensor)
            assert not view.flags.owndata and not view.flags.writeable and view.ctypes.data % 64 == 0


FIELDS = [
    ("magic", 0, "4s", b"EMBE", Corrupt),
    ("version_major", 4, "H", 2, Unsupported),
    ("COMPRESSED", 8, "I", 0b1111, Unsupported),
    ("reserved", 60, "I", 1, Corrupt),
    ("metadata_offset", 12, "I", 2**32 - 1, Corrupt),
    ("metadata_size", 16, "I", 9, FormatError),
    ("vocab_offset", 20, "I", 70, Corrupt),
    ("vocab_size", 24, "I", 13, FormatError),
    ("tensor_index_count", 32, "I", 2**32 - 1, Corrupt),
    ("tensor_data_offset", 36, "I", 0, Corrupt),
    ("tensor_data_size", 40, "Q", 2**64 - 1, Corrupt),
    ("total_file_size", 48, "Q", 10**9, Truncated),
    ("total_file_size", 48, "Q", 80, Corrupt),
]


@pytest.mark.parametrize(("field", "offset", "code", "value", "kind"), FIELDS, ids=[f"{f[0]}={f[3]}" for f in FIELDS])
def test_a_wrong_header_field_is_named(
    tmp_path: Path, field: str, offset: int, code: str, value: Any, kind: type[FormatError]
) -> None:
    with pytest.raises(kind) as told:
        opened(patched(model_bytes(tmp_path), offset, code, value))
    assert field.split("_")[0].lower() in str(told.value).lower()


DESCRIPTORS = [
    ("name_hash", 0, "I", 7, "name hash"),
    ("dtype", 4, "B", 9, "data type"),
    ("ndim", 5, "B", 0, "0 dimensions"),
    ("ndim", 5, "B", 5, "5 dimensions"),
    ("name_length", 6, "H", 60000, "names"),
    ("shape", 8, "I", 2**31, "past"),
    ("unused shape", 16, "I", 1, "beyond its 2 dimensions"),
    ("data_offset", 24, "Q", 2**40, "past the tensor data"),
    ("misaligned", 24, "Q", 4, "aligned"),
    ("overlap", 24, "Q", 64, "overlaps"),
]


@pytest.mark.parametrize(
    ("what", "offset", "code", "value", "message"), DESCRIPTORS, ids=[f"{d[0]}={d[3]}" for d in DESCRIPTORS]
)
def test_a_wrong_descriptor_is_told(
    tmp_path: Path, what: str, offset: int, code: str, value: int, message: str
) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(FormatError, match=message):
        opened(patched(data, index_of(data) + offset, code, value))


def test_wrong_checksums_are_told_apart(tmp_path: Path) -> None:
    data = bytearray(model_bytes(tmp_path))
    start = int.from_bytes(data[36:40], "little")
    data[start] ^= 1
    (tmp_path / "flipped.weights").write_bytes(data)
    fields = {
        finding.field for finding in pv.verify(tmp_path / "flipped.weights").findings if finding.severity == "error"
    }
    assert fields == {"data_checksum", "file_checksum"}
    data[start] ^= 1
    data[70] ^= 1
    (tmp_path / "flipped.weights").write_bytes(data)
    assert not pv.verify(tmp_path / "flipped.weights").ok
    data[70] ^= 1
    with pytest.raises(Corrupt, match="header fails its checksum"):
        opened(patched(bytes(data), 56, "I", 1, sealed=False))
    with pytest.raises(Corrupt, match="end magic"):
        opened(bytes(data[:-8]) + b"DBMF" + bytes(4))


def test_checksums_switched_off_are_not_checked(tmp_path: Path) -> None:
    data = bytearray(model_bytes(tmp_path))
    data[8] = 0b011
    data[56:60] = data[-16:-12] = data[-12:-8] = bytes(4)
    with opened(bytes(data)) as c:
        assert c.rows == 4
    (tmp_path / "off.weights").write_bytes(data)
    assert pv.verify(tmp_path / "off.weights").ok


def test_a_newer_minor_version_and_unknown_flags_are_read_and_said(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with opened(patched(patched(data, 6, "H", 3), 8, "I", 0b10111)) as c:
        assert any("1.3" in note for note in c.notes) and any("0x10" in note for note in c.notes)


def test_unaligned_tensors_are_copied_and_that_is_said(tmp_path: Path) -> None:
    """A file with TENSORS_ALIGNED off whose only tensor starts at an odd byte."""
    data = model_bytes(tmp_path)
    start = int.from_bytes(data[36:40], "little")
    size = int.from_bytes(data[40:48], "little")
    moved = bytearray(data[:start] + b"\0" + data[start:])
    struct.pack_into("<I", moved, 8, 0b101)
    struct.pack_into("<I", moved, 36, start + 1)
    struct.pack_into("<Q", moved, 48, len(moved))
    with opened(seal(bytes(moved))) as c:
        assert any("TENSORS_ALIGNED is off" in note for note in c.notes)
        assert np.array_equal(c.vectors.to_numpy(), vectors(4, 3))
    (tmp_path / "odd.weights").write_bytes(seal(bytes(moved)))
    with open_source(tmp_path / "odd.weights") as source:
        contents = read_model(source)
        assert isinstance(contents, Contents) and contents.header["tensor_data_size"] == size
        assert read_tensor(source, contents.tensors[0]).flags.owndata


def test_special_ids_are_absolute_or_relative_and_inside_the_vocabulary(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    vocab = int.from_bytes(data[20:24], "little")
    with opened(patched(data, vocab + 8, "I", 24)) as relative:
        assert relative.vocab is not None
    with pytest.raises(Corrupt, match="special token indices"):
        opened(patched(data, vocab + 8, "I", 2**32 - 1))
    with pytest.raises(Corrupt, match="unk_id lies beyond"):
        opened(patched(data, vocab + 28, "I", 4))


def test_a_token_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    vocab = int.from_bytes(data[20:24], "little")
    with pytest.raises(Corrupt, match="token 1 is not valid UTF-8"):
        opened(patched(data, vocab + 12 + 5, "B", 0xFF))
    with pytest.raises(Corrupt, match="token 2"):
        opened(patched(patched(data, vocab + 12 + 5, "B", 0x63), vocab + 12 + 8, "B", 0x80))


def test_a_missing_required_key_is_named(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(Corrupt, match="'hidden_size' is missing"):
        opened(seal(data.replace(b"hidden_size", b"hidden_sise", 1)))
    with pytest.raises(Corrupt, match="twice"):
        opened(
            seal(
                data.replace(b"model_version", b"model_name\x00\x00\x00", 1).replace(
                    b"\x0d\x00\x01\x00model_name\x00\x00\x00", b"\x0a\x00\x04\x00model_name\x00\x00\x00", 1
                )
            )
        )


def test_a_vocabulary_left_out_is_said_in_the_flags(tmp_path: Path) -> None:
    pv.write(tmp_path / "plain.weights", vectors(3, 2))
    data = (tmp_path / "plain.weights").read_bytes()
    assert data[8] == 0b110 and data[24:28] == bytes(4)
    with pv.open(tmp_path / "plain.weights") as c:
        assert c.vocab is None


def test_what_cannot_be_kept_is_refused_by_name_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.weights"
    wide = {"position_ids": np.arange(3, dtype=np.int64)}
    for data, more, message in (
        (wide, {}, "'position_ids' is int64"),
        ({"x": np.zeros((1, 1, 1, 1, 1), np.float32)}, {}, "1 to 4 dimensions"),
        (vectors(1, 2), {"vocab": ["x" * 65_536]}, "65536 bytes"),
        (vectors(1, 2), {"metadata": {"k": "x" * 65_536}}, "65536 bytes"),
        (vectors(1, 2), {"metadata": {"k" * 65_536: "x"}}, "65536 bytes"),
        ({"x" * 65_536: vectors(1, 2)}, {}, "65536 bytes"),
        ({"x": vectors(2, 2), "x.scale": vectors(2, 2)}, {"encoding": "int8"}, "taken"),
        (vectors(1, 2), {"encoding": "pq"}, "no pq"),
    ):
        with pytest.raises(InputError, match=message):
            pv.write(target, data, **more)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_int8_keeps_its_codes_from_file_to_file(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.weights", vectors(50, 7), encoding="int8")
    receipt = pv.convert(tmp_path / "a.weights", tmp_path / "b.weights")
    assert receipt.loss is not None and receipt.loss.exact
    assert (tmp_path / "a.weights").read_bytes() == (tmp_path / "b.weights").read_bytes()


def test_nine_dtypes_and_four_dimensions_read_back(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {str(np.dtype(kind)): vectors(3, 4, kind) for kind in DTYPES}
    for ndim in range(1, 5):
        tensors[f"of {ndim}"] = np.arange(24, dtype=np.float32).reshape((*(2, 3, 2)[: ndim - 1], -1))
    pv.write(tmp_path / "all.weights", tensors)
    with pv.open(tmp_path / "all.weights") as c:
        assert list(c.columns) == list(tensors)
        for name, value in tensors.items():
            found = c[name].to_numpy()
            assert found.dtype == value.dtype and found.shape == value.shape and found.tobytes() == value.tobytes()
    assert pv.verify(tmp_path / "all.weights").ok


def test_asked_for_half_precision_every_float_tensor_is_halved(tmp_path: Path) -> None:
    for encoding, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        pv.write(tmp_path / "h.weights", {"a": vectors(3, 2), "n": np.arange(3, dtype=np.int32)}, encoding=encoding)
        with pv.open(tmp_path / "h.weights") as c:
            assert c["a"].dtype == dtype and c["n"].dtype == np.int32
            assert np.array_equal(c["a"].to_numpy(), vectors(3, 2).astype(dtype))


def test_created_at_is_a_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert opened(model_bytes(tmp_path)).metadata["created_at"] == "1970-01-02T00:00:00Z"
    given = model_bytes(tmp_path, created_at="2025-01-16T12:00:00Z")
    assert opened(given).metadata["created_at"] == "2025-01-16T12:00:00Z"


def test_the_layout_shows_every_section_and_tensor(tmp_path: Path) -> None:
    model_bytes(tmp_path)
    spans = pv.describe(tmp_path / "m.weights", layout=True).layout
    assert spans is not None
    ordered = sorted((s.offset, s.size) for s in spans if s.size)
    end = 0
    for offset, size in ordered:
        assert end <= offset < end + 64
        end = offset + size
    assert end == (tmp_path / "m.weights").stat().st_size
    names = [span.name for span in spans]
    assert {"metadata", "tokens", "special tokens", "tensor index", "tensor names", "footer", WORDS} <= set(names)


def legacy_bytes() -> bytes:
    """The layout that the document's own program reads, by hand."""
    out = b"EMBD" + struct.pack("<II", 1, 2)
    for name, array in ((WORDS, vectors(2, 3)), ("encoder.layer.0.output.dense.weight", vectors(4, 3, seed=1))):
        out += struct.pack("<I", len(name)) + name.encode() + struct.pack("<III", 2, *array.shape) + array.tobytes()
    return out + struct.pack("<II", 2, 1) + b"a" + struct.pack("<I", 2) + "é".encode()


def test_the_legacy_layout_is_read_and_said(tmp_path: Path) -> None:
    path = tmp_path / "old.weights"
    path.write_bytes(legacy_bytes())
    with pytest.warns(FormatWarning, match="legacy"), pv.open(path) as c:
        assert np.array_equal(c.vectors.to_numpy(), vectors(2, 3)) and list(c.vocab or ()) == ["a", "é"]
        turned = c["encoder.layer.0.output.dense.weight"]
        assert np.array_equal(turned.to_numpy(), vectors(4, 3, seed=1).T)
        assert np.array_equal(turned[1:], vectors(4, 3, seed=1).T[1:])
    report = pv.verify(path)
    assert report.ok and any("legacy" in finding.message for finding in report.findings)
    assert any("legacy" in warning for warning in pv.describe(path, layout=True).warnings)


MATRICES = {  # a model's, by name: [out, in]
    "encoder.layer.0.attention.self.query.weight": (4, 4),
    "encoder.layer.0.intermediate.dense.weight": (6, 4),
    "encoder.layer.0.output.dense.weight": (4, 6),
}


def legacy_model(orientation: str, shapes: dict[str, tuple[int, int]], *, biases: bool = True) -> tuple[bytes, dict]:
    """A legacy file whose matrices are stored either way, and its tensors as [out, in]."""
    tensors = {WORDS: vectors(2, 4)}
    for seed, (name, shape) in enumerate(shapes.items(), 1):
        tensors[name] = vectors(*shape, seed=seed)
        if biases:
            tensors[name.removesuffix("weight") + "bias"] = vectors(1, shape[0], seed=seed + 50)[0]
    out = b"EMBD" + struct.pack("<II", 1, len(tensors))
    for name, array in tensors.items():
        turned = array.T if name in shapes and orientation == "in_out" else array
        out += (
            struct.pack("<I", len(name)) + name.encode() + struct.pack(f"<I{turned.ndim}I", turned.ndim, *turned.shape)
        )
        out += np.ascontiguousarray(turned).tobytes()
    return out + struct.pack("<II", 2, 1) + b"a" + struct.pack("<I", 1) + b"b", tensors


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("orientation", ["out_in", "in_out"])
def test_matrices_of_a_legacy_file_come_out_in_whichever_way_they_lie(
    tmp_path: Path, orientation: str, biases: bool
) -> None:
    data, tensors = legacy_model(orientation, MATRICES, biases=biases)
    (tmp_path / "old.weights").write_bytes(data)
    said = {"out_in": r"stored \[out, in\]", "in_out": r"stored \[in, out\]"}[orientation]
    with pytest.warns(FormatWarning, match=said), pv.open(tmp_path / "old.weights") as c:
        for name, array in tensors.items():
            assert np.array_equal(c[name].to_numpy(), array), name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        receipt = pv.convert(tmp_path / "old.weights", tmp_path / "new.weights")
    assert receipt.loss is not None and receipt.loss.exact
    with pv.open(tmp_path / "new.weights") as c:
        for name, array in tensors.items():
            assert np.array_equal(c[name].to_numpy(), array), name
    spans = pv.describe(tmp_path / "old.weights", layout=True).layout or ()
    assert any(orientation in span.note for span in spans)
    other = {"out_in": "in_out", "in_out": "out_in"}[orientation]
    with pytest.raises(pv.InputError, match=f"orientation={other} contradicts the file"):
        pv.open(tmp_path / "old.weights", orientation=other)


def test_square_matrices_leave_the_orientation_open_and_are_not_guessed(tmp_path: Path) -> None:
    square = dict.fromkeys(MATRICES, (4, 4))
    path = tmp_path / "old.weights"
    for orientation in ("out_in", "in_out"):
        (tmp_path / "n.weights").unlink(missing_ok=True)
        data, tensors = legacy_model(orientation, square)
        path.write_bytes(data)
        for read in (pv.open, pv.describe, lambda p: pv.convert(p, tmp_path / "n.weights")):
            with pytest.raises(pv.AmbiguousFormat, match=r"shapes leave it open.*--option orientation=out_in"):
                read(path)
        assert not pv.verify(path).ok and not (tmp_path / "n.weights").exists()
        assert pv.verify(path, orientation=orientation).ok
        assert pv.describe(path, orientation=orientation, layout=True).rows == 2

        assert (
            run(["convert", str(path), str(tmp_path / "n.weights"), "-f", "--option", f"orientation={orientation}"])
            == 0
        )
        with pv.open(tmp_path / "n.weights") as c:
            assert all(np.array_equal(c[name].to_numpy(), array) for name, array in tensors.items())
    with pytest.raises(pv.InputError, match="unknown orientation"):
        pv.open(path, orientation="sideways")
    with pytest.raises(pv.InputError, match="legacy layout"):
        pv.open(tmp_path / "n.weights", orientation="in_out")


def test_matrices_that_contradict_each_other_are_corrupt() -> None:
    one, two = "a.dense.weight", "b.dense.weight"
    data, _ = legacy_model("out_in", {one: (3, 4), two: (4, 3)})
    turned = data.replace(struct.pack("<III", 2, 4, 3), struct.pack("<III", 2, 3, 4))
    with pytest.raises(pv.Corrupt, match=r"some matrices are stored \[out, in\]"):
        opened(turned)
    data, _ = legacy_model("out_in", {one: (3, 4)})
    with pytest.raises(pv.Corrupt, match="bias does not belong"):
        opened(data.replace(struct.pack("<III", 2, 3, 4), struct.pack("<III", 2, 2, 6)))


def test_every_truncation_of_a_legacy_file_is_a_format_error() -> None:
    data = legacy_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            opened(data[:size])
    with pytest.raises(FormatError):
        opened(data + b"\0")
    with pytest.raises(FormatError):
        opened(data[:8] + b"\xff\xff\xff\xff" + data[12:])


@pytest.mark.parametrize("path", available_paths())
def test_a_string_table_is_walked_alike_on_every_path(path: str) -> None:
    from polyvec.kernels.strings import walk_strings

    rng = np.random.default_rng(0)
    words = [rng.bytes(int(n)) for n in rng.integers(0, 300, 50)]
    for width in (2, 4):
        table = np.frombuffer(b"".join(len(w).to_bytes(width, "little") + w for w in words), np.uint8)
        with use_path(path):
            starts, stops = walk_strings(table, 50, width)
            assert [table[a:b].tobytes() for a, b in zip(starts, stops)] == words
            assert len(walk_strings(table, 2**31, width)[0]) == 50
            assert len(walk_strings(table[:-1], 50, width)[0]) < 50
            assert len(walk_strings(np.frombuffer(b"\xff" * 9, np.uint8), 3, width)[0]) == 0
            assert len(walk_strings(np.empty(0, np.uint8), 3, width)[0]) == 0
