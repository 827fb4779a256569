"""merge: shards into one file. Same kind of rows in and out: the bytes are copied inside the kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from polyvec import formats
from polyvec.core.arguments import check_flags, check_targets, check_texts, path_list
from polyvec.core.errors import InputError
from polyvec.core.shards import arrange, expand
from polyvec.verbs.convert import refuse_given, write_given
from polyvec.verbs.resume import run_resumable
from polyvec.writing.options import ConvertingOptions, gather, shows_options
from polyvec.writing.receipts import Receipt


@shows_options(ConvertingOptions)
def merge(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    source_format: str | None = None,
    lenient: bool = False,
    strict: bool = False,
    resume: bool = False,
    ids: Any = None,
    records: Any = None,
    **options: Unpack[ConvertingOptions],
) -> Receipt:
    """Merge files (paths, globs) of one kind into ``target``, in the order given; globs in shard order.

    Gaps and duplicates in shard numbers become notes of the receipt, or errors with ``strict``. With ``resume``
    finished shards are kept beside the target until all are done, and a killed run continues. Takes the options of
    `convert`.
    """
    check_targets(target=target)
    check_texts(source_format=source_format)
    check_flags(lenient=lenient, strict=strict, resume=resume)
    writing = gather(options)
    inputs = path_list(inputs=inputs)
    shards = arrange(expand(inputs))
    if not shards.places:
        raise InputError("nothing to merge; name at least one file")
    if strict and shards.problems:
        raise InputError("; ".join(shards.problems))
    paths = [str(place) for place in shards.places]
    done = "would be merged" if writing.dry_run else "merged"
    if resume:
        refuse_given(ids, records)
        notes = (*shards.problems, f"{len(paths)} files {done}")
        return run_resumable(paths, target, writing, source_format=source_format, lenient=lenient, notes=notes)
    with formats.open_many(paths, format=source_format, lenient=lenient, offered=writing.own) as collection:
        if expand(inputs) != list(shards.places):
            raise InputError(
                "shards were added or removed while they were opened; run it again when their writer is done"
            )
        collection.notes.extend(shards.problems)
        receipt = write_given(target, collection, writing, ids, records, paths)
    return replace(receipt, notes=(*receipt.notes, f"{len(paths)} files {done}"))
