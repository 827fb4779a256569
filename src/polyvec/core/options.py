"""Options of formats, declared: what each is called, which kind of value it takes, and the one place that checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import index
from typing import Any

import numpy as np

from polyvec.core.errors import InputError

KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
SPELLINGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Text(str):
    """A value as it was typed on a command line: the kind of its option says what it means."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a format: its name, the kind of its value (bool, int, float or str), and what it does, in one line.

    ``choices`` are the values it takes where they are few, ``least`` the smallest where it is a number; ``default`` is what
    `of` gives where nothing was asked.
    """

    name: str
    kind: type
    help: str
    choices: tuple[Any, ...] = ()
    default: Any = None
    least: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise TypeError(f"option {self.name}: a kind is bool, int, float or str, not {self.kind!r}")
        if not self.name.isidentifier():
            raise TypeError(f"option {self.name!r}: a name is a Python name")
        for what, values in (("default", (self.default,)), ("choices", self.choices), ("least", (self.least,))):
            for value in values:
                if what == "least" and value is not None and self.kind not in (int, float):
                    raise TypeError(f"option {self.name}: only numbers have a least one")
                kind = float if what == "least" else self.kind
                if (value is not None or what == "choices") and _converted(kind, value) is None:
                    raise TypeError(f"option {self.name}: its {what} must be {KINDS[kind]}, not {_shown(value)}")
        if self.default is not None and self.choices and self.default not in self.choices:
            raise TypeError(f"option {self.name}: its default {_shown(self.default)} is none of its choices")

    def of(self, own: Mapping[str, Any]) -> Any:
        """What was asked for, or the default."""
        value = own.get(self.name)
        return self.default if value is None else value

    def value(self, given: Any) -> Any:
        """A value of its kind; `InputError` where it is of another, or none of the choices."""
        found = _parsed(self.kind, given) if isinstance(given, Text) else _converted(self.kind, given)
        if found is None or (self.choices and found not in self.choices):
            if self.choices and (found is not None or self.kind is str):
                raise InputError(f"unknown {self.name} {_shown(given)}; there are {', '.join(map(str, self.choices))}")
            raise InputError(f"{self.name} is {KINDS[self.kind]}, not {_shown(given)}")
        if self.least is not None and found < self.least:
            raise InputError(f"{self.name} is {KINDS[self.kind]} of at least {self.least}, not {_shown(given)}")
        return found


CHUNK_ROWS = Option("chunk_rows", int, "Rows of a chunk, in formats that have chunks.")  # of every write


def _shown(given: Any) -> str:
    return repr(str(given)) if isinstance(given, str) else repr(given)


def _parsed(kind: type, text: str) -> Any:
    if kind is bool:
        return SPELLINGS.get(text.lower())
    try:
        return kind(str(text))
    except ValueError:
        return None


def _converted(kind: type, given: Any) -> Any:
    truth = isinstance(given, (bool, np.bool_))
    if kind is bool:
        return bool(given) if truth else None
    if kind is str:
        return given if isinstance(given, str) else None
    if truth or isinstance(given, str):
        return None
    try:
        return index(given) if kind is int else float(given)
    except (TypeError, ValueError):
        return None


def names(options: Iterable[Option]) -> tuple[str, ...]:
    """What options are called."""
    return tuple(option.name for option in options)


def check_options(
    format: str, declared: Sequence[Option], own: Mapping[str, Any], *, reading: bool, others: Sequence[Option] = ()
) -> dict[str, Any]:
    """The options as values of their kinds, without those that are None, which asks for nothing.

    ``others`` are those of the other direction: a name that is among them is told apart from one that is not known.
    """
    known = {option.name: option for option in declared}
    unknown = sorted(set(own) - set(known))
    if unknown:
        elsewhere = [name for name in unknown if name in names(others)]
        if elsewhere:
            verb, other = ("read", "writing") if reading else ("written", "reading")
            one = len(elsewhere) == 1
            raise InputError(
                f"{', '.join(elsewhere)} {'is an option' if one else 'are options'} of {other} {format} files, which "
                f"are not {verb} by {'it' if one else 'them'}"
            )
        has = f"; it has {', '.join(known)}" if known else ""
        raise InputError(
            f"{format} has no option {', '.join(unknown)}{' to be read by' if reading else ''}{has}"
            f"{near(unknown[0], known)}"
        )
    return {name: known[name].value(value) for name, value in own.items() if value is not None}


def near(name: str, known: Iterable[str]) -> str:
    """``; did you mean fbin?`` where a known name is spelled much like this one, else nothing."""
    found = get_close_matches(name.lower(), sorted(set(known)), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""
