"""Formats: what sniffing sees of a file, how sure it is, and what a format that is only read says."""

from __future__ import annotations

import itertools

import pytest

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.format import Confidence, Format, Match, Peek, WriteOptions
from polyvec.core.sources import MemorySource
from polyvec.core.targets import open_sink
from polyvec.testing import vectors


def test_a_peek_reads_what_is_asked_for_and_once() -> None:
    source = MemorySource(bytes(range(256)) * 100, "a.MINE")
    peek = Peek(source)
    assert (peek.size, peek.suffix, peek.name) == (25600, ".mine", "a.MINE")
    assert source.bytes_read == 0
    assert peek.head == (bytes(range(256)) * 16) and peek.head is peek.head
    assert source.bytes_read == 4096
    assert peek.tail == (bytes(range(256)) * 16) and peek.tail is peek.tail
    assert source.bytes_read == 8192


def test_the_tail_of_a_small_file_is_its_head() -> None:
    source = MemorySource(b"small", "a.mine")
    peek = Peek(source)
    assert peek.tail == peek.head == b"small"
    assert source.bytes_read == 5


def test_confidence_is_ordered_as_formats_are_chosen() -> None:
    assert sorted(Confidence, reverse=True) == [
        Confidence.MAGIC,
        Confidence.NAMED,
        Confidence.SUFFIX,
        Confidence.FITS,
    ]
    assert [c for c in Confidence if Match(c, "").fits] == [Confidence.FITS, Confidence.NAMED, Confidence.MAGIC]


class OnlyRead(Format):
    name = "onlyread"
    title = "Only read (for tests)"
    suffixes = (".onlyread",)
    writable = False

    def sniff(self, peek):
        return []

    def open(self, source, *, variant="", lenient=False, **own):
        return Collection.from_arrays(vectors(2, 2))


def test_a_format_that_is_only_read_needs_no_write_and_says_so(tmp_path) -> None:
    with open_sink(tmp_path / "a.onlyread") as sink, pytest.raises(InputError, match="onlyread files are only read"):
        OnlyRead().write(Collection.from_arrays(vectors(2, 2)), sink, WriteOptions())


class Claiming(OnlyRead):
    """Claims the files of one name, as sure as its test says."""

    def __init__(self, name: str, confidence: Confidence) -> None:
        self.name, self.suffixes, self.confidence = name, (f".{name}",), confidence  # type: ignore[misc]

    def sniff(self, peek):
        return [Match(self.confidence, "mine")] if peek.name == "claimed" else []


def test_detection_chooses_in_the_order_of_confidence() -> None:
    from polyvec import formats

    for less, more in itertools.combinations(sorted(Confidence), 2):
        one, two = Claiming("oneclaim", less), Claiming("twoclaim", more)
        for first, second in ((one, two), (two, one)):
            with formats.registered(first), formats.registered(second):
                assert formats.detect(MemorySource(b"\1\2\3", "claimed")).format is two
                assert [f for f, _ in formats.readings(MemorySource(b"\1\2\3", "claimed"))] == [two, one]
