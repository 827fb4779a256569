"""attach: records from a table (JSONL, JSON, CSV, TSV, Parquet) beside the rows of a collection."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt, InputError, MissingExtra, Unsupported
from polyvec.core.files import Source
from polyvec.core.records import ColumnRecords, LineRecords, ListRecords, Records, as_records
from polyvec.core.strict_json import parse_json
from polyvec.core.tables import read_column

KINDS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def read_records(path: str | os.PathLike[str]) -> Records:
    """The records of a table, one a line or row; the suffix says which kind."""
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return LineRecords(Source(path))
    if suffix == ".json":
        return _read_json(path)
    if suffix in (".csv", ".tsv"):
        return _read_csv(path, "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return _read_parquet(path)
    raise InputError(f"{os.fspath(path)}: records are read from {', '.join(KINDS)}, not {suffix or '(no suffix)'}")


def attach_records(collection: Collection, records: Any) -> Collection:
    """Give the collection's rows these records: a path, records, or a list; `InputError` unless one a row."""
    found = read_records(records) if isinstance(records, (str, os.PathLike)) else as_records(records)
    if found is not None and len(found) != collection.rows:
        name = os.fspath(records) if isinstance(records, (str, os.PathLike)) else "records"
        raise InputError(f"{name}: Metadata count mismatch: expected {collection.rows} records, got {len(found)}")
    collection.records = found
    if isinstance(found, LineRecords):
        collection.on_close(found.source.close)
    return collection


def _read_json(path: str | os.PathLike[str]) -> Records:
    with Source(path) as source:
        value = parse_json(source.read_at(0, source.size), path=source.label)
    if isinstance(value, dict) and isinstance(value.get("records"), list):
        value = value["records"]
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise Corrupt("the file is not a list of JSON objects", path=os.fspath(path), expected="[{…}, …]")
    return ListRecords(value)


def _read_csv(path: str | os.PathLike[str], delimiter: str) -> Records:
    with Source(path) as source:
        data = source.read_at(0, source.size)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Corrupt("the table is not valid UTF-8", path=os.fspath(path), offset=error.start) from None
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next(rows, [])
        if not names or len(set(names)) != len(names):
            raise Corrupt("the first line does not name each column once", path=os.fspath(path), found=str(names)[:80])
        columns: list[list[str]] = [[] for _ in names]
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise Corrupt(
                    "a line has another number of values than the first", path=os.fspath(path),
                    field=f"line {rows.line_num}", expected=len(names), found=len(row),
                )  # fmt: skip
            for column, value in zip(columns, row):
                column.append(value)
    except csv.Error as error:
        raise Corrupt(f"the table cannot be read: {error}", path=os.fspath(path)) from None
    return ColumnRecords({name: read_column(column) for name, column in zip(names, columns)})


def _read_parquet(path: str | os.PathLike[str]) -> Records:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtra("pyarrow", extra="arrow", purpose="Parquet records") from None
    try:
        table = parquet.read_table(os.fspath(path))
    except pa.ArrowException as error:
        raise Unsupported(f"the Parquet file cannot be read: {error}", path=os.fspath(path)) from None
    return ColumnRecords({name: table.column(name).to_pylist() for name in table.column_names})
