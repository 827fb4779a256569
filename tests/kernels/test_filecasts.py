"""Casts between files and memory: the bytes and checksums of the plain casts, on every path, wherever the codes lie."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from polyvec import kernels
from polyvec.kernels import filecasts
from polyvec.kernels.filecasts import Cast

CASTS = [Cast("f16"), Cast("bf16"), Cast("u8", -0.7, 0.0055), Cast("i8", 127.0)]
SIZES = [0, 1, 31, 1000, 131_071, 131_072, 131_073, 400_001]


def values_of(size: int) -> np.ndarray:
    return (np.random.default_rng(size).standard_normal(size) * 0.3).astype(np.float32)


def codes_of(values: np.ndarray, cast: Cast) -> bytes:
    if cast.kind == "f16":
        return values.astype("<f2").tobytes()
    if cast.kind == "bf16":
        return kernels.f32_to_bf16(values).tobytes()
    if cast.kind == "u8":
        return kernels.f32_to_u8(values, cast.a, cast.b).tobytes()
    return kernels.f32_to_i8(values, multiplier=cast.a).tobytes()


@pytest.mark.parametrize("path", kernels.available_paths())
@pytest.mark.parametrize("cast", CASTS, ids=lambda cast: cast.kind)
@pytest.mark.parametrize("size", SIZES)
def test_codes_go_to_the_file_and_back(tmp_path: Path, path: str, cast: Cast, size: int) -> None:
    values = values_of(size)
    expected = codes_of(values, cast)
    for offset in (0, 1, 64, 4099):
        name = tmp_path / f"{offset}"
        name.write_bytes(b"#" * (offset + len(expected) + 5))
        fd = os.open(name, os.O_RDWR)
        try:
            with kernels.use_path(path):
                crc, numbers = filecasts.write_cast(fd, offset, values, cast)
                out = np.empty(size, np.float32)
                read = filecasts.read_cast(fd, offset, out, cast)
                unchecked = filecasts.read_cast(fd, offset, out, cast, check=False)
        finally:
            os.close(fd)
        assert name.read_bytes() == b"#" * offset + expected + b"#" * 5
        assert crc == read == zlib.crc32(expected)
        assert numbers
        assert unchecked == 0
        again = np.frombuffer(expected, {"f16": "<f2", "bf16": "<u2", "u8": "u1", "i8": "i1"}[cast.kind])
        decoded = {
            "f16": lambda c: c.astype(np.float32),
            "bf16": lambda c: kernels.bf16_to_f32(c),
            "u8": lambda c: kernels.u8_to_f32(c, cast.a, cast.b),
            "i8": lambda c: kernels.i8_to_f32(c, divisor=cast.a),
        }[cast.kind](again)
        assert np.array_equal(out, decoded)


@pytest.mark.parametrize("path", kernels.available_paths())
@pytest.mark.parametrize("bad", [70000.0, np.inf, -np.inf, np.nan, -65520.0])
@pytest.mark.parametrize("place", [0, 131_071, 131_072, 299_999])
def test_halves_that_are_no_numbers_are_told(tmp_path: Path, path: str, bad: float, place: int) -> None:
    values = values_of(300_000)
    values[place] = bad
    fd = os.open(tmp_path / "codes", os.O_RDWR | os.O_CREAT)
    try:
        with kernels.use_path(path):
            assert filecasts.write_cast(fd, 0, values, Cast("f16"))[1] is False
            values[place] = -65519.0
            assert filecasts.write_cast(fd, 0, values, Cast("f16"))[1] is True
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", kernels.available_paths())
def test_an_end_that_comes_too_early_is_told(tmp_path: Path, path: str) -> None:
    name = tmp_path / "short"
    name.write_bytes(bytes(1999))
    fd = os.open(name, os.O_RDONLY)
    try:
        with kernels.use_path(path), pytest.raises(EOFError):
            filecasts.read_cast(fd, 0, np.empty(1000, np.float32), Cast("f16"))
        with kernels.use_path(path), pytest.raises(OSError, match="Bad file descriptor"):
            filecasts.write_cast(fd, 0, np.zeros(10, np.float32), Cast("u8", 0.0, 1.0))
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", kernels.available_paths())
def test_room_is_asked_for_ahead(tmp_path: Path, path: str) -> None:
    fd = os.open(tmp_path / "room", os.O_RDWR | os.O_CREAT)
    try:
        with kernels.use_path(path):
            filecasts.allocate(fd, 0, 1 << 20)
            filecasts.allocate(fd, 0, 0)
            if os.fstat(fd).st_size:  # this file system gives room ahead
                with pytest.raises(OSError, match=r"space|large") as caught:
                    filecasts.allocate(fd, 0, 2**62)
                assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
    finally:
        os.close(fd)
