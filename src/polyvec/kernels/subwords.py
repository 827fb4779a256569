"""Character n-grams of words, the rows they hash to, and the sums of those rows.

A word stands between brackets; its n-grams are counted in Unicode code points, from each start the longest
first, repeats kept. Three hash families: FNV-1a 64 over code points (finalfusion buckets), FNV-1a 32 over
sign-extended UTF-8 bytes (fastText), MurmurHash3 x64-128 (floret). Compiled where possible; the Python here gives
the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.scores import sum_squares
from polyvec.kernels.strings import Floats, Longs, Table, pack
from polyvec.kernels.threads import default_threads

U64 = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Rows:
    """Row numbers of several words: word i has indices[splits[i] : splits[i + 1]]; -1 stands for none."""

    indices: Longs
    splits: Longs

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, word: int) -> Longs:
        return self.indices[self.splits[word] : self.splits[word + 1]]


def ngrams(word: str, min_n: int, max_n: int, *, bow: str = "<", eow: str = ">") -> Iterator[str]:
    """The n-grams of a bracketed word, in the order every indexer uses."""
    text = f"{bow}{word}{eow}"
    if min_n < 1:
        return
    for start in range(len(text) - min_n + 1):
        for n in range(min(max_n, len(text) - start), min_n - 1, -1):
            yield text[start : start + n]


def fnv64(ngram: str) -> int:
    """FNV-1a 64 over the number of code points as u64 and each code point as u32, little endian."""
    data = len(ngram).to_bytes(8, "little") + ngram.encode("utf-32-le", "surrogatepass")
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & U64
    return h


def fnv32(ngram: str) -> int:
    """FNV-1a 32 over UTF-8 bytes, each sign-extended as fastText's signed char."""
    h = 2166136261
    for byte in ngram.encode():
        h = ((h ^ (byte | 0xFFFFFF00 if byte & 0x80 else byte)) * 16777619) & 0xFFFFFFFF
    return h


def murmur3(data: bytes, seed: int) -> tuple[int, int, int, int]:
    """MurmurHash3 x64-128 as four u32 lanes."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = seed
    size = len(data)
    for at in range(0, size - size % 16, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 = ((_rotate(h1 ^ (_rotate(k1 * c1 & U64, 31) * c2 & U64), 27) + h2) * 5 + 0x52DCE729) & U64
        h2 = ((_rotate(h2 ^ (_rotate(k2 * c2 & U64, 33) * c1 & U64), 31) + h1) * 5 + 0x38495AB5) & U64
    tail = data[size - size % 16 :]
    h1 ^= _rotate(int.from_bytes(tail[:8], "little") * c1 & U64, 31) * c2 & U64
    h2 ^= _rotate(int.from_bytes(tail[8:], "little") * c2 & U64, 33) * c1 & U64
    h1, h2 = h1 ^ size, h2 ^ size
    h1 = (h1 + h2) & U64
    h2 = (h2 + h1) & U64
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & U64
    h2 = (h2 + h1) & U64
    return h1 & 0xFFFFFFFF, h1 >> 32, h2 & 0xFFFFFFFF, h2 >> 32


def _rotate(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & U64


def _finish(k: int) -> int:
    k = (k ^ (k >> 33)) * 0xFF51AFD7ED558CCD & U64
    k = (k ^ (k >> 33)) * 0xC4CEB9FE1A85EC53 & U64
    return k ^ (k >> 33)


def bucket_indices(words: Table, *, min_n: int, max_n: int, exponent: int) -> Rows:
    """finalfusion buckets: FNV-1a 64, the low `exponent` bits."""
    module = native()
    if module is not None:
        return Rows(*module.bucket_indices(words.data, words.starts, words.stops, min_n, max_n, exponent))
    mask = (1 << exponent) - 1
    return _each(words, lambda word: [fnv64(ngram) & mask for ngram in ngrams(word, min_n, max_n)])


def fasttext_indices(words: Table, *, min_n: int, max_n: int, buckets: int) -> Rows:
    """fastText buckets: FNV-1a 32 over signed bytes, modulo the number of buckets."""
    module = native()
    if module is not None:
        return Rows(*module.fasttext_indices(words.data, words.starts, words.stops, min_n, max_n, buckets))
    return _each(words, lambda word: [fnv32(ngram) % buckets for ngram in ngrams(word, min_n, max_n)])


def floret_indices(
    words: Table, *, min_n: int, max_n: int, buckets: int, hashes: int, seed: int, bow: str, eow: str
) -> Rows:
    """floret: the bracketed word and its n-grams, each `hashes` lanes of MurmurHash3, modulo the buckets."""
    module = native()
    if module is not None:
        table = (words.data, words.starts, words.stops)
        return Rows(*module.floret_indices(*table, min_n, max_n, buckets, hashes, seed, bow, eow))

    def rows(word: str) -> list[int]:
        pieces = [f"{bow}{word}{eow}", *ngrams(word, min_n, max_n, bow=bow, eow=eow)]
        return [lane % buckets for piece in pieces for lane in murmur3(piece.encode(), seed)[:hashes]]

    return _each(words, rows)


def ngram_table(words: Table, *, min_n: int, max_n: int) -> tuple[Table, Longs]:
    """The n-grams themselves of all words in one table, and where each word's begin (one more than words)."""
    module = native()
    if module is not None:
        found = module.ngram_table(words.data, words.starts, words.stops, min_n, max_n)
        text, starts, stops, splits = found
        return Table(text, starts, stops), splits
    lists = [list(ngrams(word.decode(), min_n, max_n)) for word in words]
    splits = np.concatenate([[0], np.cumsum([len(found) for found in lists])]).astype(np.int64)
    return pack([ngram for found in lists for ngram in found]), splits


def _each(words: Table, rows: Callable[[str], list[int]]) -> Rows:
    lists = [rows(word.decode()) for word in words]
    splits = np.concatenate([[0], np.cumsum([len(found) for found in lists])]).astype(np.int64)
    return Rows(np.array([row for found in lists for row in found], np.int64), splits)


def sum_rows(
    matrix: Floats,
    rows: Rows,
    *,
    own: npt.ArrayLike | None = None,
    mean: bool = False,
    normalize: bool = True,
    out: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Sum the matrix rows of each word in float32, in order; the (words, dim) sums and their lengths.

    `own` gives one row a word to begin with; `mean` divides by how many rows were added; `normalize` divides by
    the length, which is the one returned. A sum of length zero stays zero, -1 adds nothing.
    """
    count = len(rows)
    sums = np.empty((count, matrix.shape[1]), np.float32) if out is None else out
    norms = np.empty(count, np.float32)
    begin = None if own is None else np.ascontiguousarray(own, np.int64)
    module = native()
    if module is not None:
        module.sum_rows(matrix, rows.indices, rows.splits, begin, mean, normalize, sums, norms, default_threads())
        return sums, norms
    for word in range(count):
        index = rows[word]
        index = index[index >= 0]
        total = np.zeros(matrix.shape[1], np.float32)
        if begin is not None:
            total[:] = matrix[begin[word]]
        for row in index:
            total += matrix[row]
        added = len(index) + (begin is not None)
        if mean and added:
            total /= np.float32(added)
        norms[word] = np.float32(np.sqrt(sum_squares(total[None])[0]))
        if normalize and norms[word] > 0:
            total /= norms[word]
        sums[word] = total
    return sums, norms
