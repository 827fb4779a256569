"""The models of a folder, told without loading weights: what they are, and why one cannot embed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import FormatError
from polyvec.model import catalog
from polyvec.model.catalog import describe_model, list_models
from polyvec.testing.models import tiny_metadata, tiny_tensors, tiny_tokens


def test_a_model_is_told_by_its_sizes(tiny: Path) -> None:
    told = describe_model(tiny)
    tensors = tiny_tensors(tiny_metadata())
    assert (told.name, told.dim, told.dtype, told.problem) == ("tiny", "32", "FLOAT32", None)
    assert (told.tensors, told.parameters) == (len(tensors), sum(values.size for values in tensors.values()))
    assert (told.tokens, told.bytes) == (len(tiny_tokens()), tiny.stat().st_size)
    assert told.to_dict()["metadata"]["num_layers"] == "2"


def test_a_model_that_cannot_embed_says_why(tmp_path: Path) -> None:
    tensors = tiny_tensors(tiny_metadata())
    del tensors["encoder.layer.1.output.dense.bias"]
    pv.write(tmp_path / "m.weights", tensors, vocab=tiny_tokens(), metadata=tiny_metadata(), durable=False)
    told = describe_model(tmp_path / "m.weights")
    assert "'encoder.layer.1.output.dense.bias' is missing" in (told.problem or "")
    [listed] = list_models(tmp_path)[-1:]
    assert listed.note.startswith("cannot embed: ") and len(listed.note) <= 120


def test_a_folder_is_listed_by_name_with_what_cannot_be_read(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "find_installed", lambda: None)
    shutil.copy(tiny, tmp_path / "b.weights")
    (tmp_path / "a.weights").write_bytes(np.zeros(100, np.uint8).tobytes())
    (tmp_path / "other.npy").write_bytes(b"")
    broken, fine = list_models(tmp_path)
    assert broken.note.startswith("cannot be read: ") and broken.bytes == 100
    assert (fine.name, fine.layers, fine.note) == ("tiny", "2", "")
    with pytest.raises(FormatError, match=r"a\.weights"):
        describe_model(tmp_path / "a.weights")


def test_an_installed_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(7))
    monkeypatch.setattr(catalog, "find_installed", lambda: tmp_path)
    [listed] = list_models(tmp_path)
    assert (listed.path, listed.bytes, listed.dim) == ("minilm", 7, "384")
