"""A model in memory: the vocabulary is as long as promised, special tokens are found by name, files are let go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import Corrupt, FormatError
from polyvec.model import loading
from polyvec.model.loading import find_installed, find_specials, load_model, read_vocabulary
from polyvec.testing.models import tiny_tensors, tiny_tokens


def test_weights_are_those_that_were_written(tiny: Path) -> None:
    model = load_model(tiny, verify=True)
    wanted = tiny_tensors(model.metadata)
    assert set(model.parameters) == set(wanted)
    assert all(np.array_equal(model.parameters[name], values) for name, values in wanted.items())
    assert model.tokens == tiny_tokens() and model.specials["sep_id"] == 3
    model.close()


def test_the_fingerprint_is_that_of_the_files_end(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    assert load_model(tiny).fingerprint == f"{len(data)}-{data[-16:].hex()}"


def test_a_vocabulary_of_another_length_is_corrupt(tiny: Path) -> None:
    with pytest.raises(Corrupt) as caught:
        load_model(tiny, vocabulary=tiny_tokens()[:-1])
    assert caught.value.field == "vocab_size" and caught.value.found == len(tiny_tokens()) - 1


def test_a_vocabulary_is_one_token_a_line_whatever_ends_it(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes("[PAD]\r\nä\r\n\r\nlast".encode())
    assert read_vocabulary(tmp_path / "v.txt") == ["[PAD]", "ä", "", "last"]
    (tmp_path / "v.txt").write_bytes(b"a\n\n")
    assert read_vocabulary(tmp_path / "v.txt") == ["a", ""]
    assert read_vocabulary(("x", "y")) == ["x", "y"]
    (tmp_path / "v.txt").write_bytes(b"ab\xff\n")
    with pytest.raises(Corrupt) as caught:
        read_vocabulary(str(tmp_path / "v.txt"))
    assert caught.value.offset == 2 and caught.value.path.endswith("v.txt")


def test_special_tokens_that_are_not_there_are_all_named() -> None:
    assert find_specials(["[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]"], "m")["pad_id"] == 4
    with pytest.raises(Corrupt, match=r"m: the vocabulary lacks \[UNK\], \[MASK\]"):
        find_specials(["[PAD]", "[CLS]", "[SEP]"], "m")


def test_a_file_that_is_no_model_names_itself_and_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no.weights").write_bytes(b"EMBD" + bytes(60))
    with pytest.raises(FormatError, match=r"no\.weights"):
        load_model(tmp_path / "no.weights")
    monkeypatch.setattr(loading, "MODEL_PACKAGE", "no_such_package")
    assert find_installed() is None
