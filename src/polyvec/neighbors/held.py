"""Rows in memory that are searched again and again, as those of a word model: their shadow is made once and kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.scores import compiled, plain_floats, query_norms, score_rows
from polyvec.kernels.threads import Crew, resolve_threads
from polyvec.neighbors.metric import Metric, scores_of
from polyvec.neighbors.reference import rank
from polyvec.neighbors.rows import RowBlock, Rows, scorable
from polyvec.neighbors.scan import MOST_DIM, Scan, check_queries
from polyvec.neighbors.shadow import RowTerms, Shadow, code_rows

Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]

STEP = 1 << 24  # rows of a block: candidates count rows in 32 bits
PLAIN_STEP = 1 << 14  # the same where NumPy scores them, as float64
WIDER = 8  # by which k grows where ties go on beyond it


class HeldRows:
    """The rows of a matrix and their int8 shadow, a quarter of its size, once asked. The search is `Scan`'s.

    >>> held = HeldRows(np.array([[1, 0], [0, 1], [0, 2]], np.float32))
    >>> held.nearest(np.array([0, 3]), 1)
    (array([1, 2]), array([1., 1.]))
    """

    def __init__(self, rows: Rows, metric: Metric = Metric.COSINE) -> None:
        self.rows = scorable(rows)
        self.metric = metric
        self._shadow: tuple[Shadow, RowTerms] | None = None

    def nearest(self, query: Rows, k: int) -> Ranked:
        """The k best rows for the query and every row tied with the last, best first, equal ones by row."""
        return self.nearest_many(np.asarray(query)[None], k)[0]

    def nearest_many(self, queries: Rows, k: int) -> list[Ranked]:
        """`nearest` for several queries at once: the rows are read once for all."""
        k = min(k, len(self.rows))
        if k == 0 or not len(queries):
            return [(np.empty(0, np.int64), np.empty(0)) for _ in queries]
        rows, scores = self._scan(queries, min(k + 1, len(self.rows)))
        return [self._with_ties(query, k, *found) for query, *found in zip(queries, rows, scores)]

    def _with_ties(self, query: Rows, k: int, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> Ranked:
        """Of the best rows, more than k, those to be told; more are asked for while the last of them ties with the k-th."""
        while len(rows) < len(self.rows) and scores[-1] == scores[k - 1]:
            (rows,), (scores,) = self._scan(query[None], min(WIDER * len(rows), len(self.rows)))
        count = k + int(np.count_nonzero(scores[k:] == scores[k - 1]))
        return rows[:count], scores[:count]

    @plain_floats()
    def _scan(self, queries: Rows, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        coded = compiled() is not None and self.rows.shape[1] <= MOST_DIM
        scan = Scan(queries, k=k, metric=self.metric, scores="int8" if coded else "auto")
        shadow, terms = self._coded() if coded else (None, None)
        step = STEP if coded else PLAIN_STEP
        for at in range(0, len(self.rows), step):
            rows = self.rows[at : at + step]
            end = at + len(rows)
            part = None if shadow is None else shadow.cut(at, end)
            scan.feed(RowBlock(at, len(rows), rows, None, part, None if terms is None else terms.cut(at, end)))
        return scan.result()

    def _coded(self) -> tuple[Shadow, RowTerms]:
        if self._shadow is None:
            threads = resolve_threads(None)
            with Crew(threads) as pool:
                shadow = code_rows(self.rows, pool=pool, threads=threads)
            self._shadow = shadow, shadow.terms(self.metric)
        return self._shadow


@plain_floats()
def rank_rows(
    take: Callable[[NDArray[np.int64]], Rows],
    rows: NDArray[np.int64],
    query: Rows,
    k: int,
    metric: Metric = Metric.COSINE,
) -> Ranked:
    """The k best of some rows, which `take` gives, and all that tie with the last, best first, equal ones by row."""
    asked = check_queries(query, metric)
    norms = query_norms(asked)
    keys, ties = np.empty(len(rows)), np.empty(len(rows))
    for at in range(0, len(rows), PLAIN_STEP):
        part = slice(at, at + PLAIN_STEP)
        (keys[part],), (ties[part],) = score_rows(scorable(take(rows[part])), asked, norms, int(metric))
    found, best, _ = rank(keys, ties, rows, len(rows))
    k = min(k, len(rows))
    count = k + int(np.count_nonzero(best[k:] == best[k - 1])) if k else 0
    return found[:count], scores_of(best[:count], metric)
