"""Sinks: atomic writes. A kill at any moment leaves the old file or the whole new one.

Bytes go to a temporary file beside the target (``.NAME.XXXXXXXX.polyvec-tmp``); `Sink.commit` syncs it, renames
it over the target and syncs the folder. The temporary file is locked while its writer lives, so the next
writer of the same target can tell what a killed process left behind, and sweeps it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError, Truncated
from polyvec.core.files import Source
from polyvec.kernels.filecasts import CODE_BYTES, Cast, allocate, write_cast
from polyvec.kernels.pieces import write_all

TEMP_SUFFIX = ".polyvec-tmp"
COPY_STEP = 64 << 20
HASH_STEP = 1 << 20
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
    bytes with a hashing thread, so that the digest costs no second pass. Siblings (`sibling`) commit with
    the main file, which comes last; ``stale`` names siblings of an earlier target that must not outlive it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Iterable[str | os.PathLike[str]] = (),
        overwrite: bool = True,
        durable: bool = True,
        sha256: bool = False,
    ) -> None:
        self.stdout = os.fspath(path) == "-"
        self.durable = durable
        self.size = 0
        self.siblings: list[Sink] = []
        self.stale: list[Path] = []
        self._inputs = [Path(p) for p in inputs]
        self._open = True
        self._hasher: _Follower | None = None
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
            self._temp, self.fd = _create_temp(self.path)
            with contextlib.suppress(OSError):
                os.fchmod(self.fd, stat.S_IMODE(self.path.stat().st_mode))
        if sha256:
            self._hasher = _Follower(self.fd)

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
        sink = Sink(self.path.with_name(name), inputs=self._inputs, durable=self.durable)
        self.siblings.append(sink)
        return sink

    def discard(self, names: Iterable[str]) -> None:
        """Siblings of an earlier target, which must not outlive it: removed at commit unless written anew."""
        for name in names:
            path = self.path.with_name(name)
            refuse_inputs(path, self._inputs)
            self.stale.append(path)

    # -- the end

    def commit(self) -> None:
        """Make the new file, and its siblings, visible: siblings first, this file last."""
        try:
            for sink in self.siblings:
                sink.commit()
            written = {sink.path for sink in self.siblings}
            for path in self.stale:
                if path not in written:
                    path.unlink(missing_ok=True)
            if self._hasher is not None:
                self._hasher.finish(self.size)
            if self.stdout:
                self._to_stdout()
            else:
                assert self._temp is not None
                if self.durable:
                    os.fsync(self.fd)
                self._temp.replace(self.path)
                self._temp = None
                if self.durable:
                    sync_folder(self.path.parent)
        except BaseException:
            self.abort()
            raise
        self._close()

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
        try:
            if kind is None:
                self.commit()
            else:
                self.abort()
        except OSError as failed:
            self._name(failed)
            raise
        self._name(error)

    def _name(self, error: BaseException | None) -> None:
        """A full disk is told by a file descriptor, which nobody knows: put the target's name into the error."""
        if isinstance(error, OSError) and error.filename is None and error.errno in FULL:
            error.filename = str(self.path)


class _Follower:
    """Hashes a growing file behind its writer; starts over when bytes already hashed are rewritten."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._hash = hashlib.sha256()
        self._done = 0
        self._limit = 0
        self._held = False  # a header is still to be rewritten: hashing now would be wasted
        self._ended = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def advance(self, size: int) -> None:
        with self._wake:
            if not self._held and size - self._limit >= HASH_STEP:
                self._limit = size
                self._wake.notify()

    def rewritten(self, offset: int) -> None:
        with self._wake:
            self._held = True
            self._limit = min(self._limit, self._done)

    def finish(self, size: int) -> None:
        with self._wake:
            if self._held:
                # Reserved or rewritten bytes: the only safe digest is that of the finished file.
                self._limit = 0
            else:
                self._limit = size
            self._ended = True
            self._wake.notify()
        self._thread.join()
        if self._held:
            self._hash, self._done = hashlib.sha256(), 0
            self._pass(size)

    def stop(self) -> None:
        with self._wake:
            self._ended = True
            self._limit = min(self._limit, self._done)
            self._wake.notify()
        self._thread.join()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._done >= self._limit and not self._ended:
                    self._wake.wait()
                if self._done >= self._limit:
                    return
                limit = self._limit
            self._pass(min(limit, self._done + 16 * HASH_STEP))

    def _pass(self, limit: int) -> None:
        """Hash up to ``limit`` through a mapping of the page cache: the file is our own and does not shrink."""
        while self._done < limit:
            start = self._done // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            stop = min(limit, self._done + 16 * HASH_STEP)
            with mmap.mmap(self._fd, stop - start, prot=mmap.PROT_READ, offset=start) as view, memoryview(view) as data:
                self._hash.update(data[self._done - start :])
            self._done = stop


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
    if target.is_dir():
        raise InputError(f"{path}: the output is a directory; name a file in it")
    # A rename would put a plain file in place of the device: /dev/null must stay what it is.
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: the output is a device or a pipe, not a file; write to - and redirect that")
    if not overwrite and target.exists():
        raise InputError(f"{path}: the output exists; use --force (overwrite=True) to replace it")
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder {target.parent} does not exist; create it first")


def refuse_inputs(target: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """`InputError` when the target is one of the inputs, under any name."""
    for path in inputs:
        with contextlib.suppress(OSError):
            if Path(path).samefile(target):
                raise InputError(
                    f"{os.fspath(target)}: the output is also an input; choose another name for the output"
                )


def sweep(target: Path) -> list[Path]:
    """Remove temporary files of this target whose writer is gone; returns them."""
    swept = []
    for path in target.parent.glob(f".{_escape(target.name)}.????????{TEMP_SUFFIX}"):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            swept.append(path)
        except OSError:
            pass  # its writer lives
        finally:
            os.close(fd)
    return swept


def _create_temp(target: Path) -> tuple[Path, int]:
    """A new locked temporary file beside the target, with the mode that the umask gives."""
    while True:
        path = target.with_name(f".{target.name}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return path, fd
        os.close(fd)  # another writer swept it between creation and lock


def _escape(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
