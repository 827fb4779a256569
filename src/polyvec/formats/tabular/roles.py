"""Which column of a table is what: vectors, ids, words, or a field of the records.

A schema that polyvec wrote has a note that says so. In those of other programs lists of numbers are columns, a column
called ``id`` is the ids, and all others are records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from polyvec.core.collection import Collection, Ids
from polyvec.core.columns import Column
from polyvec.core.errors import Corrupt, FormatError, Unsupported
from polyvec.core.exchange import KEY, arrow, list_type, number_type, text_type
from polyvec.core.strict_json import parse_json
from polyvec.core.vocab import Vocab
from polyvec.formats.tabular.columns import TableColumn, TableStrings, ragged, refuse_null, rows_of
from polyvec.formats.tabular.records import TableRecords
from polyvec.formats.tabular.table import SCAN_ROWS, Table

ID_NAMES = ("id", "ids", "_id")
MAIN = ("vectors", "vector", "emb", "embedding", "embeddings", "train", "neighbors_id", "neighbors")
MAX_RATIO = 4096  # decoded bytes for a stored one; what promises more has to show it first
FREE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Note:
    """What polyvec wrote into a schema about its columns; empty where another program wrote it."""

    ours: bool = False
    columns: dict[str, str] = field(default_factory=dict)  # name in the table -> name of the column
    records: dict[str, str] = field(default_factory=dict)  # name in the table -> key
    texts: tuple[Any, ...] = ()  # fields that are JSON
    ids: str | None = None
    vocab: str | None = None
    main: str | None = None
    metadata: dict[str, Any] | None = None
    has_records: bool = False  # though they may have no fields


def collect(table: Table, *, ids_names: Sequence[str] = ID_NAMES) -> Collection:
    """The table as a collection; the first of ``ids_names`` that it has is the ids, unless polyvec wrote it."""
    note = _read_note(table)
    left = _kinds(table)  # types of the columns that are nothing yet
    columns = _columns(table, left, note)
    for column in columns.values():
        _check_promise(table, column)
        del left[column.stored]
    ids = _ids(table, left, (note.ids,) if note.ours else ids_names)
    vocab = _vocab(table, left, note.vocab)
    return Collection(
        columns,
        main=_main(columns, note),
        vocab=vocab,
        records=_records(table, left, note),
        ids=ids,
        metadata=note.metadata,
    )


def _read_note(table: Table) -> Note:
    data = (table.schema.metadata or {}).get(KEY)
    if data is None:
        return Note()
    said = parse_json(data, path=table.label, field="polyvec metadata")
    if not isinstance(said, dict) or not isinstance(said.get("texts", []), list):
        raise Corrupt("the polyvec metadata is not an object", path=table.label)
    names = set(table.schema.names)
    columns = {stored: name for stored, name in _texts(said, "columns").items() if stored in names}
    main, metadata = _text(said, "main"), said.get("metadata")
    return Note(
        ours=bool(said),
        columns=columns,
        records=_texts(said, "records"),
        texts=tuple(said.get("texts", ())),
        ids=_text(said, "ids"),
        vocab=_text(said, "vocab"),
        main=None if main is None else columns.get(main, main),
        metadata=metadata if isinstance(metadata, dict) else None,
        has_records=said.get("has_records") is True,
    )


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) else None


def _texts(said: Mapping[str, Any], key: str) -> dict[str, str]:
    value = said.get(key)
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}


def _kinds(table: Table) -> dict[str, Any]:
    """The type of each column, by its name."""
    names = list(table.schema.names)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Unsupported("two columns have one name", path=table.label, field=twice)
    return {name: table.schema.field(name).type for name in names}


def _columns(table: Table, kinds: Mapping[str, Any], note: Note) -> dict[str, TableColumn]:
    """Lists of numbers, and the plain numbers that the note calls columns; where there are none, why."""
    columns: dict[str, TableColumn] = {}
    unequal: FormatError | None = None
    for stored, kind in kinds.items():
        name = note.columns.get(stored, stored)
        try:
            row = _row_type(table, stored, kind, plain=stored in note.columns)
        except FormatError as error:
            unequal = unequal or error
            continue
        if row is not None:
            columns[name] = TableColumn(table, name, *row, stored)
    if columns:
        return columns
    if unequal is not None:
        raise unequal
    if note.columns:
        raise Unsupported("no column holds numbers", path=table.label)
    shown = ", ".join(f"{name} ({kind})" for name, kind in list(kinds.items())[:8])
    raise Unsupported(
        "no column holds lists of numbers",
        path=table.label,
        expected="list<float> or fixed_size_list<float>",
        found=shown or "no columns",
    )


def _row_type(table: Table, name: str, kind: Any, *, plain: bool) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """The shape and dtype of a row; None for what holds no lists of numbers, nor ``plain`` numbers."""
    if plain and (number := number_type(kind)) is not None:
        return (), number
    found = list_type(kind)
    return None if found is None else (_sizes(table, name, found[0]), found[1])


def _ids(table: Table, left: dict[str, Any], names: Iterable[str | None]) -> Ids | None:
    """The first of the names that is left, if it holds whole numbers or text."""
    name = next((name for name in names if name in left), None)
    if name is None:
        return None
    if arrow().types.is_integer(left[name]):
        del left[name]
        return TableColumn(table, "ids", (), np.dtype(np.int64), name)
    if text_type(left[name]):
        del left[name]
        return TableStrings(table, name)
    return None


def _vocab(table: Table, left: dict[str, Any], name: str | None) -> Vocab | None:
    if name is None or name not in left or not text_type(left[name]):
        return None
    del left[name]
    return Vocab(TableStrings(table, name))


def _records(table: Table, left: Mapping[str, Any], note: Note) -> TableRecords | None:
    """All that is nothing else."""
    texts = [name for name in note.texts if name in left and text_type(left[name])]
    if not left and not note.has_records:
        return None
    return TableRecords(table, {name: note.records.get(name, name) for name in left}, texts)


def _main(columns: Mapping[str, Column], note: Note) -> str:
    if note.main is not None and note.main in columns:
        return note.main
    return next((name for name in MAIN if name in columns), next(iter(columns)))


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
        refuse_null(array, table.label, name, 0, 1)
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
