"""Work spread over Python threads: for work that is done without Python's lock, in kernels or in the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TypeVar

from polyvec.kernels.paths import default_threads, limit_threads

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(ThreadPoolExecutor):
    """A pool that does with the threads it has where the system starts no more of them."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:  # under a limit of memory or of threads
            if not self._threads:
                raise


def spread(
    work: Callable[[Task], Result],
    tasks: Iterable[Task],
    threads: int | None = None,
    *,
    each: Callable[[Result], None] | None = None,
) -> list[Result]:
    """The results of all tasks, in order, on as many threads as kernels would use; each kernel then uses one.

    ``each`` gets every result, in order, on the caller's thread. An error, or Ctrl-C, drops what has not begun. Threads
    that cannot start are done without.
    """
    todo = list(tasks)
    count = min(threads or default_threads(), len(todo))
    results: list[Result] = []

    def keep(result: Result) -> None:
        results.append(result)
        if each is not None:
            each(result)

    def one_by_one() -> list[Result]:
        for task in todo:
            keep(work(task))
        return results

    if count <= 1:
        return one_by_one()
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

    pool = Crew(count)
    try:
        try:
            first = pool.submit(alone, todo[0])
        except RuntimeError:  # not a single one starts
            return one_by_one()
        for future in [first, *(pool.submit(alone, task) for task in todo[1:])]:
            keep(future.result())
        return results
    finally:
        stopped = True
        pool.shutdown(cancel_futures=True)
