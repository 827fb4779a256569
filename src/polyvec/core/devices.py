"""Where rows can be loaded to besides this process's memory: a registry that `polyvec.gpu` fills.

Nothing below the faces imports a device library; a backend registers itself here, and a face asks by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from polyvec.core.blocks import Extent
from polyvec.core.errors import InputError, MissingExtra
from polyvec.core.files import Source
from polyvec.core.reading import Failure

# What the GPU side will be called, best first, so that faces can name it before it is there.
KNOWN = {"cuda": "cuda", "triton": "cuda"}


class Backend(Protocol):
    """A way to load encoded extents into an array on a device."""

    name: str  # "triton"
    device: str  # "cuda"

    def error(self) -> str | None:
        """Why it cannot run here; None where it can."""

    def load(self, source: Source, extents: Sequence[Extent], row_shape: tuple[int, ...], *, rows: range,
             framework: str, check: bool) -> tuple[Any, list[Failure]]:  # fmt: skip
        """Rows of a column as the framework's array on the device, and the extents that failed their checksum."""


_backends: dict[str, Backend] = {}


def register(backend: Backend) -> None:
    """Make a backend known; one of the same name is replaced."""
    _backends[backend.name] = backend


def unregister(name: str) -> None:
    """Forget a backend."""
    _backends.pop(name, None)


def status() -> dict[str, str | None]:
    """Every device backend with the reason why it cannot be used; None where it can."""
    found: dict[str, str | None] = {
        name: f"the {name} backend is not installed; pip install 'polyvec[gpu]'" for name in KNOWN
    }
    return found | {name: backend.error() for name, backend in _backends.items()}


def find(device: str, name: str = "auto") -> Backend:
    """A backend for a device: by name, or the first that works. `MissingExtra` where there is none."""
    kind = device.split(":")[0]
    if name not in ("auto", *KNOWN, *_backends):
        raise InputError(f"unknown backend {name!r}; there are auto, {', '.join(dict.fromkeys([*KNOWN, *_backends]))}")
    able = [b for b in _backends.values() if b.device == kind and name in ("auto", b.name)]
    for backend in able:
        if backend.error() is None:
            return backend
    if able:
        raise InputError(f"device {device!r} cannot be used: {able[0].error()}; load with device='cpu'")
    if kind not in KNOWN.values():
        raise InputError(f"unknown device {device!r}; there are cpu, {', '.join(sorted(set(KNOWN.values())))}")
    raise MissingExtra("torch and triton", extra="gpu", purpose=f"loads to device {device!r}")
