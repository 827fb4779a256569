"""What a finalfusion file is made of: chunk numbers, their fixed fields, and the records a walk fills in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyvec.core.layout import Record, Span
from polyvec.core.subwords import Subwords
from polyvec.core.vocab import Strings

MAGIC = b"FiFu"
HEADER = Record("header", magic=4, version="u4", n_chunks="u4")
CHUNK = Record("chunk", id="u4", len="u8")

SIMPLE, NDARRAY, BUCKET, QUANTIZED, METADATA, NORMS, FASTTEXT, EXPLICIT, FLORET = range(1, 10)
DOCUMENT_SIMPLE, DOCUMENT_STORAGE = 0, 1
NAMES = {
    SIMPLE: "SimpleVocab",
    NDARRAY: "NdArray",
    BUCKET: "BucketSubwordVocab",
    QUANTIZED: "QuantizedArray",
    METADATA: "Metadata",
    NORMS: "NdNorms",
    FASTTEXT: "FastTextSubwordVocab",
    EXPLICIT: "ExplicitSubwordVocab",
    FLORET: "FloretSubwordVocab",
}
VOCABS = {SIMPLE, BUCKET, FASTTEXT, EXPLICIT, FLORET}

# The document's element types; 8 and 9, i128 and u128, have no NumPy type.
TYPES = {0: "|i1", 1: "|u1", 2: "<i2", 3: "<u2", 4: "<i4", 5: "<u4", 6: "<i8", 7: "<u8", 10: "<f4", 11: "<f8"}
CODES = {np.dtype(code): number for number, code in TYPES.items()}

DENSE = Record("matrix", rows="u8", cols="u4", type="u4")
PRODUCT = Record(
    "quantized",
    projection="u4",
    norms="u4",
    quantized_len="u4",
    reconstructed_len="u4",
    n_centroids="u4",
    rows="u8",
    quantized_type="u4",
    reconstructed_type="u4",
)
NDNORMS = Record("norms", n="u8", type="u4")
MAX_CHUNKS = 1 << 20  # a header of more is not one; its size is checked against the file besides


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk lies: ``start`` is its first byte of data, ``stop`` the byte after its last."""

    id: int
    offset: int
    start: int
    stop: int
    name: str


@dataclass(frozen=True, slots=True)
class Words:
    """A vocabulary chunk: its words as they lie in the file, and how subwords are indexed."""

    strings: Strings
    subwords: Subwords | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """A storage chunk: ``data`` is where the rows (or codes) begin."""

    rows: int
    dim: int
    dtype: np.dtype[Any]
    data: int
    quantized: bool = False
    parts: int = 0
    centroids: int = 0
    projection: int | None = None  # offsets of what a quantised matrix also has
    books: int = 0
    norms: int | None = None


@dataclass(slots=True)
class File:
    """A whole file, as its chunks say."""

    dialect: str = "reference"
    chunks: list[Chunk] = field(default_factory=list)
    unknown: list[Chunk] = field(default_factory=list)
    toml: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    words: Words | None = None
    matrix: Matrix | None = None
    norms: int | None = None  # the offset of the word norms
    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def paddings(offset: int, width: int) -> tuple[int, int]:
    """The zero bytes before data: in the reference (1 to 4, never 0) and in the document (0 to width - 1)."""
    return 4 - offset % 4, -offset % width
