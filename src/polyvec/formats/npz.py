"""NumPy's .npz: a zip of .npy files; every array a column.

::

    local header, NAME.npy (stored, or deflated)      once an array
    central directory, end of central directory

The first array of two dimensions is the main column. Stored arrays are read where they lie; deflated ones are
inflated forward, a block at a time. Object arrays are pickles, and are never read. Written stored, with the dates of
zip's first day, so that the same arrays give the same bytes.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import IO, Any

import ml_dtypes
import numpy as np

from polyvec.codecs import BFloat16, Float16, Raw, transcode
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Block, Codec, Extent, bounded_rows
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn, clusters
from polyvec.core.errors import Corrupt, FormatError, PolyvecError, Unsupported
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source, open_source
from polyvec.core.streams import SinkStream, SourceStream
from polyvec.formats import npy
from polyvec.formats.headers import swapped_column

MAGIC = b"PK\x03\x04"
EMPTY = b"PK\x05\x06"
LOCAL = Record(
    "local header",
    magic=4,
    version="u2",
    flags="u2",
    method="u2",
    time="u2",
    date="u2",
    crc="u4",
    packed="u4",
    size="u4",
    name="u2",
    extra="u2",
)
MAX_MEMBERS = 100_000
MAX_RATIO = 1032  # the most that deflate can do
HEAD_BYTES = npy.MAX_HEADER + 16
ENCRYPTED = 1


class Npz(Format):
    """Archives of NumPy arrays."""

    name = "npz"
    title = "NumPy archive"
    suffixes = (".npz",)
    holds = Holds(many_columns=True, encodings=("raw", "float16", "bfloat16"), dtypes=npy.FORMAT.holds.dtypes)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        zipped = peek.head.startswith((MAGIC, EMPTY))
        named = peek.suffix in self.suffixes
        length = int.from_bytes(peek.head[26:28], "little") if len(peek.head) > 30 else 0
        if zipped and (named or peek.head[30 : 30 + length].endswith(b".npy")):
            return [Match(Confidence.MAGIC, "a zip archive of .npy files")]
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; it is no zip archive")] if named else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        archive = _archive(source)
        columns: dict[str, Column] = {}
        notes: list[str] = []
        refused: FormatError | None = None
        for member in _members(source, archive):
            name = member.filename.removesuffix(".npy")
            if not member.filename.endswith(".npy"):
                notes.append(f"{member.filename!r} is left out: it is no .npy file")
                continue
            try:
                columns[name] = _column(source, archive, member, name, notes)
            except Unsupported as error:
                error.field = f"{name}.{error.field}" if error.field else name
                refused = refused or error
                notes.append(f"array {name!r} is left out: {error.message}")
        if not columns:
            raise refused or Unsupported("the archive holds no arrays", path=source.label, expected=".npy files")
        main = next((name for name, column in columns.items() if len(column.shape) == 2), next(iter(columns)))
        return Collection(columns, main=main, notes=notes)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return options.encoding if options.encoding not in (None, "raw") else f"raw {collection.vectors.dtype.name}"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        order = [collection.main, *(name for name in collection.columns if name != collection.main)]
        codecs = {
            name: _codec(collection[name], options.encoding if name == collection.main else None) for name in order
        }
        with zipfile.ZipFile(SinkStream(sink), "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload,unused-ignore]
            for name in order:
                column, codec = collection[name], codecs[name]
                member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                member.external_attr = 0o644 << 16
                with archive.open(member, "w", force_zip64=True) as out:
                    out.write(npy._header_bytes(codec.parts(column.row_shape)["codes"][0], column.shape))
                    for block in column.blocks(options.chunk_rows, reuse=True):
                        codes = np.ascontiguousarray(transcode(block, codec).parts["codes"])
                        out.write(codes.reshape(-1).view(np.uint8).data)
                        if options.progress:
                            options.progress(block.start + block.rows, column.rows)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        archive = _archive(source)
        for member in _members(source, archive):
            try:
                with _wrapped(source), archive.open(member) as stream:
                    while stream.read(1 << 20):
                        pass
            except FormatError as error:
                yield Finding.of(error)
        with self.open(source, variant=variant) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            yield from check_rows(collection)

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        return True  # every array of a zip has its CRC-32

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        archive = _archive(source)
        spans: list[Span] = []
        for member in _members(source, archive):
            start = _data_offset(source, member)
            spans.append(Span(member.header_offset, start - member.header_offset, "local header", member.filename))
            note = "stored" if member.compress_type == zipfile.ZIP_STORED else "deflated"
            spans.append(Span(start, member.compress_size, member.filename, note))
        end = archive.start_dir
        return [*spans, Span(end, source.size - end, "central directory", f"{len(archive.infolist())} files")]


@contextmanager
def _wrapped(source: Source) -> Iterator[None]:
    """Whatever reading the archive raises becomes one line about the file."""
    try:
        yield
    except (PolyvecError, OSError, KeyboardInterrupt):
        raise
    except Exception as error:  # zipfile lets whatever its parts raise through
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise Corrupt(
            f"the archive cannot be read: {words}", path=source.label, remedy="fetch the file again"
        ) from None


def _archive(source: Source) -> zipfile.ZipFile:
    with _wrapped(source):
        return zipfile.ZipFile(SourceStream(source), "r")  # type: ignore[call-overload,unused-ignore,no-any-return]


def _members(source: Source, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files of the archive in the order of their bytes, which may neither overlap nor leave the file."""
    members = sorted(archive.infolist(), key=lambda m: m.header_offset)
    if len(members) > MAX_MEMBERS:
        raise Unsupported(f"more than {MAX_MEMBERS} files in the archive", path=source.label)
    names = [m.filename for m in members]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Corrupt("two files of the archive have one name", path=source.label, field=twice)
    edges = [*(m.header_offset for m in members[1:]), archive.start_dir]
    for member, edge in zip(members, edges):
        end = _data_offset(source, member) + member.compress_size
        if end > edge:
            raise Corrupt(
                "files of the archive overlap",
                path=source.label,
                offset=member.header_offset,
                field=member.filename,
                expected=f"an end by byte {edge}",
                found=f"byte {end}",
            )
    return members


def _data_offset(source: Source, member: zipfile.ZipInfo) -> int:
    """Where a file's bytes start: after the local header, whose own lengths count."""
    if member.header_offset < 0:
        raise Corrupt("a file starts before the archive", path=source.label, field=member.filename)
    local = LOCAL.read(source, member.header_offset)
    if local["magic"] != MAGIC:
        raise Corrupt(
            "a local header is missing",
            path=source.label,
            offset=member.header_offset,
            field=member.filename,
            expected=repr(MAGIC),
            found=repr(local["magic"]),
        )
    return int(member.header_offset + LOCAL.size + local["name"] + local["extra"])


def _column(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, notes: list[str]) -> Column:
    stored = member.compress_type == zipfile.ZIP_STORED
    if member.flag_bits & ENCRYPTED or not (stored or member.compress_type == zipfile.ZIP_DEFLATED):
        raise Unsupported("the file is encrypted or compressed in a way NumPy does not write", path=source.label)
    start = _data_offset(source, member)
    if stored and member.compress_size != member.file_size:
        raise Corrupt(
            "a stored file has two sizes",
            path=source.label,
            field=name,
            expected=member.file_size,
            found=member.compress_size,
        )
    if member.file_size > MAX_RATIO * member.compress_size + 1024:
        raise Corrupt(
            "a file promises more than its bytes can hold",
            path=source.label,
            field=name,
            expected=f"at most {MAX_RATIO} bytes for each of {member.compress_size}",
            found=member.file_size,
        )
    with _wrapped(source):
        head = source.read_at(start, min(HEAD_BYTES, member.file_size)) if stored else _first(archive, member)
        header = npy.read_header(open_source(head, name=source.label))
    size = prod(header.shape) * header.dtype.itemsize
    if header.data + size != member.file_size:
        raise Corrupt(
            "an array does not fill its file",
            path=source.label,
            offset=start,
            field=name,
            expected=f"{header.data + size} bytes",
            found=f"{member.file_size} bytes",
        )
    swapped, turned = header.dtype.byteorder == ">", header.fortran and len(header.shape) > 1
    if swapped:
        notes.append(f"array {name!r}: big-endian {header.dtype.name} is converted to little-endian as it is read")
    if turned:
        notes.append(f"array {name!r}: Fortran order is turned into rows as it is read")
    if not stored:
        return InflatedColumn(source, archive, member, name, header)
    header.data += start
    if turned or swapped:
        if not turned:
            return swapped_column(name, source, header.data, header.shape, header.dtype.newbyteorder("<"))
        column = npy._fortran(source, header)
        column.name = name
        return column
    extent = Extent(0, header.shape[0], header.data, size, Raw(header.dtype))
    return FileColumn(name, source, [extent], row_shape=header.shape[1:], encoding="raw")


def _first(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as stream:
        return stream.read(HEAD_BYTES)


class InflatedColumn(Column):
    """A deflated array: inflated forward, and from its start again for every way back."""

    encoding = "raw"
    forward = True

    def __init__(
        self, source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, header: Any
    ) -> None:
        self.name = name
        self.shape = header.shape
        self.dtype = header.dtype.newbyteorder("<")
        self._source, self._archive, self._member, self._header = source, archive, member, header
        self._turned = header.fortran and len(header.shape) > 1
        self._width = prod(header.shape[1:]) * header.dtype.itemsize
        self._stream: IO[bytes] | None = None
        self._at = 0
        self._lock = threading.Lock()
        self._whole: Array | None = None
        if self._turned and self.nbytes > MAX_BLOCK_BYTES:
            raise Unsupported(
                "the array is deflated and in Fortran order, so that a row is spread over all of it",
                path=source.label,
                remedy="save it again in C order (numpy.ascontiguousarray)",
            )

    @property
    def codec(self) -> Codec | None:
        return Raw(self.dtype)

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        most = bounded_rows(rows, self.dtype, self.row_shape)
        for at in range(start, stop, most):
            end = min(at + most, stop)
            with self._lock:
                codes = self._rows(at, end)
            yield Block(at, {"codes": codes}, Raw(self.dtype), end - at)

    def spread(self, count: int) -> Array:
        """The first rows: every other row costs all before it."""
        return clusters(self.rows, count, [0])

    def _rows(self, start: int, stop: int) -> Array:
        if self._turned:
            if self._whole is None:
                flat = np.frombuffer(self._bytes(0, self.nbytes), self._header.dtype)
                self._whole = flat.reshape(self.shape, order="F")
            return np.ascontiguousarray(self._whole[start:stop], self.dtype)
        raw = np.frombuffer(self._bytes(start * self._width, (stop - start) * self._width), self._header.dtype)
        return raw.reshape(stop - start, *self.row_shape).astype(self.dtype, copy=False)

    def _bytes(self, offset: int, size: int) -> bytes:
        place = self._header.data + offset
        with _wrapped(self._source):
            if self._stream is None or place < self._at:
                self._stream, self._at = self._archive.open(self._member), 0
            while self._at < place:
                skipped = self._stream.read(min(1 << 20, place - self._at))
                if not skipped:
                    break
                self._at += len(skipped)
            data = self._stream.read(size) if self._at == place else b""
            self._at += len(data)
        if len(data) != size:
            raise Corrupt(
                "a deflated array is shorter than it says",
                path=self._source.label,
                field=self.name,
                expected=f"{size} bytes",
                found=f"{len(data)} bytes",
            )
        return data


def _codec(column: Column, encoding: str | None) -> Codec:
    if encoding == "float16":
        return Raw(np.dtype("<f2")) if column.dtype == np.float16 else Float16()
    if encoding == "bfloat16":
        return Raw(column.dtype) if column.dtype == ml_dtypes.bfloat16 else BFloat16()
    return Raw(column.dtype.newbyteorder("<") if column.dtype.kind in "fiu" else column.dtype)


FORMAT = Npz()
