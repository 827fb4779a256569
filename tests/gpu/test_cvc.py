"""load_cvc on a device: every compression, ranges, columns, sections, other dtypes; equal to the CPU bit for bit."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="triton is not installed: no GPU tests")

import polyvec as pv  # noqa: E402
from polyvec import cvc  # noqa: E402
from polyvec.core import devices  # noqa: E402
from polyvec.gpu.pipeline import load_column  # noqa: E402


@pytest.fixture
def device():
    """A GPU, or the pipeline in host memory under the name of one."""
    if torch.cuda.is_available():
        yield "cuda"
        return

    def load(column, *, device, **options):
        return load_column(column, device="host", **options)

    devices.register(devices.Device("host", load, ("triton",), dict))
    yield "host"
    devices.unregister("host")


ROWS = np.random.default_rng(6).standard_normal((250, 24)).astype(np.float32)


def same(tensor, array):
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@pytest.mark.parametrize("compression", ["fp16", "int8", "none", "lossless"])
@pytest.mark.parametrize("layout", ["document", "versioned"])
def test_every_compression(device, tmp_path, compression, layout):
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, compression=compression, chunk_size=64, layout=layout)
    same(cvc.load_cvc(path, device=device), cvc.load_cvc(path))
    same(cvc.load_cvc(path, device=device, rows=slice(50, 201)), cvc.load_cvc(path, rows=slice(50, 201)))


def test_out_and_other_dtypes(device, tmp_path):
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, compression="int8", chunk_size=100)
    expected = torch.from_numpy(cvc.load_cvc(path))
    for name in ("float16", "bfloat16"):
        found = cvc.load_cvc(path, device=device, dtype=name)
        assert torch.equal(found.cpu(), expected.to(getattr(torch, name)))
    out = torch.empty(ROWS.shape, device="cpu" if device == "host" else device)
    assert cvc.load_cvc(path, device=device, out=out) is out
    assert torch.equal(out.cpu(), expected)
    with pytest.raises(pv.InputError, match="dtype"):
        cvc.load_cvc(path, dtype="float16")


def test_columns_and_sections(device, tmp_path):
    path = tmp_path / "c.cvc"
    data = {"text": ROWS, "image": ROWS[:, :5].copy(), "doc_id": np.arange(250, dtype=np.int32)[:, None]}
    cvc.pack_cvc_columns(data, path, compressions={"text": "fp16", "image": "int8", "doc_id": "none"}, chunk_size=70)
    on_device, on_cpu = cvc.load_cvc_columns(path, device=device), cvc.load_cvc_columns(path)
    for name in data:
        same(on_device[name], on_cpu[name])
    sections = tmp_path / "s.cvc"
    cvc.pack_cvc_sections([(ROWS[:100], {"lang": "de"}), (ROWS[100:], {"lang": "fr"})], sections, chunk_size=60)
    wanted = {"section_key": "lang", "section_value": "fr"}
    same(cvc.load_cvc_range(sections, device=device, **wanted), cvc.load_cvc_range(sections, **wanted))


def test_a_damaged_chunk_is_named(device, tmp_path):
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(ROWS, path, compression="fp16", chunk_size=64)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(cvc.CorruptedChunkError, match="checksum"):
        cvc.load_cvc(path, device=device)
