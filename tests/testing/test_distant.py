"""A source with nothing but bytes: ranges are merged where they are near, and every request is counted."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.errors import Truncated
from polyvec.testing.distant import DistantSource

DATA = bytes(range(200)) * 5


def test_bytes_come_as_of_any_source_and_requests_are_counted() -> None:
    source = DistantSource(DATA, "a.npy", {"a.npy.ids.txt": b"1\n"})
    out = np.empty(10, np.uint8)
    source.read_into(5, out)
    assert out.tobytes() == DATA[5:15] and source.read_at(990, 99) == DATA[990:] and source.requests == 2
    with pytest.raises(Truncated):
        source.read_into(995, out)
    assert source.sibling("a.npy.ids.txt").read_at(0, 9) == b"1\n" and source.sibling("b") is None


def test_near_ranges_are_one_request() -> None:
    source = DistantSource(DATA, "a")
    found = source.read_ranges([(0, 10), (20, 10), (900, 5)])
    assert [bytes(piece) for piece in found] == [DATA[:10], DATA[20:30], DATA[900:905]] and source.requests == 2
