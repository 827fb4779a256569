"""Whole reads and writes at an offset of a file: the system may do less than it is asked for."""

from __future__ import annotations

import os

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
