"""Shards of one collection: looked at, previewed, merged."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from polyvec import formats
from polyvec.core.errors import Cancelled, FormatError, InputError
from polyvec.core.sources import open_source
from polyvec.fbin.arguments import MB, Progress, StrPath, at_least_one
from polyvec.formats.bins import HEADER, read_header
from polyvec.verbs.merge import merge


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
        at_least_one(chunk_size=chunk_size)
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
            with open_source(path) as source:
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


def _known_format(name: str) -> None:
    if name not in ("fbin", "npy"):
        raise InputError(f"unknown output format {name!r}; shards merge into 'fbin' or 'npy'")
