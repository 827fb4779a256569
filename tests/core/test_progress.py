"""The bar: one line on a terminal, nothing elsewhere, gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from polyvec.core import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", out := io.StringIO())
    progress.bar()(5, 10)
    assert out.getvalue() == ""


def test_the_line_tells_how_far_how_fast_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    show = progress.bar(unit="texts")
    now[0] = 102.0
    show(1000, 4000)
    assert out.getvalue().startswith("\r" + "█" * 7 + "░" * 23)
    assert "1,000/4,000 texts  500/s  6 s left" in out.getvalue()
    seen = len(out.getvalue())
    now[0] = 102.05
    show(1001, 4000)
    assert len(out.getvalue()) == seen, "drawn again after less than a tenth of a second"
    show(4000, 4000)
    assert out.getvalue().endswith("\r\x1b[K")


def test_nothing_to_do_and_no_speed_yet_are_no_division_by_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    show = progress.bar()
    show(0, 0)
    show(0, 10)
    assert "0/0 rows" in out.getvalue()
