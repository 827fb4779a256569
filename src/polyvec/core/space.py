"""Room on the disk: asked for before a long job starts, not after hours of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.remarks import remark

LEAST_BYTES = 1 << 20  # what is smaller is simply tried


def free_bytes(folder: Path) -> int | None:
    """What may still be written to a folder's file system, as far as it says; None where it does not."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if not found.f_blocks:  # some network file systems do not count
        return None
    return found.f_frsize * (found.f_bfree if os.geteuid() == 0 else found.f_bavail)


def demand_space(target: str | os.PathLike[str], needed: int, *, refuse: bool = True) -> None:
    """`InputError` where ``needed`` bytes do not fit beside ``target``; with ``refuse=False`` a warning.

    An old file of that name stays until the new one is whole, so its room does not count. Standard output is spooled
    to a temporary file first.
    """
    piped = os.fspath(target) == "-"
    folder = Path(tempfile.gettempdir()) if piped else Path(os.path.realpath(target)).parent
    free = free_bytes(folder)
    if needed < LEAST_BYTES or free is None or needed <= free:
        return
    said = (
        f"{'standard output' if piped else os.fspath(target)}: about {in_words(needed)} will be written and "
        f"{in_words(free)} are free in {folder}"
    )
    if refuse:
        raise InputError(f"{said}; make room, name another place, or go on with --force (check_space=False)")
    remark(f"{said}; going on as asked", stacklevel=3)


def in_words(count: int) -> str:
    """Bytes for people: 12.3 GB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError
