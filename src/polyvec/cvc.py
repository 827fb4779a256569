"""CVC files with the names of their community: pack, load, filter, edit, check.

>>> import numpy as np
>>> vectors = np.eye(4, dtype=np.float32)
>>> pack_cvc(vectors, "small.cvc", compression="fp16")
>>> load_cvc("small.cvc", rows=slice(1, 3))
array([[0., 1., 0., 0.],
       [0., 0., 1., 0.]], dtype=float32)

``device``, ``framework`` and ``backend`` mean what they mean elsewhere: on the CPU arrays are NumPy's and the
framework is of no account; another device asks the registry of `polyvec.core.devices`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from polyvec import kernels
from polyvec.codecs import Float16
from polyvec.core import devices
from polyvec.core.blocks import Array, Extent
from polyvec.core.errors import Corrupt, FormatError, FormatWarning, InputError
from polyvec.core.files import Source
from polyvec.core.reading import Failure, fill_failures, load_extents
from polyvec.formats.cvc import check_chunk
from polyvec.formats.cvc.encoding import NAMES, compression_of
from polyvec.formats.cvc.header import ColumnSpec, Header, Json, find_layout, read_header
from polyvec.verbs.columns import add_column, delete_column, rename_column, update_column, upgrade
from polyvec.verbs.packing import pack_cvc, pack_cvc_columns, pack_cvc_sections, pack_cvc_sections_columnar

__all__ = [
    "CorruptedChunkError", "MMapCVCLoader", "add_column", "delete_column", "detect_version", "get_available_backends",
    "get_backend_errors", "get_cvc_info", "list_columns", "load_cvc", "load_cvc_chunked", "load_cvc_columns",
    "load_cvc_range", "pack_cvc", "pack_cvc_columns", "pack_cvc_sections", "pack_cvc_sections_columnar",
    "rename_column", "update_column", "upgrade_cvc", "validate_cvc", "validate_cvc_integrity", "validate_cvc_version",
]  # fmt: skip

Path = str | os.PathLike[str]
CPU_BACKENDS = ("auto", "cpp", "native", "python", "numpy")


class CorruptedChunkError(Corrupt):
    """A chunk's bytes do not match its checksum, or cannot be decoded."""


# -- loading


def load_cvc(
    path: Path, device: str = "cpu", framework: str = "torch", backend: str = "auto", on_corruption: str = "raise",
    fill_value: float = 0.0, *, out: Array | None = None, rows: slice | None = None,
    columns: str | Sequence[str] | None = None, corrupted: list[tuple[int, int]] | None = None,
) -> Any:  # fmt: skip
    """Load a file: a ``(rows, dimension)`` float32 array, or of a columnar file a dict of arrays.

    ``out`` is filled and returned; ``rows`` is a slice of step 1, of which only the bytes are read; ``columns`` names
    columns of a columnar file (one name gives one array). Checksums of whole chunks are checked: a bad chunk raises
    `CorruptedChunkError`, or with ``on_corruption`` "skip" or "warn" its rows become ``fill_value``, "warn" says which,
    and both add the ranges to ``corrupted``.
    """
    with _opened(path, device, framework, backend, on_corruption, fill_value, corrupted) as file:
        names = file.names(columns)
        wanted = [file.range(rows)]
        single = isinstance(columns, str) or len(file.header.columns) == 1
        if out is not None and not single:
            raise InputError("out= holds one column; name it with columns=")
        if single:
            return file.load(names[0], wanted, out=out)
        if rows is None and len(names) == len(file.header.columns):
            file.check_whole_chunks()
        return {name: file.load(name, wanted) for name in names}


def load_cvc_chunked(
    path: Path, chunk_indices: Sequence[int] | None = None, device: str = "cpu", framework: str = "torch",
    backend: str = "auto", *, out: Array | None = None, columns: str | Sequence[str] | None = None,
    on_corruption: str = "raise", fill_value: float = 0.0,
) -> Iterator[tuple[int, Any]]:  # fmt: skip
    """Iterate over ``(chunk_index, array)`` of the chunks asked for, or all, in the file's order.

    ``out``, as large as the largest chunk, is filled again for every chunk: then memory is one chunk, and an array is
    valid until the next is asked for. Columnar files give dicts, or arrays where ``columns`` is one name.
    """
    with _opened(path, device, framework, backend, on_corruption, fill_value) as file:
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


def load_cvc_range(
    path: Path, chunk_indices: Sequence[int] | None = None, device: str = "cpu", framework: str = "torch",
    backend: str = "auto", metadata_key: str | None = None, metadata_value: Any = None, section_key: str | None = None,
    section_value: Any = None, *, rows: slice | None = None, out: Array | None = None,
    columns: str | Sequence[str] | None = None, on_corruption: str = "raise", fill_value: float = 0.0,
) -> Any:  # fmt: skip
    """Load some rows as one array: chunks by index, chunks whose metadata has a value, sections that have one, or rows.

    All that match are returned, in the file's order, even several sections in one chunk. `InputError` where none does.
    """
    filters = [chunk_indices is not None, metadata_key is not None, section_key is not None, rows is not None]
    if sum(filters) > 1:
        raise InputError("give one of chunk_indices, metadata_key, section_key and rows")
    with _opened(path, device, framework, backend, on_corruption, fill_value) as file:
        names = file.names(columns)
        if section_key is not None:
            wanted = file.sections(section_key, section_value)
        elif metadata_key is not None:
            wanted = file.metadata(metadata_key, metadata_value)
        elif rows is not None:
            wanted = [file.range(rows)]
        else:
            wanted = [range(chunk.start, chunk.start + chunk.rows) for chunk in file.chunks(chunk_indices)]
        if isinstance(columns, str) or len(file.header.columns) == 1:
            return file.load(names[0], wanted, out=out)
        return {name: file.load(name, wanted) for name in names}


def load_cvc_columns(
    path: Path, columns: Sequence[str] | None = None, device: str = "cpu", framework: str = "torch",
    backend: str = "auto", section_key: str | None = None, section_value: Any = None, *, rows: slice | None = None,
    on_corruption: str = "raise", fill_value: float = 0.0,
) -> dict[str, Any]:  # fmt: skip
    """Load columns of a columnar file, reading only their bytes: a dict of arrays, one-dimensional where the dimension is 1.

    Columns stored with ``none`` come in their own dtype, all others as float32.
    """
    if section_key is not None and rows is not None:
        raise InputError("give either section_key or rows")
    with _opened(path, device, framework, backend, on_corruption, fill_value) as file:
        if not file.header.columnar:
            raise InputError(f"{file.source.label}: the file has one column; use load_cvc")
        names = file.names(columns)
        wanted = [file.range(rows)] if section_key is None else file.sections(section_key, section_value)
        if section_key is None and rows is None and len(names) == len(file.header.columns):
            file.check_whole_chunks()
        return {name: file.load(name, wanted) for name in names}


class _File:
    """An open file, how to load from it, and what to do about bad chunks."""

    def __init__(self, source: Source, device: str, framework: str, backend: str, on_corruption: str, fill_value: float,
                 corrupted: list[tuple[int, int]] | None) -> None:  # fmt: skip
        if on_corruption not in ("raise", "skip", "warn"):
            raise InputError(f"unknown on_corruption {on_corruption!r}; there are raise, skip and warn")
        self.source = source
        self.header: Header = read_header(source)
        for note in self.header.notes:
            warnings.warn(f"{source.label}: {note}", FormatWarning, stacklevel=5)
        self.on_corruption, self.fill_value, self.corrupted = on_corruption, fill_value, corrupted
        self.framework = framework
        self.device = None if device == "cpu" else _device(device, backend, framework)
        if device == "cpu" and backend not in CPU_BACKENDS:
            known = ", ".join(CPU_BACKENDS)
            raise InputError(f"backend {backend!r} does not run on device 'cpu'; there are {known}")
        if backend in ("cpp", "native") and not kernels.NATIVE:
            raise InputError("the native backend is not built; use backend='auto', which runs in NumPy")

    def names(self, columns: str | Sequence[str] | None) -> list[str]:
        """The columns asked for; `InputError` where one is not there."""
        asked = [columns] if isinstance(columns, str) else columns
        names = [spec.name for spec in self.header.columns]
        for name in asked or []:
            if name not in names:
                raise InputError(f"{self.source.label}: no column {name!r}; there are {', '.join(names)}")
        return list(asked) if asked else names

    def range(self, rows: slice | None) -> range:
        """The rows of a slice."""
        start, stop, step = (rows or slice(None)).indices(self.header.rows)
        if step != 1:
            raise InputError(f"rows={rows} has a step; load the rows between and take every {step}th")
        return range(start, max(start, stop))

    def chunks(self, indices: Sequence[int] | None) -> list[Any]:
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
        found = [range(s.start, s.stop) for s in self.header.sections if key in s.metadata and s.metadata[key] == value]
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
        spec = self.header.spec(name)
        extents = [_as_float32(extent) for extent in self.header.extents(name)]
        dtypes = {extent.codec.dtype for extent in extents}
        dtype = dtypes.pop() if len(dtypes) == 1 else _empty_dtype(spec)
        total = sum(len(rows) for rows in wanted)
        if self.device is not None:
            return self._load_on_device(extents, spec, wanted)
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

    def _load_on_device(self, extents: list[Extent], spec: ColumnSpec, wanted: Sequence[range]) -> Any:
        assert self.device is not None
        pieces = []
        for rows in wanted:
            array, failures = self.device.load(self.source, _cut(extents, rows, spec), spec.row_shape, rows=rows,
                                               framework=self.framework, check=True)  # fmt: skip
            self._report(failures, array, rows.start)
            pieces.append(array)
        if len(pieces) == 1:
            return pieces[0]
        library = import_module(self.framework)
        return library.cat(pieces) if self.framework == "torch" else library.concatenate(pieces)

    def _report(self, failures: Sequence[Failure], out: Any, start: int) -> None:
        if not failures:
            return
        if self.on_corruption == "raise":
            raise _corrupted(failures[0].error)
        for first, last in fill_failures(failures, out, start, self.fill_value):
            if self.corrupted is not None:
                self.corrupted.append((first, last))
            if self.on_corruption == "warn":
                warnings.warn(f"{self.source.label}: rows {first} to {last - 1} are damaged and filled with "
                              f"{self.fill_value}", FormatWarning, stacklevel=4)  # fmt: skip

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
def _opened(path: Path, device: str, framework: str, backend: str, on_corruption: str, fill_value: float,
            corrupted: list[tuple[int, int]] | None = None) -> Iterator[_File]:  # fmt: skip
    numpy_only = backend in ("python", "numpy")
    with Source(path) as source, kernels.use_path("numpy") if numpy_only else nullcontext():
        yield _File(source, device, framework, backend, on_corruption, fill_value, corrupted)


def _device(device: str, backend: str, framework: str) -> devices.Backend:
    if framework not in ("torch", "cupy"):
        raise InputError(f"unknown framework {framework!r}; there are torch and cupy")
    import_module("polyvec.gpu")  # registers what it has
    return devices.find(device, backend)


def _corrupted(error: FormatError) -> CorruptedChunkError:
    return CorruptedChunkError(error.message, path=error.path, offset=error.offset, field=error.field,
                               expected=error.expected, found=error.found, remedy=error.remedy)  # fmt: skip


def _as_float32(extent: Extent) -> Extent:
    """Half precision is decoded here even where the file calls the column float16: all compressions give float32."""
    return replace(extent, codec=Float16()) if extent.codec.dtype == np.float16 else extent


def _empty_dtype(spec: ColumnSpec) -> np.dtype[Any]:
    return spec.dtype if spec.compression == "none" else np.dtype(np.float32)


def _cut(extents: Sequence[Extent], rows: range, spec: ColumnSpec) -> list[Extent]:
    """The extents of some rows, cut to them where they can be."""
    found = []
    for extent in extents:
        low, high = max(0, rows.start - extent.start), min(extent.rows, rows.stop - extent.start)
        if low < high:
            whole = extent.codec.row_bytes(spec.row_shape) is None
            found.append(extent if whole else extent.slice(low, high, spec.row_shape))
    return found


# -- looking


def get_cvc_info(path: Path) -> dict[str, Any]:
    """What a file says of itself, without its vectors."""
    with Source(path) as source:
        header = read_header(source)
        return _info(header, source.size)


def _info(header: Header, size: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "format_type": "columnar" if header.columnar else "single", "num_vectors": header.rows,
        "num_chunks": len(header.chunks), "file_size": size, "layout": header.layout,
        "version": f"v{header.version[0]}.{header.version[1]}", "mmap_optimized": header.mapped,
    }  # fmt: skip
    if "sections" in header.json:
        info["sections"] = header.json["sections"]
    if header.columnar:
        info["columns"] = header.json["columns"]
        info["chunks"] = [{"index": c.index, "rows": c.rows, "columns": list(c.pieces)} for c in header.chunks]
    else:
        info["dimension"] = header.columns[0].dimension
        info["compression"] = header.columns[0].compression
        info["chunks"] = [{"index": c.index, "rows": c.rows, "metadata": c.entry.get("metadata")} for c in header.chunks]
    return info


def list_columns(path: Path) -> list[Json]:
    """The columns of a columnar file: name, dimension, dtype, compression."""
    info = get_cvc_info(path)
    if info["format_type"] != "columnar":
        raise InputError(f"{os.fspath(path)}: the file has one column; use get_cvc_info")
    return list(info["columns"])


def detect_version(path: Path) -> tuple[int, int]:
    """The version: (0, 1) for the document layout, else what the file's bytes say."""
    with Source(path) as source:
        try:
            return find_layout(source)[1]
        except FormatError as error:
            raise error.located(source.label) from None


def validate_cvc(path: Path) -> dict[str, Any]:
    """Check a file's structure: ``valid``, ``errors`` and ``warnings``, and what it holds. A missing file raises."""
    with Source(path) as source:
        report: dict[str, Any] = {"valid": False, "version": "unknown", "size_bytes": source.size,
                                  "size_mb": round(source.size / 2**20, 2), "errors": [], "warnings": []}  # fmt: skip
        try:
            header = read_header(source)
        except FormatError as error:
            return report | {"errors": [str(error)]}
        first = header.columns[0]
        report |= {"valid": True, "version": f"v{header.version[0]}.{header.version[1]}", "num_vectors": header.rows,
                   "dimension": first.dimension, "compression": first.compression, "num_chunks": len(header.chunks),
                   "warnings": list(header.notes)}  # fmt: skip
        if header.columnar:
            report["columns"] = header.json["columns"]
        return report


def validate_cvc_integrity(path: Path, verbose: bool = False) -> dict[str, Any]:
    """Check every checksum: ``valid``, ``corrupted_chunks`` and ``corrupted_ranges``; ``verbose`` adds one entry a chunk."""
    empty: dict[str, Any] = {"valid": False, "total_chunks": 0, "corrupted_chunks": [], "corrupted_ranges": []}
    with Source(path) as source:
        try:
            header = read_header(source)
        except FormatError as error:
            return empty | {"error": str(error)}
        if any(chunk.crc is None for chunk in header.chunks):
            return empty | {"error": "the file has no checksums; upgrade_cvc adds them", "total_chunks": len(header.chunks)}
        bad, ranges, details = [], [], []
        for chunk in header.chunks:
            rows = (chunk.start, chunk.start + chunk.rows)
            found = f"{chunk.crc:08x}"
            try:
                check_chunk(source, chunk)
            except Corrupt as error:
                found = str(error.found)[2:]
                bad.append(chunk.index)
                ranges.append(rows)
            details.append({"chunk_index": chunk.index, "valid": chunk.index not in bad, "expected_crc32": f"{chunk.crc:08x}",
                            "actual_crc32": found, "vector_range": rows})  # fmt: skip
        return {"valid": not bad, "total_chunks": len(header.chunks), "corrupted_chunks": bad, "corrupted_ranges": ranges,
                "checksum_details": details if verbose else None}  # fmt: skip


def validate_cvc_version(path: Path) -> dict[str, Any]:
    """The version, and whether `upgrade_cvc` would change it."""
    try:
        version = detect_version(path)
    except FormatError as error:
        return {"valid": False, "error": str(error), "path": os.fspath(path)}
    return {"valid": True, "version": f"v{version[0]}.{version[1]}", "version_tuple": version,
            "needs_upgrade": version[0] == 0, "current_latest": "v2.0", "path": os.fspath(path)}  # fmt: skip


def upgrade_cvc(input_path: Path, output_path: Path, verbose: bool = False) -> dict[str, Any]:
    """Write a file anew in the versioned layout, with checksums; payloads are copied. FileExistsError where it exists."""
    if os.path.exists(output_path):
        raise FileExistsError(f"{os.fspath(output_path)}: the output exists; remove it or choose another name")
    header = upgrade(input_path, output_path)
    after = detect_version(output_path)
    report = {"input_version": f"v{header.version[0]}.{header.version[1]}", "output_version": f"v{after[0]}.{after[1]}",
              "num_chunks": len(header.chunks), "num_vectors": header.rows, "dimension": header.columns[0].dimension,
              "input_size_mb": round(os.path.getsize(input_path) / 2**20, 2),
              "output_size_mb": round(os.path.getsize(output_path) / 2**20, 2)}  # fmt: skip
    return report | ({"columns": [spec.name for spec in header.columns]} if verbose else {})


def get_available_backends() -> dict[str, bool]:
    """Which backends can be used: ``python`` (NumPy), ``cpp`` (native), and those of devices."""
    return {name: error is None for name, error in get_backend_errors().items()}


def get_backend_errors() -> dict[str, str | None]:
    """Why a backend cannot be used; None where it can."""
    import_module("polyvec.gpu")
    missing = None if kernels.NATIVE else "the native module is not built; install polyvec where a C++ compiler is"
    return {"python": None, "cpp": missing} | devices.status()


# -- mapped files


class MMapCVCLoader:
    """A file through a memory map: chunk payloads and raw columns without a copy. A context manager.

    Views stay valid after `close`, for the map lives as long as they do.
    """

    def __init__(self, path: Path, mode: str = "r") -> None:
        if mode != "r":
            raise InputError(f"mode {mode!r}: files are only read")
        self.path = path
        self._file: _File | None = None

    def open(self) -> MMapCVCLoader:
        """Open the file; entering the context does too."""
        self._file = _File(Source(self.path), "cpu", "torch", "auto", "raise", 0.0, None)
        return self

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.source.close()
            self._file = None

    def __enter__(self) -> MMapCVCLoader:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_mmap_optimized(self) -> bool:
        """Whether chunks lie on pages."""
        return self._open.header.mapped

    @property
    def _open(self) -> _File:
        if self._file is None:
            raise InputError("the loader is not open; call open() or use it in a with statement")
        return self._file

    def get_chunk_view(self, chunk_idx: int) -> memoryview:
        """The payload of a chunk, as it lies in the file: no copy."""
        chunk = self._open.chunks([chunk_idx])[0]
        return memoryview(self._open.source.view(chunk.payload, chunk.size))

    def get_column_view(self, chunk_idx: int, column: str | None = None) -> Array:
        """A raw column of a chunk as a read-only array over the file: no copy. `InputError` where it is compressed."""
        chunk = self._open.chunks([chunk_idx])[0]
        name = column or self._open.header.columns[0].name
        self._open.names([name])
        piece = chunk.pieces[name]
        if piece.codec.name not in ("raw", "float16", "bfloat16"):
            raise InputError(f"column {name!r} is stored as {NAMES[compression_of(piece.codec, True) or 'none']}; load_chunk decodes it")
        dtype = piece.codec.parts(())["codes"][0]
        view = self._open.source.view(piece.offset, piece.size).view(dtype)
        return view.reshape(chunk.rows, *self._open.header.spec(name).row_shape)

    def load_chunk(self, chunk_idx: int, device: str = "cpu", framework: str = "torch", *, column: str | None = None) -> Any:
        """A chunk, checked and decoded."""
        chunk = self._open.chunks([chunk_idx])[0]
        return self.load(device, framework, column=column, rows=range(chunk.start, chunk.start + chunk.rows))

    def load(self, device: str = "cpu", framework: str = "torch", *, column: str | None = None, out: Array | None = None,
             rows: range | None = None) -> Any:  # fmt: skip
        """All rows (or some), checked and decoded."""
        file = self._open
        file.framework = framework
        file.device = None if device == "cpu" else _device(device, "auto", framework)
        name = file.names(column)[0]
        return file.load(name, [rows if rows is not None else range(file.header.rows)], out=out)

    def get_info(self) -> dict[str, Any]:
        """What the file says of itself."""
        info = _info(self._open.header, self._open.source.size)
        return {k: v for k, v in info.items() if k != "chunks"}
