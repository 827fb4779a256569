"""Hashing a file while it is written: the digest costs no second pass."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading

from polyvec.core.errors import Truncated

HASH_STEP = 1 << 20
DIGEST = ".sha256"  # the ending of the digests beside a file; see `digests`


class Follower:
    """Hashes a growing file behind its writer.

    Where bytes already hashed are rewritten, or the thread fails or never comes up, the finished file is read once more.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._hash = hashlib.sha256()
        self._done = 0
        self._limit = 0
        self._held = False  # a header is still to be rewritten: hashing now would be wasted
        self._ended = False
        self._failed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads here
            self._failed = True

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
        """All bytes are there: have the digest of the whole file."""
        with self._wake:
            if self._held:
                # Reserved or rewritten bytes: the only safe digest is that of the finished file.
                self._limit = 0
            else:
                self._limit = size
            self._ended = True
            self._wake.notify()
        self._join()
        if self._held or self._failed or self._done != size:
            self._hash = hash_file(self._fd, size)
            self._done = size

    def stop(self) -> None:
        with self._wake:
            self._ended = True
            self._limit = min(self._limit, self._done)
            self._wake.notify()
        self._join()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def _join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException:
            self._failed = True  # `finish` reads the file in the caller's thread, where an error is heard

    def _follow(self) -> None:
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


def hash_file(fd: int, size: int) -> hashlib._Hash:
    """The SHA-256 of the first ``size`` bytes of a file, read plainly; `Truncated` where they are not there."""
    digest = hashlib.sha256()
    at = 0
    while at < size:
        piece = os.pread(fd, min(HASH_STEP, size - at), at)
        if not piece:
            raise Truncated("the file became shorter while it was hashed", offset=at, expected=f"{size} bytes")
        digest.update(piece)
        at += len(piece)
    return digest
