"""The compiled module where there is one and it is allowed (POLYVEC_NO_NATIVE forbids it), and how many threads to use."""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any


@cache
def _load() -> Any:
    try:
        return importlib.import_module("polyvec._native")
    except ImportError:
        return None


def compiled() -> Any:
    """The native module, or None: then the NumPy reference beside each kernel runs."""
    return None if os.environ.get("POLYVEC_NO_NATIVE") else _load()


def threads() -> int:
    """Threads a kernel may use: POLYVEC_THREADS, else the cores this process may run on, at most 8."""
    asked = os.environ.get("POLYVEC_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return min(int(asked), 64)
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)
