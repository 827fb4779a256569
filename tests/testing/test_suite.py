"""The suite finds what it is for: each broken format here fails the test that is meant for it."""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.blocks import Extent, Raw
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, FileColumn
from polyvec.core.errors import Corrupt, Truncated
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source, open_source
from polyvec.testing import FormatSuite, Sample, vectors

COUNTER = itertools.count()


class Plain(Format):
    """'PLAIN!!!', u32 n, u32 d, float32 rows: right in every way."""

    name = "plain"
    title = "Plain (for tests)"
    suffixes = (".plain",)
    holds = Holds(dtypes=(np.dtype("<f4"),))
    options = (Option("level", int, "How hard."),)
    reading = (Option("rows", int, "How many."),)

    def sniff(self, peek: Peek) -> list[Match]:
        return [Match(Confidence.MAGIC, "magic")] if peek.head.startswith(b"PLAIN!!!") else []

    def read_counts(self, source: Source) -> tuple[int, int]:
        head = source.read_at(0, 16)
        if len(head) < 16:
            raise Truncated("short")
        n, d = struct.unpack("<II", head[8:])
        if head[:8] != b"PLAIN!!!" or (n and not d):
            raise Corrupt("bad")
        if source.size != 16 + 4 * n * d:
            raise Truncated("the size is wrong")
        return n, d

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        n, d = self.read_counts(source)
        extent = Extent(0, n, 16, 4 * n * d, Raw(np.dtype("<f4")))
        return Collection({"vectors": FileColumn("vectors", source, [extent], row_shape=(d,), encoding="raw")})

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        sink.write(b"PLAIN!!!" + struct.pack("<II", collection.rows, collection.dim))
        for block in collection.vectors.blocks():
            sink.write(block.decode())


class Trusting(Plain):
    """Allocates what the header promises."""

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        head = source.read_at(0, 16).ljust(16, b"\0")
        n, d = struct.unpack("<II", head[8:])
        rows = np.zeros((n, d), np.float32)
        data = np.frombuffer(source.read_at(16, 4 * (source.size // 4)), np.uint8)
        rows.reshape(-1).view(np.uint8)[: len(data)] = data[: rows.nbytes]
        return Collection({"vectors": ArrayColumn("vectors", rows)})


class Unchecked(Plain):
    """Lets struct complain of a short header."""

    def read_counts(self, source: Source) -> tuple[int, int]:
        struct.unpack("<8sII", source.read_at(0, 16))
        return super().read_counts(source)


class Endless(Plain):
    """Loops where a count is odd."""

    def read_counts(self, source: Source) -> tuple[int, int]:
        while source.size >= 16 and source.read_at(8, 1)[0] & 64:
            pass
        return super().read_counts(source)


class Lying(Plain):
    """Gives narrower rows than its shape says, where a flag in the magic is flipped."""

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        if source.size >= 8 and source.read_at(7, 1) != b"!":
            return Collection({"vectors": ArrayColumn("vectors", vectors(2, 3), shape=(2, 5))})
        return super().open(source)


class Moody(Plain):
    """Never writes the same bytes twice."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        super().write(collection, sink, options)
        sink.write(struct.pack("<I", next(COUNTER)))

    def read_counts(self, source: Source) -> tuple[int, int]:
        return super().read_counts(open_source(source.read_at(0, source.size - 4)))


class Rounding(Plain):
    """Loses precision unasked."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        sink.write(b"PLAIN!!!" + struct.pack("<II", collection.rows, collection.dim))
        sink.write(collection.vectors.to_numpy().astype(np.float16).astype(np.float32))


class Blockwise(Plain):
    """Writes what depends on how the rows arrive."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        sink.write(b"PLAIN!!!" + struct.pack("<II", collection.rows, collection.dim))
        for block in collection.vectors.blocks():
            rows = block.decode().copy()
            rows[0] = 0
            sink.write(rows)


class Direct(Plain):
    """Writes to the target itself."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        sink.path.write_bytes(b"PLAIN!!!")
        super().write(collection, sink, options)


class Littering(Plain):
    """Leaves a file of its own behind."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        (sink.path.parent / "scratch").write_bytes(b"")
        super().write(collection, sink, options)
        os.unlink(sink.path.parent / "scratch")  # noqa: PTH108


class Greedy(Plain):
    """Claims what is another's."""

    name = "greedy"
    suffixes = (".greedy",)

    def sniff(self, peek: Peek) -> list[Match]:
        return [Match(Confidence.NAMED, "everything is mine")]


class Unsummed(Plain):
    """Says that a flipped bit can be told, and has no checksum."""

    checksummed = True


class UnsummedHere(Plain):
    """Says so of each file."""

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        return True


class Summed(Plain):
    """With a checksum of its rows at the end."""

    checksummed = True

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        found = super().open(open_source(source.read_at(0, max(0, source.size - 4))))
        (extent,) = found.vectors.extents() if found.rows else [Extent(0, 0, 16, 0, Raw(np.dtype("<f4")))]
        crc = int.from_bytes(source.read_at(source.size - 4, 4), "little")
        pieces = [replace(extent, crc=crc)]
        column = FileColumn("vectors", source, pieces, row_shape=(found.dim,), encoding="raw")
        return Collection({"vectors": column})

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        super().write(collection, sink, options)
        sink.write(struct.pack("<I", zlib.crc32(collection.vectors.to_numpy().tobytes())))


class Forgetful(Plain):
    """Says that it holds what it does not write."""

    def __init__(self, *parts: str) -> None:
        self.holds = Holds(dtypes=(np.dtype("<f4"),), **dict.fromkeys(parts, True))  # type: ignore[misc, arg-type]


class Careful(Forgetful):
    """Says of each collection that it does not hold them."""

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        return Plain.holds


class Deaf(Plain):
    """Declares an encoding, and writes rows as they are."""

    holds = Holds(dtypes=(np.dtype("<f4"),), encodings=("raw", "float16"))


def suite_of(made: Format) -> FormatSuite:
    class Suite(FormatSuite):
        format = made

        def samples(self) -> Iterator[Sample]:
            yield Sample("five", Collection.from_arrays(vectors(5, 3)))

    return Suite()


def run(made: Format, test: str, tmp_path: Path) -> None:
    suite = suite_of(made)
    method = getattr(suite, test)
    sample = next(iter(suite.samples()))
    wanted = method.__func__.__code__.co_varnames[: method.__func__.__code__.co_argcount]
    arguments = {"sample": sample, "tmp_path": tmp_path}
    with formats.registered(made):
        method(**{name: value for name, value in arguments.items() if name in wanted})


GUARDED = "test_a_flipped_bit_of_the_rows_is_told_where_the_file_is_guarded"
DECLARED = "test_words_records_ids_and_metadata_that_are_declared_are_in_the_file"
TESTS = [name for name in dir(FormatSuite) if name.startswith("test_")]


@pytest.mark.parametrize("test", TESTS)
def test_a_right_format_passes(test: str, tmp_path: Path) -> None:
    run(Plain(), test, tmp_path)


@pytest.mark.parametrize(
    ("made", "test", "words"),
    [
        (Trusting(), "test_hostile_counts_allocate_nothing", "MemoryError"),
        (Trusting(), "test_every_bit_flip_is_a_format_error_or_consistent", "MemoryError"),
        (Unchecked(), "test_every_truncation_is_a_format_error_or_consistent", "struct|error"),
        (Endless(), "test_every_bit_flip_is_a_format_error_or_consistent", "TooSlow"),
        (Lying(), "test_every_bit_flip_is_a_format_error_or_consistent", "ValueError|says"),
        (Moody(), "test_the_same_collection_gives_the_same_bytes", "."),
        (Rounding(), "test_what_was_written_reads_back", "."),
        (Rounding(), "test_the_file_alone_holds_what_the_format_says_it_holds", "."),
        (Blockwise(), "test_how_the_rows_arrive_does_not_change_the_bytes", "."),
        (Direct(), "test_a_kill_while_writing_leaves_the_old_file_or_nothing", "."),
        (Direct(), "test_a_full_disk_leaves_the_old_file_and_no_trace", "."),
        (Direct(), "test_a_cancelled_write_leaves_the_old_file_and_no_trace", "."),
        (Littering(), "test_a_cancelled_write_leaves_the_old_file_and_no_trace", "."),
        (Unsummed(), GUARDED, "check does not tell a flipped bit of byte 46"),
        (UnsummedHere(), GUARDED, "check does not tell a flipped bit of byte 46"),
        (Forgetful("vocab"), DECLARED, "the words are gone"),
        (Forgetful("records"), DECLARED, "the record .* of row 0"),
        (Forgetful("ids"), DECLARED, "the ids are gone"),
        (Forgetful("metadata"), DECLARED, "metadata 'model'"),
        (Deaf(), "test_an_encoding_that_is_declared_is_used", "float16 is declared, and what is written is the same"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Format) else None,
)
def test_a_broken_format_fails(made: Format, test: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=words):
        run(made, test, tmp_path)


@pytest.mark.parametrize(("made", "test"), [(Summed(), GUARDED), (Careful("vocab", "ids"), DECLARED)])
def test_a_format_that_keeps_its_word_passes(made: Format, test: str, tmp_path: Path) -> None:
    run(made, test, tmp_path)


def test_a_suite_without_samples_says_so(tmp_path: Path) -> None:
    class Empty(FormatSuite):
        format = Plain()

        def samples(self) -> Iterator[Sample]:
            return iter(())

    for test in (DECLARED, "test_an_option_of_reading_that_is_not_declared_is_refused"):
        with pytest.raises(AssertionError, match=r"Empty.samples\(\) gives nothing: give at least one sample"):
            getattr(Empty(), test)(tmp_path)


def test_a_format_that_claims_anothers_file_fails_the_others_test(tmp_path: Path) -> None:
    with formats.registered(Greedy()), pytest.raises(AssertionError):
        run(Plain(), "test_with_its_suffix_no_other_format_claims_the_file", tmp_path)
