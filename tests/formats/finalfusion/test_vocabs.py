"""Vocabulary chunks: strings that exist, are UTF-8 and not empty; parameters that can be; lengths that fit."""

from __future__ import annotations

import struct

import pytest

from polyvec.core.errors import Corrupt, FormatError, Truncated
from polyvec.core.subwords import BucketIndexer, FastTextIndexer, FloretIndexer
from polyvec.formats.finalfusion.structure import BUCKET, EXPLICIT, FASTTEXT, FLORET, SIMPLE, File
from polyvec.formats.finalfusion.vocabs import read_words, walk_words
from polyvec.testing import MemorySource


def strings(*words: bytes, after: bytes = b"") -> bytes:
    return b"".join(struct.pack("<I", len(word)) + word + after for word in words)


def read(kind: int, data: bytes, *, lossy: bool = False, dialect: str = "reference") -> File:
    file = File(dialect=dialect)
    end = read_words(file, MemorySource(b"head" + data, "a.fifu"), kind, 4, 4 + len(data), lossy)
    assert end == 4 + len(data)
    return file


def test_words_are_read_with_their_indexers() -> None:
    words = strings(b"a", "ü".encode())
    assert list(read(SIMPLE, struct.pack("<Q", 2) + words).words.strings) == ["a", "ü"]
    bucket = read(BUCKET, struct.pack("<QIII", 2, 3, 6, 4) + words)
    assert bucket.words.subwords == BucketIndexer(3, 6, 4)
    assert read(FASTTEXT, struct.pack("<QIII", 2, 3, 6, 99) + words).words.subwords == FastTextIndexer(3, 6, 99)
    swapped = read(BUCKET, struct.pack("<IIIQ", 3, 6, 4, 2) + words, dialect="document")
    assert swapped.words.subwords == BucketIndexer(3, 6, 4) and list(swapped.words.strings) == ["a", "ü"]


def test_explicit_ngrams_have_their_rows() -> None:
    data = struct.pack("<QQII", 1, 2, 3, 3) + strings(b"a")
    data += strings(b"<a>") + struct.pack("<Q", 1) + strings(b"abc") + struct.pack("<Q", 0)
    indexer = read(EXPLICIT, data).words.subwords
    assert list(indexer.ngrams) == ["<a>", "abc"] and indexer.targets.tolist() == [1, 0]


def test_floret_has_parameters_and_no_words() -> None:
    file = read(FLORET, struct.pack("<IIQII", 2, 5, 60, 2, 7) + strings(b"<", b">"))
    assert file.words.subwords == FloretIndexer(2, 5, 60, 2, 7, "<", ">") and len(file.words.strings) == 0


@pytest.mark.parametrize(
    ("kind", "data", "error", "field"),
    [
        (SIMPLE, struct.pack("<Q", 2**60), Truncated, "vocab.words"),
        (SIMPLE, struct.pack("<Q", 1) + b"\xff\xff\xff\xff" + b"a", Truncated, "word 0"),
        (SIMPLE, struct.pack("<Q", 1) + strings(b""), Corrupt, "word 0"),
        (SIMPLE, struct.pack("<Q", 2) + strings(b"a", b"\xff"), Corrupt, "word 1"),
        (SIMPLE, struct.pack("<Q", 1) + strings(b"a") + b"xx", Corrupt, "chunk.len"),
        (BUCKET, struct.pack("<QIII", 0, 6, 3, 4), Corrupt, "vocab.min_n, vocab.max_n"),
        (BUCKET, struct.pack("<QIII", 0, 3, 6, 63), Corrupt, "vocab.bucket_exp"),
        (FLORET, struct.pack("<IIQII", 2, 5, 60, 5, 7) + strings(b"<", b">"), Corrupt, "vocab.n_hashes"),
        (FLORET, struct.pack("<IIQII", 2, 5, 0, 1, 7) + strings(b"<", b">"), Corrupt, "vocab.buckets"),
        (FLORET, struct.pack("<IIQII", 2, 5, 9, 1, 7) + strings(b"<", b">") + b"x", Corrupt, "chunk.len"),
    ],
)
def test_a_lie_is_a_format_error_with_its_field(kind: int, data: bytes, error: type[FormatError], field: str) -> None:
    with pytest.raises(error) as caught:
        read(kind, data)
    assert caught.value.field == field and caught.value.offset is not None


def test_lossy_keeps_empty_words_and_replaces_bad_ones() -> None:
    assert list(read(SIMPLE, struct.pack("<Q", 2) + strings(b"", b"a\xff"), lossy=True).words.strings) == ["", "a�"]


def test_words_with_a_gap_between_them_are_walked() -> None:
    data = strings(b"a", b"bc", after=b"12345678")
    found, end = walk_words(MemorySource(data, "a"), 0, len(data), 2, 8, False)
    assert list(found) == ["a", "bc"] and end == len(data)
