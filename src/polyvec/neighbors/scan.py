"""The exact scan: blocks of rows against a batch of queries, the best k of each query kept as it goes.

Each block is scored approximately (int8 or float32), what the bounds cannot exclude is scored again in float64,
and the k-th of those scores is the next block's threshold. See docs/exact-search.md for why nothing is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.kernels.paths import cpu_path, resolve_threads
from polyvec.kernels.scores import compiled, plain_floats, query_norms
from polyvec.neighbors import reference
from polyvec.neighbors.metric import Metric, parse_metric, scores_of
from polyvec.neighbors.probe import Probe, make_probe
from polyvec.neighbors.shadow import Frame, RowTerms, Shadow, adopt_codes, cast_shadow, choose_frame, split

Rows = NDArray[Any]
Floats = NDArray[np.float64]

BATCH = 1024  # queries scored together: their codes and terms fit the second-level cache
TILE = 256  # rows a tile of int8 scores
WIDE_TILE = 4096  # rows a tile of float32 scores: a BLAS call must be worth its start
FEW = 4  # up to so many queries are scanned without tiles
NARROW_FROM = 64  # queries from which making int8 codes pays, where none are at hand
MOST_DIM = 100_000  # above it an int32 sum of int8 products could overflow
HELD = 4_000_000  # candidates held at most before they are settled
POOR = 0.02  # share of rows rescored from which float32 scores are cheaper than int8 ones
POOR_EARLY = 0.2  # the same for the first rows
EARLY_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows: their values, or how to fetch some of them, and where known their shadow and terms."""

    first: int
    count: int
    rows: Rows | None = None
    fetch: Callable[[NDArray[np.int64]], Rows] | None = None
    shadow: Shadow | None = None
    terms: RowTerms | None = None
    ids: NDArray[np.int64] | None = None  # where the rows are a selection: the id of each, ascending


def tiles_pay() -> bool:
    """Whether int8 matrix products are faster than BLAS here: only on matrix units (AMX), by measurement."""
    if cpu_path() != "avx512":
        return False
    import numkong

    found = numkong.get_capabilities()
    return any(found.get(name, False) for name in ("sapphireamx", "graniteamx"))


def usable_rows(rows: Rows) -> Rows:
    """The rows as the kernels take them: float32, float64, int8 or uint8, contiguous."""
    if rows.dtype not in (np.float32, np.float64, np.int8, np.uint8):
        rows = rows.astype(np.float64 if rows.dtype.itemsize > 4 else np.float32)
    return np.ascontiguousarray(rows)


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
            _Batch(self.queries[at : at + BATCH], self.norms[at : at + BATCH], k, self.metric, self.threads)
            for at in range(0, len(self.queries), BATCH)
        ]
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    @plain_floats()
    def feed(self, block: RowBlock | Rows) -> None:
        """Score a block; an array's rows follow those fed before."""
        if not isinstance(block, RowBlock):
            block = RowBlock(self.rows, len(block), usable_rows(block))
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
            self._frames["floats"] = choose_frame(_spread(rows))
        return cast_shadow(rows, self._frames["floats"], narrow=narrow, pool=self._pool, threads=self.threads)

    def _feed_plainly(self, block: RowBlock) -> None:
        rows = block.rows if block.rows is not None else _fetch_all(block)
        for batch in self._batches:
            batch.scan_plainly(rows, block)


class _Batch:
    """Up to BATCH queries: their probes, sieves and best k."""

    def __init__(self, queries: Floats, norms: Floats, k: int, metric: Metric, threads: int) -> None:
        self.queries = np.ascontiguousarray(queries)
        self.norms = np.ascontiguousarray(norms)
        self.k = k
        self.metric = metric
        self.threads = threads
        self._compiled: Any = compiled()
        self._best = self._compiled.Best(len(queries), k) if self._compiled is not None else _PlainBest(len(queries), k)
        self._modes: dict[bool, _Mode] = {}

    def scan(self, block: RowBlock, shadow: Shadow, terms: RowTerms, pool: ThreadPoolExecutor | None) -> int:
        """Score a block; how many candidates were scored again."""
        narrow = shadow.codes.dtype == np.int8
        mode = self._modes.get(narrow)
        if mode is None or mode.frame is not shadow.frame:
            probe = make_probe(self.queries, self.norms, self.metric, shadow.frame, narrow=narrow)
            mode = self._modes[narrow] = _Mode(probe, shadow.frame, self.k, self.threads, self._compiled)
        keys = np.empty(len(self.queries))
        self._best.kth(keys)
        for sieve in mode.sieves:
            sieve.set_rows(terms.A, terms.E, terms.N, terms.H)
            sieve.raise_to(keys)
        rescored = 0

        def settle() -> None:
            nonlocal rescored
            rescored += self._settle(block, mode, pool)

        if not narrow:
            mode.scan_floats(shadow.codes, pool, settle)
        elif len(self.queries) <= FEW:
            mode.scan_few(shadow.codes, pool, settle)
        else:
            mode.scan_tiles(shadow.codes, pool, settle)
        settle()
        return rescored

    def _settle(self, block: RowBlock, mode: _Mode, pool: ThreadPoolExecutor | None) -> int:
        rescored = sum(int(sieve.total) for sieve in mode.sieves)
        rows, where = block.rows, None
        if rows is None:
            assert block.fetch is not None
            wanted = np.unique(np.concatenate([sieve.rows() for sieve in mode.sieves]))
            where = np.zeros(block.count, np.int32)
            where[wanted] = np.arange(len(wanted), dtype=np.int32)
            rows = usable_rows(block.fetch(wanted.astype(np.int64) + block.first))

        def work(start: int, stop: int) -> None:
            self._compiled.settle(
                self._best,
                mode.sieves,
                rows,
                self.queries,
                self.norms,
                int(self.metric),
                block.first,
                where,
                block.ids,
                start,
                stop,
            )

        split(pool, self.threads, len(self.queries), work)
        for sieve in mode.sieves:
            self._compiled.recount(sieve)
        return rescored

    def scan_plainly(self, rows: Rows, block: RowBlock) -> None:
        """Without the compiled kernels: float64 BLAS scores first, the defined order for what is close."""
        ids = block.ids if block.ids is not None else np.arange(block.first, block.first + block.count)
        for j in range(len(self.queries)):
            near = _near(rows, self.queries[j], self.norms[j], self.metric, self.k)
            keys, ties = reference.score_all(rows[near], self.queries[j : j + 1], self.metric)
            self._best.offer_one(j, ids[near], keys[0], ties[0])

    def kth(self) -> Floats:
        keys = np.empty(len(self.queries))
        self._best.kth(keys)
        return keys

    def offer(self, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        keys, ties = (np.ascontiguousarray(v, np.float64) for v in (keys, ties))
        self._best.offer(np.ascontiguousarray(rows, np.int64), keys, ties)

    def result(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        shape = (len(self.queries), self.k)
        rows, keys, ties = np.empty(shape, np.int64), np.empty(shape), np.empty(shape)
        self._best.read(rows, keys, ties)
        return rows, keys, ties


class _Mode:
    """One way to score a batch: its probe and one sieve a thread."""

    def __init__(self, probe: Probe, frame: Frame, k: int, threads: int, compiled: Any) -> None:
        self.probe = probe
        self.frame = frame
        self.sieves = [
            compiled.Sieve(k, probe.P, probe.Q, probe.R, probe.alpha, probe.beta, probe.slack) for _ in range(threads)
        ]
        self._packed: Any = None
        self._transposed: NDArray[np.float32] | None = None

    def scan_tiles(self, codes: NDArray[np.int8], pool: ThreadPoolExecutor | None, settle: Callable[[], None]) -> None:
        """int8 products by numkong, a tile at a time, each through a thread's own sieve."""
        import numkong

        if self._packed is None:
            self._packed = numkong.dots_pack(self.probe.codes)
        packed, width, threads = self._packed, len(self.probe.P), len(self.sieves)
        limit = HELD // threads
        # Strips between which the sieves may be emptied: near-ties must not fill the memory.
        strip = max(TILE * threads, min(len(codes), HELD // max(width, 1) * 4 // TILE * TILE))
        for low in range(0, len(codes), strip):
            high = min(low + strip, len(codes))
            each = -(-(high - low) // threads)

            def work(start: int, stop: int, low: int = low, high: int = high, each: int = each) -> None:
                for worker in range(start, stop):
                    sieve = self.sieves[worker]
                    scores = numkong.empty((TILE, width), dtype="int32")
                    view = np.asarray(scores)
                    end = min(low + (worker + 1) * each, high)
                    for at in range(low + worker * each, end, TILE):
                        rows = min(TILE, end - at)
                        if rows < TILE:
                            scores = numkong.empty((rows, width), dtype="int32")
                            view = np.asarray(scores)
                        numkong.dots_packed(codes[at : at + rows], packed, out=scores)
                        sieve.push_int(view, at, rows)

            split(pool, threads, threads, work)
            if high < len(codes) and any(sieve.total > limit for sieve in self.sieves):
                settle()

    def scan_few(self, codes: NDArray[np.int8], pool: ThreadPoolExecutor | None, settle: Callable[[], None]) -> None:
        """int8 products and filter in one kernel: for a few queries, whose scores need no tile."""
        probe, threads = np.ascontiguousarray(self.probe.codes), len(self.sieves)
        strip = max(1 << 16, HELD // max(1, len(probe)))
        for low in range(0, len(codes), strip):
            high = min(low + strip, len(codes))
            each = -(-(high - low) // threads)

            def work(start: int, stop: int, low: int = low, high: int = high, each: int = each) -> None:
                for worker in range(start, stop):
                    begin = min(low + worker * each, high)
                    self.sieves[worker].scan(codes, probe, begin, min(begin + each, high))

            split(pool, threads, threads, work)
            if high < len(codes) and any(sieve.total > HELD // threads for sieve in self.sieves):
                settle()

    def scan_floats(
        self, codes: NDArray[np.float32], pool: ThreadPoolExecutor | None, settle: Callable[[], None]
    ) -> None:
        """float32 products by BLAS, which has threads of its own, then the filter on ours."""
        threads = len(self.sieves)
        if self._transposed is None:
            self._transposed = np.ascontiguousarray(self.probe.codes.T, np.float32)
        width = self._transposed.shape[1]
        tile = max(TILE, min(WIDE_TILE * max(1, 256 // width), len(codes)))
        scores = np.empty((tile, width), np.float32)
        for at in range(0, len(codes), tile):
            rows = min(tile, len(codes) - at)
            with np.errstate(all="ignore"):
                np.matmul(codes[at : at + rows], self._transposed, out=scores[:rows])

            def work(start: int, stop: int, at: int = at, rows: int = rows) -> None:
                for worker in range(start, stop):
                    low, high = rows * worker // threads, rows * (worker + 1) // threads
                    self.sieves[worker].push_float(scores[low:], at + low, high - low)

            split(pool, threads, threads, work)
            if any(sieve.total > HELD // threads for sieve in self.sieves):
                settle()


class _PlainBest:
    """The NumPy twin of native Best."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self._rows = [np.empty(0, np.int64) for _ in range(queries)]
        self._keys = [np.empty(0) for _ in range(queries)]
        self._ties = [np.empty(0) for _ in range(queries)]

    def offer_one(self, query: int, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        rows = np.concatenate([self._rows[query], rows])
        keys = np.concatenate([self._keys[query], keys])
        ties = np.concatenate([self._ties[query], ties])
        found = reference.rank(keys, ties, rows, self.k)
        self._rows[query], self._keys[query], self._ties[query] = found

    def offer(self, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        for query in range(len(rows)):
            real = rows[query] >= 0
            self.offer_one(query, rows[query][real], keys[query][real], ties[query][real])

    def kth(self, out: Floats) -> None:
        for query, keys in enumerate(self._keys):
            out[query] = keys[-1] if len(keys) == self.k and not np.isnan(keys[-1]) else -np.inf

    def read(self, rows: NDArray[np.int64], keys: Floats, ties: Floats) -> None:
        rows[:], keys[:], ties[:] = -1, np.nan, 0
        for query, found in enumerate(self._rows):
            part = slice(0, len(found))
            rows[query, part], keys[query, part], ties[query, part] = found, self._keys[query], self._ties[query]


def _near(rows: Rows, query: Floats, norm: float, metric: Metric, k: int) -> NDArray[np.int64]:
    """The rows that may be among the best k by float64 BLAS, whose error is bounded by that of any order of sums."""
    if len(rows) <= k:
        return np.arange(len(rows))
    with np.errstate(all="ignore"):
        wide = rows.astype(np.float64)
        squares = np.einsum("ij,ij->i", wide, wide)
        product = wide @ query
        if metric is Metric.L2:
            keys, size = 2 * product - squares, squares + norm * norm
        elif metric is Metric.COSINE:
            keys, size = product / (np.sqrt(squares) * norm), np.ones(len(rows))
            keys[squares == 0] = 0
        else:
            keys, size = product, np.sqrt(squares) * norm
        bound = size * (len(query) + 16) * 2.0**-50
        # The bound is relative: rows whose squares may have lost bits to underflow, or overflowed, are all scored.
        sound = (squares >= 2.0**-800) & (squares <= 2.0**800)
        if rows.dtype != np.float64:
            sound |= squares == 0
        sound &= 2.0**-400 <= norm <= 2.0**400 or not query.any()
        lower = np.where(sound, keys - bound, -np.inf)
        limit = np.partition(lower, len(lower) - k)[len(lower) - k]
        return np.flatnonzero(~(sound & (keys + bound < limit)))


def _fetch_all(block: RowBlock) -> Rows:
    assert block.fetch is not None
    return usable_rows(block.fetch(np.arange(block.first, block.first + block.count)))


def _spread(rows: Rows, count: int = 2048) -> Rows:
    """Some rows, evenly spread."""
    return rows[:: max(1, len(rows) // count)][:count]


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
