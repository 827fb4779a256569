"""The device that the package offers: named, with its backends, and nothing heavy until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import polyvec as pv
from polyvec import gpu
from polyvec.core import devices
from polyvec.gpu import backends, pipeline

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_auto_falls_back_and_a_named_backend_says_why(tmp_path):
    pv.write(tmp_path / "a.fbin", np.eye(4, dtype=np.float32))
    with pv.open(tmp_path / "a.fbin") as c:
        with pytest.warns(pv.DeviceWarning, match="on the CPU instead"):
            assert c.vectors.to_torch("cuda").device.type == "cpu"
        for backend in ("cuda", "triton"):
            with pytest.raises(pv.DeviceError, match="nvidia-smi"):
                c.vectors.to_torch("cuda", backend=backend)
        with pytest.raises(pv.InputError, match="unknown device"):
            c.vectors.to_torch("tpu")
        assert torch.equal(c.vectors.to_torch(), torch.eye(4))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_nothing_heavy_is_imported_until_a_device_is_asked_for(tmp_path):
    pv.write(tmp_path / "a.fbin", np.eye(4, dtype=np.float32))
    code = (
        "import sys, polyvec as pv; c = pv.open('a.fbin'); c.vectors[:]; import polyvec.gpu, polyvec.cvc\n"
        "print(sorted({'torch', 'triton', 'cupy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_device_is_registered_with_its_backends_in_their_order():
    found = devices._devices["cuda"]
    assert (found.name, found.backends) == ("cuda", backends.BACKENDS)


def test_loads_and_errors_are_those_of_the_pipeline_and_the_backends(monkeypatch):
    monkeypatch.setattr(pipeline, "load_column", lambda column, **options: (column, options))
    monkeypatch.setattr(backends, "errors", lambda: {"cuda": "why"})
    assert gpu._load("column", device="cuda:1", check=False) == ("column", {"device": "cuda:1", "check": False})
    assert gpu._errors() == {"cuda": "why"}
