"""Work spread over threads: every task once, results in order, with as many threads as can be had."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from polyvec.kernels.threads import spread


@pytest.fixture(params=[0, 1, 3, 99])
def startable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many threads the system will start before it refuses."""
    left = request.param
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        nonlocal left
        if left <= 0:
            raise RuntimeError("can't start new thread")
        left -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    yield request.param


def test_work_is_done_once_and_in_order_with_the_threads_that_start(startable: int) -> None:
    done, seen = [], []

    def work(task: int) -> int:
        done.append(task)
        return task * task

    assert spread(work, range(50), 8, each=seen.append) == [task * task for task in range(50)]
    assert sorted(done) == list(range(50)) and seen == [task * task for task in range(50)]


def test_an_error_ends_the_work_whatever_threads_there_are(startable: int) -> None:
    done = []

    def work(task: int) -> None:
        if task == 3:
            raise ValueError("task 3")
        done.append(task)

    with pytest.raises(ValueError, match="task 3"):
        spread(work, range(10_000), 4)
    assert len(done) < 10_000
