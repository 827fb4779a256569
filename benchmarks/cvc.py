"""CVC: packing and loading against the peer (`decompressed`), memcpy and a plain copy, in one run.

    python benchmarks/cvc.py [--small] [--rows 200000] [--dim 768] [--large] [--folder DIR]

`--large` adds a file of 4 GB of float32. Ratios are what counts: the numbers of one run belong together.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from polyvec import cvc

try:
    import decompressed as peer
except ImportError:
    peer = None

TIMES = 5


def best(work: Callable[[], Any], times: int = TIMES) -> float:
    """The shortest of several runs: what the machine can do when others leave it alone."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def quiet(work: Callable[[], Any]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def copy(source: np.ndarray, target: np.ndarray, threads: int = 2) -> None:
    """memcpy on several threads."""
    step = -(-len(source) // threads)
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(lambda at: np.copyto(target[at : at + step], source[at : at + step]), range(0, len(source), step))
        )


def line(name: str, size: int, ours: float, *ratios: str) -> None:
    print(f"{name:34} {size / 1e9 / ours:8.2f} GB/s   {'   '.join(ratios)}", flush=True)


def ratio(label: str, ours: float, other: float) -> str:
    return f"{other / ours:6.2f} of {label}"


def times(label: str, ours: float, other: float) -> str:
    return f"{other / ours:6.1f} x {label}"


def run(rows: int, dim: int, folder: Path, *, peers: bool = True) -> None:
    rng = np.random.default_rng(0)
    block = rng.standard_normal((min(rows, 50_000), dim), dtype=np.float32)
    vectors = np.concatenate([block] * -(-rows // len(block)))[:rows]
    size = vectors.nbytes
    out = np.empty_like(vectors)
    copy(vectors, out)
    print(f"\n{rows} x {dim} float32, {size / 1e9:.2f} GB")
    memcpy = best(lambda: copy(vectors, out))
    fresh = best(lambda: copy(vectors, np.empty_like(vectors)))
    plain = best(lambda: vectors.copy())
    line("memcpy, 2 threads", size, memcpy)
    line("copy to a fresh array, 1 thread", size, plain)
    line("copy to a fresh array, 2 threads", size, fresh)
    for compression in ("fp16", "int8"):
        ours, theirs = folder / f"ours_{compression}.cvc", folder / f"peer_{compression}.cvc"
        packed = best(lambda: cvc.pack_cvc(vectors, ours, compression=compression, durable=False), 3)
        stream = best(
            lambda: cvc.pack_cvc(iter(np.array_split(vectors, 20)), ours, compression=compression, durable=False), 2
        )
        cvc.pack_cvc(vectors, ours, compression=compression, durable=False)
        memcpy = min(memcpy, best(lambda: copy(vectors, out)))
        loaded = best(lambda: cvc.load_cvc(ours, out=out))
        loaded_fresh = best(lambda: cvc.load_cvc(ours))
        plain = min(plain, best(lambda: vectors.copy(), 3))
        ratios_pack, ratios_load = [], [ratio("memcpy", loaded, memcpy)]
        if peer is not None and peers:
            slow = best(lambda: quiet(lambda: peer.pack_cvc(vectors, str(theirs), compression=compression)), 2)
            ratios_pack.append(times("peer", packed, slow))
            slow = min(best(lambda: quiet(lambda: peer.load_cvc(str(theirs), backend=b)), 2) for b in ("cpp", "python"))
            ratios_load.append(times("peer", loaded, slow))
            assert np.array_equal(quiet(lambda: peer.load_cvc(str(theirs))), cvc.load_cvc(ours))
        line(f"pack {compression}", size, packed, *ratios_pack)
        line(f"pack {compression}, a stream", size, stream)
        line(f"load {compression}, CRC, out=", size, loaded, *ratios_load)
        line(f"load {compression}, CRC, fresh", size, loaded_fresh, ratio("a plain copy", loaded_fresh, plain))
    del out


def run_lossless(rows: int, dim: int, folder: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((rows, dim), dtype=np.float32)
    path = folder / "lossless.cvc"
    packed = best(lambda: cvc.pack_cvc(vectors, path, compression="lossless", durable=False), 3)
    loaded = best(lambda: cvc.load_cvc(path), 3)
    assert np.array_equal(cvc.load_cvc(path).view(np.uint32), vectors.view(np.uint32))
    few = vectors[: max(1, 400_000 // dim)]
    ratios = ["", ""]
    if peer is not None:
        other = folder / "peer_lossless.cvc"
        pack = best(lambda: quiet(lambda: peer.pack_cvc(few, str(other), compression="lossless")), 1)
        load = best(lambda: quiet(lambda: peer.load_cvc(str(other))), 1)
        scale = vectors.nbytes / few.nbytes  # its speed does not depend on the size
        ratios = [times("peer", packed, pack * scale), times("peer", loaded, load * scale)]
    line("pack lossless", vectors.nbytes, packed, ratios[0])
    line("load lossless", vectors.nbytes, loaded, ratios[1], f"{path.stat().st_size / vectors.nbytes:.3f} of its size")


def run_columns(rows: int, dim: int, folder: Path) -> None:
    rng = np.random.default_rng(2)
    path = folder / "columns.cvc"
    width = max(1, dim // 10)
    data = {f"c{i}": rng.standard_normal((rows, width), dtype=np.float32) for i in range(10)}
    cvc.pack_cvc_columns(data, path, durable=False)
    whole = best(lambda: cvc.load_cvc_columns(path))
    one = best(lambda: cvc.load_cvc_columns(path, columns=["c4"]))
    from polyvec.core.files import Source

    with Source(path) as source:
        from polyvec.cvc import _File

        file = _File(source, "cpu", "torch", "auto", "raise", 0.0, None)
        before = source.bytes_read
        file.load("c4", [range(rows)])
        share = (source.bytes_read - before) / source.size
    print(f"{'one column of ten':34} {one / whole:8.3f} of the time, {share:.3f} of the bytes ({1 / share:.1f} x less)")


MEMORY = """
import re, sys
import numpy as np
from polyvec import cvc
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
path, what, rows, dim = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
start = peak()
if what == "load":
    array = cvc.load_cvc(path); print(peak() - start)
elif what == "views":
    with cvc.MMapCVCLoader(path) as file:
        total = 0.0
        for index in range(file.get_info()["num_chunks"]):
            total += float(file.get_column_view(index)[:, 0].sum())
    status = open("/proc/self/status").read()
    anonymous = int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) * 1024
    print(anonymous - int(sys.argv[5]))
elif what == "chunked":
    first = cvc.get_cvc_info(path)["chunks"][0]["rows"]
    for _, array in cvc.load_cvc_chunked(path, out=np.empty((first, dim), np.float32)): pass
    print(peak() - start)
elif what == "stream":
    piece = np.ones((1000, dim), np.float32)
    cvc.pack_cvc((piece for _ in range(rows // 1000)), path, compression=sys.argv[6], chunk_size=int(sys.argv[5]), durable=False)
    print(peak() - start)
elif what == "anon":
    print(int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


def measure(*arguments: Any) -> int:
    command = [sys.executable, "-c", MEMORY, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout)


def run_memory(rows: int, dim: int, folder: Path) -> None:
    path, mapped = folder / "plain.cvc", folder / "mapped.cvc"
    vectors = np.random.default_rng(3).standard_normal((rows, dim), dtype=np.float32)
    chunk_rows = rows // 5
    chunk = chunk_rows * dim * 4
    cvc.pack_cvc(vectors, path, compression="none", chunk_size=chunk_rows, durable=False)
    cvc.pack_cvc(vectors, mapped, compression="none", chunk_size=chunk_rows, mmap_optimized=True, durable=False)
    base = measure(path, "anon", 0, 0)
    load, views = measure(path, "load", 0, dim), max(0, measure(mapped, "views", 0, dim, base))
    print(
        f"{'memory through mmap views':34} {views / 1e6:8.1f} MB of {load / 1e6:.1f} MB: {100 * (1 - views / max(1, load)):.0f} % less"
    )
    small = folder / "small.cvc"
    cvc.pack_cvc(vectors, small, chunk_size=100, durable=False)
    before = small.stat().st_size
    cvc.pack_cvc(vectors, small, chunk_size=100, mmap_optimized=True, durable=False)
    print(f"{'mmap file, 100 rows a chunk':34} {100 * (small.stat().st_size / before - 1):8.1f} % larger")
    print(f"{'mmap file, large chunks':34} {100 * (mapped.stat().st_size / path.stat().st_size - 1):8.2f} % larger")
    print(f"{'peak of load_cvc_chunked, out=':34} {measure(path, 'chunked', 0, dim) / chunk:8.2f} chunks")
    for compression in ("fp16", "int8", "lossless"):
        peak = measure(folder / "stream.cvc", "stream", rows, dim, chunk_rows, compression)
        print(f"{f'peak of a streaming pack, {compression}':34} {peak / chunk:8.2f} chunks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a quick run: 20,000 x 256")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--large", action="store_true", help="also 4 GB of float32")
    parser.add_argument("--folder", help="where files are written; a temporary folder otherwise")
    options = parser.parse_args()
    rows, dim = (20_000, 256) if options.small else (options.rows, options.dim)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        run(rows, dim, folder)
        run_lossless(rows // 4, dim, folder)
        run_columns(rows, dim, folder)
        run_memory(rows // 2, dim, folder)
        if options.large:
            run(4_000_000_000 // (4 * dim), dim, folder)
    print(f"\npeak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
