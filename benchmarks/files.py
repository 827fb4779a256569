"""Merging and converting files against `cp`: how much slower than the physical limit is the safe way?

    python benchmarks/files.py [--small]

Everything runs in one process run on one file system, from page cache. Each line is a ratio: 1.00 is as fast as the
limit beside it. The first number of a pair is without fsync on both sides, the second with it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import polyvec as pv


def best(run: Callable[[], object], times: int = 5) -> float:
    """The best of a few runs: noise only ever adds."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def cp(sources: list[Path], target: Path, sync: bool) -> None:
    target.unlink(missing_ok=True)
    subprocess.run(["cp", *map(str, sources), str(target)], check=True)
    if sync:
        fd = os.open(target, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def concatenated(sources: list[Path], target: Path, sync: bool) -> None:
    """The limit for a merge: `cat` of the same bytes."""
    target.unlink(missing_ok=True)
    with target.open("wb") as out:
        subprocess.run(["cat", *map(str, sources)], stdout=out, check=True)
        if sync:
            os.fsync(out.fileno())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="64 MB instead of 512 MB")
    rows = 131_072 if parser.parse_args().small else 1_048_576
    folder = Path(tempfile.mkdtemp(prefix="polyvec-bench-"))
    try:
        data = np.random.default_rng(0).standard_normal((rows, 128), dtype=np.float32)
        np.save(folder / "a.npy", data)
        pv.write(folder / "a.fbin", data)
        shards = [Path(r.output) for r in pv.split(folder / "a.fbin", folder / "s.fbin", parts=8)]
        whole, out = folder / "a.fbin", folder / "out"
        print(f"{rows:,} x 128 float32, {whole.stat().st_size / 1e6:.0f} MB; python {sys.version.split()[0]}")

        for sync in (False, True):
            label = "with fsync" if sync else "no fsync  "
            limit = best(lambda: cp([whole], out, sync))
            joined = best(lambda: concatenated(shards, out, sync))
            merge = best(lambda: pv.merge(shards, folder / "m.fbin", durable=sync, measure=False))
            to_npy = best(lambda: pv.convert(whole, folder / "o.npy", durable=sync, measure=False))
            to_fbin = best(lambda: pv.convert(folder / "a.npy", folder / "o.fbin", durable=sync, measure=False))
            print(f"{label}: cp {limit * 1e3:.0f} ms, cat of shards {joined * 1e3:.0f} ms")
            print(
                f"{label}: merge of 8 shards {merge * 1e3:.0f} ms = {merge / limit:.2f} of cp (no slower than 1.00 wanted)"
            )
            print(f"{label}: fbin -> npy {to_npy * 1e3:.0f} ms = {to_npy / limit:.2f} of cp (1.15 wanted)")
            print(f"{label}: npy -> fbin {to_fbin * 1e3:.0f} ms = {to_fbin / limit:.2f} of cp (1.15 wanted)")
        content = whole.read_bytes()
        hashing = best(lambda: hashlib.sha256(content), 3)
        hashed = best(lambda: pv.merge(shards, folder / "m.fbin", durable=False, measure=False, sha256=True), 3)
        print(
            f"merge with SHA-256 {hashed * 1e3:.0f} ms = {hashed / hashing:.2f} of hashing alone ({hashing * 1e3:.0f} ms; 1.10 wanted)"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
