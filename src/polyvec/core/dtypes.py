"""Element types of rows: those there are, what they are called together, and which are held by which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]

WHOLE: tuple[DType, ...] = tuple(map(np.dtype, ("i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")))
NUMBERS: tuple[DType, ...] = (np.dtype("?"), *WHOLE, *map(np.dtype, ("<f2", "<f4", "<f8")))
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
FLOAT8: tuple[DType, ...] = tuple(
    np.dtype(getattr(ml_dtypes, name)) for name in dir(ml_dtypes) if name.startswith("float8")
)
SMALL_FLOATS: tuple[DType, ...] = (np.dtype("<f2"), BFLOAT16, *FLOAT8)  # float32 holds them exactly
FLOATS: tuple[DType, ...] = (*SMALL_FLOATS, np.dtype("<f4"), np.dtype("<f8"), np.dtype("longdouble"))


def is_float(dtype: DType) -> bool:
    """Whether values are floats; those of ml_dtypes have numpy's kind for what it does not know."""
    return dtype.kind in "fV"


def is_held(dtype: DType, held: Sequence[DType] | None) -> bool:
    """Whether a dtype, in whichever byte order, is among those held; None holds any."""
    return held is None or dtype.newbyteorder("<") in [one.newbyteorder("<") for one in held]


def can_cast(dtype: DType, held: Sequence[DType]) -> bool:
    """Whether rows can be rounded to one of the dtypes: whole numbers to any, floats to floats."""
    return not is_float(dtype) or any(map(is_float, held))


def named(dtypes: Sequence[DType] | None) -> str:
    """Dtypes in words: all whole numbers are ``integers``."""
    if dtypes is None:
        return "any"
    names = list(dict.fromkeys("float8" if one in FLOAT8 else one.name for one in dtypes))
    whole = [one.name for one in WHOLE]
    if set(whole) <= set(names):
        first = min(map(names.index, whole))
        names = [*names[:first], "integers", *(name for name in names[first:] if name not in whole)]
    return " ".join(names)
