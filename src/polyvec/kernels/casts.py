"""Casts between float32 and the encodings of embedding files, compiled or in NumPy, with the same bits.

Sources are C-contiguous arrays of any shape, read-only and unaligned ones included. `out`, an array of the
result's dtype and of as many elements, is filled and returned; reuse it, for a fresh array costs about three
times the cast in page faults. `num_threads=None` means POLYVEC_THREADS, else all cores.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polyvec.kernels import reference
from polyvec.kernels.paths import native
from polyvec.kernels.threads import resolve_threads

Array: TypeAlias = npt.NDArray[Any]
F32 = np.dtype(np.float32)
U16 = np.dtype(np.uint16)
U8 = np.dtype(np.uint8)
I8 = np.dtype(np.int8)


def f16_to_f32(src: Array, out: Array | None = None, *, num_threads: int | None = None) -> Array:
    """float16 (or its bits as uint16) to float32, exactly; NaNs keep sign and payload."""
    flat = _flat(src, "float16", "uint16").view(U16)
    out, filled = _target(src, out, "float32")
    module = native()
    if module is None:
        reference.f16_to_f32(flat, filled)
    else:
        module.f16_to_f32(flat, filled, resolve_threads(num_threads))
    return out


def f32_to_f16(src: Array, out: Array | None = None, *, num_threads: int | None = None) -> Array:
    """float32 to float16, nearest even, above 65520 infinity; NaNs keep sign and top payload bits."""
    flat = _flat(src, "float32")
    out, filled = _target(src, out, "float16", "uint16")
    module = native()
    if module is None:
        reference.f32_to_f16(flat, filled.view(U16))
    else:
        module.f32_to_f16(flat, filled.view(U16), resolve_threads(num_threads))
    return out


def bf16_to_f32(src: Array, out: Array | None = None, *, num_threads: int | None = None) -> Array:
    """bfloat16 (ml_dtypes, or its bits as uint16) to float32, exactly."""
    flat = _flat(src, "bfloat16", "uint16").view(U16)
    out, filled = _target(src, out, "float32")
    module = native()
    if module is None:
        reference.bf16_to_f32(flat, filled)
    else:
        module.bf16_to_f32(flat, filled, resolve_threads(num_threads))
    return out


def f32_to_bf16(src: Array, out: Array | None = None, *, num_threads: int | None = None) -> Array:
    """float32 to the bits of bfloat16 (uint16), nearest even; a NaN becomes 0x7fc0 with its sign."""
    flat = _flat(src, "float32")
    out, filled = _target(src, out, "uint16", "bfloat16")
    module = native()
    if module is None:
        reference.f32_to_bf16(flat, filled.view(U16))
    else:
        module.f32_to_bf16(flat, filled.view(U16), resolve_threads(num_threads))
    return out


def u8_to_f32(
    codes: Array, minimum: float, scale: float, out: Array | None = None, *, num_threads: int | None = None
) -> Array:
    """Affine uint8 codes to float32: q * scale rounded, then + minimum rounded (never fused)."""
    flat = _flat(codes, "uint8")
    out, filled = _target(codes, out, "float32")
    low, step = _float32(minimum), _float32(scale)
    module = native()
    # Which NaN comes of two NaNs is the compiler's choice, so parameters that are not finite stay with NumPy.
    if module is None or not (math.isfinite(low) and math.isfinite(step)):
        reference.u8_to_f32(flat, filled, low, step)
    else:
        module.u8_to_f32(flat, filled, float(low), float(step), resolve_threads(num_threads))
    return out


def f32_to_u8(
    src: Array, minimum: float, scale: float, out: Array | None = None, *, num_threads: int | None = None
) -> Array:
    """float32 to affine uint8 codes: nearest even of (x - minimum) / scale in float32, clamped to 0..255.

    A quotient that is NaN (a NaN value, or 0 / 0 where scale is 0) gives 0.
    """
    flat = _flat(src, "float32")
    out, filled = _target(src, out, "uint8")
    low, step = _float32(minimum), _float32(scale)
    module = native()
    if module is None:
        reference.f32_to_u8(flat, filled, low, step)
    else:
        module.f32_to_u8(flat, filled, float(low), float(step), resolve_threads(num_threads))
    return out


def f32_min_max(src: Array, *, num_threads: int | None = None) -> tuple[float, float, bool]:
    """The least and the greatest value, and whether all are finite.

    With a NaN both are NaN; of no values they are inf and -inf, the start of a running minimum and maximum.
    A zero is +0.0 whatever its sign was.
    """
    flat = _flat(src, "float32")
    module = native()
    if module is None:
        low, high, nan = reference.f32_min_max(flat)
    else:
        low, high, nan = module.f32_min_max(flat, resolve_threads(num_threads))
    if nan:
        return math.nan, math.nan, False
    finite = flat.size == 0 or (low > -math.inf and high < math.inf)
    return low + 0.0, high + 0.0, finite


def i8_to_f32(
    codes: Array,
    out: Array | None = None,
    *,
    divisor: float = 127.0,
    scales: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """Symmetric int8 codes to float32: q / divisor, or q * scales[row], one float32 a row of a 2-D array."""
    flat = _flat(codes, "int8")
    out, filled = _target(codes, out, "float32")
    module = native()
    if scales is not None:
        factors = _row_scales(codes, scales)
        if module is None:
            reference.i8_to_f32_rows(flat, filled, factors)
        else:
            module.i8_to_f32_rows(flat, filled, factors, resolve_threads(num_threads))
    elif module is None:
        reference.i8_to_f32(flat, filled, _float32(divisor))
    else:
        module.i8_to_f32(flat, filled, float(_float32(divisor)), resolve_threads(num_threads))
    return out


def f32_to_i8(
    src: Array,
    out: Array | None = None,
    *,
    multiplier: float = 127.0,
    scales: Array | None = None,
    num_threads: int | None = None,
) -> Array:
    """float32 to symmetric int8: nearest even of x * multiplier, or of x / scales[row], clamped to -127..127.

    NaN (also 0 / 0 where a row's scale is 0) gives 0.
    """
    flat = _flat(src, "float32")
    out, filled = _target(src, out, "int8")
    module = native()
    if scales is not None:
        factors = _row_scales(src, scales)
        if module is None:
            reference.f32_to_i8_rows(flat, filled, factors)
        else:
            module.f32_to_i8_rows(flat, filled, factors, resolve_threads(num_threads))
    elif module is None:
        reference.f32_to_i8(flat, filled, _float32(multiplier))
    else:
        module.f32_to_i8(flat, filled, float(_float32(multiplier)), resolve_threads(num_threads))
    return out


def _flat(array: Array, *names: str) -> Array:
    """The array as one dimension, without a copy; an error that names what was expected and found."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected an array of {' or '.join(names)}, found {type(array).__name__}")
    if array.dtype.name not in names or not array.dtype.isnative:
        found = f"{array.dtype.name} ({array.dtype.str})"
        raise TypeError(f"expected an array of {' or '.join(names)}, found {found}")
    if not array.flags.c_contiguous:
        raise ValueError("expected a C-contiguous array: pass np.ascontiguousarray(array)")
    return array.view(np.ndarray).reshape(-1)


def _target(src: Array, out: Array | None, *names: str) -> tuple[Array, Array]:
    """The array to return and its flat view; checked where the caller brought it, new otherwise."""
    if out is None:
        out = np.empty(src.shape, np.dtype(names[0]))
        return out, out.reshape(-1)
    flat = _flat(out, *names)
    if out.size != src.size:
        raise ValueError(f"out has {out.size} elements: expected {src.size}, as many as the source")
    if not out.flags.writeable:
        raise ValueError("out is read-only: expected a writeable array")
    if np.may_share_memory(src, out):
        raise ValueError("out overlaps the source: expected an array of its own")
    return out, flat


def _row_scales(array: Array, scales: Array) -> Array:
    if array.ndim != 2:
        raise ValueError(f"scales need a 2-D array: found {array.ndim} dimensions")
    flat = _flat(scales, "float32")
    if flat.size != array.shape[0]:
        raise ValueError(f"scales has {flat.size} elements: expected {array.shape[0]}, one a row")
    return flat


def _float32(value: float) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(value)
