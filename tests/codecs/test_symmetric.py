"""Symmetric int8: one divisor for unit rows, or a scale a row; codes -127 to 127."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from polyvec.codecs import ScaledInt8, SymmetricInt8
from polyvec.core.blocks import Block, Codec
from polyvec.testing import strategies

few = settings(max_examples=60, deadline=None)


def block_of(codec: Codec, rows: np.ndarray) -> Block:
    return Block(0, codec.encode(rows), codec, len(rows))


@given(rows=strategies.arrays(np.float32, min_rows=1, bound=1.0))
@few
def test_symmetric_int8_is_within_half_a_step(rows: np.ndarray) -> None:
    found = block_of(SymmetricInt8(), rows).decode()
    assert np.abs(found - rows).max() <= 0.5 / 127 + 1e-6


@given(rows=strategies.arrays(np.float32, min_rows=1, bound=1e30))
@few
def test_scaled_int8_is_within_half_a_step_of_each_row(rows: np.ndarray) -> None:
    block = block_of(ScaledInt8(), rows)
    largest = np.abs(rows).max(axis=1)
    scale = block.parts["scale"]
    normal = largest > 1e-35  # below, a scale has few bits left, and is rounded up
    assert np.array_equal(scale[normal], (largest / np.float32(127))[normal])
    assert (scale[largest == 0] == 1).all()
    error = np.abs(block.decode().astype("f8") - rows).max(axis=1)
    assert (error <= scale * 0.5001).all()


def test_values_beyond_the_range_saturate_and_minus_128_is_never_written() -> None:
    codes = SymmetricInt8().encode(np.float32([[5, -5, 1, -1, 0]]))["codes"]
    assert codes.tolist() == [[127, -127, 127, -127, 0]]
    assert SymmetricInt8(10).encode(np.float32([[5]]))["codes"].tolist() == [[50]]


def test_decoding_divides_and_does_not_multiply() -> None:
    codes = np.arange(-127, 128, dtype=np.int8)[None]
    found = SymmetricInt8().decode(Block(0, {"codes": codes}, SymmetricInt8(), 1))
    assert np.array_equal(found, codes.astype(np.float32) / np.float32(127))
    assert not np.array_equal(found, codes.astype(np.float32) * np.float32(1 / 127))


def test_rows_of_more_dimensions_have_one_scale_each() -> None:
    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    parts = ScaledInt8().encode(rows)
    assert parts["scale"].shape == (2,) and parts["codes"].shape == rows.shape
    out = np.empty_like(rows)
    assert ScaledInt8().decode(Block(0, parts, ScaledInt8(), 2), out) is out
    assert np.abs(out - rows).max() <= 23 / 127


def test_no_rows_are_no_codes_and_no_scales() -> None:
    for codec in (ScaledInt8(), SymmetricInt8()):
        none = block_of(codec, np.empty((0, 3), np.float32))
        assert all(len(part) == 0 for part in none.parts.values()) and none.decode().shape == (0, 3)
