"""Column: named rows, read lazily. From a file's extents, an array, or other columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from polyvec.core.arguments import check_out, whole
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Block, Codec, Extent, Raw, rows_per_block
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.extents import Scratch, crc_error, crc_of, decoded_slices, read_extent, read_runs
from polyvec.core.origins import Part
from polyvec.core.selection import bounds, row_numbers, select
from polyvec.core.sources import NEAR_BYTES, Source

MAX_ROW_BYTES = 1 << 62  # NumPy shapes no array beyond, not even one of no rows


@dataclass(frozen=True, slots=True)
class Segment:
    """Packed rows as they lie in a file: what can be copied without being read."""

    source: Source
    offset: int
    size: int
    rows: int


class Column(Part):
    """``name, shape, dtype`` (logical) and ``encoding``; rows by slice, index, batch or block.

    ``column[key]`` is what NumPy gives of the array: a row, rows, ``[1, 2]`` one number, ``[:, :4]`` the first values of
    every row. Slices beyond the end are cut, indices beyond it are an IndexError. A kind of column gives `_blocks`, and
    where it can do better `_find_extents` and `_take`; all of them are only asked for rows that are there. Several threads
    may read a column; a column of a file pickles by its place (see `Collection`).
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    encoding: str
    derived: bool = False  # computed from the other columns; a copy of the file needs the others only
    forward: bool = False  # every row costs all before it
    lengths: bool = False  # what the main column's rows were divided by: a row times its length is the value meant

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row: ``(dim,)`` for vectors, ``()`` for one value a row."""
        return self.shape[1:]

    @property
    def codec(self) -> Codec | None:
        """The codec that all rows share; None where pieces differ."""
        return None

    @property
    def parallel(self) -> bool:
        """Whether `blocks` of any ranges may be asked for from several threads, and nothing is lost by that."""
        return False

    @property
    def near_bytes(self) -> int:
        """Reading on over so few costs less than asking anew: see `Source.near_bytes`."""
        return NEAR_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded column."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def blocks(
        self, rows: int | None = None, *, start: int = 0, stop: int | None = None, reuse: bool = False
    ) -> Iterator[Block]:
        """Blocks of at most ``rows`` rows, in order. With ``reuse`` a block is valid until the next is asked for.

        ``start`` and ``stop`` cut as slices do. Every row asked for comes, once: whatever gives others is `Corrupt`.
        """
        if rows is not None and whole("rows", rows) < 1:
            raise InputError(f"a block has at least 1 row, not {rows}")
        first, last = bounds(start, stop, self.rows)
        at = first
        for block in self._blocks(rows, first, last, reuse):
            if block.start != at or not block.whole(self.row_shape):
                raise self._missing(first, last, at)
            at += block.rows
            yield block
        if at != last:
            raise self._missing(first, last, at)

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        """The blocks of rows that are there."""
        raise NotImplementedError(type(self).__name__)

    def _missing(self, start: int, stop: int, at: int) -> FormatError:
        """The error where rows that a column has do not come: they would be whatever was in memory before."""
        return Corrupt(
            f"column {self.name!r} did not give the rows asked for",
            field=f"row {at}",
            expected=f"rows {start} to {stop - 1}",
            found="others",
            remedy="the file may have changed: open it again",
        )

    def extents(self, start: int = 0, stop: int | None = None) -> Iterator[Extent]:
        """The unread pieces of rows ``start`` to ``stop`` (as slices cut); none where rows lie in no file as they are."""
        first, last = bounds(start, stop, self.rows)
        return self._find_extents(first, last)

    def _find_extents(self, start: int, stop: int) -> Iterator[Extent]:
        """The extents of rows that are there."""
        return iter(())

    def segments(self, codec: Codec) -> list[Segment] | None:
        """Where the rows lie packed in files, encoded just as ``codec`` does; None where they do not."""
        return None

    def batches(self, rows: int = 65536, *, device: str = "cpu") -> Iterator[Any]:
        """Decoded rows, ``rows`` at a time: arrays, or with another ``device`` torch tensors there."""
        if whole("rows", rows) < 1:
            raise InputError(f"a batch has at least 1 row, not {rows}")
        for start in range(0, self.rows, rows):
            if device == "cpu":
                yield self[start : start + rows]
            else:
                yield self.to_torch(device, start=start, stop=min(start + rows, self.rows))

    def to_torch(
        self,
        device: str = "cpu",
        *,
        backend: str = "auto",
        dtype: str | None = None,
        out: Any = None,
        start: int = 0,
        stop: int | None = None,
    ) -> Any:
        """The rows as a torch tensor on ``device``; to a GPU they travel encoded. See `polyvec.core.devices.load`."""
        return _load(self, device, backend=backend, dtype=dtype, out=out, start=start, stop=stop)

    def to_numpy(self, out: Array | None = None) -> Array:
        """All rows, decoded, into ``out`` where it is given."""
        if out is not None:
            check_out(out, self.shape, self.dtype)
        return self._read(0, self.rows, out)

    def _read(self, start: int, stop: int, out: Array | None = None) -> Array:
        shape = (stop - start, *self.row_shape)
        if out is None:
            out = np.empty(shape, self.dtype)
        else:
            check_out(out, shape, self.dtype)
        at = 0
        for block in self.blocks(start=start, stop=stop, reuse=True):
            if block.start - start != at:
                break
            block.decode(out[at : at + block.rows])
            at += block.rows
        if at != stop - start:
            raise self._missing(start, stop, start + at)
        return out

    def spread(self, count: int) -> Array:
        """Up to ``count`` rows for a sample: evenly spread, or fewer places where each costs a long read."""
        return np.unique(np.linspace(0, max(0, self.rows - 1), min(count, self.rows)).astype(np.int64))

    def take(self, indices: Array | Sequence[int]) -> Array:
        """Rows by index, in the order (and shape) given; neighbours are read together. IndexError beyond the rows."""
        found = np.asarray(row_numbers(indices, self.rows, f"rows of column {self.name!r}"))
        if found.ndim == 1:
            return self._take(found)
        return self._take(found.reshape(-1)).reshape(*found.shape, *self.row_shape)

    def _take(self, indices: Array) -> Array:
        """Rows that are there, by a flat array of their numbers."""
        out = np.empty((len(indices), *self.row_shape), self.dtype)
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        near = max(1, self.near_bytes // max(1, self.dtype.itemsize * prod(self.row_shape)))
        limit = rows_per_block(self.dtype, self.row_shape)
        edges = [0, *(np.flatnonzero(np.diff(wanted) > near) + 1).tolist(), len(wanted)]
        runs = []
        for low, high in pairwise(edges):
            while low < high:
                end = low + int(np.searchsorted(wanted[low:high], int(wanted[low]) + limit))
                runs.append((low, end))
                low = end
        stretches = [(int(wanted[low]), int(wanted[end - 1]) + 1) for low, end in runs]
        for (low, end), rows in zip(runs, self._read_runs(stretches)):
            out[order[low:end]] = rows[wanted[low:end] - int(wanted[low])]
        return out

    def _read_runs(self, runs: Sequence[tuple[int, int]]) -> Iterator[Array]:
        """The rows of several stretches, in order."""
        return (self._read(start, stop) for start, stop in runs)

    def __getitem__(self, key: Any) -> Any:
        """What NumPy gives of the array, of which only the rows asked for are read. See `polyvec.core.selection`."""
        if type(key) is int and 0 <= key < self.shape[0]:  # what loops over rows ask for
            return self._read(key, key + 1)[0]
        if type(key) is slice and key.step is None:
            start, stop, _ = key.indices(self.shape[0])
            return self._read(start, max(start, stop))
        return select(key, self.shape, self.dtype, self.name, read=self._read, take=self.take)

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Array]:
        for batch in self.batches(min(4096, rows_per_block(self.dtype, self.row_shape, MAX_BLOCK_BYTES))):
            yield from batch

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a column is read from its file: an array of it is always a copy")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The rows as a DLPack tensor: ``torch.from_dlpack(column)``. See `polyvec.core.exchange.export_tensor`."""
        from polyvec.core.exchange import export_tensor

        return export_tensor(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from polyvec.core.exchange import CPU

        return CPU

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.shape}, {self.dtype}, {self.encoding})"


def refuse_width(row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """`Corrupt` for rows too wide for any array: with no rows at all, no file size tells that they are."""
    width = prod(size for size in row_shape if size) * dtype.itemsize
    if width >= MAX_ROW_BYTES:
        raise Corrupt(
            "rows too wide to be any", field="shape", expected=f"less than {MAX_ROW_BYTES} bytes", found=width
        )


class FileColumn(Column):
    """Rows in one file, as the extents a format found there. CRCs are checked where whole extents are read."""

    def __init__(
        self,
        name: str,
        source: Source,
        extents: Sequence[Extent],
        *,
        row_shape: tuple[int, ...],
        encoding: str,
        dtype: np.dtype[Any] | None = None,
        check: bool = True,
    ) -> None:
        self.name = name
        self.source = source
        self.encoding = encoding
        self.check = check
        self._extents = tuple(extents)
        self._starts = [extent.start for extent in self._extents]
        rows = self._extents[-1].start + self._extents[-1].rows if self._extents else 0
        self.shape = (rows, *row_shape)
        self.dtype = dtype or (self._extents[0].codec.dtype if self._extents else np.dtype(np.float32))
        refuse_width(row_shape, self.dtype)

    @property
    def parallel(self) -> bool:
        """Not where pieces are checked or decoded as a whole."""
        sliceable = all(extent.codec.row_bytes(self.row_shape) is not None for extent in self._extents)
        return sliceable and not (self.check and any(extent.crc is not None for extent in self._extents))

    @property
    def near_bytes(self) -> int:
        return self.source.near_bytes

    @property
    def codec(self) -> Codec | None:
        first = self._extents[0].codec if self._extents else None
        return first if all(e.codec == first for e in self._extents) else None

    def _find_extents(self, start: int, stop: int) -> Iterator[Extent]:
        """The extents that hold rows ``start`` to ``stop``, cut to them where their codec can be sliced."""
        if start >= stop:
            return
        for extent in self._extents[max(0, bisect_right(self._starts, start) - 1) :]:
            if extent.start >= stop:
                break
            low, high = max(0, start - extent.start), min(extent.rows, stop - extent.start)
            if low >= high:
                continue
            sliceable = extent.codec.row_bytes(self.row_shape) is not None
            yield extent.slice(low, high, self.row_shape) if sliceable else extent

    def segments(self, codec: Codec) -> list[Segment] | None:
        segments = []
        for extent in self._extents:
            packed = extent.stride is None and not extent.others and extent.crc is None
            if not packed or not same_codes(extent.codec, codec, self.row_shape):
                return None
            segments.append(Segment(self.source, extent.offset, extent.size, extent.rows))
        return segments

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        rows = rows or rows_per_block(self.dtype, self.row_shape)
        scratch = Scratch() if reuse else None
        for extent in self.extents(start, stop):
            if extent.codec.row_bytes(self.row_shape) is None:
                block = read_extent(self.source, extent, self.row_shape, check=self.check)
                low, high = max(0, start - extent.start), min(extent.rows, stop - extent.start)
                yield from decoded_slices(block, low, high, rows)
                continue
            checked = self.check and extent.crc is not None
            crc = 0
            for at in range(0, extent.rows, rows):
                piece = extent.slice(at, min(at + rows, extent.rows), self.row_shape)
                block = read_extent(self.source, piece, self.row_shape, scratch)
                if checked:
                    crc = crc_of(block.parts["codes"], crc)
                yield block
            if checked and crc != extent.crc:
                raise crc_error(self.source, extent, crc)

    def _read(self, start: int, stop: int, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty((stop - start, *self.row_shape), self.dtype)
        straight = out.flags.c_contiguous and out.dtype == self.dtype and out.shape[1:] == self.row_shape
        if not straight or len(out) != stop - start:
            return super()._read(start, stop, out)
        at = 0
        for extent in self._find_extents(start, stop):
            plain = extent.stride is None and extent.codec.name == "raw" and extent.crc is None
            if not plain or extent.codec.dtype != out.dtype or extent.start != start + at:
                return super()._read(start, stop, out)
            self.source.read_into(extent.offset, out[at : at + extent.rows])
            at += extent.rows
        if at != len(out):
            raise self._missing(start, stop, start + at)
        return out

    def _read_runs(self, runs: Sequence[tuple[int, int]]) -> Iterator[Array]:
        """Of a source that is distant many are asked for at once."""
        if not self.source.distant or len(runs) < 2:
            return super()._read_runs(runs)
        return read_runs(self.source, runs, self.row_shape, find=self._find_extents, read=self._read)

    def view(self, *, private: bool = False) -> Array | None:
        """A read-only zero-copy view of the rows, where they lie raw, packed and in one piece; else None.

        ``private`` as in `Source.view`.
        """
        if len(self._extents) != 1 or self._extents[0].codec.name != "raw" or self._extents[0].stride:
            return None
        extent = self._extents[0]
        data = self.source.view(extent.offset, extent.size, private=private)
        return None if data is None else data.view(extent.codec.dtype).reshape(self.shape)


def clusters(rows: int, count: int, starts: Sequence[int]) -> Array:
    """Up to ``count`` rows in runs from each of ``starts`` on: a sample of rows that are costly to reach."""
    each = max(1, count // max(1, len(starts)))
    runs = [np.arange(start, min(start + each, rows)) for start in starts]
    return np.unique(np.concatenate(runs)) if runs else np.empty(0, np.int64)


def same_codes(one: Codec, other: Codec, row_shape: tuple[int, ...]) -> bool:
    """Whether two codecs store the same bytes for the same rows: equal, or plain casts of one width."""
    if one == other:
        return True
    plain = {"raw", "float16", "bfloat16"}
    return {one.name, other.name} <= plain and one.parts(row_shape) == other.parts(row_shape)


class ArrayColumn(Column):
    """Rows that are in memory: an array, or the parts of any codec."""

    def __init__(
        self,
        name: str,
        array: Array,
        *,
        codec: Codec | None = None,
        encoding: str | None = None,
        parts: dict[str, Array] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.name = name
        self._codec = codec or Raw(array.dtype)
        self._parts = parts or {"codes": array}
        self.shape = shape or array.shape
        self.dtype = self._codec.dtype
        self.encoding = encoding or self._codec.name

    @property
    def parallel(self) -> bool:
        return True

    @property
    def codec(self) -> Codec | None:
        return self._codec

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        rows = rows or rows_per_block(self.dtype, self.row_shape)
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            yield Block(at, {name: part[at:end] for name, part in self._parts.items()}, self._codec, end - at)

    def view(self, *, private: bool = False) -> Array | None:
        """A read-only view of the array."""
        if self._codec.name != "raw":
            return None
        view = self._parts["codes"].view()
        view.flags.writeable = False
        return view


class ReaderColumn(Column):
    """Rows that another library reads (HDF5, Arrow): ``read(start, stop)`` gives decoded rows.

    ``together`` rows lie in one piece there, and are read at once where blocks allow.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        read: Callable[[int, int], Array],
        *,
        encoding: str = "raw",
        together: int = 1,
    ) -> None:
        self.together = together
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.encoding = encoding
        self._reader = read
        refuse_width(self.row_shape, dtype)

    @property
    def codec(self) -> Codec | None:
        return Raw(self.dtype)

    def _by_value(self, protocol: Any) -> Any:
        return ArrayColumn, (self.name, self.to_numpy())

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        if rows is None:
            rows = rows_per_block(self.dtype, self.row_shape)
            rows = max(1, rows // self.together) * self.together
        rows = min(rows, rows_per_block(self.dtype, self.row_shape, MAX_BLOCK_BYTES))
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            yield Block(at, {"codes": self._reader(at, end)}, Raw(self.dtype), end - at)

    def spread(self, count: int) -> Array:
        if self.together == 1:
            return super().spread(count)
        places = super().spread(8) // self.together * self.together
        return clusters(self.rows, count, [int(place) for place in places])


def _load(column: Column, device: str, **options: Any) -> Any:
    """A column on a device, through the registry (imported late: it knows columns)."""
    from polyvec.core.devices import load_column

    return load_column(column, device, **options)
