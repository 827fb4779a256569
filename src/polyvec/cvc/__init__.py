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
import pathlib
from typing import Any

from polyvec import kernels
from polyvec.core import devices
from polyvec.core.blocks import Array
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.sources import open_source
from polyvec.cvc.edits import add_column, delete_column, rename_column, update_column, upgrade
from polyvec.cvc.loading import (
    CorruptedChunkError,
    File,
    load_cvc,
    load_cvc_chunked,
    load_cvc_columns,
    load_cvc_range,
)
from polyvec.cvc.packing import pack_cvc, pack_cvc_columns, pack_cvc_sections, pack_cvc_sections_columnar
from polyvec.formats.cvc import check_chunk
from polyvec.formats.cvc.encoding import compression_of
from polyvec.formats.cvc.header import find_layout, read_header
from polyvec.formats.cvc.structure import Header, Json

__all__ = [
    "CorruptedChunkError",
    "MMapCVCLoader",
    "add_column",
    "delete_column",
    "detect_version",
    "get_available_backends",
    "get_backend_errors",
    "get_cvc_info",
    "list_columns",
    "load_cvc",
    "load_cvc_chunked",
    "load_cvc_columns",
    "load_cvc_range",
    "pack_cvc",
    "pack_cvc_columns",
    "pack_cvc_sections",
    "pack_cvc_sections_columnar",
    "rename_column",
    "update_column",
    "upgrade_cvc",
    "validate_cvc",
    "validate_cvc_integrity",
    "validate_cvc_version",
]

Path = str | os.PathLike[str]


def get_cvc_info(path: Path) -> dict[str, Any]:
    """What a file says of itself, without its vectors."""
    with open_source(path) as source:
        header = read_header(source)
        return _info(header, source.size)


def _info(header: Header, size: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "format_type": "columnar" if header.columnar else "single",
        "num_vectors": header.rows,
        "num_chunks": len(header.chunks),
        "file_size": size,
        "layout": header.layout,
        "version": f"v{header.version[0]}.{header.version[1]}",
        "mmap_optimized": header.mapped,
    }
    if "sections" in header.json:
        info["sections"] = header.json["sections"]
    if header.columnar:
        info["columns"] = header.json["columns"]
        info["chunks"] = [{"index": c.index, "rows": c.rows, "columns": list(c.pieces)} for c in header.chunks]
    else:
        info["dimension"] = header.columns[0].dimension
        info["compression"] = header.columns[0].compression
        info["chunks"] = [
            {"index": c.index, "rows": c.rows, "metadata": c.entry.get("metadata")} for c in header.chunks
        ]
    return info


def list_columns(path: Path) -> list[Json]:
    """The columns of a columnar file: name, dimension, dtype, compression."""
    info = get_cvc_info(path)
    if info["format_type"] != "columnar":
        raise InputError(f"{os.fspath(path)}: the file has one column; use get_cvc_info")
    return list(info["columns"])


def detect_version(path: Path) -> tuple[int, int]:
    """The version: (0, 1) for the document layout, else what the file's bytes say."""
    with open_source(path) as source:
        try:
            return find_layout(source)[1]
        except FormatError as error:
            raise error.located(source.label) from None


def validate_cvc(path: Path) -> dict[str, Any]:
    """Check a file's structure: ``valid``, ``errors``, ``warnings``, and what it holds. A missing file raises."""
    with open_source(path) as source:
        report: dict[str, Any] = {
            "valid": False,
            "version": "unknown",
            "size_bytes": source.size,
            "size_mb": round(source.size / 2**20, 2),
            "errors": [],
            "warnings": [],
        }
        try:
            header = read_header(source)
        except FormatError as error:
            return report | {"errors": [str(error)]}
        first = header.columns[0]
        report |= {
            "valid": True,
            "version": f"v{header.version[0]}.{header.version[1]}",
            "num_vectors": header.rows,
            "dimension": first.dimension,
            "compression": first.compression,
            "num_chunks": len(header.chunks),
            "warnings": list(header.notes),
        }
        if header.columnar:
            report["columns"] = header.json["columns"]
        return report


def validate_cvc_integrity(path: Path, verbose: bool = False) -> dict[str, Any]:
    """Check every checksum: ``valid``, ``corrupted_chunks``, ``corrupted_ranges``; ``verbose`` adds each chunk's."""
    empty: dict[str, Any] = {"valid": False, "total_chunks": 0, "corrupted_chunks": [], "corrupted_ranges": []}
    with open_source(path) as source:
        try:
            header = read_header(source)
        except FormatError as error:
            return empty | {"error": str(error)}
        if any(chunk.crc is None for chunk in header.chunks):
            return empty | {
                "error": "the file has no checksums; upgrade_cvc adds them",
                "total_chunks": len(header.chunks),
            }
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
            details.append(
                {
                    "chunk_index": chunk.index,
                    "valid": chunk.index not in bad,
                    "expected_crc32": f"{chunk.crc:08x}",
                    "actual_crc32": found,
                    "vector_range": rows,
                }
            )
        return {
            "valid": not bad,
            "total_chunks": len(header.chunks),
            "corrupted_chunks": bad,
            "corrupted_ranges": ranges,
            "checksum_details": details if verbose else None,
        }


def validate_cvc_version(path: Path) -> dict[str, Any]:
    """The version, and whether `upgrade_cvc` would change it."""
    try:
        version = detect_version(path)
    except FormatError as error:
        return {"valid": False, "error": str(error), "path": os.fspath(path)}
    return {
        "valid": True,
        "version": f"v{version[0]}.{version[1]}",
        "version_tuple": version,
        "needs_upgrade": version[0] == 0,
        "current_latest": "v2.0",
        "path": os.fspath(path),
    }


def upgrade_cvc(input_path: Path, output_path: Path, verbose: bool = False) -> dict[str, Any]:
    """Write a file anew in the versioned layout, with checksums; payloads are copied. An output that exists raises."""
    if pathlib.Path(output_path).exists():
        raise FileExistsError(f"{os.fspath(output_path)}: the output exists; remove it or choose another name")
    header = upgrade(input_path, output_path)
    after = detect_version(output_path)
    report = {
        "input_version": f"v{header.version[0]}.{header.version[1]}",
        "output_version": f"v{after[0]}.{after[1]}",
        "num_chunks": len(header.chunks),
        "num_vectors": header.rows,
        "dimension": header.columns[0].dimension,
        "input_size_mb": round(_size(input_path) / 2**20, 2),
        "output_size_mb": round(_size(output_path) / 2**20, 2),
    }
    return report | ({"columns": [spec.name for spec in header.columns]} if verbose else {})


def _size(path: Path) -> int:
    with open_source(path) as source:
        return source.size


def get_available_backends() -> dict[str, bool]:
    """Which backends can be used: ``python`` (NumPy), ``cpp`` (native), and those of devices."""
    return {name: error is None for name, error in get_backend_errors().items()}


def get_backend_errors() -> dict[str, str | None]:
    """Why a backend cannot be used; None where it can."""
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
        self._file: File | None = None

    def open(self) -> MMapCVCLoader:
        """Open the file, if it is not open yet; entering the context does too."""
        if self._file is not None:
            return self
        source = open_source(self.path)
        try:
            self._file = File(source, "cpu", "torch", "auto", "raise", 0.0, None)
        except BaseException:
            source.close()
            raise
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
    def _open(self) -> File:
        if self._file is None:
            raise InputError("the loader is not open; call open() or use it in a with statement")
        return self._file

    def get_chunk_view(self, chunk_idx: int) -> memoryview:
        """The payload of a chunk, as it lies in the file: no copy."""
        chunk = self._open.chunks([chunk_idx])[0]
        return self._open.source.mapped(chunk.payload, chunk.size).data

    def get_column_view(self, chunk_idx: int, column: str | None = None) -> Array:
        """A raw column of a chunk as a read-only array over the file: no copy. `InputError` where it is compressed."""
        chunk = self._open.chunks([chunk_idx])[0]
        name = column or self._open.header.columns[0].name
        self._open.names([name])
        piece = chunk.pieces[name]
        if piece.codec.name not in ("raw", "float16", "bfloat16"):
            stored = compression_of(piece.codec, True)
            raise InputError(f"column {name!r} is stored as {stored}; load_chunk decodes it")
        dtype = piece.codec.parts(())["codes"][0]
        view = self._open.source.mapped(piece.offset, piece.size).view(dtype)
        return view.reshape(chunk.rows, *self._open.header.spec(name).row_shape)

    def load_chunk(
        self, chunk_idx: int, device: str = "cpu", framework: str = "torch", *, column: str | None = None
    ) -> Any:
        """A chunk, checked and decoded."""
        chunk = self._open.chunks([chunk_idx])[0]
        return self.load(device, framework, column=column, rows=range(chunk.start, chunk.start + chunk.rows))

    def load(
        self,
        device: str = "cpu",
        framework: str = "torch",
        *,
        column: str | None = None,
        out: Array | None = None,
        rows: range | None = None,
    ) -> Any:
        """All rows (or some), checked and decoded."""
        file = self._open
        file.choose_device(device, framework)
        name = file.names(column)[0]
        return file.load(name, [rows if rows is not None else range(file.header.rows)], out=out)

    def get_info(self) -> dict[str, Any]:
        """What the file says of itself."""
        info = _info(self._open.header, self._open.source.size)
        return {k: v for k, v in info.items() if k != "chunks"}
