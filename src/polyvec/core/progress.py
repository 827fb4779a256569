"""How far long work has come, as callers hear it: a callback(done, total), or a bar on a terminal.

One meaning everywhere: ``done`` only grows, and the last call of work that succeeded is ``(total, total)``, told once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyvec.core.arguments import shown
from polyvec.core.errors import InputError
from polyvec.core.format import Progress


def check_progress(progress: Any) -> None:
    """`InputError` for what is no callback, True, False or None."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True or a callback(done, total), not {shown(progress)}")


def as_progress(progress: Progress | bool | None, unit: str = "rows") -> Progress | None:
    """The callback that was given, or a bar for True; None where nobody listens."""
    check_progress(progress)
    return bar(unit) if progress is True else progress or None


@contextmanager
def telling(progress: Progress | bool | None, total: int, unit: str = "rows") -> Iterator[Progress | None]:
    """What work inside calls with how far it is, as often as it likes; None where nobody listens.

    What goes back, and an end that is told too early, is kept from the caller.
    """
    listener = as_progress(progress, unit)
    if listener is None:
        yield None
        return
    last = 0

    def tell(done: int, _: int) -> None:
        nonlocal last
        if last < done < total:
            last = done
            listener(done, total)

    yield tell
    listener(total, total)


def onward(progress: Progress | None, start: int, total: int) -> Progress | None:
    """Progress of one piece, from ``start`` on, as progress of the whole."""
    return None if progress is None else lambda done, _: progress(start + done, total)


def bar(unit: str = "rows") -> Progress:
    """A callback(current, total) that redraws one line on standard error; silent where that is no terminal."""
    if not sys.stderr.isatty():
        return lambda current, total: None
    started = time.monotonic()
    last = 0.0

    def show(current: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.1 and current < total:
            return
        last = now
        rate = current / max(now - started, 1e-9)
        left = (total - current) / rate if rate else 0.0
        filled = int(30 * current / total) if total else 30
        line = f"\r{'█' * filled}{'░' * (30 - filled)} {current:,}/{total:,} {unit}  {rate:,.0f}/s  {left:,.0f} s left "
        sys.stderr.write(line + ("\r\x1b[K" if current >= total else ""))
        sys.stderr.flush()

    return show
