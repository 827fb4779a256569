"""EMBD .weights."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt
from polyvec.core.sources import open_source
from polyvec.formats.weights import FORMAT, read_model, read_tensor
from polyvec.formats.weights.records import Contents
from polyvec.kernels import available_paths, use_path
from polyvec.testing import FormatSuite, Sample, vectors

sys.path.insert(0, str(Path(__file__).parent / "weights"))
from embd import WORDS, model_bytes, opened, patched, seal

DTYPES = ("f4", "f2", ml_dtypes.bfloat16, "i4", "i2", "i1", "u4", "u2", "u1")


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
