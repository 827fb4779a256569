"""Writers of FBIN and IBIN files: an array, or chunks as they come."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Cancelled, InputError
from polyvec.core.format import WriteOptions
from polyvec.core.sidecars import drop_sidecars
from polyvec.core.targets import open_sink
from polyvec.fbin.arguments import Progress, StrPath, at_least_one, not_negative
from polyvec.formats.bins import FORMAT as BINS
from polyvec.formats.bins import HEADER, MAX_U32, WIDE_HEADER
from polyvec.writing.readback import check_shapes


class FBINWriter:
    """Writes an FBIN file, atomically. `cancel` may be called from a progress callback or another thread."""

    _dtype: ClassVar[np.dtype[Any]] = np.dtype("<f4")
    _width: ClassVar[str] = "dimension"

    def __init__(self, path: StrPath, progress_callback: Progress | None = None) -> None:
        self.path = Path(path)
        self._progress = progress_callback
        self._cancelled = False

    def cancel(self) -> None:
        """Stop the write in progress; it raises `Cancelled` and leaves nothing behind."""
        self._cancelled = True

    def write(self, data: Any, chunk_size: int = 10000, compute_checksum: bool = False) -> dict[str, Any]:
        """Write a 2-D array; floats are rounded to float32, integers for IBIN must fit int32."""
        array = np.asarray(data)
        if array.ndim != 2:
            raise InputError(f"expected a 2-D array (rows, {self._width}), found shape {array.shape}")
        at_least_one(chunk_size=chunk_size)
        chunks = (array[at : at + chunk_size] for at in range(0, len(array), chunk_size))
        return self.write_from_chunks(chunks, len(array), array.shape[1], compute_checksum=compute_checksum)

    def write_from_chunks(
        self, chunks: Iterable[Any], num_vectors: int, dimension: int, compute_checksum: bool = False
    ) -> dict[str, Any]:
        """Write arrays as they come; together they must have ``num_vectors`` rows of ``dimension`` values."""
        not_negative(num_vectors=num_vectors, dimension=dimension)
        self._cancelled = False
        done = 0
        with open_sink(self.path, sha256=compute_checksum) as sink:
            drop_sidecars(sink)
            wide = max(num_vectors, dimension) > MAX_U32
            sink.write((WIDE_HEADER if wide else HEADER).pack({"n": num_vectors, "d": dimension}))
            for chunk in chunks:
                rows = np.asarray(chunk)
                if rows.ndim != 2 or rows.shape[1] != dimension:
                    raise InputError(f"expected chunks of shape (rows, {dimension}), found {rows.shape}")
                done += len(rows)
                if done > num_vectors:
                    raise InputError(f"expected {num_vectors} rows in all, the chunks hold more")
                write_rows(sink, ArrayColumn("vectors", rows), Raw(self._dtype), WriteOptions())
                if self._progress:
                    self._progress(done, num_vectors)
                if self._cancelled:
                    raise Cancelled(f"{self.path}: writing was cancelled; nothing was left behind")
            if done != num_vectors:
                raise InputError(f"expected {num_vectors} rows in all, the chunks hold {done}")
            kind = "ibin" if self._dtype.kind == "i" else "fbin"
            name = "ids" if kind == "ibin" else "vectors"
            check_shapes(sink, BINS, {name: (num_vectors, dimension)}, variant=kind)
        result = {
            "output_path": str(self.path),
            "vector_count": num_vectors,
            self._width: dimension,
            "dimension": dimension,
            "file_size_bytes": sink.size,
        }
        if compute_checksum:
            result["checksum"] = sink.hexdigest()
        return result


class IBINWriter(FBINWriter):
    """Writes an IBIN file. Ids beyond int32 are refused, never wrapped."""

    _dtype = np.dtype("<i4")
    _width = "k"


def write_fbin(
    path: StrPath, data: Any, compute_checksum: bool = False, progress_callback: Progress | None = None
) -> dict[str, Any]:
    """Write a 2-D array as FBIN."""
    return FBINWriter(path, progress_callback).write(data, compute_checksum=compute_checksum)


def write_ibin(
    path: StrPath, data: Any, compute_checksum: bool = False, progress_callback: Progress | None = None
) -> dict[str, Any]:
    """Write a 2-D integer array as IBIN."""
    return IBINWriter(path, progress_callback).write(data, compute_checksum=compute_checksum)
