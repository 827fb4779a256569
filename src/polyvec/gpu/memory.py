"""Memory and streams of a framework: torch, cupy, or plain host memory for tests without a GPU.

The pipeline needs little: slots of pinned bytes that NumPy can fill with as many device bytes, and two streams.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import DeviceError, MissingExtra


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one buffer on both sides of the bus, with the two events of its way; all of it is used again."""

    pinned: Any
    view: NDArray[np.uint8]  # the pinned bytes
    device: Any
    arrived: Any = None
    decoded: Any = None


class Memory(Protocol):
    """What the pipeline asks of a framework."""

    name: str
    place_name: str  # which device, so that slots can be kept for it

    def slot(self, size: int) -> Slot:
        """Room for a buffer, page-locked here and on the device."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An array on the device."""

    def running(self) -> AbstractContextManager[Any]:
        """The context a load runs in."""

    def copy(self, slot: Slot, size: int) -> None:
        """Start copying ``size`` bytes of a slot to the device; what is decoded from now on waits for them."""

    def place(self, target: Any, start: int, source: Any, at: int, size: int) -> None:
        """Copy bytes on the device, in the decoding stream."""

    def mark(self, slot: Slot) -> None:
        """Say that everything which reads a slot has been launched."""

    def wait(self, slot: Slot) -> None:
        """Wait on the CPU until a marked slot is free."""

    def finish(self) -> None:
        """Wait until everything is done, so that any stream sees it."""


class TorchMemory:
    """torch tensors on a CUDA device."""

    name = "torch"

    def __init__(self, device: str) -> None:
        torch = import_torch()
        if not torch.cuda.is_available():
            raise DeviceError("torch sees no CUDA device; check the driver (nvidia-smi), or load with device='cpu'")
        self.torch = torch
        named = torch.device(device)  # "cuda" is the current device, which may be another one at the next load
        self.device = torch.device("cuda", torch.cuda.current_device() if named.index is None else named.index)
        self.place_name = str(self.device)
        with torch.cuda.device(self.device):
            self.copying = torch.cuda.Stream()
            self.decoding = torch.cuda.Stream()

    def slot(self, size: int) -> Slot:
        pinned = self.torch.empty(size, dtype=self.torch.uint8, pin_memory=True)
        event = self.torch.cuda.Event
        return Slot(pinned, pinned.numpy(), self.empty((size,), "uint8"), event(), event())

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        kind = getattr(self.torch, dtype)
        try:
            return self.torch.empty(shape, dtype=kind, device=self.device)
        except self.torch.cuda.OutOfMemoryError:
            size = prod(shape) * kind.itemsize
            free = self.torch.cuda.mem_get_info(self.device)[0]
            raise DeviceError(
                f"the GPU has {free / 1e9:.1f} GB free and {size / 1e9:.1f} GB are needed; load fewer rows "
                "(rows=), a narrower dtype, or stream with batches(device='cuda')"
            ) from None

    def running(self) -> AbstractContextManager[Any]:
        # The output may be memory that the caller's stream has not let go of yet.
        self.decoding.wait_stream(self.torch.cuda.current_stream(self.device))
        # The copying stream is the current one throughout: entering it for each copy costs as much as the copy's launch.
        return self.torch.cuda.stream(self.copying)  # type: ignore[no-any-return]

    def copy(self, slot: Slot, size: int) -> None:
        slot.device[:size].copy_(slot.pinned[:size], non_blocking=True)
        slot.arrived.record(self.copying)
        self.decoding.wait_event(slot.arrived)

    def place(self, target: Any, start: int, source: Any, at: int, size: int) -> None:
        with self.torch.cuda.stream(self.decoding):
            target[start : start + size].copy_(source[at : at + size])

    def mark(self, slot: Slot) -> None:
        slot.decoded.record(self.decoding)

    def wait(self, slot: Slot) -> None:
        slot.decoded.synchronize()

    def finish(self) -> None:
        self.decoding.synchronize()


class CupyMemory:
    """cupy arrays on a CUDA device."""

    name = "cupy"

    def __init__(self, device: str) -> None:
        cupy = import_cupy()
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(f"cupy sees no CUDA device ({error}); check the driver (nvidia-smi)") from None
        number = int(device.partition(":")[2] or 0)
        if number >= count:
            raise DeviceError(f"{device}: there are {count} CUDA devices")
        self.cupy = cupy
        self.place_name = f"cuda:{number}"
        cupy.cuda.Device(number).use()
        self.copying = cupy.cuda.Stream(non_blocking=True)
        self.decoding = cupy.cuda.Stream(non_blocking=True)

    def slot(self, size: int) -> Slot:
        view = np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        arrived, decoded = (self.cupy.cuda.Event(disable_timing=True) for _ in range(2))
        return Slot(view, view, self.empty((size,), "uint8"), arrived, decoded)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        import ml_dtypes

        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        try:
            return self.cupy.empty(shape, kind)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise DeviceError(f"{error}; load fewer rows (rows=) or stream with batches(device='cuda')") from None

    def running(self) -> AbstractContextManager[Any]:
        # The output may be memory that the caller's stream has not let go of yet.
        self.decoding.wait_event(self.cupy.cuda.get_current_stream().record())
        return self.copying  # type: ignore[no-any-return]

    def copy(self, slot: Slot, size: int) -> None:
        slot.device.data.copy_from_host_async(slot.view.ctypes.data, size, self.copying)
        slot.arrived.record(self.copying)
        self.decoding.wait_event(slot.arrived)

    def place(self, target: Any, start: int, source: Any, at: int, size: int) -> None:
        with self.decoding:
            target[start : start + size] = source[at : at + size]

    def mark(self, slot: Slot) -> None:
        slot.decoded.record(self.decoding)

    def wait(self, slot: Slot) -> None:
        slot.decoded.synchronize()

    def finish(self) -> None:
        self.decoding.synchronize()


class HostMemory:
    """torch tensors in ordinary memory: the pipeline without a GPU, for tests."""

    name = "host"
    place_name = "cpu"

    def __init__(self) -> None:
        self.torch = import_torch()

    def slot(self, size: int) -> Slot:
        pinned = self.empty((size,), "uint8")
        return Slot(pinned, pinned.numpy(), self.empty((size,), "uint8"))

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype))

    def running(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def copy(self, slot: Slot, size: int) -> None:
        slot.device[:size].copy_(slot.pinned[:size])

    def place(self, target: Any, start: int, source: Any, at: int, size: int) -> None:
        target[start : start + size].copy_(source[at : at + size])

    def mark(self, slot: Slot) -> None: ...

    def wait(self, slot: Slot) -> None: ...

    def finish(self) -> None: ...


def import_torch() -> Any:
    """torch, or what to install."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="gpu", purpose="tensors on a GPU") from None
    return torch


def import_cupy() -> Any:
    """cupy, or what to install."""
    try:
        import cupy
    except ImportError:
        raise MissingExtra("cupy", extra="gpu", purpose="framework='cupy' arrays") from None
    return cupy
