"""Writers that are stopped: killed, out of disk, not allowed, failing half way. What they leave behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from polyvec.core.blocks import Block
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import Cancelled
from polyvec.core.journal import TEMP_SUFFIX

Work = Callable[[], object]

PATIENCE = 120  # seconds that a forked process may take


def count_calls(name: str, work: Work) -> int:
    """How often ``work`` calls ``os.NAME``."""
    with mock.patch.object(os, name, wraps=getattr(os, name)) as spy:
        work()
        return spy.call_count


def killed_at(name: str, call: int, work: Work) -> bool:
    """Run ``work`` in a child that is killed in its ``call``-th call of ``os.NAME``; whether it came to that.

    A killed write has written half of its bytes, as a real one may have.
    """
    pid = os.fork()
    if pid == 0:
        real, calls = getattr(os, name), 0

        def dying(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                if name == "pwrite":
                    fd, data, offset = arguments
                    real(fd, memoryview(data)[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        signal.alarm(PATIENCE)
        try:
            setattr(os, name, dying)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    end = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    assert end != signal.SIGALRM, (
        f"the forked process did not end within {PATIENCE} s: it waits for a thread it has not"
    )
    return end is not None


def leftovers(folder: Path) -> list[Path]:
    """Temporary files of polyvec in a folder."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(TEMP_SUFFIX))


def assert_recognisable(path: Path, names: set[str]) -> None:
    """A temporary file says whose it is and which target it was for."""
    match = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}" + re.escape(TEMP_SUFFIX), path.name)
    assert match, f"{path.name} is not recognisable as a temporary file of polyvec"
    assert match[1] in names, f"{path.name} does not name its target"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@contextlib.contextmanager
def forbidden_folder() -> Iterator[Path | None]:
    """A folder in which nothing can be created, also where the tests run as root; None where that cannot be had."""
    folder = Path(tempfile.mkdtemp(prefix="polyvec-readonly-"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    try:
        if root:
            try:
                os.seteuid(65534)
            except OSError:
                yield None
                return
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


class StoppedColumn(Column):
    """A column that is cancelled in its second half."""

    def __init__(self, column: Column) -> None:
        self.name, self.shape, self.dtype, self.encoding = column.name, column.shape, column.dtype, column.encoding
        self._column = column

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        for block in self._column.blocks(1, start=start, stop=stop):
            if 2 * block.start >= self.rows:
                raise Cancelled("stopped by the test")
            yield block


class DrippingColumn(Column):
    """A column that gives few rows at a time, as any source may."""

    def __init__(self, column: Column, rows: int) -> None:
        self.name, self.shape, self.dtype, self.encoding = column.name, column.shape, column.dtype, column.encoding
        self._column = column
        self._most = rows

    @property
    def codec(self) -> Any:
        return self._column.codec

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        return self._column.blocks(min(rows or self._most, self._most), start=start, stop=stop, reuse=reuse)


def with_columns(collection: Collection, change: Callable[[Column], Column]) -> Collection:
    """The collection with each column wrapped."""
    return Collection(
        {name: change(column) for name, column in collection.columns.items()},
        main=collection.main,
        vocab=collection.vocab,
        records=collection.records,
        ids=collection.ids,
        metadata=collection.metadata,
    )
