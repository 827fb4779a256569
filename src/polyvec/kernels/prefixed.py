"""Tables of length-prefixed strings: where each string starts and stops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.paths import native

Offsets = NDArray[np.int64]


def walk_strings(data: NDArray[np.uint8], count: int, width: int) -> tuple[Offsets, Offsets]:
    """Starts and stops of up to ``count`` strings, each after a little-endian length of ``width`` (2 or 4) bytes.

    Fewer come back where the next one would reach past the end; nothing beyond ``data`` is read.

    >>> [part.tolist() for part in walk_strings(np.frombuffer(b"\\1\\0a\\2\\0bc\\x09\\0", np.uint8), 3, 2)]
    [[2, 5], [3, 7]]
    """
    count = min(count, len(data) // width)
    starts = np.empty(count, np.int64)
    stops = np.empty(count, np.int64)
    module = native()
    found = _walk(data, width, starts, stops) if module is None else module.walk_strings(data, width, starts, stops)
    return starts[:found], stops[:found]


def _walk(data: NDArray[np.uint8], width: int, starts: Offsets, stops: Offsets) -> int:
    raw, at, end = data.tobytes(), 0, len(data)
    for number in range(len(starts)):
        start = at + width
        stop = start + int.from_bytes(raw[at:start], "little")
        if start > end or stop > end:
            return number
        starts[number], stops[number] = start, stop
        at = stop
    return len(starts)
