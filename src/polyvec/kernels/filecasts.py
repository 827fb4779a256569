"""Casts between a file and float32 in memory, with the CRC-32 of the stored codes: compiled, or piece by piece in NumPy.

One thread a call, without Python's lock: callers spread their rows over threads of their own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels import casts
from polyvec.kernels.checksum import crc32
from polyvec.kernels.fileio import read_all, write_all
from polyvec.kernels.paths import native
from polyvec.kernels.threads import limit_threads

PIECE = 1 << 20  # values; what the NumPy code holds at a time

Array = NDArray[Any]


class Cast(NamedTuple):
    """How codes become float32: ``f16``, ``bf16``, ``u8`` (minimum, scale) or ``i8`` (divisor)."""

    kind: Literal["f16", "bf16", "u8", "i8"]
    a: float = 0.0
    b: float = 0.0


_CODES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "i8": np.dtype("i1"),
}

CODE_BYTES = {kind: dtype.itemsize for kind, dtype in _CODES.items()}


def read_cast(fd: int, offset: int, out: Array, cast: Cast, *, check: bool = True) -> int:
    """Fill a C-contiguous float32 array from the codes at ``offset``; returns their CRC-32 (0 without ``check``).

    EOFError where the file ends early.
    """
    module = native()
    if module is not None:
        crc, failed = module.read_cast(fd, offset, out, *cast, check)
        if failed < 0:
            raise EOFError("the file became shorter while it was read")
        _raise(failed)
        return int(crc)
    crc = 0
    with limit_threads(1):
        for piece in _pieces(out):
            codes: Array = np.empty(piece.size, _CODES[cast.kind])
            if read_all(fd, memoryview(codes.view(np.uint8).data), offset) < codes.nbytes:
                raise EOFError("the file became shorter while it was read")
            if check:
                crc = crc32(codes, crc)
            _decode(codes, piece, cast)
            offset += codes.nbytes
    return crc


def write_cast(fd: int, offset: int, values: Array, cast: Cast) -> tuple[int, bool]:
    """Write the codes of a C-contiguous float32 array at ``offset``: their CRC-32, and whether all of them are numbers.

    Only float16 and bfloat16 can be something else: an infinity, or a NaN.
    """
    module = native()
    if module is not None:
        crc, numbers, failed = module.write_cast(fd, offset, values, *cast)
        _raise(failed)
        return int(crc), bool(numbers)
    crc, numbers = 0, True
    for codes, finite in encoded(values, cast):
        crc = crc32(codes, crc)
        numbers = numbers and finite
        offset += write_all(fd, memoryview(codes.view(np.uint8).data), offset)
    return crc, numbers


def encoded(values: Array, cast: Cast) -> Iterator[tuple[Array, bool]]:
    """The codes of a C-contiguous float32 array, piece by piece, and whether all of a piece are numbers."""
    for piece in _pieces(values):
        with limit_threads(1):
            codes = _encode(piece, cast)
        exponent = {"f16": 0x7C00, "bf16": 0x7F80}.get(cast.kind)
        yield codes, exponent is None or not bool(((codes.view(np.uint16) & exponent) == exponent).any())


def allocate(fd: int, offset: int, size: int) -> None:
    """Ask the file system for room, where it can give it ahead: writes are then quicker, and a full disk is told now."""
    module = native()
    failed = 0 if module is None or size <= 0 else module.allocate(fd, offset, size)
    if failed in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        _raise(failed)


def _pieces(values: Array) -> Iterator[Array]:
    flat = values.reshape(-1)
    for at in range(0, flat.size, PIECE):
        yield flat[at : at + PIECE]


def _decode(codes: Array, out: Array, cast: Cast) -> None:
    if cast.kind == "f16":
        casts.f16_to_f32(codes, out)
    elif cast.kind == "bf16":
        casts.bf16_to_f32(codes, out)
    elif cast.kind == "u8":
        casts.u8_to_f32(codes, cast.a, cast.b, out)
    else:
        casts.i8_to_f32(codes, out, divisor=cast.a)


def _encode(values: Array, cast: Cast) -> Array:
    if cast.kind == "f16":
        return casts.f32_to_f16(values)
    if cast.kind == "bf16":
        return casts.f32_to_bf16(values)
    if cast.kind == "u8":
        return casts.f32_to_u8(values, cast.a, cast.b)
    return casts.f32_to_i8(values, multiplier=cast.a)


def _raise(failed: int) -> None:
    if failed:
        raise OSError(failed, os.strerror(failed))
