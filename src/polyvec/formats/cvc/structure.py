"""What the header of a CVC file declares: columns, chunks, sections, and the words that stand between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyvec.core.blocks import Extent
from polyvec.core.layout import Record

MAGIC = b"CVCF"
DOCUMENT = Record("prelude", magic=4, header_len="u4")
VERSIONED = Record("prelude", magic=4, major="u2", minor="u2", header_len="u4")
DOCUMENT_CHUNK = Record("chunk", length="u4")
VERSIONED_CHUNK = Record("chunk", length="u4", crc32="u4")

MAX_HEADER_BYTES = 16 << 20  # some 150,000 chunks; beyond that a header is a mistake or an attack
COMPRESSIONS = ("fp16", "int8", "none", "lossless", "bfloat16")
REAL_DTYPES = ("float32", "float16", "int32", "int64", "int8", "uint8")  # those of real files
OWN_DTYPES = ("float64", "uint32", "int16", "uint16", "uint64", "bool")  # ours: columns that must not change their type
DTYPES = (*REAL_DTYPES, *OWN_DTYPES)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as the header declares it. ``dtype`` is what ``none`` stores; every compression decodes to float32."""

    name: str
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str

    @property
    def dimension(self) -> int:
        """Values in a row."""
        return self.row_shape[0] if self.row_shape else 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: its rows, where it lies, its checksum, and where each column lies in it."""

    index: int
    start: int
    rows: int
    offset: int  # of its length word
    payload: int  # of its first payload byte
    size: int  # of the payload
    crc: int | None
    pieces: Mapping[str, Extent]
    entry: Json  # its JSON, as it stands


@dataclass(frozen=True, slots=True)
class Section:
    """Rows ``start`` to ``stop`` that share a record."""

    start: int
    stop: int
    metadata: Json


@dataclass(frozen=True, slots=True)
class Header:
    """All that a CVC file says of itself, checked."""

    layout: str  # "document" or "versioned"
    version: tuple[int, int]
    json: Json
    json_offset: int
    header_len: int
    rows: int
    columnar: bool
    columns: tuple[ColumnSpec, ...]
    chunks: tuple[Chunk, ...]
    sections: tuple[Section, ...]
    end: int  # of the last chunk
    notes: tuple[str, ...] = field(default=())

    @property
    def mapped(self) -> bool:
        """Whether chunks lie at stated, page-aligned offsets."""
        return bool(self.json.get("mmap_optimized")) or any("file_offset" in c.entry for c in self.chunks)

    @property
    def chunk_words(self) -> Record:
        """What stands before each payload."""
        return VERSIONED_CHUNK if self.layout == "versioned" else DOCUMENT_CHUNK

    def extents(self, name: str) -> list[Extent]:
        """A column's extents, without those of empty chunks."""
        return [chunk.pieces[name] for chunk in self.chunks if chunk.rows]

    def chunks_of(self, start: int, stop: int) -> Sequence[Chunk]:
        """The chunks that hold rows ``start`` to ``stop``."""
        first = max(0, bisect_right(self.chunks, start, key=lambda chunk: chunk.start) - 1)
        last = bisect_left(self.chunks, stop, key=lambda chunk: chunk.start)
        return [chunk for chunk in self.chunks[first:last] if chunk.start + chunk.rows > start]

    def spec(self, name: str) -> ColumnSpec:
        """A column's declaration; KeyError where there is none."""
        for spec in self.columns:
            if spec.name == name:
                return spec
        raise KeyError(f"no column {name!r}; there are {', '.join(s.name for s in self.columns)}")
