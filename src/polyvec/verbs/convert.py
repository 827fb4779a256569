"""write and convert: any collection into any format, and a receipt that says what was kept and what was lost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.shards import expand
from polyvec.writing.inputs import as_collection
from polyvec.writing.loss import SAMPLE_ROWS, Loss, compare
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import ENCODINGS, Writing, as_progress, fit_columns, gather, resolve_target, write_collection

__all__ = [
    "ENCODINGS",
    "SAMPLE_ROWS",
    "Loss",
    "Receipt",
    "Writing",
    "as_progress",
    "compare",
    "convert",
    "fit_columns",
    "gather",
    "inputs_of",
    "resolve_target",
    "write",
    "write_collection",
]


def write(
    path: str | os.PathLike[str],
    data: Any,
    *,
    vocab: Any = None,
    records: Any = None,
    ids: Any = None,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Receipt:
    """Write vectors to a file; the suffix (or ``format=``) names the format. The target is replaced atomically.

    ``data`` is an array, named arrays, a collection, a pandas or polars DataFrame, or an Arrow table, batch or stream.
    ``vocab``, ``records``, ``ids`` and ``metadata`` take the place of the data's own, one a row. Of a table the columns of
    number lists are vectors (``column`` chooses one), a column ``id`` is the ids (``ids="NAME"`` chooses another), all
    else is records. Takes the options of `convert`.
    """
    collection = as_collection(data, vocab=vocab, records=records, ids=ids, metadata=metadata)
    try:
        return write_collection(path, collection, gather(options))
    finally:
        if not isinstance(data, Collection):
            collection.close()


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    source_format: str | None = None,
    lenient: bool = False,
    resume: bool = False,
    ids: Any = None,
    records: Any = None,
    **options: Any,
) -> Receipt:
    """Convert a file (or a glob of shards) to another format, in bounded memory.

    ``encoding`` (raw, float16, bfloat16, int8, pq, lossless) asks for another encoding than the source's;
    ``format`` names the target's format where its suffix does not; ``column`` picks one of several columns;
    ``sidecar=False`` drops what the target cannot hold instead of keeping it beside; ``overwrite=False`` refuses to
    replace a file; ``sha256=True`` puts the target's digest into the receipt; ``dry_run=True`` writes nothing;
    ``check_space=False`` starts although the output will not fit on the disk (with a warning);
    ``progress`` is True or a callback(current, total); with ``resume`` finished parts are kept beside the target until
    all are done, and a killed run continues. ``ids`` and ``records`` take the place of the source's own: a file, a field
    or column of the source, or values (see `polyvec.verbs.attach.read_ids`). Further options are the formats' own: those that the source's format reads
    by (``dim=384``), and those that the target's writes by.
    """
    if resume:
        from polyvec.verbs.resume import run_resumable

        refuse_given(ids, records)
        paths = [os.fspath(path) for path in expand(source)]
        return run_resumable(paths, target, gather(options), source_format=source_format, lenient=lenient)
    writing = gather(options)
    with formats.open(source, format=source_format, lenient=lenient, offered=writing.own) as collection:
        return write_given(target, collection, writing, ids, records, inputs_of(source))


def inputs_of(source: str | os.PathLike[str]) -> list[Path]:
    """The files a source names, which no output may be: one, the shards of a glob, or none for standard input."""
    return [] if os.fspath(source) == "-" else expand(source)


def write_given(
    target: str | os.PathLike[str],
    collection: Collection,
    writing: Writing,
    ids: Any,
    records: Any,
    inputs: Sequence[str | os.PathLike[str]],
) -> Receipt:
    """Write a collection with ids and records from elsewhere; the files they come from are inputs too."""
    if ids is not None or records is not None:
        from polyvec.verbs.attach import attach_given, named_file

        files = [named_file(os.fspath(given))[0] for given in (ids, records) if isinstance(given, (str, os.PathLike))]
        inputs = [*inputs, *(file for file in files if file is not None)]
        attach_given(collection, ids=ids, records=records)
    return write_collection(target, collection, writing, inputs=inputs)


def refuse_given(ids: Any, records: Any) -> None:
    """`InputError` where ids or records are given to a job that goes on in parts."""
    if ids is not None or records is not None:
        raise InputError(
            "--ids and --records (ids=, records=) go without --resume: each part has its own; join with --resume first, then "
            "convert the result with --ids or --records"
        )
