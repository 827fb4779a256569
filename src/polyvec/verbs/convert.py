"""convert: any file into any format, and a receipt that says what was kept and what was lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from polyvec import formats
from polyvec.core.arguments import check_flags, check_paths, check_targets, check_texts
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.shards import expand
from polyvec.verbs.records import attach_given, named_file
from polyvec.verbs.resume import run_resumable
from polyvec.writing.inputs import inputs_of
from polyvec.writing.options import ConvertingOptions, Writing, gather, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import write_collection


@shows_options(ConvertingOptions)
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    source_format: str | None = None,
    lenient: bool = False,
    resume: bool = False,
    ids: Any = None,
    records: Any = None,
    **options: Unpack[ConvertingOptions],
) -> Receipt:
    """Convert a file (or a glob of shards) to another format, in bounded memory.

    ``encoding`` (raw, float16, bfloat16, int8, pq, lossless) asks for another encoding than the source's;
    ``format`` names the target's format where its suffix does not; ``column`` picks one of several columns;
    ``sidecar=False`` drops what the target cannot hold instead of keeping it beside; ``overwrite=False`` refuses to
    replace a file; ``sha256=True`` puts the target's digest into the receipt; ``dry_run=True`` writes nothing;
    ``check_space=False`` starts although the output will not fit on the disk (with a warning);
    ``progress`` is True or a callback(current, total); with ``resume`` finished parts are kept beside the target until
    all are done, and a killed run continues. ``ids`` and ``records`` take the place of the source's own: a file, a field
    or column of the source, or values (see `polyvec.verbs.records.read_ids`). Further options are the formats' own: those that the source's format reads
    by (``dim=384``), and those that the target's writes by.
    """
    check_paths(source=source)
    check_targets(target=target)
    check_texts(source_format=source_format)
    check_flags(lenient=lenient, resume=resume)
    writing = gather(options)
    if resume:
        refuse_given(ids, records)
        paths = [str(place) for place in expand(source)]
        return run_resumable(paths, target, writing, source_format=source_format, lenient=lenient)
    with formats.open(source, format=source_format, lenient=lenient, offered=writing.own) as collection:
        return write_given(target, collection, writing, ids, records, inputs_of(source))


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
