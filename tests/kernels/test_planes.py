"""Byte planes: codes of 1 to 8 bits packed most significant bit first, the same on every path."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import available_paths, use_path
from polyvec.kernels.planes import PLANES, packed_size, planes_pack, planes_seen, planes_unpack


@pytest.fixture(params=sorted({*available_paths(), "numpy"}), autouse=True)
def _path(request):
    with use_path(request.param):
        yield


@pytest.mark.parametrize(("values", "bits", "size"), [(0, 8, 0), (1, 1, 1), (8, 1, 1), (9, 1, 2), (3, 5, 2), (3, 8, 3)])
def test_a_plane_takes_whole_bytes(values: int, bits: int, size: int) -> None:
    assert packed_size(values, bits) == size


def test_bytes_that_occur_are_seen_plane_by_plane_and_added_up() -> None:
    values = np.array([0x01020304, 0xFF020304], "<u4").view("<f4")
    seen = planes_seen(values)
    assert [np.flatnonzero(plane).tolist() for plane in seen] == [[4], [3], [2], [1, 255]]
    more = planes_seen(np.array([0x00000005], "<u4").view("<f4"), seen)
    assert more is seen and np.flatnonzero(seen[0]).tolist() == [4, 5]


def test_codes_are_packed_most_significant_bit_first() -> None:
    values = np.arange(5, dtype="<u4").view("<f4")
    table = np.zeros(256, np.uint8)
    table[:5] = [0, 1, 2, 3, 4]
    packed = planes_pack(values, 0, 3, table)
    assert packed.tolist() == [0b00000101, 0b00111000]
    with pytest.raises(ValueError, match="2 bytes of uint8"):
        planes_pack(values, 0, 3, table, np.empty(3, np.uint8))


@pytest.mark.parametrize("count", [1, 7, 8, 1000])
def test_what_is_packed_is_unpacked_at_every_width(count: int) -> None:
    rng = np.random.default_rng(count)
    for bits in range(1, 9):
        entries = [np.sort(rng.choice(256, 1 << bits, replace=False)).astype(np.uint8) for _ in range(PLANES)]
        values = (
            np.stack([rng.choice(some, count) for some in entries], axis=1).astype(np.uint8).view("<f4").reshape(-1)
        )
        payload, starts = [], []
        for plane, some in enumerate(entries):
            table = np.zeros(256, np.uint8)
            table[some] = np.arange(len(some))
            starts.append(sum(map(len, payload)))
            payload.append(planes_pack(values, plane, bits, table))
        out = np.empty(count, "<f4")
        dictionaries = [some.tobytes() for some in entries]
        assert planes_unpack(np.concatenate(payload), starts, [bits] * PLANES, dictionaries, out)
        assert out.tobytes() == values.tobytes()


def test_a_code_that_has_no_byte_is_told() -> None:
    out = np.empty(2, "<f4")
    payload = np.array([0b01000000, 0, 0, 0], np.uint8)
    assert planes_unpack(payload, [0, 1, 2, 3], [1] * 4, [b"ab", b"c", b"c", b"c"], out)
    assert not planes_unpack(payload, [0, 1, 2, 3], [1] * 4, [b"a", b"c", b"c", b"c"], out)


def test_other_values_than_packed_float32_are_refused() -> None:
    for values in (np.zeros(4), np.zeros((4, 2), np.float32)[:, :1]):
        with pytest.raises(ValueError, match="C-contiguous float32"):
            planes_seen(values)
