"""The suite of reading finds what it is for: a right reader passes, each broken one fails the test meant for it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.blocks import Extent, Raw
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.format import Confidence, Format, Match, Peek
from polyvec.core.sources import Source
from polyvec.testing import ReadingSuite, SampleFile, vectors
from polyvec.writing.write import write


class OnlyRead(Format):
    """'PLAIN!!!', u32 n, u32 d, float32 rows, and no writer."""

    name = "onlyread"
    title = "Only read (for tests)"
    suffixes = (".onlyread",)
    writable = False

    def sniff(self, peek: Peek) -> list[Match]:
        return [Match(Confidence.MAGIC, "magic")] if peek.head.startswith(b"PLAIN!!!") else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        head = source.read_at(0, 16)
        if len(head) < 16:
            raise Truncated("short")
        n, d = struct.unpack("<II", head[8:])
        if head[:8] != b"PLAIN!!!" or (n and not d):
            raise Corrupt("bad")
        if source.size != 16 + 4 * n * d:
            raise Truncated("the size is wrong")
        extent = Extent(0, n, 16, 4 * n * d, Raw(np.dtype("<f4")))
        return Collection({"vectors": FileColumn("vectors", source, [extent], row_shape=(d,), encoding="raw")})


class Leaking(OnlyRead):
    """Keeps a descriptor of every file."""

    kept: ClassVar[list[Any]] = []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        self.kept.append(os.open(os.devnull, os.O_RDONLY))
        return super().open(source)


class Transposed(OnlyRead):
    """Reads something else than the file holds."""

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        found = super().open(source)
        return Collection({"vectors": ArrayColumn("vectors", found.vectors.to_numpy()[::-1].copy())})


READING = [name for name in dir(ReadingSuite) if name.startswith("test_")]


def run_reading(made: Format, test: str, tmp_path: Path) -> None:
    rows = vectors(5, 3)

    class Suite(ReadingSuite):
        format = made

        def samples(self) -> Iterator[SampleFile]:
            data = b"PLAIN!!!" + struct.pack("<II", 5, 3) + rows.tobytes()
            yield SampleFile("five", data, expected=Collection.from_arrays(rows))

    method = getattr(Suite(), test)
    wanted = method.__func__.__code__.co_varnames[: method.__func__.__code__.co_argcount]
    arguments = {"sample": next(iter(Suite().samples())), "tmp_path": tmp_path}
    with formats.registered(made):
        method(**{name: value for name, value in arguments.items() if name in wanted})


@pytest.mark.parametrize("test", READING)
def test_a_format_that_is_only_read_passes_the_suite_of_reading(test: str, tmp_path: Path) -> None:
    run_reading(OnlyRead(), test, tmp_path)


@pytest.mark.parametrize(
    ("made", "test"),
    [
        (Leaking(), "test_files_are_closed_again"),
        (Transposed(), "test_the_file_reads_as_it_should"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Format) else None,
)
def test_a_broken_reader_fails(made: Format, test: str, tmp_path: Path) -> None:
    try:
        with pytest.raises(AssertionError):
            run_reading(made, test, tmp_path)
    finally:
        while Leaking.kept:
            os.close(Leaking.kept.pop())


def test_what_is_only_read_is_no_target(tmp_path: Path) -> None:
    with (
        formats.registered(OnlyRead()),
        pytest.raises(InputError, match="onlyread files are only read; choose another"),
    ):
        write(tmp_path / "a.onlyread", vectors(2, 2))
