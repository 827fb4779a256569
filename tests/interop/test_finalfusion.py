"""The peers read what we write and we read what they write: PyPI finalfusion, gensim, floret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import finalfusion
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.subwords import BucketIndexer, FastTextIndexer, Subwords
from polyvec.core.vocab import Vocab
from polyvec.verbs.words import bucket_to_explicit, select

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]
WORDS = ["Berlin", "Tübingen", "New_York", "实验", "emoji😀x", "a", "hello", "hallo"]


def embeddings(indexer: Subwords | None = None, *, dim: int = 6, norms: bool = True) -> Collection:
    rng = np.random.default_rng(1)
    unit = rng.standard_normal((len(WORDS), dim)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    columns: dict[str, Column] = {"vectors": ArrayColumn("vectors", unit)}
    if indexer is not None:
        columns["subwords"] = ArrayColumn("subwords", rng.standard_normal((indexer.rows, dim)).astype(np.float32))
    if norms:
        columns["norms"] = ArrayColumn("norms", (1 + rng.random(len(WORDS))).astype(np.float32))
        columns["norms"].lengths = True
    return Collection(columns, vocab=Vocab(WORDS, subwords=indexer), metadata={"lr": 0.5, "args": {"ns": 5}})


@pytest.fixture
def peer() -> Iterator[Any]:
    yield pytest.importorskip("finalfusion")


INDEXERS = [None, BucketIndexer(3, 6, 5), FastTextIndexer(2, 5, 31)]


@pytest.mark.parametrize("indexer", INDEXERS)
@pytest.mark.parametrize("mmap", [False, True])
def test_finalfusion_reads_what_we_write(peer: Any, indexer: Subwords | None, mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "ours.fifu"
    pv.write(path, embeddings(indexer), durable=False)
    theirs, ours = peer.load_finalfusion(str(path), mmap=mmap), finalfusion.load(path)
    assert list(theirs.vocab.words) == WORDS
    assert theirs.metadata["args"]["ns"] == 5
    for row, word in enumerate(WORDS):
        assert theirs.embedding(word).tobytes() == ours.embedding(word).tobytes()
        assert float(theirs.norms[row]) == ours.norm(word)
    hits = theirs.word_similarity("Berlin", 3)
    assert [hit.word for hit in ours.similar("Berlin", 3)] == [hit.word for hit in hits]
    if indexer is not None:
        for word in ("Berlinn", "Tübinger", "実験室", "hellohello"):
            assert np.allclose(theirs.embedding(word), ours.embedding(word), atol=1e-6)


def test_finalfusion_reads_our_explicit_vocabulary(peer: Any, tmp_path: Path) -> None:
    pv.write(tmp_path / "e.fifu", bucket_to_explicit(embeddings(BucketIndexer(3, 6, 5))), durable=False)
    theirs, ours = peer.load_finalfusion(str(tmp_path / "e.fifu")), finalfusion.load(tmp_path / "e.fifu")
    for word in (*WORDS, "Berlinn", "Tübing"):
        assert np.allclose(theirs.embedding(word), ours.embedding(word), atol=1e-6)


@pytest.mark.parametrize("method", ["pq", "opq"])
def test_finalfusion_reads_our_codes(peer: Any, method: str, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    rows = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    path = tmp_path / "q.fifu"
    pv.write(path, rows, encoding="pq", quantizer=method, parts=4, bits=8, iterations=2, durable=False)
    theirs, ours = peer.load_finalfusion(str(path)), finalfusion.load(path)
    for row in (0, 17, 299):
        assert np.allclose(theirs.embedding(str(row)), ours.embedding(str(row)), atol=1e-5)


@pytest.mark.parametrize("indexer", INDEXERS)
def test_we_read_what_finalfusion_rewrites(peer: Any, indexer: Subwords | None, tmp_path: Path) -> None:
    pv.write(tmp_path / "ours.fifu", embeddings(indexer), durable=False)
    peer.load_finalfusion(str(tmp_path / "ours.fifu")).write(str(tmp_path / "theirs.fifu"))
    with pv.open(tmp_path / "ours.fifu") as one, pv.open(tmp_path / "theirs.fifu") as two:
        assert set(one.columns) == set(two.columns)
        for name, column in one.columns.items():
            assert column.to_numpy().tobytes() == two[name].to_numpy().tobytes()
        assert list(one.vocab) == list(two.vocab) and one.metadata == two.metadata
        assert one.vocab.subwords == two.vocab.subwords


def test_finalfusion_reads_our_other_formats(peer: Any, tmp_path: Path) -> None:
    from finalfusion.compat import load_fasttext, load_text, load_text_dims, load_word2vec

    source = embeddings()
    for load, suffix in ((load_word2vec, ".bin"), (load_text, ".txt"), (load_text_dims, ".vec")):
        pv.write(tmp_path / f"o{suffix}", source, durable=False)
        theirs = load(str(tmp_path / f"o{suffix}"))
        ours = finalfusion.load(tmp_path / f"o{suffix}")
        for row, word in enumerate(WORDS):
            assert np.allclose(theirs.embedding(word), ours.embedding(word), atol=1e-6)
            assert theirs.norms[row] == pytest.approx(ours.norm(word), rel=1e-6)
    source = embeddings(FastTextIndexer(3, 6, 31))
    source.metadata = {"model": "SkipGram", "loss": "NegativeSampling", "dims": 6}
    pv.write(tmp_path / "o.bin", source, format="fasttext", durable=False)
    theirs = load_fasttext(str(tmp_path / "o.bin"))
    ours = finalfusion.load(tmp_path / "o.bin")
    for word in (*WORDS, "Berlinn"):
        assert np.allclose(theirs.embedding(word), ours.embedding(word), atol=1e-6)


def test_we_read_the_other_formats_finalfusion_writes(peer: Any, tmp_path: Path) -> None:
    from finalfusion.compat import write_fasttext, write_text, write_text_dims, write_word2vec

    pv.write(tmp_path / "s.fifu", embeddings(), durable=False)
    theirs = peer.load_finalfusion(str(tmp_path / "s.fifu"))
    with pv.open(tmp_path / "s.fifu") as source:
        wanted = source.vectors.to_numpy() * source["norms"].to_numpy()[:, None]
    for write, name in ((write_word2vec, "w.bin"), (write_text, "w.txt"), (write_text_dims, "w.vec")):
        write(str(tmp_path / name), theirs)
        with pv.open(tmp_path / name) as found:
            assert list(found.vocab) == WORDS
            assert found.vectors.to_numpy().tobytes() == wanted.tobytes()
    pv.write(tmp_path / "f.fifu", embeddings(FastTextIndexer(3, 6, 31)), durable=False)
    theirs = peer.load_finalfusion(str(tmp_path / "f.fifu"))
    write_fasttext(str(tmp_path / "f.bin"), theirs)
    ours = finalfusion.load(tmp_path / "f.bin")
    for word in (*WORDS, "Berlinn"):
        assert np.allclose(theirs.embedding(word), ours.embedding(word), atol=1e-5)


def test_gensim_and_we_exchange_word2vec_bit_for_bit(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    source = embeddings(norms=False)
    rows = source.vectors.to_numpy()
    for suffix, binary in ((".bin", True), (".vec", False)):
        pv.write(tmp_path / f"ours{suffix}", source, sidecar=False, durable=False)
        theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / f"ours{suffix}"), binary=binary)
        assert theirs.index_to_key == WORDS
        assert theirs.vectors.tobytes() == rows.tobytes()
        theirs.save_word2vec_format(str(tmp_path / f"theirs{suffix}"), binary=binary)
        with pv.open(tmp_path / f"theirs{suffix}") as found:
            assert list(found.vocab) == WORDS
            assert found.vectors.to_numpy().tobytes() == rows.tobytes()
    pv.write(tmp_path / "glove.txt", source, sidecar=False, durable=False)
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "glove.txt"), binary=False, no_header=True)
    assert theirs.vectors.tobytes() == rows.tobytes()
    ours = finalfusion.load(tmp_path / "ours.bin")
    assert [h.word for h in ours.similar("Berlin", 4)] == [word for word, _ in theirs.most_similar("Berlin", topn=4)]


def test_gensim_loads_our_fasttext_models(tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models.fasttext")
    source = embeddings(FastTextIndexer(3, 6, 31))
    source.metadata = {
        "model": "SkipGram",
        "loss": "NegativeSampling",
        "window_size": 5,
        "epoch": 5,
        "ns": 5,
        "min_count": 1,
        "lr_update_rate": 100,
        "sampling_threshold": 1e-4,
    }
    pv.write(tmp_path / "o.bin", source, format="fasttext", durable=False)
    theirs = gensim.load_facebook_vectors(str(tmp_path / "o.bin"))
    ours = finalfusion.load(tmp_path / "o.bin")
    for word in (*WORDS, "Berlinn", "Tübinger"):
        vector = theirs.get_vector(word)
        assert np.allclose(vector / np.linalg.norm(vector), ours.embedding(word), atol=1e-5)


def test_floret_models_give_florets_vectors(tmp_path: Path) -> None:
    floret = pytest.importorskip("floret")
    words = np.random.default_rng(0).choice(["Berlin", "Tübingen", "Zürich", "hello", "hallo", "实验"], (200, 10))
    (tmp_path / "text").write_text("\n".join(" ".join(line) for line in words))
    options = {"minn": 2, "maxn": 4, "bucket": 40, "dim": 5, "minCount": 1, "epoch": 1, "thread": 1}
    model = floret.train_unsupervised(str(tmp_path / "text"), mode="floret", hashCount=3, **options)
    model.save_floret_vectors(str(tmp_path / "t.floret"))
    pv.convert(tmp_path / "t.floret", tmp_path / "t.fifu", durable=False)
    ours = finalfusion.load(tmp_path / "t.fifu")
    for word in ("Berlin", "Tübinger", "unseen"):
        vector = model.get_word_vector(word)
        assert float(ours.embedding(word) @ vector / np.linalg.norm(vector)) == pytest.approx(1, abs=1e-4)
    plain = floret.train_unsupervised(str(tmp_path / "text"), mode="fasttext", **options)
    plain.save_model(str(tmp_path / "f.bin"))
    loaded = finalfusion.load(tmp_path / "f.bin")
    for word in plain.get_words():
        assert np.allclose(loaded.embedding(word) * loaded.norm(word), plain.get_word_vector(word), atol=1e-7)


def plain_rows(dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Rows of many lengths, one of zeros among them, and the same at unit length."""
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((len(WORDS), dim)) * np.logspace(-3, 3, len(WORDS))[:, None]).astype(np.float32)
    rows[4] = 0
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    return rows, rows / np.where(lengths > 0, lengths, 1)[:, None]


@pytest.mark.parametrize("suffix", [".bin", ".txt", ".vec", ".npy", ".fbin"])
def test_finalfusion_gets_unit_rows_and_norms_of_every_source(peer: Any, suffix: str, tmp_path: Path) -> None:
    rows, unit = plain_rows()
    named = suffix in (".bin", ".txt", ".vec")
    words = WORDS if named else [str(row) for row in range(len(WORDS))]
    pv.write(
        tmp_path / f"s{suffix}", rows, vocab=WORDS if named else None, format="word2vec" if suffix == ".bin" else None
    )
    receipt = pv.convert(tmp_path / f"s{suffix}", tmp_path / "o.fifu")
    assert not receipt.loss.exact and receipt.loss.max_error <= 1e-7 * np.abs(rows).max()
    assert any("unit" in note and "normalize=false" in note for note in receipt.notes)
    theirs = peer.load_finalfusion(str(tmp_path / "o.fifu"))
    for row, word in enumerate(words):
        vector, norm = theirs.embedding_with_norm(word)
        assert np.allclose(vector, unit[row], atol=1e-6)
        assert np.allclose(vector * norm, rows[row], rtol=1e-6)
    kept = pv.convert(tmp_path / f"s{suffix}", tmp_path / "kept.fifu", normalize=False)
    assert kept.loss.exact and not kept.notes
    with pv.open(tmp_path / "kept.fifu") as found:
        assert found.vectors.to_numpy().tobytes() == rows.tobytes() and "norms" not in found.columns


@pytest.mark.parametrize("suffix", [".bin", ".txt", ".vec"])
def test_the_reference_converter_and_ours_agree_both_ways(peer: Any, suffix: str, tmp_path: Path) -> None:
    from finalfusion.compat import load_text, load_text_dims, load_word2vec, write_text, write_text_dims, write_word2vec

    load = {".bin": load_word2vec, ".txt": load_text, ".vec": load_text_dims}[suffix]
    write = {".bin": write_word2vec, ".txt": write_text, ".vec": write_text_dims}[suffix]
    rows, _ = plain_rows()
    rows[4] = 1  # it divides zeros by zero
    pv.write(tmp_path / f"s{suffix}", rows, vocab=WORDS)
    theirs = load(str(tmp_path / f"s{suffix}"))
    pv.convert(tmp_path / f"s{suffix}", tmp_path / "ours.fifu")
    with pv.open(tmp_path / "ours.fifu") as ours:
        assert np.allclose(ours.vectors.to_numpy(), theirs.storage, atol=1e-7)
        assert np.allclose(ours["norms"].to_numpy(), theirs.norms, rtol=1e-6)
    write(str(tmp_path / f"back{suffix}"), peer.load_finalfusion(str(tmp_path / "ours.fifu")))
    pv.convert(tmp_path / "ours.fifu", tmp_path / f"mine{suffix}")
    with pv.open(tmp_path / f"back{suffix}") as back, pv.open(tmp_path / f"mine{suffix}") as mine:
        assert back.vectors.to_numpy().tobytes() == mine.vectors.to_numpy().tobytes()
        assert np.allclose(mine.vectors.to_numpy(), rows, rtol=3e-7)


def test_gensim_gets_the_values_back_from_finalfusion(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    rows, _ = plain_rows()
    keyed = models.KeyedVectors(rows.shape[1])
    keyed.add_vectors(WORDS, rows)
    keyed.save_word2vec_format(str(tmp_path / "g.bin"), binary=True)
    pv.convert(tmp_path / "g.bin", tmp_path / "g.fifu")
    pv.convert(tmp_path / "g.fifu", tmp_path / "back.bin")
    back = models.KeyedVectors.load_word2vec_format(str(tmp_path / "back.bin"), binary=True)
    assert back.index_to_key == WORDS
    assert np.allclose(back.vectors, rows, rtol=3e-7)


def test_selected_unknown_words_are_as_long_as_gensim_makes_them(tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models.fasttext")
    pv.write(tmp_path / "o.bin", embeddings(FastTextIndexer(3, 6, 31)), format="fasttext")
    theirs = gensim.load_facebook_vectors(str(tmp_path / "o.bin"))
    asked = ["Berlinn", "hello", "Tübingerinnen", "a"]
    with pv.open(tmp_path / "o.bin") as model:
        chosen, missing = select(model, asked)
    pv.write(tmp_path / "few.vec", chosen)
    with pv.open(tmp_path / "few.vec") as few:
        assert not missing and list(few.vocab) == asked
        for row, word in enumerate(asked):
            assert np.allclose(few.vectors[row], theirs.get_vector(word), rtol=1e-5, atol=1e-6)


def test_selected_words_are_the_vectors_that_floret_and_fasttext_give(tmp_path: Path) -> None:
    floret = pytest.importorskip("floret")
    words = np.random.default_rng(0).choice(["Berlin", "Tübingen", "Zürich", "hello", "hallo", "实验"], (200, 10))
    (tmp_path / "text").write_text("\n".join(" ".join(line) for line in words))
    options = {"minn": 2, "maxn": 4, "bucket": 40, "dim": 5, "minCount": 1, "epoch": 1, "thread": 1}
    asked = ["Berlin", "Tübinger", "unseen", "hallo"]
    table = floret.train_unsupervised(str(tmp_path / "text"), mode="floret", hashCount=3, **options)
    table.save_floret_vectors(str(tmp_path / "t.floret"))
    plain = floret.train_unsupervised(str(tmp_path / "text"), mode="fasttext", **options)
    plain.save_model(str(tmp_path / "f.bin"))
    for model, name, tolerance in ((table, "t.floret", 1e-4), (plain, "f.bin", 1e-6)):
        with pv.open(tmp_path / name) as collection:
            chosen, missing = select(collection, asked)
        assert not missing
        pv.write(tmp_path / "few.vec", chosen)
        with pv.open(tmp_path / "few.vec") as few:
            for row, word in enumerate(asked):
                assert np.allclose(few.vectors[row], model.get_word_vector(word), atol=tolerance)
