"""Memory: conversions of a file of 300 MB in a fraction of that, measured in a process of their own."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 96 << 20  # of address space: more than what is touched, so the bound is on the safe side

CHILD = """
import resource, sys
import numpy as np
import polyvec as pv
from polyvec import codecs, kernels
work, source, target = sys.argv[1:4]
small = source + ".small.fbin"
pv.write(small, np.ones((4, 4), np.float32))
pv.convert(small, target, overwrite=True, sha256=True)  # all that is loaded lazily
used = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[4]), resource.RLIM_INFINITY))
try:
    np.ones(int(sys.argv[4]) // 4)  # twice as much
except MemoryError:
    pass
else:
    sys.exit("the limit does not hold here")
options = {"durable": False}
if work == "convert":
    assert pv.convert(source, target, sha256=True, **options).rows == 300_000
elif work == "sample":
    assert pv.sample(source, target, stride=2, **options).rows == 150_000
elif work == "merge":
    assert pv.merge([source], target, **options).rows == 300_000
elif work == "verify":
    assert pv.verify(source, sha256=True).ok
print("done")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory through /proc: Linux only")
@pytest.mark.parametrize(
    ("work", "suffix"),
    [("convert", ".npy"), ("convert", ".f16bin"), ("sample", ".fbin"), ("merge", ".fbin"), ("verify", ".fbin")],
)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, work: str, suffix: str) -> None:
    source = tmp_path / "sparse.fbin"
    with source.open("wb") as file:
        file.write(struct.pack("<II", 300_000, 256))
        file.truncate(8 + 300_000 * 256 * 4)
    # One arena: glibc would set aside 64 MB of address space for each thread, and touch none of it.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MALLOC_ARENA_MAX": "1",
        "POLYVEC_THREADS": "2",
    }
    result = subprocess.run(
        [sys.executable, "-c", CHILD, work, str(source), str(tmp_path / f"out{suffix}"), str(LIMIT)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert result.stdout == "done\n", result.stderr
    (tmp_path / f"out{suffix}").unlink(missing_ok=True)
