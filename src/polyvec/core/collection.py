"""Collection: what a file holds. Lazy; a context manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import array_of, one_a_row, shown, whole
from polyvec.core.blocks import Array
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.origins import Origin
from polyvec.core.places import Place
from polyvec.core.records import ConcatRecords, Records, as_records
from polyvec.core.selection import bounds, one_row, row_numbers
from polyvec.core.shards import pattern_of
from polyvec.core.views import ConcatColumn, RangeColumn, TakeColumn
from polyvec.core.vocab import Strings, Vocab, as_vocab

Ids = Column | Strings


class Collection:
    """Named columns (row counts may differ), ``vocab``, ``records``, ``ids`` and ``metadata``.

    ``vectors`` is the main column; ``rows, dim, vocab, records, ids`` refer to it. Several threads may read a collection and
    its parts; closing it is for one of them. It pickles: what came from a file by place, identity and how it was opened, so
    that another process opens the same file or says `Replaced`; what is in memory by value.

    >>> import numpy as np
    >>> c = Collection.from_arrays(np.eye(3, dtype=np.float32), vocab=["a", "b", "c"])
    >>> c.rows, c.dim, c.vocab.index("b"), c.vectors[1]
    (3, 3, 1, array([0., 1., 0.], dtype=float32))
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        main: str | None = None,
        vocab: Vocab | None = None,
        records: Records | None = None,
        ids: Ids | None = None,
        metadata: Mapping[str, Any] | None = None,
        format: str = "memory",
        path: str | None = None,
        notes: Sequence[str] = (),
        close: Callable[[], None] | None = None,
    ) -> None:
        self.columns: dict[str, Column] = dict(columns)
        if not self.columns:
            raise InputError("a collection needs at least one column")
        self.main = main or next(iter(self.columns))
        self.vocab = vocab
        self.records = records
        self.ids = ids
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.format = format
        self.path = path  # what messages call it; nothing opens it
        self.place: Place | None = None  # where it was opened; of several files the first
        self.shards: tuple[str, ...] = ()  # the files of several; path is the first
        self._places: tuple[Place, ...] = ()  # where several files were opened
        self.notes: list[str] = list(notes)
        self.sidecars: list[str] = []  # files beside this one that words, records or ids came from
        self.reason = ""
        self.taken: frozenset[str] = frozenset()  # options of reading that the file was opened with
        self.origins: tuple[Origin, ...] = ()  # the files that its parts came from
        self._closers: list[Callable[[], None]] = [close] if close else []

    @classmethod
    def from_arrays(
        cls,
        vectors: Array | Mapping[str, Array],
        *,
        vocab: Any = None,
        records: Any = None,
        ids: Any = None,
        metadata: Mapping[str, Any] | None = None,
        main: str | None = None,
    ) -> Collection:
        """A collection in memory: one 2-D array, or named arrays whose first is the main column."""
        arrays = dict(vectors) if isinstance(vectors, Mapping) else {"vectors": vectors}
        columns: dict[str, Column] = {}
        for name, value in arrays.items():
            array = array_of(value)
            if array.ndim == 0 or array.dtype.kind not in "fiubV" or array.dtype.hasobject:
                raise InputError(
                    f"column {name!r}: expected numbers with at least one dimension, "
                    f"found shape {array.shape} of {array.dtype}"
                )
            columns[name] = ArrayColumn(name, array)
        if not columns or (main is not None and main not in columns):
            raise InputError(f"there is no column{f' {main!r}' if columns else ''}; give at least one array of rows")
        rows = columns[main or next(iter(columns))].rows
        found = as_records(records)
        if found is not None and len(found) != rows:
            raise InputError(f"there are {len(found)} records for {rows} rows; give one record a row")
        return cls(
            columns, main=main, vocab=as_vocab(vocab, rows), records=found, ids=as_ids(ids, rows), metadata=metadata
        )

    @property
    def vectors(self) -> Column:
        """The main column."""
        return self.columns[self.main]

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the file or of all shards; none for what is in memory."""
        return self.shards or (() if self.path is None else (self.path,))

    @property
    def places(self) -> tuple[Place, ...]:
        """Where the file or all shards were opened; none for what is in memory or came from standard input."""
        return self._places or (() if self.place is None else (self.place,))

    @property
    def title(self) -> str:
        """What to call it: the file, of shards their pattern and number, memory where there is no file."""
        if len(self.files) > 1:
            return f"{pattern_of(self.files)} ({len(self.files)} files)"
        return self.path or "memory"

    @property
    def rows(self) -> int:
        """Rows of the main column."""
        return self.vectors.rows

    @property
    def dim(self) -> int:
        """Values in a row of the main column; 1 where rows are single values."""
        shape = self.vectors.row_shape
        return shape[0] if shape else 1

    @overload
    def __getitem__(self, key: str) -> Column: ...

    @overload
    def __getitem__(self, key: int) -> Array: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Collection: ...

    def __getitem__(self, key: Any) -> Any:
        """A column by name; by rows what the collection holds of them: ``c[:5]`` and ``c[[1, 2]]`` are collections,
        ``c[3]`` is a row of the main column.
        """
        if isinstance(key, str):
            try:
                return self.columns[key]
            except KeyError:
                raise KeyError(f"no column {key!r}; there are {', '.join(self.columns)}") from None
        if isinstance(key, slice):
            chosen = range(*key.indices(self.rows))
            return self.slice(chosen.start, max(chosen.start, chosen.stop)) if chosen.step == 1 else self.take(chosen)
        if isinstance(key, tuple) or key is None or key is Ellipsis:
            raise IndexError("a collection is cut by rows; ask its column for values: c.vectors[1, 2]")
        row = one_row(key, self.rows)
        return self.take(key) if row is None else self.vectors[row]

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Array]:
        """The rows of the main column, one after the other."""
        return iter(self.vectors)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The main column: ``np.asarray(collection)``."""
        return self.vectors.__array__(dtype, copy)

    def head(self, n: int = 5) -> Collection:
        """The first ``n`` rows with all that belongs to them, as ``c[:n]``."""
        return self[: whole("n", n)]

    def select(self, name: str) -> Collection:
        """The same collection with one column, which becomes the main one. What belongs to other rows is left out."""
        if not isinstance(name, str):
            raise InputError(f"name must be the name of a column, not {shown(name)}")
        column = self[name]
        same = column.rows == self.rows
        return self._derive(
            {name: column},
            name,
            self.vocab if same else None,
            self.records if same else None,
            self.ids if same else None,
        )

    def without_derived(self) -> Collection:
        """The same collection without columns that are computed from others; itself where there are none."""
        kept = {name: column for name, column in self.columns.items() if not column.derived}
        if len(kept) == len(self.columns) or not kept:
            return self
        if self.main in kept:
            return self._derive(kept, self.main, self.vocab, self.records, self.ids)
        return self._derive(kept, next(iter(kept)), None, None, None)

    def slice(self, start: int, stop: int | None = None) -> Collection:
        """Rows ``start`` to ``stop``, as slices cut: clamped to the rows there are, negative ones counted from the end.
        Columns of another length are left out.
        """
        start, stop = bounds(start, stop, self.rows)
        rows = range(start, stop)
        columns = {n: RangeColumn(c, start, stop) for n, c in self.columns.items() if c.rows == self.rows}
        return self._derive(columns, self.main, *self._aligned(rows))

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Collection:
        """Chosen rows, by indices (IndexError beyond the rows), a range or a mask; columns of another length are left out."""
        rows = row_numbers(rows, self.rows)
        columns = {n: TakeColumn(c, rows) for n, c in self.columns.items() if c.rows == self.rows}
        return self._derive(columns, self.main, *self._aligned(rows))

    def _aligned(self, rows: Any) -> tuple[Vocab | None, Records | None, Ids | None]:
        ids: Ids | None = None
        if isinstance(self.ids, Strings):
            ids = self.ids.view(rows)
        elif self.ids is not None:
            ids = TakeColumn(self.ids, rows)
        return (
            self.vocab.view(rows) if self.vocab is not None else None,
            self.records.view(rows) if self.records is not None else None,
            ids,
        )

    def with_parts(
        self,
        *,
        columns: Mapping[str, Column] | None = None,
        vocab: Vocab | None = None,
        records: Records | None = None,
        ids: Ids | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Collection:
        """The same collection with other parts in place of its own, which stay where none is given."""
        part = self._derive(
            self.columns if columns is None else columns,
            self.main,
            self.vocab if vocab is None else vocab,
            self.records if records is None else records,
            self.ids if ids is None else ids,
        )
        part.notes = list(self.notes)
        if metadata is not None:
            part.metadata = dict(metadata)
        return part

    def _derive(
        self, columns: Mapping[str, Column], main: str, vocab: Vocab | None, records: Records | None, ids: Ids | None
    ) -> Collection:
        part = Collection(
            columns,
            main=main,
            vocab=vocab,
            records=records,
            ids=ids,
            metadata=self.metadata,
            format=self.format,
            path=self.path,
        )
        part.taken, part.shards, part.origins = self.taken, self.shards, self.origins
        part.place, part._places = self.place, self._places
        return part

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The collection as an Arrow stream: polars, DuckDB, pandas and pyarrow take it as it is. Needs pyarrow."""
        from polyvec.core.exchange import export_stream

        return export_stream(self, requested_schema)

    def on_close(self, close: Callable[[], None]) -> None:
        """Also call ``close`` when the collection is closed."""
        self._closers.append(close)

    def close(self) -> None:
        """Release the file."""
        while self._closers:
            self._closers.pop()()

    def __reduce__(self) -> Any:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_closers", "origins")}
        kept["place"] = None if self.place is None else self.place.absolute()
        kept["_places"] = tuple(place.absolute() for place in self._places)
        return rebuild, (self.origins, kept)

    def __copy__(self) -> Collection:
        twin = Collection.__new__(Collection)
        twin.__dict__.update(self.__dict__)
        return twin

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = ", ".join(f"{n} {'x'.join(map(str, c.shape))} {c.dtype}" for n, c in self.columns.items())
        return f"<Collection {self.format}: {columns}>"


def rebuild(origins: tuple[Origin, ...], kept: dict[str, Any]) -> Collection:
    """A collection that was pickled. The files that it opened here are its own, and close with it."""
    collection = Collection.__new__(Collection)
    collection.__dict__.update(kept)
    collection.origins = origins
    collection._closers = [origin.close for origin in origins]
    return collection


def as_ids(value: Any, rows: int) -> Ids | None:
    """Ids from integers or strings, one a row: a list, an array, a pandas, polars or pyarrow column."""
    ids = value if value is None or isinstance(value, (Column, Strings)) else _made_ids(value)
    if ids is not None and len(ids) != rows:
        raise InputError(f"there are {len(ids)} ids for {rows} rows; give one id a row")
    return ids


def _made_ids(value: Any) -> Ids:
    if not hasattr(value, "__len__"):
        value = one_a_row("ids", value)
    # A list of numbers and strings would become an array of strings.
    array = np.array(value, object) if isinstance(value, (list, tuple)) else np.asarray(value)
    if array.ndim != 1:
        raise InputError(f"ids are one a row, not an array of shape {array.shape}")
    if not len(array):
        return ArrayColumn("ids", np.empty(0, np.int64))
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InputError(
            f"ids are 64-bit signed integers or strings, and {array.max()} is beyond; give them as strings"
        )
    if array.dtype.kind in "iu":
        return ArrayColumn("ids", array.astype(np.int64))
    # Text has many dtypes (objects, fixed width, NumPy's and pandas' own), and one value: a Python string.
    values = array.tolist() if array.dtype.kind in "UOTS" else []
    kinds = set(map(type, values))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return Strings.from_words(values, label="ids")
    if kinds and all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        if not -(2**63) <= min(values) <= max(values) < 2**63:
            raise InputError("ids are 64-bit signed integers or strings, and some are beyond; give them as strings")
        return ArrayColumn("ids", np.array(values, np.int64))
    row = next((i for i, v in enumerate(values) if not isinstance(v, (str, int))), 0)
    shown = f"{values[row]!r} in row {row}" if values else str(array.dtype)
    raise InputError(f"ids must be integers or strings, all of one kind, not {shown}")


def concat(collections: Sequence[Collection]) -> Collection:
    """Collections of equal columns, one after the other. What only some of them hold is left out, with a note."""
    first = collections[0]
    # The parts that a derived column is made of belong to one file each; joined they would mean nothing.
    names = [first.main] if first.vectors.derived else list(first.columns)
    columns = {name: ConcatColumn(name, [c[name] for c in collections]) for name in names}
    notes = []

    def joined(what: str, join: Callable[[list[Any]], Any]) -> Any:
        held = [getattr(c, what) for c in collections]
        if all(h is not None for h in held):
            return join(held)
        if any(h is not None for h in held):
            notes.append(f"{what} left out: only {sum(h is not None for h in held)} of {len(held)} inputs have them")
        return None

    def join_ids(held: list[Ids]) -> Ids | None:
        if all(isinstance(ids, Strings) for ids in held):
            return Strings.concat([ids for ids in held if isinstance(ids, Strings)])
        if all(isinstance(ids, Column) for ids in held):
            return ConcatColumn("ids", [ids for ids in held if isinstance(ids, Column)])
        notes.append("ids left out: some inputs have numbers, others strings")
        return None

    result = Collection(
        columns,
        main=first.main,
        vocab=joined("vocab", lambda held: Vocab(Strings.concat([v.words for v in held]))),
        records=joined("records", ConcatRecords),
        ids=joined("ids", join_ids),
        metadata=first.metadata,
        format=first.format,
        path=first.path,
        notes=notes,
    )
    result.taken = first.taken
    result.origins = tuple(origin for collection in collections for origin in collection.origins)
    result.shards = tuple(file for collection in collections for file in collection.files)
    result.place, result._places = first.place, tuple(place for one in collections for place in one.places)
    for collection in collections:
        result.on_close(collection.close)
    return result
