"""write: vectors, with their words, records, ids and metadata, into a file of any format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from polyvec.core.arguments import check_mapping, check_targets
from polyvec.core.collection import Collection
from polyvec.writing.inputs import as_collection
from polyvec.writing.options import WritingOptions, gather, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import write_collection


@shows_options(WritingOptions)
def write(
    path: str | os.PathLike[str],
    data: Any,
    *,
    vocab: Any = None,
    records: Any = None,
    ids: Any = None,
    metadata: Mapping[str, Any] | None = None,
    **options: Unpack[WritingOptions],
) -> Receipt:
    """Write vectors to a file; the suffix (or ``format=``) names the format. The target is replaced atomically.

    ``data`` is an array, named arrays, a collection, a pandas or polars DataFrame, or an Arrow table, batch or stream.
    ``vocab``, ``records``, ``ids`` and ``metadata`` take the place of the data's own, one a row. Of a table the columns of
    number lists are vectors (``column`` chooses one), a column ``id`` is the ids (``ids="NAME"`` chooses another), all
    else is records. Takes the options of `convert`.
    """
    check_targets(path=path)
    check_mapping(metadata=metadata)
    writing = gather(options)
    collection = as_collection(data, vocab=vocab, records=records, ids=ids, metadata=metadata)
    try:
        return write_collection(path, collection, writing)
    finally:
        if not isinstance(data, Collection):
            collection.close()
