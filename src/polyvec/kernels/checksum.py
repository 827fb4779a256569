"""CRC-32 (the zlib polynomial), through isal where it is installed: three times zlib's speed."""

from __future__ import annotations

import zlib
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
