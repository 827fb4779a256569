"""The sidecar `NAME.pvindex` of an index: a header and arrays, every byte under a checksum.

Little endian::

    offset 0    8 bytes  "PVINDEX2"
    offset 8    u32      length of the header
    offset 12   u32      CRC-32 of the 12 bytes before, the header and the zeros after it
    offset 16   JSON     {"rows", "dim", "unit", "sha256": of the rows, "stamp": [size, mtime_ns, ctime_ns] or null,
                          "arrays": [[name, dtype, bytes, [CRC-32 of each 16 MB]], ...]}
    then        the arrays in that order, each from a multiple of 64 bytes on; the zeros after an array belong to its
                last stretch, and the file ends with them

The numbers of the rows are checked when a file is opened, since opening uses them. The codes, most of the file, are
checked a stretch at a time, when a scan first comes to it: it reads them anyway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.places import Identity, Place
from polyvec.core.sources import Source, reopen
from polyvec.core.strict_json import parse_json
from polyvec.core.targets import open_sink
from polyvec.kernels.checksum import crc32
from polyvec.kernels.threads import spread

MAGIC = b"PVINDEX2"
SUFFIX = ".pvindex"
MOST_HEADER = 1 << 25
STRETCH = 1 << 24  # bytes under one checksum
REMEDY = "delete it and build it again"

DTYPES = {
    "codes": np.int8,
    "scale": np.float32,
    "error": np.float32,
    "hat": np.float32,
    "norm": np.float64,
    "half": np.float64,
    "along": np.float64,
    "center": np.float32,
}

Array = NDArray[Any]


@dataclass(slots=True)
class Stretches:
    """The bytes of an array with its padding, and the checksums of those that nobody has looked at yet."""

    name: str
    data: NDArray[np.uint8]
    crcs: list[int]
    path: str
    offset: int  # of the data in the file
    seen: set[int] = field(default_factory=set)

    @property
    def pending(self) -> bool:
        return len(self.seen) < len(self.crcs)

    def check(self, start: int, stop: int, threads: int | None = None) -> None:
        """`Corrupt` unless the stretches that hold bytes start to stop are as they were written."""
        last = min(-(-stop // STRETCH), len(self.crcs))
        todo = [i for i in range(start // STRETCH, last) if i not in self.seen]
        for i, crc in zip(todo, spread(self._sum, todo, threads)):
            if crc != self.crcs[i]:
                raise Corrupt(
                    f"array {self.name} is damaged: its bytes do not have their checksum",
                    path=self.path,
                    offset=self.offset + i * STRETCH,
                    expected=f"CRC-32 {self.crcs[i]:08x}",
                    found=f"{crc:08x}",
                    remedy=REMEDY,
                )
            self.seen.add(i)

    def _sum(self, i: int) -> int:
        return crc32(self.data[i * STRETCH : (i + 1) * STRETCH])


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Where the index of a file lies by convention."""
    place = Place.of(path)
    return place.sibling(place.name + SUFFIX).path


def write_sidecar(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Path:
    """Write the file, atomically."""
    table = [
        [name, np.dtype(DTYPES[name]).str, array.nbytes, _crcs_of(np.ascontiguousarray(array, DTYPES[name]))]
        for name, array in arrays.items()
    ]
    text = json.dumps({**header, "arrays": table}).encode()
    if len(text) > MOST_HEADER:
        raise Unsupported("the index is too large for its header", path=os.fspath(path))
    text += bytes(-(16 + len(text)) % 64)
    head = MAGIC + len(text).to_bytes(4, "little")
    with open_sink(path) as sink:
        sink.write(head + crc32(text, crc32(head)).to_bytes(4, "little") + text)
        for name, array in arrays.items():
            sink.write(np.ascontiguousarray(array, DTYPES[name]))
            sink.align(64)
    return Path(os.path.realpath(path))


class Sidecar(NamedTuple):
    """A file that was read: the header, the arrays mapped into memory, and the codes' checksums, still to be looked at."""

    header: dict[str, Any]
    arrays: dict[str, Array]
    codes: Stretches
    place: Place
    identity: Identity | None


def read_sidecar(where: str | os.PathLike[str] | Place, identity: Identity | None = None) -> Sidecar:
    """The sidecar at a place; no file stays open. `Replaced` where it is another than the one of an ``identity``."""
    place = Place.of(where)
    with reopen(place, identity) as source:
        return Sidecar(*_read(source), place, source.identity())


def _crcs_of(array: Array) -> list[int]:
    data = array.reshape(-1).view(np.uint8)
    sums = spread(lambda at: crc32(data[at : at + STRETCH]), range(0, len(data), STRETCH))
    short = -len(data) % 64
    sums[-1] = crc32(bytes(short), sums[-1])
    return sums


@dataclass(frozen=True, slots=True)
class _Entry:
    """An array as the header's table lists it."""

    name: str
    dtype: str
    size: Any
    crcs: Any

    @property
    def stored(self) -> int:
        """Bytes in the file, with the zeros after them."""
        return int(-(-self.size // 64) * 64)


def _wrong(source: Source, what: str, kind: type[FormatError] = Corrupt) -> FormatError:
    return kind(f"not a usable index: {what}", path=source.label, remedy=REMEDY)


def _read(source: Source) -> tuple[dict[str, Any], dict[str, Array], Stretches]:
    header, at = _read_header(source)
    entries = _entries(source, header)
    arrays: dict[str, Array] = {}
    codes: Stretches | None = None
    for entry in entries:
        shape = _shape(source, entry, header["rows"], header["dim"])
        stretches = _map(source, entry, at)
        arrays[entry.name] = stretches.data[: entry.size].view(DTYPES[entry.name]).reshape(shape)
        if entry.name == "codes":
            codes = stretches
        else:
            stretches.check(0, entry.stored)
        at += entry.stored
    if at != source.size:
        raise _wrong(source, f"{source.size - at} bytes follow its arrays")
    assert codes is not None
    return header, arrays, codes


def _read_header(source: Source) -> tuple[Any, int]:
    """The header as JSON, whatever it says, and where it ends."""
    head = source.read_at(0, 16)
    if head[:8] == b"PVINDEX1":
        raise _wrong(source, "it was written by an earlier polyvec, without checksums", Unsupported)
    if len(head) < 16 or head[:8] != MAGIC:
        raise _wrong(source, "the first bytes are not PVINDEX2")
    length = int.from_bytes(head[8:12], "little")
    if length > MOST_HEADER or (16 + length) % 64:
        raise _wrong(source, f"its header cannot have {length} bytes")
    if 16 + length > source.size:
        raise _wrong(source, f"its header of {length} bytes is cut off", Truncated)
    text = source.read_at(16, length)
    if crc32(text, crc32(head[:12])) != int.from_bytes(head[12:16], "little"):
        raise _wrong(source, "its header does not have its checksum")
    return parse_json(text.rstrip(b"\0"), path=source.label, offset=16), 16 + length


def _entries(source: Source, header: Any) -> list[_Entry]:
    """The arrays that the header lists; an error where it is not that of an index."""
    try:
        rows, dim, unit = header["rows"], header["dim"], float(header["unit"])
        table = {str(name): _Entry(str(name), str(dtype), *rest) for name, dtype, *rest in header["arrays"]}
        str(header["sha256"]), header["stamp"]
    except (TypeError, KeyError, ValueError):
        raise _wrong(source, "its header lacks a field") from None
    if not all(type(v) is int and v > 0 for v in (rows, dim)) or not (np.isfinite(unit) and unit > 0):
        raise _wrong(source, "its header holds impossible numbers")
    if set(table) - {"center"} != set(DTYPES) - {"center"}:
        raise _wrong(source, "its arrays are not those of an index")
    return list(table.values())


def _shape(source: Source, entry: _Entry, rows: int, dim: int) -> tuple[int, ...]:
    shape = {"codes": (rows, dim), "center": (dim,)}.get(entry.name, (rows,))
    expected = np.dtype(DTYPES[entry.name])
    if entry.dtype != expected.str or entry.size != expected.itemsize * prod(shape):
        raise _wrong(source, f"array {entry.name} has another shape than its rows")
    return shape


def _map(source: Source, entry: _Entry, at: int) -> Stretches:
    if at + entry.stored > source.size:
        raise _wrong(source, f"array {entry.name} is cut off at {source.size} bytes", Truncated)
    if not isinstance(entry.crcs, list) or len(entry.crcs) != -(-entry.size // STRETCH):
        raise _wrong(source, f"array {entry.name} lacks checksums")
    return Stretches(entry.name, source.mapped(at, entry.stored), entry.crcs, source.label, at)
