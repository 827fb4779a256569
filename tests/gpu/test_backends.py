"""Backends: which can run, the reason where one cannot, and what is chosen."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

import polyvec as pv
from polyvec.gpu import backends


def test_packages_are_looked_for_once_and_a_missing_device_again(monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: asked.append(name) or object())
    monkeypatch.setattr(backends, "_driven", set())
    answers = iter([0, 0, 1])
    monkeypatch.setattr(backends, "_devices", lambda framework: next(answers))
    backends.installed.cache_clear()
    try:
        assert ["nvidia-smi" in str(backends.errors()) for _ in range(5)] == [True, True, False, False, False]
        assert len(asked) == len(set(asked))
    finally:
        backends.installed.cache_clear()


@pytest.fixture
def machine(monkeypatch):
    """A machine with these packages, and a device or none."""

    def make(*packages, device=True, compiles=True):
        monkeypatch.setattr(backends, "installed", lambda name: name in packages)
        monkeypatch.setattr(backends, "_driver", lambda: device)
        monkeypatch.setattr(backends, "_torch_compiles", lambda: compiles and "torch" in packages)
        monkeypatch.setattr(backends, "decoder", lambda backend, memory: (backend, memory.name))

    return make


def memory(name):
    return SimpleNamespace(name=name)


def test_each_thing_that_is_missing_has_its_own_remedy(machine):
    machine()
    assert set(backends.errors()) == {"cuda", "triton"}
    assert set(backends.errors().values()) == {"neither torch nor cupy is installed; pip install 'polyvec[gpu]'"}
    machine("torch", "triton", device=False)
    assert set(backends.errors().values()) == {"no CUDA device was found; check the driver (nvidia-smi)"}
    machine("torch", "triton", compiles=False)
    assert list(backends.errors()) == ["cuda"] and "pip install cupy" in backends.errors()["cuda"]
    machine("cupy")
    assert list(backends.errors()) == ["triton"] and "needs torch and triton" in backends.errors()["triton"]
    machine("torch", "triton")
    assert backends.errors() == {}


def test_auto_takes_the_first_that_runs(machine):
    machine("torch", "triton")
    assert backends.choose("auto", memory("torch")) == ("cuda", "torch")
    machine("torch", "triton", compiles=False)
    assert backends.choose("auto", memory("torch")) == ("triton", "torch")
    machine("torch", "triton", "cupy")
    assert backends.choose("auto", memory("cupy")) == ("cuda", "cupy")


def test_a_backend_by_name_is_taken_or_says_why_not(machine):
    machine("torch", "triton", "cupy")
    assert backends.choose("triton", memory("torch")) == ("triton", "torch")
    with pytest.raises(pv.DeviceError, match=r"'triton' cannot run here: triton works on torch memory"):
        backends.choose("triton", memory("cupy"))
    machine("torch", "triton", device=False)
    for backend in ("auto", "cuda", "triton"):
        with pytest.raises(pv.DeviceError, match=rf"^backend '{backend}' cannot run here: no CUDA device was found"):
            backends.choose(backend, memory("torch"))
    machine()
    with pytest.raises(pv.MissingExtra, match=r"polyvec\[gpu\]"):
        backends.choose("cuda", memory("torch"))


def test_an_unknown_backend_is_refused_on_every_machine(machine):
    machine()
    for name in ("host", "torch"):
        with pytest.raises(pv.InputError, match=r"^unknown backend 'metal'; there are auto, cuda, triton$"):
            backends.choose("metal", memory(name))


def test_a_broken_driver_is_no_device(monkeypatch):
    def fail():
        raise RuntimeError("no driver")

    runtime = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=fail))
    monkeypatch.setitem(__import__("sys").modules, "cupy", SimpleNamespace(cuda=runtime))
    assert backends._devices("cupy") == 0
    runtime.runtime.getDeviceCount = lambda: 2
    assert backends._devices("cupy") == 2


def test_arrays_of_every_framework_tell_their_address_and_dtype():
    array = np.zeros(3, np.float16)
    assert backends._pointer(array) == array.ctypes.data and backends._dtype(array) == "float16"
    tensor = SimpleNamespace(data_ptr=lambda: 77, dtype="torch.bfloat16")
    assert backends._pointer(tensor) == 77 and backends._dtype(tensor) == "bfloat16"
    assert backends._pointer(SimpleNamespace(data=SimpleNamespace(ptr=78))) == 78
