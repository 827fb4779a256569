"""Codecs: how far decoded rows may be from what was encoded, and that shortcuts change nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.codecs import (
    AffineUint8,
    BFloat16,
    Float16,
    Raw,
    ScaledInt8,
    SymmetricInt8,
    shifted_symmetric,
    shortcut,
    transcode,
)
from polyvec.core.blocks import Block, Codec, cast
from polyvec.core.errors import InputError, LossyConversion
from polyvec.testing import strategies, vectors

EPSILON = float(np.finfo(np.float32).eps)
FLOATS = strategies.arrays(np.float32, min_rows=1, bound=1e30)
few = settings(max_examples=60, deadline=None)


def block_of(codec: Codec, rows: np.ndarray) -> Block:
    return Block(0, codec.encode(rows), codec, len(rows))


@given(rows=strategies.arrays(np.float32, finite=False))
@few
def test_raw_keeps_every_bit(rows: np.ndarray) -> None:
    assert block_of(Raw(np.dtype("<f4")), rows).decode().tobytes() == rows.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_int8_refuses_what_is_not_finite_with_its_place(bad: float) -> None:
    rows = vectors(5, 4)
    rows[3, 1] = bad
    for encode in (
        lambda: AffineUint8.fit([rows[:2], rows[2:]]),
        lambda: ScaledInt8().encode(rows),
        lambda: SymmetricInt8().encode(rows),
    ):
        with pytest.raises(InputError, match="row 3, column 1"):
            encode()


@given(codes=st.lists(st.integers(-127, 127), min_size=1, max_size=300))
@few
def test_the_shift_from_symmetric_to_affine_equals_decoding_and_encoding(codes: list[int]) -> None:
    array = np.array(codes, np.int8).reshape(-1, 1)
    block = Block(0, {"codes": array}, SymmetricInt8(127.0), len(array))
    quick = shortcut(block, shifted_symmetric())
    assert quick is not None
    assert np.array_equal(quick.parts["codes"], shifted_symmetric().encode(block.decode())["codes"])
    assert np.abs(quick.decode() - block.decode()).max() <= 1e-7
    back = shortcut(quick, SymmetricInt8(127.0))
    assert back is not None and np.array_equal(back.parts["codes"], array)


def test_codes_outside_the_symmetric_range_take_no_shortcut() -> None:
    low = Block(0, {"codes": np.array([[-128]], np.int8)}, SymmetricInt8(127.0), 1)
    high = Block(0, {"codes": np.array([[255]], np.uint8)}, shifted_symmetric(), 1)
    assert shortcut(low, shifted_symmetric()) is None
    assert shortcut(high, SymmetricInt8(127.0)) is None


CODECS = [Raw(np.dtype("<f4")), Float16(), BFloat16(), SymmetricInt8(), ScaledInt8(), AffineUint8(-1.0, 1 / 127)]


@pytest.mark.parametrize("source", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("target", CODECS, ids=lambda codec: codec.name)
def test_transcoding_equals_decoding_and_encoding(source: Codec, target: Codec) -> None:
    rows = np.clip(vectors(9, 5), -1, 1)
    block = block_of(source, rows)
    found = transcode(block, target)
    assert found.codec == target and found.rows == 9
    if source == target:
        assert found is block
        return
    expected = target.encode(block.decode())
    assert found.parts.keys() == expected.keys()
    for name, part in expected.items():
        assert np.asarray(found.parts[name]).tobytes() == np.asarray(part).tobytes()


@pytest.mark.parametrize(("codec", "dtype"), [(Float16(), np.float16), (BFloat16(), ml_dtypes.bfloat16)])
def test_halves_pass_between_raw_and_codec_as_they_are(codec: Codec, dtype: type) -> None:
    block = block_of(codec, vectors(4, 3))
    quick = shortcut(block, Raw(np.dtype(dtype)))
    assert quick is not None and np.shares_memory(quick.parts["codes"], block.parts["codes"])


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_decoding_into_a_given_array_gives_the_same(codec: Codec) -> None:
    block = block_of(codec, np.clip(vectors(6, 3), -1, 1))
    out = np.empty((6, 3), codec.dtype)
    assert np.array_equal(block.decode(out), block.decode()) and np.array_equal(out, block.decode())


def test_integers_are_never_changed_by_a_cast() -> None:
    beyond = np.array([[1, 2**31]], np.int64)
    with pytest.raises(InputError, match=r"2147483648 at \(0, 1\) does not fit int32"):
        cast(beyond, np.dtype("<i4"))
    with pytest.raises(InputError, match="does not fit"):
        cast(np.array([[-1]], np.int64), np.dtype("<u4"))
    with pytest.raises(InputError, match="does not fit"):
        cast(np.array([[2**24 + 1]], np.int32), np.dtype("<f4"))
    with pytest.raises(InputError, match="does not fit"):
        cast(np.array([[2**63 - 1]], np.int64), np.dtype("<f8"))
    with pytest.raises(InputError, match="does not fit"):
        cast(np.array([[2**63]], np.uint64), np.dtype("<i8"))
    with pytest.raises(LossyConversion, match="cut"):
        cast(np.array([[1.0]], np.float32), np.dtype("<i4"))
    with pytest.raises(InputError, match="does not fit"):
        cast(np.array([[1e300]], np.float64), np.dtype("<f4"))
    assert cast(np.array([[5]], np.int64), np.dtype("<i4")).dtype == np.int32
