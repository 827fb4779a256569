"""FBIN to NPY and HDF5, and back."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np

from polyvec import formats
from polyvec.core.errors import InputError
from polyvec.fbin.arguments import Progress, StrPath, at_least_one
from polyvec.formats.bins import HEADER
from polyvec.verbs.convert import convert


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
    at_least_one(chunk_size=chunk_size)
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
