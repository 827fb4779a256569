"""Tables of Arrow data as collections: what Parquet and Arrow IPC share. Not a format of its own.

Columns of number lists (fixed-size or equal lists) are columns. A column called ``id`` is the ids. All others are
fields of the records. A schema that polyvec wrote says so itself, and is followed where it agrees with the data.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import Array, Block, Codec, Raw, bounded_rows, rows_per_block
from polyvec.core.collection import Collection, Ids
from polyvec.core.columns import Column, clusters
from polyvec.core.errors import Corrupt, FormatError, PolyvecError, Unsupported
from polyvec.core.exchange import KEY, arrow, list_type, number_type, text_type
from polyvec.core.format import WriteOptions
from polyvec.core.strict_json import parse_json
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.tablerecords import SCAN_ROWS, TableRecords

ID_NAMES = ("id", "ids", "_id")
MAIN = ("vectors", "vector", "emb", "embedding", "embeddings", "train", "neighbors_id", "neighbors")
MAX_RATIO = 4096  # decoded bytes for a stored one; what promises more has to show it first
FREE_BYTES = 8 << 20


class Table(ABC):
    """Rows in groups that are read one after the other; a format says how."""

    label: str
    size: int  # bytes of the file
    schema: Any
    groups: list[int]  # rows of each group
    lock: threading.Lock

    @property
    def rows(self) -> int:
        """Rows of all groups."""
        return sum(self.groups)

    @abstractmethod
    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        """Record batches of at most ``rows`` rows of some columns of one group, checked."""

    def values(self, name: str) -> int | None:
        """How many values a list column has in all, where the file says it without being read."""
        return None

    def cursor(self, *names: str) -> Cursor:
        """A place to read some columns from."""
        return Cursor(self, names)

    @abstractmethod
    def close(self) -> None:
        """Release the file."""

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """Whatever the library raises becomes one line about the file."""
        with wrapped(self.label):
            yield


@contextmanager
def wrapped(label: str) -> Iterator[None]:
    """Whatever pyarrow raises becomes one line about the file."""
    try:
        yield
    except (PolyvecError, KeyboardInterrupt, GeneratorExit):
        raise
    except MemoryError:
        raise Corrupt("the file asks for more memory than there is", path=label) from None
    except Exception as error:  # pyarrow maps the library's errors to many Python types
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise Corrupt(f"the Arrow library cannot read it: {words}", path=label, remedy="fetch the file again") from None


class Cursor:
    """Reads forward without starting over; a jump costs the start of a group."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._table = table
        self._names = list(names)
        self._edges = [0]
        for rows in table.groups:
            self._edges.append(self._edges[-1] + rows)
        self._at = -1
        self._left: Any = None
        self._stream: Iterator[Any] | None = None

    def read(self, start: int, stop: int, rows: int) -> list[tuple[int, Any]]:
        """What `walk` gives, all at once: readers that take turns cannot move the cursor under each other."""
        with self._table.lock:
            return list(self.walk(start, stop, rows))

    def walk(self, start: int, stop: int, rows: int) -> Iterator[tuple[int, Any]]:
        """Pieces of batches, with the row each starts at, of rows ``start`` to ``stop``."""
        if start >= stop:
            return
        group = int(np.searchsorted(self._edges, start, side="right")) - 1
        if self._stream is None or start < self._at or self._at < self._edges[group]:
            self._at, self._left, self._stream = self._edges[group], None, self._from(group, rows)
        while self._at < stop:
            batch = self._left if self._left is not None else next(self._stream, None)
            self._left = None
            if batch is None:
                raise Corrupt(
                    "the file has fewer rows than it says",
                    path=self._table.label,
                    field=self._names[0],
                    expected=f"{self._table.rows} rows",
                    found=f"{self._at} rows",
                )
            low, high = max(0, start - self._at), min(batch.num_rows, stop - self._at)
            first = self._at + low
            if high < batch.num_rows:
                self._left = batch.slice(high)
            self._at += high
            if low < high:
                yield first, batch.slice(low, high - low)

    def _from(self, group: int, rows: int) -> Iterator[Any]:
        for number in range(group, len(self._table.groups)):
            found = 0
            with self._table.wrapped():
                for batch in self._table.scan(self._names, number, rows):
                    if batch.num_rows:
                        found += batch.num_rows
                        if found > self._table.groups[number]:
                            break
                        yield batch
            if found != self._table.groups[number]:
                raise Corrupt(
                    "a group does not have the rows it says",
                    path=self._table.label,
                    field=f"row group {number}",
                    expected=self._table.groups[number],
                    found=found,
                )


class TableColumn(Column):
    """A column of numbers or of equal lists of numbers."""

    encoding = "raw"

    def __init__(
        self, table: Table, name: str, row_shape: tuple[int, ...], dtype: np.dtype[Any], stored: str | None = None
    ) -> None:
        self.name = name
        self.shape = (table.rows, *row_shape)
        self.dtype = dtype
        self._table = table
        self._stored = stored or name
        self._cursor = table.cursor(self._stored)

    @property
    def codec(self) -> Codec | None:
        return Raw(self.dtype)

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        most = bounded_rows(rows, self.dtype, self.row_shape)
        at = start
        while at < stop:
            end = min(at + most, stop)
            for first, batch in self._cursor.read(at, end, most):
                values = rows_of(batch.column(0), self.row_shape, self.dtype, self._table.label, self._stored, first)
                yield Block(first, {"codes": values}, Raw(self.dtype), len(values))
            at = end

    def spread(self, count: int) -> Array:
        """Rows from the starts of up to eight groups: each other row would cost all before it."""
        edges = np.concatenate([[0], np.cumsum(self._table.groups)[:-1]]) if self._table.groups else np.zeros(1)
        chosen = edges[np.unique(np.linspace(0, len(edges) - 1, min(8, len(edges))).astype(int))]
        return clusters(self.rows, count, [int(start) for start in np.unique(chosen)])

    def _take(self, indices: Array) -> Array:
        """Rows by index, in the order given, in one pass over the groups that have some."""
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        out = np.empty((len(indices), *self.row_shape), self.dtype)
        done = 0
        while done < len(wanted):
            first = int(wanted[done])
            stop = min(first + rows_per_block(self.dtype, self.row_shape), self.rows)
            end = int(np.searchsorted(wanted, stop, side="left"))
            stop = int(wanted[end - 1]) + 1
            for block in self.blocks(start=first, stop=stop):
                low, high = np.searchsorted(wanted, [block.start, block.start + block.rows])
                out[order[low:high]] = block.decode()[wanted[low:high] - block.start]
            done = end
        return out


def rows_of(array: Any, row_shape: tuple[int, ...], dtype: np.dtype[Any], label: str, name: str, start: int) -> Array:
    """An Arrow array as rows; ragged lists and nulls are `Corrupt`, with their row."""
    pa = arrow()
    rows = len(array)
    each = 1
    for size in row_shape:
        if array.null_count:
            _refuse_null(array, label, name, start, each)
        each *= size
        if not pa.types.is_fixed_size_list(array.type):
            lengths = np.diff(np.asarray(array.offsets))
            wrong = np.flatnonzero(lengths != size)
            if len(wrong):
                raise ragged(label, name, start + int(wrong[0]), size, int(lengths[wrong[0]]))
        array = array.flatten()
    if array.null_count:
        _refuse_null(array, label, name, start, each)
    values: Array = array.to_numpy(zero_copy_only=False)
    if len(values) != rows * prod(row_shape):
        raise Corrupt(
            "lists do not have the values they say",
            path=label,
            field=name,
            expected=rows * prod(row_shape),
            found=len(values),
        )
    return np.ascontiguousarray(values).astype(dtype, copy=False).reshape(rows, *row_shape)


def ragged(label: str, name: str, row: int, expected: int, found: int) -> FormatError:
    """Lists of different lengths."""
    return Corrupt(
        "lists differ in length",
        path=label,
        field=f"{name}, row {row}",
        expected=f"{expected} values",
        found=f"{found} values",
        remedy="keep vectors of one dimension in a column",
    )


def _refuse_null(array: Any, label: str, name: str, start: int, each: int) -> None:
    row = start + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) // each
    raise Corrupt(
        "a null where a number must be",
        path=label,
        field=f"{name}, row {row}",
        expected="a number",
        found="null",
        remedy="drop or fill the nulls first",
    )


class TableStrings(Strings):
    """A column of strings, read when the first one is asked for."""

    def __init__(self, table: Table, name: str) -> None:
        self.label, self.lossy = table.label, False
        self._table, self._name = table, name

    @cached_property
    def _loaded(self) -> Strings:
        pieces: list[bytes] = []
        sizes: list[NDArray[np.int64]] = []
        for start, batch in self._table.cursor(self._name).walk(0, self._table.rows, SCAN_ROWS):
            array = batch.column(0)
            if array.null_count:
                _refuse_null(array, self.label, self._name, start, 1)
            with self._table.wrapped():
                array = array.cast(arrow().large_string())
                _, places, data = array.buffers()
                edges = np.frombuffer(places, np.int64, len(array) + 1, array.offset * 8)
                pieces.append(data[int(edges[0]) : int(edges[-1])].to_pybytes() if data is not None else b"")
            sizes.append(np.diff(edges))
        stops = np.cumsum(np.concatenate(sizes)) if sizes else np.empty(0, np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if len(stops) else stops
        return Strings(b"".join(pieces), starts, stops, label=self.label)

    data = property(lambda self: self._loaded.data)
    starts = property(lambda self: self._loaded.starts)
    stops = property(lambda self: self._loaded.stops)

    def __len__(self) -> int:
        return self._table.rows

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Strings:
        return self._loaded.view(rows)


def open_table(table: Table) -> Collection:
    """The collection over a table, which is closed with it."""
    try:
        with wrapped(table.label):
            collection = collect(table)
    except BaseException:
        table.close()
        raise
    collection.on_close(table.close)
    return collection


def name_target(collection: Collection, options: WriteOptions) -> str:
    """The encoding of the main column and the compression, in words."""
    kept = options.own.get("compression")
    name = "float16" if options.encoding == "float16" else f"raw {collection.vectors.dtype.name}"
    return name + (f", {kept}" if kept and kept != "none" else "")


def collect(table: Table, *, ids_names: Sequence[str] = ID_NAMES) -> Collection:
    """The table as a collection; the first of ``ids_names`` that it has is the ids, unless polyvec wrote it."""
    pa = arrow()
    note = _note(table)
    names = list(table.schema.names)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Unsupported("two columns have one name", path=table.label, field=twice)
    kinds = {name: table.schema.field(name).type for name in names}
    columns: dict[str, Column] = {}
    unequal: FormatError | None = None
    said = {n: c for n, c in _texts(note, "columns").items() if n in kinds} if note else {}
    for name in names:
        key = said.get(name, name)
        if name in said and number_type(kinds[name]) is not None:
            dtype = number_type(kinds[name])
            assert dtype is not None
            columns[key] = TableColumn(table, key, (), dtype, name)
        elif (found := list_type(kinds[name])) is not None:
            try:
                columns[key] = TableColumn(table, key, _sizes(table, name, found[0]), found[1], name)
            except FormatError as error:
                unequal = unequal or error
    if not any(column.row_shape for column in columns.values()) and not said:
        if unequal is not None:
            raise unequal
        shown = ", ".join(f"{name} ({kinds[name]})" for name in names[:8])
        raise Unsupported(
            "no column holds lists of numbers",
            path=table.label,
            expected="list<float> or fixed_size_list<float>",
            found=shown or "no columns",
        )
    if not columns:
        raise unequal or Unsupported("no column holds numbers", path=table.label)
    for column in columns.values():
        _check_promise(table, column)
    used = {column._stored for column in columns.values() if isinstance(column, TableColumn)}
    ids_name = (
        _named(note, "ids", kinds) if note else next((n for n in ids_names if n in kinds and n not in used), None)
    )
    ids: Ids | None = None
    if ids_name is not None and ids_name not in used:
        if pa.types.is_integer(kinds[ids_name]):
            ids = TableColumn(table, "ids", (), np.dtype(np.int64), ids_name)
        elif text_type(kinds[ids_name]):
            ids = TableStrings(table, ids_name)
    used |= {ids_name} if ids is not None and ids_name is not None else set()
    vocab = None
    words = _named(note, "vocab", kinds) if note else None
    if words is not None and words not in used and text_type(kinds[words]):
        vocab = Vocab(TableStrings(table, words))
        used.add(words)
    keys = _texts(note, "records") if note else {}
    rest = {name: keys.get(name, name) for name in names if name not in used}
    texts = [n for n in (note or {}).get("texts", ()) if n in rest and text_type(kinds[n])]
    records = TableRecords(table, rest, texts) if rest or (note or {}).get("has_records") is True else None
    main = (note or {}).get("main")
    main = said.get(main, main) if isinstance(main, str) else None
    if main not in columns:
        main = next((n for n in MAIN if n in columns), next(iter(columns)))
    metadata = (note or {}).get("metadata")
    return Collection(
        columns,
        main=main,
        vocab=vocab,
        records=records,
        ids=ids,
        metadata=metadata if isinstance(metadata, dict) else None,
    )


def _note(table: Table) -> dict[str, Any] | None:
    """What polyvec wrote into the schema; None where another program wrote the file."""
    data = (table.schema.metadata or {}).get(KEY)
    if data is None:
        return None
    note = parse_json(data, path=table.label, field="polyvec metadata")
    if not isinstance(note, dict) or not isinstance(note.get("texts", []), list):
        raise Corrupt("the polyvec metadata is not an object", path=table.label)
    return note


def _texts(note: dict[str, Any], key: str) -> dict[str, str]:
    value = note.get(key)
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}


def _named(note: dict[str, Any], key: str, kinds: Mapping[str, Any]) -> str | None:
    value = note.get(key)
    return value if isinstance(value, str) and value in kinds else None


def _sizes(table: Table, name: str, sizes: tuple[int | None, ...]) -> tuple[int, ...]:
    """The shape of a row. Where the type does not say it, the first row does, and the counts must agree."""
    if any(size is not None and size < 1 for size in sizes):
        raise Corrupt("lists of no values", path=table.label, field=name)
    known = tuple(size for size in sizes if size is not None)
    if sizes[0] is not None:
        return known
    if not table.rows:
        return (0, *known)
    _, batch = next(table.cursor(name).walk(0, 1, 1))
    array = batch.column(0)
    if array.null_count:
        _refuse_null(array, table.label, name, 0, 1)
    first = int(np.diff(np.asarray(array.offsets))[0])
    if not first:
        raise ragged(table.label, name, 0, 1, 0)
    values = table.values(name)
    if values is not None and values != table.rows * first * prod(known):
        _find_ragged(table, name, (first, *known))
    return (first, *known)


def _find_ragged(table: Table, name: str, row_shape: tuple[int, ...]) -> None:
    """Name the first row of another length: the file's own counts say that there is one."""
    found = list_type(table.schema.field(name).type)
    assert found is not None
    for start, batch in table.cursor(name).walk(0, table.rows, SCAN_ROWS):
        rows_of(batch.column(0), row_shape, found[1], table.label, name, start)
    raise Corrupt("lists do not have the values the file counts", path=table.label, field=name)


def _check_promise(table: Table, column: Column) -> None:
    """A file may promise many rows in few bytes; one that promises very many is read once before it is believed."""
    if column.nbytes > MAX_RATIO * table.size + FREE_BYTES:
        for _ in column.blocks(reuse=True):
            pass
