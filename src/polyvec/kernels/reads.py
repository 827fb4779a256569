"""Ranges of a file into one buffer, with the CRC-32 of each: many native threads, or one read after the other."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels import paths
from polyvec.kernels.checksum import crc32


def read_ranges(fd: int, loads: NDArray[np.int64], out: NDArray[np.uint8], *, check: bool, threads: int) -> NDArray[np.uint32]:
    """Fill ``out`` from the file: ``loads`` is (n, 3), offset in the file, bytes, place in ``out``.

    Gives the CRC-32 of each range (zeros without ``check``). EOFError where the file ends early.
    """
    sums = np.zeros(len(loads), np.uint32)
    native: Any = paths.native()
    if native is not None:
        failed = native.read_ranges(fd, np.ascontiguousarray(loads), out, sums, check, threads)
        if failed < 0:
            raise EOFError("the file became shorter while it was read")
        if failed > 0:
            raise OSError(failed, os.strerror(failed))
        return sums
    for number, (offset, size, at) in enumerate(loads.tolist()):
        view = memoryview(out)[at : at + size]
        done = 0
        while done < size:
            got = os.preadv(fd, [view[done : done + (1 << 30)]], offset + done)
            if not got:
                raise EOFError("the file became shorter while it was read")
            done += got
        if check:
            sums[number] = crc32(out[at : at + size])
    return sums
