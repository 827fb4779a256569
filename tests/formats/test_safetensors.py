"""safetensors, through the suite that every format inherits, and against the safetensors package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.safetensors import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors


class TestSafetensors(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        yield Sample("floats", Collection.from_arrays(vectors(5, 3)))
        many = {
            "b": vectors(3, 2, np.int8),
            "a": vectors(2, 3, np.float64),
            "deep": vectors(2, 6).reshape(2, 3, 2),
            "bf": vectors(2, 2).astype(ml_dtypes.bfloat16),
            "flag": np.array([True, False]),
        }
        yield Sample("many", Collection.from_arrays(many, metadata={"format": "pt", "n": [1, None], "polyvec": "x"}))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        rounded = vectors(4, 3).astype(np.float16)
        yield Sample(
            "halves",
            Collection.from_arrays(vectors(4, 3)),
            encoding="float16",
            expected=Collection.from_arrays(rounded),
        )


def built(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(start: int, stop: int, **other: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [1, (stop - start) // 4], "data_offsets": [start, stop], **other}


@pytest.mark.parametrize(
    "header, size, message",
    [
        ({"a": entry(0, 8), "b": entry(4, 12)}, 12, "tensors overlap"),
        ({"a": entry(0, 8), "b": entry(0, 8)}, 8, "tensors overlap"),
        ({"a": entry(0, 8), "b": entry(12, 16)}, 16, "leave a gap"),
        ({"a": entry(4, 8)}, 8, "leave a gap"),
        ({"a": entry(0, 8)}, 12, "after the last tensor"),
        ({"a": entry(0, 8)}, 7, "more data than the file has"),
        ({"a": entry(0, 8, shape=[3, 1])}, 8, "do not fit the shape"),
        ({"a": entry(0, 8, shape=[2**62, 2**62])}, 8, "do not fit the shape"),
        ({"a": entry(0, 8, shape=[-1, -2])}, 8, "shape is not one"),
        ({"a": entry(0, 8, shape=[True, 2])}, 8, "shape is not one"),
        ({"a": entry(0, 8, dtype="F4")}, 8, "unknown dtype"),
        ({"a": entry(0, 8, extra=1)}, 8, "wrong keys"),
        ({"__metadata__": {"a": 1}, "a": entry(0, 8)}, 8, "text to text"),
        ({}, 0, "no tensors"),
        (b'{"a": {"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}, "a": {}}', 8, "key 'a' twice"),
        (b'{"a": {"dtype":"F32","shape":[1,2],"shape":[2,1],"data_offsets":[0,8]}}', 8, "key 'shape' twice"),
        (b"[1]", 0, "not a JSON object"),
        (b'{"a"', 0, "invalid JSON"),
    ],
)
def test_contradictions_are_one_clear_line(tmp_path: Path, header: Any, size: int, message: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(built(header, bytes(size)))
    with pytest.raises(pv.FormatError, match=message):
        pv.open(path)


def test_a_header_longer_than_the_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes((2**60).to_bytes(8, "little") + b'{"')
    with pytest.raises(pv.Corrupt, match="too long"):
        pv.open(path)


def test_the_package_reads_what_is_written(tmp_path: Path) -> None:
    peer = pytest.importorskip("safetensors.numpy")
    arrays = {"w": vectors(3, 2, np.int8), "vectors": vectors(5, 3), "d": vectors(2, 2, np.float64)}
    pv.write(tmp_path / "x.safetensors", arrays, metadata={"format": "np"})
    found = peer.load_file(tmp_path / "x.safetensors")
    assert set(found) == set(arrays) and all(np.array_equal(found[n], arrays[n]) for n in arrays)


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    peer = pytest.importorskip("safetensors.numpy")
    arrays = {"w": vectors(3, 2, np.int8), "embeddings": vectors(5, 3), "scalar": np.float32(4)}
    peer.save_file({n: np.asarray(a) for n, a in arrays.items()}, tmp_path / "x.safetensors", metadata={"a": "b"})
    with pv.open(tmp_path / "x.safetensors") as c:
        assert c.main == "embeddings" and c.metadata == {"a": "b"}
        assert all(np.array_equal(c[n], np.atleast_1d(arrays[n])) for n in arrays)


def test_torch_bfloat16_is_read_exactly(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("safetensors.torch")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(4, 3) / 7
    peer.save_file({"t": tensor}, tmp_path / "x.safetensors")
    with pv.open(tmp_path / "x.safetensors") as c:
        assert torch.equal(torch.from_dlpack(c.vectors), tensor)
