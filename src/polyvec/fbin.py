"""FBIN and IBIN by the names their community uses: readers, writers, shard merging, conversions.

The names, arguments and result keys are those of the format's own document and its reference toolkit; what stands
behind them is polyvec's model. Progress is ``callback(current, total)``; a checksum is the SHA-256 of the whole file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import Cancelled, FormatError, FormatWarning, InputError, SizeMismatchWarning
from polyvec.core.files import Source
from polyvec.core.format import WriteOptions
from polyvec.core.sidecars import drop_sidecars
from polyvec.core.sinks import Sink
from polyvec.formats.bins import FORMAT as BINS
from polyvec.formats.bins import HEADER, MAX_U32, WIDE_HEADER, read_header, swapped_header
from polyvec.formats.headers import refuse_swapped
from polyvec.verbs.convert import convert
from polyvec.verbs.merge import merge
from polyvec.verbs.split import choose_rows
from polyvec.writing.readback import check_shapes

__all__ = [
    "FBINReader",
    "FBINWriter",
    "IBINReader",
    "IBINWriter",
    "MergePreview",
    "ShardInfo",
    "ShardMerger",
    "ShardValidationResult",
    "convert_fbin_to_hdf5",
    "convert_fbin_to_npy",
    "convert_npy_to_fbin",
    "merge_fbin_shards",
    "write_fbin",
    "write_ibin",
]

StrPath = str | os.PathLike[str]
Array = NDArray[Any]
Progress = Callable[[int, int], None]
MB = 1024 * 1024


class FBINReader:
    """Reads an FBIN file. A size that does not fit the header is a `SizeMismatchWarning`, with ``strict`` an error.

    Rows that the file does not hold are never read: of a cut file the whole rows that exist are there.
    With ``mmap_mode`` rows are copied out of a mapping, otherwise they are read.
    """

    _format: ClassVar[str] = "fbin"
    _dtype: ClassVar[np.dtype[Any]] = np.dtype("<f4")

    def __init__(self, file_path: StrPath, mmap_mode: bool = True, *, strict: bool = False) -> None:
        self.file_path = Path(file_path)
        self.mmap_mode = mmap_mode
        with Source(file_path) as source:
            try:
                formats.refuse_foreign(source)
                header, self.vector_count, self.dimension = read_header(source, self._dtype)
                swapped = swapped_header(source, self._dtype)
                if swapped is not None:  # the document's files are little-endian: pv.open reads others when told to
                    raise refuse_swapped(f"{swapped[1]} rows of {swapped[2]} values", field="n, d")
            except FormatError as error:
                raise error.located(source.label) from None
            self.file_size_bytes = source.size
        self.expected_size_bytes = header.size + self.vector_count * self.dimension * self._dtype.itemsize
        if self.file_size_bytes != self.expected_size_bytes and not strict:
            warnings.warn(
                f"{file_path}: size mismatch: the header promises {self.vector_count} x {self.dimension} values, "
                f"{self.expected_size_bytes} bytes, and the file has {self.file_size_bytes} bytes",
                SizeMismatchWarning,
                stacklevel=2,
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            self._collection = formats.open(file_path, format=self._format, lenient=not strict, sidecars=False)
        self._column: Column = self._collection.vectors

    def get_metadata(self) -> dict[str, Any]:
        """What the header and the file system say."""
        return {
            "file_path": str(self.file_path),
            "format": self._format.upper(),
            "vector_count": self.vector_count,
            "dimension": self.dimension,
            "dtype": self._dtype.name,
            "shape": (self.vector_count, self.dimension),
            "file_size_bytes": self.file_size_bytes,
            "file_size_mb": self.file_size_bytes / MB,
            "expected_size_bytes": self.expected_size_bytes,
            "size_match": self.file_size_bytes == self.expected_size_bytes,
        }

    def _rows(self, start: int, stop: int) -> Array:
        view = self._column.view() if self.mmap_mode else None  # type: ignore[attr-defined]
        rows = np.array(view[start:stop]) if view is not None else self._column[start:stop]
        return np.asarray(rows)

    def load(self) -> Array:
        """All rows, in an array of your own."""
        return self._column.to_numpy()

    def sample(self, start: int = 0, count: int = 10) -> Array:
        """Up to ``count`` rows from ``start`` on."""
        _not_negative(start=start, count=count)
        return self._rows(min(start, len(self)), min(start + count, len(self)))

    def get_vector(self, index: int) -> Array:
        """One row; IndexError beyond the last."""
        return np.asarray(self._column[index])

    def sample_random(self, count: int = 10, seed: int | None = None) -> tuple[Array, Array]:
        """Up to ``count`` different rows at random: ``(sorted indices, rows)``."""
        _not_negative(count=count)
        chosen = choose_rows(len(self), random=min(count, len(self)), seed=seed)  # type: ignore[arg-type]
        indices = np.asarray(chosen, np.int64)
        return indices, self._column.take(indices)

    def sample_strided(self, stride: int = 10, max_count: int | None = None) -> Array:
        """Every ``stride``-th row, ``max_count`` at most."""
        if max_count is not None:
            _not_negative(max_count=max_count)
        rows = choose_rows(len(self), stride=stride, limit=max_count)
        return self._column.take(np.asarray(rows, np.int64))

    def read_sequential(self, start: int = 0, count: int | None = None, chunk_size: int = 1000) -> Iterator[Array]:
        """Rows from ``start`` on (``count`` of them), ``chunk_size`` at a time."""
        _not_negative(start=start, count=count or 0)
        _at_least_one(chunk_size=chunk_size)
        stop = len(self) if count is None else min(len(self), start + count)
        return (self._rows(at, min(at + chunk_size, stop)) for at in range(start, stop, chunk_size))

    def __len__(self) -> int:
        return self._column.rows

    def close(self) -> None:
        """Release the file."""
        self._collection.close()

    def __enter__(self) -> FBINReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class IBINReader(FBINReader):
    """Reads an IBIN file: rows of neighbour ids."""

    _format = "ibin"
    _dtype = np.dtype("<i4")

    def get_metadata(self) -> dict[str, Any]:
        """As for FBIN, with ``k``, the neighbours of a query."""
        return {**super().get_metadata(), "k": self.dimension}

    def get_neighbors(self, query_index: int) -> Array:
        """The ids of one query's neighbours."""
        return self.get_vector(query_index)


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
        _at_least_one(chunk_size=chunk_size)
        chunks = (array[at : at + chunk_size] for at in range(0, len(array), chunk_size))
        return self.write_from_chunks(chunks, len(array), array.shape[1], compute_checksum=compute_checksum)

    def write_from_chunks(
        self, chunks: Iterable[Any], num_vectors: int, dimension: int, compute_checksum: bool = False
    ) -> dict[str, Any]:
        """Write arrays as they come; together they must have ``num_vectors`` rows of ``dimension`` values."""
        _not_negative(num_vectors=num_vectors, dimension=dimension)
        self._cancelled = False
        done = 0
        with Sink(self.path, sha256=compute_checksum) as sink:
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


class ShardValidationResult(Enum):
    """How a shard stands to the others."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE_DIMENSION = "incompatible_dimension"
    INCOMPATIBLE_DTYPE = "incompatible_dtype"
    FILE_CORRUPTED = "file_corrupted"
    FILE_NOT_FOUND = "file_not_found"
    FILE_SIZE_MISMATCH = "file_size_mismatch"


@dataclass(slots=True)
class ShardInfo:
    """One shard, looked at."""

    path: str
    vector_count: int = 0
    dimension: int = 0
    file_size_bytes: int = 0
    file_size_mb: float = 0.0
    size_match: bool = False
    validation_result: ShardValidationResult = ShardValidationResult.COMPATIBLE
    error_message: str | None = None


@dataclass(slots=True)
class MergePreview:
    """What a merge would do."""

    shards: list[ShardInfo]
    total_vectors: int
    total_file_size_bytes: int
    dimension: int
    output_format: str
    expected_output_size_bytes: int
    all_compatible: bool
    incompatible_shards: list[ShardInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class ShardMerger:
    """Validates, previews and merges FBIN shards. Sources stay untouched, the output appears whole or not at all."""

    def __init__(
        self,
        chunk_size: int = 10000,
        progress_callback: Progress | None = None,
        log_callback: Callable[[str], None] | None = None,
    ) -> None:
        _at_least_one(chunk_size=chunk_size)
        self.chunk_size = chunk_size
        self._progress = progress_callback
        self._log = log_callback or (lambda message: None)
        self._cancelled = False

    def cancel(self) -> None:
        """Stop the merge in progress; it raises `Cancelled` and leaves nothing behind."""
        self._cancelled = True

    def validate_shard(self, path: StrPath, expected_dimension: int | None = None) -> ShardInfo:
        """Look at one shard; never raises for what is wrong with it."""
        info = ShardInfo(os.fspath(path))
        try:
            with Source(path) as source:
                info.file_size_bytes, info.file_size_mb = source.size, source.size / MB
                if source.suffix in formats.find_format("bins")[0].suffixes and source.suffix != ".fbin":
                    info.validation_result = ShardValidationResult.INCOMPATIBLE_DTYPE
                    info.error_message = f"expected float32 (.fbin), found {source.suffix}"
                header, info.vector_count, info.dimension = read_header(source, np.dtype("<f4"))
        except FileNotFoundError:
            info.validation_result, info.error_message = ShardValidationResult.FILE_NOT_FOUND, "the file does not exist"
            return info
        except (FormatError, OSError) as error:
            info.validation_result, info.error_message = ShardValidationResult.FILE_CORRUPTED, str(error)
            return info
        expected = header.size + prod((info.vector_count, info.dimension, 4))
        info.size_match = expected == info.file_size_bytes
        if info.validation_result is not ShardValidationResult.COMPATIBLE:
            return info
        if not info.size_match:
            info.validation_result = ShardValidationResult.FILE_SIZE_MISMATCH
            info.error_message = f"the header promises {expected} bytes, the file has {info.file_size_bytes}"
        elif expected_dimension is not None and info.dimension != expected_dimension:
            info.validation_result = ShardValidationResult.INCOMPATIBLE_DIMENSION
            info.error_message = f"expected dimension {expected_dimension}, found {info.dimension}"
        return info

    def validate_shards(self, paths: Sequence[StrPath]) -> list[ShardInfo]:
        """Look at all shards; dimensions are compared with the first readable one's."""
        infos: list[ShardInfo] = []
        dimension: int | None = None
        for path in paths:
            info = self.validate_shard(path, dimension)
            if dimension is None and info.validation_result is ShardValidationResult.COMPATIBLE:
                dimension = info.dimension
            infos.append(info)
        return infos

    def preview_merge(self, paths: Sequence[StrPath], output_format: str = "fbin") -> MergePreview:
        """What `merge` would do, from the headers alone."""
        _known_format(output_format)
        infos = self.validate_shards(paths)
        bad = [info for info in infos if info.validation_result is not ShardValidationResult.COMPATIBLE]
        good = [info for info in infos if info.validation_result is ShardValidationResult.COMPATIBLE]
        total, dimension = sum(i.vector_count for i in good), good[0].dimension if good else 0
        header = HEADER.size if output_format == "fbin" else 128
        notes = [f"{info.path}: {info.error_message}" for info in bad]
        if len(infos) == 1:
            notes.append("one shard alone: the merge is a copy")
        return MergePreview(
            infos,
            total,
            sum(i.file_size_bytes for i in good),
            dimension,
            output_format,
            header + total * dimension * 4,
            bool(infos) and not bad,
            bad,
            notes,
        )

    def merge(
        self,
        paths: Sequence[StrPath],
        output_path: StrPath,
        output_format: str = "fbin",
        compute_checksum: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Merge shards, in the order given, into an FBIN or NPY file."""
        preview = self.preview_merge(paths, output_format)
        if not preview.shards:
            raise InputError("nothing to merge; name at least one shard")
        if not preview.all_compatible:
            raise InputError("the shards cannot be merged: " + "; ".join(preview.warnings))
        result: dict[str, Any] = {
            "output_path": os.fspath(output_path),
            "total_vectors": preview.total_vectors,
            "dimension": preview.dimension,
            "shards_merged": len(preview.shards),
            "output_format": output_format,
            "dry_run": dry_run,
        }
        if dry_run:
            return {**result, "expected_size_bytes": preview.expected_output_size_bytes}
        self._cancelled = False
        self._log(f"merging {len(preview.shards)} shards, {preview.total_vectors} vectors")
        receipt = merge(
            [os.fspath(p) for p in paths],
            output_path,
            source_format="fbin",
            format=output_format,
            sidecar=False,
            measure=False,
            sha256=compute_checksum,
            chunk_rows=self.chunk_size,
            progress=self._step,
        )
        self._log(f"wrote {output_path}, {receipt.bytes} bytes")
        result["file_size_bytes"] = receipt.bytes
        if compute_checksum:
            result["checksum"] = receipt.sha256
        return result

    def _step(self, current: int, total: int) -> None:
        if self._progress:
            self._progress(current, total)
        if self._cancelled:
            raise Cancelled("the merge was cancelled; nothing was left behind")


def merge_fbin_shards(
    shard_paths: Sequence[StrPath],
    output_path: StrPath,
    output_format: str = "fbin",
    compute_checksum: bool = False,
    dry_run: bool = False,
    chunk_size: int = 10000,
    progress_callback: Progress | None = None,
    log_callback: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Merge FBIN shards; see `ShardMerger.merge`."""
    merger = ShardMerger(chunk_size, progress_callback, log_callback)
    return merger.merge(shard_paths, output_path, output_format, compute_checksum, dry_run)


def convert_fbin_to_npy(
    input_path: StrPath,
    output_path: StrPath,
    chunk_size: int = 10000,
    use_mmap: bool = True,
    dry_run: bool = False,
    progress_callback: Progress | None = None,
) -> dict[str, Any]:
    """Convert FBIN to NPY. ``use_mmap`` is accepted for compatibility: the bytes are copied inside the kernel."""
    return _convert(input_path, output_path, "fbin", "npy", chunk_size, dry_run, progress_callback, False)


def convert_npy_to_fbin(
    input_path: StrPath,
    output_path: StrPath,
    chunk_size: int = 10000,
    use_mmap: bool = True,
    dry_run: bool = False,
    progress_callback: Progress | None = None,
    compute_checksum: bool = False,
) -> dict[str, Any]:
    """Convert a 2-D NPY array to FBIN; other floats are rounded to float32."""
    return _convert(input_path, output_path, "npy", "fbin", chunk_size, dry_run, progress_callback, compute_checksum)


def _convert(
    source: StrPath,
    target: StrPath,
    kind: str,
    to: str,
    chunk_size: int,
    dry_run: bool,
    progress: Progress | None,
    checksum: bool,
    own: dict[str, Any] | None = None,
) -> dict[str, Any]:
    _at_least_one(chunk_size=chunk_size)
    with formats.open(source, format=kind, sidecars=False) as collection:
        column = collection.vectors
        if len(column.shape) != 2:
            raise InputError(f"{os.fspath(source)}: expected a 2-D array, found shape {column.shape}")
        shape, dtype = column.shape, column.dtype.name if to == "npy" else "float32"
    receipt = convert(
        source,
        target,
        source_format=kind,
        format=to,
        sidecar=False,
        measure=False,
        dry_run=dry_run,
        sha256=checksum,
        chunk_rows=chunk_size,
        progress=progress,
        **(own or {}),
    )
    result: dict[str, Any] = {
        "input_path": os.fspath(source),
        "output_path": os.fspath(target),
        "vector_count": shape[0],
        "dimension": shape[1],
        "shape": shape,
        "dtype": dtype,
        "dry_run": dry_run,
    }
    if dry_run:
        size = prod(shape) * np.dtype(dtype).itemsize
        return {**result, "expected_size_bytes": size + (128 if to == "npy" else HEADER.size)}
    result["file_size_bytes"] = receipt.bytes
    if checksum:
        result["checksum"] = receipt.sha256
    return result


def convert_fbin_to_hdf5(
    input_path: StrPath,
    output_path: StrPath,
    dataset_name: str = "vectors",
    chunk_size: int = 10000,
    compression: str | None = None,
    progress_callback: Progress | None = None,
) -> dict[str, Any]:
    """Convert FBIN to a dataset of an HDF5 file, atomically. Compression is off unless asked for."""
    own = {"dataset": dataset_name} | ({"compression": compression} if compression else {})
    result = _convert(input_path, output_path, "fbin", "hdf5", chunk_size, False, progress_callback, False, own)
    return {**result, "dataset_name": dataset_name, "compression": compression}


def _known_format(name: str) -> None:
    if name not in ("fbin", "npy"):
        raise InputError(f"unknown output format {name!r}; shards merge into 'fbin' or 'npy'")


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")


def _not_negative(**values: int) -> None:
    for name, value in values.items():
        if value < 0:
            raise InputError(f"{name} must not be negative, not {value}")
