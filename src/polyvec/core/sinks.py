"""Sinks: atomic writes. A kill at any moment leaves the old file or the whole new one.

Bytes go to a temporary file beside the target (``.NAME.XXXXXXXX.polyvec-tmp``); `Sink.commit` syncs it, renames
it over the target and syncs the folder. A file with siblings, and files written `Together`, change at one moment (see
`commits`). The temporary file is locked while its writer lives, so the next writer of the same target can tell
what a killed process left behind, and sweeps it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core import commits
from polyvec.core.commits import sweep as sweep
from polyvec.core.commits import sync_folder as sync_folder
from polyvec.core.errors import InputError, Truncated, speak_of
from polyvec.core.files import Source
from polyvec.core.hashing import DIGEST, Follower
from polyvec.core.hashing import HASH_STEP as HASH_STEP
from polyvec.core.journal import TEMP_SUFFIX as TEMP_SUFFIX
from polyvec.core.journal import exists
from polyvec.kernels.filecasts import CODE_BYTES, Cast, allocate, write_cast
from polyvec.kernels.fileio import write_all

COPY_STEP = 64 << 20
HASH_AHEAD = 4 << 20  # a hash that follows a copy starts after this much
PARALLEL_BYTES = 8 << 20
STRETCH = 256 << 10  # stays in the cache between the read and the write
COPY_THREADS = 2
ALLOCATE_BYTES = 1 << 20  # from here on room is asked for ahead
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # the copy cannot go on, whichever way it is made

Payload = bytes | bytearray | memoryview | NDArray[Any]


class Sink:
    """One target file being written. Use as a context manager: commits on success, leaves no trace on failure.

    ``inputs`` are files that must not be the target. ``durable=False`` skips fsync. ``sha256=True`` follows the
    bytes with a hashing thread, so that the digest costs no second pass. Siblings (`sibling`) commit at the same
    moment as the main file; ``stale`` names siblings of an earlier target, which go at that moment. With ``together``
    the sink's commit only makes it ready, and it appears with the others of that set. ``working`` is for files that
    are no output: states and parts of an unfinished run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Iterable[str | os.PathLike[str]] = (),
        overwrite: bool = True,
        durable: bool = True,
        sha256: bool = False,
        together: Together | None = None,
        working: bool = False,
    ) -> None:
        self.stdout = os.fspath(path) == "-"
        self.durable = durable
        self.label = None if working else os.fspath(path)
        self.size = 0
        self.siblings: list[Sink] = []
        self.stale: list[Path] = []
        self.guards: list[Callable[[], None]] = []  # asked in the last moment; what they raise stops the commit
        self._inputs = [Path(p) for p in inputs]
        self._open = True
        self._hasher: Follower | None = None
        self._together = together
        if self.stdout:
            self.path = Path("<stdout>")
            self._temp: Path | None = None
            self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (lives as long as the sink)
            self.fd = self._spool.fileno()
        else:
            # A symlink stays a symlink: what it points at is replaced.
            self.path = Path(os.path.realpath(path))
            check_target(path, inputs=self._inputs, overwrite=overwrite)
            sweep(self.path)
            self._temp, self.fd = commits.create_temp(self.path)
            if not overwrite:
                self.guards.append(lambda: check_target(path, overwrite=False))  # it may have appeared meanwhile
            with contextlib.suppress(OSError):
                os.fchmod(self.fd, stat.S_IMODE(self.path.stat().st_mode))
            if not working:
                self.discard([self.path.name + DIGEST])  # the digest of what is replaced
        if sha256:
            self._hasher = Follower(self.fd)

    @property
    def hashing(self) -> bool:
        """Whether a hash follows the bytes: those who write out of order make it start over."""
        return self._hasher is not None

    # -- writing

    def write(self, data: Payload) -> int:
        """Append bytes, or an array's bytes in C order; returns where they start."""
        start = self.size
        self._pwrite(start, data)
        return start

    def write_at(self, offset: int, data: Payload) -> None:
        """Overwrite bytes already written or reserved."""
        view = _bytes_of(data)
        self._rewrite("write_at", offset, len(view))
        self._pwrite(offset, view)

    def _rewrite(self, call: str, offset: int, size: int) -> None:
        """Before bytes that are there already are written again: check that they are, and tell the hash."""
        if offset < 0 or offset + size > self.size:
            raise ValueError(f"{call}({offset}, {size} bytes) is outside what was written ({self.size})")
        if self._hasher is not None:
            self._hasher.rewritten(offset)

    def reserve(self, size: int) -> int:
        """Leave ``size`` bytes to be filled later, in any order: a header whose totals come last, or rows; returns where."""
        start = self.size
        if self._hasher is not None:
            self._hasher.rewritten(start)
        self.size += size
        if size >= ALLOCATE_BYTES:
            allocate(self.fd, start, size)
        os.ftruncate(self.fd, self.size)
        return start

    def write_cast(self, offset: int, values: NDArray[Any], cast: Cast) -> tuple[int, bool]:
        """Fill reserved bytes with the codes of float32 values: their CRC-32, and whether all of them are numbers."""
        self._rewrite("write_cast", offset, values.size * CODE_BYTES[cast.kind])
        return write_cast(self.fd, offset, np.ascontiguousarray(values, np.float32), cast)

    def align(self, boundary: int) -> int:
        """Append zeros up to a multiple of ``boundary``; returns the new end."""
        self.write(bytes(-self.size % boundary))
        return self.size

    def copy_from(self, source: Source, offset: int, size: int, *, at: int | None = None) -> None:
        """Append a range of a source, or put it at ``at`` where that was reserved: as fast as `cp`, or faster.

        Large ranges are copied by two threads, one reading while the other writes: measured on ext4 that beats the
        kernel's own copy, most of all between offsets of different alignment. Small ones, and those that a hash
        follows, are copied inside the kernel.
        """
        start = self.size if at is None else at
        if at is not None and at + size > self.size:
            raise ValueError(f"copy_from(at={at}, {size} bytes) is outside what was written ({self.size})")
        if at is not None and self._hasher is not None:
            self._hasher.rewritten(at)
        done = 0
        if source.fd is not None:
            large = size >= PARALLEL_BYTES and self._hasher is None
            copy = self._copy_in_threads if large else self._copy_in_kernel
            done = copy(source.fd, offset, size, start)
            source.bytes_read += done
        while done < size:
            piece = source.read_at(offset + done, min(4 << 20, size - done))
            if not piece:
                raise Truncated("the file became shorter while it was read", path=source.label, offset=offset + done)
            self._pwrite(start + done, piece)
            done += len(piece)

    def _copy_in_threads(self, fd: int, offset: int, size: int, start: int) -> int:
        """Two threads take turns at stretches; returns how much was copied, less than ``size`` where the source ends."""
        if start + size > self.size:
            os.ftruncate(self.fd, start + size)

        def work(first: int) -> int:
            buffer = memoryview(bytearray(STRETCH))
            for at in range(first, size, COPY_THREADS * STRETCH):
                wanted = min(STRETCH, size - at)
                got = os.preadv(fd, [buffer[:wanted]], offset + at)
                write_all(self.fd, buffer[:got], start + at)
                if got < wanted:
                    return at  # cut short: the plain way goes on from here, and says so
            return size

        with ThreadPoolExecutor(COPY_THREADS) as pool:
            copied = min(pool.map(work, range(0, COPY_THREADS * STRETCH, STRETCH)))
        self.size = max(self.size, start + copied)
        return copied

    def _copy_in_kernel(self, fd: int, offset: int, size: int, start: int) -> int:
        done = 0
        while done < size:
            try:
                step = min(COPY_STEP if self._hasher is None else HASH_AHEAD, size - done)
                got = os.copy_file_range(fd, self.fd, step, offset + done, start + done)
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

    def _pwrite(self, offset: int, data: Payload) -> None:
        done = write_all(self.fd, _bytes_of(data), offset)
        self.size = max(self.size, offset + done)
        self._advance()

    def _advance(self) -> None:
        if self._hasher is not None:
            self._hasher.advance(self.size)

    # -- siblings

    def sibling(self, name: str) -> Sink:
        """Another file of the same export, in the same folder, committed together with this one."""
        if self.stdout:
            raise InputError(f"{name} must be written beside the output, and standard output has no beside")
        sink = Sink(self.path.with_name(name), inputs=self._inputs, durable=self.durable, working=True)
        self.siblings.append(sink)
        return sink

    def discard(self, names: Iterable[str]) -> None:
        """Siblings of an earlier target, which must not outlive it: removed at commit unless written anew."""
        for name in names:
            path = self.path.with_name(name)
            refuse_inputs(path, self._inputs)
            self.stale.append(path)

    def source(self) -> Source:
        """What was written, under the target's name: to be read back before it replaces anything."""
        from polyvec.core.written import WrittenSource

        return WrittenSource(self.path, self._temp, self.fd, self.siblings)

    # -- the end

    def commit(self) -> None:
        """Make the new file and its siblings visible, at one moment; the stale ones go at the same."""
        try:
            for sink in self.family():
                sink.finish()
            if self.stdout:
                self._to_stdout()
            elif self._together is not None:
                self._together.sinks.append(self)
                return
            else:
                _commit([self])
        except BaseException:
            self.abort()
            raise
        self._close()

    def family(self) -> list[Sink]:
        """This file's siblings and, last, the file itself."""
        return [member for sink in self.siblings for member in sink.family()] + [self]

    def finish(self) -> None:
        """All bytes are written: have their digest, and have them on the disk."""
        if self._hasher is not None:
            self._hasher.finish(self.size)
        if self.durable and not self.stdout:
            os.fsync(self.fd)

    def release(self) -> None:
        """The file is committed: what was the temporary file is nobody's business any more."""
        self._temp = None
        self._close()

    def written(self) -> commits.Written:
        """The temporary file and its target."""
        assert self._temp is not None
        return commits.Written(self._temp, self.path, self.label)

    def abort(self) -> None:
        """Drop everything written so far; the target stays as it was."""
        for sink in self.siblings:
            sink.abort()
        if self._temp is not None:
            with contextlib.suppress(FileNotFoundError):
                self._temp.unlink()
            self._temp = None
        self._close()

    def hexdigest(self) -> str:
        """The SHA-256 of the committed file (``sha256=True`` only), 64 hex digits."""
        assert self._hasher is not None
        return self._hasher.hexdigest()

    def _close(self) -> None:
        if self._open:
            self._open = False
            if self._hasher is not None:
                self._hasher.stop()
            if self.stdout:
                self._spool.close()
            else:
                os.close(self.fd)

    def _to_stdout(self) -> None:
        os.lseek(self.fd, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self.fd), "rb") as spool:
            shutil.copyfileobj(spool, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        names = [(str(sink._temp), str(sink.path)) for sink in self.family()]
        try:
            if kind is None:
                self.commit()
            else:
                self.abort()
        except BaseException as failed:
            self._name(failed, names)
            raise
        self._name(error, names)

    def _name(self, error: BaseException | None, names: Sequence[tuple[str, str]]) -> None:
        """Nobody knows a file descriptor or a temporary file: put the target's name into the error."""
        if isinstance(error, OSError) and error.filename is None and error.errno in FULL:
            error.filename = str(self.path)
        if error is not None and not self.stdout:
            for temp, target in names:
                speak_of(error, temp, target)


class Together:
    """Several files, with their siblings, that appear at one moment: give it to their sinks. A context manager.

    Files in different folders change folder by folder, in the order in which they were written; `discard` names
    files that go at the moment at which the others of their folder appear.
    """

    def __init__(self) -> None:
        self.sinks: list[Sink] = []  # those that are ready
        self._finders: list[Callable[[], Iterable[Path]]] = []

    def discard(self, find: Callable[[], Iterable[Path]]) -> None:
        """Files of an earlier set, which go unless they are written anew: looked for in the moment of the commit."""
        self._finders.append(lambda: [Path(os.path.realpath(path.parent)) / path.name for path in find()])

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self.sinks:
                _commit(self.sinks, self._finders)
        finally:
            for sink in self.sinks:
                sink.abort()  # those that are committed have nothing left to drop


def _commit(sinks: Sequence[Sink], finders: Sequence[Callable[[], Iterable[Path]]] = ()) -> None:
    """Commit finished sinks, all those of a folder at one moment."""
    family = [member for sink in sinks for member in sink.family()]
    seen: set[Path] = set()
    for sink in family:
        if sink.path in seen:
            raise InputError(f"{sink.path}: two outputs have this name")
        seen.add(sink.path)
    going = [path for sink in family for path in sink.stale]
    for folder in dict.fromkeys(sink.path.parent for sink in family):
        here = [sink for sink in family if sink.path.parent == folder]
        commit = commits.Commit(
            folder,
            [sink.written() for sink in here],
            [path for path in going if path.parent == folder],
            durable=any(sink.durable for sink in here),
            guards=[guard for sink in here for guard in sink.guards],
            finders=finders,
        )
        try:
            commit.run()
        finally:
            if commit.done:
                for sink in here:
                    sink.release()


def _bytes_of(data: Payload) -> memoryview:
    if isinstance(data, np.ndarray):
        if data.size == 0:
            return memoryview(b"")
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    return memoryview(data).cast("B")


def check_target(
    path: str | os.PathLike[str], *, inputs: Iterable[str | os.PathLike[str]] = (), overwrite: bool = True
) -> None:
    """`InputError` where a file cannot be written to ``path``; a dry run asks this too. Standard output always can."""
    if os.fspath(path) == "-":
        return
    target = Path(os.path.realpath(path))
    refuse_inputs(path, inputs)
    kind = _kind_at(target)  # asked once: between two questions another writer may have replaced it
    if kind == stat.S_IFDIR:
        raise InputError(f"{path}: the output is a directory; name a file in it")
    # A rename would put a plain file in place of the device: /dev/null must stay what it is.
    if kind not in (None, stat.S_IFREG):
        raise InputError(f"{path}: the output is a device or a pipe, not a file; write to - and redirect that")
    if not overwrite and exists(target):
        raise InputError(f"{path}: the output exists; use --force (overwrite=True) to replace it")
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder {target.parent} does not exist; create it first")


def _kind_at(path: Path) -> int | None:
    """What lies at a path, as `stat` names it; None where nothing does."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse_inputs(target: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """`InputError` when the target is one of the inputs, under any name."""
    for path in inputs:
        with contextlib.suppress(OSError):
            if Path(path).samefile(target):
                raise InputError(
                    f"{os.fspath(target)}: the output is also an input; choose another name for the output"
                )
