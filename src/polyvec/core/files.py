"""Sources: checked reads by offset, over a local file, bytes in memory or standard input."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import FormatError, Replaced, Truncated
from polyvec.core.journal import absent, is_file, locate, open_named
from polyvec.kernels.filecasts import Cast, read_cast
from polyvec.kernels.fileio import read_all
from polyvec.kernels.paths import default_threads
from polyvec.kernels.threads import spread

Bytes = NDArray[np.uint8]

PARALLEL_BYTES = 32 << 20  # larger reads are spread over threads: fresh pages cost as much as the bytes themselves
PARALLEL_PIECE = 8 << 20
MAX_READERS = 8


class Source:
    """A file to read: local (pread, or mmap for views) or bytes in memory. A context manager.

    Reads go through pread, never through a mapping, so a file that shrinks while it is read gives a
    `Truncated` error and not a bus error; `view` maps, for those who ask for zero copies. A name whose new file
    is committed and not yet renamed stands for the new one (see `journal`): ``actual`` is where the bytes lie.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, *, data: bytes | None = None, name: str | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        self.name = name or (self.path.name if self.path else "<bytes>")
        self.label = str(self.path) if self.path else self.name  # how messages name it
        self._data = None if data is None else memoryview(data)
        self._file: BinaryIO | None = None
        self._map: mmap.mmap | None = None
        self._lock = threading.Lock()
        self._spooled = False  # a pipe's bytes, of which no path is the name
        self._linked: bool | None = None  # whether the path is a link, once somebody asks
        self.actual = self.path
        self.bytes_read = 0  # what selective reading promises can be counted
        if self._data is not None:
            self.size = len(self._data)
        else:
            assert self.path is not None
            if self.path.is_dir():
                raise FormatError(
                    "this is a directory, not a file", path=str(self.path), remedy="name a file in it, or a glob"
                )
            if self.path.is_char_device() or self.path.is_block_device():
                raise FormatError("this is a device, not a file", path=str(self.path), remedy="name a file, or a pipe")
            self._file, self.actual = open_named(self.path)
            opened = os.fstat(self._file.fileno())  # of what was opened: the name may be another file's by now
            self.size = opened.st_size
            if not stat.S_ISREG(opened.st_mode):
                self._spool()

    def _spool(self) -> None:
        """A pipe or a device has no offsets: keep its bytes in an unnamed temporary file."""
        assert self._file is not None
        spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (lives as long as the source)
        while piece := self._file.read(1 << 20):
            spool.write(piece)
        self._file.close()
        self._file = spool
        self._spooled = True
        self.size = os.fstat(spool.fileno()).st_size

    @classmethod
    def from_stdin(cls) -> Source:
        """Standard input, spooled to an unnamed temporary file because formats read by offset."""
        source = cls(None, data=b"", name="<stdin>")
        source._data = None
        source._file = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        source._spool()
        return source

    @property
    def suffix(self) -> str:
        """The lower-case suffix that names the kind; ``.crop_nb_N``, a cut download's mark, is passed over."""
        if "crop_nb_" not in self.name:
            _, dot, last = self.name.rpartition(".")
            return f".{last.lower()}" if dot else ""
        parts = self.name.split(".")
        while len(parts) > 1 and parts[-1].startswith("crop_nb_"):
            parts.pop()
        return f".{parts[-1].lower()}" if len(parts) > 1 else ""

    @property
    def fd(self) -> int | None:
        """The file descriptor, where there is one: for copies inside the kernel."""
        return None if self._file is None else self._file.fileno()

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``: fewer only at the end of the file."""
        size = max(0, min(size, self.size - offset))
        if size == 0:
            return b""
        self.bytes_read += size
        if self._data is not None:
            return bytes(self._data[offset : offset + size])
        pieces = []
        while size:
            piece = os.pread(self._fileno(), min(size, 1 << 30), offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, offset: int, out: NDArray[Any]) -> None:
        """Fill a C-contiguous array from ``offset``; `Truncated` when the bytes are not there."""
        view = memoryview(out.reshape(-1).view(np.uint8).data) if out.size else memoryview(b"")
        size = len(view)
        self._demand(offset, size)
        self.bytes_read += size
        if self._data is not None:
            view[:] = self._data[offset : offset + size]
            return
        if size < PARALLEL_BYTES:
            self._fill(view, offset)
            return
        spread(
            lambda at: self._fill(view[at : at + PARALLEL_PIECE], offset + at),
            range(0, size, PARALLEL_PIECE),
            min(default_threads(), MAX_READERS),
        )

    def _demand(self, offset: int, size: int) -> None:
        """`Truncated` where the bytes are not there."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise Truncated(
                "the file ends inside its data",
                path=self.label,
                offset=offset,
                expected=f"{size} bytes",
                found=f"{max(0, self.size - offset)} bytes",
            )

    def _fill(self, view: memoryview, offset: int) -> None:
        done = read_all(self._fileno(), view, offset)
        if done < len(view):
            raise Truncated("the file became shorter while it was read", path=self.label, offset=offset + done)

    def read_cast(self, offset: int, size: int, out: NDArray[Any], cast: Cast, *, check: bool) -> int | None:
        """Fill a C-contiguous float32 array from ``size`` bytes of codes: their CRC-32, None where this is no file."""
        if self._file is None:
            return None
        self._demand(offset, size)
        self.bytes_read += size
        try:
            return read_cast(self._fileno(), offset, out, cast, check=check)
        except EOFError as error:
            raise Truncated(str(error), path=self.label, offset=offset) from None

    def view(self, offset: int, size: int, *, private: bool = False) -> Bytes:
        """A read-only zero-copy view of the bytes (mapped on first use).

        With ``private`` the pages are copied when somebody writes to them all the same, past the flag of the
        array: for takers that do not honour it. The file never changes.
        """
        self._demand(offset, size)
        if size == 0:
            return np.empty(0, np.uint8)
        if self._data is not None:
            array = np.frombuffer(self._data, np.uint8, size, offset)
            array.flags.writeable = False
            return array
        if private:
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
            mapped = mmap.mmap(self._fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
            array = np.frombuffer(mapped, np.uint8, size, offset)
            array.flags.writeable = False
            return array
        with self._lock:
            if self._map is None:
                self._map = mmap.mmap(self._fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, np.uint8, size, offset)

    def sibling(self, name: str) -> Source | None:
        """Another file of the same export, in the same folder; None where there is none.

        Where this is a link, what lies beside the file that it points at, under that one's name, will do.
        """
        if self.path is None:
            return None
        if self._linked is None:
            self._linked = self.path.is_symlink()
        folder, slash, _ = os.fspath(self.path).rpartition("/")
        if not self._linked and absent(f"{folder}{slash}{name}"):
            return None
        other = self.path.with_name(name)
        if not is_file(other):
            if not self._linked or not name.startswith(self.name):
                return None
            real = Path(os.path.realpath(self.path))
            other = real.with_name(real.name + name[len(self.name) :])
            if not is_file(other):
                return None
        try:
            return Source(other)
        except FileNotFoundError:
            return None  # it went at this very moment

    def current(self) -> bool:
        """Whether the path still names the very bytes that were opened; True where there is no plain file to ask."""
        return self._compare(_identity)

    def replaced(self) -> bool:
        """Whether the path names another file by now, or none; one that grows in its place is still the same."""
        return not self._compare(lambda found: (found.st_ino,))

    def _compare(self, identity: Callable[[os.stat_result], tuple[int, ...]]) -> bool:
        if self.path is None or self._file is None or self._spooled:
            return True
        found = locate(self.path)
        try:
            return found is not None and identity(os.fstat(self._file.fileno())) == identity(found.stat())
        except FileNotFoundError:
            return False

    def _fileno(self) -> int:
        if self._file is None:
            raise ValueError(f"{self.name} is closed")
        return self._file.fileno()

    def close(self) -> None:
        """Release the file. Views handed out stay valid: the mapping lives as long as they do."""
        self._map = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(f"{self.name} lives in this process only and cannot be pickled")
        return _reopen, (self.path, None if self._file is None else _identity(os.fstat(self._file.fileno())))


def _reopen(path: Path, identity: tuple[int, int, int] | None) -> Source:
    """The file of a source that was pickled; what was read of another one does not fit it."""
    source = Source(path)
    if identity is not None and source._file is not None and _identity(os.fstat(source._file.fileno())) != identity:
        source.close()
        raise Replaced("the file was replaced or changed since it was opened", path=str(path), remedy="open it again")
    return source


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns  # not the device: a layered file system may tell two


def stamp(path: str | os.PathLike[str]) -> list[int]:
    """What tells a file from what it was at another time: size, times of writing and of change, and inode.

    The time of writing alone is set back by `cp -p`, `rsync -t`, `tar` and `touch`; the time of change by nothing.
    """
    found = (locate(Path(path)) or Path(path)).stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def open_source(where: str | os.PathLike[str] | bytes | Source) -> Source:
    """A `Source` over a path, ``-`` (standard input), bytes, or a source as it is."""
    if isinstance(where, Source):
        return where
    if isinstance(where, (bytes, bytearray, memoryview)):
        return Source(None, data=bytes(where))
    if os.fspath(where) == "-":
        return Source.from_stdin()
    return Source(where)
