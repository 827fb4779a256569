"""Which code runs: the compiled module on some CPU path, or NumPy; and on how many threads.

`POLYVEC_NO_NATIVE=1` leaves the compiled module out, `POLYVEC_CPU` names a path; both are read once, here.
Tests switch within a process with `use_path`. `POLYVEC_THREADS` is read at every call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

PATHS = ("avx512", "avx2", "neon", "portable", "numpy")


def _load() -> ModuleType | None:
    if os.environ.get("POLYVEC_NO_NATIVE", "") not in ("", "0"):
        return None
    try:
        return import_module("polyvec._native")
    except ImportError:
        return None


_compiled: ModuleType | None = _load()
_using_numpy = _compiled is None

NATIVE: bool = _compiled is not None
"""Whether the compiled module is there and was not left out by POLYVEC_NO_NATIVE."""


def native() -> Any | None:
    """The compiled module (src/polyvec/_native.pyi), or None where NumPy is to do the work."""
    return None if _using_numpy else _compiled


def cpu_path() -> str:
    """The path in use now: 'avx512', 'avx2', 'neon', 'portable' or, without the compiled module, 'numpy'."""
    module = native()
    return "numpy" if module is None else str(module.cpu_path())


def available_paths() -> tuple[str, ...]:
    """The paths that this machine and this install can run, the fastest first; 'numpy' is always last."""
    before = cpu_path()
    found = []
    for name in PATHS:
        if _select(name):
            found.append(name)
    _select(before)
    return tuple(found)


@contextmanager
def use_path(name: str) -> Iterator[None]:
    """Run the block on the named path (process-wide, for tests); ValueError if it is not to be had."""
    before = cpu_path()
    set_path(name)
    try:
        yield
    finally:
        _select(before)


def set_path(name: str) -> None:
    """Use the named path from now on, in every thread; ValueError if it is not to be had."""
    if name not in PATHS:
        raise ValueError(f"unknown CPU path {name!r}: expected one of {', '.join(PATHS)} (POLYVEC_CPU)")
    if not _select(name):
        why = "this machine does not have it" if NATIVE else "the compiled module is missing"
        have = ", ".join(available_paths())
        raise ValueError(f"CPU path {name!r} cannot be used: {why}; available: {have}")


def _select(name: str) -> bool:
    global _using_numpy
    if name == "numpy":
        _using_numpy = True
        return True
    if _compiled is None or not _compiled.set_cpu_path(name):
        return False
    _using_numpy = False
    return True


_limits = threading.local()


@contextmanager
def limit_threads(count: int) -> Iterator[None]:
    """Kernels called by this thread use at most ``count`` threads: for callers that split the work themselves."""
    before = getattr(_limits, "count", None)
    _limits.count = count
    try:
        yield
    finally:
        _limits.count = before


def default_threads() -> int:
    """Threads a kernel uses when not told: POLYVEC_THREADS, else the cores this process may run on."""
    limit = getattr(_limits, "count", None)
    if limit is not None:
        return int(limit)
    asked = os.environ.get("POLYVEC_THREADS", "")
    if asked:
        if not asked.isascii() or not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"POLYVEC_THREADS is {asked!r}: expected a whole number of at least 1")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(num_threads: int | None) -> int:
    """The number of threads for one call: as asked, else `default_threads()`; at most 1024."""
    if num_threads is None:
        num_threads = default_threads()
    elif num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}: expected at least 1")
    return min(num_threads, 1024)


_asked_path = os.environ.get("POLYVEC_CPU", "")
if _asked_path and NATIVE:
    set_path(_asked_path)
elif _asked_path and _asked_path not in PATHS:
    set_path(_asked_path)  # says which names exist
