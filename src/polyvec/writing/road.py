"""write_collection: fit a collection to a format, write it with its sidecars, read it back, commit."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.dtypes import can_cast, is_float, is_held, named
from polyvec.core.errors import InputError, LossyConversion, PolyvecError
from polyvec.core.format import Format, Holds, WriteOptions
from polyvec.core.options import check_options, names
from polyvec.core.progress import telling
from polyvec.core.sidecars import lacking, write_sidecars
from polyvec.core.sinks import Sink
from polyvec.core.space import demand_space
from polyvec.core.targets import check_target, open_sink
from polyvec.writing.estimate import estimate_bytes
from polyvec.writing.loss import SAMPLE_ROWS
from polyvec.writing.options import Writing
from polyvec.writing.readback import SIDE_ROWS, Expected, ReadBack, read_back
from polyvec.writing.receipts import Receipt

REHEARSED_ROWS = 64  # of a dry run
ROUNDING = ("float16", "bfloat16", "int8", "pq")  # encodings that take floats of any width
WHOLE_ONLY = ("pq",)  # encodings that are fitted to the column, and not to any few of its rows


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
                + formats.near(suffix, (s for f in formats.all_formats() if f.writable for s in f.suffixes))
            )
        found = next((f for f in able if f.writable and f.suits(collection, suffix)), able[0])
        variant = found.aliases.get(suffix[1:], suffix[1:])
    if not found.writable:
        raise InputError(f"{found.name} files are only read; choose another format")
    return found, variant


@dataclass(frozen=True, slots=True)
class Fitted:
    """A collection as a format takes it, what goes beside the file, and what is left out."""

    collection: Collection
    format: Format
    options: WriteOptions
    beside: list[str]
    dropped: list[str]
    parts: tuple[str, ...]  # of words, records, ids, metadata: what the file itself holds

    def expected(self) -> Expected:
        """What must read back."""
        return Expected(self.collection, self.parts, tuple(self.beside))


def fit(path: str | os.PathLike[str], collection: Collection, writing: Writing) -> Fitted:
    """The contract of every write: what the format cannot do is refused here, before anything is written."""
    format, variant = resolve_target(path, collection, writing.format)
    refuse_encoding(format, writing.encoding)
    own = _own_options(format, collection, writing)
    options = WriteOptions(writing.encoding, variant, writing.chunk_rows, None, own)
    dropped: list[str] = []
    if writing.column is not None:
        collection, dropped = fit_columns(collection, format, writing.column)
    collection, folded = format.prepare(collection, own)
    collection, left = fit_columns(collection, format, None)
    dropped = folded + dropped + left
    check_lengths(collection)
    refuse_dtypes(format, collection, options)
    holds = format.holding(collection, options)
    beside = lacking(collection, holds)
    kept = [what for what in ("words", "records", "ids", "metadata") if what not in beside and _has(collection, what)]
    if not writing.sidecar or os.fspath(path) == "-":
        dropped += beside
        beside = []
    return Fitted(collection, format, options, beside, dropped, tuple(kept))


def _has(collection: Collection, what: str) -> bool:
    return bool(collection.metadata) if what == "metadata" else getattr(collection, NAMES[what]) is not None


NAMES = {"words": "vocab", "records": "records", "ids": "ids"}


def _own_options(format: Format, collection: Collection, writing: Writing) -> dict[str, Any]:
    """The format's own options, of the kinds that it declares; without those by which the source was read, and which
    the format does not know."""
    known = names(format.options)
    mine = {k: v for k, v in writing.own.items() if k in known or k not in collection.taken}
    return check_options(format.name, format.options, mine, reading=False, others=format.reading)


def refuse_encoding(format: Format, asked: str | None) -> None:
    """`InputError` for an encoding that a format does not declare."""
    known = format.holds.encodings
    if asked is not None and asked not in known:
        others = [f.name for f in formats.all_formats() if f.writable and asked in f.holds.encodings]
        have = f"there {'are' if len(known) > 1 else 'is'} {' and '.join([', '.join(known[:-1]), known[-1]] if known[1:] else known)}"
        raise InputError(
            f"{format.name} files hold no {asked} encoding; {have}"
            + (f"; {', '.join(others)} hold {asked}" if others else "")
        )


def refuse_dtypes(format: Format, collection: Collection, options: WriteOptions) -> None:
    """`InputError` for an encoding that this variant of a format does not hold, and for columns of dtypes it does not."""
    asked = options.encoding
    if asked is not None and asked not in format.holding(collection, options).encodings:
        suffixes = [s for s in format.suffixes if asked in _variant_holds(format, collection, options, s).encodings]
        raise InputError(
            f".{options.variant} files hold no {asked} encoding"
            + (f"; name the output {' or '.join(suffixes)}" if suffixes else "")
        )
    for name, column in collection.columns.items():
        encoded = name == collection.main or format.holds.encodes_all
        holds = format.holding(collection, options if encoded else replace(options, encoding=None))
        rounded = encoded and asked in ROUNDING and is_float(column.dtype)
        if rounded or is_held(column.dtype, holds.dtypes):
            continue
        assert holds.dtypes is not None
        if not holds.casts:
            able = ", ".join(named(holds.dtypes).split())
            remedy = "; convert it to float32 first" if is_held(np.dtype(np.float32), holds.dtypes) else ""
            raise InputError(
                f"column {name!r} is {column.dtype.name}, which {format.name} files cannot hold; they hold {able}{remedy}"
            )
        if not can_cast(column.dtype, holds.dtypes):
            held = " or ".join(named(holds.dtypes).split())
            raise LossyConversion(
                f"{column.dtype.name} values would be cut to {held}; choose a target that holds floats"
            )


def _variant_holds(format: Format, collection: Collection, options: WriteOptions, suffix: str) -> Holds:
    return format.holding(collection, replace(options, variant=format.aliases.get(suffix[1:], suffix[1:])))


def check_lengths(collection: Collection) -> None:
    """`InputError` unless there is one word, record and id a row."""
    for what, name in NAMES.items():
        found = getattr(collection, name)
        if found is not None and len(found) != collection.rows:
            raise InputError(f"there are {len(found)} {what} for {collection.rows} rows; give one a row")


def write_collection(
    path: str | os.PathLike[str],
    collection: Collection,
    writing: Writing,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    against: Collection | None = None,
) -> Receipt:
    """The one road to a file: fit the collection to the format, write it with its sidecars, read it back, commit.

    ``against`` is what the loss is measured by, where the collection is itself made of it.
    """
    started = time.perf_counter()
    inputs = list(inputs)
    given, fitted = collection, fit(path, collection, writing)
    collection, format = fitted.collection, fitted.format
    options = fitted.options
    becomes = format.target(collection, options)
    path_of = f"{describe_encoding(given.vectors if writing.column is None else given[writing.column])} -> {becomes}"
    notes = tuple(collection.notes)
    demand_space(path, estimate_bytes(collection, becomes, fitted.beside), refuse=writing.check_space)
    if writing.dry_run:
        check_target(path, inputs=inputs, overwrite=writing.overwrite)
        with telling(writing.progress, collection.rows):
            notes += rehearse(path, fitted, writing).notes
        sidecars = tuple(f"{Path(path).name} + {what}" for what in fitted.beside)
        return Receipt(
            os.fspath(path),
            format.name,
            collection.rows,
            collection.dim,
            0,
            0.0,
            path_of,
            None,
            sidecars,
            tuple(fitted.dropped),
            notes,
            dry_run=True,
        )
    sink = open_sink(
        path,
        inputs=inputs,
        overwrite=writing.overwrite,
        durable=writing.durable,
        sha256=writing.sha256,
        together=writing.together,
        working=writing.working,
    )
    with sink, telling(writing.progress, collection.rows) as tell:
        names, found = write_checked(
            sink,
            fitted,
            replace(options, progress=tell),
            writing,
            fit(path, against, writing).collection if against else None,
        )
    return Receipt(
        os.fspath(path),
        format.name,
        collection.rows,
        collection.dim,
        sink.size,
        time.perf_counter() - started,
        path_of,
        found.loss if writing.measure else None,
        tuple(names),
        tuple(fitted.dropped),
        (*notes, *found.notes),
        sink.hexdigest() if writing.sha256 else None,
        column_losses=found.columns if writing.measure else {},
    )


def estimate(path: str | os.PathLike[str], collection: Collection, writing: Writing) -> int:
    """About how many bytes `write_collection` will write; 0 where it would refuse to, which it says better itself."""
    try:
        fitted = fit(path, collection, writing)
    except PolyvecError:
        return 0
    becomes = fitted.format.target(fitted.collection, fitted.options)
    return estimate_bytes(fitted.collection, becomes, fitted.beside)


def write_checked(
    sink: Sink, fitted: Fitted, options: WriteOptions, writing: Writing, against: Collection | None = None
) -> tuple[list[str], ReadBack]:
    """Write into a sink and read it back: the names of the sidecars, and what was found. Nothing is committed."""
    collection, format = fitted.collection, fitted.format
    format.write(collection, sink, options)
    names = write_sidecars(collection, sink, fitted.beside)
    found = read_back(
        sink,
        format,
        format.written_variant(collection, options),
        fitted.expected(),
        forced=writing.format,
        against=against,
        rows=SAMPLE_ROWS if writing.measure else SIDE_ROWS,
    )
    return names, found


def rehearse(path: str | os.PathLike[str], fitted: Fitted, writing: Writing) -> ReadBack:
    """A dry run's write: a few rows into a folder that goes again, so that it refuses what the real one would."""
    collection = fitted.collection
    unequal = any(column.rows != collection.rows for column in collection.columns.values())
    whole = collection.vocab is not None and collection.vocab.subwords is not None
    if unequal or whole or writing.encoding in WHOLE_ONLY:
        return ReadBack(None)
    rows = np.unique(np.linspace(0, max(0, collection.rows - 1), min(REHEARSED_ROWS, collection.rows)).astype(np.int64))
    few = collection.take(rows)
    part = replace(fitted, collection=few)
    name = f"rehearsal{Path(path).suffix}" if os.fspath(path) == "-" else Path(path).name
    with tempfile.TemporaryDirectory() as folder:
        sink = open_sink(Path(folder) / name, durable=False)
        try:
            return write_checked(sink, part, part.options, writing)[1]
        finally:
            sink.abort()


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


def describe_encoding(column: Column) -> str:
    """A column's encoding as receipts name it."""
    return f"raw {column.dtype.name}" if column.encoding == "raw" else column.encoding
