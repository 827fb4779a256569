"""The sections of a `.weights` file, read and checked. Nothing is allocated before its size is known to exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.files import Source
from polyvec.core.layout import Cursor, Record, take
from polyvec.core.vocab import Strings
from polyvec.kernels import crc32
from polyvec.kernels.prefixed import walk_strings

MAGIC, MAGIC_END = b"EMBD", b"DBME"
ALIGNMENT = 64
VOCAB_EMBEDDED, TENSORS_ALIGNED, CHECKSUM_ENABLED, COMPRESSED = 1, 2, 4, 8
KNOWN_FLAGS = VOCAB_EMBEDDED | TENSORS_ALIGNED | CHECKSUM_ENABLED | COMPRESSED

HEADER = Record(
    "header", magic=4, version_major="u2", version_minor="u2", flags="u4", metadata_offset="u4", metadata_size="u4",
    vocab_offset="u4", vocab_size="u4", tensor_index_offset="u4", tensor_index_count="u4", tensor_data_offset="u4",
    tensor_data_size="u8", total_file_size="u8", header_checksum="u4", reserved="u4",
)  # fmt: skip
CHECKED_HEADER_BYTES = HEADER.offset("header_checksum")
METADATA_HEADER = Record("metadata", entry_count="u4", total_size="u4")
VOCAB_HEADER = Record("vocabulary", token_count="u4", total_size="u4", special_tokens="u4")
SPECIALS = Record("special tokens", pad_id="u4", unk_id="u4", cls_id="u4", sep_id="u4", mask_id="u4")
DESCRIPTOR = Record(
    "tensor", name_hash="u4", dtype="u1", ndim="u1", name_length="u2", shape0="u4", shape1="u4", shape2="u4",
    shape3="u4", data_offset="u8",
)  # fmt: skip
FOOTER = Record("footer", data_checksum="u4", file_checksum="u4", magic_end=4, reserved="u4")

DTYPES: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("FLOAT32", np.dtype("<f4")), ("FLOAT16", np.dtype("<f2")), ("BFLOAT16", np.dtype(ml_dtypes.bfloat16)),
    ("INT32", np.dtype("<i4")), ("INT16", np.dtype("<i2")), ("INT8", np.dtype("i1")),
    ("UINT32", np.dtype("<u4")), ("UINT16", np.dtype("<u2")), ("UINT8", np.dtype("u1")),
)  # fmt: skip
REQUIRED_KEYS = (
    "model_name", "model_version", "embedding_dim", "vocab_size", "num_layers", "num_attention_heads", "hidden_size",
    "intermediate_size", "max_position_emb", "created_at",
)  # fmt: skip


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


def hash_name(name: bytes) -> int:
    """32-bit FNV-1a.

    >>> hex(hash_name(b"t.275672f2")), hex(hash_name(b"t.7be8e215"))
    ('0xca58d392', '0xca58d392')
    """
    value = 0x811C9DC5
    for byte in name:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def read_contents(source: Source) -> Contents:
    """Every section but the tensors' data, checked against each other and the file's size; `FormatError` otherwise."""
    header = read_header(source)
    contents = Contents(header)
    _note_version(contents)
    _check_places(source, contents)
    _read_metadata(source, contents)
    if header["flags"] & VOCAB_EMBEDDED:
        _read_vocabulary(source, contents)
    elif header["vocab_size"]:
        raise _wrong("the vocabulary section must be empty when VOCAB_EMBEDDED is off", "vocab_size", 0,
                     header["vocab_size"])  # fmt: skip
    _read_index(source, contents)
    _check_footer(source, contents)
    return contents


def read_header(source: Source) -> dict[str, Any]:
    """The header, with its checksum and the file's size compared."""
    header = HEADER.read(source, 0)
    if header["magic"] != MAGIC:
        raise _wrong("the magic number is not that of a .weights file", "magic", MAGIC.hex(" "), header["magic"].hex(" "))
    found = crc32(source.read_at(0, CHECKED_HEADER_BYTES))
    enabled = bool(header["flags"] & CHECKSUM_ENABLED)
    if (enabled or header["header_checksum"]) and found != header["header_checksum"]:
        raise _wrong("the header fails its checksum", "header_checksum", f"{header['header_checksum']:#010x}",
                     f"{found:#010x}", remedy="fetch the file again")  # fmt: skip
    if header["version_major"] != 1:
        raise Unsupported(f"format version {header['version_major']}.{header['version_minor']} is not known",
                          offset=HEADER.offset("version_major"), field="version_major", expected=1,
                          found=header["version_major"], remedy="write it as version 1")  # fmt: skip
    if header["flags"] & COMPRESSED:
        raise Unsupported("compressed tensor data is not defined by the format", offset=HEADER.offset("flags"),
                          field="flags", expected="COMPRESSED off", found=f"{header['flags']:#x}",
                          remedy="write it uncompressed")  # fmt: skip
    if header["reserved"] and header["version_minor"] == 0:
        raise _wrong("a reserved field is not zero", "reserved", 0, header["reserved"])
    promised = header["total_file_size"]
    if source.size < promised:
        raise Truncated("the file is shorter than its header says", offset=source.size, field="total_file_size",
                        expected=f"{promised} bytes", found=f"{source.size} bytes",
                        remedy="fetch the file again")  # fmt: skip
    if source.size > promised:
        raise _wrong("the file is longer than its header says", "total_file_size", f"{promised} bytes",
                     f"{source.size} bytes", remedy="fetch the file again")  # fmt: skip
    return header


def _wrong(message: str, name: str, expected: Any, found: Any, *, at: int = 0, remedy: str | None = None) -> FormatError:
    """An error about a field of the header, with its offset."""
    return Corrupt(message, offset=at + HEADER.offset(name), field=name, expected=expected, found=found, remedy=remedy)


def _note_version(contents: Contents) -> None:
    header = contents.header
    if header["version_minor"]:
        contents.notes.append(f"format version 1.{header['version_minor']} is newer than 1.0, and is read as 1.0")
    if unknown := header["flags"] & ~KNOWN_FLAGS:
        contents.notes.append(f"unknown flag bits {unknown:#x} are passed over")
    if not header["flags"] & TENSORS_ALIGNED:
        contents.notes.append("TENSORS_ALIGNED is off: tensors are copied where alignment matters")


def sections(header: dict[str, Any]) -> list[tuple[str, int, int]]:
    """(name, offset, size) of each section but the footer; the index without its names."""
    return [
        ("header", 0, HEADER.size),
        ("metadata", header["metadata_offset"], header["metadata_size"]),
        ("vocabulary", header["vocab_offset"], header["vocab_size"]),
        ("tensor index", header["tensor_index_offset"], header["tensor_index_count"] * DESCRIPTOR.size),
        ("tensor data", header["tensor_data_offset"], header["tensor_data_size"]),
    ]


def _check_places(source: Source, contents: Contents) -> None:
    end = source.size - FOOTER.size
    if end < HEADER.size:
        raise Truncated("the file is too short for a header and a footer", offset=0,
                        expected=f"{HEADER.size + FOOTER.size} bytes", found=f"{source.size} bytes")  # fmt: skip
    for name, offset, size in sections(contents.header):
        if offset + size > end:
            raise Corrupt(f"the {name} section reaches past the footer", offset=offset, field=name,
                          expected=f"an end of at most {end}", found=offset + size)  # fmt: skip
    _refuse_overlaps([s for s in sections(contents.header) if s[2]], "section")
    header = contents.header
    if header["tensor_data_offset"] + header["tensor_data_size"] != end:
        raise Corrupt("bytes between the tensor data and the footer belong to nothing",
                      offset=header["tensor_data_offset"] + header["tensor_data_size"], field="tensor_data_size",
                      expected=end - header["tensor_data_offset"], found=header["tensor_data_size"])  # fmt: skip
    if contents.aligned and header["tensor_data_offset"] % ALIGNMENT and header["tensor_index_count"]:
        contents.notes.append("tensor_data_offset is not a multiple of 64, so mapped tensors are not aligned")


def _refuse_overlaps(pieces: list[tuple[str, int, int]], what: str) -> None:
    ordered = sorted(pieces, key=lambda piece: (piece[1], piece[2]))
    for one, other in zip(ordered, ordered[1:]):
        if one[1] + one[2] > other[1]:
            raise Corrupt(f"{what} {other[0]!r} overlaps {one[0]!r}", offset=other[1], field=other[0],
                          expected=f"a start at or after {one[1] + one[2]}", found=other[1])  # fmt: skip


def _read_metadata(source: Source, contents: Contents) -> None:
    start, size = contents.header["metadata_offset"], contents.header["metadata_size"]
    cursor = Cursor(source, start, start + size)
    values = cursor.read(METADATA_HEADER)
    if values["total_size"] != size - METADATA_HEADER.size:
        raise Corrupt("the metadata's sizes disagree", offset=start + METADATA_HEADER.offset("total_size"),
                      field="metadata.total_size", expected=size - METADATA_HEADER.size, found=values["total_size"])  # fmt: skip
    cursor.require(values["entry_count"] * 4, "metadata.entry_count")
    for number in range(values["entry_count"]):
        at = cursor.offset
        key_length, value_length = cursor.number("u2", "key_length"), cursor.number("u2", "value_length")
        key = cursor.text(key_length, f"metadata key {number}")
        if key in contents.metadata:
            raise Corrupt(f"metadata key {key!r} appears twice", offset=at, field="metadata")
        contents.metadata[key] = cursor.text(value_length, f"metadata {key}")
    if cursor.left:
        raise Corrupt("bytes after the last metadata entry", offset=cursor.offset, field="metadata.entry_count",
                      expected="0 bytes", found=f"{cursor.left} bytes")  # fmt: skip
    for key in REQUIRED_KEYS:
        if key not in contents.metadata:
            raise Corrupt(f"the required metadata key {key!r} is missing", offset=start, field="metadata",
                          expected=key, remedy="add it and write the file again")  # fmt: skip


def _read_vocabulary(source: Source, contents: Contents) -> None:
    start, size = contents.header["vocab_offset"], contents.header["vocab_size"]
    cursor = Cursor(source, start, start + size)
    values = cursor.read(VOCAB_HEADER)
    cursor.require(values["total_size"], "vocabulary.total_size")
    if values["token_count"] * 2 > values["total_size"]:
        raise Corrupt("the vocabulary cannot hold that many tokens", offset=start, field="vocabulary.token_count",
                      expected=f"at most {values['total_size'] // 2}", found=values["token_count"])  # fmt: skip
    data = np.frombuffer(cursor.take(values["total_size"], "tokens"), np.uint8)
    contents.tokens = read_tokens(data, values["token_count"], cursor.offset - values["total_size"], 2, source.label)
    # The document does not say what the offset counts from: absolute where that falls inside, else relative.
    place = values["special_tokens"]
    if not start + VOCAB_HEADER.size <= place <= start + size - SPECIALS.size:
        place += start
    if not start + VOCAB_HEADER.size <= place <= start + size - SPECIALS.size:
        raise Corrupt("the special token indices lie outside the vocabulary section",
                      offset=start + VOCAB_HEADER.offset("special_tokens"), field="vocabulary.special_tokens",
                      expected=f"{start + VOCAB_HEADER.size}..{start + size - SPECIALS.size}",
                      found=values["special_tokens"])  # fmt: skip
    contents.specials_offset = place
    contents.specials = SPECIALS.read(source, place)
    for name, number in contents.specials.items():
        if number >= values["token_count"]:
            raise Corrupt(f"{name} lies beyond the vocabulary", offset=place + SPECIALS.offset(name), field=name,
                          expected=f"less than {values['token_count']}", found=number)  # fmt: skip


def read_tokens(data: Any, count: int, place: int, width: int, label: str) -> Strings:
    """Length-prefixed tokens as strings over one buffer, every one valid UTF-8; ``place`` is where they lie."""
    starts, stops = walk_strings(data, count, width)
    if len(starts) < count:
        at = int(stops[-1]) if len(stops) else 0
        raise Corrupt(f"token {len(starts)} reaches past the vocabulary", offset=place + at, field="token_length",
                      expected=f"{count} tokens in {len(data)} bytes")  # fmt: skip
    end = int(stops[-1]) if count else 0
    if width == 2 and end != len(data):
        raise Corrupt("the vocabulary's sizes disagree", offset=place + end, field="vocabulary.total_size",
                      expected=end, found=len(data))  # fmt: skip
    strings = Strings(data, starts, stops, label=label)
    # All tokens joined are valid and none starts inside a character: so each of them is valid.
    prefix = np.zeros(end, bool)
    for step in range(width):
        prefix[starts - width + step] = True
    some = starts[stops > starts]
    try:
        data[:end][~prefix].tobytes().decode("utf-8")
        broken = some[(data[some] & 0xC0) == 0x80]
    except UnicodeDecodeError:
        broken = some[:1]
    if len(broken):
        for row in range(count):
            try:
                strings.raw(row).decode("utf-8")
            except UnicodeDecodeError as error:
                raise Corrupt(f"token {row} is not valid UTF-8", offset=place + int(starts[row]) + error.start,
                              field=f"token {row}", expected="UTF-8") from None  # fmt: skip
    return strings


def _read_index(source: Source, contents: Contents) -> None:
    header = contents.header
    start, count = header["tensor_index_offset"], header["tensor_index_count"]
    table = take(source, start, count * DESCRIPTOR.size, "tensor index")
    index = np.frombuffer(table, np.dtype([("hash", "<u4"), ("dtype", "u1"), ("ndim", "u1"), ("name", "<u2"),
                                           ("shape", "<u4", (4,)), ("offset", "<u8")]))  # fmt: skip
    contents.names_offset = start + len(table)
    contents.names_size = int(index["name"].sum(dtype=np.int64)) if count else 0
    limit = min(
        [place for _, place, size in sections(header) if place >= contents.names_offset and size] + [source.size - FOOTER.size]
    )
    if contents.names_offset + contents.names_size > limit:
        raise Corrupt("the tensor names reach past the index", offset=contents.names_offset, field="name_length",
                      expected=f"an end of at most {limit}", found=contents.names_offset + contents.names_size)  # fmt: skip
    names = Cursor(source, contents.names_offset, contents.names_offset + contents.names_size)
    seen: set[str] = set()
    for number, (hashed, code, ndim, length, sizes, offset) in enumerate(index.tolist()):
        tensor = _describe(header, start + number * DESCRIPTOR.size, names.text(length, f"name of tensor {number}"),
                           code, ndim, sizes, offset)  # fmt: skip
        at = tensor.place
        if hash_name(tensor.name.encode()) != hashed:
            raise Corrupt(f"the name hash of tensor {tensor.name!r} does not match", offset=at, field="name_hash",
                          expected=f"{hash_name(tensor.name.encode()):#010x}", found=f"{hashed:#010x}")  # fmt: skip
        if tensor.name in seen:
            raise Corrupt(f"tensor {tensor.name!r} appears twice", offset=at, field="name")
        seen.add(tensor.name)
        if contents.aligned and offset % ALIGNMENT:
            raise Corrupt(f"tensor {tensor.name!r} is not aligned", offset=at + DESCRIPTOR.offset("data_offset"),
                          field="data_offset", expected=f"a multiple of {ALIGNMENT}", found=offset)  # fmt: skip
        contents.tensors.append(tensor)
    _refuse_overlaps([(t.name, t.offset, t.size) for t in contents.tensors if t.size], "tensor")


def _describe(header: dict[str, Any], at: int, name: str, code: int, ndim: int, sizes: list[int], offset: int) -> Tensor:
    if code >= len(DTYPES):
        raise Corrupt(f"tensor {name!r} has an unknown data type", offset=at + DESCRIPTOR.offset("dtype"), field="dtype",
                      expected=f"0..{len(DTYPES) - 1}", found=code)  # fmt: skip
    if not 1 <= ndim <= 4:
        raise Corrupt(f"tensor {name!r} has {ndim} dimensions", offset=at + DESCRIPTOR.offset("ndim"), field="ndim",
                      expected="1..4", found=ndim)  # fmt: skip
    shape = tuple(int(size) for size in sizes[:ndim])
    if any(sizes[ndim:]):
        raise Corrupt(f"tensor {name!r} has sizes beyond its {ndim} dimensions",
                      offset=at + DESCRIPTOR.offset(f"shape{ndim}"), field="shape", expected=0,
                      found=[int(s) for s in sizes[ndim:]])  # fmt: skip
    if shape[0] and not all(shape):
        raise Corrupt(f"tensor {name!r} has rows without values", offset=at + DESCRIPTOR.offset("shape0"), field="shape",
                      expected="sizes of at least 1", found=list(shape))  # fmt: skip
    kind, dtype = DTYPES[code]
    size = prod(shape) * dtype.itemsize
    if offset + size > header["tensor_data_size"]:
        raise Corrupt(f"tensor {name!r} reaches past the tensor data", offset=at + DESCRIPTOR.offset("data_offset"),
                      field="data_offset", expected=f"an end of at most {header['tensor_data_size']}",
                      found=offset + size)  # fmt: skip
    return Tensor(name, dtype, kind, shape, header["tensor_data_offset"] + offset, size, at)


def _check_footer(source: Source, contents: Contents) -> None:
    at = source.size - FOOTER.size
    footer = FOOTER.read(source, at)
    if footer["magic_end"] != MAGIC_END:
        raise Corrupt("the end magic is wrong", offset=at + FOOTER.offset("magic_end"), field="magic_end",
                      expected=MAGIC_END.hex(" "), found=footer["magic_end"].hex(" "))  # fmt: skip
    if footer["reserved"] and contents.header["version_minor"] == 0:
        raise Corrupt("a reserved field is not zero", offset=at + FOOTER.offset("reserved"), field="reserved",
                      expected=0, found=footer["reserved"])  # fmt: skip


def check_checksums(source: Source, contents: Contents) -> Iterator[FormatError]:
    """Compare both checksums of the footer with the bytes; one error a difference."""
    footer_at = source.size - FOOTER.size
    footer = FOOTER.read(source, footer_at)
    if not contents.header["flags"] & CHECKSUM_ENABLED and not footer["data_checksum"] and not footer["file_checksum"]:
        return
    start = contents.header["tensor_data_offset"]
    whole, data = crc32(source.read_at(0, start)), 0
    # A megabyte stays in the cache, so that the second checksum costs no second trip to memory.
    for at in range(start, footer_at, 1 << 20):
        piece = source.view(at, min(1 << 20, footer_at - at))
        whole, data = crc32(piece, whole), crc32(piece, data)
    for name, found in (("data_checksum", data), ("file_checksum", whole)):
        if footer[name] != found:
            what = "the tensor data fails its checksum" if name == "data_checksum" else "the file fails its checksum"
            yield Corrupt(what, offset=footer_at + FOOTER.offset(name), field=name, expected=f"{footer[name]:#010x}",
                          found=f"{found:#010x}", remedy="fetch the file again")  # fmt: skip
