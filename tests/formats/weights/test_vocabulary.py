"""Tokens of `.weights`: length-prefixed, whole, each of them UTF-8."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from polyvec.core.errors import Corrupt
from polyvec.formats.weights.vocabulary import read_tokens


def tokens(*words: bytes, width: int = 2) -> np.ndarray:
    code = {2: "<H", 4: "<I"}[width]
    return np.frombuffer(b"".join(struct.pack(code, len(word)) + word for word in words), np.uint8)


@pytest.mark.parametrize("width", [2, 4])
def test_tokens_come_back_also_empty_ones(width: int) -> None:
    found = read_tokens(tokens(b"a", b"", "é中".encode(), width=width), 3, 0, width, "m")
    assert list(found) == ["a", "", "é中"]
    assert len(read_tokens(tokens(), 0, 0, width, "m")) == 0


def test_a_token_that_reaches_past_the_end_is_told_with_its_place() -> None:
    data = tokens(b"ab", b"cd")[:-1]
    with pytest.raises(Corrupt, match="token 1 reaches past") as caught:
        read_tokens(data, 2, 100, 2, "m")
    assert caught.value.offset == 104


def test_bytes_left_over_are_told() -> None:
    with pytest.raises(Corrupt, match="sizes disagree"):
        read_tokens(tokens(b"ab", b"cd"), 1, 0, 2, "m")


@pytest.mark.parametrize(
    ("words", "row"),
    [((b"a", b"\xff"), 1), ((b"\xc3", b"\xa9"), 0), ((b"ok", b"x\x80y"), 1), ((b"\xe4\xb8", b"\xad"), 0)],
)
def test_every_token_is_utf8_by_itself(words: tuple[bytes, ...], row: int) -> None:
    with pytest.raises(Corrupt) as caught:
        read_tokens(tokens(*words), len(words), 0, 2, "m")
    assert caught.value.field == f"token {row}"
