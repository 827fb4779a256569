"""CRC-32 (the zlib polynomial), through isal where it is installed: three times zlib's speed."""

from __future__ import annotations

import zlib
from functools import cache, lru_cache
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


def crc32_combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces in sequence from the CRC of each and the ``length`` of the second in bytes.

    A CRC is a remainder of polynomials over GF(2): appending n bytes multiplies the first by x^(8n).

    >>> crc32_combine(crc32(b"poly"), crc32(b"vec"), 3) == crc32(b"polyvec")
    True
    """
    return _multiply(_power(length), first) ^ second


_POLYNOMIAL = 0xEDB88320  # bit 31 is x^0, as in every table of this CRC


def _multiply(one: int, other: int) -> int:
    product = 0
    while one:
        if one & 0x80000000:
            product ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ (_POLYNOMIAL if other & 1 else 0)
    return product


@lru_cache(maxsize=256)
def _power(length: int) -> int:
    """x^(8 * length) modulo the polynomial."""
    result = 0x80000000
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            result = _multiply(_square(bit), result)
    return result


@cache
def _square(bit: int) -> int:
    """x^(8 * 2^bit) modulo the polynomial: the same few for every length."""
    return _multiply(_square(bit - 1), _square(bit - 1)) if bit else 0x00800000
