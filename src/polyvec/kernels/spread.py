"""Work spread over Python threads: for work that is done without Python's lock, in kernels or in the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TypeVar

from polyvec.kernels.paths import default_threads, limit_threads

Task = TypeVar("Task")
Result = TypeVar("Result")


def spread(
    work: Callable[[Task], Result], tasks: Iterable[Task], threads: int | None = None, *,
    each: Callable[[Result], None] | None = None,
) -> list[Result]:  # fmt: skip
    """The results of all tasks, in order, on as many threads as kernels would use; each kernel then uses one.

    ``each`` gets every result, in order, on the caller's thread. An error, or Ctrl-C, drops what has not begun.
    """
    todo = list(tasks)
    count = min(threads or default_threads(), len(todo))
    results: list[Result] = []

    def keep(result: Result) -> None:
        results.append(result)
        if each is not None:
            each(result)

    if count <= 1:
        for task in todo:
            keep(work(task))
        return results
    stopped = False

    def alone(task: Task) -> Result:
        nonlocal stopped
        if stopped:
            raise CancelledError  # nobody sees it: tasks begin in order, so the error itself comes first
        try:
            with limit_threads(1):
                return work(task)
        except BaseException:
            stopped = True
            raise

    pool = ThreadPoolExecutor(count)
    try:
        for future in [pool.submit(alone, task) for task in todo]:
            keep(future.result())
        return results
    finally:
        stopped = True
        pool.shutdown(cancel_futures=True)
