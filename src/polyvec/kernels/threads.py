"""Python threads for work that is done without Python's lock, in kernels or in the system, and how many a call uses.

Threads work in the context of whoever asked for the work: on the code path that `use_path` chose there, within the
bounds of `limit_threads`. `POLYVEC_THREADS` is read at every call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

MOST_THREADS = 1024  # of one call


class BadSetting(ValueError):
    """``POLYVEC_THREADS`` is no number of threads: whoever set it is at fault."""


_limit: ContextVar[int | None] = ContextVar("polyvec_threads", default=None)


@contextmanager
def limit_threads(count: int) -> Iterator[None]:
    """Kernels called in this block use at most ``count`` threads: for callers that split the work themselves."""
    token = _limit.set(count)
    try:
        yield
    finally:
        _limit.reset(token)


def default_threads() -> int:
    """Threads a kernel uses when not told: POLYVEC_THREADS, else the cores this process may run on."""
    limit = _limit.get()
    if limit is not None:
        return limit
    asked = os.environ.get("POLYVEC_THREADS", "")
    if asked:
        if not asked.isascii() or not asked.isdigit() or int(asked) < 1:
            raise BadSetting(f"POLYVEC_THREADS is {asked!r}: expected a whole number of at least 1")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(num_threads: int | None) -> int:
    """The number of threads for one call: as asked, else `default_threads()`; at most 1024."""
    if num_threads is None:
        num_threads = default_threads()
    elif num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}: expected at least 1")
    return min(num_threads, MOST_THREADS)


class Crew(ThreadPoolExecutor):
    """A pool whose work runs in the context it was submitted in, on the threads there are where no more can start."""

    def submit(
        self, work: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """As in `ThreadPoolExecutor`."""
        context = copy_context()
        return super().submit(lambda: context.run(work, *args, **kwargs))

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
