"""Subword indexers: from a word to the rows of its n-grams in the subword column, and from those to its vector.

One frozen dataclass a family: finalfusion buckets (FNV-1a 64), fastText buckets (FNV-1a 32 over signed bytes), explicit
n-grams (a dictionary), floret (MurmurHash3, words without rows of their own). All are batched and compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from polyvec.core.origins import Once
from polyvec.kernels import strings as tables
from polyvec.kernels import subwords as kernels
from polyvec.kernels.strings import Table
from polyvec.kernels.subwords import Rows, sum_rows

if TYPE_CHECKING:
    from polyvec.core.vocab import Strings

EOS = b"</s>"  # fastText gives the end of a sentence no n-grams
MAX_N = 1024  # longer n-grams than any model has; more would let a file ask for endless work


class Subwords(Protocol):
    """Maps words to rows of the subword column; a row of -1 stands for an n-gram that has none."""

    kind: ClassVar[str]

    @property
    def rows(self) -> int: ...
    @property
    def min_n(self) -> int: ...
    @property
    def max_n(self) -> int: ...
    def lookup(self, words: Table) -> Rows: ...
    def indices(self, word: str) -> NDArray[np.int64]: ...


class _Single:
    """The rows of one word, through the batch."""

    __slots__ = ()

    def lookup(self, words: Table) -> Rows:
        """The rows of many words."""
        raise NotImplementedError

    def indices(self, word: str) -> NDArray[np.int64]:
        """The rows of one word's n-grams, in order; those without a row are left out."""
        found = self.lookup(tables.pack([word])).indices
        return found[found >= 0]


@dataclass(frozen=True, slots=True)
class BucketIndexer(_Single):
    """finalfusion buckets: 2**exponent rows."""

    kind: ClassVar[str] = "bucket"
    min_n: int
    max_n: int
    exponent: int

    @property
    def rows(self) -> int:
        """How many rows the subword column has."""
        return int(1 << self.exponent)

    def lookup(self, words: Table) -> Rows:
        return kernels.bucket_indices(words, min_n=self.min_n, max_n=self.max_n, exponent=self.exponent)


@dataclass(frozen=True, slots=True)
class FastTextIndexer(_Single):
    """fastText buckets: any number of rows."""

    kind: ClassVar[str] = "fasttext"
    min_n: int
    max_n: int
    buckets: int

    @property
    def rows(self) -> int:
        """How many rows the subword column has."""
        return self.buckets

    def lookup(self, words: Table) -> Rows:
        if not self.buckets:
            return Rows(np.empty(0, np.int64), np.zeros(len(words) + 1, np.int64))
        return kernels.fasttext_indices(words, min_n=self.min_n, max_n=self.max_n, buckets=self.buckets)


@dataclass(frozen=True, slots=True)
class FloretIndexer(_Single):
    """floret: the bracketed word and its n-grams share one table, each with 1 to 4 rows."""

    kind: ClassVar[str] = "floret"
    min_n: int
    max_n: int
    buckets: int
    hashes: int = 1
    seed: int = 2166136261
    bow: str = "<"
    eow: str = ">"

    @property
    def rows(self) -> int:
        """How many rows the subword column has."""
        return self.buckets

    def lookup(self, words: Table) -> Rows:
        return kernels.floret_indices(
            words,
            min_n=self.min_n,
            max_n=self.max_n,
            buckets=self.buckets,
            hashes=self.hashes,
            seed=self.seed,
            bow=self.bow,
            eow=self.eow,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ExplicitIndexer(_Single):
    """A dictionary of n-grams: ``targets[i]`` is the row of ``ngrams[i]``; several may share a row."""

    kind: ClassVar[str] = "explicit"
    min_n: int
    max_n: int
    ngrams: Strings
    targets: NDArray[np.int64]
    _index: Once[tables.Index] = field(default_factory=Once, repr=False)

    @property
    def rows(self) -> int:
        """How many rows the subword column has."""
        return int(self.targets.max(initial=-1)) + 1

    def lookup(self, words: Table) -> Rows:
        index = self._index.get(lambda: tables.build_index(self.ngrams.table))
        found, splits = kernels.ngram_table(words, min_n=self.min_n, max_n=self.max_n)
        at = index.find_table(found.data, found.starts, found.stops)
        known = np.append(self.targets, -1)  # index -1, an n-gram that is not there, gives -1
        return Rows(np.ascontiguousarray(known[at]), splits)


@dataclass(frozen=True, slots=True)
class Composed:
    """Vectors made of subword rows: unit sums, the sums' lengths, and of how many rows each is made (0: of none).

    finalfusion's readers say the length of the sum; fastText, gensim and floret take the mean, as the vectors of known
    words are: `means` are its lengths.
    """

    vectors: NDArray[np.float32]
    lengths: NDArray[np.float32]
    counts: NDArray[np.int64]

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which words have any row."""
        return np.asarray(self.counts > 0)

    @property
    def means(self) -> NDArray[np.float32]:
        """The lengths of the means of the rows."""
        return (self.lengths / np.maximum(1, self.counts)).astype(np.float32)


def ngram_rows(indexer: Subwords, words: Table) -> Rows:
    """The subword rows of words, in order; -1 where an n-gram has none, and for fastText's end of a sentence."""
    rows = indexer.lookup(words)
    if isinstance(indexer, FastTextIndexer):
        for row in np.flatnonzero(words.stops - words.starts == len(EOS)):
            if words[int(row)] == EOS:
                rows[int(row)][:] = -1
    return rows


def compose(
    indexer: Subwords | None,
    words: Table,
    dim: int,
    *,
    matrix: NDArray[np.float32] | None = None,
    take: Callable[[NDArray[np.int64]], NDArray[Any]] | None = None,
) -> Composed:
    """The vectors that subwords give to words: every vector that is made of n-grams is made here.

    The subword rows are a float32 ``matrix``, or what ``take`` reads of them; only those needed are read.
    """
    if indexer is None or (matrix is None and take is None) or not len(words):
        count = len(words)
        return Composed(np.zeros((count, dim), np.float32), np.zeros(count, np.float32), np.zeros(count, np.int64))
    rows = ngram_rows(indexer, words)
    there = rows.indices >= 0
    if matrix is None:
        assert take is not None
        used, places = np.unique(rows.indices[there], return_inverse=True)
        indices = np.full(len(there), -1, np.int64)
        indices[there] = places.reshape(-1)
        matrix, rows = np.ascontiguousarray(take(used), np.float32), Rows(indices, rows.splits)
    vectors, lengths = sum_rows(matrix, rows)
    known = np.concatenate([[0], np.cumsum(there)])
    return Composed(vectors, lengths, known[rows.splits[1:]] - known[rows.splits[:-1]])
