"""safetensors of models: equal to the safetensors package both ways, and no length or offset is believed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.targets import open_sink
from polyvec.model.safetensors import read_safetensors, write_safetensors
from polyvec.testing import MemorySource

TENSORS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "deep": np.arange(8, dtype=np.int16).reshape(2, 2, 2),
    "none": np.empty((0, 4), np.float16),
}


def packed(header: Any, data: bytes = b"", size: int | None = None) -> MemorySource:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MemorySource(struct.pack("<Q", len(text) if size is None else size) + text + data, "m.safetensors")


def entry(shape: list[Any], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_the_real_package_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    peer = pytest.importorskip("safetensors.numpy")
    with open_sink(tmp_path / "m.safetensors", durable=False) as sink:
        columns = {name: ArrayColumn(name, values) for name, values in TENSORS.items()}
        write_safetensors(sink, columns, {"format": "pt"})
    loaded = peer.load_file(tmp_path / "m.safetensors")
    assert all(
        np.array_equal(loaded[name], values) and loaded[name].dtype == values.dtype for name, values in TENSORS.items()
    )
    data = peer.save({**TENSORS, "scalar": np.array(3, np.float32)}, {"by": "peer"})
    found, metadata, scalars = read_safetensors(MemorySource(data, "m.safetensors"))
    assert metadata == {"by": "peer"} and scalars == ["scalar"] and set(found) == set(TENSORS)
    assert all(np.array_equal(found[name][:], values) for name, values in TENSORS.items())


@pytest.mark.parametrize(
    ("source", "error", "field"),
    [
        (packed({}, size=3), Truncated, "header length"),
        (packed([]), Corrupt, "header"),
        (packed({"__metadata__": {"a": 1}}), Corrupt, "__metadata__"),
        (packed({"w": {"dtype": "F32", "shape": [1]}}), Corrupt, "w"),
        (packed({"w": entry([1], 0, 4, "F8_E4M3")}, bytes(4)), Unsupported, "w"),
        (packed({"w": entry([-1], 0, 4)}, bytes(4)), Corrupt, "w"),
        (packed({"w": entry([True], 0, 4)}, bytes(4)), Corrupt, "w"),
        (packed({"w": entry([2], 0, 4)}, bytes(4)), Corrupt, "w"),
        (packed({"w": entry([2**40, 2**40], 0, 4)}, bytes(4)), Corrupt, "w"),
        (packed({"w": entry([1], 4, 8)}, bytes(8)), Corrupt, "data_offsets"),
        (packed({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, bytes(8)), Corrupt, "data_offsets"),
        (packed({"w": entry([1], 0, 4)}, bytes(3)), Truncated, "data_offsets"),
        (packed({"w": entry([1], 0, 4)}, bytes(5)), Truncated, "data_offsets"),
    ],
    ids=range(13),
)
def test_a_lie_is_a_format_error_with_its_field(source: MemorySource, error: type[FormatError], field: str) -> None:
    if field == "header length":
        source = MemorySource(struct.pack("<Q", 99) + b"{}", "m.safetensors")
    with pytest.raises(error) as caught:
        read_safetensors(source)
    assert caught.value.field == field and caught.value.path == "m.safetensors"


def test_the_data_starts_on_eight_bytes(tmp_path: Path) -> None:
    for name in ("w", "ww", "www"):
        with open_sink(tmp_path / "m", durable=False) as sink:
            write_safetensors(sink, {name: ArrayColumn(name, np.zeros((1, 2), np.float32))}, {})
        assert struct.unpack("<Q", (tmp_path / "m").read_bytes()[:8])[0] % 8 == 0
