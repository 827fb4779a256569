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

OUTPUTS = ("out", "m.fbin", "o.npy", "o.fbin")


def race(folder: Path, runs: dict[str, Callable[[], object]], times: int = 7) -> dict[str, float]:
    """The best of a few rounds of each, taken in turns; outputs are new files, the disk's queue is empty at the start."""
    found: dict[str, float] = {}
    for _ in range(times):
        for name, run in runs.items():
            for output in OUTPUTS:
                (folder / output).unlink(missing_ok=True)
            os.sync()
            started = time.perf_counter()
            run()
            seconds = time.perf_counter() - started
            found[name] = min(seconds, found.get(name, seconds))
    return found


def cp(sources: list[Path], target: Path, sync: bool) -> None:
    subprocess.run(["cp", *map(str, sources), str(target)], check=True)
    if sync:
        fd = os.open(target, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def concatenated(sources: list[Path], target: Path, sync: bool) -> None:
    """The limit for a merge: `cat` of the same bytes."""
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
            t = race(
                folder,
                {
                    "cp": lambda: cp([whole], out, sync),
                    "cat": lambda: concatenated(shards, out, sync),
                    "merge": lambda: pv.merge(shards, folder / "m.fbin", durable=sync, measure=False),
                    "to npy": lambda: pv.convert(whole, folder / "o.npy", durable=sync, measure=False),
                    "to fbin": lambda: pv.convert(folder / "a.npy", folder / "o.fbin", durable=sync, measure=False),
                },
            )
            print(f"{label}: cp {t['cp'] * 1e3:.0f} ms, cat of shards {t['cat'] * 1e3:.0f} ms")
            print(
                f"{label}: merge of 8 shards {t['merge'] * 1e3:.0f} ms = {t['merge'] / t['cp']:.2f} of cp (1.00 wanted)"
            )
            print(f"{label}: fbin -> npy {t['to npy'] * 1e3:.0f} ms = {t['to npy'] / t['cp']:.2f} of cp (1.15 wanted)")
            print(
                f"{label}: npy -> fbin {t['to fbin'] * 1e3:.0f} ms = {t['to fbin'] / t['cp']:.2f} of cp (1.15 wanted)"
            )
        content = whole.read_bytes()
        t = race(
            folder,
            {
                "hash": lambda: hashlib.sha256(content),
                "merge": lambda: pv.merge(shards, folder / "m.fbin", durable=False, measure=False, sha256=True),
            },
            5,
        )
        print(
            f"merge with SHA-256 {t['merge'] * 1e3:.0f} ms = {t['merge'] / t['hash']:.2f} of hashing alone "
            f"({t['hash'] * 1e3:.0f} ms; 1.10 wanted)"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
