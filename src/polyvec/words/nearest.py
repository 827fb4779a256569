"""The words nearest to vectors, over rows of any kind: the one exact search, told in words."""

from __future__ import annotations

from collections.abc import Collection as Words
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.core.vocab import Vocab
from polyvec.kernels.lengths import unit_rows
from polyvec.neighbors.held import HeldRows, Ranked
from polyvec.words.codes import CodeSearch
from polyvec.words.storage import Storage

METRICS = ("cosine", "angular")
Floats = NDArray[np.float32]


class Hit(NamedTuple):
    """A word found, and how similar it is."""

    word: str
    similarity: float


class NearestWords:
    """Words by the rows that stand for them. What a search keeps of the rows is made by the first one."""

    def __init__(self, vocab: Vocab, storage: Storage) -> None:
        self._vocab, self._storage = vocab, storage
        self._search: HeldRows | CodeSearch | None = None

    def find(self, vectors: Sequence[Any], k: int, left_out: Sequence[Words[str]], metric: str) -> list[list[Hit]]:
        """For each vector the ``k`` nearest words but those left out, best first, equal ones in the order of their names."""
        if metric not in METRICS:
            raise InputError(f"unknown metric {metric!r}; there are {', '.join(METRICS)}")
        if k < 0:
            raise InputError(f"k must not be negative, and is {k}")
        queries = [self._checked(vector) for vector in vectors]
        if not queries or not len(self._vocab):
            return [[] for _ in queries]
        if self._search is None:
            self._search = self._storage.search()
        found = self._search.nearest_many(np.stack(queries), k + max(len(words) for words in left_out))
        return [self._hits(ranked, words, metric)[:k] for ranked, words in zip(found, left_out)]

    def _checked(self, vector: Any) -> NDArray[np.float64]:
        query = np.asarray(vector, np.float64)
        dims = self._storage.shape[1]
        if query.shape != (dims,):
            raise InputError(f"a query has {dims} values, not shape {query.shape}")
        if not np.isfinite(query).all() or not query.any():
            raise InputError("a query of length zero, or with NaN or infinity, is similar to nothing")
        return query

    def _hits(self, ranked: Ranked, left_out: Words[str], metric: str) -> list[Hit]:
        rows, scores = ranked
        if metric == "angular":
            scores = 1 - np.arccos(np.clip(scores, -1, 1)) / np.pi
        hits = [Hit(word, float(score)) for word, score in zip(self._vocab[rows], scores) if word not in left_out]
        return sorted(hits, key=lambda hit: (-hit.similarity, hit.word))


def combined(a: Floats, b: Floats, c: Floats) -> Floats:
    """b - a + c at unit length; added in float64, where neither huge nor tiny rows lose anything."""
    unit, _ = unit_rows(b.astype(np.float64) - a + c if b.ndim == 2 else (b.astype(np.float64) - a + c)[None])
    return unit if b.ndim == 2 else unit[0]
