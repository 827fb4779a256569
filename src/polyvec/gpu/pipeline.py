"""The pipeline: reader threads fill pinned buffers, copies run behind them, one launch decodes each buffer.

::

    file --pread, many threads--> pinned ring --copy stream--> device ring --decode stream--> output

Compressed bytes cross the bus, never decoded ones. CRCs are taken by the reader threads, piece by piece, and combined
per chunk, so that they cost the bus nothing. Nothing waits for a chunk: only for a free buffer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.product import Product
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.files import Source
from polyvec.gpu import plan
from polyvec.gpu.backends import Decode, choose
from polyvec.gpu.memory import CupyMemory, HostMemory, Memory, TorchMemory, import_cupy
from polyvec.kernels.checksum import crc32, crc32_combine
from polyvec.kernels.reads import Filler

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


def load_column(
    column: Column, *, device: str = "cuda", framework: str = "torch", backend: str = "auto", dtype: str | None = None,
    out: Any = None, start: int = 0, stop: int | None = None, check: bool = True, threads: int | None = None,
) -> Any:  # fmt: skip
    """Rows of a column, decoded, on a device. ``dtype`` is float32 (default), float16 or bfloat16 for floats."""
    stop = column.rows if stop is None else min(stop, column.rows)
    if framework == "cupy" and backend == "triton":  # Triton works on torch's memory; cupy takes the result over
        loaded = _load(column, open_memory(device, "torch"), backend, dtype, None, start, stop, check, threads)
        array = import_cupy().from_dlpack(loaded)
        if out is None:
            return array
        out[...] = array
        return out
    memory = open_memory(device, framework)
    return _load(column, memory, backend, dtype, out, start, stop, check, threads)


def load_batches(
    column: Column, rows: int, *, device: str = "cuda", framework: str = "torch", backend: str = "auto",
    dtype: str | None = None, check: bool = True,
) -> Iterator[Any]:  # fmt: skip
    """Rows of a column, ``rows`` at a time, on a device: for files larger than its memory."""
    memory = open_memory(device, framework)
    for start in range(0, column.rows, rows):
        yield _load(column, memory, backend, dtype, None, start, min(start + rows, column.rows), check, None)


def _load(column: Column, memory: Memory, backend: str, dtype: str | None, out: Any, start: int, stop: int, check: bool,
          threads: int | None) -> Any:  # fmt: skip
    shape = (stop - start, *column.row_shape)
    decoded = column.dtype.name
    if decoded not in DTYPES:
        return _by_blocks(column, memory, out, start, stop, decoded)
    wanted = dtype or decoded
    if wanted not in DTYPES:
        raise InputError(f"unknown dtype {wanted!r}; there are {', '.join(DTYPES)}")
    decode = choose(backend, memory)
    if memory.name != "cupy" and (product := _product_of(column)) is not None:
        return _by_books(column, product, memory, out, start, stop, wanted)
    buffers = plan.plan_buffers(column, start, stop, CAPACITY) if isinstance(column, FileColumn) else None
    if out is None:
        out = memory.empty(shape, wanted)
    elif tuple(out.shape) != shape or str(out.dtype).removeprefix("torch.") != wanted:
        raise InputError(f"out must be {shape} {wanted}, not {tuple(out.shape)} {out.dtype}")
    if buffers is None:
        return _by_blocks(column, memory, out, start, stop, wanted)
    assert isinstance(column, FileColumn)
    if buffers:
        _run(
            column.source,
            buffers,
            memory,
            decode,
            out.reshape(-1),
            threads,
            _expected(column, start, stop) if check else {},
        )
    return out


def load_codes(column: FileColumn, memory: Memory, width: int) -> Any:
    """The stored codes of a column as they are, on the device: a flat array of bytes, ``width`` a row."""
    buffers = plan.plan_buffers(column, 0, column.rows, CAPACITY)
    if buffers is None:
        raise InputError(f"column {column.name!r} ({column.encoding}) cannot be searched as it is stored on a device")
    out = memory.empty((column.rows * width,), "uint8")

    def place(device: Any, buffer: plan.Buffer, target: Any) -> None:
        for record in buffer.table:
            size = int(record[plan.COUNT]) // int(record[plan.WIDTH]) * width
            start = int(record[plan.TARGET]) // int(record[plan.WIDTH]) * width
            source = int(record[plan.SOURCE])
            memory.place(target, start, device, source, size)

    if buffers:
        _run(column.source, buffers, memory, place, out, None, _expected(column, 0, column.rows))
    return out


def _expected(column: FileColumn, start: int, stop: int) -> dict[int, tuple[int, int]]:
    """CRC and offset of each extent that is read whole, by its number."""
    return {n: (e.crc, e.offset) for n, e in enumerate(column.extents(start, stop)) if e.crc is not None}


def _run(source: Source, buffers: list[plan.Buffer], memory: Memory, decode: Decode, out: Any, threads: int | None,
         expected: dict[int, tuple[int, int]]) -> None:  # fmt: skip
    depth = min(RING, len(buffers))
    ring = _take_ring(memory, depth, max(buffer.total for buffer in buffers))
    free: list[Any] = [None] * depth
    found: dict[int, int] = {}
    waiting: deque[tuple[plan.Buffer, int, Any]] = deque()

    def send(filler: Filler | None) -> None:
        buffer, slot, ticket = waiting.popleft()
        sums = filler.wait(ticket) if filler is not None else ticket
        for load, crc in zip(buffer.loads, sums):
            if load.checked and expected:
                found[load.chunk] = (
                    crc32_combine(found[load.chunk], int(crc), load.size) if load.chunk in found else int(crc)
                )
        pinned, _, on_device = ring[slot]
        memory.after(memory.copy(pinned, on_device, buffer.total))
        decode(on_device, buffer, out)
        free[slot] = memory.mark()

    workers = threads or max(1, len(os.sched_getaffinity(0)) - 2)  # two cores stay free to drive the device
    with memory.running(), Filler(source.fd, workers) if source.fd is not None else nullcontext() as filler:
        for number, buffer in enumerate(buffers):
            slot = number % depth
            while len(waiting) >= max(1, depth - SENT):
                send(filler)
            if free[slot] is not None:
                memory.wait(free[slot])
            view = ring[slot][1]
            view[: buffer.table.nbytes] = buffer.table.reshape(-1).view(np.uint8)
            plan.tiles_of(buffer.table, view[buffer.tiles_at : buffer.total].view(np.int64).reshape(-1, 2))
            waiting.append((buffer, slot, _start(source, filler, buffer, view, bool(expected))))
        try:
            while waiting:
                send(filler)
        except EOFError as error:
            raise Truncated(str(error), path=source.label) from None
        finally:
            memory.finish()
    _give_ring(memory, ring)
    for chunk, (crc, offset) in expected.items():
        if found.get(chunk, 0) != crc:
            raise Corrupt("a chunk fails its checksum", path=source.label, offset=offset, field="crc32",
                          expected=f"{crc:#010x}", found=f"{found.get(chunk, 0):#010x}",
                          remedy="restore the file from its source")  # fmt: skip


def _start(source: Source, filler: Filler | None, buffer: plan.Buffer, view: NDArray[np.uint8], check: bool) -> Any:
    """Begin filling a buffer: a ticket; for a source in memory, the sums themselves."""
    if filler is None:
        for load in buffer.loads:
            source.read_into(load.offset, view[load.at : load.at + load.size])
        return [crc32(view[load.at : load.at + load.size]) if check and load.checked else 0 for load in buffer.loads]
    loads = np.array([(load.offset, load.size, load.at) for load in buffer.loads], np.int64).reshape(-1, 3)
    source.bytes_read += int(loads[:, 1].sum())
    return filler.submit(loads, view, check=check)


# Pinning memory costs more than a load of a gigabyte: the last ring of each device is kept for the next load.
_spare: dict[tuple[str, str], list[Any]] = {}


def _take_ring(memory: Memory, depth: int, size: int) -> list[Any]:
    ring = _spare.pop((memory.name, memory.place_name), [])
    if len(ring) < depth or len(ring[0][1]) < size:
        size = size if depth < RING else max(size, CAPACITY + (CAPACITY // plan.TILE + plan.MAX_PIECES) * 16)
        ring = [(*memory.pinned(size), memory.empty((size,), "uint8")) for _ in range(depth)]
    return ring


def _give_ring(memory: Memory, ring: list[Any]) -> None:
    if memory.name != "host":
        _spare[memory.name, memory.place_name] = ring


def release() -> None:
    """Free the pinned buffers that are kept between loads."""
    _spare.clear()


def _by_blocks(column: Column, memory: Any, out: Any, start: int, stop: int, dtype: str) -> Any:
    """Decode on the CPU, copy decoded rows: for columns whose rows do not lie in the file as codes."""
    if out is None:
        out = memory.empty((stop - start, *column.row_shape), dtype)
    for block in column.blocks(start=start, stop=stop, reuse=True):
        rows = np.ascontiguousarray(block.decode())
        at = block.start - start
        if memory.name == "cupy":
            out[at : at + block.rows] = memory.cupy.asarray(rows).astype(out.dtype)
        else:
            out[at : at + block.rows] = _tensor(memory.torch, rows).to(out.device, out.dtype)
    return out


def _product_of(column: Column) -> Product | None:
    """The codec of product-quantised rows that can be put together on the device: all but rotated ones."""
    codec = column.codec if isinstance(column, FileColumn) else None
    return codec if isinstance(codec, Product) and codec.projection is None else None


def _by_books(column: Column, codec: Product, memory: Any, out: Any, start: int, stop: int, dtype: str) -> Any:
    """Product-quantised rows: codes cross the bus, centroids are looked up on the device."""
    torch = memory.torch
    if out is None:
        out = memory.empty((stop - start, codec.dim), dtype)
    books = torch.from_numpy(np.ascontiguousarray(codec.books)).to(out.device)
    parts = torch.arange(codec.parts_count, device=out.device)
    for block in column.blocks(65536, start=start, stop=stop, reuse=True):
        codes = block.parts["codes"]
        if codec.centroids < 256 and codes.size and codes.max() >= codec.centroids:
            raise Corrupt(
                "a code names no centroid", field="codes", expected=f"below {codec.centroids}", found=int(codes.max())
            )
        rows = books[parts, torch.from_numpy(codes).to(out.device).long()].reshape(block.rows, codec.dim)
        if codec.norms:
            rows = rows * torch.from_numpy(np.ascontiguousarray(block.parts["norms"])).to(out.device)[:, None]
        at = block.start - start
        out[at : at + block.rows] = rows.to(out.dtype)
    return out


def _tensor(torch: Any, rows: NDArray[Any]) -> Any:
    if rows.dtype.name == "bfloat16":
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    if rows.dtype in (np.uint16, np.uint32, np.uint64):
        return torch.from_numpy(rows.astype(np.int64))
    return torch.from_numpy(rows)
