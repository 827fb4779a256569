"""CRC-32 (the zlib polynomial), through isal where it is installed: three times zlib's speed."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    from isal import isal_zlib

    _crc32: Callable[[Any, int], int] = isal_zlib.crc32
    ACCELERATED = True
except ImportError:
    _crc32 = zlib.crc32
    ACCELERATED = False


def crc32(data: Any, value: int = 0) -> int:
    """The CRC-32 of a contiguous buffer or array (its bytes, whatever its dtype), continuing from `value`."""
    dtype = getattr(data, "dtype", None)
    if dtype is not None:
        if not data.flags.c_contiguous:
            raise ValueError("expected a C-contiguous array: pass np.ascontiguousarray(array)")
        if data.size == 0:
            return value
        data = data.reshape(-1).view("u1")  # dtypes such as bfloat16 export no buffer of their own
    return _crc32(data, value)


def combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces joined, from the CRC of each and the second's length in bytes.

    >>> combine(crc32(b"poly"), crc32(b"vec"), 3) == crc32(b"polyvec")
    True
    """
    return _apply(_shift(length), first) ^ second


@lru_cache(64)
def _shift(length: int) -> tuple[int, ...]:
    """What ``length`` zero bytes do to a CRC, as a 32 x 32 bit matrix: one column a bit."""
    power = (0xEDB88320, *(1 << bit for bit in range(31)))  # one zero bit
    for _ in range(3):
        power = _multiply(power, power)  # one zero byte
    result = tuple(1 << bit for bit in range(32))
    while length:
        if length & 1:
            result = _multiply(power, result)
        power = _multiply(power, power)
        length >>= 1
    return result


def _apply(matrix: tuple[int, ...], vector: int) -> int:
    total = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            total ^= column
        vector >>= 1
    return total


def _multiply(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_apply(left, column) for column in right)
