"""What the arguments of this face are, and what they must be."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from polyvec.core.errors import InputError

StrPath = str | os.PathLike[str]
Array = NDArray[Any]
Progress = Callable[[int, int], None]
MB = 1024 * 1024


def at_least_one(**values: int) -> None:
    """`InputError` for numbers below one."""
    for name, value in values.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")


def not_negative(**values: int) -> None:
    """`InputError` for numbers below zero."""
    for name, value in values.items():
        if value < 0:
            raise InputError(f"{name} must not be negative, not {value}")
