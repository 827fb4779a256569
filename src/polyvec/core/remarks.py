"""Warnings about files, and doing without them where the same is told in another way (as notes, as findings).

Python's filters of warnings belong to the whole process: two threads that change them for a while may leave them
changed for good. So what is not to be said is not said here, in the context that asks for it and in no other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from polyvec.core.errors import FormatWarning

_unsaid: ContextVar[bool] = ContextVar("polyvec_unsaid", default=False)


def remark(message: str, category: type[FormatWarning] = FormatWarning, *, stacklevel: int = 1) -> None:
    """Warn of something odd in a file; ``stacklevel`` counts from the caller, as in `warnings.warn`."""
    if not _unsaid.get():
        warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def unremarked() -> Iterator[None]:
    """Say nothing odd about files in this block, in this thread or task alone."""
    token = _unsaid.set(True)
    try:
        yield
    finally:
        _unsaid.reset(token)
