"""Codec, Extent and Block: rows as a file keeps them, unread or in memory, still encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polyvec import kernels
from polyvec.core.errors import InputError, LossyConversion
from polyvec.kernels.filecasts import Cast

Array = NDArray[Any]
PartTypes = Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]

MAX_BLOCK_BYTES = 64 << 20  # decoded; the bound on what any step of polyvec holds of a column
BLOCK_BYTES = 8 << 20  # decoded; the usual block: large enough for full speed, small enough for the cache


class Codec(ABC):
    """How rows become stored values: a frozen dataclass of what all rows it encodes share.

    ``fit_scope`` says over what its parameters are fitted: ``"none"`` (there are none), ``"chunk"`` or ``"column"``.
    """

    name: ClassVar[str]
    fit_scope: ClassVar[str] = "none"
    exact: ClassVar[bool] = False  # decode(encode(x)) == x, bit for bit

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of decoded rows."""
        return np.dtype(np.float32)

    @abstractmethod
    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        """Dtype and per-row shape of each stored array; ``codes`` comes first."""

    def row_bytes(self, row_shape: tuple[int, ...]) -> int | None:
        """Stored bytes of one row of ``codes``; None where rows cannot be sliced."""
        dtype, shape = self.parts(row_shape)["codes"]
        return dtype.itemsize * prod(shape)

    @classmethod
    def fit(cls, rows: Iterable[Array]) -> Self:
        """The codec for these rows (arrays in sequence)."""
        return cls()

    @abstractmethod
    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        """Stored arrays, one entry a row, of decoded rows; ``start`` is the number of the first, for messages."""

    @abstractmethod
    def decode(self, block: Block, out: Array | None = None) -> Array:
        """The rows of a block, into ``out`` where it is given."""

    @property
    def cast(self) -> Cast | None:
        """The one cast that turns contiguous codes into float32 rows and back, where that is all this codec does."""
        return None

    def decoded_shape(self, block: Block) -> tuple[int, ...]:
        """The shape `decode` gives for a block; codecs whose codes are not shaped like rows override it."""
        return block.parts["codes"].shape


@dataclass(frozen=True, slots=True)
class Part:
    """Where a stored array of an extent lies when it is apart from the codes."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Extent:
    """An unread piece of a column. Picklable; every reader (CPU, GPU, remote, cluster) reads through it.

    ``start, rows`` count in the column, ``offset, size`` are the bytes of its codes in the file, ``crc`` their
    CRC-32. ``stride`` is the distance from row to row where rows are not packed; ``others`` places further parts.
    """

    start: int
    rows: int
    offset: int
    size: int
    codec: Codec
    crc: int | None = None
    stride: int | None = None
    others: tuple[Part, ...] = ()

    def slice(self, start: int, stop: int, row_shape: tuple[int, ...]) -> Extent:
        """The extent of rows ``start`` to ``stop``, counted in this extent. Its CRC no longer applies."""
        if start == 0 and stop == self.rows:
            return self
        width = self.codec.row_bytes(row_shape)
        if width is None:
            raise ValueError(f"rows of {self.codec.name} cannot be sliced")
        step = self.stride or width
        types = self.codec.parts(row_shape)
        others = tuple(
            Part(p.name, p.offset + start * types[p.name][0].itemsize * prod(types[p.name][1])) for p in self.others
        )
        return replace(
            self,
            start=self.start + start,
            rows=stop - start,
            offset=self.offset + start * step,
            size=(stop - start) * step,
            crc=None,
            others=others,
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a column in memory, still encoded: ``parts`` are arrays with one entry a row."""

    start: int
    parts: dict[str, Array]
    codec: Codec
    rows: int

    def decode(self, out: Array | None = None) -> Array:
        """The rows, decoded."""
        return self.codec.decode(self, out)

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop`` of this block, as views."""
        parts = {name: part[start:stop] for name, part in self.parts.items()}
        return Block(self.start + start, parts, self.codec, stop - start)

    def whole(self, row_shape: tuple[int, ...]) -> bool:
        """Whether every part has an entry for each row, as far as the codec has one a row."""
        if self.rows < 0 or self.codec.row_bytes(row_shape) is None:
            return self.rows >= 0
        return all(len(part) == self.rows for part in self.parts.values())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(part.nbytes for part in self.parts.values())


@dataclass(frozen=True, slots=True)
class Raw(Codec):
    """Rows stored as they are, in a dtype of their own; what every other codec decodes to."""

    name: ClassVar[str] = "raw"
    exact: ClassVar[bool] = True
    stored: np.dtype[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", np.dtype(self.stored))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stored

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (self.stored, row_shape)}

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        return {"codes": cast(rows, self.stored)}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        codes = block.parts["codes"]
        if out is None:
            return codes
        np.copyto(out, codes, casting="same_kind")
        return out


def cast(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Rows in another dtype. Floats may round; integers must stay what they are; nothing may overflow."""
    if rows.dtype == dtype:
        return rows
    whole, floats = "iub", "fV"  # bfloat16 is of kind V
    if rows.dtype.kind in floats and dtype.kind in whole:
        raise LossyConversion(f"{rows.dtype} values would be cut to {dtype}; choose a target that holds floats")
    if rows.dtype == np.float32 and dtype == np.dtype("<f2"):
        result = kernels.f32_to_f16(np.ascontiguousarray(rows)).view(dtype).reshape(rows.shape)
    elif rows.dtype == np.dtype("<f2") and dtype == np.dtype("<f4"):
        return kernels.f16_to_f32(np.ascontiguousarray(rows)).reshape(rows.shape)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            result = rows.astype(dtype)
    if rows.dtype.kind in whole and dtype.kind in whole:
        info = np.iinfo(dtype)
        bad = (rows < info.min) | (rows > info.max) if rows.size else np.zeros(0, bool)
    elif rows.dtype.kind in whole:
        bad = _changed(rows, result.astype(np.float64))
    elif dtype.itemsize < rows.dtype.itemsize:
        bad = np.isinf(result) & np.isfinite(rows)
    else:
        return result
    if bad.any():
        where = tuple(map(int, np.argwhere(bad)[0]))
        raise InputError(f"{rows[where]} at {where} does not fit {dtype}; choose a wider target")
    return result


def _changed(rows: Array, floats: Array) -> Array:
    """Where whole numbers are not what they were. Compared as integers: float64 holds not every one of 64 bits."""
    if rows.dtype.itemsize < 8:
        return np.asarray(floats != rows)
    top = float(2 ** (8 * rows.dtype.itemsize - (rows.dtype.kind == "i")))
    # The largest of them round up to what no integer of this kind is, and halves make infinity of the least.
    inside = (floats >= -top) & (floats < top)
    return np.asarray(~inside | (np.where(inside, floats, 0).astype(rows.dtype) != rows))


def rows_per_block(dtype: np.dtype[Any], row_shape: tuple[int, ...], target: int = BLOCK_BYTES) -> int:
    """How many decoded rows make a block of about ``target`` bytes: at least one."""
    return max(1, min(target, MAX_BLOCK_BYTES) // max(1, dtype.itemsize * prod(row_shape)))


def bounded_rows(rows: int | None, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> int:
    """The rows of a block: those asked for, or the usual number, and never more than the largest block holds."""
    return min(rows or rows_per_block(dtype, row_shape), rows_per_block(dtype, row_shape, MAX_BLOCK_BYTES))
