"""The kernels in NumPy: the definition that every compiled path equals bit for bit, and the slow way to run.

All take flat arrays of equal length with the dtypes already right (polyvec.kernels.casts checks them) and
fill `out`, a slice at a time, so that temporaries stay near 1 MB whatever the size of the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SLICE = 1 << 18
"""Elements at a time: 1 MB of float32."""


def _slices(size: int) -> Iterator[slice]:
    for start in range(0, size, SLICE):
        yield slice(start, min(start + SLICE, size))


def f16_to_f32(src: Array, out: Array) -> None:
    """Halves, as uint16 bits, to float32: exact. NaNs keep sign and payload, quiet or signalling.

    NumPy's own cast does that on some machines and quiets on others (with hardware conversions), so the NaNs
    are written here.
    """
    for part in _slices(src.size):
        bits, floats = src[part], out[part]
        with np.errstate(all="ignore"):
            floats[...] = bits.view(np.float16)
        nan = np.isnan(floats)
        if nan.any():
            half = bits[nan].astype(np.uint32)
            floats.view(np.uint32)[nan] = (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13


def f32_to_f16(src: Array, out: Array) -> None:
    """float32 to halves, as uint16 bits, nearest even. NaNs keep sign and top payload bits (or 1)."""
    for part in _slices(src.size):
        floats, bits = src[part], out[part]
        with np.errstate(all="ignore"):
            bits.view(np.float16)[...] = floats
        nan = np.isnan(floats)
        if nan.any():
            wide = floats[nan].view(np.uint32)
            payload = np.maximum(wide >> 13 & 0x3FF, 1)
            bits[nan] = wide >> 16 & 0x8000 | 0x7C00 | payload


def bf16_to_f32(src: Array, out: Array) -> None:
    """bfloat16, as uint16 bits, to float32: the bits shifted."""
    for part in _slices(src.size):
        np.left_shift(src[part], np.uint32(16), out=out[part].view(np.uint32), dtype=np.uint32)


def f32_to_bf16(src: Array, out: Array) -> None:
    """float32 to bfloat16, as uint16 bits, nearest even; every NaN becomes 0x7fc0 with its sign."""
    for part in _slices(src.size):
        wide = src[part].view(np.uint32)
        rounded = wide >> 16
        odd = rounded & 1
        odd += 0x7FFF
        odd += wide
        odd >>= 16
        nan = np.isnan(src[part])
        if nan.any():
            odd[nan] = rounded[nan] & 0x8000 | 0x7FC0
        out[part] = odd


def u8_to_f32(src: Array, out: Array, minimum: np.float32, scale: np.float32) -> None:
    """q * scale rounded to float32, then + minimum rounded: two roundings, as the format says."""
    with np.errstate(all="ignore"):
        for part in _slices(src.size):
            floats = out[part]
            np.multiply(src[part], scale, out=floats, dtype=np.float32)
            np.add(floats, minimum, out=floats)


def f32_to_u8(src: Array, out: Array, minimum: np.float32, scale: np.float32) -> None:
    """Nearest even of (x - minimum) / scale, clamped to 0..255; a NaN quotient gives 0."""
    with np.errstate(all="ignore"):
        for part in _slices(src.size):
            code = np.subtract(src[part], minimum, dtype=np.float32)
            np.divide(code, scale, out=code)
            np.fmax(code, np.float32(0), out=code)
            np.fmin(code, np.float32(255), out=code)
            np.rint(code, out=code)
            out[part] = code


def f32_min_max(src: Array) -> tuple[float, float, bool]:
    """Least and greatest value of a flat array, and whether one was NaN (then the other two say nothing)."""
    low, high = np.inf, -np.inf
    with np.errstate(all="ignore"):
        for part in _slices(src.size):
            piece_low, piece_high = float(src[part].min()), float(src[part].max())
            if piece_low != piece_low:
                return piece_low, piece_low, True
            low, high = min(low, piece_low), max(high, piece_high)
    return low, high, False


def i8_to_f32(src: Array, out: Array, divisor: np.float32) -> None:
    """q / divisor, a true division."""
    with np.errstate(all="ignore"):
        for part in _slices(src.size):
            np.divide(src[part], divisor, out=out[part], dtype=np.float32)


def i8_to_f32_rows(src: Array, out: Array, scales: Array) -> None:
    """q * scales[row]."""
    with np.errstate(all="ignore"):
        for rows, part, factor in _row_slices(src.size, scales):
            floats = out[part].reshape(rows, -1)
            np.multiply(src[part].reshape(rows, -1), factor, out=floats, dtype=np.float32)


def f32_to_i8(src: Array, out: Array, multiplier: np.float32) -> None:
    """Nearest even of x * multiplier, clamped to -127..127; NaN gives 0."""
    with np.errstate(all="ignore"):
        for part in _slices(src.size):
            out[part] = _clamp_i8(np.multiply(src[part], multiplier, dtype=np.float32))


def f32_to_i8_rows(src: Array, out: Array, scales: Array) -> None:
    """Nearest even of x / scales[row], clamped to -127..127; a NaN quotient gives 0."""
    with np.errstate(all="ignore"):
        for rows, part, factor in _row_slices(src.size, scales):
            quotient = np.divide(src[part].reshape(rows, -1), factor, dtype=np.float32)
            out[part].reshape(rows, -1)[...] = _clamp_i8(quotient)


def _row_slices(size: int, scales: Array) -> Iterator[tuple[int, slice, Array]]:
    """Some whole rows at a time: their number, their elements, their scales as a column."""
    if size == 0:
        return
    dim = size // scales.size
    if dim > SLICE:  # a row longer than a slice goes in pieces
        for row in range(scales.size):
            for part in _slices(dim):
                yield 1, slice(row * dim + part.start, row * dim + part.stop), scales[row : row + 1, None]
        return
    step = SLICE // dim
    for row in range(0, scales.size, step):
        factor = scales[row : row + step, None]
        yield factor.size, slice(row * dim, (row + factor.size) * dim), factor


def _clamp_i8(value: Array) -> Array:
    value[np.isnan(value)] = 0
    np.maximum(value, np.float32(-127), out=value)
    np.minimum(value, np.float32(127), out=value)
    return np.rint(value, out=value)
