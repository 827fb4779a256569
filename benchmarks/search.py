"""Exact search against faiss IndexFlat, in one run: time, CPU time, ratios, and the limits of the machine.

    python benchmarks/search.py [--small] [--only many,one,wide,int8,avx2,stream,quality]

Ratios are faiss / polyvec, of wall time (best of the repeats) and of CPU time. Ids are compared with faiss: where
they differ, the float64 scores decide, and polyvec's must not be the worse ones. Two threads on both sides.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = 2
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))

import numpy as np  # noqa: E402

import polyvec as pv  # noqa: E402
from polyvec.kernels import cpu_path  # noqa: E402
from polyvec.neighbors.index import Index  # noqa: E402
from polyvec.reports.quality import measure_quality  # noqa: E402


def best(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Least wall time, least CPU time, and the result."""
    walls, cpus, result = [], [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus), result


def show(
    name: str, wall: float, cpu: float, peer: tuple[float, float] | None = None, goal: float | None = None
) -> None:
    ratio = "" if peer is None else f"  {peer[0] / wall:6.1f}x wall  {peer[1] / cpu:6.1f}x CPU"
    aim = "" if goal is None else f"  (goal {goal:g}x)"
    print(f"  {name:<34} {wall * 1000:9.1f} ms wall {cpu * 1000:9.1f} ms CPU{ratio}{aim}", flush=True)


def agree(rows: Any, queries: Any, ours: Any, theirs: Any, metric: str) -> str:
    """Whether the ids are faiss's, up to rows that float64 ranks otherwise."""
    different = np.argwhere(ours != theirs)
    for q, place in different:
        x, y = rows[ours[q, place]].astype(np.float64), rows[theirs[q, place]].astype(np.float64)
        query = queries[q].astype(np.float64)
        a, b = (query @ x, query @ y) if metric == "ip" else (-((query - x) ** 2).sum(), -((query - y) ** 2).sum())
        assert a >= b or abs(a - b) <= 1e-5 * abs(a), f"query {q} place {place}: {a} against {b}"
    return f"ids equal faiss's but for {len(different)} places of {ours.size}, rows that float32 cannot tell apart"


def peer_index(rows: Any, metric: str) -> Any:
    import faiss

    faiss.omp_set_num_threads(THREADS)
    index = faiss.IndexFlatIP(rows.shape[1]) if metric == "ip" else faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    return index


def make(rows: int, dim: int, queries: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, dim), dtype=np.float32), rng.standard_normal((queries, dim), dtype=np.float32)


def limits(rows: Any, queries: Any) -> None:
    def sgemm() -> None:
        for at in range(0, len(rows), 8192):
            rows[at : at + 8192] @ queries.T

    show("limit: sgemm alone", *best(sgemm, 1)[:2])
    try:
        import numkong

        from polyvec.neighbors.scan import tiles_pay

        if tiles_pay():
            codes = np.empty(rows.shape, np.int8)
            for at in range(0, len(rows), 8192):
                codes[at : at + 8192] = (rows[at : at + 8192] * 20).clip(-127, 127)
            packed = numkong.dots_pack((queries * 20).clip(-127, 127).astype(np.int8))
            out = numkong.empty((256, len(queries)), dtype="int32")

            def dots() -> None:
                for at in range(0, len(codes) - 255, 256):
                    numkong.dots_packed(codes[at : at + 256], packed, out=out)

            show("limit: int8 products, 1 thread", *best(dots, 1)[:2])
    except ImportError:
        pass


def many(scale: int, dim: int = 128, goals: tuple[float, float] = (5, 8)) -> None:
    rows, queries = make(1_000_000 // scale, dim, 1000 // scale if scale > 1 else 1000)
    print(f"{len(rows):,} x {dim}, {len(queries)} queries, k=100, {cpu_path()}")
    limits(rows, queries)
    index = None
    for metric in ("ip", "l2"):
        peer = peer_index(rows, metric)
        wall, cpu, (_, theirs) = best(lambda peer=peer: peer.search(queries, 100), 2 if dim < 500 else 1)
        show(f"faiss IndexFlat, {metric}", wall, cpu)
        ours = best(lambda metric=metric: pv.search(rows, queries, 100, metric, threads=THREADS), 3)
        show(f"pv.search, {metric}", *ours[:2], (wall, cpu), goals[0])
        if index is None:
            built = best(lambda: Index.build(rows, threads=THREADS), 1)
            index = built[2]
            show("Index.build", *built[:2])
            index.search(queries[:1], 10, "l2")
        fast = best(lambda metric=metric, index=index: index.search(queries, 100, metric, threads=THREADS), 3)
        show(f"Index.search, {metric}", *fast[:2], (wall, cpu), goals[1])
        assert (fast[2].rows == ours[2].rows).all()
        print("  " + agree(rows, queries, ours[2].rows, theirs, metric))


def one(scale: int) -> None:
    rows, queries = make(1_000_000 // scale, 128, 8)
    print(f"{len(rows):,} x 128, one query, k=10")
    codes = np.ones((len(rows), 16), np.int64)
    show("limit: read the codes (a sum)", *best(lambda: codes.sum(), 5)[:2])
    index = Index.build(rows, threads=THREADS)
    for metric in ("ip", "l2"):
        peer = peer_index(rows, metric)
        wall, cpu, _ = best(lambda peer=peer: peer.search(queries[:1], 10), 12)
        show(f"faiss IndexFlat, {metric}", wall, cpu)
        fast = best(lambda metric=metric, index=index: index.search(queries[:1], 10, metric, threads=THREADS), 12)
        show(f"Index.search, {metric}", *fast[:2], (wall, cpu), 4)


def int8(scale: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-127, 128, (1_000_000 // scale, 128)).astype(np.int8)
    queries = rng.integers(-127, 128, (1000, 128)).astype(np.int8)
    print(f"{len(rows):,} x 128 int8, 1000 queries, k=100")
    floats, asked = rows.astype(np.float32), queries.astype(np.float32)
    for metric in ("ip", "l2"):
        peer = peer_index(floats, metric)
        wall, cpu, (_, theirs) = best(lambda peer=peer: peer.search(asked, 100), 1)
        show(f"faiss on the float cast, {metric}", wall, cpu)
        ours = best(lambda metric=metric: pv.search(rows, queries, 100, metric, threads=THREADS), 3)
        show(f"pv.search, {metric}", *ours[:2], (wall, cpu), 8)
        print("  " + agree(floats, asked, ours[2].rows, theirs, metric))


def stream(scale: int, folder: Path) -> None:
    count, dim = 8_000_000 // scale, 128
    path = folder / "base.fbin"
    rng = np.random.default_rng(0)
    with path.open("wb") as f:
        f.write(np.array([count, dim], "<u4").tobytes())
        for at in range(0, count, 100_000):
            f.write(rng.standard_normal((min(100_000, count - at), dim), dtype=np.float32).tobytes())
    queries = rng.standard_normal((1000, dim), dtype=np.float32)
    pv.write(folder / "queries.fbin", queries)
    print(f"{count:,} x {dim} float32 ({path.stat().st_size / 1e9:.1f} GB) from page cache, 1000 queries, k=100")
    part = pv.open(path).vectors[: count // 4]
    wall, cpu, _ = best(lambda: pv.search(part, queries, 100, "l2", threads=THREADS), 2)
    show(f"in memory, {len(part):,} rows", wall, cpu)
    code = f"""
import time, polyvec as pv
start, cpu = time.perf_counter(), time.process_time()
pv.search({str(path)!r}, {str(folder / "queries.fbin")!r}, 100, "l2", threads={THREADS})
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(wall, cpu, peak)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall2, cpu2, peak = map(float, done.stdout.split())
    share = (wall / len(part)) / (wall2 / count)
    share_cpu = (cpu / len(part)) / (cpu2 / count)
    show("from the file", wall2, cpu2)
    print(
        f"  rate: {share:.2f} of in memory by wall, {share_cpu:.2f} by CPU (goal 0.5); "
        f"peak memory {peak / 1e3:,.0f} MB (goal 1000)"
    )


def quality(scale: int) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1000, 768), dtype=np.float32)
    rows = centres[rng.integers(0, 1000, 200_000 // scale)]
    rows += rng.standard_normal(rows.shape, dtype=np.float32)
    names = ["float16", "int8-file", "int8-row", "int4", "pq"]
    print(f"quality of {len(rows):,} x 768, {', '.join(names)}")
    wall, cpu, _ = best(lambda: measure_quality(rows, encodings=names, threads=THREADS), 1)
    show("measure_quality", wall, cpu)
    print("  (goal 60 s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", default="many,one,wide,int8,avx2,stream,quality")
    asked = parser.parse_args()
    scale = 10 if asked.small else 1
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in asked.only.split(","):
        if name == "many":
            many(scale)
        elif name == "one":
            one(scale)
        elif name == "wide":
            many(scale, 768, (4, 4))
        elif name == "int8":
            int8(scale)
        elif name == "avx2":
            if cpu_path() == "avx2":
                many(scale, 128, (2, 2))
            else:
                environment = {**os.environ, "POLYVEC_CPU": "avx2"}
                size = ["--small"] if asked.small else []
                subprocess.run([sys.executable, __file__, "--only", "avx2", *size], env=environment, check=True)
        elif name == "stream":
            with tempfile.TemporaryDirectory() as folder:
                stream(scale, Path(folder))
        elif name == "quality":
            quality(scale)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


if __name__ == "__main__":
    main()
