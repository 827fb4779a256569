"""Writing: both dialects byte by byte, what is kept as it was, and what has no place."""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.format import WriteOptions
from polyvec.core.subwords import BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer, Subwords
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.finalfusion import writer
from polyvec.testing import vectors

sys.path.insert(0, str(Path(__file__).parent))
from fifu import GOLDEN, embeddings, explicit, quantized


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.FormatWarning)
        yield


def test_unknown_chunks_are_reported_and_kept(tmp_path: Path) -> None:
    data = (GOLDEN / "pad_0.fifu").read_bytes()
    extra = struct.pack("<IQ", 77, 8) + b"whatever"
    before = struct.pack("<4sII3I", b"FiFu", 0, 3, 77, 1, 2) + extra + data[20:]
    after = struct.pack("<4sII3I", b"FiFu", 0, 3, 1, 2, 77) + data[20:] + extra
    for moved in (before, after):
        moved_pad = moved  # both insertions are multiples of four, so padding is unchanged
        with pv.open(moved_pad, format="finalfusion") as collection:
            assert any("77" in note for note in collection.notes)
            pv.write(tmp_path / "kept.fifu", collection, durable=False)
        assert (tmp_path / "kept.fifu").read_bytes() == moved


def test_changed_metadata_is_written_anew_and_unchanged_kept_as_text(tmp_path: Path) -> None:
    with pv.open(GOLDEN / "simple_meta_norms.fifu") as collection:
        collection.metadata["description"] = 'a "new" one\n'
        pv.write(tmp_path / "m.fifu", collection, durable=False)
    with pv.open(tmp_path / "m.fifu") as again:
        assert again.metadata["description"] == 'a "new" one\n'
        assert again.metadata["hyperparameters"] == {"ns": 5, "lr": 0.025, "list": [1, 2, 3]}


def test_explicit_rows_are_written_in_order_of_first_appearance(tmp_path: Path) -> None:
    indexer = ExplicitIndexer(3, 3, Strings.from_words(["<Be", "Ber", "erl"]), np.array([2, 0, 1]))
    collection = embeddings(indexer)
    rows = collection["subwords"].to_numpy()
    pv.write(tmp_path / "e.fifu", collection, durable=False, measure=False)
    with pv.open(tmp_path / "e.fifu") as again:
        assert again.vocab.subwords.targets.tolist() == [0, 1, 2]
        assert again["subwords"].to_numpy().tolist() == rows[[2, 0, 1]].tolist()


@pytest.mark.parametrize("indexer", [None, BucketIndexer(3, 6, 2)])
def test_the_document_dialect_is_what_the_document_says(indexer: Subwords | None, tmp_path: Path) -> None:
    collection = embeddings(indexer, words=["a", "bcd"])
    pv.write(tmp_path / "d.fifu", collection, dialect="document", normalize=False, durable=False)
    data = (tmp_path / "d.fifu").read_bytes()
    assert struct.unpack_from("<4sII2I", data) == (b"FiFu", 0, 2, 3 if indexer else 0, 1)
    vocab = struct.unpack_from("<IQ" + ("IIIQ" if indexer else "Q"), data, 20)
    assert vocab[2:] == ((3, 6, 2, 2) if indexer else (2,))
    start = 20 + 12 + vocab[1]
    chunk, length, rows, cols, kind = struct.unpack_from("<IQQII", data, start)
    assert (chunk, rows, cols, kind) == (1, 6 if indexer else 2, 3, 10)
    begin = start + 28 + -(start + 28) % 4  # to a multiple, nothing where it is one already
    assert length == begin - start - 12 + rows * cols * 4
    assert len(data) == begin + rows * cols * 4
    wanted = collection.vectors.to_numpy().tobytes()
    assert data[begin : begin + len(wanted)] == wanted


def test_the_document_has_no_word_for_other_vocabularies(tmp_path: Path) -> None:
    for indexer in (FastTextIndexer(3, 6, 4), explicit()):
        with pytest.raises(InputError, match="the document has no"):
            pv.write(tmp_path / "d.fifu", embeddings(indexer), dialect="document")
    with pytest.raises(InputError, match="dialect"):
        pv.write(tmp_path / "d.fifu", embeddings(), dialect="other")


def test_half_floats_become_float32_exactly(tmp_path: Path) -> None:
    rows = vectors(4, 3, np.float16)
    receipt = pv.write(tmp_path / "h.fifu", rows, vocab=list("abcd"), normalize=False, durable=False)
    assert receipt.loss.exact
    with pv.open(tmp_path / "h.fifu") as collection:
        assert collection.vectors.dtype == np.float32


def test_rows_without_words_are_named_by_their_number(tmp_path: Path) -> None:
    pv.write(tmp_path / "n.fifu", vectors(3, 2), durable=False)
    with pv.open(tmp_path / "n.fifu") as collection:
        assert list(collection.vocab) == ["0", "1", "2"]


def test_a_column_that_has_no_place_is_not_lost_silently(tmp_path: Path) -> None:
    collection = Collection.from_arrays({"vectors": vectors(2, 3), "other": vectors(2, 3)}, vocab=["a", "b"])
    with pytest.raises(LossyConversion, match="other"):
        pv.write(tmp_path / "x.fifu", collection)


def test_quantised_storage_is_kept_or_decoded_as_asked(tmp_path: Path) -> None:
    collection = quantized(projection=True, norms=True)
    pv.write(tmp_path / "q.fifu", collection, durable=False)
    pv.convert(tmp_path / "q.fifu", tmp_path / "kept.fifu", durable=False)
    assert (tmp_path / "kept.fifu").read_bytes() == (tmp_path / "q.fifu").read_bytes()
    pv.convert(tmp_path / "q.fifu", tmp_path / "raw.fifu", encoding="raw", durable=False)
    with pv.open(tmp_path / "q.fifu") as one, pv.open(tmp_path / "raw.fifu") as two:
        assert two.vectors.encoding == "raw"
        assert one.vectors.to_numpy().tobytes() == two.vectors.to_numpy().tobytes()


def test_words_are_written_alike_however_many_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Strings.from_words(["a", "", "bcd", "é", "e"])
    wanted = b"".join(struct.pack("<I", len(w)) + w for w in (b"a", b"", b"bcd", "é".encode(), b"e"))
    for count, pieces in ((1, 5), (2, 3), (99, 1)):
        monkeypatch.setattr(writer, "WORDS_AT_ONCE", count)
        found = [piece.tobytes() for piece in writer.prefixed(words)]
        assert b"".join(found) == wanted and len(found) == pieces


def test_columns_that_do_not_belong_to_the_words_are_refused() -> None:
    made = embeddings(BucketIndexer(3, 6, 2))
    less = Collection({**made.columns, "subwords": ArrayColumn("subwords", vectors(3, 3))}, vocab=made.vocab)
    with pytest.raises(LossyConversion, match="there are 3 subword rows, and the vocabulary indexes 4"):
        writer.check_columns(less)
    nobody = Collection(made.columns, vocab=Vocab(list(made.vocab)))
    with pytest.raises(LossyConversion, match="the vocabulary indexes none"):
        writer.check_columns(nobody)
    wide = Collection({"vectors": made.vectors, "norms": ArrayColumn("norms", vectors(5, 2))}, vocab=nobody.vocab)
    with pytest.raises(InputError, match=r"one norm a word \(5\), not a column of shape \(5, 2\)"):
        writer.check_columns(wide)
    with pytest.raises(InputError, match=r"not a column of shape \(2, 3, 4\)"):
        writer.check_columns(Collection.from_arrays(vectors(6, 4).reshape(2, 3, 4)))


def test_explicit_rows_that_are_in_order_are_left_as_they_are() -> None:
    made = embeddings(explicit())
    assert writer.ordered(made) is made
    plain = embeddings()
    assert writer.ordered(plain) is plain


def test_rows_to_train_on_are_spread_over_words_and_subwords() -> None:
    made = embeddings(BucketIndexer(3, 6, 4), words=[f"w{i}" for i in range(48)])
    words, subwords = made.vectors.to_numpy(), made["subwords"].to_numpy()
    assert np.array_equal(writer.sample_rows(made), np.concatenate([words, subwords]))
    some = writer.sample_rows(made, rows=8)
    assert np.array_equal(some[:6], words[[0, 9, 18, 28, 37, 47]]) and np.array_equal(some[6:], subwords[[0, 15]])
    empty = embeddings(words=[])
    assert writer.sample_rows(empty).shape == (0, 3)


@pytest.mark.parametrize(
    ("kind", "own", "wanted"),
    [("f2", {}, "<f4"), ("f8", {}, "<f8"), ("i2", {}, "<i2"), (">f4", {}, "<f4"), ("f4", {"type": "f64"}, "<f8")],
)
def test_the_matrix_has_the_type_of_its_rows_or_the_one_asked_for(kind: str, own: dict[str, str], wanted: str) -> None:
    made = Collection.from_arrays(vectors(2, 2, np.dtype(kind.lstrip(">"))).astype(kind), vocab=["a", "b"])
    codec = writer.storage_codec(made, WriteOptions(own=own))
    assert codec.dtype == np.dtype(wanted)


def test_a_floret_vocabulary_has_no_place_for_words(tmp_path: Path) -> None:
    with pytest.raises(LossyConversion, match="has no words of its own, and the source has 5"):
        pv.write(tmp_path / "f.fifu", embeddings(FloretIndexer(2, 3, 4, 2)), normalize=False)
    assert not list(tmp_path.iterdir())
