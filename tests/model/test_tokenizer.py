"""The tokenizer against the reference one of the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import InputError
from polyvec.model.loading import find_installed, load_model
from polyvec.model.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "weights"
BLOCKS = (
    (0x20, 0x7F),
    (0x00, 0x20),
    (0xA0, 0x250),
    (0x300, 0x370),
    (0x370, 0x530),
    (0x590, 0x700),
    (0x900, 0xD80),
    (0xE00, 0xF00),
    (0x1100, 0x1200),
    (0x1E00, 0x2000),
    (0x2000, 0x2070),
    (0x2070, 0x2BFF),
    (0x3000, 0x3100),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xE000, 0xE100),
    (0xF900, 0xFB00),
    (0xFB00, 0xFFFF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x20100),
    (0xE0000, 0xE0080),
)


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return Tokenizer(load_model(minilm), max_length=256)


def sample_texts(count: int) -> list[str]:
    """Texts of letters from many scripts, mixed and plain, with words of the Latin ones between them."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(count):
        low, high = BLOCKS[int(rng.integers(len(BLOCKS)))]
        letters = [chr(int(code)) for code in rng.integers(low, high, int(rng.integers(1, 40)))]
        words = ["".join(piece) for piece in np.array_split(np.array(letters, object), int(rng.integers(1, 6)))]
        texts.append(" ".join(words + ["Straße"] * int(rng.integers(0, 2))))
    return texts


def test_ids_are_those_of_the_reference_files(tokenizer: Tokenizer) -> None:
    texts = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
    assert tokenizer.encode_batch(texts).ids == json.loads((GOLDEN / "ids.json").read_text())


def test_ids_are_those_of_the_reference_tokenizer_on_a_large_multilingual_sample(tokenizer: Tokenizer) -> None:
    from tokenizers import Tokenizer as Fast

    reference = Fast.from_file(str((find_installed() or Path()) / "tokenizer.json"))
    reference.no_padding()  # type: ignore[no-untyped-call,unused-ignore]
    reference.enable_truncation(256)
    texts = sample_texts(5000)
    assert tokenizer.encode_batch(texts).ids == [encoding.ids for encoding in reference.encode_batch(texts)]


def test_a_long_text_gives_the_ids_of_the_whole(tokenizer: Tokenizer) -> None:
    words = "the history of the city is long "
    for text in (words * 2000, "x" * 20_000 + " " + words, " " * 20_000 + "hello", ("y" * 101 + " ") * 400):
        whole = tokenizer._fast.encode(text)
        assert tokenizer.encode(text) == whole.ids
        assert tokenizer.encode_batch([text]).truncated == bool(whole.overflowing)


def test_cut_texts_are_counted(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode_batch(["short", "word " * 254, "word " * 255])
    assert [len(ids) for ids in encoded.ids] == [3, 256, 256] and encoded.truncated == 1


def test_ten_megabytes_of_text_are_read_only_as_far_as_needed(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("lorem ipsum " * 900_000)) == 256


def test_decoding_gives_the_text_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("How do I read a zip file?")) == "how do i read a zip file?"
    assert tokenizer.decode([101, 7592, 102], skip_special_tokens=False) == "[CLS] hello [SEP]"
    with pytest.raises(InputError, match="30522"):
        tokenizer.decode([30522])


@pytest.mark.parametrize("bad", ["a \ud800 b", 3, None, b"bytes"])
def test_what_is_no_text_is_refused_with_its_row(tokenizer: Tokenizer, bad: object) -> None:
    with pytest.raises(InputError, match="text 1"):
        tokenizer.encode_batch(["fine", bad])  # type: ignore[list-item]
