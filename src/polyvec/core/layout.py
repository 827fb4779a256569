"""Typed fixed records with offsets, and a cursor that never reads past the end.

A format states its header once, as a `Record`; reading, writing, error offsets and the byte map of
``polyvec info --layout`` all come from that one statement::

    HEADER = Record("header", n="u4", d="u4")
    values = HEADER.read(source, 0)       # Truncated, with the offset, when the bytes are not there
    values["n"], HEADER.offset("d"), HEADER.size
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from polyvec.core.errors import Corrupt, Truncated

_STRUCT = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f4": "f", "f8": "d"}


class Readable(Protocol):
    """Bytes with a size, read by offset."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Span:
    """A named piece of a file: one line of its byte map."""

    offset: int
    size: int
    name: str
    note: str = ""


class Record:
    """A fixed little-endian record. Field types: u1 i1 u2 i2 u4 i4 u8 i8 f4 f8, or an int for raw bytes."""

    def __init__(self, name: str, /, **fields: str | int) -> None:
        self.name = name
        self.fields = tuple(fields)
        codes = [f"{kind}s" if isinstance(kind, int) else _STRUCT[kind] for kind in fields.values()]
        self._struct = struct.Struct("<" + "".join(codes))
        self.size = self._struct.size
        self._offsets: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        at = 0
        for field, code in zip(fields, codes):
            width = struct.calcsize("<" + code)
            self._offsets[field], self._sizes[field] = at, width
            at += width

    def offset(self, field: str) -> int:
        """Where a field starts, counted from the record's first byte."""
        return self._offsets[field]

    def read(self, source: Readable, at: int = 0) -> dict[str, Any]:
        """The record's values at ``at``; `Truncated` when the file is too short for it."""
        data = take(source, at, self.size, self.name)
        return dict(zip(self.fields, self._struct.unpack(data)))

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """The record's bytes."""
        return self._struct.pack(*(values[field] for field in self.fields))

    def spans(self, at: int, values: Mapping[str, Any]) -> list[Span]:
        """The record as lines of a byte map."""
        return [Span(at + self._offsets[f], self._sizes[f], f"{self.name}.{f}", str(values[f])) for f in self.fields]


def take(source: Readable, offset: int, size: int, field: str) -> bytes:
    """Exactly ``size`` bytes at ``offset``, or `Truncated` before anything is allocated."""
    if offset < 0 or size < 0 or offset + size > source.size:
        raise Truncated(
            f"the file ends inside {field}",
            offset=offset,
            field=field,
            expected=f"{size} bytes",
            found=f"{max(0, source.size - max(offset, 0))} bytes",
        )
    return source.read_at(offset, size)


class Cursor:
    """Reads a source forward, checked: every read names its field and stays below ``stop``."""

    def __init__(self, source: Readable, offset: int = 0, stop: int | None = None) -> None:
        self.source = source
        self.offset = offset
        self.stop = source.size if stop is None else min(stop, source.size)

    @property
    def left(self) -> int:
        """Bytes from here to the end of what may be read."""
        return self.stop - self.offset

    def require(self, size: int, field: str) -> None:
        """Check, without reading, that ``size`` bytes are there."""
        if size < 0 or size > self.left:
            raise Truncated(
                f"the file ends inside {field}",
                offset=self.offset,
                field=field,
                expected=f"{size} bytes",
                found=f"{max(0, self.left)} bytes",
            )

    def take(self, size: int, field: str) -> bytes:
        """The next ``size`` bytes."""
        self.require(size, field)
        data = self.source.read_at(self.offset, size)
        self.offset += size
        return data

    def skip(self, size: int, field: str) -> int:
        """Step over ``size`` bytes that exist; returns where they start."""
        self.require(size, field)
        start = self.offset
        self.offset += size
        return start

    def read(self, record: Record) -> dict[str, Any]:
        """The next record."""
        self.require(record.size, record.name)
        values = record.read(self.source, self.offset)
        self.offset += record.size
        return values

    def number(self, kind: str, field: str) -> int:
        """The next integer of type ``kind`` (u1 … i8)."""
        code = "<" + _STRUCT[kind]
        value: int = struct.unpack(code, self.take(struct.calcsize(code), field))[0]
        return value

    def text(self, size: int, field: str) -> str:
        """The next ``size`` bytes as UTF-8."""
        start = self.offset
        data = self.take(size, field)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Corrupt(
                "text is not valid UTF-8",
                offset=start + error.start,
                field=field,
                expected="UTF-8",
                found=f"byte 0x{data[error.start]:02x}",
            ) from None
