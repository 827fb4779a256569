"""The tensor index: every descriptor is checked before any tensor is read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import Corrupt, FormatError
from polyvec.core.sources import open_source
from polyvec.formats.weights.records import hash_name
from polyvec.formats.weights.sections import read_contents
from polyvec.testing import vectors

sys.path.insert(0, str(Path(__file__).parent))
from embd import WORDS, index_of, model_bytes, opened, patched, seal


def test_hashes_that_collide_do_not_mix_tensors_up(tmp_path: Path) -> None:
    assert hash_name(b"t.275672f2") == hash_name(b"t.7be8e215") == 0xCA58D392
    with opened(model_bytes(tmp_path)) as c:
        assert np.array_equal(c["t.275672f2"].to_numpy(), vectors(2, 2))
        assert np.array_equal(c["t.7be8e215"].to_numpy(), vectors(2, 2, seed=1))


DESCRIPTORS = [
    ("name_hash", 0, "I", 7, "name hash"),
    ("dtype", 4, "B", 9, "data type"),
    ("ndim", 5, "B", 0, "0 dimensions"),
    ("ndim", 5, "B", 5, "5 dimensions"),
    ("name_length", 6, "H", 60000, "names"),
    ("shape", 8, "I", 2**31, "past"),
    ("unused shape", 16, "I", 1, "beyond its 2 dimensions"),
    ("data_offset", 24, "Q", 2**40, "past the tensor data"),
    ("misaligned", 24, "Q", 4, "aligned"),
    ("overlap", 24, "Q", 64, "overlaps"),
]


@pytest.mark.parametrize(
    ("what", "offset", "code", "value", "message"), DESCRIPTORS, ids=[f"{d[0]}={d[3]}" for d in DESCRIPTORS]
)
def test_a_wrong_descriptor_is_told(
    tmp_path: Path, what: str, offset: int, code: str, value: int, message: str
) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(FormatError, match=message):
        opened(patched(data, index_of(data) + offset, code, value))


@pytest.mark.parametrize(
    ("offset", "code", "value", "field", "within"),
    [
        (4, "B", 9, "dtype", 4),
        (5, "B", 5, "ndim", 5),
        (16, "I", 1, "shape", 16),
        (12, "I", 0, "shape", 8),
        (24, "Q", 4, "data_offset", 24),
        (24, "Q", 2**40, "data_offset", 24),
    ],
)
def test_a_wrong_descriptor_is_told_with_its_field_and_byte(
    tmp_path: Path, offset: int, code: str, value: int, field: str, within: int
) -> None:
    data = model_bytes(tmp_path)
    second = index_of(data) + 32
    with pytest.raises(Corrupt) as caught:
        opened(patched(data, second + offset, code, value))
    assert (caught.value.field, caught.value.offset) == (field, second + within)


def test_a_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    """Both hash alike, so nothing else is wrong."""
    data = model_bytes(tmp_path)
    with pytest.raises(Corrupt, match=r"tensor 't\.275672f2' appears twice") as caught:
        opened(seal(data.replace(b"t.7be8e215", b"t.275672f2")))
    assert caught.value.offset == index_of(data) + 64


def test_the_index_places_every_tensor_in_the_file(tmp_path: Path) -> None:
    model_bytes(tmp_path)
    with open_source(tmp_path / "m.weights") as source:
        contents = read_contents(source)
        start = contents.header["tensor_data_offset"]
        assert [(t.name, t.shape, t.offset - start, t.size) for t in contents.tensors] == [
            (WORDS, (4, 3), 0, 48),
            ("t.275672f2", (2, 2), 64, 16),
            ("t.7be8e215", (2, 2), 128, 16),
        ]
        assert contents.names_size == len(WORDS) + 20
        rows = (vectors(4, 3), vectors(2, 2), vectors(2, 2, seed=1))
        assert [source.read_at(t.offset, t.size) for t in contents.tensors] == [array.tobytes() for array in rows]
