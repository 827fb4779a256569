"""Work spread over threads: every task once, results in order, with as many threads as can be had."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyvec
from polyvec import kernels
from polyvec.kernels.threads import Crew, default_threads, limit_threads, spread


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


def test_threads_work_in_the_context_of_the_caller() -> None:
    asked = contextvars.ContextVar("asked", default="nothing")
    both = threading.Barrier(2, timeout=60)

    def work(_: int) -> tuple[str, str, int]:
        both.wait()  # on two threads, really
        return asked.get(), kernels.cpu_path(), default_threads()

    asked.set("this")
    with kernels.use_path("numpy"):
        assert spread(work, range(4), 2) == [("this", "numpy", 1)] * 4
        with Crew(2) as pool, limit_threads(3):
            assert list(pool.map(work, range(4))) == [("this", "numpy", 3)] * 4


def test_what_a_task_chooses_ends_with_it() -> None:
    kind = contextvars.ContextVar("kind", default=0)

    def work(task: int) -> int:
        before = kind.get()
        kind.set(task)
        return before

    assert spread(work, range(1, 40), 2) == [0] * 39
    assert kind.get() == 0


def test_every_pool_of_the_library_works_in_the_context_of_its_caller() -> None:
    root = Path(polyvec.__file__).parent
    bare = [
        str(path.relative_to(root)) for path in root.rglob("*.py") if "ThreadPoolExecutor(" in path.read_text("utf-8")
    ]
    assert not bare  # a Crew is one that does
