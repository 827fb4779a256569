"""This polyvec against another build of it: the main jobs of five benchmarks, both in turns, best of five.

    python benchmarks/compare.py OTHER_PYTHON [--rounds 5] [--only files,casts,cvc,search,words,open]

OTHER_PYTHON is the interpreter of a virtual environment that holds the other build (an older commit, say). Each round
runs both builds in a process of its own, one after the other; a line is the other's best time over this one's: 1.00 is
as fast as before, 0.95 the least that a change may leave. The jobs are those of `files.py`, `casts.py`, `cvc.py`,
`search.py` and `words.py` without their peers, on less data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

Job = tuple[str, Callable[[], object]]
ROOMS = ("files", "casts", "cvc", "search", "words", "open")
LEAST = 0.95
SECONDS = 0.6  # about as long each job is repeated for within a process


def floats(rows: int, dim: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, dim), dtype=np.float32)


def files(folder: Path) -> Iterator[Job]:
    import polyvec as pv

    data = floats(131_072, 128)
    whole, array = folder / "a.fbin", folder / "a.npy"
    pv.write(whole, data)
    np.save(array, data)
    shards = [r.output for r in pv.split(whole, folder / "s.fbin", parts=8)]
    quick = {"durable": False, "measure": False}
    yield "merge of 8 shards", lambda: pv.merge(shards, folder / "m.fbin", **quick)
    yield "fbin to npy", lambda: pv.convert(whole, folder / "o.npy", **quick)
    yield "npy to fbin", lambda: pv.convert(array, folder / "o.fbin", **quick)
    yield "merge with SHA-256", lambda: pv.merge(shards, folder / "h.fbin", sha256=True, **quick)


def casts(folder: Path) -> Iterator[Job]:
    from polyvec import kernels

    data = floats(20_000, 768)
    out = np.zeros_like(data)
    half, brain = kernels.f32_to_f16(data), kernels.f32_to_bf16(data)
    low, high, _ = kernels.f32_min_max(data)
    step = (high - low) / 255
    codes = kernels.f32_to_u8(data, low, step)
    signed = codes.view(np.int8)
    few = data[:1, :100].copy()
    yield "f16 to f32", lambda: kernels.f16_to_f32(half, out)
    yield "u8 to f32", lambda: kernels.u8_to_f32(codes, low, step, out)
    yield "i8 to f32", lambda: kernels.i8_to_f32(signed, out)
    yield "bf16 to f32", lambda: kernels.bf16_to_f32(brain, out)
    yield "f32 to f16", lambda: kernels.f32_to_f16(data, half)
    yield "f32 to u8", lambda: kernels.f32_to_u8(data, low, step, codes)
    yield "min, max", lambda: kernels.f32_min_max(data)
    yield "f32 to f16, 100 values 1000 times", lambda: [kernels.f32_to_f16(few) for _ in range(1000)]


def cvc(folder: Path) -> Iterator[Job]:
    from polyvec import cvc as face

    data = floats(20_000, 768)
    for kind in ("none", "fp16", "int8"):
        path = folder / f"{kind}.cvc"
        face.pack_cvc(data, path, compression=kind)
        yield f"load {kind}", lambda path=path: face.load_cvc(path)
        yield f"pack {kind}", lambda kind=kind: face.pack_cvc(data, folder / "p.cvc", compression=kind)
    yield "load int8 by chunks", lambda: sum(len(part) for part in face.load_cvc_chunked(folder / "int8.cvc"))


def search(folder: Path) -> Iterator[Job]:
    import polyvec as pv

    data, asked = floats(100_000, 128), floats(200, 128) + 0.1
    for metric in ("ip", "cosine", "l2"):
        yield f"200 queries, {metric}", lambda metric=metric: pv.search(data, asked, k=100, metric=metric)
    index = pv.Index.build(data)
    yield "one query, index, ip", lambda: index.search(asked[:1], k=10, metric="ip")
    yield "one query, index, l2", lambda: index.search(asked[:1], k=10, metric="l2")
    small = np.clip(data * 40, -127, 127).astype(np.int8)
    yield "200 queries, int8, l2", lambda: pv.search(small, small[:200], k=100, metric="l2")
    pv.write(folder / "b.fbin", data)
    yield "200 queries of a file, ip", lambda: pv.search(folder / "b.fbin", asked, k=100, metric="ip")


def words(folder: Path) -> Iterator[Job]:
    import polyvec as pv
    from polyvec import finalfusion

    data = floats(50_000, 300)
    names = [f"word{number}" for number in range(len(data))]
    pv.write(folder / "w.fifu", data, vocab=names)
    pv.write(folder / "w.bin", data, vocab=names, format="word2vec")
    held = finalfusion.load(folder / "w.fifu")
    yield "open mapped", lambda: finalfusion.load(folder / "w.fifu", mmap=True).close()
    yield "full load with index", lambda: finalfusion.load(folder / "w.fifu", mmap=False).embedding("word7")
    yield "word2vec to fifu", lambda: pv.convert(folder / "w.bin", folder / "o.fifu", durable=False, measure=False)
    yield "10 most similar", lambda: held.similar("word77", 10)
    yield "analogy", lambda: held.analogy("word1", "word2", "word3", 10)


def opening(folder: Path) -> Iterator[Job]:
    import polyvec as pv

    data = floats(100, 16)
    for suffix in ("fbin", "npy", "cvc", "fifu"):
        path = folder / f"small.{suffix}"
        pv.write(path, data, vocab=[f"w{n}" for n in range(100)] if suffix == "fifu" else None)

        def work(path: Path = path) -> None:
            for _ in range(50):
                with pv.open(path) as opened:
                    opened.vectors[3]

        yield f"open a small {suffix}, a row, 50 times", work


MAKERS = {"files": files, "casts": casts, "cvc": cvc, "search": search, "words": words, "open": opening}


def measure(rooms: list[str]) -> dict[str, float]:
    """The best seconds of each job, in this process."""
    found: dict[str, float] = {}
    for room in rooms:
        with tempfile.TemporaryDirectory(prefix="polyvec-compare-") as folder:
            for name, run in MAKERS[room](Path(folder)):
                run()
                best, until = float("inf"), time.perf_counter() + SECONDS
                while time.perf_counter() < until:
                    started = time.perf_counter()
                    run()
                    best = min(best, time.perf_counter() - started)
                found[f"{room}: {name}"] = best
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="the Python of the other build; - measures this build alone, as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(ROOMS))
    chosen = parser.parse_args()
    rooms = chosen.only.split(",")
    if chosen.other == "-":
        print(json.dumps(measure(rooms)))
        return
    best: dict[str, dict[str, float]] = {"other": {}, "this": {}}
    for _ in range(chosen.rounds):
        for which, python in (("other", chosen.other), ("this", sys.executable)):
            done = subprocess.run(
                [python, __file__, "-", "--only", chosen.only], capture_output=True, text=True, check=True
            )
            for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                best[which][name] = min(seconds, best[which].get(name, seconds))
    slower = 0
    for name, seconds in best["this"].items():
        ratio = best["other"][name] / seconds
        slower += ratio < LEAST
        mark = "" if ratio >= LEAST else f"   below {LEAST}"
        print(f"{name:46} {best['other'][name] * 1e3:9.2f} ms before {seconds * 1e3:9.2f} ms now {ratio:6.2f}{mark}")
    print(f"{len(best['this'])} jobs, best of {chosen.rounds} rounds each; {slower} below {LEAST} of the speed before")


if __name__ == "__main__":
    main()
