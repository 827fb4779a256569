"""Words in every format: the ways between word2vec, text, fastText, floret and finalfusion."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import LossyConversion
from polyvec.core.subwords import BucketIndexer
from polyvec.core.vocab import Vocab
from polyvec.testing import vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())


@pytest.mark.parametrize("name", ["conv.w2v.bin", "conv.txt", "conv.dims.txt", "conv.fasttext.bin"])
def test_a_golden_file_reads_as_its_writer_says(name: str) -> None:
    told = MANIFEST[name]["loaded"]
    with pv.open(GOLDEN / name) as collection:
        assert collection.vocab[:] == told["words_head"]
        rows = collection.vectors.to_numpy()
        norms = collection["norms"].to_numpy() if "norms" in collection.columns else np.linalg.norm(rows, axis=1)
        unit = rows if "norms" in collection.columns else rows / norms[:, None]
        for word, vector in told["vectors"].items():
            assert np.allclose(unit[collection.vocab.index(word)], vector, atol=1e-6)
            assert norms[collection.vocab.index(word)] == pytest.approx(told["norms"][word], abs=1e-6)
        assert collection.metadata == (told["metadata"] or {})


@pytest.mark.parametrize("name", ["conv.w2v.bin", "conv.txt", "conv.dims.txt"])
def test_one_model_in_three_forms_converts_bit_for_bit(name: str, tmp_path: Path) -> None:
    with pv.open(GOLDEN / "conv.w2v.bin") as first:
        wanted = first.vectors.to_numpy()
    for suffix in (".bin", ".txt", ".vec", ".fasttext"):
        receipt = pv.convert(GOLDEN / name, tmp_path / f"out{suffix}", durable=False)
        assert receipt.loss.exact
        with pv.open(tmp_path / f"out{suffix}") as out:
            assert out.vectors.to_numpy().tobytes() == wanted.tobytes()
            assert out.vocab[:] == MANIFEST[name]["loaded"]["words_head"]
    for other, suffix in (("conv.w2v.bin", ".bin"), ("conv.txt", ".txt"), ("conv.dims.txt", ".vec")):
        assert (tmp_path / f"out{suffix}").read_bytes() == (GOLDEN / other).read_bytes()


def test_fasttext_to_finalfusion_and_back(tmp_path: Path) -> None:
    pv.convert(GOLDEN / "conv.fasttext.bin", tmp_path / "words.fifu", durable=False)
    with pv.open(tmp_path / "words.fifu") as found, pv.open(GOLDEN / "conv_fasttext_source.fifu") as wanted:
        assert np.allclose(found.vectors.to_numpy(), wanted.vectors.to_numpy(), atol=1e-6)
        assert np.allclose(found["norms"].to_numpy(), wanted["norms"].to_numpy(), atol=1e-6)
        assert found["subwords"].to_numpy().tobytes() == wanted["subwords"].to_numpy().tobytes()
        assert found.vocab.subwords == wanted.vocab.subwords
    receipt = pv.convert(tmp_path / "words.fifu", tmp_path / "back.bin", durable=False)
    assert receipt.format == "fasttext"
    with pv.open(tmp_path / "back.bin") as back, pv.open(GOLDEN / "conv.fasttext.bin") as first:
        assert np.allclose(back.vectors.to_numpy(), first.vectors.to_numpy(), atol=1e-6)
        assert back.metadata == first.metadata


def test_norms_are_folded_in_on_the_way_to_a_plain_format(tmp_path: Path) -> None:
    for suffix in (".bin", ".txt"):
        pv.convert(GOLDEN / "simple_norms.fifu", tmp_path / f"o{suffix}", spaces="_", durable=False)
        with pv.open(tmp_path / f"o{suffix}") as out, pv.open(GOLDEN / "simple_norms.fifu") as source:
            wanted = source.vectors.to_numpy() * source["norms"].to_numpy()[:, None]
            assert out.vectors.to_numpy().tobytes() == wanted.tobytes()
    receipt = pv.convert(GOLDEN / "simple_norms.fifu", tmp_path / "unit.txt", unnormalize=False, durable=False)
    assert receipt.dropped == ("norms",)
    assert receipt.loss.exact


def test_subword_rows_are_not_lost_silently(tmp_path: Path) -> None:
    with pytest.raises(LossyConversion, match="subwords=drop"):
        pv.convert(GOLDEN / "bucket_exp7.fifu", tmp_path / "o.txt")
    receipt = pv.convert(GOLDEN / "bucket_exp7.fifu", tmp_path / "o.txt", subwords="drop", durable=False)
    assert receipt.dropped == ("subwords",)
    with pytest.raises(LossyConversion, match="bucket subwords"):
        pv.convert(GOLDEN / "bucket_exp7.fifu", tmp_path / "o.fasttext")
    with pytest.raises(LossyConversion, match="floret"):
        pv.convert(GOLDEN / "simple.fifu", tmp_path / "o.floret")


def test_words_with_spaces_survive_text_and_are_refused_by_word2vec(tmp_path: Path) -> None:
    pv.convert(GOLDEN / "simple.fifu", tmp_path / "o.txt", durable=False)
    with pv.open(tmp_path / "o.txt") as out:
        assert out.vocab.index("New York") == 5
    with pytest.raises(LossyConversion, match="'New York'"):
        pv.convert(GOLDEN / "simple.fifu", tmp_path / "o.bin")
    pv.convert(GOLDEN / "simple.fifu", tmp_path / "o.bin", spaces="_", durable=False)
    with pv.open(tmp_path / "o.bin") as out:
        assert out.vocab[5] == "New_York"


def test_bucket_subwords_are_kept_by_finalfusion_alone(tmp_path: Path) -> None:
    columns = {"vectors": ArrayColumn("vectors", vectors(2, 3)), "subwords": ArrayColumn("subwords", vectors(4, 3))}
    collection = Collection(columns, vocab=Vocab(["a", "b"], subwords=BucketIndexer(3, 6, 2)))
    assert pv.write(tmp_path / "x.fifu", collection, normalize=False, durable=False).loss.exact
