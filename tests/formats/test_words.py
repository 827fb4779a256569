"""word2vec, text, fastText and floret files, and the ways between them and finalfusion."""

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
from polyvec.core.subwords import BucketIndexer, FastTextIndexer, FloretIndexer
from polyvec.core.vocab import Vocab
from polyvec.formats import fasttext, floret, word2vec, wordtext
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
FLORET = json.loads((GOLDEN / "floret.json").read_text())


def words(names: list[str], dim: int = 3) -> Collection:
    return Collection.from_arrays(vectors(len(names), dim), vocab=names)


class TestWord2Vec(FormatSuite):
    format = word2vec.FORMAT

    def samples(self) -> Iterator[Sample]:
        yield Sample("words", words(["Berlin", "Tübingen", "实验", "a"]))
        yield Sample("one", words(["x"], 1))
        yield Sample("none", words([]))


class TestWordText(FormatSuite):
    format = wordtext.FORMAT

    def samples(self) -> Iterator[Sample]:
        yield Sample("plain", words(["Berlin", "New York", ". . .", "实验", "a"]))
        yield Sample("dims", words(["Berlin", "New York", "42", "a"]), suffix=".vec")
        yield Sample("dims, none", words([]), suffix=".vec")


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


class TestFloret(FormatSuite):
    format = floret.FORMAT

    def samples(self) -> Iterator[Sample]:
        columns = {
            "vectors": ArrayColumn("vectors", np.empty((0, 3), np.float32)),
            "subwords": ArrayColumn("subwords", vectors(7, 3)),
        }
        yield Sample("table", Collection(columns, vocab=Vocab([], subwords=FloretIndexer(2, 5, 7, 2, bow="‹"))))


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


@pytest.mark.parametrize("word", ["", "a\nb", "trailing "])
def test_words_that_text_cannot_spell_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(LossyConversion):
        pv.write(tmp_path / "o.txt", vectors(2, 3), vocab=["fine", word])


def test_word2vec_without_line_breaks_reads_too() -> None:
    rows = vectors(2, 3)
    data = b"2 3\nab " + rows[0].tobytes() + b"cd " + rows[1].tobytes()
    with pv.open(data, format="word2vec") as collection:
        assert list(collection.vocab) == ["ab", "cd"]
        assert collection.vectors.to_numpy().tobytes() == rows.tobytes()


def test_lenient_takes_the_whole_rows_of_a_cut_file() -> None:
    data = (GOLDEN / "conv.w2v.bin").read_bytes()[:-10]
    with pytest.raises(Truncated):
        pv.open(data, format="word2vec")
    with pytest.warns(pv.FormatWarning, match="5 of 6"), pv.open(data, format="word2vec", lenient=True) as collection:
        assert collection.rows == 5


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"9999999999 300\nab " + bytes(1200), "word2vec"),
        (b"2 0\na b ", "word2vec"),
        (b"x y\n", "word2vec"),
        (b"2 2\na 1 2\nb 1\n", "textdims"),
        (b"3 2\na 1 2\nb 1 2\n", "textdims"),
        (b"", "glove"),
        (b"9 3 2 5 9 1 < >\n", "floret"),
        (b"2 1 2 5 1 1 < >\n0 1\n2 1\n", "floret"),
        (b"2 1 2 5 1 1 < >\n0 1\n", "floret"),
        (b"99999999999999999 1 2 5 1 1 < >\n0 1\n", "floret"),
    ],
)
def test_a_lie_is_a_format_error(data: bytes, format: str) -> None:
    with pytest.raises(FormatError):
        pv.open(data, format=format)


def test_a_bad_number_names_its_row() -> None:
    for data, format, row in ((b"a 1 2\nb 3 4\nc 5 x6\n", "glove", 2), (b"2 2\na 1 2\nb 5 x6\n", "textdims", 1)):
        with pv.open(data, format=format) as collection, pytest.raises(Corrupt, match=f"value 1 of row {row}"):
            collection.vectors.to_numpy()


def test_invalid_utf8_is_an_error_or_replaced() -> None:
    data = b"a\xff 1 2\nb 3 4\n"
    with pytest.raises(Corrupt, match="UTF-8"):
        pv.open(data, format="glove")
    with pv.open(data, format="glove", lossy=True) as collection:
        assert list(collection.vocab) == ["a�", "b"]


def test_floret_files_give_florets_vectors() -> None:
    with pv.open(GOLDEN / "table.floret") as collection:
        table = collection["subwords"].to_numpy()
        for word, vector in FLORET["table.floret"].items():
            total = table[collection.vocab.subwords.indices(word)].sum(axis=0)
            cosine = total @ np.array(vector) / np.linalg.norm(total) / np.linalg.norm(vector)
            assert cosine == pytest.approx(1, abs=1e-5)  # the table's text has five digits


def test_floret_tables_go_to_finalfusion_and_back(tmp_path: Path) -> None:
    pv.convert(GOLDEN / "table.floret", tmp_path / "t.fifu", durable=False)
    pv.convert(tmp_path / "t.fifu", tmp_path / "t.floret", durable=False)
    with pv.open(GOLDEN / "table.floret") as one, pv.open(tmp_path / "t.floret") as two:
        assert one["subwords"].to_numpy().tobytes() == two["subwords"].to_numpy().tobytes()
        assert one.vocab.subwords == two.vocab.subwords


def test_fasttext_files_give_fasttexts_vectors() -> None:
    """That writer has two more arguments than fastText; the end of a sentence has no n-grams in either."""
    with pv.open(GOLDEN / "floret.fasttext.bin") as collection:
        rows = collection.vectors.to_numpy() * collection["norms"].to_numpy()[:, None]
        assert "</s>" in collection.vocab
        for row, word in enumerate(collection.vocab):
            assert np.allclose(rows[row], FLORET["floret.fasttext.bin"][word], atol=1e-8)


def test_a_quantised_or_pruned_fasttext_model_is_unsupported() -> None:
    data = bytearray((GOLDEN / "conv.fasttext.bin").read_bytes())
    with pv.open(bytes(data), format="fasttext") as collection:
        end = int(collection.vocab.words.stops[-1]) + 10
    data[end] = 1
    with pytest.raises(Unsupported, match="quantized"):
        pv.open(bytes(data), format="fasttext")
    pruned = bytearray((GOLDEN / "conv.fasttext.bin").read_bytes())
    struct.pack_into("<q", pruned, 8 + 56 + 12 + 8, 5)
    with pytest.raises(Unsupported, match="pruned"):
        pv.open(bytes(pruned), format="fasttext")


def test_bucket_subwords_are_kept_by_finalfusion_alone(tmp_path: Path) -> None:
    columns = {"vectors": ArrayColumn("vectors", vectors(2, 3)), "subwords": ArrayColumn("subwords", vectors(4, 3))}
    collection = Collection(columns, vocab=Vocab(["a", "b"], subwords=BucketIndexer(3, 6, 2)))
    assert pv.write(tmp_path / "x.fifu", collection, normalize=False, durable=False).loss.exact


def test_metadata_that_fasttext_has_no_place_for_stands_beside_it(tmp_path: Path) -> None:
    collection = words(["a", "b"])
    collection.metadata = {"epoch": 7, "note": "mine"}
    receipt = pv.write(tmp_path / "m.fasttext", collection, durable=False)
    assert any("metadata" in name for name in receipt.sidecars)
    with pv.open(tmp_path / "m.fasttext") as found:
        assert found.metadata["note"] == "mine" and found.metadata["epoch"] == 7


@pytest.mark.parametrize(("name", "head", "line"), [("t.txt", "", 2), ("t.vec", "3 3\n", 3)])
def test_what_is_no_number_is_told_with_its_line_and_what_to_do(
    tmp_path: Path, name: str, head: str, line: int
) -> None:
    (tmp_path / name).write_text(f"{head}a 1 2 3\nb 1 x 3\nc 1 2 3\n")
    with pytest.raises(Corrupt, match=rf"not a number .*line {line} .*; mend or remove that line"):
        pv.convert(tmp_path / name, tmp_path / "out.fbin")
