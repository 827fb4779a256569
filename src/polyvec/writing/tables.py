"""Tables in memory as collections: pandas and polars DataFrames, Arrow tables, batches and streams.

A column of equal lists of numbers is a column of vectors; of several the one called vectors, embedding and so on is the
main one. The ids are the column called ``id`` (``ids``, ``_id``), or the index of a DataFrame that has one of its own, where its
values are integers or strings and each is there once. All else is records. A table of nothing but numbers is a matrix.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyvec.core.collection import Collection, Ids
from polyvec.core.columns import Column
from polyvec.core.errors import FormatError, InputError
from polyvec.core.exchange import arrow, list_type, number_type, text_type
from polyvec.core.records import Records
from polyvec.core.sources import open_source
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats import arrow as ipc
from polyvec.formats.tabular import ID_NAMES, Table, TableRecords, collect, wrapped

LABEL = "the table"
UNNAMED = "__index_level_"  # how Arrow calls an index of pandas without a name


class MemoryTable(Table):
    """An Arrow table in memory; its batches are the groups."""

    def __init__(self, table: Any) -> None:
        self.label, self.size, self.lock = LABEL, table.nbytes, threading.Lock()
        self.schema = table.schema
        self._batches = table.to_batches()
        self.groups = [batch.num_rows for batch in self._batches]

    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        batch = self._batches[group].select(list(names))
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)

    def values(self, name: str) -> int | None:
        return sum(_leaves(batch.column(name)) for batch in self._batches)


def _leaves(array: Any) -> int:
    """How many numbers a column of lists holds in all: other counts than rows and dimension make are ragged rows."""
    types = arrow().types
    while types.is_fixed_size_list(array.type) or types.is_list(array.type) or types.is_large_list(array.type):
        array = array.flatten()
    return len(array)


def is_table(value: Any) -> bool:
    """Whether a value is a table: an Arrow one, a DataFrame, or anything that gives an Arrow stream."""
    if isinstance(value, (Collection, Column, np.ndarray)):
        return False
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or _is_pandas(value)


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def open_frame(value: Any, *, ids: str | None = None) -> Collection:
    """A table as a collection; ``ids`` names the column that holds them."""
    try:
        with wrapped(LABEL):
            return _collect(value, ids)
    except FormatError as error:
        raise InputError(str(error)) from None


def frame_records(value: Any) -> Records:
    """A table's rows as records."""
    table = _table(value)
    return TableRecords(table, {name: name for name in table.schema.names})


def _collect(value: Any, ids: str | None) -> Collection:
    table = _table(value)
    names = list(table.schema.names)
    if ids is not None and ids not in names:
        raise InputError(f"no column {ids!r} for the ids; there are {', '.join(map(str, names))}")
    index = _index_names(table)
    wanted = [ids] if ids is not None else [*ID_NAMES, *index]
    while True:
        collection = _as_matrix(table, wanted) or collect(table, ids_names=wanted)
        if ids is not None and collection.ids is None:
            raise InputError(f"the column {ids!r} holds {table.schema.field(ids).type}; ids are integers or strings")
        name = _ids_name(collection, table, wanted)
        if ids is not None or name is None or _each_once(collection.ids):
            break
        wanted = [other for other in wanted if other != name]  # no ids: a field like any other
    unnamed = {other for other in index if other.startswith(UNNAMED) and other != name}
    if unnamed and collection.records is not None:  # pandas' counting of rows, which is no field of anyone's
        kept = {other: other for other in collection.records.fields if other not in unnamed}
        collection.records = TableRecords(table, kept) if kept else None
    collection.on_close(table.close)
    return collection


def _table(value: Any) -> Table:
    """The table to read. A stream gives its rows once, and is kept in a temporary file for as long as it is needed."""
    pa = arrow("DataFrames and Arrow tables")
    if _is_pandas(value):
        return MemoryTable(_plain(_from_pandas(value)))
    if hasattr(value, "__arrow_c_stream__"):
        if not hasattr(value, "__len__") and not hasattr(value, "num_rows"):
            return _Spooled(pa.RecordBatchReader.from_stream(value))
        if isinstance(value, pa.Table):
            return MemoryTable(_plain(value))
        try:
            return MemoryTable(_plain(pa.table(value)))
        except (TypeError, ValueError, pa.ArrowInvalid):  # one column
            return MemoryTable(_plain(pa.table({"vectors": pa.chunked_array(value)})))
    if isinstance(value, pa.RecordBatch):
        return MemoryTable(_plain(pa.Table.from_batches([value])))
    return MemoryTable(_plain(pa.table({"vectors": pa.array(value)})))


def _plain(table: Any) -> Any:
    """The table with dictionaries (categories) as what they stand for."""
    pa = arrow()
    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            # Arrow takes no values of views of text, as which polars hands its categories out.
            kind = pa.large_string() if text_type(field.type.value_type) else field.type.value_type
            chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in table.column(number).chunks]
            table = table.set_column(number, pa.field(field.name, kind), pa.chunked_array(chunks, kind))
    return table


class _Spooled(ipc.FileTable):
    """A stream's batches in a temporary file without a name that anybody needs."""

    def __init__(self, reader: Any) -> None:
        pa = arrow()
        self._folder = tempfile.TemporaryDirectory(prefix="polyvec-stream-")
        path = Path(self._folder.name) / "stream.arrow"
        try:
            self._leaves = dict.fromkeys(reader.schema.names, 0)
            with pa.ipc.new_file(str(path), reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    for name in self._leaves:
                        self._leaves[name] += _leaves(batch.column(name))
            self._source = open_source(path)
            super().__init__(self._source, pa.OSFile(str(path)))
            self.label, self.size, self.lock = LABEL, self._source.size, threading.Lock()
        except BaseException:
            self._folder.cleanup()
            raise

    def values(self, name: str) -> int | None:
        return self._leaves[name]

    def close(self) -> None:
        super().close()
        self._source.close()
        self._folder.cleanup()


def _index_names(table: Table) -> list[str]:
    """The columns that were the index of a pandas DataFrame."""
    told = (table.schema.metadata or {}).get(b"pandas")
    found = json.loads(told).get("index_columns", []) if told else []
    return [name for name in found if isinstance(name, str) and name in table.schema.names]


def _ids_name(collection: Collection, table: Table, wanted: Sequence[str]) -> str | None:
    if collection.ids is None or (table.schema.metadata or {}).get(b"polyvec"):
        return None
    return next((name for name in wanted if name in table.schema.names and name not in collection.columns), None)


def _each_once(ids: Ids | None) -> bool:
    """Whether ids are there, and each of them once."""
    try:
        if isinstance(ids, Strings):
            return not len(Vocab(ids).duplicates)
        return ids is not None and len(np.unique(ids[:])) == len(ids)
    except FormatError:  # a null
        return False


def _as_matrix(table: Table, ids_names: Sequence[str]) -> Collection | None:
    """A table of plain numbers as one column of vectors; None where there is anything else in it."""
    kinds = {name: table.schema.field(name).type for name in table.schema.names}
    ids_name = next((name for name in ids_names if name in kinds), None)
    rest = [name for name in kinds if name != ids_name]
    if not rest or any(number_type(kinds[name]) is None for name in rest) or any(map(list_type, kinds.values())):
        return None
    if not any(np.dtype(kinds[name].to_pandas_dtype()).kind == "f" for name in rest):
        return None  # ids and counts, but no vectors
    columns = [_numbers(table, name) for name in rest]
    vectors = np.stack(columns, axis=1) if table.rows else np.empty((0, len(rest)), np.float32)
    ids: Ids | None = None
    if ids_name is not None:
        values = [
            v for _, batch in table.cursor(ids_name).walk(0, table.rows, 1 << 14) for v in batch.column(0).to_pylist()
        ]
        from polyvec.core.collection import as_ids

        try:
            ids = as_ids(values, table.rows)
        except InputError:
            return None
    return Collection.from_arrays(vectors, ids=ids)


def _numbers(table: Table, name: str) -> Any:
    pieces = []
    for start, batch in table.cursor(name).walk(0, table.rows, 1 << 16):
        array = batch.column(0)
        if array.null_count:
            row = start + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(f"column {name!r} has no number in row {row}; drop or fill the nulls first")
        pieces.append(array.to_numpy(zero_copy_only=False))
    return np.concatenate(pieces) if pieces else np.empty(0)


def _from_pandas(value: Any) -> Any:
    """A pandas DataFrame as an Arrow table; an index of its own is a column, and the metadata says which.

    Arrow keeps ranges out of the table, also those of some of a longer frame's rows, which are no mere counting.
    """
    index = getattr(value, "index", None)
    some = getattr(index, "start", 0) != 0 or getattr(index, "step", 1) != 1
    return arrow().Table.from_pandas(value, preserve_index=True if some else None)
