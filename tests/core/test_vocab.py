"""Strings and Vocab: words as bytes with offsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.errors import Corrupt, InputError
from polyvec.core.vocab import Strings, Vocab, as_vocab
from polyvec.testing import strategies


@given(words=st.integers(0, 9).flatmap(strategies.words))
@settings(max_examples=60, deadline=None)
def test_words_come_back_in_every_way_to_ask(words: list[str]) -> None:
    strings = Strings.from_words(words)
    assert list(strings) == words and strings[:] == words and strings[::-2] == words[::-2]
    assert [strings[row] for row in range(-len(words), len(words))] == words + words
    rows = np.arange(len(words))[::-1]
    assert list(strings.view(rows)) == words[::-1]
    assert list(strings.view(range(1, len(words)))) == words[1:]
    assert list(Strings.concat([strings, strings])) == words * 2
    assert strings == Strings.from_words(words)


def test_the_first_of_duplicates_is_found_and_a_missing_word_is_a_key_error() -> None:
    vocab = Vocab(["a", "b", "a", ""])
    assert vocab.index("a") == 0 and vocab.index("") == 3
    assert "b" in vocab and "c" not in vocab and 5 not in vocab
    assert vocab.get("c") is None and vocab.get("c", -1) == -1
    assert vocab.indices(["b", "c", "a"]).tolist() == [1, -1, 0]
    with pytest.raises(KeyError, match="'c' is not in the vocabulary"):
        vocab.index("c")
    with pytest.raises(IndexError):
        vocab[4]


def test_invalid_utf8_names_its_row_or_is_replaced() -> None:
    data, starts, stops = b"ok\xff\xfe", np.array([0, 2]), np.array([2, 4])
    strict = Strings(data, starts, stops, label="x.fifu")
    assert strict[0] == "ok"
    with pytest.raises(Corrupt, match=r"x\.fifu: .*string 1.*0xff.*lossy"):
        strict[1]
    assert Strings(data, starts, stops, lossy=True)[1] == "��"


def test_a_vocabulary_has_one_word_a_row() -> None:
    with pytest.raises(InputError, match="2 words for 3 rows"):
        as_vocab(["a", "b"], 3)
