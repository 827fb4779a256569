"""Loading CVC files: whole, by chunk, by range, by column, checked, onto the CPU or a device."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from polyvec import kernels
from polyvec.codecs import Float16
from polyvec.core import devices
from polyvec.core.blocks import Array, Extent
from polyvec.core.errors import Corrupt, DeviceError, FormatError, InputError, MissingExtra
from polyvec.core.reading import Failure, fill_failures, load_extents
from polyvec.core.remarks import remark
from polyvec.core.sources import Source, open_source
from polyvec.formats import refuse_foreign
from polyvec.formats.cvc import CvcColumn, check_chunk
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.structure import Chunk, ColumnSpec, Header

Path = str | os.PathLike[str]
CPU_BACKENDS = ("auto", "cpp", "native", "python", "numpy")


class CorruptedChunkError(Corrupt):
    """A chunk's bytes do not match its checksum, or cannot be decoded."""


def load_cvc(
    path: Path,
    device: str = "cpu",
    framework: str = "torch",
    backend: str = "auto",
    on_corruption: str = "raise",
    fill_value: float = 0.0,
    *,
    out: Array | None = None,
    rows: slice | None = None,
    columns: str | Sequence[str] | None = None,
    corrupted: list[tuple[int, int]] | None = None,
    dtype: str | None = None,
) -> Any:
    """Load a file: a ``(rows, dimension)`` float32 array, or of a columnar file a dict of arrays.

    On a device ``dtype`` may also be float16 or bfloat16, and ``out`` is an array there.

    ``out`` is filled and returned; ``rows`` is a slice of step 1, of which only the bytes are read; ``columns`` names
    columns of a columnar file (one name gives one array). Checksums of whole chunks are checked: a bad chunk raises
    `CorruptedChunkError`, or with ``on_corruption`` "skip" or "warn" its rows become ``fill_value``, "warn" says which,
    and both add the ranges to ``corrupted``.
    """
    with opened(path, device, framework, backend, on_corruption, fill_value, corrupted) as file:
        names = file.names(columns)
        wanted = [file.rows_of(rows)]
        single = isinstance(columns, str) or len(file.header.columns) == 1
        if out is not None and not single:
            raise InputError("out= holds one column; name it with columns=")
        if dtype is not None and file.device_name == "cpu":
            raise InputError("dtype= is for devices; on the CPU decoded values are float32")
        file.dtype = dtype
        if single:
            return file.load(names[0], wanted, out=out)
        if rows is None and len(names) == len(file.header.columns):
            file.check_whole_chunks()
        return {name: file.load(name, wanted) for name in names}


def load_cvc_chunked(
    path: Path,
    chunk_indices: Sequence[int] | None = None,
    device: str = "cpu",
    framework: str = "torch",
    backend: str = "auto",
    *,
    out: Array | None = None,
    columns: str | Sequence[str] | None = None,
    on_corruption: str = "raise",
    fill_value: float = 0.0,
) -> Iterator[tuple[int, Any]]:
    """Iterate over ``(chunk_index, array)`` of the chunks asked for, or all, in the file's order.

    ``out``, as large as the largest chunk, is filled again for every chunk: then memory is one chunk, and an array is
    valid until the next is asked for. Columnar files give dicts, or arrays where ``columns`` is one name.
    """
    with opened(path, device, framework, backend, on_corruption, fill_value) as file:
        names = file.names(columns)
        single = isinstance(columns, str) or len(file.header.columns) == 1
        if out is not None and not single:
            raise InputError("out= holds one column; name it with columns=")
        for chunk in file.chunks(chunk_indices):
            wanted = [range(chunk.start, chunk.start + chunk.rows)]
            if single:
                yield chunk.index, file.load(names[0], wanted, out=None if out is None else out[: chunk.rows])
            else:
                yield chunk.index, {name: file.load(name, wanted) for name in names}


def load_cvc_range(  # noqa: PLR0913  # the document's own arguments, and ours
    path: Path,
    chunk_indices: Sequence[int] | None = None,
    device: str = "cpu",
    framework: str = "torch",
    backend: str = "auto",
    metadata_key: str | None = None,
    metadata_value: Any = None,
    section_key: str | None = None,
    section_value: Any = None,
    *,
    rows: slice | None = None,
    out: Array | None = None,
    columns: str | Sequence[str] | None = None,
    on_corruption: str = "raise",
    fill_value: float = 0.0,
) -> Any:
    """Load some rows as one array: chunks by index, chunks whose metadata has a value, sections that have one, or rows.

    All that match are returned, in the file's order, even several sections in one chunk. `InputError` where none does.
    """
    filters = [chunk_indices is not None, metadata_key is not None, section_key is not None, rows is not None]
    if sum(filters) > 1:
        raise InputError("give one of chunk_indices, metadata_key, section_key and rows")
    with opened(path, device, framework, backend, on_corruption, fill_value) as file:
        names = file.names(columns)
        if section_key is not None:
            wanted = file.sections(section_key, section_value)
        elif metadata_key is not None:
            wanted = file.metadata(metadata_key, metadata_value)
        elif rows is not None:
            wanted = [file.rows_of(rows)]
        else:
            wanted = [range(chunk.start, chunk.start + chunk.rows) for chunk in file.chunks(chunk_indices)]
        if isinstance(columns, str) or len(file.header.columns) == 1:
            return file.load(names[0], wanted, out=out)
        return {name: file.load(name, wanted) for name in names}


def load_cvc_columns(
    path: Path,
    columns: Sequence[str] | None = None,
    device: str = "cpu",
    framework: str = "torch",
    backend: str = "auto",
    section_key: str | None = None,
    section_value: Any = None,
    *,
    rows: slice | None = None,
    on_corruption: str = "raise",
    fill_value: float = 0.0,
) -> dict[str, Any]:
    """Load columns of a columnar file, reading only their bytes: a dict of arrays, flat where the dimension is 1.

    Columns stored with ``none`` come in their own dtype, all others as float32.
    """
    if section_key is not None and rows is not None:
        raise InputError("give either section_key or rows")
    with opened(path, device, framework, backend, on_corruption, fill_value) as file:
        if not file.header.columnar:
            raise InputError(f"{file.source.label}: the file has one column; use load_cvc")
        names = file.names(columns)
        wanted = [file.rows_of(rows)] if section_key is None else file.sections(section_key, section_value)
        if section_key is None and rows is None and len(names) == len(file.header.columns):
            file.check_whole_chunks()
        return {name: file.load(name, wanted) for name in names}


class File:
    """An open file, how to load from it, and what to do about bad chunks."""

    def __init__(
        self,
        source: Source,
        device: str,
        framework: str,
        backend: str,
        on_corruption: str,
        fill_value: float,
        corrupted: list[tuple[int, int]] | None,
    ) -> None:
        if on_corruption not in ("raise", "skip", "warn"):
            raise InputError(f"unknown on_corruption {on_corruption!r}; there are raise, skip and warn")
        self.source = source
        self.header: Header = read_header(source)
        for note in self.header.notes:
            remark(f"{source.label}: {note}", stacklevel=5)
        self.dtype: str | None = None  # what a device is to decode to
        self._known: dict[str, tuple[Header, list[Extent], np.dtype[Any]]] = {}
        self.on_corruption, self.fill_value, self.corrupted = on_corruption, fill_value, corrupted
        self.backend = backend
        self.choose_device(device, framework)
        if device == "cpu" and backend not in CPU_BACKENDS:
            known = ", ".join(CPU_BACKENDS)
            raise InputError(f"backend {backend!r} does not run on device 'cpu'; there are {known}")
        if backend in ("cpp", "native") and not kernels.NATIVE:
            raise InputError("the native backend is not built; use backend='auto', which runs in NumPy")

    def choose_device(self, device: str, framework: str) -> None:
        """Where to load to; with ``backend="auto"`` a device that cannot be used is the CPU, with a `DeviceWarning`."""
        self.framework, self.device_name = framework, device
        self.device: devices.Device | None = None
        self._missing: Exception | None = None  # why the CPU stands in for a device
        if device == "cpu":
            return
        try:
            self.device = find_device(device, self.backend, framework)
        except (DeviceError, MissingExtra) as error:
            self._fall_back(error)

    def _fall_back(self, error: DeviceError | MissingExtra) -> None:
        if self.backend != "auto":
            raise error
        devices.warn_of_fallback(error, stacklevel=8)  # whoever called load_cvc
        self.device, self._missing = None, error

    def names(self, columns: str | Sequence[str] | None) -> list[str]:
        """The columns asked for; `InputError` where one is not there."""
        asked = [columns] if isinstance(columns, str) else columns
        names = [spec.name for spec in self.header.columns]
        for name in asked or []:
            if name not in names:
                raise InputError(f"{self.source.label}: no column {name!r}; there are {', '.join(names)}")
        return list(asked) if asked else names

    def rows_of(self, rows: slice | None) -> range:
        """The rows of a slice."""
        start, stop, step = (rows or slice(None)).indices(self.header.rows)
        if step != 1:
            raise InputError(f"rows={rows} has a step; load the rows between and take every {step}th")
        return range(start, max(start, stop))

    def chunks(self, indices: Sequence[int] | None) -> list[Chunk]:
        """Chunks by index, in the file's order."""
        count = len(self.header.chunks)
        for index in indices if indices is not None else ():
            if not 0 <= index < count:
                raise InputError(f"{self.source.label}: no chunk {index}; there are {count}, from 0 on")
        wanted = None if indices is None else set(indices)
        return [chunk for chunk in self.header.chunks if wanted is None or chunk.index in wanted]

    def sections(self, key: str, value: Any) -> list[range]:
        """The rows of all sections whose metadata has a value."""
        if not self.header.sections:
            raise InputError(f"{self.source.label}: the file has no sections; pack_cvc_sections makes them")
        matching = [s for s in self.header.sections if key in s.metadata and s.metadata[key] == value]
        found = [range(s.start, s.stop) for s in matching]
        if not found:
            raise InputError(f"{self.source.label}: no section has {key}={value!r}")
        return found

    def metadata(self, key: str, value: Any) -> list[range]:
        """The rows of all chunks whose metadata has a value."""
        found = []
        for chunk in self.header.chunks:
            stated = chunk.entry.get("metadata")
            if isinstance(stated, dict) and key in stated and stated[key] == value:
                found.append(range(chunk.start, chunk.start + chunk.rows))
        if not found:
            raise InputError(f"{self.source.label}: no chunk has {key}={value!r}")
        return found

    def load(self, name: str, wanted: Sequence[range], *, out: Array | None = None) -> Any:
        """Ranges of rows of a column, one after the other, in one array."""
        with kernels.use_path("numpy") if self.backend in ("python", "numpy") else nullcontext():
            spec = self.header.spec(name)
            extents, dtype = self._pieces(name, spec)
            total = sum(len(rows) for rows in wanted)
            if self.device is not None:
                try:
                    return self._load_on_device(name, wanted, out)
                except DeviceError as error:  # a full or failing device
                    if out is not None:
                        raise
                    self._fall_back(error)
            if self._missing is not None:
                if out is not None:
                    raise self._missing
                rows = self._load_here(spec, extents, dtype, wanted, total, None)
                wish = self.dtype if rows.dtype.kind == "f" else None
                return devices.in_host_memory(rows, framework=self.framework, dtype=wish)
            return self._load_here(spec, extents, dtype, wanted, total, out)

    def _load_here(
        self,
        spec: ColumnSpec,
        extents: list[Extent],
        dtype: np.dtype[Any],
        wanted: Sequence[range],
        total: int,
        out: Array | None,
    ) -> Array:
        """As `load`, in this process's memory."""
        shape = (total, *spec.row_shape)
        if out is None:
            out = np.empty(shape, dtype)
        elif out.shape != shape or out.dtype != dtype or not out.flags.writeable:
            raise InputError(f"out must be a writeable {shape} array of {dtype}, not {out.shape} {out.dtype}")
        at = 0
        for rows in wanted:
            target = out[at : at + len(rows)]
            failures = load_extents(self.source, _cut(extents, rows, spec), spec.row_shape, target, start=rows.start)
            self._report(failures, target, rows.start)
            at += len(rows)
        return out

    def _pieces(self, name: str, spec: ColumnSpec) -> tuple[list[Extent], np.dtype[Any]]:
        """A column's extents and dtype, kept: files of many chunks are loaded chunk by chunk."""
        known = self._known.get(name)
        if known is None or known[0] is not self.header:
            extents = [_as_float32(extent) for extent in self.header.extents(name)]
            dtypes = {extent.codec.dtype for extent in extents}
            known = (self.header, extents, dtypes.pop() if len(dtypes) == 1 else _empty_dtype(spec))
            self._known[name] = known
        return known[1], known[2]

    def _load_on_device(self, name: str, wanted: Sequence[range], out: Any = None) -> Any:
        """As `load`, on the device; where damaged rows are to be filled, this process finds them first."""
        assert self.device is not None
        column = CvcColumn(self.header, name, self.source)
        dtype = self.dtype if column.dtype.kind == "f" else None
        if dtype is None and column.dtype == np.float16:
            dtype = "float32"
        pieces = []
        at = 0
        for rows in wanted:
            failures = [] if self.on_corruption == "raise" else self._damaged(name, rows)
            try:
                array = self.device.load(
                    column,
                    device=self.device_name,
                    framework=self.framework,
                    backend=self.backend,
                    dtype=dtype,
                    start=rows.start,
                    stop=rows.stop,
                    check=self.on_corruption == "raise",
                    out=None if out is None else out[at : at + len(rows)],
                )
            except Corrupt as error:
                raise _corrupted(error) from None
            self._report(failures, array, rows.start)
            pieces.append(array)
            at += len(rows)
        if out is not None:
            return out
        if len(pieces) == 1:
            return pieces[0]
        library = import_module(self.framework)
        return library.cat(pieces) if self.framework == "torch" else library.concatenate(pieces)

    def _damaged(self, name: str, rows: range) -> list[Failure]:
        failures = []
        for chunk in self.header.chunks_of(rows.start, rows.stop):
            try:
                check_chunk(self.source, chunk)
            except Corrupt as error:
                failures.append(Failure(chunk.pieces[name], error))
        return failures

    def _report(self, failures: Sequence[Failure], out: Any, start: int) -> None:
        if not failures:
            return
        if self.on_corruption == "raise":
            raise _corrupted(failures[0].error)
        for first, last in fill_failures(failures, out, start, self.fill_value):
            if self.corrupted is not None:
                self.corrupted.append((first, last))
            if self.on_corruption == "warn":
                damaged = f"rows {first} to {last - 1} are damaged and filled with {self.fill_value}"
                remark(f"{self.source.label}: {damaged}", stacklevel=4)

    def check_whole_chunks(self) -> None:
        """Check chunks whose columns have no checksums of their own; possible only where all of them are read."""
        for chunk in self.header.chunks:
            if self.header.columnar and chunk.crc is not None and any(p.crc is None for p in chunk.pieces.values()):
                try:
                    check_chunk(self.source, chunk)
                except Corrupt as error:
                    if self.on_corruption == "raise":
                        raise _corrupted(error) from None
                    self._damage(chunk.index)

    def _damage(self, index: int) -> None:
        """Give the columns of a damaged chunk checksums that they cannot have, so that loading fills their rows."""
        chunk = self.header.chunks[index]
        pieces = {name: replace(piece, crc=-1) for name, piece in chunk.pieces.items()}
        chunks = [*self.header.chunks]
        chunks[index] = replace(chunk, pieces=pieces)
        self.header = replace(self.header, chunks=tuple(chunks))


@contextmanager
def opened(
    path: Path,
    device: str,
    framework: str,
    backend: str,
    on_corruption: str,
    fill_value: float,
    corrupted: list[tuple[int, int]] | None = None,
) -> Iterator[File]:
    with open_source(path) as source:
        refuse_foreign(source)
        yield File(source, device, framework, backend, on_corruption, fill_value, corrupted)


def find_device(device: str, backend: str, framework: str) -> devices.Device:
    if framework not in ("torch", "cupy"):
        raise InputError(f"unknown framework {framework!r}; there are torch and cupy")
    return devices.find(device, backend)


def _corrupted(error: FormatError) -> CorruptedChunkError:
    return CorruptedChunkError(
        error.message,
        path=error.path,
        offset=error.offset,
        field=error.field,
        expected=error.expected,
        found=error.found,
        remedy=error.remedy,
    )


def _as_float32(extent: Extent) -> Extent:
    """Half precision is decoded here even where the file calls the column float16: all compressions give float32."""
    return replace(extent, codec=Float16()) if extent.codec.dtype == np.float16 else extent


def _empty_dtype(spec: ColumnSpec) -> np.dtype[Any]:
    return spec.dtype if spec.compression == "none" else np.dtype(np.float32)


def _cut(extents: Sequence[Extent], rows: range, spec: ColumnSpec) -> list[Extent]:
    """The extents of some rows, cut to them where they can be."""
    found = []
    first = max(0, bisect_right(extents, rows.start, key=lambda extent: extent.start) - 1)
    for extent in islice(extents, first, None):
        if extent.start >= rows.stop:
            break
        low, high = max(0, rows.start - extent.start), min(extent.rows, rows.stop - extent.start)
        if low < high:
            whole = extent.codec.row_bytes(spec.row_shape) is None
            found.append(extent if whole else extent.slice(low, high, spec.row_shape))
    return found
