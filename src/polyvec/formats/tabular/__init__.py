"""Tables of Arrow data as collections: what Parquet and Arrow IPC share. Not a format of its own.

Columns of number lists (fixed-size or equal lists) are columns. A column called ``id`` is the ids. All others are
fields of the records. A schema that polyvec wrote says so itself, and is followed where it agrees with the data.
"""

from __future__ import annotations

from polyvec.core.collection import Collection
from polyvec.core.exchange import table_dtype
from polyvec.core.format import WriteOptions
from polyvec.formats.tabular.records import TableRecords
from polyvec.formats.tabular.roles import ID_NAMES, collect
from polyvec.formats.tabular.table import Table, over, wrapped

__all__ = ["ID_NAMES", "Table", "TableRecords", "collect", "name_target", "open_table", "over", "wrapped"]


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
    name = "float16" if options.encoding == "float16" else f"raw {table_dtype(collection.vectors).name}"
    return name + (f", {kept}" if kept and kept != "none" else "")
