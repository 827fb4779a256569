"""Subword indexers, compiled and not: which rows the n-grams of a word have, and the vector they make."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.subwords import BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer, compose, ngram_rows
from polyvec.core.vocab import Strings
from polyvec.kernels import available_paths, use_path

WORDS = ["Berlin", "Tübingen", "New York", "实验", "emoji😀x", "a", "Berlin"]
EXPLICIT = ExplicitIndexer(3, 3, Strings.from_words(["<Be", "lin", "in>"]), np.array([1, 0, 1]))


@pytest.fixture(params=sorted({available_paths()[0], "numpy"}), autouse=True)
def _path(request):
    with use_path(request.param):
        yield


def test_an_explicit_indexer_skips_ngrams_it_does_not_know():
    indexer = ExplicitIndexer(3, 3, Strings.from_words(["<Be", "lin", "in>"]), np.array([1, 0, 1]))
    assert indexer.rows == 2
    assert indexer.indices("Berlin").tolist() == [1, 0, 1]
    rows = indexer.lookup(Strings.from_words(["Berlin", "zzz"]).table)
    assert rows[1].tolist() == [-1, -1, -1]


def test_indexers_count_their_rows_and_stay_inside_them():
    words = Strings.from_words(WORDS).table
    for indexer in (BucketIndexer(3, 6, 4), FastTextIndexer(2, 5, 13), FloretIndexer(2, 4, 11, 4)):
        found = indexer.lookup(words)
        assert len(found) == len(WORDS)
        assert found.indices.min() >= 0 and found.indices.max() < indexer.rows
        assert indexer.indices("Berlin").tolist() == found[0].tolist()
    assert FastTextIndexer(3, 6, 0).indices("Berlin").tolist() == []


def fnv(data: bytes, basis: int, prime: int, bits: int) -> int:
    value = basis
    for byte in data:
        value = (value ^ (byte if byte < 128 or bits == 64 else byte - 256)) % 2**bits * prime % 2**bits
    return value


def test_fasttexts_buckets_are_those_of_its_hash_of_signed_bytes():
    grams = ["<ü", "üb", "b>", "<üb", "üb>"]
    wanted = [fnv(gram.encode(), 2166136261, 16777619, 32) % 100 for gram in grams]
    assert sorted(FastTextIndexer(2, 3, 100).indices("üb").tolist()) == sorted(wanted)


def test_the_end_of_a_sentence_has_no_ngrams_in_fasttext_alone():
    words = Strings.from_words(["</s>", "abcd"]).table
    assert (ngram_rows(FastTextIndexer(2, 3, 50), words)[0] == -1).all()
    assert (ngram_rows(FastTextIndexer(2, 3, 50), words)[1] >= 0).all()
    assert (ngram_rows(BucketIndexer(2, 3, 5), words)[0] >= 0).all()


def test_a_vector_is_the_unit_sum_of_its_rows_and_says_of_how_many():
    matrix = np.float32([[3, 0], [0, 2]])
    words = Strings.from_words(["Berlin", "zzz"]).table
    made = compose(EXPLICIT, words, 2, matrix=matrix)
    assert np.allclose(made.vectors[0], [0.6, 0.8]) and made.lengths[0] == 5
    assert made.counts.tolist() == [3, 0] and made.found.tolist() == [True, False]
    assert made.means[0] == pytest.approx(5 / 3) and not made.vectors[1].any() and made.means[1] == 0


def test_only_the_rows_needed_are_read_and_give_the_same():
    matrix = np.random.default_rng(0).standard_normal((64, 5)).astype(np.float32)
    indexer, words = BucketIndexer(3, 4, 6), Strings.from_words(WORDS).table
    asked: list[np.ndarray] = []

    def take(rows):
        asked.append(rows)
        return matrix[rows]

    whole, part = compose(indexer, words, 5, matrix=matrix), compose(indexer, words, 5, take=take)
    assert np.array_equal(whole.vectors, part.vectors) and np.array_equal(whole.counts, part.counts)
    assert asked[0].tolist() == sorted(set(indexer.lookup(words).indices.tolist()))


def test_without_subwords_every_word_is_made_of_nothing():
    made = compose(None, Strings.from_words(["a", "b"]).table, 3, matrix=np.ones((2, 3), np.float32))
    assert made.vectors.shape == (2, 3) and not made.vectors.any() and not made.found.any()
