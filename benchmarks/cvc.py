"""CVC: packing and loading against the peer (`decompressed`), memcpy and a plain copy, in one run.

    python benchmarks/cvc.py [--small] [--rows 200000] [--dim 768] [--large] [--folder DIR]

`--large` adds a file of 4 GB of float32. Ratios are what counts: the numbers of one run belong together.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
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
from polyvec.core.sources import open_source
from polyvec.cvc.loading import File

try:
    import decompressed as peer
except ImportError:
    peer = None

ROUNDS = 5
Work = Callable[[], Any]


def race(contenders: dict[str, Work], rounds: int, fresh: tuple[Path, ...] = ()) -> dict[str, float]:
    """The shortest time of each contender; every round runs all of them, so that a busy machine slows them alike.

    Files in ``fresh`` are removed before each run: freeing an old file is no part of writing a new one.
    """
    found = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, work in contenders.items():
            for path in fresh:
                path.unlink(missing_ok=True)
            start = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def quiet(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The peer prints and warns."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(*arguments, **options)


def copy(source: np.ndarray, target: np.ndarray, threads: int = 2) -> None:
    """memcpy on several threads."""
    step = -(-len(source) // threads)
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(lambda at: np.copyto(target[at : at + step], source[at : at + step]), range(0, len(source), step))
        )


def line(name: str, size: int, seconds: float, *ratios: str) -> None:
    print(f"{name:34} {size / 1e9 / seconds:8.2f} GB/s   {'   '.join(ratios)}", flush=True)


def ratio(label: str, ours: float, other: float, target: float) -> str:
    return f"{other / ours:6.2f} of {label} (at least {target:g})"


def times(label: str, ours: float, other: float, target: float) -> str:
    return f"{other / ours:6.1f} x {label} (at least {target:g})"


def run(rows: int, dim: int, folder: Path, rounds: int) -> None:
    """Load and pack, fp16 and int8."""
    rng = np.random.default_rng(0)
    block = rng.standard_normal((min(rows, 50_000), dim), dtype=np.float32)
    vectors = np.concatenate([block] * -(-rows // len(block)))[:rows]
    out = np.empty_like(vectors)
    print(f"\n{rows} x {dim} float32, {vectors.nbytes / 1e9:.2f} GB, best of {rounds} rounds")
    for compression in ("fp16", "int8"):
        run_one(vectors, out, compression, folder, rounds)


def run_one(vectors: np.ndarray, out: np.ndarray, compression: str, folder: Path, rounds: int) -> None:
    ours, theirs = folder / f"ours_{compression}.cvc", folder / f"peer_{compression}.cvc"
    size = vectors.nbytes
    packers: dict[str, Work] = {
        "ours": lambda: cvc.pack_cvc(vectors, ours, compression=compression, durable=False),
        "stream": lambda: cvc.pack_cvc(
            iter(np.array_split(vectors, 20)), folder / "s.cvc", compression=compression, durable=False
        ),
    }
    if peer is not None:
        packers["peer"] = lambda: quiet(peer.pack_cvc, vectors, str(theirs), compression=compression)
    packed = race(packers, max(3, rounds // 2), (ours, theirs, folder / "s.cvc"))
    packers["ours"]()
    if peer is not None:
        packers["peer"]()
    loaders: dict[str, Work] = {
        "memcpy": lambda: copy(vectors, out),
        "ours": lambda: cvc.load_cvc(ours, out=out),
        "copy": lambda: vectors.copy(),
        "fresh": lambda: cvc.load_cvc(ours),
    }
    loaded = race(loaders, 2 * rounds)
    if peer is not None:
        # The faster of its two; what it needs does not hang on the others, and it takes long.
        loaded["peer"] = min(
            race(
                {name: lambda b=name: quiet(peer.load_cvc, str(theirs), backend=b) for name in ("cpp", "python")}, 2
            ).values()
        )
        assert np.array_equal(quiet(peer.load_cvc, str(theirs)), cvc.load_cvc(ours))
    peers = {"fp16": 15, "int8": 9}[compression]
    line(f"{compression}: memcpy, 2 threads", size, loaded["memcpy"])
    against = [times("peer", loaded["ours"], loaded["peer"], peers)] if "peer" in loaded else []
    against.insert(0, ratio("memcpy", loaded["ours"], loaded["memcpy"], 0.5))
    line(f"{compression}: load, CRC, out=", size, loaded["ours"], *against)
    line(f"{compression}: a plain copy, fresh", size, loaded["copy"])
    line(
        f"{compression}: load, CRC, fresh", size, loaded["fresh"], ratio("a copy", loaded["fresh"], loaded["copy"], 0.8)
    )
    line(
        f"{compression}: pack",
        size,
        packed["ours"],
        *([times("peer", packed["ours"], packed["peer"], 8)] if "peer" in packed else []),
    )
    line(f"{compression}: pack a stream", size, packed["stream"])


def run_lossless(rows: int, dim: int, folder: Path, rounds: int) -> None:
    """Lossless, against the peer on a piece that it finishes in a second."""
    vectors = np.random.default_rng(1).standard_normal((rows, dim), dtype=np.float32)
    path, other = folder / "lossless.cvc", folder / "peer_lossless.cvc"
    few = vectors[: max(1, 200_000 // dim)]
    scale = vectors.nbytes / few.nbytes  # its speed does not hang on the size
    out = np.empty_like(vectors)
    work: dict[str, Work] = {
        "pack": lambda: cvc.pack_cvc(vectors, path, compression="lossless", durable=False),
        "load": lambda: cvc.load_cvc(path, out=out),
    }
    if peer is not None:
        work["peer pack"] = lambda: quiet(peer.pack_cvc, few, str(other), compression="lossless")
        work["peer load"] = lambda: quiet(peer.load_cvc, str(other))
    found = race(work, rounds)
    assert np.array_equal(out.view(np.uint32), vectors.view(np.uint32))
    for name in ("pack", "load"):
        against = [times("peer", found[name], found[f"peer {name}"] * scale, 300)] if peer is not None else []
        line(f"lossless: {name}", vectors.nbytes, found[name], *against)
    print(f"{'lossless: size':34} {path.stat().st_size / vectors.nbytes:8.3f} of the float32 bytes, bit-exact")


def run_columns(rows: int, dim: int, folder: Path, rounds: int) -> None:
    """One column of ten."""
    rng = np.random.default_rng(2)
    path = folder / "columns.cvc"
    data = {f"c{i}": rng.standard_normal((rows, max(1, dim // 10)), dtype=np.float32) for i in range(10)}
    cvc.pack_cvc_columns(data, path, durable=False)
    found = race(
        {"all": lambda: cvc.load_cvc_columns(path), "one": lambda: cvc.load_cvc_columns(path, columns=["c4"])},
        2 * rounds,
    )
    with open_source(path) as source:
        file = File(source, "cpu", "torch", "auto", "raise", 0.0, None)
        before = source.bytes_read
        file.load("c4", [range(rows)])
        share = (source.bytes_read - before) / source.size
    print(
        f"{'one column of ten':34} {found['one'] / found['all']:8.3f} of the time (at most 0.15), "
        f"{1 / share:.1f} x fewer bytes read"
    )


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
    pieces = (piece for _ in range(rows // 1000))
    cvc.pack_cvc(pieces, path, compression=sys.argv[6], chunk_size=int(sys.argv[5]), durable=False)
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
        f"{'memory through mmap views':34} {views / 1e6:8.1f} MB of {load / 1e6:.1f} MB: "
        f"{100 * (1 - views / max(1, load)):.0f} % less"
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
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--large", action="store_true", help="also 4 GB of float32")
    parser.add_argument("--folder", help="where files are written; a temporary folder otherwise")
    options = parser.parse_args()
    rows, dim = (20_000, 256) if options.small else (options.rows, options.dim)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        run(rows, dim, folder, options.rounds)
        run_lossless(rows // 4, dim, folder, options.rounds)
        run_columns(rows, dim, folder, options.rounds)
        run_memory(rows // 2, dim, folder)
        if options.large:
            run(4_000_000_000 // (4 * dim), dim, folder, 2)


if __name__ == "__main__":
    main()
