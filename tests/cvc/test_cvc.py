"""The CVC face: the peer's names and defaults, what it tells of a file, and who it asks for devices."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc, kernels
from polyvec.core import devices
from polyvec.core.sources import open_source
from polyvec.formats.cvc.header import read_header
from polyvec.testing import vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "cvc"
ROWS = vectors(1000, 8)
HALF = ROWS.astype(np.float16).astype(np.float32)


def flip(path: Path, chunk: int, at: int = 3) -> None:
    """Damage a chunk."""
    data = bytearray(path.read_bytes())
    data[read_header(open_source(path)).chunks[chunk].payload + at] ^= 1
    path.write_bytes(data)


# -- names


def test_names_arguments_and_defaults_are_the_peers() -> None:
    signatures = {
        "load_cvc": [
            "path",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "on_corruption='raise'",
            "fill_value=0.0",
        ],
        "pack_cvc": [
            "vectors",
            "output_path",
            "compression='fp16'",
            "chunk_size=100000",
            "chunk_metadata=None",
            "mmap_optimized=False",
        ],
        "pack_cvc_sections": ["sections", "output_path", "compression='fp16'", "chunk_size=100000"],
        "pack_cvc_columns": ["data", "output_path", "compressions=None", "chunk_size=100000"],
        "pack_cvc_sections_columnar": ["sections", "output_path", "compressions=None", "chunk_size=100000"],
        "load_cvc_chunked": ["path", "chunk_indices=None", "device='cpu'", "framework='torch'", "backend='auto'"],
        "load_cvc_range": [
            "path",
            "chunk_indices=None",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "metadata_key=None",
            "metadata_value=None",
            "section_key=None",
            "section_value=None",
        ],
        "load_cvc_columns": [
            "path",
            "columns=None",
            "device='cpu'",
            "framework='torch'",
            "backend='auto'",
            "section_key=None",
            "section_value=None",
        ],
        "add_column": ["path", "column_name", "data", "compression=None", "output_path=None"],
        "update_column": ["path", "column_name", "data", "compression=None", "output_path=None"],
        "delete_column": ["path", "column_name", "output_path=None"],
        "rename_column": ["path", "old_name", "new_name", "output_path=None"],
        "list_columns": ["path"],
        "get_cvc_info": ["path"],
        "validate_cvc": ["path"],
        "detect_version": ["path"],
        "validate_cvc_integrity": ["path", "verbose=False"],
        "validate_cvc_version": ["path"],
        "upgrade_cvc": ["input_path", "output_path", "verbose=False"],
        "get_available_backends": [],
        "get_backend_errors": [],
    }
    for name, expected in signatures.items():
        parameters = inspect.signature(getattr(cvc, name)).parameters.values()
        positional = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        found = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional]
        assert found == expected, name
    assert {*signatures, "MMapCVCLoader", "CorruptedChunkError"} == set(cvc.__all__)


# -- loading


# -- damage


# -- packing


# -- columns


# -- looking


def test_info_validation_and_versions(packed: Path, columnar: Path, tmp_path: Path) -> None:
    info = cvc.get_cvc_info(packed)
    assert (info["format_type"], info["num_vectors"], info["dimension"], info["compression"], info["num_chunks"]) == (
        "single",
        1000,
        8,
        "fp16",
        4,
    )
    assert info["file_size"] == packed.stat().st_size
    report = cvc.validate_cvc(packed)
    assert report["valid"] and report["version"] == "v0.1" and not report["errors"]
    assert cvc.validate_cvc(columnar)["columns"][9]["name"] == "c9"
    for path in (GOLDEN / "malformed").glob("*.cvc"):
        if "bitflip" not in path.stem:
            assert not cvc.validate_cvc(path)["valid"] and cvc.validate_cvc(path)["errors"]
    assert cvc.detect_version(GOLDEN / "v2_columnar.cvc") == (2, 0)
    assert cvc.detect_version(GOLDEN / "v0_release010_int8.cvc") == (0, 1)
    assert cvc.validate_cvc_version(GOLDEN / "v0_release010_int8.cvc")["needs_upgrade"]
    assert not cvc.validate_cvc_version(GOLDEN / "malformed" / "01_bad_magic.cvc")["valid"]
    for check in (
        cvc.get_cvc_info,
        cvc.validate_cvc,
        cvc.validate_cvc_integrity,
        cvc.validate_cvc_version,
        cvc.load_cvc,
    ):
        with pytest.raises(FileNotFoundError):
            check(tmp_path / "missing.cvc")


# -- maps


# -- devices


class Fake:
    """A device whose memory is this process's."""

    def __init__(self) -> None:
        self.loads: list[tuple[int, int]] = []

    def __call__(self, column: Any, *, start: int, stop: int, check: bool, **_: Any) -> Any:
        self.loads.append((start, stop))
        column.check = check
        return column[start:stop]


@pytest.fixture
def fake() -> Iterator[Fake]:
    device = Fake()
    devices.register(devices.Device("fake", device, ("thing", "broken"), lambda: {"broken": "it is broken"}))
    yield device
    devices.unregister("fake")


def test_other_devices_are_asked_through_the_registry(fake: Fake, packed: Path) -> None:
    assert np.array_equal(cvc.load_cvc(packed, device="fake"), HALF)
    assert np.array_equal(cvc.load_cvc(packed, device="fake:0", backend="thing", rows=slice(3, 9)), HALF[3:9])
    assert fake.loads == [(0, 1000), (3, 9)]
    with pytest.raises(pv.PolyvecError, match="it is broken"):
        cvc.load_cvc(packed, device="fake", backend="broken")
    flip(packed, 2)
    with pytest.raises(cvc.CorruptedChunkError):
        cvc.load_cvc(packed, device="fake")
    filled = cvc.load_cvc(packed, device="fake", on_corruption="skip", fill_value=3)
    assert (filled[600:900] == 3).all() and np.array_equal(filled[:600], HALF[:600])
    assert cvc.get_backend_errors()["broken"] == "it is broken" and cvc.get_available_backends()["thing"]


def test_backends_and_devices_that_are_not_there_say_so(packed: Path) -> None:
    available = cvc.get_available_backends()
    assert available["python"] and available["cpp"] == kernels.NATIVE and {"cuda", "triton"} <= set(available)
    errors = cvc.get_backend_errors()
    assert all((errors[name] is None) == able for name, able in available.items())
    assert np.array_equal(cvc.load_cvc(packed, backend="python"), HALF)
    for arguments in (
        {"device": "abacus"},
        {"backend": "cuda"},
        {"backend": "zzz"},
        {"device": "cuda", "framework": "jax"},
        {"device": "cuda", "backend": "python"},
    ):
        with pytest.raises(pv.InputError):
            cvc.load_cvc(packed, **arguments)
    if not (available["cuda"] or available["triton"]):
        with pytest.raises(pv.PolyvecError, match=r"device 'cuda'.*(pip install|driver)"):
            cvc.load_cvc(packed, device="cuda", backend="triton")
        with pytest.warns(pv.DeviceWarning, match=r"device 'cuda'.*(pip install|driver).*CPU instead") as seen:
            assert np.array_equal(cvc.load_cvc(packed, device="cuda", framework="cupy"), HALF)
        assert seen[0].filename == __file__
