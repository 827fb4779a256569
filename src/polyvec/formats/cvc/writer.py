"""Chunks into a sink: payloads in sequence, the header last, checksums and writes on a thread of their own.

The header comes first in the file and its numbers last, so its place is reserved: the JSON is padded with spaces.
Padding also aligns the first payload, and keeps ``header_len`` of the document layout from looking like a version
to readers that tell the layouts apart by the range of that number.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from polyvec.core.blocks import Array
from polyvec.core.errors import InputError
from polyvec.core.plain import json_default
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.cvc.structure import DOCUMENT, MAGIC, MAX_HEADER_BYTES, VERSIONED, Json
from polyvec.kernels.checksum import crc32, crc32_combine

PAGE = 4096
ALIGNMENT = 64
MAX_CHUNK_BYTES = 2**32 - 1
UNKNOWN_RESERVE = 1 << 16  # header bytes where the number of chunks is not known: some 500 chunks
COPY_PIECE = 4 << 20
DEPTH = 3  # pieces that wait to be written
SMALL = 1 << 20  # below this a chunk is written by the caller: a hand-over costs more than it saves
# The widest texts of numbers that are known only at the end.
WIDE_NUMBER, WIDE_COUNT, WIDE_OFFSET = -1.2345678901234567e-38, 2**32 - 1, 2**63 - 1


@dataclass(slots=True)
class Part:
    """Bytes that have a checksum of their own: a column in a chunk. Complete when the writer has finished."""

    size: int = 0
    crc: int = 0


@dataclass(slots=True)
class Placed:
    """A chunk being written: its JSON, its parts and where it lies."""

    entry: Json
    offset: int
    parts: list[Part] = field(default_factory=list)
    places: list[Json] = field(default_factory=list)  # the JSON of each part that has one (columnar files)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def crc(self) -> int:
        total = 0
        for part in self.parts:
            total = crc32_combine(total, part.crc, part.size)
        return total


class ChunkWriter:
    """Writes one CVC file. ``header`` holds every key but ``chunks`` and ``num_vectors``.

    ``chunks`` are the JSON entries to come, with the widest values where values are not known yet; None where not even
    their number is known.
    """

    def __init__(
        self,
        sink: Sink,
        header: Mapping[str, Any],
        *,
        layout: str,
        version: tuple[int, int],
        mapped: bool,
        chunks: Iterable[Json] | None,
    ) -> None:
        self.sink = sink
        self.header = dict(header)
        self.layout = layout
        self.version = version
        self.mapped = mapped
        self.words = 8 if layout == "versioned" else 4
        self.chunks: list[Placed] = []
        self.rows = 0
        self._prelude = (VERSIONED if layout == "versioned" else DOCUMENT).size
        if chunks is None:
            need = UNKNOWN_RESERVE
        else:
            widest = [self._completed(dict(entry)) for entry in chunks]
            need = len(self._json(widest, sum(entry["rows"] for entry in widest)))
        self._room = self._pad(need)
        sink.reserve(self._prelude + self._room)
        self.at = self._prelude + self._room
        self._pipe = _Pipe(sink)

    # -- chunks

    def begin(self, entry: Json) -> Placed:
        """Start a chunk; its entry has ``rows`` and whatever else is to be kept."""
        if self.mapped:
            gap = -self.at % PAGE
            self._pipe.write(bytes(gap), None)
            self.at += gap
        placed = Placed(entry, self.at)
        self._pipe.write(bytes(self.words), None)
        self.at += self.words
        self.chunks.append(placed)
        self.rows += entry["rows"]
        return placed

    def part(self, place: Json | None = None) -> Part:
        """Start a part of the current chunk; ``place`` is its own JSON, in columnar files."""
        chunk = self.chunks[-1]
        part = Part()
        if place is not None:
            place["offset"] = chunk.size
            chunk.places.append(place)
        chunk.parts.append(part)
        return part

    def write(self, data: Array | bytes) -> None:
        """Append to the current part. The bytes must not change afterwards."""
        size = data.nbytes if not isinstance(data, bytes) else len(data)
        self._grow(size)
        self._pipe.write(data, self.chunks[-1].parts[-1])

    def copy(self, source: Source, offset: int, size: int, crc: int | None) -> None:
        """Append a range of a file to the current part: inside the kernel where its checksum is known."""
        self._grow(size)
        self._pipe.copy(source, offset, size, crc, self.chunks[-1].parts[-1])

    def reserve(self, size: int) -> int:
        """Room for ``size`` bytes of the current part, to be filled by `place` from any thread; returns its offset."""
        self.settle()
        self._grow(size)
        return self.sink.reserve(size)

    def place(self, offset: int, data: Array) -> None:
        """Fill room that was reserved."""
        self.sink.write_at(offset, data)

    def summed(self, crc: int) -> None:
        """Set the checksum of the current part, whose bytes were placed."""
        self.chunks[-1].parts[-1].crc = crc

    def settle(self) -> None:
        """Wait until all that was handed over is written: its buffers may be used again."""
        self._pipe.settle()

    def _grow(self, size: int) -> None:
        chunk = self.chunks[-1]
        if chunk.size + size > MAX_CHUNK_BYTES:
            raise InputError(
                f"a chunk of {chunk.entry['rows']} rows takes {chunk.size + size} bytes and may take "
                f"{MAX_CHUNK_BYTES}; choose fewer rows a chunk"
            )
        chunk.parts[-1].size += size
        self.at += size

    # -- the end

    def finish(self) -> None:
        """Wait for the bytes, then fill in lengths, checksums and the header."""
        self._pipe.finish()
        entries = [self._completed(chunk.entry, chunk) for chunk in self.chunks]
        text = self._json(entries, self.rows)
        if len(text) > self._room:
            delta = self._pad(len(text) + (64 * len(entries) if self.mapped else 0)) - self._room
            shift(self.sink, self._prelude + self._room, delta)
            self._room += delta
            for chunk in self.chunks:
                chunk.offset += delta
            text = self._json([self._completed(chunk.entry, chunk) for chunk in self.chunks], self.rows)
        if len(text) > MAX_HEADER_BYTES:
            raise InputError(f"the header of {len(entries)} chunks takes {len(text)} bytes; choose more rows a chunk")
        for chunk in self.chunks:
            words = chunk.size.to_bytes(4, "little")
            self.sink.write_at(chunk.offset, words + (chunk.crc.to_bytes(4, "little") if self.words == 8 else b""))
        record = VERSIONED if self.layout == "versioned" else DOCUMENT
        values = {"magic": MAGIC, "major": self.version[0], "minor": self.version[1], "header_len": self._room}
        self.sink.write_at(0, record.pack(values) + text.ljust(self._room))

    def abort(self) -> None:
        """Stop the thread; the sink's own abort removes the bytes."""
        self._pipe.stop()

    def __enter__(self) -> ChunkWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self.finish()
            finally:
                self.abort()
        else:
            self.abort()

    def _completed(self, entry: Json, chunk: Placed | None = None) -> Json:
        """An entry with what the file itself tells: checksums, sizes, offsets (the widest, before they are known)."""
        entry = dict(entry)
        if chunk is not None:
            for place, part in zip(chunk.places, chunk.parts):
                place["size"] = part.size
                place["crc32"] = part.crc
        entry.pop("crc32", None)
        if self.layout == "document":
            entry["crc32"] = WIDE_COUNT if chunk is None else chunk.crc
        entry.pop("file_offset", None)
        if self.mapped:
            entry["file_offset"] = WIDE_OFFSET if chunk is None else chunk.offset
        return entry

    def _json(self, entries: list[Json], rows: int) -> bytes:
        header = {
            **({"num_vectors": rows} | {k: v for k, v in self.header.items() if k != "num_vectors"}),
            "chunks": entries,
        }
        try:
            text = json.dumps(
                header,
                sort_keys=self.layout == "versioned",
                separators=(",", ":"),
                allow_nan=False,
                default=json_default,
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"metadata that JSON cannot hold: {error}; keep plain numbers, strings, lists and mappings"
            ) from None
        return text.encode("ascii")

    def _pad(self, size: int) -> int:
        """The header length: room for ``size`` bytes, the first payload aligned, no look-alike of a version."""
        boundary = PAGE if self.mapped else ALIGNMENT
        words = 0 if self.mapped else self.words
        room = size + -(self._prelude + size + words) % boundary
        while self.layout == "document" and 1 <= room & 0xFFFF <= 10 and room >> 16 <= 100:
            room += boundary
        return room


class _Pipe:
    """A thread that sums and writes what it is handed, in order, at most a few pieces behind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(maxsize=DEPTH)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def write(self, data: Array | bytes, part: Part | None) -> None:
        def work() -> None:
            if part is not None:
                part.crc = crc32(data, part.crc)
            self._sink.write(data)

        size = len(data) if isinstance(data, bytes) else data.nbytes
        self._do(work, size)

    def copy(self, source: Source, offset: int, size: int, crc: int | None, part: Part) -> None:
        def work() -> None:
            if crc is not None:  # the part holds nothing else
                self._sink.copy_from(source, offset, size)
                part.crc = crc
                return
            for at in range(offset, offset + size, COPY_PIECE):
                piece = source.read_at(at, min(COPY_PIECE, offset + size - at))
                part.crc = crc32(piece, part.crc)
                self._sink.write(piece)

        self._do(work, size)

    def _do(self, work: Callable[[], None], size: int) -> None:
        if self._error is not None:
            self.finish()
        if self._thread is None:
            if size < SMALL:
                work()
                return
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(partial(copy_context().run, work))

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if self._error is None:
                try:
                    work()
                except BaseException as error:
                    self._error = error
            self._queue.task_done()

    def settle(self) -> None:
        """Wait for what was handed over; raises what went wrong."""
        self._queue.join()
        if self._error is not None:
            self.finish()

    def finish(self) -> None:
        """Wait for all of it; raises what went wrong."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            self._queue = queue.Queue(maxsize=DEPTH)


def shift(sink: Sink, start: int, delta: int) -> None:
    """Move everything from ``start`` on by ``delta`` bytes, from the end backwards: a header outgrew its place."""
    end = sink.size
    sink.write(bytes(delta))
    for stop in range(end, start, -COPY_PIECE):
        begin = max(start, stop - COPY_PIECE)
        sink.write_at(begin + delta, sink.read_at(begin, stop - begin))
