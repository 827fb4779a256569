"""attach: records and ids from files (JSONL, JSON, CSV, TSV, Parquet; lines, npy) beside the rows of a collection."""

from __future__ import annotations

import codecs
import csv
import errno
import io
import os
from typing import Any

from polyvec import formats
from polyvec.core.collection import Collection, Ids, as_ids
from polyvec.core.columns import Column
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.places import Place
from polyvec.core.records import ColumnRecords, LineRecords, ListRecords, Records
from polyvec.core.sidecars import read_strings
from polyvec.core.sources import Source, open_source
from polyvec.core.strict_json import parse_json
from polyvec.core.tables import RECODE, other_separator, read_column
from polyvec.formats.tabular import TableRecords, over
from polyvec.writing.inputs import given_records, values_of

NEWLINE = b"\n"
ONE_A_ROW = "there are {found} records for {rows} rows; give one record a row"
KINDS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def read_records(path: str | os.PathLike[str]) -> Records:
    """The records of a table, one a line or row; the suffix says which kind, or the first letter of a pipe."""
    suffix = Place.of(path).suffix
    if Place.of(path).is_pipe() and suffix not in KINDS:
        return _read_pipe(path)
    if suffix in (".jsonl", ".ndjson"):
        return LineRecords(open_source(path))
    if suffix == ".json":
        return _read_json(open_source(path))
    if suffix in (".csv", ".tsv"):
        return _read_csv(open_source(path), "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return _read_parquet(path)
    raise InputError(f"{os.fspath(path)}: records are read from {', '.join(KINDS)}, not {suffix or '(no suffix)'}")


def attach_given(collection: Collection, *, ids: Any = None, records: Any = None) -> Collection:
    """Give the collection's rows these records and ids in place of its own; see `read_ids` for what ids may be."""
    if records is not None:
        attach_records(collection, records)
    if ids is not None:
        collection.ids = read_ids(collection, ids)
    return collection


def attach_records(collection: Collection, records: Any, *, otherwise: str = ONE_A_ROW) -> Collection:
    """Give the collection's rows these records: a path, records, or a list; `InputError`, as worded, unless one a row."""
    found = read_records(records) if isinstance(records, (str, os.PathLike)) else given_records(records)
    if found is not None and len(found) != collection.rows:
        name = os.fspath(records) if isinstance(records, (str, os.PathLike)) else "records"
        raise InputError(f"{name}: {otherwise.format(found=len(found), rows=collection.rows)}")
    collection.records = found
    if isinstance(found, LineRecords):
        collection.on_close(found.source.close)
    return collection


def read_ids(collection: Collection, ids: Any) -> Ids:
    """Ids for the collection's rows, one a row.

    A file: ``.txt`` (one a line), ``.npy`` (integers), or a table (``.jsonl``, ``.csv``, ``.parquet``…), whose field
    ``FILE:FIELD`` names where it is not ``id``. Else the name of a field of the collection's own records, or of a column.
    Or ids themselves: a list, an array, a column of another library.
    """
    if not isinstance(ids, (str, os.PathLike)):
        found = as_ids(values_of(ids), collection.rows)
        assert found is not None
        return found
    file, field = named_file(os.fspath(ids))
    if file is None:
        return _own_ids(collection, os.fspath(ids))
    suffix = Place.of(file).suffix
    if field is None and (suffix == ".txt" or (Place.of(file).is_pipe() and suffix not in (".npy", *KINDS))):
        source = open_source(file)
        collection.on_close(source.close)
        return read_strings(source, collection.rows, "ids", marked=True)
    if field is None and suffix == ".npy":
        with formats.open(file, sidecars=False) as held:
            if held.vectors.dtype.kind not in "iu" or held.vectors.row_shape not in ((), (1,)):
                raise InputError(f"{file}: ids are whole numbers, one a row, not {_shape(held.vectors)}")
            return _counted(file, held.vectors[:].reshape(-1), collection.rows)
    if suffix not in KINDS and not Place.of(file).is_pipe():
        raise InputError(f"{file}: ids are read from .txt, .npy, {', '.join(KINDS)}, not {suffix or '(no suffix)'}")
    records = read_records(file)
    try:
        chosen = field if field is not None else _only_field(file, records)
        if len(records) and chosen not in records.fields:
            advice = other_separator(records.fields, chosen) or f"choose one of them, {file}:FIELD"
            raise InputError(f"{file}: no field {chosen!r}; there are {', '.join(records.fields[:8])}: {advice}")
        return _counted(f"{file}:{chosen}", _field_values(file, records, chosen), collection.rows)
    finally:
        if isinstance(records, LineRecords):
            records.source.close()


def named_file(text: str) -> tuple[str | None, str | None]:
    """The file and field that ``FILE`` or ``FILE:FIELD`` names; no file where it is the name of a column."""
    if _is_there(text):
        return text, None
    file, _, field = text.rpartition(":")
    if file and not field.startswith("//") and _is_there(file):
        return file, field
    looks = "/" in text or Place.of(file or text).suffix in (".txt", ".npy", *KINDS)
    if looks:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file or text)
    return None, None


def _is_there(text: str) -> bool:
    place = Place.of(text)
    return place.is_file() or place.is_pipe()


def _own_ids(collection: Collection, name: str) -> Ids:
    if name in collection.columns:
        column = collection[name]
        if column.dtype.kind not in "iu" or column.row_shape not in ((), (1,)):
            raise InputError(f"the column {name!r} holds {_shape(column)}; ids are whole numbers, one a row")
        return _counted(f"the column {name!r}", column[:].reshape(-1), collection.rows)
    fields = collection.records.fields if collection.records is not None else []
    if collection.records is None or name not in fields:
        there = ", ".join([*fields, *(n for n, c in collection.columns.items() if c.dtype.kind in "iu")]) or "none"
        raise InputError(f"--ids {name}: no such file, and no such field or column; there are {there}")
    return _counted(f"the field {name!r}", _field_values("the records", collection.records, name), collection.rows)


def _only_field(file: str, records: Records) -> str:
    fields = records.fields
    named = next((name for name in ("id", "ids", "_id") if name in fields), None)
    if named is None and len(fields) != 1:
        raise InputError(f"{file}: say which field the ids are, {file}:FIELD; there are {', '.join(fields) or 'none'}")
    return named or fields[0]


def _field_values(file: str, records: Records, name: str) -> list[Any]:
    found = []
    for row, record in enumerate(records):
        value = record.get(name)
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            shown = "none" if value is None else repr(value)[:40]
            raise InputError(f"{file}: the field {name!r} of row {row} holds {shown}; ids are integers or strings")
        found.append(value)
    return found


def _counted(what: str, values: Any, rows: int) -> Ids:
    """Ids from values, with a name in the error."""
    if len(values) != rows:
        raise InputError(f"{what}: there are {len(values)} ids for {rows} rows; give one id a row")
    try:
        found = as_ids(values, rows)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    assert found is not None
    return found


def _shape(column: Column) -> str:
    return f"{' x '.join(map(str, column.shape))} {column.dtype}"


def _read_pipe(path: str | os.PathLike[str]) -> Records:
    source = open_source(path)
    head = source.read_at(0, 4096).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if head == b"{":
        return LineRecords(source)
    return _read_json(source) if head == b"[" else _read_csv(source, ",")


def _read_json(source: Source) -> Records:
    with source:
        value = parse_json(source.read_at(0, source.size), path=source.label)
    if isinstance(value, dict) and isinstance(value.get("records"), list):
        value = value["records"]
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise Corrupt("the file is not a list of JSON objects", path=source.label, expected="[{…}, …]")
    return ListRecords(value)


def _read_csv(source: Source, delimiter: str) -> Records:
    path = source.label
    with source:
        data = source.read_at(0, source.size)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Corrupt(
            "the table is not valid UTF-8",
            path=path,
            offset=error.start,
            field=f"line {data.count(NEWLINE, 0, error.start) + 1}",
            remedy=RECODE,
        ) from None
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next(rows, [])
        if not names or len(set(names)) != len(names):
            raise Corrupt("the first line does not name each column once", path=path, found=str(names)[:80])
        columns: list[list[str]] = [[] for _ in names]
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise Corrupt(
                    "a line has another number of values than the first",
                    path=path,
                    field=f"line {rows.line_num}",
                    expected=len(names),
                    found=len(row),
                )
            for column, value in zip(columns, row):
                column.append(value)
    except csv.Error as error:
        raise Corrupt(f"the table cannot be read: {error}", path=path) from None
    return ColumnRecords({name: read_column(column) for name, column in zip(names, columns)})


def _read_parquet(path: str | os.PathLike[str]) -> Records:
    from polyvec.formats.parquet import ParquetTable

    with open_source(path) as source:
        table = over(source, ParquetTable, "Parquet files")  # which opens the file itself
    return TableRecords(table, {name: name for name in table.schema.names})
