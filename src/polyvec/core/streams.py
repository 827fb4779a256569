"""Sources and sinks as Python file objects, for libraries that work on those (zipfile, pyarrow, h5py)."""

from __future__ import annotations

import io
from typing import Any

from polyvec.core.sinks import Sink
from polyvec.core.sources import Source


class SourceStream(io.RawIOBase):
    """A source as a readable, seekable file. Closing it leaves the source open."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        at = {0: 0, 1: self._at, 2: self._source.size}[whence] + offset
        if at < 0:
            raise OSError(22, "a place before the start of the file")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        size = max(0, self._source.size - self._at) if size is None or size < 0 else size
        data = self._source.read_at(self._at, size)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class SinkStream(io.RawIOBase):
    """A sink as a writable file that may seek back to fill in a header. Closing it leaves the sink open."""

    def __init__(self, sink: Sink, *, seekable: bool = True) -> None:
        self._sink = sink
        self._at = sink.size
        self._seekable = seekable

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seekable

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("this stream is written forward only")
        self._at = {0: 0, 1: self._at, 2: self._sink.size}[whence] + offset
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._at > self._sink.size:
            self._sink.reserve(self._at - self._sink.size)
        inside = min(len(view), self._sink.size - self._at)
        if inside:
            self._sink.write_at(self._at, view[:inside])
        if inside < len(view):
            self._sink.write(view[inside:])
        self._at += len(view)
        return len(view)
