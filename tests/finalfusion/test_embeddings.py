"""polyvec.finalfusion: look-ups, subwords, similarity and analogy, against the reference and against NumPy."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import finalfusion
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt, InputError, UnknownWord
from polyvec.core.subwords import BucketIndexer
from polyvec.core.vocab import Vocab
from polyvec.finalfusion import embeddings
from polyvec.testing import vectors
from polyvec.testing.descriptors import no_descriptors_left

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
NAMES = sorted(MANIFEST)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.FormatWarning)
        yield


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_gives_the_same_vectors_and_norms(name: str, mmap: bool) -> None:
    told = MANIFEST[name]["loaded"]
    model = finalfusion.load(GOLDEN / name, mmap=mmap)
    assert (len(model), model.dims) == (told["n_words"], told["dims"])
    assert model.storage.quantized == (told["storage"] == "QuantizedArray")
    for word, vector in told["vectors"].items():
        assert np.allclose(model.embedding(word)[:10], vector, atol=1e-6)
    for word, norm in told.get("norms", {}).items():
        assert model.norm(word) == pytest.approx(norm, abs=1e-6)
    assert model.metadata == (told["metadata"] or {})


@pytest.mark.parametrize("name", [n for n in NAMES if "oov" in MANIFEST[n]["loaded"]])
def test_the_reference_gives_the_same_vectors_for_unknown_words(name: str) -> None:
    model = finalfusion.load(GOLDEN / name)
    told = MANIFEST[name]["loaded"]["oov"]
    batch = model.embeddings(list(told), default=0)
    for row, (word, answer) in enumerate(told.items()):
        if answer is None:
            with pytest.raises(KeyError, match="is not in the vocabulary"):
                model.embedding(word)
            assert not batch[row].any()
            continue
        assert np.allclose(model.embedding(word)[:10], answer["vector"], atol=1e-6)
        assert batch[row].tobytes() == model.embedding(word).tobytes()
        if "norm" in answer:
            assert model.norm(word) == pytest.approx(answer["norm"], rel=1e-6)


@pytest.mark.parametrize("name", [n for n in NAMES if "similarity" in MANIFEST[n]["loaded"]])
def test_the_reference_finds_the_same_words(name: str) -> None:
    model = finalfusion.load(GOLDEN / name)
    for kind in ("similarity", "analogy"):
        told = MANIFEST[name]["loaded"][kind]
        query = told["query"]
        hits = model.similar(query, told["k"]) if kind == "similarity" else model.analogy(*query, told["k"])
        assert [hit.word for hit in hits] == [word for word, _ in told["result"]]
        assert np.allclose([h.similarity for h in hits], [s for _, s in told["result"]], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("pq_")])
def test_codes_are_searched_as_their_rows_would_be(name: str) -> None:
    model = finalfusion.load(GOLDEN / name)
    rows = model.storage[:].astype(np.float64)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for row in (0, 7, 39):
        scores = unit @ unit[row]
        order = [i for i in np.argsort(-scores) if i != row][:5]
        hits = model.similar(model.vocab[row], 5)
        assert [hit.word for hit in hits] == [model.vocab[i] for i in order]
        assert np.allclose([hit.similarity for hit in hits], scores[order], atol=1e-6)
    many = model.similar_many([model.vocab[0], model.vocab[7]], 5)
    assert many[1] == model.similar(model.vocab[7], 5)


def test_a_batch_mixes_known_and_unknown_words() -> None:
    model = finalfusion.load(GOLDEN / "bucket_exp7.fifu")
    words = ["Berlin", "Tübinger", "hello", "Berlin", "iddqd"]
    batch = model.embeddings(words)
    for row, word in enumerate(words):
        assert batch[row].tobytes() == model.embedding(word).tobytes()
    with pytest.raises(UnknownWord, match="''"):
        model.embeddings(["Berlin", ""])
    assert np.isnan(model.embeddings(["Berlin", ""], default=np.nan)[1]).all()


def test_without_subwords_an_unknown_word_is_not_in_the_vocabulary() -> None:
    model = finalfusion.load(GOLDEN / "simple.fifu")
    with pytest.raises(KeyError, match=r"^'Berlinn' is not in the vocabulary$"):
        model.embedding("Berlinn")
    assert model.embedding("Berlinn", default=None) is None
    assert "Berlinn" not in model and "Berlin" in model
    with pytest.raises(InputError, match="no norms"):
        model.norm("Berlin")
    assert not model.embeddings(["\ud800"], default=0).any()


def test_results_are_never_writable_views_into_the_model(tmp_path: Path) -> None:
    for mmap in (True, False):
        for name in ("simple_norms.fifu", "pq_proj1_norms1.fifu", "bucket_exp7.fifu"):
            model = finalfusion.load(GOLDEN / name, mmap=mmap)
            word = model.vocab[0]
            before = model.embedding(word).copy()
            for array in (
                model.embedding(word),
                model.embeddings([word]),
                model.storage[0:1],
                model.storage[0],
                model.storage[[0]],
                np.asarray(model.storage),
            ):
                array[...] = 7
            if model.norms is not None:
                model.norms[...] = 7
                assert model.norm(word) != 7
            assert model.embedding(word).tobytes() == before.tobytes()
            if model.storage.matrix is not None:
                with pytest.raises(ValueError):
                    model.storage.matrix[0, 0] = 1


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", ["bucket_exp7.fifu", "pq_proj1_norms1.fifu", "simple_meta_norms.fifu"])
def test_a_model_writes_itself(name: str, mmap: bool, tmp_path: Path) -> None:
    model = finalfusion.load(GOLDEN / name, mmap=mmap)
    model.write(tmp_path / "copy.fifu", durable=False)
    assert (tmp_path / "copy.fifu").read_bytes() == (GOLDEN / name).read_bytes()


def test_a_plain_format_is_written_as_finalfusion_with_its_norms(tmp_path: Path) -> None:
    finalfusion.load(GOLDEN / "conv.w2v.bin").write(tmp_path / "w.fifu", durable=False)
    with pv.open(tmp_path / "w.fifu") as found, pv.open(GOLDEN / "conv_source.fifu") as wanted:
        assert np.allclose(found.vectors.to_numpy(), wanted.vectors.to_numpy(), atol=1e-6)
        assert np.allclose(found["norms"].to_numpy(), wanted["norms"].to_numpy(), atol=1e-6)


def test_duplicates_are_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    pv.write(tmp_path / "d.fifu", vectors(3, 2), vocab=["aa", "bb", "cc"], durable=False)
    (tmp_path / "d.fifu").write_bytes((tmp_path / "d.fifu").read_bytes().replace(b"cc", b"aa"))
    with pytest.raises(Corrupt, match=r"stands twice.*duplicates='first'"):
        finalfusion.load(tmp_path / "d.fifu").embedding("bb")
    with pytest.raises(Corrupt, match="word 2"):
        finalfusion.load(tmp_path / "d.fifu", mmap=False)
    model = finalfusion.load(tmp_path / "d.fifu", duplicates="first")
    assert model.embedding("aa").tobytes() == model.storage[0].tobytes()
    assert [note for note in model.notes if "the first" in note and "'aa'" in note]
    (tmp_path / "d.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    assert finalfusion.load(tmp_path / "d.txt").vocab.duplicates.tolist() == [2]


def test_an_analogy_may_include_its_own_words() -> None:
    model = finalfusion.load(GOLDEN / "simple.fifu")
    plain = model.analogy("Berlin", "Tübingen", "Zürich", 3)
    assert not {hit.word for hit in plain} & {"Berlin", "Tübingen", "Zürich"}
    included = model.analogy("Berlin", "Tübingen", "Zürich", 12, include={"Zürich"})
    assert "Zürich" in {hit.word for hit in included}


def test_quantised_subwords_give_unknown_words_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "vectors": ArrayColumn("vectors", rng.standard_normal((300, 8)).astype(np.float32)),
        "subwords": ArrayColumn("subwords", rng.standard_normal((64, 8)).astype(np.float32)),
    }
    collection = Collection(columns, vocab=Vocab([f"word{i}" for i in range(300)], subwords=BucketIndexer(3, 6, 6)))
    pytest.importorskip("faiss")
    pv.write(tmp_path / "q.fifu", collection, encoding="pq", bits=4, parts=4, iterations=4, durable=False)
    model = finalfusion.load(tmp_path / "q.fifu")
    assert model.storage.quantized and model.subword_storage.quantized
    rows = model.subword_storage[:]
    total = rows[model.vocab.subwords.indices("unseen")].sum(axis=0)
    assert np.allclose(model.embedding("unseen"), total / np.linalg.norm(total), atol=1e-5)


def test_floret_models_know_every_word() -> None:
    told = json.loads((GOLDEN.parent / "floret" / "floret.json").read_text())["table.floret"]
    model = finalfusion.load(GOLDEN.parent / "floret" / "table.floret")
    for word, vector in told.items():
        assert float(model.embedding(word) @ np.array(vector) / np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert model.similar("Berlin") == []


def test_a_file_without_words_is_named(tmp_path: Path) -> None:
    pv.write(tmp_path / "v.npy", vectors(3, 2), durable=False)
    with pytest.raises(InputError, match="no words"):
        finalfusion.load(tmp_path / "v.npy")


def test_a_large_matrix_is_read_whole_by_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = vectors(101, 7)
    pv.write(tmp_path / "w.fifu", rows, normalize=False, durable=False)
    monkeypatch.setattr("polyvec.core.sources.PARALLEL_BYTES", 1)
    monkeypatch.setattr("polyvec.core.sources.PARALLEL_PIECE", 100)
    model = finalfusion.load(tmp_path / "w.fifu", mmap=False)
    assert model.storage[:].tobytes() == rows.tobytes()


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30, 3e37])
@pytest.mark.parametrize("suffix", [".fifu", ".kept.fifu", ".bin", ".txt"])
def test_words_rank_the_same_at_every_scale(scale: float, suffix: str, tmp_path: Path) -> None:
    rows = vectors(60, 7)
    words = [f"w{row}" for row in range(len(rows))]
    tiny = (rows.astype(np.float64) * scale).astype(np.float32)
    options = {"normalize": False} if "kept" in suffix else {}
    pv.write(tmp_path / f"o{suffix}", tiny, vocab=words, durable=False, **options)
    unit = tiny.astype(np.float64) / scale
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    with finalfusion.load(tmp_path / f"o{suffix}") as model:
        stored = model.storage[:].astype(np.float64)
        stored /= np.abs(stored).max()
        for hits, query, left_out in (
            (model.similar("w3", 5), unit[3], {3}),
            (model.analogy("w1", "w2", "w4", 5), stored[2] - stored[1] + stored[4], {1, 2, 4}),
        ):
            scores = unit @ (query / np.linalg.norm(query))
            order = [row for row in np.argsort(-scores) if row not in left_out][:5]
            assert [hit.word for hit in hits] == [words[row] for row in order]
            assert np.allclose([hit.similarity for hit in hits], scores[order], atol=2e-6)


def test_a_length_beyond_float32_is_refused_with_its_row(tmp_path: Path) -> None:
    huge = np.full((3, 400), 1.0, np.float32)
    huge[1] = 3e38
    with pytest.raises(pv.LossyConversion, match=r"row 1 \(6e\+39\).*normalize=false"):
        pv.write(tmp_path / "h.fifu", huge)
    assert pv.write(tmp_path / "h.fifu", huge, normalize=False, durable=False).loss.exact
    with pytest.raises(pv.LossyConversion, match="row 2"):
        pv.write(tmp_path / "h.fifu", np.array([[1.0, 1], [0, 0], [1e-90, 0]]))


def test_a_refused_duplicate_stays_refused(tmp_path: Path) -> None:
    pv.write(tmp_path / "d.fifu", vectors(3, 2), vocab=["aa", "bb", "cc"], durable=False)
    (tmp_path / "d.fifu").write_bytes((tmp_path / "d.fifu").read_bytes().replace(b"cc", b"aa"))
    model = finalfusion.load(tmp_path / "d.fifu")
    for _ in range(2):
        with pytest.raises(Corrupt, match="stands twice"):
            model.embedding("aa")
    model.close()


def test_a_fasttext_model_without_subwords_loads_unit_rows(tmp_path: Path) -> None:
    rows = vectors(4, 3) * 5
    pv.write(tmp_path / "f.fasttext", rows, vocab=list("abcd"), durable=False)
    with finalfusion.load(tmp_path / "f.fasttext") as model:
        assert np.linalg.norm(model.embedding("b")) == pytest.approx(1, abs=1e-6)
        assert model.norm("b") == pytest.approx(np.linalg.norm(rows[1]), rel=1e-6)
        model.write(tmp_path / "back.bin", durable=False)
    with pv.open(tmp_path / "back.bin") as back:
        assert back.format == "word2vec" and np.allclose(back.vectors.to_numpy(), rows, rtol=3e-7)


@pytest.mark.parametrize("mmap", [True, False])
def test_a_load_that_fails_leaves_no_file_open(mmap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv.write(tmp_path / "a.fifu", vectors(4, 3), vocab=list("abcd"), durable=False)
    pv.write(tmp_path / "a.fbin", vectors(4, 3), durable=False)
    finalfusion.load(tmp_path / "a.fifu", mmap=mmap).close()

    asked: list[Any] = []

    def refuse(column: Any, **_: object) -> None:
        asked.append(column.source)
        raise MemoryError

    with no_descriptors_left(), pytest.raises(InputError) as told:
        finalfusion.load(tmp_path / "a.fbin", mmap=mmap)
    monkeypatch.setattr(embeddings, "Storage", refuse)
    with pytest.raises(MemoryError):
        finalfusion.load(tmp_path / "a.fifu", mmap=mmap)
    with pytest.raises(ValueError, match="is closed"):
        asked[0].read_at(0, 1)
    assert told.traceback


def test_loading_says_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^duplicates is 'first' or 'error', not 'last'$"):
        finalfusion.load(GOLDEN / "simple.fifu", duplicates="last")
    with pytest.raises(InputError, match=r"^a collection without words is no word embeddings$"):
        finalfusion.Embeddings(Collection.from_arrays(vectors(3, 2)))
    (tmp_path / "d.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    with pytest.raises(Corrupt, match="the word 'a' stands twice"):
        finalfusion.load(tmp_path / "d.txt", duplicates="error").embedding("b")


def test_a_model_is_its_words_and_rows_in_order() -> None:
    model = finalfusion.load(GOLDEN / "simple.fifu")
    pairs = list(model)
    assert [word for word, _ in pairs] == list(model.vocab) and len(pairs) == len(model)
    assert all(model[word].tobytes() == row.tobytes() for word, row in pairs)
    assert repr(model) == f"<Embeddings {len(model)} words x {model.dims}, {model.storage.encoding}, no subwords>"
    assert model.format == "finalfusion" and model.norms is None
    subwords = finalfusion.load(GOLDEN / "bucket_exp7.fifu")
    assert repr(subwords).endswith(f"{subwords.vocab.subwords.kind} subwords>")
