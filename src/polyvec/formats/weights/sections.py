"""A `.weights` file read and checked, section by section. Nothing is allocated before its size is known to exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.layout import Cursor
from polyvec.core.sources import Source
from polyvec.formats.weights.index import read_index
from polyvec.formats.weights.records import (
    ALIGNMENT,
    CHECKED_HEADER_BYTES,
    CHECKSUM_ENABLED,
    COMPRESSED,
    FOOTER,
    HEADER,
    KNOWN_FLAGS,
    MAGIC,
    MAGIC_END,
    METADATA_HEADER,
    REQUIRED_KEYS,
    TENSORS_ALIGNED,
    VOCAB_EMBEDDED,
    Contents,
    Window,
    refuse_overlaps,
    sections,
)
from polyvec.formats.weights.vocabulary import read_vocabulary
from polyvec.kernels import crc32


def read_contents(source: Source) -> Contents:
    """Every section but the tensors' data, checked against each other and the file's size; `FormatError` otherwise."""
    header = read_header(source)
    contents = Contents(header)
    _note_version(contents)
    _check_places(source, contents)
    _read_metadata(source, contents)
    if header["flags"] & VOCAB_EMBEDDED:
        read_vocabulary(source, contents)
    elif header["vocab_size"]:
        raise _wrong(
            "the vocabulary section must be empty when VOCAB_EMBEDDED is off", "vocab_size", 0, header["vocab_size"]
        )
    read_index(source, contents)
    _check_footer(source, contents)
    return contents


def read_header(source: Source) -> dict[str, Any]:
    """The header, with its checksum and the file's size compared."""
    header = HEADER.read(source, 0)
    if header["magic"] != MAGIC:
        raise _wrong(
            "the magic number is not that of a .weights file", "magic", MAGIC.hex(" "), header["magic"].hex(" ")
        )
    found = crc32(source.read_at(0, CHECKED_HEADER_BYTES))
    enabled = bool(header["flags"] & CHECKSUM_ENABLED)
    if (enabled or header["header_checksum"]) and found != header["header_checksum"]:
        raise _wrong(
            "the header fails its checksum",
            "header_checksum",
            f"{header['header_checksum']:#010x}",
            f"{found:#010x}",
            remedy="fetch the file again",
        )
    if header["version_major"] != 1:
        raise Unsupported(
            f"format version {header['version_major']}.{header['version_minor']} is not known",
            offset=HEADER.offset("version_major"),
            field="version_major",
            expected=1,
            found=header["version_major"],
            remedy="write it as version 1",
        )
    if header["flags"] & COMPRESSED:
        raise Unsupported(
            "compressed tensor data is not defined by the format",
            offset=HEADER.offset("flags"),
            field="flags",
            expected="COMPRESSED off",
            found=f"{header['flags']:#x}",
            remedy="write it uncompressed",
        )
    if header["reserved"] and header["version_minor"] == 0:
        raise _wrong("a reserved field is not zero", "reserved", 0, header["reserved"])
    promised = header["total_file_size"]
    if source.size < promised:
        raise Truncated(
            "the file is shorter than its header says",
            offset=source.size,
            field="total_file_size",
            expected=f"{promised} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    if source.size > promised:
        raise _wrong(
            "the file is longer than its header says",
            "total_file_size",
            f"{promised} bytes",
            f"{source.size} bytes",
            remedy="fetch the file again",
        )
    return header


def _wrong(
    message: str, name: str, expected: Any, found: Any, *, at: int = 0, remedy: str | None = None
) -> FormatError:
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


def _check_places(source: Source, contents: Contents) -> None:
    end = source.size - FOOTER.size
    if end < HEADER.size:
        raise Truncated(
            "the file is too short for a header and a footer",
            offset=0,
            expected=f"{HEADER.size + FOOTER.size} bytes",
            found=f"{source.size} bytes",
        )
    for name, offset, size in sections(contents.header):
        if offset + size > end:
            raise Corrupt(
                f"the {name} section reaches past the footer",
                offset=offset,
                field=name,
                expected=f"an end of at most {end}",
                found=offset + size,
            )
    refuse_overlaps([s for s in sections(contents.header) if s[2]], "section")
    header = contents.header
    if header["tensor_data_offset"] + header["tensor_data_size"] != end:
        raise Corrupt(
            "bytes between the tensor data and the footer belong to nothing",
            offset=header["tensor_data_offset"] + header["tensor_data_size"],
            field="tensor_data_size",
            expected=end - header["tensor_data_offset"],
            found=header["tensor_data_size"],
        )
    if contents.aligned and header["tensor_data_offset"] % ALIGNMENT and header["tensor_index_count"]:
        contents.notes.append("tensor_data_offset is not a multiple of 64, so mapped tensors are not aligned")


def _read_metadata(source: Source, contents: Contents) -> None:
    start, size = contents.header["metadata_offset"], contents.header["metadata_size"]
    cursor = Cursor(Window(source, start, size, "metadata"), start)
    values = cursor.read(METADATA_HEADER)
    if values["total_size"] != size - METADATA_HEADER.size:
        raise Corrupt(
            "the metadata's sizes disagree",
            offset=start + METADATA_HEADER.offset("total_size"),
            field="metadata.total_size",
            expected=size - METADATA_HEADER.size,
            found=values["total_size"],
        )
    cursor.require(values["entry_count"] * 4, "metadata.entry_count")
    for number in range(values["entry_count"]):
        at = cursor.offset
        key_length, value_length = cursor.number("u2", "key_length"), cursor.number("u2", "value_length")
        key = cursor.text(key_length, f"metadata key {number}")
        if key in contents.metadata:
            raise Corrupt(f"metadata key {key!r} appears twice", offset=at, field="metadata")
        contents.metadata[key] = cursor.text(value_length, f"metadata {key}")
    if cursor.left:
        raise Corrupt(
            "bytes after the last metadata entry",
            offset=cursor.offset,
            field="metadata.entry_count",
            expected="0 bytes",
            found=f"{cursor.left} bytes",
        )
    for key in REQUIRED_KEYS:
        if key not in contents.metadata:
            raise Corrupt(
                f"the required metadata key {key!r} is missing",
                offset=start,
                field="metadata",
                expected=key,
                remedy="add it and write the file again",
            )


def _check_footer(source: Source, contents: Contents) -> None:
    at = source.size - FOOTER.size
    footer = FOOTER.read(source, at)
    if footer["magic_end"] != MAGIC_END:
        raise Corrupt(
            "the end magic is wrong",
            offset=at + FOOTER.offset("magic_end"),
            field="magic_end",
            expected=MAGIC_END.hex(" "),
            found=footer["magic_end"].hex(" "),
        )
    if footer["reserved"] and contents.header["version_minor"] == 0:
        raise Corrupt(
            "a reserved field is not zero",
            offset=at + FOOTER.offset("reserved"),
            field="reserved",
            expected=0,
            found=footer["reserved"],
        )


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
        piece = source.mapped(at, min(1 << 20, footer_at - at))
        whole, data = crc32(piece, whole), crc32(piece, data)
    for name, found in (("data_checksum", data), ("file_checksum", whole)):
        if footer[name] != found:
            what = "the tensor data fails its checksum" if name == "data_checksum" else "the file fails its checksum"
            yield Corrupt(
                what,
                offset=footer_at + FOOTER.offset(name),
                field=name,
                expected=f"{footer[name]:#010x}",
                found=f"{found:#010x}",
                remedy="fetch the file again",
            )
