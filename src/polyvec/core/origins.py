"""Origins: how the parts of a collection travel to another process. By where they came from, not by what they hold.

A part of an opened file (a column, words, records, ids) knows its origin, and is pickled as a request for that part of that
file. All parts of a pickle that share an origin share one opening of the file. Parts without an origin are in memory, or
made of other parts, and are pickled as what they are made of. Nothing but functions named here and in `formats.origins`
is called when they arrive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

Value = TypeVar("Value")


class Origin(Protocol):
    """An opened file, as another process can open it again."""

    def part(self, kind: str, name: str) -> Any:
        """A part of what the file holds: of ``columns`` by name, or ``vocab``, ``records``, ``ids``."""
        ...

    def close(self) -> None:
        """Close what `part` has opened."""
        ...


class Part:
    """A part of a collection. Pickled by its origin where it has one."""

    origin: tuple[Origin, str, str] | None = None  # the file, and which part of it this is

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._by_value(protocol) if self.origin is None else (fetch, self.origin)

    def _by_value(self, protocol: Any) -> Any:
        """How to pickle what is not from a file; what has nothing to pickle by itself says how here."""
        return super().__reduce_ex__(protocol)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


def fetch(origin: Origin, kind: str, name: str) -> Any:
    """The part of a file that was pickled."""
    return origin.part(kind, name)


class Once(Generic[Value]):
    """A value that is made when it is first asked for: once, however many threads ask. Elsewhere it is made anew."""

    __slots__ = ("_lock", "_made", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = False
        self._value: Value

    def get(self, make: Callable[[], Value]) -> Value:
        """The value, made by ``make`` where nobody has asked before. What that raises is not kept."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._value = make()
                    self._made = True
        return self._value

    @property
    def made(self) -> bool:
        """Whether somebody has asked."""
        return self._made

    def __reduce__(self) -> Any:
        return Once, ()
