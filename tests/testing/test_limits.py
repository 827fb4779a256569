"""Limits: time that no handler swallows, memory that is given back."""

from __future__ import annotations

import resource
import signal

import pytest

from polyvec.testing.limits import TooSlow, bounded, limited


def test_endless_work_ends_and_no_handler_of_exceptions_sees_it() -> None:
    with pytest.raises(TooSlow, match=r"still at it after 0\.05 s"), bounded(seconds=0.05) as clock:
        clock.restart()
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


def test_memory_beyond_the_headroom_is_refused_and_the_limit_is_put_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with bounded(64 << 20) as clock:
        clock.stop()
        if resource.getrlimit(resource.RLIMIT_AS) != before:  # the system tells how much is used
            with pytest.raises(MemoryError):
                bytearray(1 << 30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_nothing_is_limited_where_nothing_is_known() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with limited(resource.RLIMIT_NOFILE, None, 1):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    with limited(resource.RLIMIT_NOFILE, 90, 10):
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 100
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
