"""Devices: found by name, refused with the reason, and replaced by this process's memory only where that was allowed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyvec.core import devices
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import DeviceError, DeviceWarning, InputError, MissingExtra
from polyvec.testing import vectors

ROWS = vectors(9, 3)
COLUMN = ArrayColumn("v", ROWS)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.summon()
    monkeypatch.setattr(devices, "_devices", {})


def register(errors: dict[str, str] | None = None, load: Any = None) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def remember(column: Any, **options: Any) -> str:
        asked.append(options)
        return "loaded"

    devices.register(devices.Device("odd", load or remember, ("fast", "slow"), lambda: errors or {}))
    return asked


def test_a_device_is_asked_for_the_rows_that_python_cuts() -> None:
    asked = register()
    assert devices.load_column(COLUMN, "odd:1", backend="slow", start=-2, stop=99, framework="x") == "loaded"
    assert asked[0]["start"] == 7 and asked[0]["stop"] == 9
    assert asked[0]["device"] == "odd:1" and asked[0]["backend"] == "slow"


def test_what_is_not_known_is_told_with_what_is() -> None:
    register()
    with pytest.raises(InputError, match="unknown device 'tpu'; there are cpu, cuda, odd"):
        devices.find("tpu")
    with pytest.raises(InputError, match="backend 'warp' does not run on device 'odd'; there are auto, fast, slow"):
        devices.find("odd", "warp")
    with pytest.raises(MissingExtra, match=r"polyvec\[gpu\]"):
        devices.find("cuda")


def test_auto_takes_a_device_while_one_backend_runs_and_a_name_asks_for_that_one() -> None:
    register({"fast": "no memory"})
    assert devices.find("odd").name == "odd" and devices.find("odd", "slow").name == "odd"
    with pytest.raises(DeviceError, match="cannot be used: no memory; load with device='cpu'"):
        devices.find("odd", "fast")
    register({"fast": "no memory", "slow": "no memory"})
    with pytest.raises(DeviceError, match="cannot be used: no memory;"):
        devices.find("odd")
    register({"fast": "pip install x", "slow": "pip install x"})
    with pytest.raises(MissingExtra, match="pip install x"):
        devices.find("odd")


def test_status_lists_every_backend_with_its_reason() -> None:
    register({"fast": "no memory"})
    found = devices.status()
    assert found["fast"] == "no memory" and found["slow"] is None and "not installed" in str(found["cuda"])
    devices.unregister("odd")
    assert "fast" not in devices.status()


def test_a_failing_device_falls_back_aloud_and_only_with_auto() -> None:
    def load(*_: Any, **__: Any) -> None:
        raise DeviceError("full")

    register(load=load)
    with pytest.warns(DeviceWarning, match="full; the rows are loaded on the CPU instead"):
        found = devices.load_column(COLUMN, "odd", framework="numpy", start=2, stop=4)
    assert np.array_equal(found, ROWS[2:4])
    with pytest.raises(DeviceError):
        devices.load_column(COLUMN, "odd", backend="slow", framework="numpy")
    with pytest.raises(DeviceError):
        devices.load_column(COLUMN, "odd", framework="numpy", out=np.empty((9, 3)))


def test_host_memory_gives_the_dtype_asked_for() -> None:
    assert devices.in_host_memory(ROWS, framework="numpy") is ROWS
    assert devices.in_host_memory(ROWS, framework="numpy", dtype="float16").dtype == np.float16
    assert devices.in_host_memory(ROWS, framework="numpy", dtype="bfloat16").dtype == ml_dtypes.bfloat16


def test_torch_gets_its_own_kinds() -> None:
    torch = pytest.importorskip("torch")
    halves = ROWS.astype(ml_dtypes.bfloat16)
    found = devices.in_host_memory(halves, framework="torch")
    assert found.dtype == torch.bfloat16 and np.array_equal(found.float().numpy(), halves.astype(np.float32))
    out = torch.empty((9, 3), dtype=torch.float64)
    assert devices.in_host_memory(ROWS, framework="torch", out=out) is out
    assert np.array_equal(out.numpy(), ROWS.astype(np.float64))
