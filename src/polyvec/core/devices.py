"""Where rows can be loaded to besides this process's memory: a registry that those fill who have devices (`polyvec.gpu`).

Nothing below the faces imports a device library: a device registers how columns are loaded to it, a face asks by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from polyvec.core.errors import DeviceError, DeviceWarning, InputError, MissingExtra
from polyvec.core.providers import summon
from polyvec.core.selection import bounds

if TYPE_CHECKING:
    from polyvec.core.columns import Column

# What the GPU side is called, so that faces can name it where it is not installed.
KNOWN = {"cuda": ("cuda", "triton")}


class Load(Protocol):
    """Rows ``start`` to ``stop`` of a column as a framework's array on a device; `Corrupt` where a checksum fails."""

    def __call__(
        self,
        column: Column,
        *,
        device: str,
        framework: str,
        backend: str,
        dtype: str | None,
        start: int,
        stop: int,
        check: bool,
        out: Any = None,
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device: how columns get there, its backends, and why some of them cannot run here."""

    name: str
    load: Load
    backends: tuple[str, ...]
    errors: Callable[[], Mapping[str, str]]


_devices: dict[str, Device] = {}


def register(device: Device) -> None:
    """Make a device known; one of the same name is replaced."""
    _devices[device.name] = device


def unregister(name: str) -> None:
    """Forget a device."""
    _devices.pop(name, None)


def status() -> dict[str, str | None]:
    """Every device backend with the reason why it cannot be used; None where it can."""
    summon()
    found: dict[str, str | None] = {}
    for names in KNOWN.values():
        found |= {name: f"the {name} backend is not installed; pip install 'polyvec[gpu]'" for name in names}
    for device in _devices.values():
        broken = device.errors()
        found |= {name: broken.get(name) for name in device.backends}
    return found


def find(device: str, backend: str = "auto") -> Device:
    """A device that can run the backend; `MissingExtra` or `DeviceError`, with the reason, where it cannot."""
    summon()
    kind = device.split(":")[0]
    names = {**KNOWN, **{d.name: d.backends for d in _devices.values()}}
    if kind not in names:
        raise InputError(f"unknown device {device!r}; there are cpu, {', '.join(sorted(names))}")
    if backend not in ("auto", *names[kind]):
        raise InputError(
            f"backend {backend!r} does not run on device {device!r}; there are auto, {', '.join(names[kind])}"
        )
    found = _devices.get(kind)
    if found is None:
        raise MissingExtra("torch and triton", extra="gpu", purpose=f"arrays on device {device!r}")
    broken = found.errors()
    if (backend == "auto" and set(found.backends) <= set(broken)) or backend in broken:
        reason = broken.get(backend) or "; ".join(dict.fromkeys(broken.values()))
        if "pip install" in reason:
            raise MissingExtra("a GPU library", extra="gpu", purpose=f"arrays on device {device!r} ({reason})")
        raise DeviceError(f"device {device!r} cannot be used: {reason}; load with device='cpu'")
    return found


def load_column(
    column: Column,
    device: str = "cpu",
    *,
    framework: str = "torch",
    backend: str = "auto",
    dtype: str | None = None,
    out: Any = None,
    start: int = 0,
    stop: int | None = None,
    check: bool = True,
) -> Any:
    """Rows of a column as a framework's array on a device.

    With ``backend="auto"`` a device that is missing, full or failing gives an array in this process's memory instead,
    with a `DeviceWarning`; a backend asked for by name gives the error.
    """
    start, stop = bounds(start, stop, column.rows)
    if device != "cpu":
        try:
            found = find(device, backend)
            return found.load(
                column,
                device=device,
                framework=framework,
                backend=backend,
                dtype=dtype,
                out=out,
                start=start,
                stop=stop,
                check=check,
            )
        except (DeviceError, MissingExtra) as error:
            if backend != "auto" or out is not None:
                raise
            warn_of_fallback(error, stacklevel=4)
    return in_host_memory(column[start:stop], framework=framework, dtype=dtype, out=out)


def warn_of_fallback(error: Exception, *, stacklevel: int) -> None:
    """Say that the CPU does what a device was asked for, and why."""
    warnings.warn(f"{error}; the rows are loaded on the CPU instead", DeviceWarning, stacklevel=stacklevel)


def in_host_memory(rows: Any, *, framework: str, dtype: str | None = None, out: Any = None) -> Any:
    """Rows as a framework's array in this process's memory: a torch tensor, or NumPy's where a framework has none."""
    if framework == "torch":
        return _tensor(rows, dtype, out)
    if dtype is None or rows.dtype.name == dtype:
        return rows
    if dtype == "bfloat16":
        import ml_dtypes

        return rows.astype(ml_dtypes.bfloat16)
    return rows.astype(dtype)


def _tensor(rows: Any, dtype: str | None, out: Any) -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="gpu", purpose="torch tensors") from None
    if rows.dtype.name == "bfloat16":
        tensor = torch.from_numpy(rows.view("i2")).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(rows)
    if dtype is not None:
        tensor = tensor.to(getattr(torch, dtype))
    return tensor if out is None else out.copy_(tensor)
