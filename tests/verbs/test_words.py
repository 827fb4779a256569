"""Choosing words, spelling out buckets, quantising with a known loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import finalfusion
from polyvec.codecs.product import Product, train
from polyvec.core.blocks import Block
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.core.subwords import BucketIndexer
from polyvec.core.vocab import Vocab
from polyvec.reports.quality import measure_quality
from polyvec.verbs.words import bucket_to_explicit, quantize, reconstruct, select

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
pytestmark = pytest.mark.filterwarnings("ignore::polyvec.FormatWarning")


def test_selected_words_keep_their_rows_and_unknown_ones_come_from_subwords() -> None:
    model = finalfusion.load(GOLDEN / "bucket_exp7.fifu")
    with pv.open(GOLDEN / "bucket_exp7.fifu") as collection:
        chosen, missing = select(collection, ["hello", "Tübinger", "", "Berlin", "hello"])
    assert missing == [""]
    assert list(chosen.vocab) == ["hello", "Tübinger", "Berlin"]
    rows, norms = chosen.vectors.to_numpy(), chosen["norms"].to_numpy()
    for row, word in enumerate(chosen.vocab):
        assert rows[row].tobytes() == model.embedding(word).tobytes()
        # The reference tells the length of the sum; here a vector is the mean, as long as those of known words.
        many = 1 if word in model else len(model.vocab.subwords.indices(word))
        assert norms[row] == pytest.approx(model.norm(word) / many, rel=1e-6)


@pytest.mark.parametrize("name", ["bucket_exp7.fifu", "fasttext_b101.fifu", "conv.fasttext.bin"])
def test_explicit_ngrams_give_known_words_the_same_vectors(name: str, tmp_path: Path) -> None:
    with pv.open(GOLDEN / name) as collection:
        explicit = bucket_to_explicit(collection)
        pv.write(tmp_path / "e.fifu", explicit, durable=False)
    before, after = finalfusion.load(GOLDEN / name), finalfusion.load(tmp_path / "e.fifu")
    assert after.vocab.subwords.rows <= before.vocab.subwords.rows
    for word in before.vocab:
        assert after.embedding(word).tobytes() == before.embedding(word).tobytes()
        # All n-grams of a known word are spelled out, so that its sum of subwords is the same too.
        one = before.subword_storage[before.vocab.subwords.indices(word)]
        assert one.tobytes() == after.subword_storage[after.vocab.subwords.indices(word)].tobytes()


def test_explicit_ngrams_are_the_ones_the_reference_writes() -> None:
    with pv.open(GOLDEN / "bucket_exp7.fifu") as collection, pv.open(GOLDEN / "explicit_from_bucket.fifu") as wanted:
        found = bucket_to_explicit(collection)
        assert list(found.vocab.subwords.ngrams) == list(wanted.vocab.subwords.ngrams)
        assert found.vocab.subwords.targets.tolist() == wanted.vocab.subwords.targets.tolist()
        assert found["subwords"].to_numpy().tobytes() == wanted["subwords"].to_numpy().tobytes()
        with pytest.raises(InputError, match="explicit"):
            bucket_to_explicit(wanted)


def clustered(rows: int = 600, dim: int = 12) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, dim))
    return (centres[rng.integers(0, 40, rows)] + 0.1 * rng.standard_normal((rows, dim))).astype(np.float32)


@pytest.mark.parametrize("method", ["pq", "opq"])
def test_quantising_reports_its_loss(method: str, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    rows = clustered()
    pv.write(tmp_path / "w.fifu", rows, vocab=[f"w{i}" for i in range(len(rows))], durable=False)
    receipt, loss = quantize(
        tmp_path / "w.fifu", tmp_path / "q.fifu", quantizer=method, parts=4, bits=6, iterations=5, durable=False
    )
    assert "pq" in receipt.codec and not receipt.loss.exact
    assert 0.95 < loss.mean_cosine <= 1 and loss.worst_cosine <= loss.mean_cosine
    assert 0 < loss.recall_at_10 <= 1
    with pv.open(tmp_path / "q.fifu") as found:
        codec = found.vectors.codec
        assert (codec.projection is not None) == (method == "opq")
        decoded = found.vectors.to_numpy()
    cosines = (decoded * rows).sum(1) / np.linalg.norm(decoded, axis=1) / np.linalg.norm(rows, axis=1)
    assert loss.mean_cosine == pytest.approx(cosines.mean(), abs=1e-5)
    assert loss.worst_cosine == pytest.approx(cosines.min(), abs=1e-5)
    reconstruct(tmp_path / "q.fifu", tmp_path / "r.fifu", durable=False)
    with pv.open(tmp_path / "r.fifu") as back:
        assert back.vectors.to_numpy().tobytes() == decoded.tobytes()


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    rows = clustered(300, 6)
    for name in ("a.fifu", "b.fifu"):
        pv.write(tmp_path / name, rows, encoding="pq", parts=3, bits=4, iterations=3, durable=False)
    assert (tmp_path / "a.fifu").read_bytes() == (tmp_path / "b.fifu").read_bytes()


def test_training_refuses_what_cannot_be() -> None:
    rows = clustered(100, 6)
    for options in ({"parts": 4}, {"bits": 9}, {"bits": 8}, {"method": "other"}):
        with pytest.raises(InputError):
            train(rows, **options)


@pytest.mark.parametrize("norms", [True, False])
def test_rows_that_are_centroids_come_back_as_they_were(norms: bool) -> None:
    rng = np.random.default_rng(0)
    books = rng.standard_normal((3, 16, 2)).astype(np.float32)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0].astype(np.float32)
    codes = rng.integers(0, 16, (50, 3)).astype(np.uint8)
    codec = Product(books, turn, False)
    rows = codec.decode(Block(0, {"codes": codes}, codec, 50))
    assert codec.encode(rows)["codes"].tolist() == codes.tolist()
    if norms:
        scaled = Product(books, turn, True)
        parts = scaled.encode(rows * 2)
        assert np.allclose(parts["norms"], 2 * np.linalg.norm(rows, axis=1), rtol=1e-5)


def test_a_report_compares_rows_at_their_lengths(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) * 7
    pv.write(tmp_path / "s.bin", rows, vocab=[f"w{row}" for row in range(300)], durable=False)
    pv.convert(tmp_path / "s.bin", tmp_path / "o.fifu", durable=False)
    for one, two in (("s.bin", "o.fifu"), ("o.fifu", "s.bin")):
        entry = measure_quality(tmp_path / one, tmp_path / two).entries[0]
        assert entry.max_error < 1e-5


def test_a_column_of_single_values_is_no_words_rows(tmp_path: Path) -> None:
    for suffix in (".txt", ".vec", ".bin", ".fasttext", ".fifu"):
        with pytest.raises(pv.LossyConversion, match=r"'norms' has the shape \(12,\)"):
            pv.convert(GOLDEN / "simple_norms.fifu", tmp_path / f"o{suffix}", column="norms")


def test_subword_rows_of_several_files_are_not_merged(tmp_path: Path) -> None:
    for name, word in (("a", "x"), ("b", "y")):
        columns = {
            "vectors": ArrayColumn("vectors", np.ones((1, 4), np.float32)),
            "subwords": ArrayColumn("subwords", np.ones((8, 4), np.float32)),
        }
        pv.write(tmp_path / f"{name}.fifu", Collection(columns, vocab=Vocab([word], subwords=BucketIndexer(3, 6, 3))))
    both = [tmp_path / "a.fifu", tmp_path / "b.fifu"]
    with pytest.raises(pv.LossyConversion, match=r"several files cannot be merged.*--column vectors"):
        pv.merge(both, tmp_path / "m.fifu")
    assert pv.merge(both, tmp_path / "m.fifu", column="vectors").rows == 2


def test_receipts_name_the_encoding_that_the_source_has(tmp_path: Path) -> None:
    receipt = pv.convert(GOLDEN / "pq_proj1_norms1.fifu", tmp_path / "o.txt")
    assert receipt.codec == "pq -> raw float32 as text"
    pv.write(tmp_path / "d.npy", np.random.default_rng(0).standard_normal((5, 3)))
    assert pv.convert(tmp_path / "d.npy", tmp_path / "d.fifu").codec == "raw float64 -> raw float32"
