"""What one encoding does to the rows, added up block by block: errors, turns, drift, and an exact search of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.neighbors.metric import Metric
from polyvec.neighbors.rows import RowBlock, scorable
from polyvec.neighbors.scan import Scan
from polyvec.reports.recall import Recall, recall_at
from polyvec.reports.trials import Decode, Singles

ERROR_BINS = np.concatenate([[0.0], np.logspace(-10, 2, 61), [np.inf]])


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding's figures. Errors are absolute, per value; distortion is 1 - cosine; drift is relative."""

    name: str
    title: str
    bytes: int
    ratio: float
    max_error: float
    mean_error: float
    max_distortion: float
    mean_distortion: float
    norm_drift: float
    recalls: tuple[Recall, ...]
    error_histogram: tuple[int, ...] = ()
    failed: str | None = None

    def recall(self, k: int) -> Recall | None:
        """The recall at k, where it was measured."""
        return next((r for r in self.recalls if r.k == k), None)


@dataclass(frozen=True, slots=True)
class Rows:
    """Finite rows of one block, with their numbers in the file, and those of them that are searched."""

    start: int
    stop: int
    values: Singles
    numbers: NDArray[np.int64]
    kept: NDArray[np.bool_] | None  # None where all are
    searched: Singles
    ids: NDArray[np.int64]
    norms: NDArray[np.float64]  # of the searched ones


class Tally:
    """One encoding's sums, and its own scan."""

    def __init__(self, name: str, title: str, size: float, scan: Scan) -> None:
        self.name, self.title, self.size = name, title, round(size)
        self.scan = scan
        self.decode: Decode | None = None
        self.column: Column | None = None
        self.failed: str | None = None
        self.values = self.rows = 0
        self.max_error = self.sum_error = self.max_turn = self.sum_turn = self.sum_drift = 0.0
        self.histogram = np.zeros(len(ERROR_BINS) - 1, np.int64)

    def add(self, block: Rows) -> None:
        """A further block of the original's rows."""
        if self.failed is not None or not len(block.ids):
            return
        try:
            if self.column is not None:
                stored = scorable(self.column[block.start : block.stop])
                after = np.ascontiguousarray(stored[block.numbers - block.start].astype(np.float32))
            else:
                assert self.decode is not None
                after = np.ascontiguousarray(self.decode(block.values, block.numbers))
        except InputError as error:
            self.failed = str(error)
            return
        if block.kept is not None:
            after = np.ascontiguousarray(after[block.kept])
        feed(self.scan, after, block.ids)
        rows, norms = block.searched, block.norms
        with np.errstate(all="ignore"):
            gap = np.abs(rows - after)
            self.max_error = max(self.max_error, float(gap.max(initial=0.0)))
            self.sum_error += float(gap.sum(dtype=np.float64))
            some = gap[:: max(1, len(gap) // 512)]
            self.histogram += np.histogram(some, ERROR_BINS)[0]
            lengths = np.sqrt(np.einsum("ij,ij->i", after, after, dtype=np.float64))
            products = np.einsum("ij,ij->i", rows, after, dtype=np.float64)
            both = norms * lengths
            turn = np.where(both > 0, 1 - products / both, np.where(norms == lengths, 0.0, 1.0))
            drift = np.where(norms > 0, np.abs(lengths - norms) / norms, (lengths > 0).astype(float))
        self.max_turn = max(self.max_turn, float(turn.max()))
        self.sum_turn += float(np.maximum(turn, 0).sum())
        self.sum_drift += float(drift.sum())
        self.rows += len(rows)
        self.values += rows.size

    def entry(
        self, ids: NDArray[np.int64], keys: NDArray[np.float64], ks: Sequence[int], raw: int, metric: Metric
    ) -> Entry:
        """The figures, against the true ids and their keys."""
        found, _ = self.scan.result()
        nothing = (0.0,) * 5
        ratio = raw / max(1, self.size)
        if self.failed is not None or not self.rows:
            return Entry(self.name, self.title, self.size, ratio, *nothing, recalls=(), failed=self.failed or "no rows")
        recalls = tuple(recall_at(k, found, ids, None, keys, metric) for k in ks)
        return Entry(
            name=self.name,
            title=self.title,
            bytes=self.size,
            ratio=ratio,
            max_error=self.max_error,
            mean_error=self.sum_error / self.values,
            max_distortion=max(0.0, self.max_turn),
            mean_distortion=self.sum_turn / self.rows,
            norm_drift=self.sum_drift / self.rows,
            recalls=recalls,
            error_histogram=tuple(map(int, self.histogram)),
        )


def cut(start: int, stop: int, values: Singles, numbers: NDArray[np.int64], held: NDArray[np.int64]) -> Rows:
    """A block of finite rows, without those held out as queries."""
    kept = ~np.isin(numbers, held)
    every = bool(kept.all())
    searched = values if every else np.ascontiguousarray(values[kept])
    norms = np.sqrt(np.einsum("ij,ij->i", searched, searched, dtype=np.float64))
    return Rows(start, stop, values, numbers, None if every else kept, searched, numbers[kept], norms)


def feed(scan: Scan, rows: Singles, ids: NDArray[np.int64]) -> None:
    """Search rows under their numbers in the file."""
    if len(ids):
        scan.feed(RowBlock(int(ids[0]), len(rows), rows, ids=ids))
