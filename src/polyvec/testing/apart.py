"""Damaged files examined in a child process: libraries in C++ may crash on them, and a crash must not end the tests."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, ClassVar

from polyvec.testing.contents import consume
from polyvec.testing.limits import Clock
from polyvec.testing.samples import Sample
from polyvec.testing.suite import FormatSuite

PATIENCE = 10.0  # seconds until a file in the library's hands counts as hanging


class ApartSuite(FormatSuite):
    """The suite for formats that another library reads. Its crashes are listed as warnings, not failed."""

    library: ClassVar[str]
    every: ClassVar[int] = 17  # of the damaged files this share is tried: each costs milliseconds in the library

    def _examine_all(
        self,
        sample: Sample,
        export: dict[str, bytes],
        files: Callable[..., Iterable[Any]],
        *,
        lenient: tuple[bool, ...] = (False,),
        must_tell: Any = None,
    ) -> None:
        (name, data), variant = next(iter(export.items())), self._variant(sample, export)
        bad = [(what, changed) for what, changed, *_ in islice(files(data), 0, None, self.every)]
        consume(self._open(sample, data, export))
        at, crashes = 0, []
        while at < len(bad):
            at, complaint = in_child(
                bad,
                at,
                lambda what, changed: self._examine(
                    what, changed, sample, variant, {name: changed}, lenient[-1], _NoClock()
                ),
            )
            if at < len(bad):
                assert complaint is None, complaint
                crashes.append(bad[at][0])
                at += 1
        assert len(crashes) < len(bad) // 10 + 2, "nearly every damaged file ends the process"
        for what in crashes:
            warnings.warn(f"{self.library} crashed or hung on: {what}", stacklevel=1)


class _NoClock(Clock):
    """The parent's patience is the limit instead."""

    def __init__(self) -> None:
        self._armed = False


def in_child(bad: list[tuple[str, bytes]], start: int, examine: Callable[[str, bytes], Any]) -> tuple[int, str | None]:
    """Examine files from ``start`` on in a fork; where it stopped, and what it complained of (None: it died)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            faulthandler.disable()
            for what, changed in bad[start:]:
                try:
                    examine(what, changed)
                except AssertionError as error:
                    os.write(writing, b"!" + str(error).encode()[:900])
                    os._exit(1)
                os.write(writing, b".")
        os._exit(0)
    os.close(writing)
    done, complaint = start, None
    while select.select([reading], [], [], PATIENCE)[0]:
        piece = os.read(reading, 1000)
        if not piece:
            break
        good, mark, words = piece.partition(b"!")
        done += len(good)
        complaint = words.decode() if mark else complaint
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    return done, complaint
