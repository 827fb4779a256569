"""write and convert: any collection into any format, and a receipt that says what was kept and what was lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polyvec import formats
from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.format import Format, Progress, WriteOptions
from polyvec.core.shards import expand
from polyvec.core.sidecars import lacking, write_sidecars
from polyvec.core.sinks import Sink, check_target

ENCODINGS = ("raw", "float16", "bfloat16", "int8", "pq", "lossless")
SAMPLE_ROWS = 1024  # rows compared after a conversion; spread evenly over the file


@dataclass(frozen=True, slots=True)
class Loss:
    """Measured difference between source and target rows, over ``rows`` of them. ``exact`` where all bits agree."""

    rows: int
    exact: bool
    max_error: float
    mean_error: float
    min_cosine: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a conversion did."""

    output: str
    format: str
    rows: int
    dim: int
    bytes: int
    seconds: float
    codec: str  # "raw float32 -> int8"
    loss: Loss | None
    sidecars: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Writing:
    """How `write` and its kin go about it; see `convert` for the meaning of each."""

    encoding: str | None = None
    format: str | None = None
    column: str | None = None
    sidecar: bool = True
    overwrite: bool = True
    durable: bool = True
    sha256: bool = False
    dry_run: bool = False
    measure: bool = True
    chunk_rows: int | None = None
    progress: Progress | bool | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


def write(
    path: str | os.PathLike[str], data: Collection | Array | Mapping[str, Array], *, vocab: Any = None,
    records: Any = None, ids: Any = None, metadata: Mapping[str, Any] | None = None, **options: Any,
) -> Receipt:  # fmt: skip
    """Write an array, named arrays or a collection to a file; the suffix (or ``format=``) names the format.

    Takes the options of `convert`. The target is replaced atomically.
    """
    if isinstance(data, Collection):
        collection = data
    else:
        collection = Collection.from_arrays(data, vocab=vocab, records=records, ids=ids, metadata=metadata)
    return write_collection(path, collection, gather(options))


def convert(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, source_format: str | None = None,
    lenient: bool = False, resume: bool = False, **options: Any,
) -> Receipt:  # fmt: skip
    """Convert a file (or a glob of shards) to another format, in bounded memory.

    ``encoding`` (raw, float16, bfloat16, int8, pq, lossless) asks for another encoding than the source's;
    ``format`` names the target's format where its suffix does not; ``column`` picks one of several columns;
    ``sidecar=False`` drops what the target cannot hold instead of keeping it beside; ``overwrite=False`` refuses to
    replace a file; ``sha256=True`` puts the target's digest into the receipt; ``dry_run=True`` writes nothing;
    ``progress`` is True or a callback(current, total); with ``resume`` finished parts are kept beside the target until
    all are done, and a killed run continues. Further options are the target format's own.
    """
    if resume and not options.get("dry_run"):
        from polyvec.verbs.resume import run_resumable

        paths = [os.fspath(path) for path in expand(source)]
        return run_resumable(paths, target, gather(options), source_format=source_format, lenient=lenient)
    with formats.open(source, format=source_format, lenient=lenient) as collection:
        return write_collection(target, collection, gather(options), inputs=inputs_of(source))


def inputs_of(source: str | os.PathLike[str]) -> list[Path]:
    """The files a source names, which no output may be: one, the shards of a glob, or none for standard input."""
    return [] if os.fspath(source) == "-" else expand(source)


def gather(options: Mapping[str, Any]) -> Writing:
    """Options as given to a verb; what is not a common one belongs to the format."""
    names = {f for f in Writing.__dataclass_fields__ if f != "own"}
    common = {k: v for k, v in options.items() if k in names}
    own = {k: v for k, v in options.items() if k not in names}
    writing = Writing(**common, own=own)
    if writing.encoding is not None and writing.encoding not in ENCODINGS:
        raise InputError(f"unknown encoding {writing.encoding!r}; there are {', '.join(ENCODINGS)}")
    if writing.chunk_rows is not None and writing.chunk_rows < 1:
        raise InputError(f"chunk size must be at least 1 row, not {writing.chunk_rows}")
    return writing


def resolve_target(path: str | os.PathLike[str], collection: Collection, format: str | None) -> tuple[Format, str]:
    """The format and variant to write: ``format`` where given, else by suffix."""
    if format is not None:
        found, variant = formats.find_format(format)
    else:
        suffix = Path(path).suffix.lower()
        able = [f for f in formats.all_formats() if suffix in f.suffixes]
        if not able:
            raise InputError(
                f"{os.fspath(path)}: no format is written for the suffix {suffix or '(none)'!s}; there are "
                + ", ".join(sorted({s for f in formats.all_formats() if f.writable for s in f.suffixes}))
                + "; or name one with --to (format=)"
            )
        found = next((f for f in able if f.writable and f.suits(collection, suffix)), able[0])
        variant = found.aliases.get(suffix[1:], suffix[1:])
    if not found.writable:
        raise InputError(f"{found.name} files are only read; choose another format")
    return found, variant


def write_collection(
    path: str | os.PathLike[str],
    collection: Collection,
    writing: Writing,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> Receipt:
    """The one road to a file: fit the collection to the format, write it with its sidecars, measure the loss."""
    started = time.perf_counter()
    format, variant = resolve_target(path, collection, writing.format)
    unknown = set(writing.own) - set(format.options)
    if unknown:
        raise InputError(f"{format.name} has no option {', '.join(sorted(unknown))}"
                         + (f"; it has {', '.join(format.options)}" if format.options else ""))  # fmt: skip
    folded: list[str] = []
    if writing.column is None:
        collection, folded = format.prepare(collection, writing.own)
    collection, dropped = fit_columns(collection, format, writing.column)
    dropped = folded + dropped
    beside = lacking(collection, format.holding(collection))
    if not writing.sidecar or os.fspath(path) == "-":
        dropped += beside
        beside = []
    options = WriteOptions(writing.encoding, variant, writing.chunk_rows, as_progress(writing.progress), writing.own)
    path_of = f"{_kind(collection.vectors)} -> {format.target(collection, options)}"
    notes = tuple(collection.notes)
    if writing.dry_run:
        check_target(path, inputs=inputs, overwrite=writing.overwrite)
        sidecars = tuple(f"{Path(path).name} + {what}" for what in beside)
        return Receipt(os.fspath(path), format.name, collection.rows, collection.dim, 0, 0.0, path_of, None, sidecars,
                       tuple(dropped), notes, dry_run=True)  # fmt: skip
    sink = Sink(path, inputs=inputs, overwrite=writing.overwrite, durable=writing.durable, sha256=writing.sha256)
    with sink:
        format.write(collection, sink, options)
        names = write_sidecars(collection, sink, beside)
    loss = None
    if writing.measure and not sink.stdout:
        loss = measure(collection.vectors, sink.path, format, variant)
    return Receipt(
        os.fspath(path), format.name, collection.rows, collection.dim, sink.size, time.perf_counter() - started,
        path_of, loss, tuple(names), tuple(dropped), notes, sink.hexdigest() if writing.sha256 else None,
    )  # fmt: skip


def fit_columns(collection: Collection, format: Format, column: str | None) -> tuple[Collection, list[str]]:
    """The collection with the columns the format can hold; `LossyConversion` where the choice is not ours."""
    if column is not None:
        dropped = [name for name in collection.columns if name != column]
        try:
            return collection.select(column), dropped
        except KeyError as error:
            raise InputError(str(error.args[0])) from None
    if len(collection.columns) == 1:
        return collection, []
    if format.holds.many_columns:
        kept = collection if format.name == collection.format else collection.without_derived()
        return kept, [
            what for what in ("vocab", "records", "ids") if getattr(kept, what) is not getattr(collection, what)
        ]
    names = ", ".join(f"{n} ({'x'.join(map(str, c.shape))})" for n, c in collection.columns.items())
    raise LossyConversion(
        f"{format.name} holds one column and the source has {len(collection.columns)}: {names}; "
        f"choose one with --column (column=), for example --column {collection.main}"
    )


def as_progress(progress: Progress | bool | None) -> Progress | None:
    """A callback from what the caller gave; True draws a bar on standard error."""
    if progress is True:
        from polyvec.core.progress import bar

        return bar()
    return progress or None


def measure(original: Column, path: Any, format: Format, variant: str) -> Loss | None:
    """Compare up to 1024 rows, spread evenly, of the source with what the new file gives back."""
    if not original.rows or original.dtype.kind not in "fiubV":
        return Loss(0, True, 0.0, 0.0, 1.0)
    from polyvec.core.files import Source

    with Source(path) as source, format.open(source, variant=variant) as written:
        if written.vectors.rows != original.rows or written.vectors.row_shape != original.row_shape:
            return None
        # Of both columns' samples the one in fewer places: it costs the fewest reads.
        choices = [column.spread(SAMPLE_ROWS) for column in (original, written.vectors)]
        rows = min(choices, key=lambda chosen: np.count_nonzero(np.diff(chosen) > 1))
        if len(rows) > 1 and original.nbytes / original.rows * len(rows) > 32 << 20:
            rows = rows[:: max(1, len(rows) // 16)]
        before, after = original.take(rows), written.vectors.take(rows)
    return compare(before, after)


def compare(before: Array, after: Array) -> Loss:
    """The loss between two arrays of rows."""
    one = before.reshape(len(before), -1).astype(np.float64)
    two = after.reshape(len(after), -1).astype(np.float64)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    if same.all():
        return Loss(len(one), True, 0.0, 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(one - two))
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        cosine = np.divide((one * two).sum(axis=1), norms, out=np.ones(len(one)), where=norms > 0)
    return Loss(len(one), False, float(np.nanmax(error)), float(np.nanmean(error)), float(np.nanmin(cosine)))


def _kind(column: Column) -> str:
    return f"raw {column.dtype.name}" if column.encoding == "raw" else column.encoding
