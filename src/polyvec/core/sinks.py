"""Sinks: what a format writes into. It knows bytes and offsets, and nothing of where they will be committed.

A place that files can be written to is one subclass (`local_sinks`, `spools`), opened through one door (`targets`).
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Truncated
from polyvec.core.sources import Source
from polyvec.kernels.checksum import crc32
from polyvec.kernels.filecasts import CODE_BYTES, Cast, encoded

COPY_STEP = 64 << 20  # a copy in steps of this size has a progress worth showing
READ_STEP = 4 << 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # no more can be written, whichever way

Payload = bytes | bytearray | memoryview | NDArray[Any]


class Sink(ABC):
    """One file being written. Use as a context manager: it appears on success, and leaves no trace on failure.

    Formats write, seek back, reserve and name siblings. Whoever opened the sink commits or aborts it. A subclass says
    how bytes are kept (`_put`, `reserve`, `read_at`, `source`), what lies beside (`sibling`, `discard`, `guard`) and how
    all of it appears at one moment (`commit`, `abort`); where it can do more at once than put bytes, it overrides
    `write_cast` and `copy_from`.
    """

    def __init__(self, name: str, *, label: str | None = None) -> None:
        self.name = name  # of the file to come, without its folder
        self.label = label or name  # how messages name it
        self.size = 0

    @property
    def hashing(self) -> bool:
        """Whether a hash follows the bytes: those who write out of order make it start over."""
        return False

    @property
    def alone(self) -> bool:
        """Whether nothing can lie beside the file, as beside standard output; `sibling` is refused there."""
        return False

    # -- writing

    def write(self, data: Payload) -> int:
        """Append bytes, or an array's bytes in C order; returns where they start."""
        start = self.size
        self._put(start, bytes_of(data))
        return start

    def write_at(self, offset: int, data: Payload) -> None:
        """Overwrite bytes already written or reserved. Several threads may fill what was reserved."""
        view = bytes_of(data)
        self._rewrite("write_at", offset, len(view))
        self._put(offset, view)

    @abstractmethod
    def reserve(self, size: int) -> int:
        """Leave ``size`` bytes to be filled later, in any order: a header whose totals come last, or rows; returns where."""

    def align(self, boundary: int) -> int:
        """Append zeros up to a multiple of ``boundary``; returns the new end."""
        self.write(bytes(-self.size % boundary))
        return self.size

    def write_cast(self, offset: int, values: NDArray[Any], cast: Cast) -> tuple[int, bool]:
        """Fill reserved bytes with the codes of float32 values: their CRC-32, and whether all of them are numbers."""
        self._rewrite("write_cast", offset, values.size * CODE_BYTES[cast.kind])
        crc, numbers = 0, True
        for codes, finite in encoded(np.ascontiguousarray(values, np.float32), cast):
            self._put(offset, bytes_of(codes))
            crc = crc32(codes, crc)
            numbers = numbers and finite
            offset += codes.nbytes
        return crc, numbers

    def copy_from(self, source: Source, offset: int, size: int, *, at: int | None = None) -> None:
        """Append a range of a source, or put it at ``at`` where that was reserved."""
        start = self.size if at is None else at
        if at is not None:
            self._rewrite("copy_from", at, size)
        self._copy(source, offset, size, start)

    def _copy(self, source: Source, offset: int, size: int, start: int) -> None:
        """Put a range of a source at ``start``, piece by piece."""
        done = 0
        while done < size:
            piece = source.read_at(offset + done, min(READ_STEP, size - done))
            if not piece:
                raise Truncated("the file became shorter while it was read", path=source.label, offset=offset + done)
            self._put(start + done, memoryview(piece))
            done += len(piece)

    def _rewrite(self, call: str, offset: int, size: int) -> None:
        """Before bytes that are there already are written again: check that they are."""
        if offset < 0 or offset + size > self.size:
            raise ValueError(f"{call}({offset}, {size} bytes) is outside what was written ({self.size})")

    @abstractmethod
    def _put(self, offset: int, data: memoryview) -> None:
        """Keep bytes at an offset that is not beyond the end; ``size`` grows where they go past it."""

    # -- reading back

    @abstractmethod
    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` of the bytes written so far: fewer only at the end."""

    @abstractmethod
    def source(self) -> Source:
        """What was written, under the name of the file to come: to be read back before it replaces anything."""

    # -- siblings

    @property
    def siblings(self) -> Sequence[Sink]:
        """The sinks of the other files of the same export."""
        return ()

    @abstractmethod
    def sibling(self, name: str) -> Sink:
        """Another file of the same export, beside this one and committed together with it."""

    @abstractmethod
    def discard(self, names: Iterable[str]) -> None:
        """Siblings of an earlier file of this name, which must not outlive it: gone at commit unless written anew."""

    @abstractmethod
    def guard(self, check: Callable[[], None]) -> None:
        """Something to ask in the last moment before the commit: what it raises stops that."""

    # -- the end, for whoever opened the sink

    @abstractmethod
    def commit(self) -> None:
        """Make the new file and its siblings visible, at one moment; the discarded ones go at the same."""

    @abstractmethod
    def abort(self) -> None:
        """Drop everything written so far; the target stays as it was. After a commit there is nothing left to drop."""

    @abstractmethod
    def hexdigest(self) -> str:
        """The SHA-256 of the committed file, 64 hex digits, where the sink was opened for it."""

    def _explain(self, error: BaseException) -> None:
        """Nobody knows what a sink keeps its bytes in: put the target's name into the error."""
        if isinstance(error, OSError) and error.filename is None and error.errno in FULL:
            error.filename = self.label

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
            else:
                self.abort()
        except BaseException as failed:
            self._explain(failed)
            raise
        if error is not None:
            self._explain(error)


def bytes_of(data: Payload) -> memoryview:
    """Bytes, or those of an array in C order, as one flat view."""
    if isinstance(data, np.ndarray):
        if data.size == 0:
            return memoryview(b"")
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    return memoryview(data).cast("B")
