"""Writing: the bytes are those of the document, and what they cannot hold is refused by name."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.formats.weights.records import hash_name
from polyvec.formats.weights.writing import choose_codec, pack_metadata, pack_vocabulary, plan_tensors
from polyvec.testing import vectors

sys.path.insert(0, str(Path(__file__).parent))
from embd import WORDS, model_bytes, opened


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


def test_tensors_lie_in_order_each_on_64_bytes_with_its_scales_behind_it() -> None:
    made = Collection.from_arrays({"a": vectors(3, 7), "n": np.arange(5, dtype=np.int32), "b": vectors(2, 2)})
    found = [(t.name, t.offset, t.size, t.column is None) for t in plan_tensors(made, "int8")]
    assert found == [
        (b"a", 0, 21, False),
        (b"a.scale", 64, 12, True),
        (b"n", 128, 20, False),
        (b"b", 192, 4, False),
        (b"b.scale", 256, 8, True),
    ]


def test_the_main_tensor_is_written_first_so_that_it_is_read_as_such() -> None:
    arrays = {"a": vectors(3, 2), "b": vectors(3, 2)}
    assert [t.name for t in plan_tensors(Collection.from_arrays(arrays, main="b"), None)] == [b"b", b"a"]
    named = Collection.from_arrays({"a": vectors(3, 2), WORDS: vectors(3, 2)}, main=WORDS)
    assert [t.name for t in plan_tensors(named, None)] == [b"a", WORDS.encode()], "its name tells it"


@pytest.mark.parametrize(
    ("array", "encoding", "wanted"),
    [
        (vectors(3, 2), None, "<f4"),
        (vectors(3, 2), "float16", "<f2"),
        (np.arange(3, dtype=np.int16), "float16", "<i2"),
        (vectors(1, 3)[0], "int8", "<f4"),
        (vectors(0, 2), "int8", "<f4"),
        (vectors(3, 2).astype(">f4"), None, "<f4"),
    ],
)
def test_only_rows_of_floats_are_encoded(array: np.ndarray, encoding: str | None, wanted: str) -> None:
    assert choose_codec(ArrayColumn("x", array), encoding).dtype == np.dtype(wanted)


def test_rows_without_values_and_lone_surrogates_are_refused() -> None:
    with pytest.raises(InputError, match=r"'x' has shape \[2, 0\]: rows without values"):
        list(plan_tensors(Collection.from_arrays({"x": np.empty((2, 0), np.float32)}), None))
    with pytest.raises(InputError, match="lone surrogate"):
        list(plan_tensors(Collection.from_arrays({"x\ud800": vectors(1, 2)}), None))


def test_metadata_that_is_no_text_comes_back_as_what_it_was(tmp_path: Path) -> None:
    given = {"n": 3, "list": [1, {"a": None}], "text": "3"}
    with opened(model_bytes(tmp_path, metadata=given)) as c:
        assert {key: c.metadata[key] for key in given} == given
    with pytest.raises(InputError, match="metadata 'x' holds float, which JSON cannot hold"):
        pack_metadata(Collection.from_arrays(vectors(1, 2), metadata={"x": float("nan")}))


@pytest.mark.parametrize(
    ("specials", "wanted"), [(None, (0, 2, 0, 0, 0)), ({"unk_id": 1, "mask_id": 2}, (0, 1, 0, 0, 2))]
)
def test_special_tokens_are_those_said_or_those_of_their_names(specials: dict | None, wanted: tuple) -> None:
    metadata = {} if specials is None else {"special_tokens": specials}
    made = Collection.from_arrays(vectors(3, 2), vocab=["a", "b", "[UNK]"], metadata=metadata)
    data = pack_vocabulary(made, 100)
    assert struct.unpack_from("<III", data) == (3, 13, 125)
    assert struct.unpack("<5I", data[25:]) == wanted
    made.metadata["special_tokens"] = {"pad_id": 3}
    with pytest.raises(InputError, match="special token pad_id is 3, and the vocabulary has 3 tokens"):
        pack_vocabulary(made, 100)
