"""What people hand to `write`, as a collection: arrays, named arrays, collections, DataFrames, Arrow tables and streams."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from typing import Any

from polyvec.core.arguments import array_of
from polyvec.core.collection import Collection, as_ids
from polyvec.core.errors import InputError
from polyvec.core.records import Records, as_records
from polyvec.core.shards import expand
from polyvec.core.vocab import Strings, Vocab, as_vocab
from polyvec.writing.tables import frame_records, is_table, open_frame


def as_collection(
    data: Any, *, vocab: Any = None, records: Any = None, ids: Any = None, metadata: Mapping[str, Any] | None = None
) -> Collection:
    """The collection that ``data`` is. Words, records, ids and metadata that are given take the place of its own."""
    if isinstance(data, Collection):
        base = data
    elif is_table(data):
        base = open_frame(data, ids=ids if isinstance(ids, str) else None)
        ids = None if isinstance(ids, str) else ids
    elif type(data).__name__ == "LazyFrame":
        raise InputError("a LazyFrame is a plan that has no rows yet; give what it makes, frame.collect()")
    else:
        base = Collection.from_arrays(data if isinstance(data, Mapping) else _rows(data))
    return replaced(base, vocab=vocab, records=records, ids=ids, metadata=metadata)


def _rows(data: Any) -> Any:
    """The array, unless it is plain numbers in one dimension: as rows they would each be a vector of one value."""
    array = array_of(data)
    if array.ndim == 1 and array.dtype.kind == "f":
        raise InputError(
            f"expected rows of numbers, found {len(array)} numbers in one dimension; one vector: array[None] ([vector] for "
            "a list), a column of single values: array[:, None]"
        )
    return array


def replaced(
    base: Collection,
    *,
    vocab: Any = None,
    records: Any = None,
    ids: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Collection:
    """The same columns with other words, records, ids or metadata; `InputError` unless there is one a row."""
    if vocab is None and records is None and ids is None and metadata is None:
        return base
    rows = base.rows
    found = given_records(records)
    if found is not None and len(found) != rows:
        raise InputError(f"there are {len(found)} records for {rows} rows; give one record a row")
    result = copy(base)  # with what its format keeps of its own
    result._closers = [base.close]
    result.vocab = base.vocab if vocab is None else as_vocab(_words(vocab), rows)
    result.records = base.records if found is None else found
    result.ids = base.ids if ids is None else as_ids(values_of(ids), rows)
    result.metadata = dict(base.metadata if metadata is None else metadata)
    result.notes = list(base.notes)
    return result


def given_records(value: Any) -> Records | None:
    """Records from what people hold: also a table, whose rows they are."""
    return frame_records(value) if is_table(value) else as_records(value)


def _words(value: Any) -> Any:
    return value if isinstance(value, (Vocab, Strings)) else values_of(value)


def values_of(value: Any) -> Any:
    """A column of another library as an array or a list of Python values."""
    if isinstance(value, (str, bytes)):
        raise InputError(f"one value a row is expected, not {value!r}")
    for name in ("to_pylist", "to_list"):  # pyarrow; pandas and polars: exact, and missing values stay what they are
        if hasattr(value, name):
            return getattr(value, name)()
    return value


def inputs_of(source: str | os.PathLike[str]) -> list[str]:
    """The files a source names, which no output may be: one, the shards of a glob, or none for standard input."""
    return [] if os.fspath(source) == "-" else [str(place) for place in expand(source)]
