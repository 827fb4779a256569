"""The pipeline: reader threads fill pinned buffers, copies run behind them, one launch decodes each buffer.

::

    file --pread, many threads--> pinned ring --copy stream--> device ring --decode stream--> output

Compressed bytes cross the bus, never decoded ones. CRCs are taken by the reader threads, piece by piece, and combined
per chunk, so that they cost the bus nothing. Nothing waits for a chunk: only for a free buffer. Buffers are planned while
others travel, the first are small, and the readers end while the last are on their way: a load starts and stops quickly.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.product import Product
from polyvec.core.blocks import Extent
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.sources import Source
from polyvec.gpu import plan
from polyvec.gpu.backends import Decode, choose
from polyvec.gpu.memory import CupyMemory, HostMemory, Memory, Slot, TorchMemory, import_cupy
from polyvec.kernels.checksum import crc32, crc32_combine
from polyvec.kernels.fileio import Filler

CAPACITY = 16 << 20  # bytes of a buffer: long enough to hide the launch, short enough to stay in the cache
RING = 8
SENT = 3  # buffers of the ring that are on their way while the others are filled
DTYPES = ("float32", "float16", "bfloat16")


def open_memory(device: str, framework: str) -> Memory:
    """The memory of a framework on a device: ``cuda``, ``cuda:1``; ``host`` for tests."""
    if device == "host":
        return HostMemory()
    if not device.startswith("cuda"):
        raise InputError(f"unknown device {device!r}; there are cpu and cuda")
    if framework == "torch":
        return TorchMemory(device)
    if framework == "cupy":
        return CupyMemory(device)
    raise InputError(f"unknown framework {framework!r}; there are torch and cupy")


@dataclass(frozen=True, slots=True)
class _Load:
    """Which rows are wanted, as what and where, and whether they are checked."""

    start: int
    stop: int
    dtype: str | None
    out: Any = None
    check: bool = True
    threads: int | None = None


def load_column(
    column: Column,
    *,
    device: str = "cuda",
    framework: str = "torch",
    backend: str = "auto",
    dtype: str | None = None,
    out: Any = None,
    start: int = 0,
    stop: int | None = None,
    check: bool = True,
    threads: int | None = None,
) -> Any:
    """Rows of a column, decoded, on a device. ``dtype`` is float32 (default), float16 or bfloat16 for floats."""
    stop = column.rows if stop is None else min(stop, column.rows)
    load = _Load(start, stop, dtype, out, check, threads)
    if framework == "cupy" and backend == "triton":  # Triton works on torch's memory; cupy takes the result over
        loaded = _load(column, open_memory(device, "torch"), backend, replace(load, out=None))
        array = import_cupy().from_dlpack(loaded)
        if out is None:
            return array
        out[...] = array
        return out
    return _load(column, open_memory(device, framework), backend, load)


def load_batches(
    column: Column,
    rows: int,
    *,
    device: str = "cuda",
    framework: str = "torch",
    backend: str = "auto",
    dtype: str | None = None,
    check: bool = True,
) -> Iterator[Any]:
    """Rows of a column, ``rows`` at a time, on a device: for files larger than its memory."""
    memory = open_memory(device, framework)
    for start in range(0, column.rows, rows):
        yield _load(column, memory, backend, _Load(start, min(start + rows, column.rows), dtype, check=check))


def _load(column: Column, memory: Memory, backend: str, load: _Load) -> Any:
    decoded = column.dtype.name
    if decoded not in DTYPES:
        return _by_blocks(column, memory, load, decoded)
    wanted = load.dtype or decoded
    if wanted not in DTYPES:
        raise InputError(f"unknown dtype {wanted!r}; there are {', '.join(DTYPES)}")
    decode = choose(backend, memory)
    if memory.name != "cupy" and (product := _product_of(column)) is not None:
        return _by_books(column, product, memory, load, wanted)
    extents = plan.find_extents(column, load.start, load.stop, CAPACITY) if isinstance(column, FileColumn) else None
    shape = (load.stop - load.start, *column.row_shape)
    out = load.out
    if out is None:
        out = memory.empty(shape, wanted)
    elif tuple(out.shape) != shape or str(out.dtype).removeprefix("torch.") != wanted:
        raise InputError(f"out must be {shape} {wanted}, not {tuple(out.shape)} {out.dtype}")
    if extents is None:
        return _by_blocks(column, memory, replace(load, out=out), wanted)
    assert isinstance(column, FileColumn)
    _run(column, extents, memory, decode, out.reshape(-1), load.start, check=load.check, threads=load.threads)
    return out


def load_codes(column: FileColumn, memory: Memory, width: int) -> Any:
    """The stored codes of a column as they are, on the device: a flat array of bytes, ``width`` a row."""
    extents = plan.find_extents(column, 0, column.rows, CAPACITY)
    if extents is None:
        raise InputError(f"column {column.name!r} ({column.encoding}) cannot be searched as it is stored on a device")
    out = memory.empty((column.rows * width,), "uint8")

    def place(device: Any, buffer: plan.Buffer, target: Any) -> None:
        for record in buffer.table:
            size = int(record[plan.COUNT]) // int(record[plan.WIDTH]) * width
            start = int(record[plan.TARGET]) // int(record[plan.WIDTH]) * width
            source = int(record[plan.SOURCE])
            memory.place(target, start, device, source, size)

    _run(column, extents, memory, place, out, 0)
    return out


def _run(
    column: FileColumn,
    extents: list[Extent],
    memory: Memory,
    decode: Decode,
    out: Any,
    first: int,
    *,
    check: bool = True,
    threads: int | None = None,
) -> None:
    """Read extents, copy them to the device and decode them into ``out``, whose first row is row ``first``."""
    if not extents:
        return
    source = column.source
    sums = _Sums(extents, check=check)
    buffers, depth, size = _plan_ring(extents, column.row_shape, first)
    workers = threads or max(1, len(os.sched_getaffinity(0)) - 2)  # two cores stay free to drive the device
    with memory.running():
        ring = _take_ring(memory, depth, size)
        try:  # the readers are gone before the device is waited for: they end while the last buffers travel
            held = source.hold()
            with Filler(held.number, workers) if held is not None else nullcontext() as filler:
                belt = _Belt(source, filler, memory, decode, out, sums)
                for number, buffer in enumerate(buffers):
                    belt.send_until_below(max(1, depth - SENT))
                    slot = ring[number % depth]
                    if number >= depth:
                        memory.wait(slot)
                    belt.fill(buffer, slot)
                belt.send_until_below(1)
        except EOFError as error:
            raise Truncated(str(error), path=source.label) from None
        finally:
            memory.finish()
    _give_ring(memory, ring)
    sums.compare(source.label)


def _plan_ring(extents: list[Extent], row_shape: tuple[int, ...], first: int) -> tuple[Iterable[plan.Buffer], int, int]:
    """The buffers, planned while others travel; how many slots they need, and of how many bytes."""
    buffers = plan.fill_buffers(extents, row_shape, first, CAPACITY)
    if sum(extent.size for extent in extents) < RING * CAPACITY:  # pin no more than a small load needs
        planned = list(buffers)
        if len(planned) < RING:
            return planned, len(planned), max(buffer.total for buffer in planned)
        return planned, RING, plan.most_bytes(CAPACITY)
    return buffers, RING, plan.most_bytes(CAPACITY)


class _Sums:
    """The CRC-32 of each chunk, from those of its pieces."""

    def __init__(self, extents: list[Extent], *, check: bool) -> None:
        # chunk -> its CRC, and where it lies
        self.expected = {n: (e.crc, e.offset) for n, e in enumerate(extents) if check and e.crc is not None}
        self.found: dict[int, int] = {}

    def add(self, buffer: plan.Buffer, sums: list[int]) -> None:
        """Add the sums of a buffer's ranges to those of their chunks."""
        if not self.expected:
            return
        for chunk, crc, size in zip(buffer.chunks, sums, buffer.loads[:, 1].tolist()):
            if chunk >= 0:
                self.found[chunk] = crc32_combine(self.found[chunk], crc, size) if chunk in self.found else crc

    def compare(self, label: str) -> None:
        """Raise `Corrupt` for the first chunk that is not what it should be."""
        for chunk, (crc, offset) in self.expected.items():
            if self.found.get(chunk, 0) != crc:
                raise Corrupt(
                    "a chunk fails its checksum",
                    path=label,
                    offset=offset,
                    field="crc32",
                    expected=f"{crc:#010x}",
                    found=f"{self.found.get(chunk, 0):#010x}",
                    remedy="restore the file from its source",
                )


@dataclass(frozen=True, slots=True)
class _Belt:
    """Buffers on their way: filled by the readers, then sent and decoded in the order in which they were begun."""

    source: Source
    filler: Filler | None  # None where the source is in memory
    memory: Memory
    decode: Decode
    out: Any
    sums: _Sums
    waiting: deque[tuple[plan.Buffer, Slot, Any]] = field(default_factory=deque)

    def fill(self, buffer: plan.Buffer, slot: Slot) -> None:
        """Begin to fill a slot."""
        ticket = _start(self.source, self.filler, buffer, slot.view, bool(self.sums.expected))
        self.waiting.append((buffer, slot, ticket))

    def send_until_below(self, count: int) -> None:
        """Send the oldest buffers until fewer than ``count`` are being filled."""
        while len(self.waiting) >= count:
            self._send()

    def _send(self) -> None:
        buffer, slot, ticket = self.waiting.popleft()
        sums = self.filler.wait(ticket).tolist() if self.filler is not None else ticket
        self.memory.copy(slot, buffer.total)
        self.decode(slot.device, buffer, self.out)
        self.memory.mark(slot)
        self.sums.add(buffer, sums)  # only now: the bus does not wait for sums


def _start(source: Source, filler: Filler | None, buffer: plan.Buffer, view: NDArray[np.uint8], check: bool) -> Any:
    """Begin filling a buffer: a ticket; for a source in memory, the sums themselves."""
    ticket: Any = []
    if filler is not None:  # first the reads, which run while the rest is written
        ticket = filler.submit(buffer.loads, view, check=check)
        source.bytes_read += int(buffer.loads[:, 1].sum())
    else:
        for offset, size, at in buffer.loads.tolist():
            part = view[at : at + size]
            source.read_into(offset, part)
            ticket.append(crc32(part) if check else 0)
    view[: buffer.table.nbytes] = buffer.table.reshape(-1).view(np.uint8)
    plan.tiles_of(buffer.table, view[buffer.tiles_at : buffer.total].view(np.int64).reshape(-1, 2))
    return ticket


# Pinning memory costs more than a load of a gigabyte: the last ring of each device is kept for the next load.
_spare: dict[tuple[str, str], list[Slot]] = {}


def _take_ring(memory: Memory, depth: int, size: int) -> list[Slot]:
    ring = _spare.pop((memory.name, memory.place_name), [])
    if len(ring) < depth or len(ring[0].view) < size:
        ring = [memory.slot(size) for _ in range(depth)]
    return ring


def _give_ring(memory: Memory, ring: list[Slot]) -> None:
    if memory.name != "host":
        _spare[memory.name, memory.place_name] = ring


def release() -> None:
    """Free the pinned buffers that are kept between loads."""
    _spare.clear()


def _by_blocks(column: Column, memory: Any, load: _Load, dtype: str) -> Any:
    """Decode on the CPU, copy decoded rows: for columns whose rows do not lie in the file as codes."""
    out = load.out
    if out is None:
        out = memory.empty((load.stop - load.start, *column.row_shape), dtype)
    for block in column.blocks(start=load.start, stop=load.stop, reuse=True):
        rows = np.ascontiguousarray(block.decode())
        at = block.start - load.start
        if memory.name == "cupy":
            out[at : at + block.rows] = memory.cupy.asarray(rows).astype(out.dtype)
        else:
            out[at : at + block.rows] = _tensor(memory.torch, rows).to(out.device, out.dtype)
    return out


def _product_of(column: Column) -> Product | None:
    """The codec of product-quantised rows that can be put together on the device: all but rotated ones."""
    codec = column.codec if isinstance(column, FileColumn) else None
    return codec if isinstance(codec, Product) and codec.projection is None else None


def _by_books(column: Column, codec: Product, memory: Any, load: _Load, dtype: str) -> Any:
    """Product-quantised rows: codes cross the bus, centroids are looked up on the device."""
    torch = memory.torch
    out = load.out
    if out is None:
        out = memory.empty((load.stop - load.start, codec.dim), dtype)
    books = torch.from_numpy(np.ascontiguousarray(codec.books)).to(out.device)
    parts = torch.arange(codec.parts_count, device=out.device)
    for block in column.blocks(65536, start=load.start, stop=load.stop, reuse=True):
        codes = block.parts["codes"]
        if codec.centroids < 256 and codes.size and codes.max() >= codec.centroids:
            raise Corrupt(
                "a code names no centroid", field="codes", expected=f"below {codec.centroids}", found=int(codes.max())
            )
        rows = books[parts, torch.from_numpy(codes).to(out.device).long()].reshape(block.rows, codec.dim)
        if codec.norms:
            rows = rows * torch.from_numpy(np.ascontiguousarray(block.parts["norms"])).to(out.device)[:, None]
        at = block.start - load.start
        out[at : at + block.rows] = rows.to(out.dtype)
    return out


def _tensor(torch: Any, rows: NDArray[Any]) -> Any:
    if rows.dtype.name == "bfloat16":
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    if rows.dtype in (np.uint16, np.uint32, np.uint64):
        return torch.from_numpy(rows.astype(np.int64))
    return torch.from_numpy(rows)
