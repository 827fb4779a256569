"""HDF5: every dataset of numbers a column, attributes as metadata; the layout of ann-benchmarks among them.

::

    train      n x d     the base               attributes: type ("dense"), distance ("angular", "euclidean"…),
    test       q x d     the queries            dimension, point_type ("float", "bit")
    neighbors  q x k     int32 row numbers in train
    distances  q x k     float32

Structure is read and written by h5py. Rows of contiguous datasets, which are the usual ones, lie in the file as they
are: those are read by offset, checked against the file's size, and copied without the library. Links to other files
and storage outside the file are never followed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from polyvec.codecs import Float16, Raw, transcode
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Array, Codec, Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn, ReaderColumn
from polyvec.core.dtypes import BFLOAT16, NUMBERS
from polyvec.core.errors import Corrupt, FormatError, InputError, MissingExtra, PolyvecError, Truncated, Unsupported
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.plain import json_default
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.streams import SinkStream, SourceStream
from polyvec.core.strict_json import parse_json

MAGIC = b"\x89HDF\r\n\x1a\n"
MAIN = ("train", "base", "vectors", "x", "embeddings", "emb", "data")
MAX_OBJECTS = 10_000
MAX_RATIO = 1100  # deflate gives at most 1032 bytes for one; more than that is a promise without bytes
FREE_BYTES = 64 << 20
MAX_ATTRIBUTE = 1 << 20
COMPRESSIONS = ("gzip", "lzf")
COMPRESSION = Option("compression", str, "How the datasets are compressed.", ("none", *COMPRESSIONS))
DATASET = Option("dataset", str, "The name of the main column's dataset.")
CHOSEN = Option("dataset", str, "The dataset that is the main column.")
PACKED = "polyvec"  # the attribute that keeps metadata which attributes cannot express
MAIN_NAME = "polyvec.main"  # the attribute that names the main column where no rule would


class Hdf5(Format):
    """HDF5 files."""

    name = "hdf5"
    title = "HDF5 (ann-benchmarks)"
    suffixes = (".hdf5", ".h5")
    aliases = {"hdf5": "", "h5": "", "ann-benchmarks": ""}  # noqa: RUF012
    holds = Holds(many_columns=True, metadata=True, encodings=("raw", "float16"), dtypes=(*NUMBERS, BFLOAT16))
    options = (DATASET, COMPRESSION)
    reading = (CHOSEN,)
    extra = "hdf5"

    def sniff(self, peek: Peek) -> Sequence[Match]:
        for at in (0, 512, 1024, 2048):  # a user block may come first
            if peek.head[at : at + len(MAGIC)] == MAGIC:
                return [Match(Confidence.MAGIC, f"the HDF5 signature at byte {at}")]
        named = peek.suffix in self.suffixes
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the HDF5 signature is missing")] if named else []

    def open(
        self, source: Source, *, variant: str = "", lenient: bool = False, dataset: str | None = None, **own: Any
    ) -> Collection:
        file = _open(source)
        try:
            with _wrapped(source):
                collection = _collect(source, file, dataset)
        except BaseException:
            file.close()
            raise
        collection.on_close(file.close)
        return collection

    def target(self, collection: Collection, options: WriteOptions) -> str:
        codec = _codec(collection.vectors, options.encoding)
        kept = options.own.get("compression")
        return (codec.name if codec.name != "raw" else f"raw {codec.dtype.name}") + (f", {kept}" if kept else "")

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        compression = options.own.get("compression")
        main = options.own.get("dataset") or collection.main
        columns = {main if name == collection.main else name: column for name, column in collection.columns.items()}
        if len(columns) != len(collection.columns):
            raise InputError(f"the dataset name {main!r} is another column's")
        codecs = {name: _codec(c, options.encoding if name == main else None) for name, c in columns.items()}
        places: dict[str, int | None] = {}
        h5py = _library()
        stream = _Unfailing(sink)
        with h5py.File(stream, "w") as file:
            for name, column in columns.items():
                stored = codecs[name].parts(column.row_shape)["codes"][0]
                if compression in COMPRESSIONS and column.rows:
                    _write_chunked(file, name, column, codecs[name], stored, compression, options)
                else:
                    places[name] = _allocate(h5py, file, name, column.shape, stored)
            _write_metadata(file, collection.metadata)
            flat = sorted(name for name, column in columns.items() if len(column.shape) >= 2)
            if main not in flat or main != next((n for n in MAIN if n in flat), flat[0]):
                file.attrs[MAIN_NAME] = main  # the rule of `open` would choose another
        stream.settle()
        for name, place in places.items():
            if place is not None:
                write_rows(sink, columns[name], codecs[name], options, at=place)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        with self.open(source) as collection:
            found = [
                Span(e.offset, e.size, name, f"{'x'.join(map(str, c.shape))} {c.dtype}")
                for name, c in collection.columns.items()
                for e in c.extents()
            ]
        spans, at = [], 0
        for span in sorted(found, key=lambda s: s.offset):
            if span.offset > at:
                spans.append(Span(at, span.offset - at, "structure", "read by the HDF5 library"))
            spans.append(span)
            at = max(at, span.offset + span.size)
        if source.size > at:
            spans.append(Span(at, source.size - at, "structure", "read by the HDF5 library"))
        return spans


class _Unfailing(SinkStream):
    """A sink as a file that never fails the library, which a failed write leaves unable to close, and later crashing.

    The first error is kept, what follows goes nowhere, and `settle` raises it once the library is done.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._error: BaseException | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._sink.read_at(self._at, len(view))
        view[:] = data.ljust(len(view), b"\0")
        self._at += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._error is None:
            try:
                return super().write(data)
            except BaseException as error:
                self._error = error
        self._at += size
        return size

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        if self._error is None and size > self._sink.size:
            try:
                self._sink.reserve(size - self._sink.size)
            except BaseException as error:
                self._error = error
        return size

    def settle(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error


def _library() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtra("h5py", extra="hdf5", purpose="HDF5 files") from None
    return h5py


@contextmanager
def _wrapped(source: Source) -> Iterator[None]:
    """Whatever the library raises becomes one line about the file."""
    try:
        yield
    except (PolyvecError, KeyboardInterrupt):
        raise
    except MemoryError:
        raise Corrupt("the file asks for more memory than there is", path=source.label) from None
    except Exception as error:  # h5py maps the library's errors to many Python types
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise Corrupt(
            f"the HDF5 library cannot read it: {words}",
            path=source.label,
            remedy="fetch the file again, or check it with h5dump",
        ) from None


def _open(source: Source) -> Any:
    h5py = _library()
    with _wrapped(source):
        if (local := source.local()) is not None:
            return h5py.File(local, "r", locking=False)
        if source.fd is not None or source.view(0, source.size) is None:  # no bytes in memory, and no name either
            return h5py.File(io.BufferedReader(SourceStream(source), 1 << 20), "r")
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fapl_core(backing_store=False)
        access.set_file_image(source.read_at(0, source.size))
        return h5py.File(h5py.h5f.open(source.name.encode("utf-8"), h5py.h5f.ACC_RDONLY, access))


def _collect(source: Source, file: Any, wanted: str | None) -> Collection:
    import h5py

    datasets: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            if len(datasets) >= MAX_OBJECTS:
                raise Unsupported(f"more than {MAX_OBJECTS} datasets", path=source.label)
            datasets[name] = item

    file.visititems(visit)
    notes: list[str] = []
    columns: dict[str, Column] = {}
    for name, dataset in datasets.items():
        column = _column(source, name, dataset, notes)
        if column is not None:
            columns[name] = column
    flat = [name for name, column in columns.items() if len(column.shape) >= 2]
    metadata = _read_metadata(file, notes)
    named = metadata.pop(MAIN_NAME, None)
    if isinstance(named, str) and named in columns:
        flat = [named, *flat]  # single values are rows where the writer says so
    if not flat:
        shown = ", ".join(f"{n} {getattr(d, 'shape', None)} {d.dtype}" for n, d in list(datasets.items())[:8])
        raise Unsupported(
            "no dataset of numbers has two dimensions",
            path=source.label,
            expected="rows of vectors",
            found=shown or "no dataset at all",
        )
    if wanted is not None and wanted not in columns:
        raise InputError(f"{source.label}: no dataset {wanted!r}; there are {', '.join(columns)}")
    main = wanted or next((n for n in (named, *MAIN) if n in flat), flat[0])
    return Collection(columns, main=main, metadata=metadata, notes=notes)


def _column(source: Source, name: str, dataset: Any, notes: list[str]) -> Column | None:
    """A dataset as a column; None, with a note, where it holds no rows of numbers."""
    import h5py

    shape, dtype = dataset.shape, dataset.dtype
    plain = dtype.kind in "fiub" and dtype.itemsize <= 8 and not dtype.shape
    if not shape or not plain or (shape[0] and not prod(shape[1:])):
        notes.append(f"dataset {name!r} is left out: it holds no rows of numbers ({dtype}, shape {shape})")
        return None
    if dataset.external or dataset.is_virtual:
        notes.append(f"dataset {name!r} is left out: its rows lie in other files, which are never followed")
        return None
    expected = prod(shape) * dtype.itemsize
    there = dataset.id.get_storage_size()
    if expected > MAX_RATIO * there + FREE_BYTES:
        raise Corrupt(
            "a dataset promises more than its bytes can hold",
            path=source.label,
            field=name,
            expected=f"{expected} bytes",
            found=f"{there} bytes stored",
        )
    swapped = dtype.byteorder == ">"
    contiguous = dataset.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
    offset = dataset.id.get_offset() if contiguous else None
    if offset is not None and not swapped and there >= expected:
        if offset + expected > source.size:
            raise Truncated(
                f"dataset {name!r} lies beyond the end of the file",
                path=source.label,
                offset=offset,
                field=name,
                expected=f"{expected} bytes",
                found=f"{max(0, source.size - offset)} bytes",
                remedy="fetch the file again",
            )
        extent = Extent(0, shape[0], offset, expected, Raw(dtype))
        return FileColumn(name, source, [extent], row_shape=shape[1:], encoding="raw")
    if swapped:
        notes.append(f"dataset {name!r}: big-endian {dtype.name} is converted to little-endian as it is read")

    def read(start: int, stop: int) -> Array:
        if not dataset:
            raise InputError(f"{source.name} is closed")  # the library would call it damaged
        with _wrapped(source):
            return np.ascontiguousarray(dataset[start:stop]).astype(dtype.newbyteorder("<"), copy=False)

    together = dataset.chunks[0] if dataset.chunks else 1
    return ReaderColumn(name, shape, dtype.newbyteorder("<"), read, together=together)


def _codec(column: Column, encoding: str | None) -> Codec:
    """How a column is stored. HDF5 has no bfloat16 of its own: float32 holds it exactly."""
    if encoding == "float16":
        return Float16() if column.dtype == np.float32 else Raw(np.dtype("<f2"))
    if column.dtype == BFLOAT16:
        return Raw(np.dtype("<f4"))
    return Raw(column.dtype.newbyteorder("<"))


def _allocate(h5py: Any, file: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int | None:
    """Make a contiguous dataset, unfilled; returns where its rows go, or None where there are none."""
    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    how.set_layout(h5py.h5d.CONTIGUOUS)
    how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    how.set_obj_track_times(False)  # same input, same bytes out
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5py.h5t.CSET_UTF8)
    space = h5py.h5s.create_simple(shape)
    try:
        kind = h5py.h5t.py_create(dtype, logical=True)
        dataset = h5py.h5d.create(file.id, name.encode("utf-8"), kind, space, how, links)
    except (ValueError, OSError, RuntimeError) as error:
        raise InputError(f"the column {name!r} cannot be a dataset: {' '.join(str(error).split())}") from None
    if not prod(shape):
        return None
    offset: int = dataset.get_offset()
    return offset


def _write_chunked(
    file: Any, name: str, column: Column, codec: Codec, stored: np.dtype[Any], compression: str, options: WriteOptions
) -> None:
    """Compressed rows: in chunks of about 1 MB, by the library."""
    rows = max(1, min(column.rows, (1 << 20) // max(1, stored.itemsize * prod(column.row_shape))))
    dataset = file.create_dataset(
        name, column.shape, stored, chunks=(rows, *column.row_shape), compression=compression, track_times=False
    )
    step = rows * max(1, (8 << 20) // (rows * max(1, stored.itemsize * prod(column.row_shape))))
    for block in column.blocks(step, reuse=True):
        dataset[block.start : block.start + block.rows] = transcode(block, codec).parts["codes"]
        if options.progress:
            options.progress(block.start + block.rows, column.rows)


def _write_metadata(file: Any, metadata: dict[str, Any]) -> None:
    """Strings and numbers as attributes of their own; what those cannot express together, as JSON."""
    packed = {}
    for key, value in metadata.items():
        # An attribute of up to 64 KB is what every HDF5 version takes.
        text = isinstance(value, str) and len(value) < 10_000 and "\0" not in value
        number = isinstance(value, (bool, int, float)) and (not isinstance(value, int) or -(2**63) <= value < 2**63)
        if (text or number) and key and key not in (PACKED, MAIN_NAME) and "\0" not in key:
            file.attrs[key] = value
        else:
            packed[key] = value
    if packed:
        try:
            words = json.dumps(packed, ensure_ascii=False, default=json_default)
        except (TypeError, ValueError) as error:
            raise InputError(f"the metadata cannot be written: {error}") from None
        if len(words.encode("utf-8")) >= 60_000:
            raise InputError("the metadata is too long for an HDF5 attribute (64 KB)")
        file.attrs[PACKED] = words


def _read_metadata(file: Any, notes: list[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for key in file.attrs:
        try:
            if file.attrs.get_id(key).get_storage_size() > MAX_ATTRIBUTE:
                raise ValueError("too long")
            value = file.attrs[key]
            if isinstance(value, bytes):
                value = value.decode("utf-8")
            if isinstance(value, (np.generic, np.ndarray)):
                value = value.tolist()
            if key == PACKED and isinstance(value, str):
                metadata.update(parse_json(value.encode("utf-8"), field=PACKED))
                continue
            json.dumps(value)
            metadata[key] = value
        except FormatError:
            raise
        except Exception as error:  # an attribute is never worth losing the rows for
            notes.append(f"attribute {key!r} is left out: {' '.join(str(error).split())[:100]}")
    return metadata


FORMAT = Hdf5()
