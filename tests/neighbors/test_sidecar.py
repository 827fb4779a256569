"""The index beside a file: arrays as they were, every byte under a checksum. (test_index tries every flip of a file.)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.neighbors import sidecar
from polyvec.neighbors.sidecar import DTYPES, MAGIC, read_sidecar, sidecar_path, write_sidecar

HEADER = {"rows": 5, "dim": 3, "unit": 1.0, "sha256": "0" * 64, "stamp": None}


def arrays(center: bool = True) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"codes": (5, 3), "center": (3,)}
    return {
        name: (rng.standard_normal(shapes.get(name, (5,))) * 50).astype(dtype)
        for name, dtype in DTYPES.items()
        if center or name != "center"
    }


@pytest.mark.parametrize("center", [True, False])
def test_arrays_come_back_as_they_were(tmp_path: Path, center: bool) -> None:
    path = write_sidecar(tmp_path / "a.pvindex", HEADER, arrays(center))
    header, found, codes, *_ = read_sidecar(path)
    assert {key: header[key] for key in HEADER} == HEADER and set(found) == set(arrays(center))
    assert all(found[name].tobytes() == values.tobytes() for name, values in arrays(center).items())
    assert codes.pending
    codes.check(0, 15)
    assert not codes.pending


def test_the_name_is_that_of_the_file_with_an_ending() -> None:
    assert sidecar_path("a/b.fbin").as_posix() == "a/b.fbin.pvindex"


def test_codes_are_checked_a_stretch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "STRETCH", 64)
    many = {**arrays(), "codes": np.arange(600, dtype=np.int16).astype(np.int8).reshape(200, 3)}
    for name in many:
        if many[name].shape == (5,):
            many[name] = np.resize(many[name], 200)
    path = write_sidecar(tmp_path / "a.pvindex", {**HEADER, "rows": 200}, many)
    data = bytearray(path.read_bytes())
    start = data.index(many["codes"].tobytes())
    data[start + 70] ^= 1
    path.write_bytes(data)
    codes = read_sidecar(path).codes
    codes.check(0, 64)
    with pytest.raises(Corrupt, match="array codes is damaged") as caught:
        codes.check(0, 200)
    assert caught.value.offset == start + 64


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda data: b"PVINDEX1" + data[8:], Unsupported, "earlier polyvec"),
        (lambda data: b"x" + data[1:], Corrupt, "first bytes are not"),
        (lambda data: data[:10], Corrupt, "first bytes are not"),
        (lambda data: data[:8] + b"\xff\xff\xff\x7f" + data[12:], Corrupt, "cannot have"),
        (lambda data: data[:40], Truncated, "cut off"),
        (lambda data: data[:-1], Truncated, "cut off"),
        (lambda data: data + b"x", Corrupt, "1 bytes follow"),
        (lambda data: data.replace(b'"rows": 5', b'"rows": 6', 1), Corrupt, "checksum"),
    ],
)
def test_a_file_that_is_no_index_is_refused_with_the_remedy(
    tmp_path: Path, change, kind: type[FormatError], says: str
) -> None:
    path = write_sidecar(tmp_path / "a.pvindex", HEADER, arrays())
    assert path.read_bytes().startswith(MAGIC)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(kind, match=says) as caught:
        read_sidecar(path)
    assert "build it again" in str(caught.value)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"rows": 0}, "impossible numbers"),
        ({"unit": 0.0}, "impossible numbers"),
        ({"rows": True}, "impossible numbers"),
        ({"dim": 4}, "another shape"),
        ({"rows": 2**62}, "another shape"),
    ],
)
def test_a_header_that_lies_under_its_checksum_is_refused(tmp_path: Path, header: dict, says: str) -> None:
    path = write_sidecar(tmp_path / "a.pvindex", {**HEADER, **header}, arrays())
    with pytest.raises(Corrupt, match=says):
        read_sidecar(path)
