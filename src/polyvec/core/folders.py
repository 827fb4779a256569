"""Folders as outputs: written whole beside their target, then put in its place at once.

A new folder grows under ``.NAME.XXXXXXXX.polyvec-tmp`` beside its target, is synced, and changes places with the target
in one step (``renameat2``). Where the kernel or the file system cannot do that, the old folder is renamed
aside (``.polyvec-old``) and the new one in; `recover`, which every next run and reader calls, puts back what a kill
between the two left aside. A kill at any moment thus leaves the old folder or the whole new one.

A target is locked while its writer lives: a second one is refused, and what killed ones left is swept by the
next. Files in the target that are not of the kind written are carried over.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import filecmp
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from polyvec.core.commits import announce, roll_forward, sync_folder
from polyvec.core.errors import InputError, PolyvecError, speak_of
from polyvec.core.journal import TEMP_SUFFIX, may_act, temp_stem
from polyvec.core.locks import LOCK_SUFFIX, folder_lock, job_lock
from polyvec.kernels.threads import Crew

OLD_SUFFIX = ".polyvec-old"
AT_FDCWD, RENAME_EXCHANGE = -100, 2
CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # no such call, or not on this file system
SYNC_THREADS = 8  # file systems sync many files in little more time than one

Ours = Callable[[str], bool]


class FolderSink:
    """One target folder being written. A context manager: in place, whole, on success; no trace on failure.

    ``ours`` says of a file, named by its path within the folder, whether it is of the kind written here: such files of
    an earlier folder go, all others stay. ``last`` is the file without which a folder is none of that kind. A target that
    cannot be moved (a mount point, the folder this process runs in) gets its files one by one, ``last`` at the
    end; where it holds some already that is refused, unless ``in_place`` allows it.
    """

    def __init__(self, target: str | os.PathLike[str], *, ours: Ours, last: str, in_place: bool = False) -> None:
        self.given = os.fspath(target)
        self.target = Path(os.path.realpath(target))
        self.last = last
        self.size = 0
        self._ours = ours
        self._held = contextlib.ExitStack()
        try:
            self._begin(in_place)
        except BaseException as error:
            self._held.close()
            if isinstance(error, OSError):
                error.filename = self.given
            raise

    def _begin(self, in_place: bool) -> None:
        if os.path.lexists(self.target) and not self.target.is_dir():
            raise InputError(f"{self.given}: the output must be a folder, and a file is there")
        self.target.parent.mkdir(parents=True, exist_ok=True)
        why = _pinned(self.target)
        if why and not in_place and any(self._ours(name) for name, _ in _files(self.target)):
            raise InputError(f"{self.given}: {why}, so what it holds cannot be replaced whole; choose another folder")
        self._inside = why is not None
        home = self.target if self._inside else self.target.parent
        self._held.enter_context(job_lock(home / self.target.name if self._inside else self.given))
        recover(self.target)
        if self.target.is_dir():
            with folder_lock(self.target):
                roll_forward(self.target)
        for left in _leftovers(self.target, home):
            _retire(left, self.target, self._ours)
        self._seen = _identity(self.target)
        self.path = home / f".{temp_stem(self.target.name)}.{secrets.token_hex(4)}{TEMP_SUFFIX}"
        self.path.mkdir()
        self._new = _identity(self.path)

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file of the new folder; ``name`` may hold slashes."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in pieces:
                self.size += file.write(piece)

    # -- the end

    def commit(self) -> None:
        """Put the new folder in the target's place, with everything that the target holds beside what is replaced."""
        try:
            if self._inside:
                announce(self.given, self.target / self.last, self.path / self.last)
                self._commit_inside()
            else:
                announce(self.given, self.target, self.path)
                self._commit_beside()
        except BaseException:
            self.abort()
            raise
        self._held.close()

    def _commit_beside(self) -> None:
        if self._seen is not None:
            _carry(self.target, self.path, self._ours)
            self.path.chmod(stat.S_IMODE(self.target.stat().st_mode))
        _sync(self.path)
        with folder_lock(self.target.parent):
            if _identity(self.target) != self._seen:
                raise InputError(f"{self.given}: another program replaced this folder meanwhile; nothing was written")
            old = _swap(self.path, self.target)
            sync_folder(self.target.parent)
        if old is not None:
            _retire(old, self.target, self._ours)

    def _commit_inside(self) -> None:
        _sync(self.path)
        names = [name for name, _ in _files(self.path)]
        stale = [name for name, _ in _files(self.target) if self._ours(name) and name not in set(names)]
        for name in sorted(names, key=lambda name: name == self.last):
            (self.target / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).replace(self.target / name)
        for name in stale:
            (self.target / name).unlink()
        _retire(self.path, self.target, self._ours)
        _sync(self.target)

    def abort(self) -> None:
        """Drop what was written; the target stays as it was."""
        if _identity(self.path) == self._new:  # and not the old folder, which has changed places with it
            shutil.rmtree(self.path, ignore_errors=True)  # links to files of the target, never those themselves
        self._held.close()

    def __enter__(self) -> FolderSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
            else:
                self.abort()
        except (OSError, PolyvecError) as failed:
            self._name(failed)
            raise
        if error is not None:
            self._name(error)

    def _name(self, error: BaseException) -> None:
        """Let an error speak of the target: nobody knows the folder that stood in for it."""
        speak_of(error, str(self.path), self.given)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = self.given


def recover(target: str | os.PathLike[str]) -> None:
    """Put a folder back that a kill left renamed aside; nothing where the target is there, or nothing was left."""
    path = Path(os.path.realpath(target))
    if not os.path.lexists(path) and _asides(path):
        with folder_lock(path.parent):  # a writer that lives holds it between its two renames
            asides = _asides(path)
            if asides and not os.path.lexists(path):
                max(asides, key=lambda aside: aside.stat().st_mtime_ns).rename(path)
                sync_folder(path.parent)


def is_leftover(path: Path) -> bool:
    """Whether this is what a run of ours left, or is writing."""
    return path.name.startswith(".") and path.name.endswith((TEMP_SUFFIX, OLD_SUFFIX, LOCK_SUFFIX))


def _asides(target: Path) -> list[Path]:
    return [path for path in _leftovers(target, target.parent) if path.name.endswith(OLD_SUFFIX)]


def _leftovers(target: Path, home: Path) -> list[Path]:
    """Folders in ``home`` that stood in for the target, and were put there by somebody who may put things in its place."""
    start = f".{temp_stem(target.name)}."
    size = len(start) + 8
    ends = (TEMP_SUFFIX, OLD_SUFFIX)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(home) as found:
        return [
            home / entry.name
            for entry in found
            if entry.name.startswith(start)
            and entry.name[size:] in ends
            and entry.is_dir(follow_symlinks=False)
            and may_act(entry.stat(follow_symlinks=False).st_uid, home)
        ]
    return []


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _pinned(target: Path) -> str | None:
    """Why a folder cannot be moved; None where it can."""
    if os.path.ismount(target):
        return "it is a mount point"
    with contextlib.suppress(FileNotFoundError):
        here = Path.cwd()
        if here == target or target in here.parents:
            return "this command runs inside it"
    return None


def _swap(new: Path, target: Path) -> Path | None:
    """Put ``new`` in the target's place; returns where the old folder is now."""
    if not target.exists():
        new.rename(target)
        return None
    if exchange(new, target):
        return new
    aside = target.with_name(f".{temp_stem(target.name)}.{secrets.token_hex(4)}{OLD_SUFFIX}")
    target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    return aside


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where that cannot be done here."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(other))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Everything in a folder but folders and what runs of ours left, by its path within; links are not followed."""
    for where, names, files in os.walk(folder):
        links = [name for name in names if Path(where, name).is_symlink()]
        names[:] = [name for name in names if not is_leftover(Path(where, name))]
        for name in (*files, *links):
            path = Path(where, name)
            yield path.relative_to(folder).as_posix(), path


def _carry(old: Path, new: Path, ours: Ours) -> None:
    """Give the new folder what the old one holds beside what is replaced: by hard links, else as copies."""
    for where, names, _ in os.walk(old):
        for name in names:
            path = Path(where, name)
            twin = new / path.relative_to(old)
            if not path.is_symlink() and not any(path.iterdir()) and not twin.exists():
                twin.mkdir(parents=True)
    for name, path in _files(old):
        twin = new / name
        if ours(name) or is_leftover(path) or os.path.lexists(twin):
            continue
        twin.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, twin, follow_symlinks=False)
        except OSError:
            shutil.copy2(path, twin, follow_symlinks=False)


def _retire(old: Path, new: Path, ours: Ours) -> None:
    """Remove a folder that was replaced or never finished: what is ours, and what ``new`` holds too; the rest moves there.

    Files may have come into the old folder after the new one was made: none of them is lost.
    """
    for name, path in list(_files(old)):
        twin = new / name
        with contextlib.suppress(OSError):  # another run may be sweeping it too; what cannot go stays to be seen
            if ours(name) or is_leftover(path) or _same(path, twin):
                path.unlink()
            elif not os.path.lexists(twin) and new.is_dir():
                twin.parent.mkdir(parents=True, exist_ok=True)
                path.rename(twin)
    for where, _, _ in os.walk(old, topdown=False):
        with contextlib.suppress(OSError):  # what differs from the new folder's stays, under its recognisable name
            Path(where).rmdir()


def _same(path: Path, twin: Path) -> bool:
    if not os.path.lexists(twin):
        return False
    if path.is_symlink() or twin.is_symlink():
        return path.is_symlink() and twin.is_symlink() and path.readlink() == twin.readlink()
    return path.samefile(twin) or (path.is_file() and twin.is_file() and filecmp.cmp(path, twin, shallow=False))


def _sync(folder: Path) -> None:
    """Make a folder and all it holds survive a power cut."""
    files = [path for _, path in _files(folder) if path.is_file() and not path.is_symlink()]
    with Crew(SYNC_THREADS) as pool:
        list(pool.map(_sync_file, files))
    for where, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(where))


def _sync_file(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return  # carried over, and not ours to read
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
