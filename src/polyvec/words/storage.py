"""Storage: the rows of words or subwords as a model holds them, dense or as product codes, mapped or in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.product import Product
from polyvec.core.blocks import Block
from polyvec.core.columns import ArrayColumn, Column, FileColumn
from polyvec.core.selection import one_row, row_numbers
from polyvec.kernels import rows as row_kernels
from polyvec.neighbors.held import HeldRows
from polyvec.words.codes import CodeSearch

Floats = NDArray[np.float32]


class Storage:
    """The rows of words or subwords: dense, or product codes. Read-only; what it gives out are copies."""

    def __init__(self, column: Column, *, mmap: bool) -> None:
        self.shape = column.shape
        self.codec = column.codec if isinstance(column.codec, Product) else None
        self.encoding = column.encoding
        self.codes: NDArray[np.uint8] | None = None
        self.norms: Floats | None = None
        self.matrix: NDArray[Any] | None = None
        if self.codec is not None:
            self._load_codes(column, mmap)
        else:
            view = column.view() if mmap and isinstance(column, (FileColumn, ArrayColumn)) else None
            self.matrix = column.to_numpy() if view is None else view
            self.matrix.flags.writeable = False

    def _load_codes(self, column: Column, mmap: bool) -> None:
        extents = list(column.extents())
        if mmap and isinstance(column, FileColumn) and len(extents) == 1:
            source, extent = column.source, extents[0]
            self.codes = source.mapped(extent.offset, extent.size).reshape(extent.rows, -1)
            for part in extent.others:
                self.norms = source.mapped(part.offset, 4 * extent.rows).view("<f4")
            return
        parts = [block.parts for block in column.blocks()]
        assert self.codec is not None
        empty = np.empty((0, self.codec.parts_count), np.uint8)
        self.codes = np.concatenate([part["codes"] for part in parts]) if parts else empty
        if self.codec.norms:
            self.norms = np.concatenate([part["norms"] for part in parts]) if parts else np.empty(0, np.float32)

    @property
    def quantized(self) -> bool:
        """Whether rows are product codes."""
        return self.codec is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows as they are stored."""
        held = self.matrix if self.codes is None else self.codes
        assert held is not None
        return held.nbytes + (0 if self.norms is None else self.norms.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def column(self, name: str) -> Column:
        """The rows as a column, to write them."""
        if self.codec is None or self.codes is None:
            assert self.matrix is not None
            return ArrayColumn(name, self.matrix)
        parts: dict[str, NDArray[Any]] = {"codes": self.codes}
        if self.norms is not None:
            parts["norms"] = self.norms
        return ArrayColumn(name, self.codes, codec=self.codec, parts=parts, shape=self.shape, encoding="pq")

    def take(self, rows: Any) -> NDArray[Any]:
        """Rows by numbers, mask or slice, as a new array; IndexError beyond the rows."""
        index = rows if isinstance(rows, slice) else np.asarray(row_numbers(rows, len(self)))
        if self.matrix is not None:
            if isinstance(index, slice) or self.matrix.dtype != np.float32:
                return np.array(self.matrix[index])
            return row_kernels.take(self.matrix, index)
        assert self.codec is not None and self.codes is not None
        parts: dict[str, NDArray[Any]] = {"codes": np.ascontiguousarray(self.codes[index])}
        if self.norms is not None:
            parts["norms"] = np.ascontiguousarray(self.norms[index])
        return self.codec.decode(Block(-1, parts, self.codec, len(parts["codes"])))

    def __getitem__(self, key: Any) -> NDArray[Any]:
        row = None if isinstance(key, slice) else one_row(key, len(self))
        if row is not None:
            return np.array(self.matrix[row]) if self.matrix is not None else self.take([row])[0]
        return self.take(key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self[:]
        return array if dtype is None else array.astype(dtype)

    def search(self) -> HeldRows | CodeSearch:
        """The nearest rows by cosine: over the codes as they are, else over the rows and an 8-bit shadow of them."""
        if self.codec is not None and self.codes is not None:
            return CodeSearch(self.codec, self.codes, self.norms)
        assert self.matrix is not None
        return HeldRows(self.matrix)

    def floats(self) -> Floats:
        """The dense matrix as float32, mapped where it is so in the file. Not for writing."""
        assert self.matrix is not None
        return np.ascontiguousarray(self.matrix, np.float32)
