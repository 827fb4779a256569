"""fastText models: what the suite promises, the vectors of three other writers, and models that are not read."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt, FormatError, LossyConversion, Truncated, Unsupported
from polyvec.core.subwords import FastTextIndexer
from polyvec.core.vocab import Vocab
from polyvec.formats import fasttext
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parents[1] / "golden"
FLORET = json.loads((GOLDEN / "floret" / "floret.json").read_text())
GENSIM = json.loads((GOLDEN / "fasttext" / "gensim.json").read_text())


def words(names: list[str], dim: int = 3) -> Collection:
    return Collection.from_arrays(vectors(len(names), dim), vocab=names)


class TestFastText(FormatSuite):
    format = fasttext.FORMAT

    def samples(self) -> Iterator[Sample]:
        metadata = {
            "dims": 3,
            "window_size": 5,
            "epoch": 1,
            "min_count": 1,
            "ns": 5,
            "word_ngrams": 1,
            "loss": "Softmax",
            "model": "SkipGram",
            "buckets": 0,
            "min_n": 0,
            "max_n": 0,
            "lr_update_rate": 100,
            "sampling_threshold": 0.0001,
        }
        plain = words(["Berlin", "New York", "</s>"])
        plain.metadata = metadata
        yield Sample("plain", plain, suffix=".fasttext")
        unit = vectors(4, 3)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        columns = {
            "vectors": ArrayColumn("vectors", unit),
            "subwords": ArrayColumn("subwords", vectors(7, 3, seed=1)),
            "norms": ArrayColumn("norms", np.array([1, 2, 3, 0.5], np.float32)),
        }
        vocab = Vocab(["Berlin", "Tübingen", "a", "</s>"], subwords=FastTextIndexer(3, 6, 7))
        full = {**metadata, "buckets": 7, "min_n": 3, "max_n": 6}
        yield Sample(
            "subwords", Collection(columns, vocab=vocab, metadata=full), tolerance={"vectors": 2e-6, "norms": 2e-6}
        )


def test_fasttext_files_give_fasttexts_vectors() -> None:
    """That writer has two more arguments than fastText; the end of a sentence has no n-grams in either."""
    with pv.open(GOLDEN / "floret" / "floret.fasttext.bin") as collection:
        rows = collection.vectors.to_numpy() * collection["norms"].to_numpy()[:, None]
        assert "</s>" in collection.vocab
        for row, word in enumerate(collection.vocab):
            assert np.allclose(rows[row], FLORET["floret.fasttext.bin"][word], atol=1e-8)


def test_a_quantised_or_pruned_fasttext_model_is_unsupported() -> None:
    data = bytearray((GOLDEN / "finalfusion" / "conv.fasttext.bin").read_bytes())
    with pv.open(bytes(data), format="fasttext") as collection:
        end = int(collection.vocab.words.stops[-1]) + 10
    data[end] = 1
    with pytest.raises(Unsupported, match="quantized"):
        pv.open(bytes(data), format="fasttext")
    pruned = bytearray((GOLDEN / "finalfusion" / "conv.fasttext.bin").read_bytes())
    struct.pack_into("<q", pruned, 8 + 56 + 12 + 8, 5)
    with pytest.raises(Unsupported, match="pruned"):
        pv.open(bytes(pruned), format="fasttext")


def test_metadata_that_fasttext_has_no_place_for_stands_beside_it(tmp_path: Path) -> None:
    collection = words(["a", "b"])
    collection.metadata = {"epoch": 7, "note": "mine"}
    receipt = pv.write(tmp_path / "m.fasttext", collection, durable=False)
    assert any("metadata" in name for name in receipt.sidecars)
    with pv.open(tmp_path / "m.fasttext") as found:
        assert found.metadata["note"] == "mine" and found.metadata["epoch"] == 7


def test_gensims_model_gives_gensims_vectors_of_known_and_unknown_words() -> None:
    with pv.open(GOLDEN / "fasttext" / "gensim.bin") as collection:
        assert list(collection.vocab) == GENSIM["words"] and collection.vocab.subwords == FastTextIndexer(3, 4, 20)
        rows = collection.vectors.to_numpy() * collection["norms"].to_numpy()[:, None]
        buckets = collection["subwords"].to_numpy()
        for word, vector in GENSIM["vectors"].items():
            known = word in collection.vocab
            mean = (
                rows[collection.vocab.index(word)]
                if known
                else buckets[collection.vocab.subwords.indices(word)].mean(axis=0)
            )
            assert np.allclose(mean, vector, atol=1e-7), word


def changed(place: int, value: int, kind: str = "<i") -> bytes:
    data = bytearray((GOLDEN / "finalfusion" / "conv.fasttext.bin").read_bytes())
    struct.pack_into(kind, data, place, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (changed(0, 1), Corrupt, "magic"),
        (changed(4, 11), Unsupported, "version"),
        (changed(8, 0), Corrupt, "args, dictionary"),
        (changed(8 + 4 * 9, 9), Corrupt, "minn, maxn"),
        (changed(8 + 4 * 8, 3), Corrupt, "matrix.rows, cols"),
        (changed(8 + 56, 1), Corrupt, "args, dictionary"),
        (changed(0, 0)[:3], Truncated, "header"),
    ],
)
def test_a_lie_is_a_format_error_with_its_field(data: bytes, error: type[FormatError], field: str) -> None:
    with pytest.raises(error) as caught:
        pv.open(data, format="fasttext")
    assert caught.value.field == field


def test_words_that_no_zero_byte_ends_are_refused_and_words_with_spaces_kept(tmp_path: Path) -> None:
    with pytest.raises(LossyConversion):
        pv.write(tmp_path / "o.fasttext", words(["a\0b"]))
    pv.write(tmp_path / "o.fasttext", words(["New York"]), durable=False)
    with pv.open(tmp_path / "o.fasttext") as back:
        assert list(back.vocab) == ["New York"]


def test_what_only_training_knew_is_left_open(tmp_path: Path) -> None:
    pv.write(tmp_path / "o.fasttext", words(["a", "b"]), durable=False)
    with pv.open(tmp_path / "o.fasttext") as back:
        told = dict(back.metadata)
    assert (told["dims"], told["epoch"], told["word_ngrams"], told["buckets"]) == (3, -1, 1, 0)
    assert (told["loss"], told["model"]) == ("Softmax", "SkipGram")
