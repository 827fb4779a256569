"""Subword hashes against published values, and compiled against reference."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import strings, subwords, use_path

# n-gram, FNV-1a 64, its low 21 bits, fastText's FNV-1a 32, modulo 2,000,000
HASHES = [
    ("<he", 0xDAE28CE32065FD47, 392519, 0x438B15E4, 1188580),
    ("<tü", 0xC450BC6068B68732, 1476402, 0x094BE9B2, 1969970),
    ("iël", 0x8721752A09E391B8, 233912, 0xAA477BF2, 811506),
    ("实验", 0xBBB2EE7DA88CFE0A, 851466, 0x5039EE09, 1973769),
    ("😀x>", 0x72B9F24761CB1F53, 728915, 0x77AC972A, 1799594),
]
WORDS = ["Tübinger", "iddqd", "実", "x", "", "emoji😀xyz" * 3, "a"]


@pytest.mark.parametrize(("ngram", "wide", "bucket", "narrow", "modulo"), HASHES)
def test_hashes_are_the_published_ones(ngram: str, wide: int, bucket: int, narrow: int, modulo: int) -> None:
    assert subwords.fnv64(ngram) == wide
    assert subwords.fnv64(ngram) & (2**21 - 1) == bucket
    assert subwords.fnv32(ngram) == narrow
    assert subwords.fnv32(ngram) % 2_000_000 == modulo


def test_murmur3_is_the_published_one() -> None:
    # The widely published x64-128 digest of this sentence with seed 0.
    lanes = subwords.murmur3(b"The quick brown fox jumps over the lazy dog", 0)
    assert (lanes[1] << 32 | lanes[0], lanes[3] << 32 | lanes[2]) == (0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347)


@pytest.mark.parametrize(("min_n", "max_n"), [(3, 6), (1, 2), (2, 5), (4, 100), (0, 3)])
def test_native_indices_equal_the_reference(min_n: int, max_n: int) -> None:
    packed = strings.pack(WORDS)

    def every() -> list[subwords.Rows]:
        floret = {"buckets": 50000, "hashes": 3, "seed": 2166136261, "bow": "<", "eow": "»"}
        return [
            subwords.bucket_indices(packed, min_n=min_n, max_n=max_n, exponent=21),
            subwords.fasttext_indices(packed, min_n=min_n, max_n=max_n, buckets=2_000_000),
            subwords.floret_indices(packed, min_n=min_n, max_n=max_n, **floret),
        ]

    def table() -> tuple[list[bytes], list[int]]:
        found, splits = subwords.ngram_table(packed, min_n=min_n, max_n=max_n)
        return list(found), splits.tolist()

    fast, fast_table = every(), table()
    with use_path("numpy"):
        for ours, theirs in zip(fast, every()):
            assert ours.indices.tolist() == theirs.indices.tolist()
            assert ours.splits.tolist() == theirs.splits.tolist()
        assert fast_table == table()


def test_ngrams_come_by_start_the_longest_first_with_repeats() -> None:
    assert list(subwords.ngrams("aaa", 2, 3)) == ["<aa", "<a", "aaa", "aa", "aa>", "aa", "a>"]
    assert list(subwords.ngrams("a", 4, 6)) == []


@pytest.mark.parametrize("options", [{}, {"mean": True, "own": np.arange(7)}, {"normalize": False}])
def test_sums_are_bit_for_bit_the_reference(options: dict[str, object]) -> None:
    matrix = np.random.default_rng(0).standard_normal((500, 37)).astype(np.float32)
    rows = subwords.fasttext_indices(strings.pack(WORDS), min_n=3, max_n=6, buckets=500)
    rows.indices[3] = -1
    fast = subwords.sum_rows(matrix, rows, **options)
    with use_path("numpy"):
        slow = subwords.sum_rows(matrix, rows, **options)
    assert fast[0].tobytes() == slow[0].tobytes()
    assert fast[1].tobytes() == slow[1].tobytes()


def test_a_sum_of_zero_stays_zero() -> None:
    rows = subwords.Rows(np.array([1, 2]), np.array([0, 2]))
    sums, norms = subwords.sum_rows(np.zeros((4, 3), np.float32), rows)
    assert sums.tolist() == [[0, 0, 0]]
    assert norms.tolist() == [0]


def test_a_row_beyond_the_matrix_is_refused() -> None:
    with pytest.raises(IndexError):
        subwords.sum_rows(np.zeros((4, 3), np.float32), subwords.Rows(np.array([4]), np.array([0, 1])))
