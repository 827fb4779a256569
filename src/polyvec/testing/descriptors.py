"""Descriptors: what a piece of work leaves open."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LISTS = (Path("/proc/self/fd"), Path("/dev/fd"))


def open_descriptors() -> dict[int, str]:
    """The open descriptors of this process, and what each is of where the system tells."""
    found: dict[int, str] = {}
    folder = next(path for path in LISTS if path.is_dir())
    for entry in list(folder.iterdir()):
        try:
            os.fstat(int(entry.name))
            found[int(entry.name)] = str(entry.readlink()) if entry.is_symlink() else ""
        except OSError:
            continue  # the one that listed them, which is closed by now
    return found


@contextmanager
def no_descriptors_left(*, collected: bool = False) -> Iterator[None]:
    """Fail where the block leaves a descriptor open, or where something warns that it was closed by chance.

    With ``collected`` only what is still open after a collection of garbage counts: for what nobody has closed.
    """
    gc.collect()
    before = open_descriptors()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        yield
        if collected:
            gc.collect()
        left = {fd: name for fd, name in open_descriptors().items() if before.get(fd) != name}
    assert not left, f"left open: {left}"
