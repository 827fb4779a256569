"""Work spread over Python threads: for work that is done without Python's lock, in kernels or in the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from polyvec.kernels.paths import default_threads, limit_threads

Task = TypeVar("Task")
Result = TypeVar("Result")


def spread(work: Callable[[Task], Result], tasks: Iterable[Task], threads: int | None = None) -> list[Result]:
    """The results of all tasks, in order, on as many threads as kernels would use; each kernel then uses one.

    An error, or Ctrl-C, drops the tasks that have not begun.
    """
    todo = list(tasks)
    count = min(threads or default_threads(), len(todo))
    if count <= 1:
        return [work(task) for task in todo]

    def alone(task: Task) -> Result:
        with limit_threads(1):
            return work(task)

    pool = ThreadPoolExecutor(count)
    try:
        return [future.result() for future in [pool.submit(alone, task) for task in todo]]
    finally:
        pool.shutdown(cancel_futures=True)
