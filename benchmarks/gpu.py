"""From file to GPU memory, and search there, against the bus, the memory and the peers; one run prints all ratios.

    python benchmarks/gpu.py [--small] [--peer PATH]

Files lie in the page cache. ``--peer`` names a folder with the PyPI package `decompressed`, whose Triton backend is the
peer of the load. Limits measured in the same run: a device copy (read + write) and a pinned host-to-device copy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import polyvec as pv
from polyvec import cvc
from polyvec.gpu import backends, pipeline, plan
from polyvec.gpu.memory import TorchMemory
from polyvec.gpu.search import DeviceIndex
from polyvec.kernels import NATIVE
from polyvec.kernels.checksum import crc32


def device_ms(run: Callable[[], Any], times: int = 20, stream: Any = None) -> float:
    """Median milliseconds by device events, on the stream the work runs on."""
    stream = stream or torch.cuda.current_stream()
    for _ in range(3):
        run()
    found = []
    for _ in range(times):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record(stream)
        run()
        after.record(stream)
        after.synchronize()
        found.append(before.elapsed_time(after))
    return statistics.median(found)


def wall(run: Callable[[], Any], times: int = 3) -> float:
    """Best seconds by the clock, everything included."""
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        started = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
        del result
    return min(found)


def write_cvc(path: Path, rows: int, dim: int, compression: str) -> None:
    """A document-layout CVC file of repeated random chunks, written without going through any encoder."""
    chunk = 100_000
    rng = np.random.default_rng(0)
    if compression == "int8":
        codes = rng.integers(0, 256, (chunk, dim), dtype=np.uint8)
        extra: dict[str, Any] = {"min": -1.0, "scale": float(np.float32(2 / 255))}
    else:
        codes = rng.standard_normal((chunk, dim), dtype=np.float32).astype(np.float16)
        extra = {}
    payload = codes.tobytes()
    entry = {"rows": chunk, "compression": compression, "crc32": crc32(payload), **extra}
    header = {"num_vectors": rows, "dimension": dim, "compression": compression, "chunks": [entry] * (rows // chunk)}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with path.open("wb") as out:
        out.write(b"CVCF" + len(text).to_bytes(4, "little") + text)
        for _ in range(rows // chunk):
            out.write(len(payload).to_bytes(4, "little") + payload)


def limits() -> tuple[float, float]:
    """Bytes a second of a device copy (read + write) and of a pinned host-to-device copy."""
    a = torch.empty(2 << 30, dtype=torch.uint8, device="cuda").random_()
    b = torch.empty_like(a)
    copy = 2 * a.numel() / device_ms(lambda: b.copy_(a)) * 1e3
    host = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    target = a[: 1 << 30]
    bus = host.numel() / device_ms(lambda: target.copy_(host, non_blocking=True), 10) * 1e3
    print(f"limits: device copy {copy / 1e12:.2f} TB/s, pinned host to device {bus / 1e9:.1f} GB/s")
    return copy, bus


def kernels(copy: float, rows: int) -> None:
    """Decode kernels on data already in device memory."""
    memory = TorchMemory("cuda")
    dim = 768
    cases = [
        ("uint8 -> float32", 1, plan.AFFINE, "float32"),
        ("float16 -> float32", 2, plan.HALF, "float32"),
        ("uint8 -> float16", 1, plan.AFFINE, "float16"),
        ("int8/127 -> float32", 1, plan.SYMMETRIC, "float32"),
    ]
    for name, width, kind, dtype in cases:
        head = plan.HEAD
        count = rows * dim
        a, b = (127.0, 0.0) if kind == plan.SYMMETRIC else (0.0078, -1.0)
        table = np.array([[head, 0, count, kind, plan.bits(a), plan.bits(b), dim, 0]], np.int64)
        tiles = plan.tiles_of(table)
        tiles_at = -(-(head + count * width) // 16) * 16
        buffer = plan.Buffer(table, np.empty((0, 3), np.int64), (), tiles_at, len(tiles))
        device = torch.randint(0, 255, (buffer.total,), dtype=torch.uint8, device="cuda")
        device[: table.nbytes] = torch.from_numpy(table.reshape(-1).view(np.uint8)).cuda()
        device[tiles_at:] = torch.from_numpy(tiles.reshape(-1).view(np.uint8)).cuda()
        out = torch.empty(count, dtype=getattr(torch, dtype), device="cuda")
        moved = count * (width + out.element_size())
        line = []
        for backend in backends.BACKENDS:
            decode = backends.decoder(backend, memory)
            ms = device_ms(lambda: decode(device, buffer, out), stream=memory.decoding)
            line.append(f"{backend} {moved / ms * 1e3 / 1e12:.2f} TB/s = {moved / ms * 1e3 / copy:.2f}")
        if kind == plan.HALF:
            halves = device[head : head + count * 2].view(torch.float16)
            ms = device_ms(lambda: out.copy_(halves))
            line.append(f"torch copy_ {moved / ms * 1e3 / copy:.2f}")
        print(f"kernel {name}: {', '.join(line)} of the device copy (0.90 wanted)")


def loads(bus: float, folder: Path, sizes: list[int], peer: Any) -> None:
    """File in page cache to decoded tensor."""
    for rows in sizes:
        for compression, width in (("int8", 1), ("fp16", 2)):
            path = folder / f"{compression}.cvc"
            write_cvc(path, rows, 768, compression)
            size = rows * 768 * width
            cvc.load_cvc(path, device="cuda", framework="torch")
            out = torch.empty((rows, 768), device="cuda")
            times = 9 if rows <= 1_000_000 else 3
            ours = wall(lambda: load(path, out), times)
            fresh = wall(lambda: cvc.load_cvc(path, device="cuda", framework="torch"), times)
            unchecked = wall(lambda: load(path, out, check=False), times)
            out = None
            text = (
                f"load {rows:,} x 768 {compression}: {ours * 1e3:.0f} ms, {size / ours / 1e9:.1f} GB/s of the file = "
                f"{size / ours / bus:.2f} of the bus (0.60 wanted, 0.80 aimed at); fresh tensor {size / fresh / bus:.2f}, "
                f"no checksum {size / unchecked / bus:.2f}"
            )
            if rows <= 1_000_000:
                started = time.perf_counter()
                array = cvc.load_cvc(path)
                cpu = time.perf_counter() - started
                gpu = cvc.load_cvc(path, device="cuda", framework="torch")
                same = torch.equal(gpu.cpu(), torch.from_numpy(array))
                text += f"; our CPU {cpu / ours:.1f} x slower; equal to the CPU bit for bit: {same}"
                del gpu, array
            if peer is not None:
                if rows <= 1_000_000:
                    peer.load_cvc(str(path), device="cuda", framework="torch", backend="triton")  # compiles its kernels
                theirs = wall(lambda: peer.load_cvc(str(path), device="cuda", framework="torch", backend="triton"), 1)
                text += f"; peer (Triton) {theirs * 1e3:.0f} ms = {theirs / ours:.0f} x slower (40 wanted)"
            print(text, flush=True)
            path.unlink()
            torch.cuda.empty_cache()


def load(path: Path, out: Any, check: bool = True) -> Any:
    with pv.open(path) as collection:
        return pipeline.load_column(collection.vectors, out=out, check=check)


def searches(folder: Path, rows: int) -> None:
    """Search on compressed rows against a float16 product and topk."""
    path = folder / "base.i8bin"
    dim = 128
    from polyvec.codecs import SymmetricInt8
    from polyvec.core.blocks import Extent
    from polyvec.core.columns import FileColumn
    from polyvec.core.sources import open_source

    with path.open("wb") as out:
        rng = np.random.default_rng(1)
        for at in range(0, rows, 1_000_000):
            out.write(rng.integers(-127, 128, (min(1_000_000, rows - at), dim), dtype=np.int8).tobytes())
    extent = Extent(0, rows, 0, rows * dim, SymmetricInt8(127.0))
    column = FileColumn("vectors", open_source(path), [extent], row_shape=(dim,), encoding="int8")
    started = time.perf_counter()
    index = DeviceIndex(column)
    torch.cuda.synchronize()
    print(f"search: index of {rows:,} x {dim} int8 on the device in {time.perf_counter() - started:.2f} s")
    queries = np.random.default_rng(2).standard_normal((128, dim))
    index.search(queries, 10, "ip")
    ours = wall(lambda: index.search(queries, 10, "ip"), 20)
    half = torch.empty((rows, dim), dtype=torch.float16, device="cuda")
    for at in range(0, rows, 1_000_000):
        half[at : at + 1_000_000] = index.codes[at : at + 1_000_000].half() / 127
    asked = torch.from_numpy(queries).cuda().half()
    theirs = device_ms(lambda: torch.topk(asked @ half.T, 10, dim=1), 5) / 1e3
    floor = rows * dim / 4.16e12
    found, _ = index.search(queries[:8], 10, "ip")
    base = index.codes
    best = torch.full((8, 0), 0.0, dtype=torch.float64, device="cuda")
    where = torch.zeros((8, 0), dtype=torch.int64, device="cuda")
    exact = torch.from_numpy(queries[:8]).cuda()
    for at in range(0, rows, 1_000_000):
        scores = exact @ (base[at : at + 1_000_000].float() / np.float32(127)).double().T
        top = torch.topk(scores, 10, dim=1)
        best, where = torch.cat([best, top.values], 1), torch.cat([where, top.indices + at], 1)
    order = torch.topk(best, 10, dim=1).indices
    same = bool((torch.gather(where, 1, order).cpu().numpy() == found).all())
    print(
        f"search {rows:,} x {dim} int8, 128 queries, k=10: {ours * 1e3:.2f} ms; torch float16 mm + topk {theirs * 1e3:.2f} ms = "
        f"{theirs / ours:.1f} x slower (4 wanted, 8 aimed at); floor {floor * 1e3:.2f} ms; same rows as float64: {same}"
    )
    for metric in ("cosine", "l2"):
        index.search(queries, 10, metric)
        print(f"search {metric}: {wall(lambda: index.search(queries, 10, metric), 10) * 1e3:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--peer", help="folder that holds the package `decompressed`")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing to measure")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, native kernels on the CPU: {NATIVE}")
    peer = None
    if arguments.peer:
        sys.path.insert(0, arguments.peer)
        import decompressed as peer  # type: ignore[no-redef]
    copy, bus = limits()
    kernels(copy, 500_000 if arguments.small else 2_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        searches(folder, 2_000_000 if arguments.small else 20_000_000)
        loads(bus, folder, [200_000] if arguments.small else [1_000_000, 10_000_000], peer)


if __name__ == "__main__":
    main()
