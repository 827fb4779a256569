"""search: the best k rows of any collection for each query, exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import check_texts, check_threads, check_whole, shown
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import DeviceError, DeviceWarning, InputError, MissingExtra, Unsearchable
from polyvec.core.format import Progress
from polyvec.core.progress import telling
from polyvec.core.vocab import Strings
from polyvec.neighbors.filters import Where, make_mask, shortage
from polyvec.neighbors.inputs import Base, check_vectors, opened, opened_queries, row_blocks, stamp_of
from polyvec.neighbors.metric import Metric, choose_metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan, check_queries

if TYPE_CHECKING:
    from polyvec.neighbors.index import Index

Rows = NDArray[Any]

USUAL = 10  # neighbours, where no k is given


@dataclass(frozen=True, slots=True)
class Hits:
    """The best of each query, best first, shape (queries, k).

    `rows` are row numbers, `ids` the collection's own ids (the rows where it has none), `scores` are float64:
    inner product, cosine, or squared distance, as `metric` (ip, cosine, l2) says. Where fewer rows than k passed a
    filter, row -1 and score NaN. `metric_from` is "given", "default" or "stated by FILE (KEY=VALUE)"; `notes` say
    where the metric is another than the collection's own, where fewer rows than k passed the filter, and where the
    base has fewer rows than the k that is usual.
    """

    rows: NDArray[np.int64]
    ids: NDArray[Any]
    scores: NDArray[np.float64]
    metric: str
    metric_from: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        scores = [[float(s) if np.isfinite(s) else None for s in row] for row in self.scores]
        return {
            "metric": self.metric,
            "metric_from": self.metric_from,
            "rows": self.rows.tolist(),
            "ids": self.ids.tolist(),
            "scores": scores,
            "notes": list(self.notes),
        }


def search(
    base: Base,
    queries: Base,
    k: int | None = None,
    metric: str | None = None,
    *,
    where: Where | None = None,
    column: str | None = None,
    index: Index | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    device: str = "cpu",
) -> Hits:
    """The best k rows of `base` for each query: the rows and scores of a float64 brute force, ties by lowest row.

    `base` and `queries` are paths, collections, columns or arrays; files are read in blocks, never whole.
    `k` is 10 unless given, or all rows where there are fewer; a given one may not exceed them.
    `metric` is ip, cosine or l2: the one the base states where it is not given, else cosine; the hits carry it.
    `where` keeps rows whose record has these field values (a mapping; numbers are compared by value, None is a missing
    one, of several values any), passes a predicate, or is True in a mask.
    `index` is an `Index` of this base. Rows with a NaN or an infinity have no score and come last. With
    `device="cuda"` the codes are searched in GPU memory; what cannot be searched there is searched on the CPU, with a
    `DeviceWarning`.

    >>> import numpy as np
    >>> hits = search(np.eye(3, dtype=np.float32), np.array([0, 2, 1], np.float32), k=2)
    >>> hits.rows, hits.metric
    (array([[1, 2]]), 'cosine')
    """
    check_whole(k=k)
    check_texts(column=column, device=device)
    check_threads(threads)
    if index is not None and not hasattr(index, "scan"):
        raise InputError(f"index must be an Index, not {shown(index)}")
    with (
        opened(base, column) as (collection, vectors),
        opened_queries(queries) as (_, asked),
        telling(progress, vectors.rows) as tell,
    ):
        choice = choose_metric(metric, [collection], default=Metric.COSINE)
        chosen = choice.metric
        check_vectors(vectors)
        if len(asked.row_shape) != 1:
            raise InputError(f"queries must be rows of numbers; found shape {asked.shape}")
        if asked.dtype.kind in "iu" and asked.dtype.itemsize > 1 and not isinstance(queries, np.ndarray):
            check_vectors(asked, "the queries")
        k, notes = settle_k(k, USUAL, vectors, asked.row_shape[0])
        notes = (*choice.notes, *notes)
        probes = check_queries(scorable(asked.to_numpy()), chosen)
        found = None
        if device != "cpu":
            if where is not None or index is not None:
                raise InputError(f"device={device!r} searches whole columns; leave the filter or index out")
            found = _on_device(vectors, probes, k, choice.word, device)
        if found is not None:
            rows, scores = found
        elif index is not None:
            if where is not None:
                raise InputError("an index cannot be combined with a filter; leave one of them out")
            index.check(vectors, stamp_of(base, vectors))
            rows, scores = index.scan(probes, k=k, metric=chosen, threads=threads, column=vectors)
        else:
            scan = Scan(probes, k=k, metric=chosen, threads=threads)
            passed = 0
            for block in row_blocks(vectors, mask=make_mask(collection, where)):
                scan.feed(block)
                passed += block.count
                if tell is not None:
                    tell(block.first + (block.count if where is None else 0), vectors.rows)
            rows, scores = scan.result()
            if where is not None:
                notes = (*notes, *shortage(where, passed, k))
        ids = _ids_of(collection, vectors, rows)
        return Hits(rows, ids, scores, choice.word, choice.source, notes)


def _on_device(vectors: Column, probes: NDArray[np.float64], k: int, metric: str, device: str) -> Any:
    """Rows and scores from a device; None, with a warning, where only the CPU can."""
    from polyvec.gpu.search import DeviceIndex

    try:
        return DeviceIndex(vectors, device=device).search(probes, k, metric)
    except (DeviceError, MissingExtra, Unsearchable) as error:
        warnings.warn(f"{error}; the CPU searches instead", DeviceWarning, stacklevel=3)
        return None


def settle_k(k: int | None, usual: int, vectors: Column, dim: int) -> tuple[int, tuple[str, ...]]:
    """The k to search with, checked: a given one as it is, else the usual one or, with a note, all rows of fewer."""
    given = min(usual, max(1, vectors.rows)) if k is None else k
    check_k(given, vectors, dim)
    if k is not None or given == usual:
        return given, ()
    return given, (f"k is {given}, as many as there are rows; it is {usual} unless given",)


def check_k(k: int, vectors: Column, dim: int) -> None:
    """`InputError` for an empty base, a k that cannot be had, or dimensions that differ."""
    if not vectors.rows:
        raise InputError("the base is empty; there is nothing to search")
    if k < 1:
        raise InputError(f"k is {k}; it must be at least 1")
    if k > vectors.rows:
        raise InputError(f"k is {k} and the base has only {vectors.rows} rows; ask for at most {vectors.rows}")
    if dim != vectors.row_shape[0]:
        raise InputError(f"the queries have {dim} dimensions and the base has {vectors.row_shape[0]}; they must agree")


def _ids_of(collection: Collection, vectors: Column, rows: NDArray[np.int64]) -> NDArray[Any]:
    """The ids of rows; the rows themselves where the collection has no ids for this column."""
    ids = collection.ids
    if ids is None or vectors.rows != collection.rows:
        return rows
    real = np.maximum(rows, 0)
    if isinstance(ids, Strings):
        found = np.array([ids[int(row)] for row in real.ravel()], object).reshape(rows.shape)
        found[rows < 0] = None
        return found
    values = ids.take(real.ravel()).reshape(rows.shape).astype(np.int64)
    values[rows < 0] = -1
    return values
