"""Public calls leave the process as they found it: looked at in a process of their own, call by call.

What a library changes when it is imported is not meant, so the libraries are imported first.
"""

from __future__ import annotations

import gc
import json
import locale
import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import polyvec as pv
from polyvec import cvc, fbin, finalfusion, kernels
from polyvec.cli import run
from polyvec.kernels.paths import native
from polyvec.kernels.threads import default_threads
from polyvec.reports.quality import measure_quality
from polyvec.web.publish import publish

FDS = Path("/proc/self/fd")
ROWS = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)


def snapshot() -> dict[str, str]:
    """What a call could change for everyone else, each as text."""
    module = native()
    umask = os.umask(0)
    os.umask(umask)
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    state: dict[str, Any] = {
        "code path": (kernels.cpu_path(), kernels.NATIVE),
        "threads": (default_threads(), sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0),
        "threads alive": sorted(thread.name for thread in threading.enumerate()),
        "rounding": module.float_mode() if module is not None else 0,
        "numpy errors": (np.geterr(), np.geterrcall()),
        "random numbers": (hash(random.getstate()), hash(np.random.get_state()[1].tobytes())),
        "warnings": (warnings.filters, warnings.showwarning, warnings.formatwarning),
        "environment": (dict(os.environ), Path.cwd(), umask),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "signals": {number: signal.getsignal(number) for number in sorted(signal.valid_signals())},
        "timers": signal.getitimer(signal.ITIMER_REAL),
        "language": locale.setlocale(locale.LC_ALL),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook, sys.breakpointhook),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()),
        "imports": (sys.path, sys.meta_path, sys.path_hooks),
        "logging": (logging.root.level, logging.root.handlers, logging.root.manager.disable),
        "sockets": socket.getdefaulttimeout(),
        "descriptors": sorted(FDS.iterdir()) if FDS.is_dir() else [],
        "streams": (sys.stdin, sys.stdout, sys.stderr),
    }
    return {name: repr(value) for name, value in state.items()}


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """The main public calls, in an order in which each finds its files."""

    def read() -> None:
        with pv.open(folder / "a.npy") as collection:
            collection.vectors[3:9]
            for _ in collection.vectors.blocks():
                pass

    def failing() -> None:
        for wrong in (folder / "none.fbin", folder):
            try:
                pv.open(wrong)
            except (pv.PolyvecError, OSError):
                continue
            raise AssertionError(wrong)

    def interleaved() -> None:
        first, second = (cvc.load_cvc_chunked(folder / "c.cvc", backend="python") for _ in range(2))
        next(first)
        next(second)
        first.close()
        second.close()

    def odd() -> None:
        (folder / "odd.fbin").write_bytes((folder / "a.fbin").read_bytes() + b"odd")
        fbin.FBINReader(folder / "odd.fbin", strict=False)
        pv.describe(folder / "odd.fbin", lenient=True)

    def published() -> None:
        with pv.open(folder / "a.npy") as collection:
            publish(collection, folder / "site")

    def commanded() -> None:
        with redirect_stdout(StringIO()):
            assert run(["info", str(folder / "a.cvc")]) == 0

    words = [f"w{number}" for number in range(len(ROWS))]
    return {
        "write": lambda: pv.write(folder / "a.npy", ROWS, records=[{"n": number} for number in range(len(ROWS))]),
        "open": read,
        "open what is not there": failing,
        "convert": lambda: pv.convert(folder / "a.npy", folder / "a.fbin"),
        "convert, lossy": lambda: pv.convert(folder / "a.npy", folder / "a.cvc", encoding="int8"),
        "verify": lambda: pv.verify(folder / "a.cvc"),
        "describe": lambda: pv.describe(folder / "a.cvc", layout=True),
        "odd files": odd,
        "split": lambda: pv.split(folder / "a.fbin", folder / "part.fbin", parts=3),
        "merge": lambda: pv.merge(sorted(folder.glob("part-*.fbin")), folder / "m.npy"),
        "sample": lambda: pv.sample(folder / "a.npy", folder / "s.npy", random=20),
        "stats": lambda: pv.stats(folder / "a.npy"),
        "search": lambda: pv.search(folder / "a.npy", ROWS[:5], k=3, metric="cosine"),
        "index": lambda: pv.Index.build(folder / "a.npy").search(ROWS[:2], k=2, metric="l2"),
        "quality": lambda: measure_quality(folder / "a.npy", folder / "a.cvc"),
        "publish": published,
        "command line": commanded,
        "pack": lambda: cvc.pack_cvc(ROWS, folder / "c.cvc", chunk_size=100),
        "load": lambda: cvc.load_cvc(folder / "c.cvc", backend="python"),
        "load by chunks": lambda: list(cvc.load_cvc_chunked(folder / "c.cvc")),
        "load by chunks, interleaved": interleaved,
        "write words": lambda: pv.write(folder / "w.fifu", ROWS, vocab=words),
        "load words": lambda: finalfusion.load(folder / "w.fifu").similar("w3", 4),
    }


def main(folder: Path) -> None:
    """Print, as JSON, what each call changed."""
    changed: dict[str, list[str]] = {}
    for name, call in calls(folder).items():
        before = snapshot()
        call()
        for _ in range(50):  # a thread that was told to end may take a moment
            after = snapshot()
            if after["threads alive"] == before["threads alive"]:
                break
            time.sleep(0.02)
        changed[name] = [f"{key}: {before[key]} -> {after[key]}" for key in before if before[key] != after[key]]
    print(json.dumps(changed))


def test_public_calls_leave_the_process_as_it_was(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    changed = json.loads(done.stdout)
    assert len(changed) == len(calls(tmp_path))
    assert {name: what for name, what in changed.items() if what} == {}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
