"""Sinks that keep their bytes in a file of this machine until the commit: copies, casts and hashes at the disk's speed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.core.hashing import Follower
from polyvec.core.sinks import COPY_STEP, FULL, Sink
from polyvec.core.sources import Source
from polyvec.core.written import WrittenSource
from polyvec.kernels.filecasts import CODE_BYTES, Cast, allocate, write_cast
from polyvec.kernels.fileio import write_all
from polyvec.kernels.threads import Crew

HASH_AHEAD = 4 << 20  # a hash that follows a copy starts after this much
PARALLEL_BYTES = 8 << 20
STRETCH = 256 << 10  # stays in the cache between the read and the write
COPY_THREADS = 2
ALLOCATE_BYTES = 1 << 20  # from here on room is asked for ahead


class SpooledSink(Sink):
    """Bytes in an open file; a subclass says what becomes of it at commit. The descriptor is the sink's to close.

    ``sha256=True`` follows the bytes with a hashing thread, so that the digest costs no second pass.
    """

    def __init__(self, fd: int, name: str, *, label: str | None = None, sha256: bool = False) -> None:
        super().__init__(name, label=label)
        self._fd = fd
        self._open = True
        self._hasher = Follower(fd) if sha256 else None

    @property
    def hashing(self) -> bool:
        return self._hasher is not None

    # -- writing

    def reserve(self, size: int) -> int:
        start = self.size
        if self._hasher is not None:
            self._hasher.rewritten(start)
        self.size += size
        if size >= ALLOCATE_BYTES:
            allocate(self._fd, start, size)
        os.ftruncate(self._fd, self.size)
        return start

    def write_cast(self, offset: int, values: NDArray[Any], cast: Cast) -> tuple[int, bool]:
        self._rewrite("write_cast", offset, values.size * CODE_BYTES[cast.kind])
        return write_cast(self._fd, offset, np.ascontiguousarray(values, np.float32), cast)

    def _copy(self, source: Source, offset: int, size: int, start: int) -> None:
        """As fast as `cp`, or faster.

        Large ranges are copied by two threads, one reading while the other writes: measured on ext4 that beats the
        kernel's own copy, most of all between offsets of different alignment. Small ones, and those that a hash
        follows, are copied inside the kernel.
        """
        done = 0
        held = source.hold()
        if held is not None:
            large = size >= PARALLEL_BYTES and self._hasher is None
            copy = self._copy_in_threads if large else self._copy_in_kernel
            done = copy(held.number, offset, size, start)
            source.bytes_read += done
        super()._copy(source, offset + done, size - done, start + done)

    def _copy_in_threads(self, fd: int, offset: int, size: int, start: int) -> int:
        """Two threads take turns at stretches; returns how much was copied, less than ``size`` where the source ends."""
        if start + size > self.size:
            os.ftruncate(self._fd, start + size)

        def work(first: int) -> int:
            buffer = memoryview(bytearray(STRETCH))
            for at in range(first, size, COPY_THREADS * STRETCH):
                wanted = min(STRETCH, size - at)
                got = os.preadv(fd, [buffer[:wanted]], offset + at)
                write_all(self._fd, buffer[:got], start + at)
                if got < wanted:
                    return at  # cut short: the plain way goes on from here, and says so
            return size

        with Crew(COPY_THREADS) as pool:
            copied = min(pool.map(work, range(0, COPY_THREADS * STRETCH, STRETCH)))
        self.size = max(self.size, start + copied)
        return copied

    def _copy_in_kernel(self, fd: int, offset: int, size: int, start: int) -> int:
        done = 0
        while done < size:
            try:
                step = min(COPY_STEP if self._hasher is None else HASH_AHEAD, size - done)
                got = os.copy_file_range(fd, self._fd, step, offset + done, start + done)
            except (AttributeError, OSError) as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                return done  # another file system, or no such call here: plain reads do it
            if got == 0:
                return done
            done += got
            self.size = max(self.size, start + done)
            self._advance()
        return done

    def _put(self, offset: int, data: memoryview) -> None:
        done = write_all(self._fd, data, offset)
        self.size = max(self.size, offset + done)
        self._advance()

    def _rewrite(self, call: str, offset: int, size: int) -> None:
        super()._rewrite(call, offset, size)
        if self._hasher is not None:
            self._hasher.rewritten(offset)

    def _advance(self) -> None:
        if self._hasher is not None:
            self._hasher.advance(self.size)

    # -- reading back

    def read_at(self, offset: int, size: int) -> bytes:
        pieces = []
        size = min(size, self.size - offset)
        while size > 0 and (piece := os.pread(self._fd, size, offset)):
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # -- the end

    def finish(self) -> None:
        """All bytes are written: have their digest."""
        if self._hasher is not None:
            self._hasher.finish(self.size)

    def hexdigest(self) -> str:
        if self._hasher is None:
            raise InputError(f"{self.name}: no digest was asked for; open the sink with sha256=True")
        return self._hasher.hexdigest()

    def abort(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            if self._hasher is not None:
                self._hasher.stop()
            os.close(self._fd)


class StandardOutput(SpooledSink):
    """Standard output: formats seek back, so that the bytes wait in a file without a name, and leave at commit."""

    def __init__(self, *, sha256: bool = False) -> None:
        with tempfile.TemporaryFile(buffering=0) as spool:
            super().__init__(os.dup(spool.fileno()), "<stdout>", sha256=sha256)
        self._guards: list[Callable[[], None]] = []

    @property
    def alone(self) -> bool:
        return True

    def sibling(self, name: str) -> Sink:
        raise InputError(f"{name} must be written beside the output, and standard output has no beside")

    def discard(self, names: Iterable[str]) -> None:
        """Nothing lies beside standard output."""

    def guard(self, check: Callable[[], None]) -> None:
        self._guards.append(check)

    def source(self) -> Source:
        return WrittenSource(None, self._fd, name=self.name, label=self.label)

    def commit(self) -> None:
        try:
            self.finish()
            for check in self._guards:
                check()
            os.lseek(self._fd, 0, os.SEEK_SET)
            with os.fdopen(os.dup(self._fd), "rb") as spool:
                shutil.copyfileobj(spool, sys.stdout.buffer, 1 << 20)
            sys.stdout.buffer.flush()
        finally:
            self._close()
