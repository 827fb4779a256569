"""Ground truth: the exact neighbours of every query, computed, written, and resumed after a kill.

The state of an unfinished run lies beside the output as `.NAME.truth-state`: what it is the truth of, how many rows
of the base are done with a checksum of those rows, and the best k so far. It is replaced atomically and removed when
the output is written. A run that takes it up reads the rows that are done again and goes on only where they still have
that checksum: a base that was changed, copied over or appended to in between starts over.
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

from polyvec import formats
from polyvec.core.arguments import check_flags, check_targets, check_texts, check_threads, check_whole
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.locks import job_lock
from polyvec.core.places import Identity, Place
from polyvec.core.progress import check_progress, telling
from polyvec.core.space import demand_space
from polyvec.core.targets import Together, check_target, open_sink
from polyvec.formats import near
from polyvec.kernels.checksum import crc32
from polyvec.neighbors.distances import KEY, LABELS, TABLE, Convention, from_scores, lost_range
from polyvec.neighbors.inputs import Base, check_vectors, opened, opened_queries, row_blocks
from polyvec.neighbors.metric import Choice, Metric, choose_metric, parse_metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan, check_queries
from polyvec.neighbors.search import settle_k
from polyvec.writing.inputs import as_collection
from polyvec.writing.options import Writing
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import write_collection

STYLES = {"ids": "", "big-ann": "big-ann", "cuvs": "cuvs", "hdf5": "ann-benchmarks"}  # style -> its table of distances
SUFFIXES = {
    "ids": (".ibin", ".u32bin", ".ivecs", ".npy"),
    "big-ann": (".truth", ".gt", ".bin", ".ibin"),
    "cuvs": (".ibin", ".u32bin"),
    "hdf5": (".hdf5", ".h5"),
}
Floats = NDArray[np.float64]
USUAL = 100  # neighbours, where no k is given
SAVE_SECONDS = 20.0  # between saved states: what a kill costs at most
STATE_BYTES = 24  # of a neighbour: its row, its score and what ranks it among equal scores
STATE_MAGIC = b"PVTRUTH3"


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact neighbours of each query, best first, shape (queries, k)."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    metric: str

    def distances(self, convention: Convention) -> NDArray[np.float32]:
        """The scores as a file holds them."""
        return from_scores(self.scores, convention)


@dataclass(frozen=True, slots=True)
class TruthReceipt:
    """What `write_truth` did. `distances` says what was written as such, None for ids alone; `sidecars` lie beside it."""

    outputs: tuple[str, ...]
    queries: int
    k: int
    metric: str
    metric_from: str
    distances: str | None
    base_rows: int
    resumed_at: int
    seconds: float
    notes: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def compute_truth(
    base: Base,
    queries: Base,
    *,
    k: int | None = None,
    metric: str | Metric | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Truth:
    """The exact k nearest rows of each query, over a file, shards, a collection or an array.

    `k` is 100 unless given, or all rows where there are fewer. `metric` may be left out where the base or the queries state theirs.

    >>> compute_truth(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[1:2], k=1, metric="l2").rows
    array([[1]])
    """
    check_whole(k=k)
    check_threads(threads)
    return _compute(base, queries, k, metric, threads, progress, None)[0]


def write_truth(
    base: Base,
    queries: Base,
    output: str | os.PathLike[str],
    *,
    k: int | None = None,
    metric: str | None = None,
    style: str | None = None,
    resume: bool = True,
    overwrite: bool = True,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    check_space: bool = True,
) -> TruthReceipt:
    """Compute ground truth and write it.

    `style`: "ids" (one file of ids, .ibin), "big-ann" (ids, then float32 distances, in one file), "cuvs" (ids in
    OUTPUT.ibin, distances in OUTPUT.distances.fbin beside it) or "hdf5" (ann-benchmarks: train, test, neighbors,
    distances). Without it the suffix decides. The metric and what the distances are (see `distances`) go into the
    file's metadata. A killed run is taken up where its saved state is. ``overwrite=False`` refuses to replace a file;
    ``check_space=False`` starts although the output will not fit.
    """
    started = time.perf_counter()
    check_targets(output=output)
    check_texts(style=style)
    check_flags(resume=resume, overwrite=overwrite, check_space=check_space)
    check_progress(progress)
    check_whole(k=k)
    check_threads(threads)
    target = Path(output)
    if metric is not None:
        parse_metric(metric)
    inputs = [p for side in (base, queries) for p in _paths(side)]
    check_target(target, inputs=inputs, overwrite=overwrite)
    style = _check_style(target, style)
    state = _State(target.with_name(f".{target.name}.truth-state")) if resume else None
    with job_lock(target):
        before = _stamps(inputs)
        with opened(base) as (_, vectors), opened_queries(queries) as (_, asked):
            found = asked.rows * min(USUAL if k is None else k, vectors.rows)
            copied = vectors.nbytes + asked.nbytes if style == "hdf5" else 0
            demand_space(target, found * (STATE_BYTES if resume else 0) + found * 8 + copied, refuse=check_space)
        truth, resumed, choice, said = _compute(base, queries, k, metric, threads, progress, state)
        if _stamps(inputs) != before:
            raise InputError(
                "the base or the queries were changed while they were read; run it again on files that rest"
            )
        notes = [*choice.notes, *said]
        with opened(base) as (collection, vectors), opened_queries(queries) as (_, asked):
            outputs, convention, sidecars = _write(
                truth, target, style, vectors, asked, choice.metric, notes, overwrite
            )
            rows = vectors.rows
            if collection.ids is not None:
                notes.append("the base has ids of its own; the truth lists row numbers, as such files do")
        if state is not None:
            notes += state.notes
            state.path.unlink(missing_ok=True)
    return TruthReceipt(
        tuple(outputs),
        len(truth.rows),
        truth.rows.shape[1],
        truth.metric,
        choice.source,
        convention,
        rows,
        resumed,
        time.perf_counter() - started,
        tuple(notes),
        sidecars,
    )


def _check_style(target: Path, style: str | None) -> str:
    """The style to write; `InputError` where it is unknown, or the file's name promises something else."""
    chosen = style or guess_style(target)
    if chosen not in STYLES:
        raise InputError(f"style {chosen!r} is unknown; use one of {', '.join(STYLES)}{near(chosen, STYLES)}")
    suffix = target.suffix.lower()
    taken = any(suffix in format.suffixes for format in formats.all_formats())
    if suffix and suffix not in SUFFIXES[chosen] and (taken or style is None):
        raise InputError(
            f"{target}: a ground truth of style {chosen} is a {', '.join(SUFFIXES[chosen])} file, not {suffix}; "
            "rename the output, or choose another style with --style (style=)"
        )
    return chosen


def guess_style(target: Path) -> str:
    """The style a suffix means."""
    suffix = target.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return "hdf5"
    return "big-ann" if suffix in (".truth", ".gt", ".bin") else "ids"


def _compute(
    base: Base,
    queries: Base,
    k: int | None,
    metric: str | Metric | None,
    threads: int | None,
    progress: Progress | bool | None,
    state: _State | None,
) -> tuple[Truth, int, Choice, tuple[str, ...]]:
    with (
        opened(base) as (collection, vectors),
        opened_queries(queries) as (also, asked),
        telling(progress, vectors.rows) as tell,
    ):
        choice = choose_metric(metric, [collection, also])
        check_vectors(vectors)
        check_vectors(asked, "the queries")
        k, notes = settle_k(k, USUAL, vectors, asked.row_shape[0])
        probes = check_queries(scorable(asked.to_numpy()), choice.metric)
        scan = Scan(probes, k=k, metric=choice.metric, threads=threads)
        start = checksum = 0
        if state is not None:
            state.mark = _mark(vectors, probes, k, choice.word)
            found = state.load(probes.shape[0], k)
            if found is not None:
                start, checksum, rows, scores, ties = found
                if _checksum(vectors, start, tell) == checksum:
                    scan.resume(rows, scores, ties)
                else:
                    state.notes.append("the base has changed since the saved run; all rows were scanned again")
                    start = checksum = 0
        saved = time.monotonic()
        for block in row_blocks(vectors, start=start):
            assert block.rows is not None
            scan.feed(block)
            done = block.first + block.count
            if state is not None:
                checksum = crc32(block.rows, checksum)
            if tell is not None:
                tell(done, vectors.rows)
            if state is not None and time.monotonic() - saved > SAVE_SECONDS and done < vectors.rows:
                state.save(done, checksum, *scan.peek(), scan.ties())
                saved = time.monotonic()
        return Truth(*scan.result(), choice.word), start, choice, notes


def _checksum(vectors: Column, stop: int, progress: Progress | None) -> int:
    """The CRC-32 of the first rows, as the kernels take them."""
    value = 0
    for block in row_blocks(vectors, stop=stop):
        value = crc32(np.ascontiguousarray(block.rows), value)
        if progress is not None:
            progress(block.first + block.count, vectors.rows)
    return value


def _mark(vectors: Column, probes: NDArray[np.float64], k: int, metric: str) -> dict[str, Any]:
    """What a saved state is of: the base's shape (its rows have their checksum), the queries, k and metric."""
    return {
        "base": [vectors.rows, vectors.row_shape[0], str(vectors.dtype)],
        "queries": [len(probes), hashlib.sha256(probes.tobytes()).hexdigest()],
        "k": k,
        "metric": metric,
    }


def _stamps(paths: list[str]) -> list[Identity | None]:
    """What tells that files were written to, of each that is one file."""
    return [Place.of(path).identity() for path in paths]


class _State:
    """The saved state of a run; `mark` says what it is of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark: dict[str, Any] = {}
        self.notes: list[str] = []

    def save(self, done: int, checksum: int, rows: NDArray[np.int64], scores: Floats, ties: Floats) -> None:
        head = json.dumps({"mark": self.mark, "done": done, "checksum": checksum}).encode()
        body = rows.tobytes() + scores.tobytes() + ties.tobytes()
        with open_sink(self.path, durable=False, working=True) as sink:
            sink.write(STATE_MAGIC + len(head).to_bytes(4, "little") + head + body + _digest(head + body))

    def load(self, queries: int, k: int) -> tuple[int, int, NDArray[np.int64], Floats, Floats] | None:
        """The state, where there is one of this very run; anything else is passed over."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        length = int.from_bytes(data[8:12], "little")
        size = queries * k * 8
        if data[:8] != STATE_MAGIC or len(data) != 12 + length + 3 * size + 32:
            return None
        body = data[12 + length : -32]
        if _digest(data[12:-32]) != data[-32:]:
            return None
        head = json.loads(data[12 : 12 + length])
        if head.get("mark") != self.mark:
            return None
        rows = np.frombuffer(body, np.int64, queries * k).reshape(queries, k)
        scores, ties = np.frombuffer(body, np.float64, 2 * queries * k, size).reshape(2, queries, k)
        return int(head["done"]), int(head["checksum"]), rows, scores, ties


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _write(
    truth: Truth,
    target: Path,
    style: str,
    vectors: Column,
    asked: Column,
    metric: Metric,
    notes: list[str],
    overwrite: bool,
) -> tuple[list[str], str | None, tuple[str, ...]]:
    """Write the files; their names, what the distances in them are, and what lies beside them. `notes` take what they could not hold."""

    def write(path: Path, data: Any, format: str | None, about: dict[str, Any] | None, files: Any = None) -> Receipt:
        writing = Writing(format=format, measure=False, overwrite=overwrite, together=files)
        return write_collection(path, as_collection(data, metadata=about), writing)

    limit = 2**31 if style != "hdf5" else 2**63
    kind = np.int32 if vectors.rows <= limit else np.uint32
    if vectors.rows > 2**32 and style != "hdf5":
        raise InputError(f"{style} ids have 32 bits and the base has {vectors.rows} rows; write hdf5 instead")
    ids = truth.rows.astype(kind)
    about: dict[str, Any] = {"metric": truth.metric}
    if style == "ids":
        known = target.suffix.lower() in (".ibin", ".u32bin", ".npy", ".ivecs")
        format = None if known else "ibin" if kind is np.int32 else "u32bin"
        made = write(target, ids, format, about)
        return [str(target)], None, made.sidecars
    convention = TABLE[STYLES[style]][metric]
    near = truth.distances(convention)
    notes += lost_range(truth.scores, near)
    about[KEY] = convention.value
    if style == "big-ann":
        made = write(target, {"ids": ids, "distances": near}, "truth", about)
        return [str(target)], convention.value, made.sidecars
    if style == "cuvs":
        beside = target.with_name(f"{target.stem}.distances.fbin")
        form = "ibin" if kind is np.int32 else "u32bin"
        with Together() as files:
            far = write(beside, near, "fbin", about, files)
            made = write(target, ids, form, about, files)
        return [str(target), str(beside)], convention.value, (*made.sidecars, *far.sidecars)
    narrow = np.int32 if truth.rows.size == 0 or truth.rows.max() < 2**31 else np.int64
    columns: dict[str, Column] = {
        "train": vectors,
        "test": asked,
        "neighbors": ArrayColumn("neighbors", truth.rows.astype(narrow)),
        "distances": ArrayColumn("distances", near),
    }
    collection = Collection(columns, main="train", metadata=benchmark_metadata(vectors, metric))
    made = write(target, collection, "hdf5", None)
    return [str(target)], convention.value, made.sidecars


def benchmark_metadata(vectors: Column, metric: Metric | None) -> dict[str, Any]:
    """The attributes that ann-benchmarks gives a file."""
    kind = "float" if vectors.dtype.kind in "fV" else "bit" if vectors.dtype.kind == "b" else "int"
    about = {"type": "dense", "dimension": vectors.row_shape[0], "point_type": kind}
    return about if metric is None else {**about, "distance": LABELS[metric]}


def _paths(side: Base) -> list[str]:
    if isinstance(side, (str, os.PathLike)):
        return [os.fspath(side)]
    if isinstance(side, (list, tuple)):
        return [os.fspath(s) for s in side if isinstance(s, (str, os.PathLike))]
    return [str(place) for place in side.places] if isinstance(side, Collection) else []
