"""Without a GPU: what was asked of one with backend="auto" is done on the CPU, with a warning; nothing is faked."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.core import devices

ROWS = np.random.default_rng(7).standard_normal((60, 8)).astype(np.float32)
LOADERS = {
    "load_cvc": lambda path, **how: cvc.load_cvc(path, **how),
    "rows": lambda path, **how: cvc.load_cvc(path, rows=slice(5, 40), **how),
    "range": lambda path, **how: cvc.load_cvc_range(path, [0, 2], **how),
    "chunked": lambda path, **how: [array for _, array in cvc.load_cvc_chunked(path, **how)][1],
}


@pytest.fixture(params=["no device", "no library", "full"])
def broken(request, monkeypatch):
    """A device named cuda that cannot be used, in three ways."""
    reasons = {"no device": "no CUDA device was found", "no library": "pip install 'polyvec[gpu]'"}

    def load(*_, **__):
        raise pv.DeviceError("out of memory on device 'cuda'")

    why = reasons.get(request.param)
    broken = {} if why is None else {"cuda": why, "triton": why}
    monkeypatch.setattr(devices, "_devices", {"cuda": devices.Device("cuda", load, ("cuda", "triton"), lambda: broken)})
    return request.param


@pytest.fixture
def path(tmp_path):
    cvc.pack_cvc(ROWS, tmp_path / "a.cvc", compression="int8", chunk_size=20)
    return tmp_path / "a.cvc"


@pytest.mark.parametrize("loader", sorted(LOADERS))
def test_auto_loads_on_the_cpu_and_warns(broken, path, loader):
    torch = pytest.importorskip("torch")
    with pytest.warns(pv.DeviceWarning, match="the rows are loaded on the CPU instead"):
        found = LOADERS[loader](path, device="cuda")
    assert isinstance(found, torch.Tensor) and found.device.type == "cpu"
    np.testing.assert_array_equal(found.numpy(), LOADERS[loader](path))


def test_arrays_of_cupy_are_numpys_in_host_memory(broken, path):
    with pytest.warns(pv.DeviceWarning):
        found = cvc.load_cvc(path, device="cuda", framework="cupy")
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, cvc.load_cvc(path))
    with pytest.warns(pv.DeviceWarning):
        assert cvc.load_cvc(path, device="cuda", framework="cupy", dtype="float16").dtype == np.float16


def test_columns_and_mapped_files_fall_back_too(broken, tmp_path):
    torch = pytest.importorskip("torch")
    cvc.pack_cvc_columns({"a": ROWS, "n": np.arange(60, dtype=np.int32)}, tmp_path / "c.cvc", {"n": "none"})
    with pytest.warns(pv.DeviceWarning):
        found = cvc.load_cvc_columns(tmp_path / "c.cvc", device="cuda")
    assert torch.equal(found["n"], torch.arange(60, dtype=torch.int32)) and found["a"].shape == (60, 8)
    cvc.pack_cvc(ROWS, tmp_path / "m.cvc", chunk_size=20, mmap_optimized=True)
    with cvc.MMapCVCLoader(tmp_path / "m.cvc") as loader, pytest.warns(pv.DeviceWarning):
        assert loader.load_chunk(1, device="cuda").shape == (20, 8)


def test_the_dtype_asked_for_is_given(broken, path):
    torch = pytest.importorskip("torch")
    with pytest.warns(pv.DeviceWarning):
        found = cvc.load_cvc(path, device="cuda", dtype="bfloat16")
    assert torch.equal(found, torch.from_numpy(cvc.load_cvc(path)).to(torch.bfloat16))


def test_a_backend_by_name_or_an_array_there_is_an_error(broken, path):
    for backend in ("cuda", "triton"):
        with pytest.raises((pv.DeviceError, pv.MissingExtra)):
            cvc.load_cvc(path, device="cuda", backend=backend)
    with (
        pytest.raises((pv.DeviceError, pv.MissingExtra)),
        pytest.warns(pv.DeviceWarning) if broken != "full" else nothing(),
    ):
        cvc.load_cvc(path, device="cuda", out=np.empty_like(ROWS))
    with pytest.raises(pv.InputError, match="unknown device"):
        cvc.load_cvc(path, device="tpu")


def nothing():
    from contextlib import nullcontext

    return nullcontext()
