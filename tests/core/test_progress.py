"""Progress means one thing: counts that grow, and at the end of what succeeded (total, total), once."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core import progress
from polyvec.core.progress import onward, telling
from polyvec.neighbors.truth import compute_truth, write_truth
from polyvec.reports.quality import measure_quality
from polyvec.web.publish import publish, publish_single_file

ROWS = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
Calls = list[tuple[int, int]]


def test_what_goes_back_and_an_early_end_are_kept_from_the_caller() -> None:
    heard: Calls = []
    with telling(lambda *said: heard.append(said), 10) as tell:
        assert tell is not None
        for done in (0, 3, 2, 3, 10, 12, 7):
            tell(done, 99)
    assert heard == [(3, 10), (7, 10), (10, 10)]


def test_failed_work_has_no_end() -> None:
    heard: Calls = []
    with pytest.raises(ZeroDivisionError), telling(lambda *said: heard.append(said), 2) as tell:
        assert tell is not None
        tell(1, 2)
        raise ZeroDivisionError
    assert heard == [(1, 2)]


def test_nobody_is_told_where_nobody_listens() -> None:
    for quiet in (None, False):
        with telling(quiet, 3) as tell:
            assert tell is None and onward(tell, 1, 3) is None


WORK: dict[str, tuple[Callable[[Any], object], int]] = {
    "write": (lambda p: pv.write("o.npy", ROWS, chunk_rows=70, progress=p), 300),
    "write nothing": (lambda p: pv.write("o.npy", ROWS[:0], progress=p), 0),
    "write several columns": (lambda p: pv.write("o.safetensors", {"a": ROWS, "b": ROWS}, progress=p), 300),
    "write cvc": (lambda p: pv.write("o.cvc", ROWS, chunk_rows=70, encoding="int8", progress=p), 300),
    "write i8bin": (lambda p: pv.write("o.i8bin", ROWS, normalize=True, progress=p), 300),
    "write words": (lambda p: pv.write("o.vec", ROWS, vocab=[f"w{i}" for i in range(300)], progress=p), 300),
    "dry run": (lambda p: pv.write("o.npy", ROWS, dry_run=True, progress=p), 300),
    "convert": (lambda p: pv.convert("a.fbin", "o.npy", chunk_rows=70, progress=p), 300),
    "convert, resumable": (lambda p: pv.convert("a.fbin", "o.npy", resume=True, progress=p), 300),
    "merge": (lambda p: pv.merge(["a.fbin", "a.fbin"], "o.fbin", progress=p), 600),
    "split": (lambda p: pv.split("a.fbin", "o.fbin", rows=70, progress=p), 300),
    "sample": (lambda p: pv.sample("a.fbin", "o.fbin", head=100, chunk_rows=30, progress=p), 100),
    "verify": (lambda p: pv.verify("a.fbin", progress=p), 8 + ROWS.nbytes),
    "stats": (lambda p: pv.stats("a.fbin", progress=p), 300),
    "search": (lambda p: pv.search("a.fbin", ROWS[:2], progress=p), 300),
    "search by an index": (lambda p: pv.search(ROWS, ROWS[:2], index=pv.Index.build(ROWS), progress=p), 300),
    "search some rows": (lambda p: pv.search(ROWS, ROWS[:2], where=ROWS[:, 0] > 0, progress=p), 300),
    "index": (lambda p: pv.Index.build("a.fbin", progress=p), 300),
    "truth": (lambda p: compute_truth("a.fbin", ROWS[:2], metric="l2", progress=p), 300),
    "truth, written": (lambda p: write_truth("a.fbin", ROWS[:2], "t.ibin", metric="l2", progress=p), 300),
    "quality": (lambda p: measure_quality(ROWS, encodings=["float16"], progress=p), 600),
    "publish": (lambda p: publish(pv.open("a.fbin"), "site", progress=p), 300),
    "publish a file": (lambda p: publish_single_file(pv.open("a.fbin"), "o.html", progress=p), 300),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pv.write("a.fbin", ROWS)
    return tmp_path


@pytest.mark.parametrize("what", WORK)
def test_every_long_call_tells_growing_counts_and_ends_once(folder: Path, what: str) -> None:
    heard: Calls = []
    call, total = WORK[what]
    call(lambda *said: heard.append(said))
    assert heard[-1] == (total, total)
    counts = [done for done, _ in heard]
    assert all(one < two for one, two in pairwise(counts)), heard
    assert {of for _, of in heard} == {total}


@pytest.mark.parametrize("what", WORK)
def test_true_asks_for_a_bar_and_draws_none_where_there_is_no_terminal(
    folder: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    WORK[what][0](True)
    assert capsys.readouterr() == ("", "")


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
