"""The tiny model: whole, of the shapes it promises, the same each time, and open to any change."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import polyvec as pv
from polyvec.testing.models import (
    tiny_metadata,
    tiny_tensors,
    tiny_tokens,
    write_tiny_folder,
    write_tiny_model,
)


def test_tokens_begin_as_berts_do_and_are_counted() -> None:
    tokens = tiny_tokens()
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tiny_metadata()["vocab_size"] == str(len(tokens))


def test_what_is_changed_is_changed_and_shapes_follow() -> None:
    metadata = tiny_metadata(num_layers="1", intermediate_size="48")
    assert (metadata["num_layers"], metadata["hidden_size"]) == ("1", "32")
    shapes = {name: value.shape for name, value in tiny_tensors(metadata).items()}
    assert any(48 in shape for shape in shapes.values()) and not any(64 in shape[1:] for shape in shapes.values())
    assert len(shapes) < len(tiny_tensors(tiny_metadata()))


def test_weights_are_those_of_their_seed() -> None:
    one, again, other = (tiny_tensors(tiny_metadata(), seed=seed) for seed in (3, 3, 4))
    assert all(one[name].tobytes() == again[name].tobytes() and one[name].dtype == np.float32 for name in one)
    assert any(one[name].tobytes() != other[name].tobytes() for name in one)


def test_the_file_holds_the_tensors_words_and_metadata(tmp_path: Path) -> None:
    with pv.open(write_tiny_model(tmp_path / "t.weights", pooling="cls")) as found:
        tensors = tiny_tensors(tiny_metadata())
        assert set(found.columns) == set(tensors) and list(found.vocab) == tiny_tokens()
        assert all(found[name].to_numpy().tobytes() == value.tobytes() for name, value in tensors.items())
        assert found.metadata["pooling"] == "cls"


def test_the_folder_says_the_same_in_the_files_of_its_kind(tmp_path: Path) -> None:
    folder = write_tiny_folder(tmp_path / "m", pooling="max", max_seq_length="16")
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == len(tiny_tokens())
    modes = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert [name for name, on in modes.items() if on] == ["pooling_mode_max_tokens"]
    assert json.loads((folder / "sentence_bert_config.json").read_text()) == {"max_seq_length": 16}
    assert (folder / "vocab.txt").read_text(encoding="utf-8").splitlines() == tiny_tokens()
    with pv.open(folder / "model.safetensors") as found:
        assert set(found.columns) == set(tiny_tensors(tiny_metadata()))
