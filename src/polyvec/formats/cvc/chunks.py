"""The chunks of a CVC file: found one after the other or where the header says, and as large as their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw
from polyvec.core.blocks import Codec, Extent
from polyvec.core.errors import Truncated
from polyvec.core.layout import Record
from polyvec.core.sources import Source
from polyvec.formats.cvc.fields import Fields
from polyvec.formats.cvc.structure import Chunk, ColumnSpec, Json


class _Payload(NamedTuple):  # there may be a hundred thousand: made in a third of a dataclass's time
    """The rows of a chunk, where it begins, and its bytes behind the words before them."""

    start: int
    rows: int
    at: int
    offset: int
    size: int
    crc: int | None


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """Reads the chunks that a header lists."""

    source: Source
    fields: Fields
    words: Record  # what stands before each payload
    columns: tuple[ColumnSpec, ...]
    columnar: bool
    compression: Any  # of a single column, where a chunk does not state its own

    def read(self, entries: Sequence[Json], first: int) -> Iterator[Chunk]:
        """Chunks in the header's order; ``first`` is where the header ends."""
        start, at = 0, first
        for index, entry in enumerate(entries):
            path = f"chunks[{index}]."
            rows = self.fields.count(entry, "rows", path)
            if "file_offset" in entry:
                at = self.fields.count(entry, "file_offset", path)
                if at < first:
                    raise self.fields.fail(
                        "a chunk lies inside the header", f"{path}file_offset", f"at least {first}", at
                    )
            size, crc = self._payload(entry, path, at)
            found = _Payload(start, rows, at, at + self.words.size, size, crc)
            pieces = self._pieces(entry, path, found) if self.columnar else {"vectors": self._piece(entry, path, found)}
            yield Chunk(index, start, rows, at, found.offset, size, crc, pieces, entry)
            start, at = start + rows, found.offset + size

    def _payload(self, entry: Json, path: str, at: int) -> tuple[int, int | None]:
        """The size of a payload, which lies inside the file, and the one checksum that it has."""
        end = self.source.size
        if at + self.words.size > end:
            raise Truncated(
                "the file ends before its last chunk",
                offset=at,
                field=f"{path}length",
                expected=f"{self.words.size} bytes",
                found=f"{max(0, end - at)} bytes",
                remedy="fetch the file again",
            )
        found = self.words.read(self.source, at)
        size, offset = found["length"], at + self.words.size
        if size > end - offset:
            raise Truncated(
                "a chunk reaches past the end of the file",
                offset=at,
                field=f"{path}length",
                expected=f"at most {end - offset} bytes",
                found=size,
                remedy="fetch the file again",
            )
        crc = self.fields.checksum(entry, path)
        if crc is not None and found.get("crc32", crc) != crc:
            before = f"{found['crc32']} (before its payload)"
            raise self.fields.fail("a chunk has two checksums", f"{path}crc32", before, crc)
        return size, found.get("crc32", crc)

    def _piece(self, entry: Json, path: str, found: _Payload) -> Extent:
        """The piece of a file's only column: the whole payload."""
        [spec] = self.columns
        compression = self.fields.compression(entry.get("compression", self.compression), f"{path}compression")
        codec = self._codec(spec, compression, entry, path)
        self._measure(codec, spec, found.rows, found.size, f"{path}length", found.at)
        return Extent(found.start, found.rows, found.offset, found.size, codec, found.crc)

    def _pieces(self, entry: Json, path: str, found: _Payload) -> dict[str, Extent]:
        """The piece of each column, placed by the entry inside the payload."""
        places = entry.get("columns")
        if not isinstance(places, dict):
            raise self.fields.fail("a chunk does not place its columns", f"{path}columns", "{…}", type(places).__name__)
        pieces = {spec.name: self._placed(places.get(spec.name), spec, path, found) for spec in self.columns}
        self._refuse_overlap(pieces, path, found.offset)
        return pieces

    def _placed(self, place: Any, spec: ColumnSpec, path: str, found: _Payload) -> Extent:
        name = f"{path}columns.{spec.name}."
        if not isinstance(place, dict):
            nothing = "nothing" if place is None else place
            raise self.fields.fail("a chunk lacks a column", name[:-1], "{offset, size, …}", nothing)
        offset = self.fields.count(place, "offset", name, found.size)
        size = self.fields.count(place, "size", name, found.size - offset)
        compression = self.fields.compression(place.get("compression", spec.compression), f"{name}compression")
        codec = self._codec(spec, compression, place, name)
        self._measure(codec, spec, found.rows, size, f"{name}size", found.offset + offset)
        crc = self.fields.checksum(place, name)
        return Extent(found.start, found.rows, found.offset + offset, size, codec, crc)

    def _refuse_overlap(self, pieces: dict[str, Extent], path: str, payload: int) -> None:
        ordered = sorted(((p.offset, p.size, n) for n, p in pieces.items() if p.size), key=lambda piece: piece[0])
        for (one, size, first), (two, _, second) in pairwise(ordered):
            if one + size > two:
                raise self.fields.fail(
                    f"columns {first!r} and {second!r} overlap",
                    f"{path}columns.{second}.offset",
                    f"at least {one + size - payload}",
                    two - payload,
                )

    def _codec(self, spec: ColumnSpec, compression: str, entry: Json, path: str) -> Codec:
        if compression == "fp16":
            return Raw(spec.dtype) if spec.dtype == np.float16 else Float16()
        if compression == "int8":
            return AffineUint8(self.fields.number(entry, "min", path), self.fields.number(entry, "scale", path))
        if compression == "lossless":
            return BytePlanes(spec.row_shape)
        return BFloat16() if compression == "bfloat16" else Raw(spec.dtype)

    def _measure(self, codec: Codec, spec: ColumnSpec, rows: int, size: int, name: str, offset: int) -> None:
        """The payload must be as large as its rows; a lossless one at least as large as one bit a plane and value."""
        width = codec.row_bytes(spec.row_shape)
        if width is None:
            if rows * spec.dimension > 2 * size:
                raise self.fields.fail(
                    "a lossless chunk is too small for its rows",
                    name,
                    f"at least {-(-rows * spec.dimension // 2)} bytes",
                    size,
                    offset,
                )
        elif size != rows * width:
            raise self.fields.fail(
                f"a chunk of {rows} rows has the wrong size", name, f"{rows * width} bytes", size, offset
            )


def end_of(chunks: Sequence[Chunk], first: int, fields: Fields) -> int:
    """Where the last chunk ends; chunks that lie anywhere must not overlap."""
    end = first
    for chunk in sorted(chunks, key=lambda c: c.offset):
        if chunk.offset < end:
            raise fields.fail(
                "two chunks overlap", f"chunks[{chunk.index}].file_offset", f"at least {end}", chunk.offset
            )
        end = chunk.payload + chunk.size
    return end
