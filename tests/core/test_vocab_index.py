"""Vocab through its index, compiled and not: look-ups, duplicates, near spellings, subword indexers."""

from __future__ import annotations

import pytest

from polyvec.core.errors import Corrupt, UnknownWord
from polyvec.core.vocab import Strings, Vocab
from polyvec.kernels import available_paths, use_path

WORDS = ["Berlin", "Tübingen", "New York", "实验", "emoji😀x", "a", "Berlin"]


@pytest.fixture(params=sorted({available_paths()[0], "numpy"}), autouse=True)
def _path(request):
    with use_path(request.param):
        yield


def test_words_are_found_one_by_one_and_as_a_batch():
    vocab = Vocab(WORDS)
    assert [vocab.index(word) for word in WORDS] == [0, 1, 2, 3, 4, 5, 0]
    assert vocab.indices([*WORDS, "x", ""]).tolist() == [0, 1, 2, 3, 4, 5, 0, -1, -1]
    assert vocab.duplicates.tolist() == [6]
    assert "New York" in vocab and "York" not in vocab and 3 not in vocab
    assert vocab.get("x") is None and vocab.get("x", 9) == 9
    with pytest.raises(UnknownWord, match="'x' is not in the vocabulary"):
        vocab.index("x")
    with pytest.raises(KeyError):
        vocab.index("\ud800")


def test_words_come_by_row_slice_and_indices():
    vocab = Vocab(WORDS)
    assert list(vocab) == WORDS
    assert vocab[1] == "Tübingen" and vocab[-1] == "Berlin"
    assert vocab[1:6:2] == ["Tübingen", "实验", "a"]
    assert vocab[[4, 0]] == ["emoji😀x", "Berlin"]
    with pytest.raises(IndexError):
        vocab[7]
    part = vocab.view([3, 1])
    assert list(part) == ["实验", "Tübingen"] and part.index("Tübingen") == 1
    assert list(vocab.view(range(1, 4))) == WORDS[1:4]


def test_bytes_that_are_not_utf8_are_an_error_or_replaced():
    strings = Strings.from_words([b"ok", b"a\xff"])
    assert strings[0] == "ok"
    with pytest.raises(Corrupt, match="string 1"):
        list(strings)
    strings.lossy = True
    assert strings[:] == ["ok", "a�"]


def test_strings_are_equal_by_their_bytes():
    one = Strings.from_words(["a", "bc"])
    assert one == Strings.from_words(["x", "a", "bc"]).view([1, 2])
    assert one != Strings.from_words(["ab", "c"])
    assert Strings.concat([one, one])[:] == ["a", "bc", "a", "bc"]


def test_near_spellings_come_likest_first():
    vocab = Vocab([*WORDS, "Bern", "Berliner", "Merlin", "unrelated"])
    assert vocab.near("Berlni", 3)[0] == "Berlin"
    assert set(vocab.near("Berlinn", 3)) == {"Berlin", "Berliner", "Merlin"}
    assert vocab.near("zzzz") == []
    assert Vocab([]).near("x") == []
