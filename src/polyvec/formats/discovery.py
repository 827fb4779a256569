"""Which formats there are: the modules of this folder, those of installed packages, those registered. Not a format."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.format import Format
from polyvec.core.options import Option, names, near
from polyvec.formats.options import TAKEN
from polyvec.formats.plugins import complain, plugged

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
SUFFIX = re.compile(r"\.[^./\\\sA-Z]+")

_registered: list[Format] = []


@cache
def _own() -> tuple[Format, ...]:
    found: list[Format] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        loaded = import_module(f"polyvec.formats.{module.name}")
        formats = getattr(loaded, "FORMATS", None) or [getattr(loaded, "FORMAT", None)]
        found.extend(f for f in formats if f is not None)
    return tuple(sorted(found, key=lambda f: f.name))


@cache
def _discovered() -> tuple[Format, ...]:
    """Our own formats by name, and then those of installed packages: what is ours cannot be taken."""
    found = [*_own()]
    for format, package in plugged():
        try:
            check_format(format, found)
        except InputError as error:
            complain(package, str(error))
        else:
            found.append(format)
    return tuple(found)


def all_formats() -> list[Format]:
    """Every format there is: our own by name, those of installed packages, those registered."""
    return [*_discovered(), *_registered]


def is_own(format: Format) -> bool:
    """Whether a format is one of this folder."""
    return format in _own()


def register_format(format: Format) -> Format:
    """Add a format for as long as this process runs; returns it. `InputError` where its name or an alias is taken.

    One that was registered before under the same name is replaced, so that a notebook's cell can be run again.
    Packages that are installed declare theirs with the entry point ``polyvec.formats`` instead.
    """
    before = _registered_as(format)
    check_format(format, [other for other in all_formats() if other is not before])
    if before is not None:
        _registered.remove(before)
    _registered.append(format)
    return format


def _registered_as(format: Format) -> Format | None:
    """The format that was registered under the name of this one."""
    return next((other for other in _registered if other.name == getattr(format, "name", None)), None)


@contextmanager
def registered(format: Format) -> Iterator[Format]:
    """Add a format for a while (tests, notebooks); what it replaced comes back."""
    before = _registered_as(format)
    register_format(format)
    try:
        yield format
    finally:
        if format in _registered:
            _registered.remove(format)
            if before is not None:
                _registered.append(before)


def check_format(format: object, others: Sequence[Format]) -> None:
    """`InputError` where a format's declarations are not as they must be, or its name or an alias is another's."""
    if not isinstance(format, Format):
        what = f"the class {format.__name__}" if isinstance(format, type) else repr(format)
        raise InputError(f"a format is an instance of a subclass of polyvec.Format, not {what}")
    name = getattr(format, "name", None)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(f"a format's name is lower-case letters, digits, - and _, not {name!r}")
    if not getattr(format, "title", None):
        raise InputError(f"the format {name} has no title")
    if not isinstance(format.suffixes, tuple) or not format.suffixes:
        raise InputError(f"the format {name} has no suffixes; give a tuple, such as ('.{name}',)")
    for suffix in format.suffixes:
        if not isinstance(suffix, str) or not SUFFIX.fullmatch(suffix):
            raise InputError(f"a suffix of the format {name} is a dot and lower-case characters, not {suffix!r}")
    for what in ("options", "reading"):
        if not all(isinstance(option, Option) for option in getattr(format, what)):
            raise InputError(
                f"the {what} of the format {name} are a tuple of polyvec.Option, not {getattr(format, what)}"
            )
        _check_names(name, names(getattr(format, what)), what)
    for other in others:
        taken = {other.name, *other.aliases, *(suffix[1:] for suffix in other.suffixes)}
        for own in (name, *format.aliases):
            if own in taken:
                raise InputError(f"the name {own!r} of the format {name} is taken by the format {other.name}")


def _check_names(format: str, given: Sequence[str], what: str) -> None:
    for name in given:
        if name in TAKEN:
            raise InputError(
                f"the option {name!r} of the format {format} is what every format is opened or written by; name it otherwise"
            )
        if given.count(name) > 1:
            raise InputError(f"the option {name!r} stands twice in the {what} of the format {format}")


def find_format(name: str) -> tuple[Format, str]:
    """A format and variant by name, alias or suffix: ``bins``, ``fbin``, ``.fbin``."""
    wanted = name.lower().lstrip(".")
    for format in all_formats():
        if wanted == format.name:
            return format, ""
    for format in all_formats():
        if wanted in format.aliases:
            return format, format.aliases[wanted]
        if f".{wanted}" in format.suffixes:
            return format, wanted
    known = [other for f in all_formats() for other in (f.name, *f.aliases, *(s[1:] for s in f.suffixes))]
    raise InputError(
        f"unknown format {name!r}; there are {', '.join(f.name for f in all_formats())}{near(wanted, known)}"
    )
