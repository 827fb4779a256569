"""Sources: checked reads by offset, over a local file, bytes in memory or standard input.

`open_source` is the one door: nothing else builds a source. What formats see is `Source`; whether its bytes can be mapped
or have a descriptor is for each kind of source to say, and nobody may count on it.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import check_paths
from polyvec.core.descriptors import Descriptor
from polyvec.core.errors import FormatError, InputError, Replaced, Truncated
from polyvec.core.journal import locate, open_named, present
from polyvec.core.places import Identity, Place, suffix_of
from polyvec.kernels.filecasts import Cast, read_cast
from polyvec.kernels.fileio import read_all, write_all
from polyvec.kernels.threads import default_threads, spread

Bytes = NDArray[np.uint8]
Where = str | os.PathLike[str] | Place | bytes | bytearray | memoryview
IN_MEMORY = (bytes, bytearray, memoryview)

NEAR_BYTES = 16 << 10  # of a local file: reading on over so few costs less than asking anew
PARALLEL_BYTES = 32 << 20  # larger reads are spread over threads: fresh pages cost as much as the bytes themselves
PARALLEL_PIECE = 8 << 20
MAX_READERS = 8
HELD_BYTES = 64 << 20  # what `mapped` keeps in memory where nothing can be mapped; more goes to a temporary file
STEP_BYTES = 8 << 20


class Source(ABC):
    """Bytes to read by offset, under a name. A context manager.

    A kind of source gives ``read_at`` and ``identity``, and where it can do better the rest. Reads never go through a
    mapping, so a file that shrinks while it is read gives a `Truncated` error and not a bus error.
    """

    near_bytes: int = NEAR_BYTES  # a gap of so few bytes is read over: that costs less than asking anew
    distant: bool = True  # whether an answer is long in coming: then many ranges are asked for at once

    def __init__(self, name: str, size: int, *, place: Place | None = None) -> None:
        self.name = name
        self.size = size
        self.place = place  # where the bytes lie; None of memory and standard input
        self.label = name if place is None else str(place)  # how messages name it
        self.bytes_read = 0  # what selective reading promises can be counted
        self.companions: dict[str, Identity | None] = {}  # the siblings that were opened, and what they were
        self._lock = threading.Lock()
        self._held: tuple[int, Bytes] | None = None

    @property
    def suffix(self) -> str:
        """The lower-case suffix that names the kind. See `places.suffix_of`."""
        return suffix_of(self.name)

    # -- what a kind of source gives

    @abstractmethod
    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``: fewer only at the end of the file."""

    @abstractmethod
    def identity(self) -> Identity | None:
        """What tells these bytes from others that have lain at the place; None where there is no lasting place."""

    # -- what it may do better

    def read_into(self, offset: int, out: NDArray[Any]) -> None:
        """Fill a C-contiguous array from ``offset``; `Truncated` when the bytes are not there."""
        view = _bytes_of(out)
        self._demand(offset, len(view))
        for at in range(0, len(view), STEP_BYTES):
            piece = self.read_at(offset + at, min(STEP_BYTES, len(view) - at))
            if len(piece) < min(STEP_BYTES, len(view) - at):
                raise self._shorter(offset + at + len(piece))
            view[at : at + len(piece)] = piece

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges (offset, size), neighbours read together; `Truncated` when some are not there."""
        found: list[bytes] = [b""] * len(ranges)
        for offset, size in ranges:
            self._demand(offset, size)
        for first, last, members in _merged(ranges, self.near_bytes):
            data = self.read_at(first, last - first)
            if len(data) < last - first:
                raise self._shorter(first + len(data))
            for number in members:
                offset, size = ranges[number]
                found[number] = data if size == len(data) else data[offset - first : offset - first + size]
        return found

    def read_cast(self, offset: int, size: int, out: NDArray[Any], cast: Cast, *, check: bool) -> int | None:
        """Fill a C-contiguous float32 array from ``size`` bytes of codes: their CRC-32, None where this cannot."""
        return None

    def view(self, offset: int, size: int, *, private: bool = False) -> Bytes | None:
        """A read-only zero-copy view of the bytes, valid after `close`; None where these bytes cannot be mapped.

        With ``private`` the pages are copied when somebody writes to them all the same, past the flag of the
        array: for takers that do not honour it. The file never changes.
        """
        return None

    @property
    def fd(self) -> int | None:
        """The file descriptor, where there is one; `hold` keeps it open."""
        return None

    def hold(self) -> Descriptor | None:
        """The descriptor, where there is one, open as long as it is held: for copies inside the kernel."""
        return None

    def local(self) -> Path | None:
        """The path of the plain local file that holds just these bytes, for libraries that open files themselves."""
        return None

    def sibling(self, name: str) -> Source | None:
        """Another file of the same export, in the same folder; None where there is none."""
        if self.place is None:
            return None
        return self._open_sibling(name, self.place.sibling(name))

    def _open_sibling(self, name: str, place: Place) -> Source | None:
        try:
            found = open_source(place)
        except FileNotFoundError:
            return None  # it may have gone at this very moment
        self.companions[name] = found.identity()
        return found

    def beside(self, names: Sequence[str]) -> Sequence[str]:
        """Those of the names that may lie in the same folder, by one look at it; `sibling` tells for sure."""
        return names

    def current(self) -> bool:
        """Whether the place still holds the very bytes that were opened; True where there is no lasting place."""
        opened = self.identity()
        return opened is None or self.place is None or opened.same(self.place.identity())

    def replaced(self) -> bool:
        """Whether another file lies at the place by now, or none; one that grows in its place is still the same."""
        return not self.current()

    def close(self) -> None:
        """Release what is held. Views handed out stay valid."""
        self._held = None

    # -- what all have

    def mapped(self, offset: int, size: int) -> Bytes:
        """The bytes as a read-only array: a view where there is one, else read once and kept while this is open.

        More than `HELD_BYTES` are kept in a temporary file, not in memory: for formats that walk a whole file.
        """
        view = self.view(offset, size)
        if view is not None:
            return view
        self._demand(offset, size)
        with self._lock:
            held = self._held
            if held is None or not held[0] <= offset <= offset + size <= held[0] + len(held[1]):
                self._held = held = (offset, self._hold(offset, size))
        first, data = held
        return data[offset - first : offset - first + size]

    def _hold(self, offset: int, size: int) -> Bytes:
        if size <= HELD_BYTES:
            data = np.empty(size, np.uint8)
            self.read_into(offset, data)
            data.flags.writeable = False
            return data
        with tempfile.TemporaryFile(buffering=0) as spool:
            buffer = np.empty(STEP_BYTES, np.uint8)
            for at in range(0, size, STEP_BYTES):
                piece = buffer[: min(STEP_BYTES, size - at)]
                self.read_into(offset + at, piece)
                write_all(spool.fileno(), memoryview(piece.data), at)
            return np.frombuffer(mmap.mmap(spool.fileno(), size, access=mmap.ACCESS_READ), np.uint8)

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

    def _shorter(self, offset: int) -> Truncated:
        return Truncated("the file became shorter while it was read", path=self.label, offset=offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.place is None:
            raise InputError(
                f"{self.name} lives in this process only and cannot be pickled; write it to a file and open that"
            )
        return reopen, (self.place.absolute(), self.identity())


class MemorySource(Source):
    """Bytes in memory, and the other files of their export where there are any."""

    distant = False

    def __init__(
        self, data: bytes | memoryview, name: str = "<bytes>", beside: Mapping[str, bytes] | None = None
    ) -> None:
        self._data = memoryview(data)
        self._beside = beside or {}
        super().__init__(name, len(self._data))

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        self.bytes_read += size
        return bytes(self._data[offset : offset + size])

    def read_into(self, offset: int, out: NDArray[Any]) -> None:
        view = _bytes_of(out)
        self._demand(offset, len(view))
        self.bytes_read += len(view)
        view[:] = self._data[offset : offset + len(view)]

    def view(self, offset: int, size: int, *, private: bool = False) -> Bytes:
        self._demand(offset, size)
        array = np.frombuffer(self._data, np.uint8, size, offset) if size else np.empty(0, np.uint8)
        array.flags.writeable = False
        return array

    def sibling(self, name: str) -> Source | None:
        data = self._beside.get(name)
        return None if data is None else MemorySource(data, name, self._beside)

    def identity(self) -> Identity | None:
        return None


class LocalSource(Source):
    """A local file: pread, and mmap for views. A pipe's bytes are spooled to an unnamed temporary file.

    A name whose new file is committed and not yet renamed stands for the new one (see `journal`): ``local()`` is where
    the bytes lie.
    """

    distant = False

    def __init__(self, file: BinaryIO, name: str, *, place: Place | None = None, at: Path | None = None) -> None:
        self._held_file: Descriptor | None = Descriptor(file)
        opened = os.fstat(file.fileno())  # of what was opened: the name may be another file's by now
        super().__init__(name, opened.st_size, place=place)
        self._at = at  # where the file lies
        self._map: mmap.mmap | None = None
        self._linked: bool | None = None  # whether the path is a link, once somebody asks
        if not stat.S_ISREG(opened.st_mode):
            self._spool(file)

    @classmethod
    def at(cls, place: Place) -> LocalSource:
        """The file that a local place names."""
        path = place.path
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            mode = 0  # opening it says what is wrong
        if stat.S_ISDIR(mode):
            raise FormatError("this is a directory, not a file", path=str(path), remedy="name a file in it, or a glob")
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise FormatError("this is a device, not a file", path=str(path), remedy="name a file, or a pipe")
        file, found = open_named(path)
        return cls(file, path.name, place=place, at=found)

    @classmethod
    def stdin(cls) -> LocalSource:
        """Standard input, spooled because formats read by offset."""
        return cls(os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0), "<stdin>")

    def _spool(self, pipe: BinaryIO) -> None:
        """A pipe or a device has no offsets: keep its bytes in an unnamed temporary file."""
        spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (lives as long as the source)
        while piece := pipe.read(1 << 20):
            spool.write(piece)
        self._held_file, self._at = Descriptor(spool), None
        self.size = os.fstat(spool.fileno()).st_size

    @property
    def fd(self) -> int | None:
        return None if self._held_file is None else self._held_file.number

    def hold(self) -> Descriptor | None:
        return self._held_file

    def local(self) -> Path | None:
        return self._at if self._at is not None and self._at.is_file() else None

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        if size == 0:
            return b""
        self.bytes_read += size
        file = self._open_file()
        pieces = []
        while size:
            piece = os.pread(file.number, min(size, 1 << 30), offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, offset: int, out: NDArray[Any]) -> None:
        view = _bytes_of(out)
        size = len(view)
        self._demand(offset, size)
        self.bytes_read += size
        if size < PARALLEL_BYTES:
            self._fill(view, offset)
            return
        spread(
            lambda at: self._fill(view[at : at + PARALLEL_PIECE], offset + at),
            range(0, size, PARALLEL_PIECE),
            min(default_threads(), MAX_READERS),
        )

    def _fill(self, view: memoryview, offset: int) -> None:
        file = self._open_file()
        done = read_all(file.number, view, offset)
        del file  # an error that is kept must not keep it open
        if done < len(view):
            raise self._shorter(offset + done)

    def read_cast(self, offset: int, size: int, out: NDArray[Any], cast: Cast, *, check: bool) -> int | None:
        file = self._held_file
        if file is None:
            return None
        self._demand(offset, size)
        self.bytes_read += size
        try:
            return read_cast(file.number, offset, out, cast, check=check)
        except EOFError as error:
            del file
            raise Truncated(str(error), path=self.label, offset=offset) from None

    def view(self, offset: int, size: int, *, private: bool = False) -> Bytes:
        self._demand(offset, size)
        if size == 0:
            return np.empty(0, np.uint8)
        file = self._open_file()
        if private:
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
            mapped = mmap.mmap(file.number, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
            array = np.frombuffer(mapped, np.uint8, size, offset)
            array.flags.writeable = False
            return array
        with self._lock:
            if self._map is None:
                self._map = mmap.mmap(file.number, 0, access=mmap.ACCESS_READ)
            mapped = self._map
        return np.frombuffer(mapped, np.uint8, size, offset)

    def _is_link(self) -> bool:
        if self._linked is None:
            assert self.place is not None
            self._linked = os.path.islink(self.place.text)  # noqa: PTH114 (asked at every open)
        return self._linked

    def beside(self, names: Sequence[str]) -> Sequence[str]:
        return names if self.place is None or self._is_link() else present(self.place.folder, names)

    def sibling(self, name: str) -> Source | None:
        """Where this is a link, what lies beside the file that it points at, under that one's name, will do."""
        if self.place is None:
            return None
        other = self.place.sibling(name)
        if not self._is_link() and other.absent():
            return None
        if not other.is_file():
            if not self._is_link() or not name.startswith(self.name):
                return None
            real = Place(os.path.realpath(self.place.text))
            other = real.sibling(real.name + name[len(self.name) :])
            if not other.is_file():
                return None
        return self._open_sibling(name, other)

    def identity(self) -> Identity | None:
        file = self._held_file
        return None if self._at is None or file is None else Identity.of_file(os.fstat(file.number))

    def replaced(self) -> bool:
        file = self._held_file
        if self.place is None or self._at is None or file is None:
            return False
        found = locate(self._at if os.fspath(self._at) == self.place.text else self.place.path)
        try:
            return found is None or os.fstat(file.number).st_ino != found.stat().st_ino
        except FileNotFoundError:
            return True

    def _open_file(self) -> Descriptor:
        file = self._held_file
        if file is None:
            raise InputError(f"{self.name} is closed")
        return file

    def close(self) -> None:
        """Release the file, when those who read it at this moment are done. Views handed out stay valid."""
        super().close()
        self._map = None
        self._held_file = None


def open_source(where: Where | Source, *, name: str | None = None) -> Source:
    """A source over a path, a URL, ``-`` (standard input) or bytes, which may be given a name; a source as it is."""
    if isinstance(where, Source):
        return where
    if isinstance(where, IN_MEMORY):
        return MemorySource(bytes(where), name or "<bytes>")
    if not isinstance(where, Place):
        check_paths(where=where)
        if os.fspath(where) == "-":
            return LocalSource.stdin()
        where = Place.of(where)
    return where.store.open(where) if where.scheme else LocalSource.at(where)


def reopen(place: Place, identity: Identity | None) -> Source:
    """What lay at a place when its identity was told; `Replaced` where other bytes lie there by now."""
    source = open_source(place)
    if identity is not None and not identity.same(source.identity()):
        source.close()
        raise Replaced("the file was replaced or changed since it was opened", path=str(place), remedy="open it again")
    return source


def _bytes_of(out: NDArray[Any]) -> memoryview:
    return memoryview(out.reshape(-1).view(np.uint8).data) if out.size else memoryview(bytearray())


def _merged(ranges: Sequence[tuple[int, int]], near: int) -> list[tuple[int, int, list[int]]]:
    """Ranges as the stretches to read: (start, stop, the numbers of those in it), gaps of up to ``near`` bytes included."""
    stretches: list[tuple[int, int, list[int]]] = []
    for number in sorted(range(len(ranges)), key=lambda number: ranges[number]):
        offset, size = ranges[number]
        stop = offset + size
        if stretches and offset - stretches[-1][1] <= near:
            first, last, members = stretches[-1]
            members.append(number)
            stretches[-1] = (first, max(last, stop), members)
        else:
            stretches.append((offset, stop, [number]))
    return stretches
