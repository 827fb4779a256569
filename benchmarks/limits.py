"""Memory, opening and start-up on large files: what must not grow with the file.

    python benchmarks/limits.py [--small]

Anonymous memory is measured in the converting process itself (RssAnon, sampled while it works); the file is 4 GB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILD = r"""
import sys, threading, time
def anonymous():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon")) / 1024
import numpy, polyvec as pv
from polyvec import formats
formats.all_formats()
base, peak, stop = anonymous(), 0.0, False
def watch():
    global peak
    while not stop:
        peak = max(peak, anonymous()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
started = time.perf_counter()
{work}
stop = True; thread.join()
print(f"{{peak - base:.0f}} {{time.perf_counter() - started:.1f}}")
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="400 MB instead of 4 GB")
    rows = 131_072 if parser.parse_args().small else 1_310_720
    folder = Path(tempfile.mkdtemp(prefix="polyvec-bench-"))
    try:
        write_large(folder / "big.fbin", rows)
        size = (folder / "big.fbin").stat().st_size
        print(f"file: {rows:,} x 768 float32, {size / 1e9:.2f} GB")
        import polyvec as pv

        pv.open(folder / "big.fbin").close()
        times = []
        for _ in range(20):
            started = time.perf_counter()
            pv.open(folder / "big.fbin").close()
            times.append(time.perf_counter() - started)
        print(f"open: best {min(times) * 1e3:.2f} ms, median {sorted(times)[10] * 1e3:.2f} ms (5 ms wanted)")
        jobs = {
            "fbin -> npy": "pv.convert('big.fbin', 'o.npy', durable=False)",
            "fbin -> f16bin": "pv.convert('big.fbin', 'o.f16bin', durable=False)",
            "fbin -> npy bfloat16": "pv.convert('big.fbin', 'o.npy', encoding='bfloat16', durable=False)",
            "f16bin -> fbin": "pv.convert('o.f16bin', 'o.fbin', durable=False)",
            "verify": "pv.verify('big.fbin')",
            "merge of two": "pv.merge(['big.fbin', 'big.fbin'], 'm.fbin', durable=False, sha256=True)",
            "sample --random 10000": "pv.sample('big.fbin', 's.fbin', random=10000)",
        }
        for name, work in jobs.items():
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", CHILD.format(work=work)],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            peak, seconds = done.stdout.split()
            print(f"{name}: {peak} MB of anonymous memory above the interpreter (256 wanted), {seconds} s")
        for arguments in (["--help"], ["info", "small.fbin"]):
            import numpy as np

            pv.write(folder / "small.fbin", np.eye(8, dtype=np.float32))
            command = [sys.executable, "-m", "polyvec", *arguments]
            best = min(timed(command, folder) for _ in range(10))
            bare = min(timed([sys.executable, "-c", "pass"], folder) for _ in range(10))
            print(
                f"polyvec {arguments[0]}: best of 10 {best:.3f} s ({best / bare:.1f} x an empty Python, {bare:.3f} s)"
            )
    finally:
        shutil.rmtree(folder)


def write_large(path: Path, rows: int) -> None:
    import numpy as np

    block = np.random.default_rng(0).standard_normal((16_384, 768), dtype=np.float32)
    with path.open("wb") as out:
        out.write(rows.to_bytes(4, "little") + (768).to_bytes(4, "little"))
        for _ in range(rows // len(block)):
            out.write(block.tobytes())


def timed(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, check=True, env=dict(os.environ))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
