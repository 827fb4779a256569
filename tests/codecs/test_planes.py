"""The lossless byte planes: exact on every path, and refused where a payload contradicts itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec import kernels
from polyvec.codecs.planes import BytePlanes, Plan
from polyvec.core.blocks import Block
from polyvec.core.errors import Corrupt

FEW = np.array([0.0, -0.0, 1.0, np.inf, np.nan], np.float32)


def samples() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = [(0, 3), (1, 1), (7, 1), (8, 1), (3, 3), (1000, 7), (40_000, 9)]
    normal = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    coarse = [np.round(array * 4) / 4 for array in normal]
    few = [FEW[rng.integers(0, 5, shape)] for shape in shapes]
    every = [rng.integers(0, 2**32, shape, np.uint32).view(np.float32) for shape in shapes]
    return [np.ascontiguousarray(a, np.float32) for a in normal + coarse + few + every]


@pytest.mark.parametrize("path", kernels.available_paths())
def test_every_bit_comes_back_and_every_path_writes_the_same_bytes(path: str) -> None:
    for rows in samples():
        codec = BytePlanes(rows.shape[1:])
        with kernels.use_path("numpy"):
            expected = codec.encode(rows)["codes"]
        with kernels.use_path(path):
            codes = codec.encode(rows)["codes"]
            decoded = codec.decode(Block(0, {"codes": codes}, codec, len(rows)))
        assert codes.tobytes() == expected.tobytes()
        assert decoded.shape == rows.shape and decoded.tobytes() == rows.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=70), st.integers(1, 255))
def test_any_values_come_back(values: list[int], mask: int) -> None:
    rows = (np.array(values, np.uint32) & np.uint32(mask * 0x01010101)).view(np.float32)
    codec = BytePlanes(())
    block = Block(0, codec.encode(rows), codec, len(rows))
    assert block.decode().tobytes() == rows.tobytes()


def test_a_plane_takes_no_more_bits_than_its_bytes_need() -> None:
    for unique, bits in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (128, 7), (129, 8), (256, 8)):
        rows = np.arange(unique, dtype=np.uint32).repeat(3).view(np.float32)
        assert Plan.fit(rows.size, [rows]).bits == (bits, 1, 1, 1)


@pytest.mark.parametrize("path", [kernels.available_paths()[0], "numpy"])
def test_a_payload_that_contradicts_itself_is_corrupt(path: str) -> None:
    rows = np.arange(-3, 17, dtype=np.float32)
    codec = BytePlanes(())
    good = codec.encode(rows)["codes"]

    def refused(payload: np.ndarray, field: str, count: int = 20) -> None:
        with kernels.use_path(path), pytest.raises(Corrupt) as caught:
            codec.decode(Block(0, {"codes": payload}, codec, count))
        assert caught.value.field == field

    refused(good[:5], "payload")
    refused(good[:-1], "dict_size[3]")
    refused(np.append(good, np.uint8(0)), "payload")
    refused(good, "n_values", 21)
    for plane in range(4):
        for bits in (0, 9, 255):
            changed = good.copy()
            changed[4 + plane] = bits
            refused(changed, f"bits[{plane}]")
    changed = good.copy()
    changed[8:10] = 255
    refused(changed, "dict_size[0]")
    plan = Plan.parse(good, 20)
    changed = good.copy()
    changed[plan.starts[3] :] = 255  # codes beyond the dictionary of the highest plane
    assert len(plan.dictionaries[3]) < 1 << plan.bits[3]
    refused(changed, "payload")


def test_codes_wider_than_needed_are_read() -> None:
    """No writer makes them, the layout allows them."""
    wide = bytearray((2).to_bytes(4, "little") + bytes([8, 8, 8, 8]))
    for byte in (1, 2, 3, 64):
        wide += (1).to_bytes(2, "little") + bytes([byte]) + bytes(2)
    codec = BytePlanes(())
    found = codec.decode(Block(0, {"codes": np.frombuffer(bytes(wide), np.uint8)}, codec, 2))
    assert found.view(np.uint32).tolist() == [0x40030201] * 2
