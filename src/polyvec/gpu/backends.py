"""Which kernels can run here, and why not the others."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from polyvec.core.errors import DeviceError, InputError, MissingExtra
from polyvec.gpu import plan
from polyvec.gpu.memory import Memory

BACKENDS = ("cuda", "triton")  # in the order "auto" tries them

Decode = Callable[[Any, plan.Buffer, Any], None]


@cache
def installed(name: str) -> bool:
    """Whether a package can be imported; looked up once, since a search of the path costs more than a launch."""
    return importlib.util.find_spec(name) is not None


def errors() -> dict[str, str]:
    """For each backend that cannot run, the reason and the remedy."""
    found: dict[str, str] = {}
    if not installed("torch") and not installed("cupy"):
        reason = "neither torch nor cupy is installed; pip install 'polyvec[gpu]'"
        return dict.fromkeys(BACKENDS, reason)
    if not _driver():
        return dict.fromkeys(BACKENDS, "no CUDA device was found; check the driver (nvidia-smi)")
    if not installed("cupy") and not _torch_compiles():
        found["cuda"] = "CUDA C++ is compiled through cupy or torch 2.9 and later; pip install cupy-cuda13x"
    if not installed("triton") or not installed("torch"):
        found["triton"] = "Triton needs torch and triton; pip install 'polyvec[gpu]'"
    return found


_driven: set[str] = set()  # frameworks that found a device: it stays, while one that is missing may still come


def _driver() -> bool:
    framework = "torch" if installed("torch") else "cupy"
    if framework not in _driven and _devices(framework):
        _driven.add(framework)
    return framework in _driven


def _devices(framework: str) -> int:
    if framework == "torch":
        import torch

        return int(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # whatever cupy raises without a driver: there is no device
        return 0


def _torch_compiles() -> bool:
    if not installed("torch"):
        return False
    import torch

    return hasattr(torch.cuda, "_compile_kernel")


def choose(backend: str, memory: Memory) -> Decode:
    """The decoder of a backend: ``decode(device buffer, plan buffer, flat output)``, launched on the decoding stream."""
    if backend not in ("auto", *BACKENDS):
        raise InputError(f"unknown backend {backend!r}; there are auto, {', '.join(BACKENDS)}")
    if memory.name == "host":
        return triton_decoder(memory)
    broken = errors()
    wanted = [b for b in BACKENDS if b not in broken and (b != "triton" or memory.name == "torch")]
    if backend == "auto" and wanted:
        return decoder(wanted[0], memory)
    if backend in wanted:
        return decoder(backend, memory)
    reason = (
        broken.get(backend)
        or "; ".join(sorted(set(broken.values())))
        or "triton works on torch memory: framework='torch'"
    )
    if "pip install" in reason:
        raise MissingExtra(backend, extra="gpu", purpose=f"GPU kernels ({reason})")
    raise DeviceError(f"backend {backend!r} cannot run here: {reason}")


def decoder(backend: str, memory: Memory) -> Decode:
    """The decoder of one backend."""
    return triton_decoder(memory) if backend == "triton" else cuda_decoder(memory)


def cuda_decoder(memory: Any) -> Decode:
    """CUDA C++, compiled on first use."""
    from polyvec.gpu import cuda_kernels

    if installed("cupy"):

        def decode(device: Any, buffer: plan.Buffer, out: Any) -> None:
            launch = cuda_kernels.compiled(cuda_kernels.NAMES[_dtype(out)])
            base = _pointer(device)
            stream = getattr(memory.decoding, "cuda_stream", None) or memory.decoding.ptr
            launch(buffer.tiles, base, base + buffer.tiles_at, _pointer(out), stream)

        return decode

    def decode_by_torch(device: Any, buffer: plan.Buffer, out: Any) -> None:
        kernel = cuda_kernels.compiled_by_torch(cuda_kernels.NAMES[_dtype(out)])
        tiles = device[buffer.tiles_at :].view(memory.torch.int64) if buffer.tiles_at % 8 == 0 else None
        kernel(
            grid=(buffer.tiles, 1, 1),
            block=(cuda_kernels.THREADS, 1, 1),
            args=[device, tiles, out],
            stream=memory.decoding,
        )

    return decode_by_torch


def triton_decoder(memory: Any) -> Decode:
    """Triton, on the decoding stream; in host memory through its interpreter."""
    from polyvec.gpu import triton_kernels

    torch = memory.torch

    def decode(device: Any, buffer: plan.Buffer, out: Any) -> None:
        table = device[: buffer.table.nbytes].view(torch.int64)
        tiles = device[buffer.tiles_at : buffer.tiles_at + buffer.tiles * 16].view(torch.int64)
        kinds = buffer.table[:, plan.KIND]
        aligned = bool((buffer.table[:, plan.TARGET] % 16 == 0).all())
        widths = {4 if kind == plan.COPY32 else 2 if kind <= plan.BRAIN else 1 for kind in set(kinds.tolist())}
        usable = device[: len(device) // 4 * 4]
        if memory.name == "host":
            triton_kernels.launch(usable, table, tiles, out, count=buffer.tiles, widths=widths, aligned=aligned)
        else:
            with torch.cuda.stream(memory.decoding):
                triton_kernels.launch(usable, table, tiles, out, count=buffer.tiles, widths=widths, aligned=aligned)

    return decode


def _dtype(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def _pointer(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    return int(array.data_ptr()) if hasattr(array, "data_ptr") else int(array.data.ptr)
