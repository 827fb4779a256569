"""Readers of FBIN and IBIN files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from polyvec import formats
from polyvec.core.columns import Column
from polyvec.core.errors import FormatError, SizeMismatchWarning
from polyvec.core.remarks import remark, unremarked
from polyvec.core.sources import open_source
from polyvec.fbin.arguments import MB, Array, StrPath, at_least_one, not_negative
from polyvec.formats.bins import read_header, swapped_header
from polyvec.formats.headers import refuse_swapped
from polyvec.verbs.split import choose_rows


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
        with open_source(file_path) as source:
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
            remark(
                f"{file_path}: size mismatch: the header promises {self.vector_count} x {self.dimension} values, "
                f"{self.expected_size_bytes} bytes, and the file has {self.file_size_bytes} bytes",
                SizeMismatchWarning,
                stacklevel=2,
            )
        with unremarked():
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
        not_negative(start=start, count=count)
        return self._rows(min(start, len(self)), min(start + count, len(self)))

    def get_vector(self, index: int) -> Array:
        """One row; IndexError beyond the last."""
        return np.asarray(self._column[index])

    def sample_random(self, count: int = 10, seed: int | None = None) -> tuple[Array, Array]:
        """Up to ``count`` different rows at random: ``(sorted indices, rows)``."""
        not_negative(count=count)
        chosen = choose_rows(len(self), random=min(count, len(self)), seed=seed)  # type: ignore[arg-type]
        indices = np.asarray(chosen, np.int64)
        return indices, self._column.take(indices)

    def sample_strided(self, stride: int = 10, max_count: int | None = None) -> Array:
        """Every ``stride``-th row, ``max_count`` at most."""
        if max_count is not None:
            not_negative(max_count=max_count)
        rows = choose_rows(len(self), stride=stride, limit=max_count)
        return self._column.take(np.asarray(rows, np.int64))

    def read_sequential(self, start: int = 0, count: int | None = None, chunk_size: int = 1000) -> Iterator[Array]:
        """Rows from ``start`` on (``count`` of them), ``chunk_size`` at a time."""
        not_negative(start=start, count=count or 0)
        at_least_one(chunk_size=chunk_size)
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
