"""Commits: temporary files become the files they are for, all of them at one moment.

One file with nothing to remove is one rename. More than that is a set: the journal appears (this is the moment), the
files are renamed, those that must not stay are removed, the journal goes. A process that dies in between leaves the
journal, which readers follow and the next writer in the folder carries out. Commits in one folder come one after the
other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from polyvec.core.errors import FormatError
from polyvec.core.journal import (
    JOURNAL,
    TEMP_SUFFIX,
    Journal,
    Move,
    Removal,
    before,
    locate,
    parse_journal,
    read_trusted,
    temp_stem,
)
from polyvec.core.locks import folder_lock
from polyvec.kernels.fileio import write_all


@dataclass(frozen=True, slots=True)
class Written:
    """A finished temporary file and the target it is for."""

    temp: Path
    target: Path
    label: str | None = None  # how its user names it; None for siblings and the states of unfinished runs


_outputs: deque[tuple[str, Path, int]] = deque(maxlen=4096)  # name, target and inode of what was to be committed


def announce(label: str, target: Path, written: Path) -> None:
    """Note what is about to take a target's place, so that `changed_outputs` can tell whether it did."""
    _outputs.append((label, target, written.stat().st_ino))


def changed_outputs() -> list[str]:
    """The outputs of this process that are complete, as their user named them: what an interrupted command has done."""
    # The disk is asked: an interrupt may have come between a rename and any note of it.
    return [label for label, target, inode in _outputs if (at := locate(target)) and at.stat().st_ino == inode]


def forget_outputs() -> None:
    """A new command begins."""
    _outputs.clear()


class Commit:
    """The moment at which the files of one folder change. `done` says whether it has come, also after a failure."""

    def __init__(
        self,
        folder: Path,
        files: Sequence[Written],
        stale: Iterable[Path],
        *,
        durable: bool,
        guards: Sequence[Callable[[], None]] = (),
        finders: Sequence[Callable[[], Iterable[Path]]] = (),
    ) -> None:
        self.folder = folder
        self.guards = guards
        self.finders = finders
        self.files = files
        self.stale = list(stale)
        self.durable = durable
        self.done = False
        self._proof: Path | None = None  # goes in the moment of the commit

    def run(self) -> None:
        """Commit. Whatever is raised before the moment has changed nothing; after it, the new files count."""
        with folder_lock(self.folder):
            roll_forward(self.folder)
            for guard in self.guards:
                guard()
            stale = self._find_stale()
            for file in self.files:
                if file.label is not None:
                    announce(file.label, file.target, file.temp)
            try:
                if len(self.files) == 1 and not stale:
                    self._proof = self.files[0].temp
                    self._proof.replace(self.files[0].target)
                    self._sync()
                else:
                    self._run_set(stale)
            finally:
                # Asked of the disk, because an interrupt may come between the rename and a note of it.
                self.done = self._proof is not None and not self._proof.exists()
                if self._proof is not None and not self.done and self._proof not in {file.temp for file in self.files}:
                    self._proof.unlink(missing_ok=True)

    def _find_stale(self) -> list[Path]:
        """What must go and is there, now that no other writer can add to it."""
        named = [*self.stale, *(path for finder in self.finders for path in finder() if path.parent == self.folder)]
        written = {file.target for file in self.files}
        return [path for path in dict.fromkeys(named) if path not in written and before(path) is not None]

    def _run_set(self, stale: Sequence[Path]) -> None:
        moves = [Move(file.target.name, file.temp.name, before(file.target)) for file in self.files]
        removals = [Removal(path.name, before(path)) for path in stale]
        journal = Journal({move.name: move for move in moves}, {gone.name: gone for gone in removals})
        self._proof, fd = create_temp(self.files[-1].target)
        try:
            write_all(fd, memoryview(journal.to_bytes()), 0)
            # Whoever may read one of the files must be able to follow: they may have another mode than the umask gives.
            modes = [stat.S_IMODE(file.temp.stat().st_mode) for file in self.files]
            with contextlib.suppress(OSError):
                os.fchmod(fd, reduce(or_, modes, stat.S_IMODE(os.fstat(fd).st_mode)) & 0o666)
            if self.durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        try:
            self._proof.replace(self.folder / JOURNAL)
            self._sync()
            carry_out(self.folder, journal, durable=self.durable, live=True)
        except BaseException as error:
            if self._proof.exists():
                raise
            # An interrupt, or a disk that fails for a moment: go on as far as it goes.
            try:
                carry_out(self.folder, journal, durable=self.durable, live=True)
            except OSError as failed:
                if not isinstance(error, OSError):
                    raise error from None
                raise OSError(
                    failed.errno,
                    f"the new file is complete and polyvec reads it, but it could not be renamed to its name "
                    f"({(failed.strerror or str(failed)).lower()}); the next write to this folder tries again",
                    str(self.files[-1].target),
                ) from None
            if not isinstance(error, OSError):
                raise

    def _sync(self) -> None:
        if self.durable:
            sync_folder(self.folder)


def carry_out(folder: Path, journal: Journal, *, durable: bool, live: bool = False) -> None:
    """Do what a journal lists and is not done yet, then remove it. What fails stays listed, and is raised at the end.

    The writer itself (``live``) has just seen what is there; after a dead one, somebody may have put other files there.
    """
    failed: OSError | None = None
    for move in journal.moves.values():
        try:
            temp, target = folder / move.temp, folder / move.name
            if live or before(target) == move.before:
                temp.replace(target)
            else:
                temp.unlink(missing_ok=True)  # renamed before; or somebody has put another file there since
        except FileNotFoundError:
            pass
        except OSError as error:
            failed = failed or OSError(error.errno, error.strerror, str(folder / move.name))
    for gone in journal.removals.values():
        try:
            if journal.removes(folder / gone.name):
                (folder / gone.name).unlink(missing_ok=True)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    if durable:
        sync_folder(folder)
    (folder / JOURNAL).unlink(missing_ok=True)
    if durable:
        sync_folder(folder)


def roll_forward(folder: Path) -> None:
    """Finish what a writer that died left in the journal. The caller holds the folder's lock."""
    path = folder / JOURNAL
    data = read_trusted(str(path))
    if data is None:
        return
    try:
        journal = parse_journal(data, str(path))
    except FormatError:
        path.unlink(missing_ok=True)  # nobody can follow it, and readers have warned of it
        return
    try:
        carry_out(folder, journal, durable=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"an earlier write of this file could not be finished ({(error.strerror or str(error)).lower()}); "
            f"see to that, or remove {path} to keep the files as they are",
            error.filename,
        ) from None


def sweep(target: Path) -> list[Path]:
    """Finish what dead writers had committed, and remove what those of this target and its siblings left; returns it."""
    ours = re.compile(rf"\.{re.escape(temp_stem(target.name))}(\..+)?\.[0-9a-f]{{8}}{re.escape(TEMP_SUFFIX)}")
    swept = []
    with folder_lock(target.parent):
        roll_forward(target.parent)
        found: list[Path] = []
        with contextlib.suppress(PermissionError), os.scandir(target.parent) as entries:  # or it may not be listed
            found = [Path(entry.path) for entry in entries if ours.fullmatch(entry.name)]
        for path in found:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
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


def create_temp(target: Path) -> tuple[Path, int]:
    """A new locked temporary file beside the target, with the mode that the umask gives."""
    while True:
        path = target.with_name(f".{temp_stem(target.name)}.{secrets.token_hex(4)}{TEMP_SUFFIX}")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            error.filename = str(target)
            raise
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return path, fd
        os.close(fd)  # another writer swept it between creation and lock


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
