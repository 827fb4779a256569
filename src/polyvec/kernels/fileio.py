"""Reads and writes of a file by offset: whole, where the system may do less than it is asked for, and many at a time.

A `Filler` fills buffers with ranges of a file and tells the CRC-32 of each, on native threads that never wait for
Python, or on Python threads.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels import paths
from polyvec.kernels.checksum import crc32
from polyvec.kernels.threads import Crew

Loads = NDArray[np.int64]

MOST = 1 << 30  # of one call: some systems take no more


def read_all(fd: int, view: memoryview, offset: int) -> int:
    """Fill ``view`` from ``offset``; returns the bytes read, fewer only where the file ends."""
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done : done + MOST]], offset + done)
        if not got:
            break
        done += got
    return done


def write_all(fd: int, view: memoryview, offset: int) -> int:
    """Write all of ``view`` at ``offset``; returns how many bytes that were."""
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done : done + MOST], offset + done)
    return done


class Filler:
    """Fills buffers from a file, several at a time. A context manager.

    `submit` starts filling ``out`` from ``loads`` (n, 3): offset in the file, bytes, place in ``out``; `wait` gives the
    CRC-32 of each range (zeros without ``check``), or EOFError where the file ends early.
    """

    def __init__(self, fd: int, threads: int) -> None:
        self._fd = fd
        native: Any = paths.native()
        self._native = native.Filler(fd, threads) if native is not None else None
        self._pool = None if native is not None else Crew(threads)
        self._sums: dict[int, NDArray[np.uint32]] = {}
        self._futures: dict[int, Future[None]] = {}
        self._tickets = 0

    def submit(self, loads: Loads, out: NDArray[np.uint8], *, check: bool) -> int:
        """Start filling; returns a ticket."""
        loads = np.ascontiguousarray(loads, np.int64)
        sums = np.zeros(len(loads), np.uint32)
        if self._native is not None:
            ticket: int = self._native.submit(loads, out, sums, check)
        else:
            assert self._pool is not None
            ticket = self._tickets
            self._tickets += 1
            self._futures[ticket] = self._pool.submit(fill, self._fd, loads, out, sums, check)
        self._sums[ticket] = sums
        return ticket

    def wait(self, ticket: int) -> NDArray[np.uint32]:
        """Wait until a buffer is filled."""
        sums = self._sums.pop(ticket)
        if self._native is None:
            self._futures.pop(ticket).result()
            return sums
        failed = self._native.wait(ticket)
        if failed < 0:
            raise EOFError("the file became shorter while it was read")
        if failed > 0:
            raise OSError(failed, os.strerror(failed))
        return sums

    def __enter__(self) -> Filler:
        return self

    def __exit__(self, *_: object) -> None:
        self._native = None  # joins its threads
        if self._pool is not None:
            self._pool.shutdown()


def fill(fd: int, loads: Loads, out: NDArray[np.uint8], sums: NDArray[np.uint32], check: bool) -> None:
    """What a `Filler` does for one buffer, in Python."""
    for number, (offset, size, at) in enumerate(loads.tolist()):
        if read_all(fd, memoryview(out[at : at + size].data), offset) < size:
            raise EOFError("the file became shorter while it was read")
        if check:
            sums[number] = crc32(out[at : at + size])
