"""A progress bar for long work: rate and time left, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def bar(label: str = "rows", unit: str = "rows") -> Callable[[int, int], None]:
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
