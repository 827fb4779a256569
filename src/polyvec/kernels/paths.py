"""Which code runs: the compiled module on some CPU path, or NumPy.

`POLYVEC_NO_NATIVE=1` leaves the compiled module out, `POLYVEC_CPU` names a path; both are read once, here. `use_path`
chooses another for a block. The choice is a context variable, which the compiled module asks at every call: it holds
for the thread or task that made it and for the threads that polyvec starts for it, never for the whole process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any

PATHS = ("avx512", "avx2", "neon", "portable", "numpy")


def _load() -> ModuleType | None:
    if os.environ.get("POLYVEC_NO_NATIVE", "") not in ("", "0"):
        return None
    try:
        module = import_module("polyvec._native")
    except ImportError:
        return None
    return module if hasattr(module, "follow") else None  # else built of other sources than these


_compiled: ModuleType | None = _load()

NATIVE: bool = _compiled is not None
"""Whether the compiled module is there and was not left out by POLYVEC_NO_NATIVE."""

_numbers: dict[str, int] = {"numpy": -1}  # what the context variable holds for each path that can be had
if _compiled is not None:
    _numbers |= _compiled.available_cpus()


def _number(name: str) -> int:
    if name not in PATHS:
        raise ValueError(f"unknown CPU path {name!r}: expected one of {', '.join(PATHS)} (POLYVEC_CPU)")
    if name not in _numbers:
        why = "this machine does not have it" if NATIVE else "the compiled module is missing"
        raise ValueError(f"CPU path {name!r} cannot be used: {why}; available: {', '.join(available_paths())}")
    return _numbers[name]


def available_paths() -> tuple[str, ...]:
    """The paths that this machine and this install can run, the fastest first; 'numpy' is always last."""
    return tuple(name for name in PATHS if name in _numbers)


def _first_number() -> int:
    asked = os.environ.get("POLYVEC_CPU", "")
    if asked and (NATIVE or asked not in PATHS):  # without the compiled module there is nothing to choose
        return _number(asked)
    return _numbers[available_paths()[0]]


_usual = _first_number()
_path: ContextVar[int] = ContextVar("polyvec_path", default=_usual)
if _compiled is not None:
    _compiled.follow(_path)


def native() -> Any | None:
    """The compiled module (src/polyvec/_native.pyi), or None where NumPy is to do the work."""
    return _compiled if _path.get() >= 0 else None


def cpu_path() -> str:
    """The path in use here: 'avx512', 'avx2', 'neon', 'portable' or, without the compiled module, 'numpy'."""
    module = native()
    return "numpy" if module is None else str(module.cpu_path())


@contextmanager
def use_path(name: str) -> Iterator[None]:
    """Run the block on the named path, in this thread or task alone; ValueError if it is not to be had.

    Not around a ``yield``: until the generator goes on, the choice would hold for whoever asked it for a value.
    """
    token = _path.set(_number(name))
    try:
        yield
    finally:
        _path.reset(token)
