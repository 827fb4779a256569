"""Locks between processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from polyvec.core.errors import InputError
from polyvec.core.locks import LOCK_SUFFIX, folder_lock, job_lock
from polyvec.testing.atomicity import contents

FORK = multiprocessing.get_context("fork")


def _hold(target: Path, ready: Any, go: Any) -> None:
    with job_lock(target):
        ready.set()
        go.wait(30)


def test_a_second_run_is_refused_and_names_the_target_and_the_process(tmp_path: Path) -> None:
    target, ready, go = tmp_path / "out.fbin", FORK.Event(), FORK.Event()
    first = FORK.Process(target=_hold, args=(target, ready, go))
    first.start()
    assert ready.wait(30)
    with pytest.raises(InputError, match=rf"out\.fbin: another run is writing this output \(process {first.pid}\)"):
        job_lock(target).__enter__()
    with job_lock(tmp_path / "other.fbin"):
        pass
    (tmp_path / "link.fbin").symlink_to(target)
    with pytest.raises(InputError, match=r"link\.fbin"):  # the same file by another name
        job_lock(tmp_path / "link.fbin").__enter__()
    go.set()
    first.join()
    with job_lock(target):
        pass
    assert contents(tmp_path) == {}


def test_what_a_killed_run_leaves_locks_nobody_out(tmp_path: Path) -> None:
    target, ready, go = tmp_path / "out.fbin", FORK.Event(), FORK.Event()
    first = FORK.Process(target=_hold, args=(target, ready, go))
    first.start()
    assert ready.wait(30)
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    assert contents(tmp_path).keys() == {f".out.fbin{LOCK_SUFFIX}"}
    with job_lock(target), pytest.raises(InputError), job_lock(target):
        pass
    assert contents(tmp_path) == {}


def _count(folder: Path, times: int) -> None:
    path = folder / "count"
    for _ in range(times):
        with folder_lock(folder):
            path.write_text(str(int(path.read_text()) + 1))


def test_one_holds_a_folder_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    others = [FORK.Process(target=_count, args=(tmp_path, 50)) for _ in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert contents(tmp_path) == {"count": b"150"}


def test_a_folder_held_for_ever_is_an_error_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.core.locks.WAIT_SECONDS", 0.05)
    with (
        folder_lock(tmp_path),
        pytest.raises(OSError, match="another program holds this folder"),
        folder_lock(tmp_path),
    ):
        pass


def test_work_goes_on_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("polyvec.core.locks.fcntl.flock", none)
    with folder_lock(tmp_path), folder_lock(tmp_path), job_lock(tmp_path / "a"):
        pass
