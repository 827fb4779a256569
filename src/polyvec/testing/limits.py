"""Limits around code that reads hostile files: CPU time and address space, with nothing forked."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SECONDS = 1.0
HEADROOM = 64 << 20


class TooSlow(BaseException):
    """Reading a file took more than its second. No ``except Exception`` of a format can swallow it."""


class Clock:
    """Counts CPU time, so that a busy machine fails nothing; `restart` it for each file."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = threading.current_thread() is threading.main_thread()
        if self._armed:
            self._before = signal.signal(signal.SIGPROF, self._late)

    def _late(self, number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"still at it after {self._seconds:g} s of CPU time")

    def restart(self) -> None:
        """Grant the next file its time."""
        if self._armed:
            signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def stop(self) -> None:
        """Disarm."""
        if self._armed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._before)


@contextlib.contextmanager
def bounded(headroom: int = HEADROOM, seconds: float = SECONDS) -> Iterator[Clock]:
    """Allow ``headroom`` bytes of address space beyond what the process has, and ``seconds`` for each file."""
    clock = Clock(seconds)
    try:
        with limited(resource.RLIMIT_AS, _address_space(), headroom):
            yield clock
    finally:
        clock.stop()


@contextlib.contextmanager
def limited(kind: int, used: int | None, more: int) -> Iterator[None]:
    """Lower a soft limit of this process for a while; nothing where ``used`` is not known."""
    soft, hard = resource.getrlimit(kind)
    if used is None:
        yield
        return
    resource.setrlimit(kind, (used + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _address_space() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux: the time limit has to do
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
