"""The demo's corpus: the standard library's summaries, embedded or bundled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec.codecs.levels import quantize_rows
from polyvec.core.errors import MissingExtra
from polyvec.model import bundled, stdlib_corpus
from polyvec.testing.models import write_tiny_folder


def test_the_bundled_vectors_answer_the_question() -> None:
    corpus = bundled.read_bundled()
    assert corpus.vectors.shape == (len(corpus.entries), 384) and "bundled" in corpus.note
    assert np.allclose(np.linalg.norm(corpus.vectors, axis=1), 1, atol=1e-5)
    best = np.argsort(-(corpus.vectors @ corpus.query))[:5]
    assert all(corpus.entries[row].module == "zipfile" for row in best)
    collection = corpus.collection()
    assert collection.records is not None and collection.records[int(best[0])]["kind"] == "module"
    assert (Path(bundled.__file__).parent / "data" / bundled.FILE).stat().st_size < 1_200_000


def test_without_the_model_the_bundled_vectors_are_used_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "find_installed", lambda: None)
    assert "not installed" in bundled.make_corpus(tmp_path).note
    monkeypatch.setattr(bundled, "find_installed", lambda: tmp_path)

    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("onnxruntime", extra="embed", purpose="text embeddings")

    monkeypatch.setattr("polyvec.model.huggingface.import_model", missing)
    assert "polyvec[embed]" in bundled.make_corpus(tmp_path).note


def test_with_a_model_the_summaries_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tiny_folder(tmp_path / "tiny")
    monkeypatch.setattr(bundled, "find_installed", lambda: folder)
    monkeypatch.setattr("polyvec.model.huggingface.find_installed", lambda: folder)
    monkeypatch.setattr(bundled, "list_entries", lambda: stdlib_corpus.list_entries()[:20])
    corpus = bundled.make_corpus(tmp_path)
    assert (
        corpus.vectors.shape == (20, 32)
        and corpus.model == tmp_path / "minilm.weights"
        and "embedded by" in corpus.note
    )
    bundled.write_bundled(corpus, tmp_path / "again.xz")
    assert (tmp_path / "again.xz").stat().st_size > 100


def test_fewer_entries_are_spread_over_all() -> None:
    whole, part = bundled.read_bundled(), bundled.read_bundled(limit=30)
    assert len(part.entries) == 30 and len({entry.module for entry in part.entries}) > 20
    rows = [whole.entries.index(entry) for entry in part.entries]
    np.testing.assert_array_equal(part.vectors, whole.vectors[rows])
    assert bundled.spread_rows(3, 10) == [0, 1, 2] and bundled.spread_rows(0, 5) == []


def test_the_bundled_vectors_can_be_rounded_to_int8_again() -> None:
    assert len(quantize_rows(bundled.read_bundled().vectors).codes) == 3000
