"""Arrow IPC: the file format (Feather 2) and the stream format.

::

    file     'ARROW1' 00 00, schema, record batches, footer, u32 footer length, 'ARROW1'
    stream   FF FF FF FF, u32 length, schema message; then a message a record batch; FF FF FF FF 00 00 00 00

Columns mean what they mean in Parquet. ``.arrow`` and ``.feather`` are written as files, ``.arrows`` as a stream. A
stream has no index: it is passed over once when it is opened, and read again from its start for every way back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from polyvec.core.collection import Collection
from polyvec.core.dtypes import NUMBERS
from polyvec.core.errors import Corrupt
from polyvec.core.exchange import arrow, plan_table, record_batches, schema_of
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.streams import SinkStream
from polyvec.formats.tabular import Table, name_target, open_table, over, wrapped

MAGIC = b"ARROW1\0\0"
CONTINUATION = b"\xff\xff\xff\xff"
STREAM_SUFFIXES = (".arrows",)
COMPRESSION = Option("compression", str, "How the record batches are compressed.", ("none", "lz4", "zstd"), "none")


class Arrow(Format):
    """Arrow IPC files and streams."""

    name = "arrow"
    title = "Apache Arrow IPC (Feather)"
    suffixes = (".arrow", ".feather", ".ipc", *STREAM_SUFFIXES)
    aliases = {"arrow": "file", "feather": "file", "ipc": "file", "arrows": "stream", "arrow-stream": "stream"}  # noqa: RUF012
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
    options = (COMPRESSION,)
    extra = "arrow"

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "starts with the magic 'ARROW1'", "file")]
        if peek.suffix not in self.suffixes:
            return []
        if peek.head.startswith(CONTINUATION) and 0 < int.from_bytes(peek.head[4:8], "little") < peek.size:
            return [Match(Confidence.NAMED, f"suffix {peek.suffix} and a stream's first message", "stream")]
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the magic is missing", "file")]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        return open_table(_table(source, variant))

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return name_target(collection, options)

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        compression = COMPRESSION.of(options.own)
        pa = arrow("Arrow files")
        plan = plan_table(collection, halves=options.encoding == "float16")
        schema = schema_of(collection, plan)
        how = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        stream = self.aliases.get(options.variant, options.variant) == "stream"
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        done = 0
        with make(pa.PythonFile(SinkStream(sink, seekable=False), "w"), schema, options=how) as writer:
            for batch in record_batches(collection, plan, schema):
                writer.write_batch(batch)
                done += batch.num_rows
                if options.progress:
                    options.progress(done, collection.rows)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        table = _table(source, variant)
        table.close()
        if isinstance(table, StreamTable):
            return [Span(0, source.size, "messages", f"a schema and {len(table.groups)} record batches")]
        footer = int.from_bytes(source.read_at(source.size - 10, 4), "little")
        end = source.size - 10 - footer
        if end < len(MAGIC):
            raise Corrupt("the footer does not fit the file", path=source.label, offset=source.size - 10, found=footer)
        return [
            Span(0, 8, "magic", "ARROW1"),
            Span(8, end - 8, "messages", f"a schema and {len(table.groups)} record batches"),
            Span(end, footer, "footer"),
            Span(end + footer, 4, "footer length", str(footer)),
            Span(source.size - 6, 6, "magic", "ARROW1"),
        ]


class IpcTable(Table):
    """Record batches, each a group."""

    def __init__(self, source: Source, raw: Any) -> None:
        self.label, self.size, self.lock = source.label, source.size, threading.Lock()
        self._raw = raw
        if (local := source.local()) is None:
            self.groups = self.count(raw)
            return
        # Rows are counted through a mapping, which touches no more than the messages' heads; read they are by read().
        with arrow().memory_map(str(local)) as mapped:
            self.groups = self.count(mapped)

    def count(self, raw: Any) -> list[int]:
        """The rows of each batch."""
        raise NotImplementedError

    def batch(self, number: int) -> Any:
        """One record batch, unchecked."""
        raise NotImplementedError

    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        batch = self.batch(group).select(list(names))
        # The library trusts the offsets in a file until it is asked to check them.
        batch.validate(full=True)
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)

    def close(self) -> None:
        super().close()
        self._raw.close()


class FileTable(IpcTable):
    """The file format: batches by number."""

    def __init__(self, source: Source, raw: Any) -> None:
        super().__init__(source, raw)
        pa = arrow()
        self._reader = pa.ipc.open_file(self._raw)
        self.schema = self._reader.schema

    def count(self, raw: Any) -> list[int]:
        reader = arrow().ipc.open_file(raw)
        return [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    def batch(self, number: int) -> Any:
        return self._reader.get_batch(number)


class StreamTable(IpcTable):
    """The stream format: batches one after the other."""

    def __init__(self, source: Source, raw: Any) -> None:
        super().__init__(source, raw)
        self._restart()
        self.schema = self._reader.schema

    def count(self, raw: Any) -> list[int]:
        return [batch.num_rows for batch in arrow().ipc.open_stream(raw)]

    def _restart(self) -> None:
        self._raw.seek(0)
        self._reader = arrow().ipc.open_stream(self._raw)
        self._next = 0

    def batch(self, number: int) -> Any:
        if number < self._next:
            self._restart()
        while self._next < number:
            self._reader.read_next_batch()
            self._next += 1
        self._next += 1
        return self._reader.read_next_batch()


def _table(source: Source, variant: str) -> IpcTable:
    with wrapped(source.label):
        stream = variant == "stream" or (variant != "file" and not source.read_at(0, 8).startswith(MAGIC))
        return over(source, StreamTable if stream else FileTable, "Arrow files")


FORMAT = Arrow()
