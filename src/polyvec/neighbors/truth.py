"""Ground truth: the exact neighbours of every query, computed, written, resumed after a kill, and checked.

The state of an unfinished run lies beside the output as `.NAME.truth-state`: what it is the truth of, how many rows
of the base are done, and the best k so far. It is replaced atomically and removed when the output is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.sinks import Sink, refuse_inputs
from polyvec.neighbors.base import Base, check_vectors, opened, row_blocks, scorable
from polyvec.neighbors.metric import Metric, parse_metric
from polyvec.neighbors.scan import Scan, check_queries
from polyvec.neighbors.search import check_k

STYLES = ("ids", "big-ann", "cuvs", "hdf5")
SAVE_SECONDS = 20.0  # between saved states: what a kill costs at most
STATE_MAGIC = b"PVTRUTH1"


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact neighbours of each query, best first, shape (queries, k)."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    metric: str

    @property
    def distances(self) -> NDArray[np.float32]:
        """Scores as ground-truth files hold them: float32; l2 squared, ip and cosine as they are."""
        return self.scores.astype(np.float32)


@dataclass(frozen=True, slots=True)
class TruthReceipt:
    """What `write_truth` did."""

    outputs: tuple[str, ...]
    queries: int
    k: int
    metric: str
    base_rows: int
    resumed_at: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def compute_truth(
    base: Base, queries: Base, *, k: int = 100, metric: str = "l2", threads: int | None = None,
    progress: Progress | None = None,
) -> Truth:  # fmt: skip
    """The exact k nearest rows of each query, over a file, shards, a collection or an array.

    >>> compute_truth(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[1:2], k=1).rows
    array([[1]])
    """
    return _compute(base, queries, k, parse_metric(metric), threads, progress, None)[0]


def write_truth(
    base: Base, queries: Base, output: str | os.PathLike[str], *, k: int = 100, metric: str = "l2",
    style: str | None = None, resume: bool = True, threads: int | None = None, progress: Progress | None = None,
) -> TruthReceipt:  # fmt: skip
    """Compute ground truth and write it.

    `style`: "ids" (one file of ids, .ibin), "big-ann" (ids, then float32 distances, in one file), "cuvs" (ids in
    OUTPUT.ibin, distances in OUTPUT.distances.fbin beside it) or "hdf5" (ann-benchmarks: train, test, neighbors,
    distances). Without it the suffix decides. A killed run is taken up where its saved state is.
    """
    started = time.perf_counter()
    target = Path(output)
    style = style or guess_style(target)
    if style not in STYLES:
        raise InputError(f"style {style!r} is unknown; use one of {', '.join(STYLES)}")
    inputs = [p for side in (base, queries) for p in _paths(side)]
    refuse_inputs(target, inputs)
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; create it first")
    state = _State(target.with_name(f".{target.name}.truth-state")) if resume else None
    truth, resumed = _compute(base, queries, k, parse_metric(metric), threads, progress, state)
    with opened(base) as (_, vectors), opened(queries) as (_, asked):
        outputs = _write(truth, target, style, vectors, asked, inputs)
        rows = vectors.rows
    if state is not None:
        state.path.unlink(missing_ok=True)
    return TruthReceipt(tuple(outputs), len(truth.rows), k, truth.metric, rows, resumed, time.perf_counter() - started)


def guess_style(target: Path) -> str:
    """The style a suffix means."""
    suffix = target.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return "hdf5"
    return "big-ann" if suffix in (".truth", ".gt", ".bin") else "ids"


def check_ids(ids: NDArray[Any], rows: int, label: str = "the ground truth") -> None:
    """`InputError` where an id is no row of the base; -1 stands for a neighbour that was not found."""
    if ids.dtype.kind not in "iu" or ids.ndim != 2:
        raise InputError(f"{label} holds {ids.dtype} of shape {ids.shape}; expected ids, one row a query")
    bad = np.argwhere((ids < -1) | (ids >= rows)) if ids.dtype.kind == "i" else np.argwhere(ids >= rows)
    if len(bad):
        query, place = map(int, bad[0])
        raise InputError(
            f"{label}: id {int(ids[query, place])} of query {query} (place {place}) is out of range; the base has "
            f"{rows} rows, ids are 0 to {rows - 1}"
        )


def verify_truth(
    base: Base, queries: Base, truth: Base, *, metric: str = "l2", sample: int = 8, threads: int | None = None
) -> None:
    """`InputError` unless a ground truth is of this base and these queries.

    Ids must be rows of the base; then `sample` queries, spread evenly, are searched exactly: each place must hold
    the exact neighbour, or one at the same distance. A truth of another base fails at the first of them.
    """
    chosen = parse_metric(metric)
    with opened(base) as (_, vectors), opened(queries) as (_, asked), opened(truth) as (found, _):
        ids, distances = truth_arrays(found)
        check_vectors(vectors)
        check_k(ids.shape[1], vectors, asked.row_shape[0])
        if len(ids) != asked.rows:
            raise InputError(f"the ground truth is of {len(ids)} queries and there are {asked.rows}; it is of others")
        check_ids(ids, vectors.rows)
        some = np.unique(np.linspace(0, len(ids) - 1, min(sample, len(ids))).astype(np.int64))
        probes = scorable(asked.take(some))
        exact = compute_truth(vectors, probes, k=ids.shape[1], metric=metric, threads=threads)
        listed = ids[some].astype(np.int64)
        scores = score_listed(vectors, probes, listed, chosen)
        for i, query in enumerate(some):
            wrong = np.flatnonzero(~_close(scores[i], exact.scores[i]))
            if len(wrong):
                place = int(wrong[0])
                raise InputError(
                    f"the ground truth is not of this base under {metric}: for query {int(query)}, place {place}, it "
                    f"names row {int(listed[i, place])} (score {scores[i, place]:.6g}), the exact neighbour is row "
                    f"{int(exact.rows[i, place])} (score {exact.scores[i, place]:.6g})"
                )
            if distances is not None and not _told(distances[query], scores[i], chosen):
                raise InputError(
                    f"the ground truth's distances are not of this base: query {int(query)} has "
                    f"{float(distances[query][0]):.6g} first and {scores[i, 0]:.6g} was computed ({metric})"
                )


def score_listed(column: Column, queries: NDArray[Any], ids: NDArray[np.int64], metric: Metric) -> NDArray[np.float64]:
    """float64 scores of listed rows, one list a query; NaN where an id is -1."""
    probes = check_queries(queries, metric)
    wanted, inverse = np.unique(np.maximum(ids, 0), return_inverse=True)
    rows = scorable(column.take(wanted)).astype(np.float64)[inverse.reshape(ids.shape)]
    with np.errstate(all="ignore"):
        if metric is Metric.L2:
            scores = ((rows - probes[:, None, :]) ** 2).sum(axis=2)
        else:
            scores = (rows * probes[:, None, :]).sum(axis=2)
            if metric is Metric.COSINE:
                lengths = np.sqrt((rows**2).sum(axis=2))
                scores = np.where(lengths > 0, scores / (lengths * np.linalg.norm(probes, axis=1)[:, None]), 0.0)
    scores[ids < 0] = np.nan
    out: NDArray[np.float64] = scores
    return out


def truth_arrays(found: Collection) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Ids and, where there are any, distances of a ground truth or a result, by their usual names."""
    ids = next((found[n] for n in ("ids", "neighbors", "neighbours") if n in found.columns), found.vectors)
    distances = next((found[n] for n in ("distances", "dists") if n in found.columns), None)
    array = ids.to_numpy()
    if array.dtype.kind not in "iu" or array.ndim != 2:
        raise InputError(
            f"column {ids.name!r} holds {ids.dtype} of shape {ids.shape}; expected neighbours' ids, one row a query"
        )
    return array, None if distances is None else distances.to_numpy()


def _close(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Equal up to the rounding of float32 scores: other programs break their ties by those."""
    scale = max(float(np.nanmax(np.abs(b), initial=0.0)), 1e-300)
    return (np.abs(a - b) <= 1e-5 * scale) | (np.isnan(a) & np.isnan(b))


def _told(distances: NDArray[Any], scores: NDArray[np.float64], metric: Metric) -> bool:
    """Whether stored distances are these scores, in any of the usual conventions."""
    told = distances.astype(np.float64)
    readings = [scores, -scores, 1 - scores]
    if metric is Metric.L2:
        readings = [scores, np.sqrt(scores)]
    return any(bool(_close(told, r).all()) or np.allclose(told, r, rtol=1e-3, atol=1e-5) for r in readings)


def _compute(
    base: Base, queries: Base, k: int, metric: Metric, threads: int | None, progress: Progress | None,
    state: _State | None,
) -> tuple[Truth, int]:  # fmt: skip
    name = metric.name.lower()
    with opened(base) as (collection, vectors), opened(queries) as (_, asked):
        check_vectors(vectors)
        check_vectors(asked, "the queries")
        check_k(k, vectors, asked.row_shape[0])
        probes = check_queries(scorable(asked.to_numpy()), metric)
        scan = Scan(probes, k=k, metric=metric, threads=threads)
        start = 0
        if state is not None:
            state.mark = _mark(collection, vectors, probes, k, name)
            found = state.load(probes.shape[0], k)
            if found is not None:
                start, rows, scores = found
                scan.resume(rows, scores)
        saved = time.monotonic()
        for block in row_blocks(vectors, start=start):
            scan.feed(block)
            done = block.first + block.count
            if progress is not None:
                progress(done, vectors.rows)
            if state is not None and time.monotonic() - saved > SAVE_SECONDS and done < vectors.rows:
                state.save(done, *scan.peek())
                saved = time.monotonic()
        return Truth(*scan.result(), name), start


def _mark(collection: Collection, vectors: Column, probes: NDArray[np.float64], k: int, metric: str) -> dict[str, Any]:
    """What a saved state is of: the base (its shape, files and some of its rows), the queries, k and metric."""
    some = np.unique(np.linspace(0, vectors.rows - 1, min(vectors.rows, 64)).astype(np.int64))
    rows = scorable(vectors.take(some))
    return {
        "base": [vectors.rows, vectors.row_shape[0], str(vectors.dtype), hashlib.sha256(rows.tobytes()).hexdigest()],
        "queries": [len(probes), hashlib.sha256(probes.tobytes()).hexdigest()],
        "k": k,
        "metric": metric,
    }


class _State:
    """The saved state of a run; `mark` says what it is of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark: dict[str, Any] = {}

    def save(self, done: int, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
        head = json.dumps({"mark": self.mark, "done": done}).encode()
        body = rows.tobytes() + scores.tobytes()
        with Sink(self.path, durable=False) as sink:
            sink.write(STATE_MAGIC + len(head).to_bytes(4, "little") + head + body + hashlib.sha256(body).digest())

    def load(self, queries: int, k: int) -> tuple[int, NDArray[np.int64], NDArray[np.float64]] | None:
        """The state, where there is one of this very run; anything else is passed over."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        length = int.from_bytes(data[8:12], "little")
        size = queries * k * 8
        if data[:8] != STATE_MAGIC or len(data) != 12 + length + 2 * size + 32:
            return None
        body = data[12 + length : -32]
        try:
            head = json.loads(data[12 : 12 + length])
        except ValueError:
            return None
        if hashlib.sha256(body).digest() != data[-32:] or head.get("mark") != self.mark:
            return None
        rows = np.frombuffer(body, np.int64, queries * k).reshape(queries, k)
        scores = np.frombuffer(body, np.float64, queries * k, size).reshape(queries, k)
        return int(head["done"]), rows, scores


def _write(truth: Truth, target: Path, style: str, vectors: Column, asked: Column, inputs: list[str]) -> list[str]:
    from polyvec.verbs.convert import write

    limit = 2**31 if style != "hdf5" else 2**63
    kind = np.int32 if vectors.rows <= limit else np.uint32
    if vectors.rows > 2**32 and style != "hdf5":
        raise InputError(f"{style} ids have 32 bits and the base has {vectors.rows} rows; write hdf5 instead")
    ids = truth.rows.astype(kind)
    if style == "ids":
        known = target.suffix.lower() in (".ibin", ".u32bin", ".npy", ".ivecs")
        write(target, ids, measure=False, format=None if known else "ibin" if kind is np.int32 else "u32bin")
        return [str(target)]
    if style == "big-ann":
        write(target, {"ids": ids, "distances": truth.distances}, format="truth", measure=False)
        return [str(target)]
    if style == "cuvs":
        beside = target.with_name(f"{target.stem}.distances.fbin")
        write(beside, truth.distances, format="fbin", measure=False)
        write(target, ids, format="ibin" if kind is np.int32 else "u32bin", measure=False)
        return [str(target), str(beside)]
    collection = Collection(
        {"train": vectors, "test": asked, **_array_columns(truth)},
        main="train",
        metadata={"distance": {"l2": "euclidean", "cosine": "angular", "ip": "dot"}[truth.metric]},
    )
    write(target, collection, format="hdf5", measure=False)
    return [str(target)]


def _array_columns(truth: Truth) -> dict[str, Column]:
    """Neighbours and distances in the conventions of ann-benchmarks: Euclidean, 1 - cosine, minus the product."""
    from polyvec.core.columns import ArrayColumn

    scores = truth.scores
    shown = {"l2": np.sqrt(np.maximum(scores, 0)), "cosine": 1 - scores, "ip": -scores}[truth.metric]
    kind = np.int32 if truth.rows.size == 0 or truth.rows.max() < 2**31 else np.int64
    return {
        "neighbors": ArrayColumn("neighbors", truth.rows.astype(kind)),
        "distances": ArrayColumn("distances", shown.astype(np.float32)),
    }


def _paths(side: Base) -> list[str]:
    if isinstance(side, (str, os.PathLike)):
        return [os.fspath(side)]
    if isinstance(side, (list, tuple)):
        return [os.fspath(s) for s in side if isinstance(s, (str, os.PathLike))]
    return [side.path] if isinstance(side, Collection) and side.path else []
