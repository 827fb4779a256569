"""A batch of queries on its way through the blocks: its probes, its sieves, its best k, and three ways to score it.

`few`: one kernel makes int8 products and sieves them at once. `tiles`: numkong multiplies tiles of codes, which are
sieved as they lie in the cache. `floats`: BLAS multiplies float32 rows. All three keep the rows that the bounds cannot
exclude, which are then scored by the one definition (`polyvec.kernels.scores`): the way chosen changes no score.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.scores import compiled
from polyvec.neighbors import reference
from polyvec.neighbors.metric import Metric
from polyvec.neighbors.probe import Probe, make_probe
from polyvec.neighbors.rows import RowBlock, Rows, scorable
from polyvec.neighbors.shadow import Frame, RowTerms, Shadow, split

Floats = NDArray[np.float64]

TILE = 256  # rows a tile of int8 scores
WIDE_TILE = 4096  # rows a tile of float32 scores: a BLAS call must be worth its start
FEW = 4  # up to so many queries are scanned without tiles
HELD = 4_000_000  # candidates held at most before they are settled


class Batch:
    """Queries that are scored together: their probes, sieves and best k."""

    def __init__(self, queries: Floats, norms: Floats, k: int, metric: Metric, threads: int) -> None:
        self.queries = np.ascontiguousarray(queries)
        self.norms = np.ascontiguousarray(norms)
        self.k = k
        self.metric = metric
        self.threads = threads
        self._compiled: Any = compiled()
        self._best = (
            self._compiled.Best(len(queries), k) if self._compiled is not None else reference.PlainBest(len(queries), k)
        )
        self._modes: dict[bool, Mode] = {}

    def scan(self, block: RowBlock, shadow: Shadow, terms: RowTerms, pool: ThreadPoolExecutor | None) -> int:
        """Score a block; how many candidates were scored again."""
        narrow = shadow.codes.dtype == np.int8
        mode = self._modes.get(narrow)
        if mode is None or mode.frame is not shadow.frame:
            probe = make_probe(self.queries, self.norms, self.metric, shadow.frame, narrow=narrow)
            mode = self._modes[narrow] = Mode(probe, shadow.frame, self.k, self.threads, self._compiled)
        keys = np.empty(len(self.queries))
        self._best.kth(keys)
        for sieve in mode.sieves:
            sieve.set_rows(*terms.arrays())
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

    def _settle(self, block: RowBlock, mode: Mode, pool: ThreadPoolExecutor | None) -> int:
        rescored = sum(int(sieve.total) for sieve in mode.sieves)
        rows, where = block.rows, None
        if rows is None:
            assert block.fetch is not None
            wanted = np.unique(np.concatenate([sieve.rows() for sieve in mode.sieves]))
            where = np.zeros(block.count, np.int32)
            where[wanted] = np.arange(len(wanted), dtype=np.int32)
            rows = scorable(block.fetch(wanted.astype(np.int64) + block.first))

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
        near = reference.near_rows(rows, self.queries, self.norms, self.metric, self.k)
        for query, some in enumerate(near):
            keys, ties = reference.score_all(rows[some], self.queries[query : query + 1], self.metric)
            self._best.offer_one(query, ids[some], keys[0], ties[0])

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


class Mode:
    """One way to score a batch: its probe and one sieve a thread."""

    def __init__(self, probe: Probe, frame: Frame, k: int, threads: int, compiled: Any) -> None:
        self.probe = probe
        self.frame = frame
        self.sieves = [
            compiled.Sieve(k, *probe.terms.arrays(), probe.alpha, probe.beta, probe.slack) for _ in range(threads)
        ]
        self._packed: Any = None
        self._transposed: NDArray[np.float32] | None = None

    def scan_tiles(self, codes: NDArray[np.int8], pool: ThreadPoolExecutor | None, settle: Callable[[], None]) -> None:
        """int8 products by numkong, a tile at a time, each through a thread's own sieve."""
        import numkong

        if self._packed is None:
            self._packed = numkong.dots_pack(self.probe.codes)
        packed, width, threads = self._packed, len(self.probe.codes), len(self.sieves)
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
