"""The fixed records of a `.weights` file, its constants, and what a file says of itself once read."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.core.errors import Corrupt
from polyvec.core.layout import Record, take
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings

MAGIC, MAGIC_END = b"EMBD", b"DBME"
ALIGNMENT = 64
VOCAB_EMBEDDED, TENSORS_ALIGNED, CHECKSUM_ENABLED, COMPRESSED = 1, 2, 4, 8
KNOWN_FLAGS = VOCAB_EMBEDDED | TENSORS_ALIGNED | CHECKSUM_ENABLED | COMPRESSED

HEADER = Record(
    "header",
    magic=4,
    version_major="u2",
    version_minor="u2",
    flags="u4",
    metadata_offset="u4",
    metadata_size="u4",
    vocab_offset="u4",
    vocab_size="u4",
    tensor_index_offset="u4",
    tensor_index_count="u4",
    tensor_data_offset="u4",
    tensor_data_size="u8",
    total_file_size="u8",
    header_checksum="u4",
    reserved="u4",
)
CHECKED_HEADER_BYTES = HEADER.offset("header_checksum")
METADATA_HEADER = Record("metadata", entry_count="u4", total_size="u4")
VOCAB_HEADER = Record("vocabulary", token_count="u4", total_size="u4", special_tokens="u4")
SPECIALS = Record("special tokens", pad_id="u4", unk_id="u4", cls_id="u4", sep_id="u4", mask_id="u4")
DESCRIPTOR = Record(
    "tensor",
    name_hash="u4",
    dtype="u1",
    ndim="u1",
    name_length="u2",
    shape0="u4",
    shape1="u4",
    shape2="u4",
    shape3="u4",
    data_offset="u8",
)
FOOTER = Record("footer", data_checksum="u4", file_checksum="u4", magic_end=4, reserved="u4")

DTYPES: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("FLOAT32", np.dtype("<f4")),
    ("FLOAT16", np.dtype("<f2")),
    ("BFLOAT16", np.dtype(ml_dtypes.bfloat16)),
    ("INT32", np.dtype("<i4")),
    ("INT16", np.dtype("<i2")),
    ("INT8", np.dtype("i1")),
    ("UINT32", np.dtype("<u4")),
    ("UINT16", np.dtype("<u2")),
    ("UINT8", np.dtype("u1")),
)
REQUIRED_KEYS = (
    "model_name",
    "model_version",
    "embedding_dim",
    "vocab_size",
    "num_layers",
    "num_attention_heads",
    "hidden_size",
    "intermediate_size",
    "max_position_emb",
    "created_at",
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the index: where a tensor lies and what it is. ``offset`` counts from the file's start."""

    name: str
    dtype: np.dtype[Any]
    kind: str  # the document's name of the dtype
    shape: tuple[int, ...]
    offset: int
    size: int
    place: int  # of its descriptor, for messages


@dataclass(slots=True)
class Contents:
    """Everything a file says of itself."""

    header: dict[str, Any]
    metadata: dict[str, str] = field(default_factory=dict)
    tokens: Strings | None = None
    specials: dict[str, int] | None = None
    tensors: list[Tensor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names_offset: int = 0
    names_size: int = 0
    specials_offset: int = 0

    @property
    def aligned(self) -> bool:
        return bool(self.header["flags"] & TENSORS_ALIGNED)


class Window:
    """A piece of the file read at once; offsets stay those of the file."""

    def __init__(self, source: Source, start: int, size: int, field: str) -> None:
        self._data = take(source, start, size, field)
        self._start = start
        self.size = start + size

    def read_at(self, offset: int, size: int) -> bytes:
        return self._data[offset - self._start : offset - self._start + size]


def hash_name(name: bytes) -> int:
    """32-bit FNV-1a.

    >>> hex(hash_name(b"t.275672f2")), hex(hash_name(b"t.7be8e215"))
    ('0xca58d392', '0xca58d392')
    """
    value = 0x811C9DC5
    for byte in name:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def sections(header: dict[str, Any]) -> list[tuple[str, int, int]]:
    """(name, offset, size) of each section but the footer; the index without its names."""
    return [
        ("header", 0, HEADER.size),
        ("metadata", header["metadata_offset"], header["metadata_size"]),
        ("vocabulary", header["vocab_offset"], header["vocab_size"]),
        ("tensor index", header["tensor_index_offset"], header["tensor_index_count"] * DESCRIPTOR.size),
        ("tensor data", header["tensor_data_offset"], header["tensor_data_size"]),
    ]


def refuse_overlaps(pieces: list[tuple[str, int, int]], what: str) -> None:
    """`Corrupt` where two of (name, offset, size) share a byte."""
    ordered = sorted(pieces, key=lambda piece: (piece[1], piece[2]))
    for one, other in pairwise(ordered):
        if one[1] + one[2] > other[1]:
            raise Corrupt(
                f"{what} {other[0]!r} overlaps {one[0]!r}",
                offset=other[1],
                field=other[0],
                expected=f"a start at or after {one[1] + one[2]}",
                found=other[1],
            )
