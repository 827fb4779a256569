"""Locks between processes: one commit at a time in a folder, one run at a time of a job that takes up its own work.

Both are advisory `flock`s, which end with their process however it ends. Where a file system has none, the work goes
on without: every single rename is still atomic.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.journal import temp_stem

LOCK_SUFFIX = ".polyvec-lock"
WAIT_SECONDS = 60.0  # a commit is a few renames: who holds a folder longer hangs
STEP_SECONDS = 0.005
HELD = (errno.EWOULDBLOCK, errno.EAGAIN)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder for the moment of a commit. The lock is on the folder itself, so no file is left behind."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # a folder that may be written but not read
        yield
        return
    try:
        _wait(fd, folder)
        yield
    finally:
        _release(fd)


def _wait(fd: int, folder: Path) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in HELD:
                return  # no locks here
            if time.monotonic() > limit:
                raise OSError(
                    errno.EBUSY, f"another program holds this folder locked for {WAIT_SECONDS:.0f} s", str(folder)
                ) from None
            time.sleep(STEP_SECONDS)
        else:
            return


def _release(fd: int) -> None:
    # Said aloud, because a child forked meanwhile has the descriptor too, and would hold the lock.
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


@contextlib.contextmanager
def job_lock(target: str | os.PathLike[str], *, label: str | None = None) -> Iterator[None]:
    """Hold a target for a whole run; `InputError` where another run is at work on it.

    For every job that keeps unfinished work beside its target. The lock is on ``.NAME.polyvec-lock`` beside it, which
    goes when the run ends. ``label`` is how messages name the target.
    """
    real = Path(os.path.realpath(target))
    path = real.with_name(f".{temp_stem(real.name)}{LOCK_SUFFIX}")
    fd = _take(path, label or os.fspath(target))
    try:
        with contextlib.suppress(OSError):
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is held: who waits at it finds it gone and makes a new one
        _release(fd)


def _take(path: Path, label: str) -> int:
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            error.filename = label
            raise
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in HELD:
                return fd  # no locks here
            who = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            process = f" (process {who})" if who.isdigit() else ""
            raise InputError(
                f"{label}: another run is writing this output{process}; wait for it to end, or name another output"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)  # its holder ended and removed it between opening and locking
