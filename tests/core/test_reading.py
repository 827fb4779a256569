"""Extents into an array on several threads: the same rows, and every damage told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyvec.codecs import AffineUint8, BytePlanes, Float16, Raw
from polyvec.core import reading
from polyvec.core.blocks import Block, Codec, Extent
from polyvec.core.errors import Truncated
from polyvec.core.sources import open_source
from polyvec.kernels import crc32
from polyvec.testing import vectors

ROWS = vectors(5000, 6)
CODECS: list[Codec] = [Raw(np.dtype("<f4")), Float16(), AffineUint8(-5.0, 0.04), BytePlanes((6,))]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 1000)
    monkeypatch.setattr(reading, "STRETCH_BYTES", 5000)


def stored(path: Path, codec: Codec) -> list[Extent]:
    """Two extents with checksums, one after the other after 5 bytes."""
    extents, data = [], b"12345"
    for start, stop in ((0, 3001), (3001, 5000)):
        codes = codec.encode(ROWS[start:stop])["codes"].tobytes()
        extents.append(Extent(start, stop - start, len(data), len(codes), codec, crc32(codes)))
        data += codes
    path.write_bytes(data)
    return extents


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_same_rows_and_checksums_hold(codec: Codec, threads: int, tmp_path: Path) -> None:
    extents = stored(tmp_path / "a", codec)
    expected = codec.decode(_block(codec), None)
    out = np.empty_like(ROWS)
    with open_source(tmp_path / "a") as source:
        assert not reading.load_extents(source, extents, (6,), out, threads=threads)
        assert np.array_equal(out, expected)
        wide = np.zeros((5000, 12), np.float32)
        assert not reading.load_extents(source, extents, (6,), wide[:, ::2], threads=threads)
        assert np.array_equal(wide[:, ::2], expected)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_flipped_bit_names_its_extent_and_the_rest_is_right(codec: Codec, tmp_path: Path) -> None:
    extents = stored(tmp_path / "a", codec)
    data = bytearray((tmp_path / "a").read_bytes())
    data[extents[1].offset + extents[1].size // 2] ^= 4
    (tmp_path / "a").write_bytes(data)
    out = np.empty_like(ROWS)
    with open_source(tmp_path / "a") as source:
        found = reading.load_extents(source, extents, (6,), out, threads=2)
        assert [failure.extent for failure in found] == [extents[1]] and found[0].error.field == "crc32"
        assert np.array_equal(out[:3001], codec.decode(_block(codec), None)[:3001])
        assert reading.fill_failures(found, out, 0, 8) == [(3001, 5000)] and (out[3001:] == 8).all()
        unchecked = reading.load_extents(source, extents[:1], (6,), out[:3001], check=False)
        assert not unchecked


def test_bytes_that_are_not_there_raise(tmp_path: Path) -> None:
    extents = stored(tmp_path / "a", Float16())
    with open_source(tmp_path / "a") as source, pytest.raises(Truncated):
        reading.load_extents(
            source, [replace(extents[1], offset=extents[1].offset + 1)], (6,), np.empty((1999, 6), "f4"), start=3001
        )


def _block(codec: Codec) -> Block:

    return Block(0, codec.encode(ROWS), codec, len(ROWS))
