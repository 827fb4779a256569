"""A table of Arrow data: rows in groups that are read one after the other, and a cursor that reads them forward."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from polyvec.core.errors import Corrupt, InputError, PolyvecError
from polyvec.core.exchange import arrow
from polyvec.core.sources import Source
from polyvec.core.streams import SourceStream

Kind = TypeVar("Kind")

SCAN_ROWS = 1 << 14  # of strings and records, read together


class Table(ABC):
    """Rows in groups that are read one after the other; a format says how."""

    label: str
    size: int  # bytes of the file
    schema: Any
    groups: list[int]  # rows of each group
    lock: threading.Lock
    closed: bool = False

    @property
    def rows(self) -> int:
        """Rows of all groups."""
        return sum(self.groups)

    @abstractmethod
    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        """Record batches of at most ``rows`` rows of some columns of one group, checked."""

    def values(self, name: str) -> int | None:
        """How many values a list column has in all, where the file says it without being read."""
        return None

    def cursor(self, *names: str) -> Cursor:
        """A place to read some columns from."""
        return Cursor(self, names)

    def close(self) -> None:
        """Release the file; a table that has one says how, and calls this too."""
        self.closed = True

    def refuse_closed(self) -> None:
        """`InputError` where the file is closed: the library would call it damaged."""
        if self.closed:
            raise InputError(f"{self.label} is closed")

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """Whatever the library raises becomes one line about the file."""
        try:
            with wrapped(self.label):
                yield
        except Corrupt:
            self.refuse_closed()
            raise


def over(source: Source, make: Callable[[Source, Any], Kind], purpose: str) -> Kind:
    """A table over the library's own view of a source, which is closed again where the table cannot be made."""
    pa = arrow(purpose)
    local = source.local()
    raw = pa.PythonFile(SourceStream(source), "r") if local is None else pa.OSFile(str(local))
    try:
        return make(source, raw)
    except BaseException:
        raw.close()
        raise


@contextmanager
def wrapped(label: str) -> Iterator[None]:
    """Whatever pyarrow raises becomes one line about the file."""
    try:
        yield
    except (PolyvecError, KeyboardInterrupt, GeneratorExit):
        raise
    except MemoryError:
        raise Corrupt("the file asks for more memory than there is", path=label) from None
    except Exception as error:  # pyarrow maps the library's errors to many Python types
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise Corrupt(f"the Arrow library cannot read it: {words}", path=label, remedy="fetch the file again") from None


class Cursor:
    """Reads forward without starting over; a jump costs the start of a group."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._table = table
        self._names = list(names)
        self._edges = [0]
        for rows in table.groups:
            self._edges.append(self._edges[-1] + rows)
        self._at = -1
        self._left: Any = None
        self._stream: Iterator[Any] | None = None

    def read(self, start: int, stop: int, rows: int) -> list[tuple[int, Any]]:
        """What `walk` gives, all at once: readers that take turns cannot move the cursor under each other."""
        with self._table.lock:
            return list(self.walk(start, stop, rows))

    def walk(self, start: int, stop: int, rows: int) -> Iterator[tuple[int, Any]]:
        """Pieces of batches, with the row each starts at, of rows ``start`` to ``stop``."""
        if start >= stop:
            return
        self._table.refuse_closed()
        group = int(np.searchsorted(self._edges, start, side="right")) - 1
        if self._stream is None or start < self._at or self._at < self._edges[group]:
            self._at, self._left, self._stream = self._edges[group], None, self._from(group, rows)
        while self._at < stop:
            batch = self._left if self._left is not None else next(self._stream, None)
            self._left = None
            if batch is None:
                raise Corrupt(
                    "the file has fewer rows than it says",
                    path=self._table.label,
                    field=self._names[0],
                    expected=f"{self._table.rows} rows",
                    found=f"{self._at} rows",
                )
            low, high = max(0, start - self._at), min(batch.num_rows, stop - self._at)
            first = self._at + low
            if high < batch.num_rows:
                self._left = batch.slice(high)
            self._at += high
            if low < high:
                yield first, batch.slice(low, high - low)

    def _from(self, group: int, rows: int) -> Iterator[Any]:
        for number in range(group, len(self._table.groups)):
            found = 0
            with self._table.wrapped():
                for batch in self._table.scan(self._names, number, rows):
                    if batch.num_rows:
                        found += batch.num_rows
                        if found > self._table.groups[number]:
                            break
                        yield batch
            if found != self._table.groups[number]:
                raise Corrupt(
                    "a group does not have the rows it says",
                    path=self._table.label,
                    field=f"row group {number}",
                    expected=self._table.groups[number],
                    found=found,
                )
