"""Memory: slots that NumPy fills, copies of so many bytes, and one clear line where a device is missing or full."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import polyvec as pv
from polyvec.gpu.memory import CupyMemory, HostMemory, TorchMemory, import_cupy, import_torch


@pytest.fixture
def host():
    pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
    return HostMemory()


def test_what_is_written_to_a_slot_arrives_and_no_more(host):
    slot = host.slot(10)
    assert slot.view.shape == (10,) and slot.view.dtype == np.uint8
    slot.device.fill_(9)
    slot.view[:] = np.arange(10)
    host.copy(slot, 4)
    assert slot.device.tolist() == [0, 1, 2, 3, 9, 9, 9, 9, 9, 9]


def test_bytes_are_placed_where_they_belong(host):
    source, target = host.empty((6,), "uint8"), host.empty((8,), "uint8")
    source.copy_(host.torch.arange(6))
    target.fill_(0)
    host.place(target, 3, source, 2, 4)
    assert target.tolist() == [0, 0, 0, 2, 3, 4, 5, 0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
def test_arrays_have_the_shape_and_dtype_asked_for(host, dtype):
    found = host.empty((2, 3), dtype)
    assert tuple(found.shape) == (2, 3) and found.dtype == getattr(host.torch, dtype)


@pytest.mark.parametrize(("load", "name"), [(import_torch, "torch"), (import_cupy, "cupy")])
def test_a_missing_framework_says_what_to_install(load, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(pv.MissingExtra, match=r"polyvec\[gpu\]"):
        load()


SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "uint8": 1}


class OutOfMemory(Exception):
    pass


def test_torch_without_a_device_and_with_a_full_one_are_one_clear_line(monkeypatch):
    def full(*_, **__):
        raise OutOfMemory

    cuda = SimpleNamespace(
        is_available=lambda: False, OutOfMemoryError=OutOfMemory, mem_get_info=lambda device: (2_500_000_000, 0)
    )
    torch = SimpleNamespace(
        cuda=cuda, empty=full, **{name: SimpleNamespace(itemsize=size) for name, size in SIZES.items()}
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(pv.DeviceError, match=r"torch sees no CUDA device; .*device='cpu'"):
        TorchMemory("cuda")
    memory = TorchMemory.__new__(TorchMemory)
    memory.torch, memory.device = torch, "cuda:0"
    with pytest.raises(
        pv.DeviceError, match=r"^the GPU has 2.5 GB free and 8.0 GB are needed; load fewer rows \(rows=\)"
    ):
        memory.empty((1000, 2_000_000), "float32")
    for dtype, size in SIZES.items():
        with pytest.raises(pv.DeviceError, match=rf"and {size}\.0 GB are needed"):
            memory.empty((500, 2_000_000), dtype)


def test_cupy_without_such_a_device_and_with_a_full_one_are_one_clear_line(monkeypatch):
    class NoDriver(Exception):
        pass

    def full(*_):
        raise OutOfMemory("Out of memory allocating 8 bytes")

    used = []
    runtime = SimpleNamespace(CUDARuntimeError=NoDriver, getDeviceCount=lambda: 2)
    cuda = SimpleNamespace(
        runtime=runtime,
        Device=lambda number: SimpleNamespace(use=lambda: used.append(number)),
        Stream=lambda **_: object(),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=full))
    assert [CupyMemory(device).place_name for device in ("cuda", "cuda:1")] == ["cuda:0", "cuda:1"] and used == [0, 1]
    with pytest.raises(pv.DeviceError, match=r"^cuda:2: there are 2 CUDA devices$"):
        CupyMemory("cuda:2")
    with pytest.raises(pv.DeviceError, match=r"^Out of memory allocating 8 bytes; load fewer rows \(rows=\)"):
        CupyMemory("cuda").empty((2,), "bfloat16")

    def fail():
        raise NoDriver("no driver")

    runtime.getDeviceCount = fail
    with pytest.raises(pv.DeviceError, match=r"^cupy sees no CUDA device \(no driver\); check the driver"):
        CupyMemory("cuda")
