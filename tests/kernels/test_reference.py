"""The kernels in NumPy, against arithmetic written out: every half, both roundings, the clamps, slices of any length."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polyvec.kernels import reference


def test_every_half_is_its_float_and_comes_back() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    floats, back = np.empty(2**16, np.float32), np.empty(2**16, np.uint16)
    reference.f16_to_f32(bits, floats)
    number = ~np.isnan(floats)
    assert np.array_equal(floats[number], bits.view(np.float16)[number].astype(np.float32))
    nan = floats[~number].view(np.uint32)
    assert np.array_equal(nan >> 13 & 0x3FF, bits[~number] & 0x3FF) and np.array_equal(nan >> 31, bits[~number] >> 15)
    reference.f32_to_f16(floats, back)
    assert np.array_equal(back, bits)


def test_halves_and_brains_round_to_nearest_even() -> None:
    source = np.float32([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519, 65520, 2.0**-25, 2.0**-25 * 1.001])
    bits = np.empty(6, np.uint16)
    reference.f32_to_f16(source, bits)
    assert bits.view(np.float16).tolist() == [1, 1 + 2.0**-9, 65504, np.inf, 0, 2.0**-24]
    values = np.random.default_rng(0).integers(0, 2**32, 10_000, np.uint32).view(np.float32)
    out = np.empty(10_000, np.uint16)
    reference.f32_to_bf16(values, out)
    with np.errstate(invalid="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    number = ~np.isnan(values)
    assert np.array_equal(out[number], wanted[number]) and set(out[~number] & 0x7FFF) <= {0x7FC0}
    wide = np.empty(10_000, np.float32)
    reference.bf16_to_f32(out, wide)
    assert np.array_equal(wide.view(np.uint32), out.astype(np.uint32) << 16)


def test_codes_are_clamped_rounded_to_even_and_nan_is_zero() -> None:
    codes = np.empty(7, np.uint8)
    reference.f32_to_u8(np.float32([-9, 0.5, 1.5, 2.5, 300, np.nan, np.inf]), codes, np.float32(0), np.float32(1))
    assert codes.tolist() == [0, 0, 2, 2, 255, 0, 255]
    signed = np.empty(6, np.int8)
    reference.f32_to_i8(np.float32([-200, -127.5, 0.5, 1.5, 200, np.nan]), signed, np.float32(1))
    assert signed.tolist() == [-127, -127, 0, 2, 127, 0]


def test_affine_decoding_rounds_twice() -> None:
    codes, out = np.arange(256, dtype=np.uint8), np.empty(256, np.float32)
    low, scale = np.float32(-0.3), np.float32(0.0123)
    reference.u8_to_f32(codes, out, low, scale)
    product = np.array([np.float32(float(code) * float(scale)) for code in codes])
    assert np.array_equal(out, np.array([np.float32(float(p) + float(low)) for p in product], np.float32))


@pytest.mark.parametrize("shape", [(0, 3), (5, 3), (2, 9), (1, 40)])
def test_rows_have_their_own_scale_whatever_a_slice_holds(shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "SLICE", 8)
    rows = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    scales = np.arange(1, shape[0] + 1, dtype=np.float32) / 50
    codes, back = np.empty(rows.size, np.int8), np.empty(rows.size, np.float32)
    reference.f32_to_i8_rows(rows.reshape(-1), codes, scales)
    wanted = np.clip(np.rint(rows / scales[:, None]), -127, 127)
    assert np.array_equal(codes.reshape(shape), wanted)
    reference.i8_to_f32_rows(codes, back, scales)
    assert np.array_equal(back.reshape(shape), wanted.astype(np.float32) * scales[:, None])


def test_ends_are_found_over_slices_and_a_nan_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "SLICE", 4)
    values = np.arange(10, dtype=np.float32) - 3
    assert reference.f32_min_max(values) == (-3, 6, False)
    values[9] = np.nan
    assert reference.f32_min_max(values)[2]
    assert reference.f32_min_max(np.empty(0, np.float32)) == (np.inf, -np.inf, False)


def test_division_is_a_division() -> None:
    codes, out = np.arange(-127, 128, dtype=np.int8), np.empty(255, np.float32)
    reference.i8_to_f32(codes, out, np.float32(127))
    assert np.array_equal(out, (codes.astype(np.float64) / 127).astype(np.float32))
