"""Files of this machine: atomic writes. A kill at any moment leaves the old file or the whole new one.

Bytes go to a temporary file beside the target (``.NAME.XXXXXXXX.polyvec-tmp``); the commit syncs it, renames it over the
target and syncs the folder. A file with siblings, and files written `Together`, change at one moment (see `commits`).
The temporary file is locked while its writer lives, so the next writer of the same target can tell what a killed process
left behind, and sweeps it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from polyvec.core import commits
from polyvec.core.errors import InputError, speak_of
from polyvec.core.hashing import DIGEST
from polyvec.core.journal import exists
from polyvec.core.places import Place
from polyvec.core.sources import Source
from polyvec.core.spools import SpooledSink
from polyvec.core.written import WrittenSource


class LocalSink(SpooledSink):
    """One file of this machine being written; the options are those of `targets.open_sink`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Iterable[str | os.PathLike[str] | Place] = (),
        overwrite: bool = True,
        durable: bool = True,
        sha256: bool = False,
        together: Together | None = None,
        working: bool = False,
    ) -> None:
        self.path = Path(os.path.realpath(path))  # a symlink stays a symlink: what it points at is replaced
        self.durable = durable
        self.guards: list[Callable[[], None]] = []
        self.stale: list[Path] = []
        self._announced = None if working else os.fspath(path)
        self._inputs = [Place.of(path) for path in inputs]
        self._siblings: list[LocalSink] = []
        self._together = together
        check_local(path, inputs=self._inputs, overwrite=overwrite)
        if not overwrite:
            self.guards.append(lambda: check_local(path, overwrite=False))  # it may have appeared meanwhile
        if not working:
            self.discard([self.path.name + DIGEST])  # the digest of what is replaced
        commits.sweep(self.path)
        temp, fd = commits.create_temp(self.path)
        self._temp: Path | None = temp
        self._spoken = str(temp), str(self.path)  # the name that errors may hold, and the one that their reader knows
        super().__init__(fd, self.path.name, label=str(self.path), sha256=sha256)
        with contextlib.suppress(OSError):
            os.fchmod(fd, stat.S_IMODE(self.path.stat().st_mode))

    @property
    def siblings(self) -> Sequence[LocalSink]:
        return self._siblings

    def sibling(self, name: str) -> LocalSink:
        sink = LocalSink(self.path.with_name(name), inputs=self._inputs, durable=self.durable, working=True)
        self._siblings.append(sink)
        return sink

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            path = self.path.with_name(name)
            refuse_inputs(path, self._inputs)
            self.stale.append(path)

    def guard(self, check: Callable[[], None]) -> None:
        self.guards.append(check)

    def source(self) -> Source:
        return WrittenSource(self._temp, self._fd, name=self.name, label=self.label, siblings=self._siblings)

    # -- the end

    def commit(self) -> None:
        try:
            for sink in self.family():
                sink.finish()
            if self._together is not None:
                self._together.sinks.append(self)
                return
            _commit([self])
        except BaseException:
            self.abort()
            raise
        self._close()

    def family(self) -> list[LocalSink]:
        """This file's siblings and, last, the file itself."""
        return [member for sink in self._siblings for member in sink.family()] + [self]

    def finish(self) -> None:
        """All bytes are written: have their digest, and have them on the disk."""
        super().finish()
        if self.durable:
            os.fsync(self._fd)

    def release(self) -> None:
        """The file is committed: what was the temporary file is nobody's business any more."""
        self._temp = None
        self._close()

    def written(self) -> commits.Written:
        """The temporary file and its target."""
        assert self._temp is not None
        return commits.Written(self._temp, self.path, self._announced)

    def abort(self) -> None:
        for sink in self._siblings:
            sink.abort()
        if self._temp is not None:
            with contextlib.suppress(FileNotFoundError):
                self._temp.unlink()
            self._temp = None
        self._close()

    def _explain(self, error: BaseException) -> None:
        """Put the target's name into errors that speak of a temporary file, too."""
        super()._explain(error)
        for sink in self.family():
            speak_of(error, *sink._spoken)


class Together:
    """Several files, with their siblings, that appear at one moment: give it to their sinks. A context manager.

    Files in different folders change folder by folder, in the order in which they were written; `discard` names
    files that go at the moment at which the others of their folder appear.
    """

    def __init__(self) -> None:
        self.sinks: list[LocalSink] = []  # those that are ready
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


def _commit(sinks: Sequence[LocalSink], finders: Sequence[Callable[[], Iterable[Path]]] = ()) -> None:
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


def check_local(
    path: str | os.PathLike[str], *, inputs: Iterable[str | os.PathLike[str] | Place] = (), overwrite: bool = True
) -> None:
    """`InputError` where a file cannot be written to a path of this machine."""
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


def refuse_inputs(target: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | Place]) -> None:
    """`InputError` when the target is one of the inputs, under any name."""
    for path in inputs:
        place = Place.of(path)
        with contextlib.suppress(OSError):
            if place.local and place.path.samefile(target):
                raise InputError(
                    f"{os.fspath(target)}: the output is also an input; choose another name for the output"
                )
