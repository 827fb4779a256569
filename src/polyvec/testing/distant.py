"""A source that gives bytes and nothing else: no descriptor, no mapping, no path. What lies in a store reads like this."""

from __future__ import annotations

from collections.abc import Mapping

from polyvec.core.places import Identity
from polyvec.core.sources import Source


class DistantSource(Source):
    """Bytes that come only when they are asked for, by range; how often they were is counted."""

    near_bytes = 64  # far less than a file's: small samples have gaps too

    def __init__(self, data: bytes, name: str, beside: Mapping[str, bytes] | None = None) -> None:
        super().__init__(name, len(data))
        self._data = data
        self._beside = beside or {}
        self.requests = 0

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        self.requests += 1
        self.bytes_read += size
        return self._data[offset : offset + size]

    def identity(self) -> Identity | None:
        return None

    def sibling(self, name: str) -> Source | None:
        data = self._beside.get(name)
        return None if data is None else DistantSource(data, name, self._beside)
