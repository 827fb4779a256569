"""The exact scan: blocks of rows against a batch of queries, the best k of each query kept as it goes.

Each block is scored approximately (int8 or float32), what the bounds cannot exclude is scored again in float64,
and the k-th of those scores is the next block's threshold. See docs/exact-search.md for why nothing is missed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.kernels.paths import cpu_path
from polyvec.kernels.scores import compiled, plain_floats, query_norms
from polyvec.kernels.threads import Crew, resolve_threads
from polyvec.neighbors.batch import FEW, Batch
from polyvec.neighbors.metric import Metric, parse_metric, scores_of
from polyvec.neighbors.rows import RowBlock, Rows, scorable
from polyvec.neighbors.shadow import Frame, Shadow, adopt_codes, cast_shadow, choose_frame, some_rows

Floats = NDArray[np.float64]

BATCH = 1024  # queries scored together: their codes and terms fit the second-level cache
NARROW_FROM = 64  # queries from which making int8 codes pays, where none are at hand
MOST_DIM = 100_000  # above it an int32 sum of int8 products could overflow
POOR = 0.02  # share of rows rescored from which float32 scores are cheaper than int8 ones
POOR_EARLY = 0.2  # the same for the first rows
EARLY_ROWS = 1 << 16
SHARED = 1 << 20  # products of a block from which it is shared among threads: their start must be worth it


def tiles_pay() -> bool:
    """Whether int8 matrix products are faster than BLAS here: only on matrix units (AMX), by measurement."""
    if cpu_path() != "avx512":
        return False
    import numkong

    found = numkong.get_capabilities()
    return any(found.get(name, False) for name in ("sapphireamx", "graniteamx"))


class Scan:
    """The queries of one search and their best k so far.

    >>> scan = Scan(np.eye(2, dtype=np.float32), k=1, metric="ip")
    >>> scan.feed(np.array([[0, 2], [3, 0]], np.float32))
    >>> scan.result()
    (array([[1],
           [0]]), array([[3.],
           [2.]]))
    """

    @plain_floats()
    def __init__(
        self,
        queries: Rows,
        *,
        k: int,
        metric: str | Metric,
        threads: int | None = None,
        scores: Literal["auto", "int8", "float32"] = "auto",
    ) -> None:
        self.metric = parse_metric(metric)
        self.queries = check_queries(queries, self.metric)
        if k < 1:
            raise InputError(f"k is {k}; it must be at least 1")
        self.k = k
        self.threads = resolve_threads(threads)
        self.rows = 0
        self.norms = query_norms(self.queries)
        self._frames: dict[str, Frame] = {}
        self._scores = scores  # "float32" also where int8 was tried and did not pay
        self._batches = [
            Batch(self.queries[at : at + BATCH], self.norms[at : at + BATCH], k, self.metric, self.threads)
            for at in range(0, len(self.queries), BATCH)
        ]
        self._pool: Crew | None = None  # made for the first block that is worth it

    @plain_floats()
    def feed(self, block: RowBlock | Rows) -> None:
        """Score a block; an array's rows follow those fed before."""
        if not isinstance(block, RowBlock):
            block = RowBlock(self.rows, len(block), scorable(block))
        dim = self.queries.shape[1]
        if block.rows is not None and block.rows.shape[1:] != (dim,):
            raise InputError(
                f"the queries have {dim} dimensions and the base has {block.rows.shape[1]}; they must agree"
            )
        self.rows = max(self.rows, block.first + block.count)
        if not block.count or not self._batches:
            return
        if compiled() is None:
            self._feed_plainly(block)
            return
        if self._pool is None and self.threads > 1 and block.count * dim * len(self.queries) >= SHARED:
            self._pool = Crew(self.threads)
        shadow = block.shadow if block.shadow is not None and self._take(block) else self._shadow(block)
        terms = block.terms if block.terms is not None and shadow is block.shadow else shadow.terms(self.metric)
        rescored = 0
        for batch in self._batches:
            rescored += batch.scan(block, shadow, terms, self._pool)
        if self._scores == "auto" and shadow.codes.dtype == np.int8 and block.rows is not None:
            # The first rows meet low thresholds and are kept more often than any that follow.
            share = POOR if block.first >= EARLY_ROWS else POOR_EARLY
            if rescored > max(share * block.count, 8 * self.k) * len(self.queries):
                self._scores = "float32"

    def kth(self) -> Floats:
        """The k-th best key of each query so far (-inf while there are fewer)."""
        return np.concatenate([batch.kth() for batch in self._batches]) if self._batches else np.empty(0)

    def result(self) -> tuple[NDArray[np.int64], Floats]:
        """Rows and float64 scores, shape (queries, k), best first; -1 and NaN where there are fewer rows."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        return self.peek()

    def peek(self) -> tuple[NDArray[np.int64], Floats]:
        """The result so far."""
        rows, keys, _ = self._found()
        return rows, scores_of(keys, self.metric)

    def ties(self) -> Floats:
        """What orders equal scores beyond float64's range, shape (queries, k): `resume` needs it beside the scores."""
        return self._found()[2]

    def resume(self, rows: NDArray[np.int64], scores: Floats, ties: Floats | None = None) -> None:
        """Start from the best of an earlier scan over other rows."""
        keys = scores_of(scores, self.metric)
        ties = np.zeros_like(keys) if ties is None else ties
        for i, batch in enumerate(self._batches):
            part = slice(i * BATCH, (i + 1) * BATCH)
            batch.offer(rows[part], keys[part], ties[part])

    def _found(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        found = [batch.result() for batch in self._batches]
        if not found:
            shape = (0, self.k)
            return np.empty(shape, np.int64), np.empty(shape), np.empty(shape)
        rows, keys, ties = zip(*found)
        return np.concatenate(rows), np.concatenate(keys), np.concatenate(ties)

    def _take(self, block: RowBlock) -> bool:
        """Whether to use a shadow that is at hand."""
        if block.rows is None or self._scores == "int8":
            return True
        return self._scores == "auto" and (len(self.queries) <= FEW or tiles_pay())

    def _shadow(self, block: RowBlock) -> Shadow:
        rows = block.rows
        assert rows is not None
        coded = rows.dtype in (np.int8, np.uint8)
        narrow = rows.shape[1] <= MOST_DIM and self._scores != "float32"
        if narrow and self._scores == "auto":
            many = len(self.queries) >= NARROW_FROM and tiles_pay()
            narrow = many or (coded and (len(self.queries) <= FEW or tiles_pay()))
        if coded and narrow:
            shadow = adopt_codes(rows, self._frames.get("codes"))
            self._frames["codes"] = shadow.frame
            return shadow
        if coded:
            rows = rows.astype(np.float32)
        if "floats" not in self._frames:
            self._frames["floats"] = choose_frame(some_rows(rows))
        return cast_shadow(rows, self._frames["floats"], narrow=narrow, pool=self._pool, threads=self.threads)

    def _feed_plainly(self, block: RowBlock) -> None:
        rows = block.read()
        for batch in self._batches:
            batch.scan_plainly(rows, block)


@plain_floats()
def check_queries(queries: Rows, metric: Metric) -> Floats:
    """The queries as float64, one or many rows; an InputError for what cannot be scored."""
    array = np.asarray(queries)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.dtype.kind not in "fiubV" or array.dtype.hasobject:
        raise InputError(f"queries must be rows of numbers; found shape {array.shape} of {array.dtype}")
    wide = np.ascontiguousarray(array.astype(np.float64))
    bad = np.flatnonzero(~np.isfinite(wide).all(axis=1))
    if len(bad):
        raise InputError(f"query {int(bad[0])} holds a NaN or an infinity; a query must be finite")
    zero = np.flatnonzero(~wide.any(axis=1))
    if metric is Metric.COSINE and len(zero):
        raise InputError(f"query {int(zero[0])} is zero and has no direction; cosine needs one")
    return wide
