"""Parquet: vectors as lists of numbers, ids, words and records as further columns.

::

    'PAR1', row groups, footer (Thrift), u32 footer length, 'PAR1'

Read and written by pyarrow, one row group and one batch at a time. Row groups are about 64 MB; vectors are stored
plain, uncompressed and without statistics, because none of these gain anything on floats. ``layout=vectordbbench``
writes what VectorDBBench reads: ``id`` and ``emb``, or ``id`` and ``neighbors_id`` for whole numbers, as plain lists.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from polyvec.core.collection import Collection
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.dtypes import NUMBERS
from polyvec.core.errors import Corrupt, InputError, LossyConversion
from polyvec.core.exchange import TablePlan, arrow, plan_table, record_batches, schema_of
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.streams import SinkStream
from polyvec.formats.tabular import Table, name_target, open_table, over, wrapped

MAGIC = b"PAR1"
GROUP_BYTES = 64 << 20
COMPRESSION = Option(
    "compression",
    str,
    "How the pages are compressed.",
    ("none", "snappy", "gzip", "brotli", "lz4", "zstd"),
    "none",
)
LAYOUT = Option(
    "layout", str, "The columns' names: polyvec's, or those of VectorDBBench.", ("polyvec", "vectordbbench"), "polyvec"
)
GROUP_ROWS = Option("group_rows", int, "Rows of a row group.")
MAX_ROWS = 2**40  # of a group: more is no count


class Parquet(Format):
    """Parquet files."""

    name = "parquet"
    title = "Apache Parquet"
    suffixes = (".parquet", ".pq")
    aliases = {"parquet": "", "pq": ""}  # noqa: RUF012
    holds = Holds(
        many_columns=True,
        vocab=True,
        records=True,
        ids=True,
        metadata=True,
        encodings=("raw", "float16"),
        dtypes=NUMBERS,
        casts=True,
    )
    options = (LAYOUT, COMPRESSION, GROUP_ROWS)
    extra = "arrow"

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "starts with the magic 'PAR1'")]
        named = peek.suffix in self.suffixes
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the magic is missing")] if named else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        return open_table(over(source, ParquetTable, "Parquet files"))

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        """VectorDBBench's layout has its own names, and no place for words and metadata."""
        if LAYOUT.of(own) != "vectordbbench":
            return collection, []
        if len(collection.columns) > 1:
            raise LossyConversion(
                f"the layout vectordbbench holds one column and the source has {', '.join(collection.columns)}; "
                f"choose one with --column (column=), for example --column {collection.main}"
            )
        lost = [("words", collection.vocab is not None), ("metadata", bool(collection.metadata))]
        return _for_vectordbbench(collection), [what for what, there in lost if there]

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return name_target(collection, options)

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        compression, layout = COMPRESSION.of(options.own), LAYOUT.of(options.own)
        group = GROUP_ROWS.of(options.own)
        if group is not None and group < 1:
            raise InputError(f"group_rows must be at least 1, not {group}")
        pa = arrow("Parquet files")
        from pyarrow import parquet as pq

        plan = plan_table(collection, lists=layout == "vectordbbench", halves=options.encoding == "float16")
        schema = schema_of(collection, plan)
        if layout == "vectordbbench":
            schema = schema.remove_metadata()
        rows = group or _group_rows(collection, plan)
        texts = [f.name for f in schema if pa.types.is_string(f.type)]
        writer = pq.ParquetWriter(
            pa.PythonFile(SinkStream(sink, seekable=False), "w"),
            schema,
            compression=compression.upper(),
            use_dictionary=texts,
            write_statistics=[n for n in schema.names if n not in plan.columns],
            data_page_size=1 << 20,
        )
        try:
            for start in range(0, collection.rows, rows):
                batches = list(record_batches(collection, plan, schema, first=start, last=start + rows))
                writer.write_table(pa.Table.from_batches(batches, schema), row_group_size=rows)
                if options.progress:
                    options.progress(min(start + rows, collection.rows), collection.rows)
        finally:
            writer.close()

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        table = over(source, ParquetTable, "Parquet files")
        with wrapped(source.label):
            footer = int.from_bytes(source.read_at(source.size - 8, 4), "little")
            spans = [Span(0, 4, "magic", "PAR1")]
            at = 4
            for number, rows in enumerate(table.groups):
                group = table.file.metadata.row_group(number)
                start = min((_first_page(group.column(i)) for i in range(group.num_columns)), default=at)
                size = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
                if not (at <= start and size >= 0 and start + size <= source.size):
                    raise Corrupt("a row group lies outside the file", path=source.label, field=f"row group {number}")
                spans.append(Span(start, size, f"row group {number}", f"{rows} rows"))
                at = start + size
            end = source.size - 8 - footer
            if end < at:
                raise Corrupt(
                    "the footer does not fit the file", path=source.label, offset=source.size - 8, found=footer
                )
            if end > at:
                spans.append(Span(at, end - at, "indexes"))
            table.close()
            return [
                *spans,
                Span(end, footer, "footer"),
                Span(source.size - 8, 4, "footer length", str(footer)),
                Span(source.size - 4, 4, "magic", "PAR1"),
            ]


class ParquetTable(Table):
    """A Parquet file's row groups."""

    def __init__(self, source: Source, raw: Any) -> None:
        from pyarrow import parquet as pq

        self.label, self.size, self.lock = source.label, source.size, threading.Lock()
        self._raw = raw
        with wrapped(source.label):
            self.file = pq.ParquetFile(
                self._raw,
                pre_buffer=False,
                buffer_size=4 << 20,
                thrift_string_size_limit=min(source.size + 1, 100 << 20),
            )
            self.schema = self.file.schema_arrow
            about = self.file.metadata
            self.groups = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        if any(not 0 <= rows < MAX_ROWS for rows in self.groups) or sum(self.groups) != about.num_rows:
            raise Corrupt(
                "the row groups do not sum to the rows",
                path=source.label,
                field="num_rows",
                expected=about.num_rows,
                found=sum(self.groups),
            )

    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        for batch in self.file.iter_batches(
            batch_size=rows, row_groups=[group], columns=list(names), use_threads=False
        ):
            chosen = batch.select(list(names))  # the library takes "a" for every "a.…" too
            chosen.validate(full=True)
            yield chosen

    def values(self, name: str) -> int | None:
        about = self.file.metadata
        leaves = [i for i in range(about.num_columns) if about.schema.column(i).path.split(".")[0] == name]
        if len(leaves) != 1:
            return None
        counts: list[int] = [about.row_group(g).column(leaves[0]).num_values for g in range(about.num_row_groups)]
        return sum(counts)

    def close(self) -> None:
        super().close()
        self.file.close()
        self._raw.close()


def _first_page(column: Any) -> int:
    places = [p for p in (column.dictionary_page_offset, column.data_page_offset) if p]
    return int(min(places, default=0))


def _group_rows(collection: Collection, plan: TablePlan) -> int:
    width = sum(collection[c].dtype.itemsize * prod(collection[c].row_shape) for c in plan.columns.values())
    return max(1, min(1 << 17, GROUP_BYTES // max(1, width)))


def _for_vectordbbench(collection: Collection) -> Collection:
    """The columns by VectorDBBench's names: id, and emb or neighbors_id."""
    column = collection.vectors
    whole = column.dtype.kind in "iu"
    ids = collection.ids
    if ids is None:
        ids = ReaderColumn("ids", (column.rows,), np.dtype(np.int64), lambda start, stop: np.arange(start, stop))
    renamed: Column = column
    if whole and column.dtype != np.int64:
        renamed = ReaderColumn(column.name, column.shape, np.dtype(np.int64), lambda a, b: column[a:b].astype(np.int64))
    name = "neighbors_id" if whole else "emb"
    return Collection({name: renamed}, ids=ids, records=collection.records, notes=collection.notes)


FORMAT = Parquet()
