"""A sink in memory: what a format writes goes nowhere, and through nothing but the contract of `Sink`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence

from polyvec.core.sinks import Sink
from polyvec.core.sources import MemorySource


class MemorySink(Sink):
    """One file being written in memory. ``committed`` is None before the commit, then the files by name, main one first."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.committed: dict[str, bytes] | None = None
        self.discarded: set[str] = set()
        self._data = bytearray()
        self._lock = threading.Lock()  # several threads fill what was reserved
        self._siblings: list[MemorySink] = []
        self._guards: list[Callable[[], None]] = []

    def reserve(self, size: int) -> int:
        start = self.size
        self._data.extend(bytes(size))
        self.size += size
        return start

    def _put(self, offset: int, data: memoryview) -> None:
        with self._lock:
            assert offset <= self.size, "bytes beyond the end, with nothing before them"
            self._data[offset : offset + len(data)] = data
            self.size = len(self._data)

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def source(self) -> MemorySource:
        return MemorySource(bytes(self._data), self.name, self._files())

    @property
    def siblings(self) -> Sequence[MemorySink]:
        return self._siblings

    def sibling(self, name: str) -> MemorySink:
        sink = MemorySink(name)
        self._siblings.append(sink)
        return sink

    def discard(self, names: Iterable[str]) -> None:
        self.discarded.update(names)

    def guard(self, check: Callable[[], None]) -> None:
        self._guards.append(check)

    def commit(self) -> None:
        for check in self._guards:
            check()
        self.committed = self._files()

    def abort(self) -> None:
        self._data.clear()
        self._siblings.clear()

    def hexdigest(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def _files(self) -> dict[str, bytes]:
        files = {self.name: bytes(self._data)}
        for sink in self._siblings:
            files.update(sink._files())
        return files
