"""CRC-32 equals zlib's, for any buffer, in pieces, with isal and without."""

from __future__ import annotations

import importlib
import sys
import zlib

import ml_dtypes
import numpy as np
import pytest

from polyvec import kernels
from polyvec.kernels import checksum


@pytest.mark.parametrize("size", [0, 1, 3, 255, 4096, 100_003])
def test_crc32_equals_zlib(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    expected = zlib.crc32(data.tobytes())
    for form in (data, data.tobytes(), memoryview(data), bytearray(data.tobytes())):
        assert kernels.crc32(form) == expected
    assert kernels.crc32(data[size // 3 :], kernels.crc32(data[: size // 3])) == expected


def test_crc32_takes_arrays_of_any_dtype_and_shape() -> None:
    data = np.arange(96, dtype=np.uint8)
    for dtype in (np.float16, np.float32, np.int64, ml_dtypes.bfloat16):
        assert kernels.crc32(data.view(dtype).reshape(2, -1)) == zlib.crc32(data.tobytes())
    with pytest.raises(ValueError, match="C-contiguous"):
        kernels.crc32(data.reshape(8, 12)[:, :3])


def test_crc32_falls_back_to_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    try:
        plain = importlib.reload(checksum)
        assert plain.ACCELERATED is False
        assert plain.crc32(b"123456789") == 0xCBF43926
    finally:
        monkeypatch.undo()
        importlib.reload(checksum)
    assert kernels.crc32(b"123456789") == 0xCBF43926


def test_checksums_of_pieces_combine_to_that_of_the_whole() -> None:
    data = np.random.default_rng(3).bytes(100_000)
    for cut in (0, 1, 7, 4096, 65_537, 99_999, 100_000):
        one, two = data[:cut], data[cut:]
        assert kernels.crc32_combine(kernels.crc32(one), kernels.crc32(two), len(two)) == zlib.crc32(data)
    zeros = kernels.crc32(bytes(10))
    assert kernels.crc32_combine(zeros, zlib.crc32(b""), 0) == zeros
