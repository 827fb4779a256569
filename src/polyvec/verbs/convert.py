"""write and convert: any collection into any format, and a receipt that says what was kept and what was lost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyvec import formats
from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.shards import expand
from polyvec.writing.loss import SAMPLE_ROWS, Loss, compare
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import (
    ENCODINGS,
    Writing,
    as_progress,
    fit_columns,
    gather,
    resolve_target,
    write_collection,
)

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
    ``check_space=False`` starts although the output will not fit on the disk (with a warning);
    ``progress`` is True or a callback(current, total); with ``resume`` finished parts are kept beside the target until
    all are done, and a killed run continues. Further options are the formats' own: those that the source's format reads
    by (``dim=384``), and those that the target's writes by.
    """
    if resume:
        from polyvec.verbs.resume import run_resumable

        paths = [os.fspath(path) for path in expand(source)]
        return run_resumable(paths, target, gather(options), source_format=source_format, lenient=lenient)
    writing = gather(options)
    with formats.open(source, format=source_format, lenient=lenient, offered=writing.own) as collection:
        return write_collection(target, collection, writing, inputs=inputs_of(source))


def inputs_of(source: str | os.PathLike[str]) -> list[Path]:
    """The files a source names, which no output may be: one, the shards of a glob, or none for standard input."""
    return [] if os.fspath(source) == "-" else expand(source)
