"""Arguments as callers hand them in: each check names the argument in one line, as an `InputError`.

What is wrong is told at the door, before anything is opened, and not by whatever meets it far inside.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.core.places import is_url
from polyvec.kernels.threads import BadSetting, default_threads

LONGEST = 60  # letters of a value that a message shows


def shown(value: object) -> str:
    """A value as a message shows it: in one line, and not too long."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def whole(name: str, value: Any, *, least: int | None = None) -> int:
    """A whole number, of Python or NumPy; True and False are none."""
    if isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be a whole number, not {shown(value)}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {shown(value)}") from None
    if least is not None and number < least:
        raise InputError(f"{name} must be at least {least}, not {number}")
    return number


def check_whole(least: int | None = None, **given: Any) -> None:
    """`InputError` for what is neither a whole number from ``least`` on nor None."""
    for name, value in given.items():
        if value is not None:
            whole(name, value, least=least)


def check_flags(**given: Any) -> None:
    """`InputError` for what is neither True nor False."""
    for name, value in given.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, not {shown(value)}")


def check_texts(**given: Any) -> None:
    """`InputError` for what is neither text nor None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise InputError(f"{name} must be text, not {shown(value)}")


def check_paths(**given: Any) -> None:
    """`InputError` for what is no path."""
    for name, value in given.items():
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(text, str):
            raise InputError(f"{name} must be a path, not {shown(value)}")
        if "\0" in text:
            raise InputError(f"{name} must be a path, and {shown(text)} holds a zero byte, which no path does")


def check_targets(**given: Any) -> None:
    """`InputError` for what is no path of this machine: only there are files written."""
    check_paths(**given)
    for name, value in given.items():
        if is_url(os.fspath(value)):
            raise InputError(
                f"{os.fspath(value)}: {name} is a URL, and files are written to this machine; name a path without ://"
            )


def check_threads(threads: Any) -> None:
    """`InputError` for what is no number of threads: None (one a core) or a whole number from 1 on."""
    check_whole(1, threads=threads)
    if threads is None:
        try:
            default_threads()
        except BadSetting as error:
            raise InputError(str(error)) from None


def check_mapping(**given: Any) -> None:
    """`InputError` for what is neither a mapping of names to values nor None."""
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise InputError(f"{name} must be a mapping of names to values, not {shown(value)}")


def _listed(what: str, name: str, value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be {what}, not {shown(value)}")
    return list(value)


def path_list(**given: Any) -> list[str | os.PathLike[str]]:
    """The one argument given, a path or several, as a list; `InputError` for what is neither."""
    ((name, value),) = given.items()
    one = isinstance(value, (str, os.PathLike))
    paths = [value] if one else _listed("a path or a list of paths", name, value)
    for path in paths:
        check_paths(**{name: path})
    return paths


def whole_list(**given: Any) -> list[int]:
    """The one argument given as a list of whole numbers."""
    ((name, value),) = given.items()
    return [whole(name, one) for one in _listed("a list of whole numbers", name, value)]


def text_list(**given: Any) -> list[str]:
    """The one argument given as a list of texts; a text alone is none, because its letters would be taken."""
    ((name, value),) = given.items()
    texts = _listed("a list of texts", name, value)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name} must be a list of texts, not of {shown(text)}")
    return texts


def joined(given: Mapping[str, Any], options: Any) -> dict[str, Any]:
    """Options given by their names, and those in a mapping ``options``; `InputError` for one that is in both."""
    check_mapping(options=options)
    for name in options or {}:
        if name in given:
            raise InputError(f"{name} is given twice, by its name and in options")
    return {**given, **(options or {})}


def array_of(value: Any) -> NDArray[Any]:
    """A value as an array; `InputError` where rows have different lengths."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected rows of numbers, all of one length, not {shown(value)}") from None


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """`InputError` for what is no array of just this shape and dtype that can be written to."""
    wanted = f"out must be a writeable array, {shape} {dtype}"
    if not isinstance(out, np.ndarray):
        raise InputError(f"{wanted}, not {shown(out)}")
    if out.shape != shape or out.dtype != dtype:
        raise InputError(f"{wanted}, not {out.shape} {out.dtype}")
    if not out.flags.writeable:
        raise InputError(f"{wanted}, and this one is read-only")


def one_a_row(name: str, value: Any) -> list[Any]:
    """Values of anything that can be walked through, as a list."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be one a row, not {shown(value)}")
    return list(value)
