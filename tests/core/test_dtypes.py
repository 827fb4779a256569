"""Dtypes of rows: which are held by which, and what they are called together."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from polyvec.core.dtypes import BFLOAT16, FLOATS, NUMBERS, can_cast, is_float, is_held, named

F32, I32 = np.dtype("<f4"), np.dtype("<i4")


def test_a_dtype_is_held_in_whichever_byte_order() -> None:
    assert is_held(np.dtype(">f4"), (F32,)) and is_held(np.dtype(">i4"), (F32, I32))
    assert not is_held(np.dtype("f8"), (F32, I32))
    assert is_held(np.dtype("f8"), None)


def test_floats_are_rounded_to_floats_only_and_whole_numbers_to_any() -> None:
    assert can_cast(np.dtype("f8"), (F32,)) and can_cast(np.dtype("i8"), (I32,)) and can_cast(np.dtype("?"), (F32,))
    assert not can_cast(F32, (I32,)) and not can_cast(BFLOAT16, (I32,)) and can_cast(F32, (I32, F32))


def test_every_float_is_known_as_one() -> None:
    assert all(map(is_float, FLOATS)) and np.dtype(ml_dtypes.float8_e5m2) in FLOATS
    assert [dtype.name for dtype in NUMBERS if is_float(dtype)] == ["float16", "float32", "float64"]


def test_many_dtypes_are_named_shortly() -> None:
    assert named(None) == "any"
    assert named((F32, I32)) == "float32 int32"
    assert named(NUMBERS) == "bool integers float16 float32 float64"
    assert named(FLOATS[:3]) == "float16 bfloat16 float8"
