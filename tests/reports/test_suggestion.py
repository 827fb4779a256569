"""The suggestion: the smallest encoding that surely holds the target, and the command that writes it."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.reports.quality import Quality, measure_quality
from polyvec.reports.recall import Recall
from polyvec.reports.suggestion import pick_smallest, with_suggestion
from polyvec.reports.tally import Entry

ROWS = np.ones((4, 8), np.float32)


def entry(name: str, size: int, low: float, recall: float, *, failed: str | None = None) -> Entry:
    recalls = () if failed else (Recall(10, recall, low, 1.0, 5, 0, 0),)
    return Entry(name, name, size, 1.0, 0, 0, 0, 0, 0, recalls, failed=failed)


def report(*entries: Entry, size: int = 1000, skipped: int = 0) -> Quality:
    return Quality("x", 4, 8, "float32", size, 4, None, skipped, 5, 5, "cosine", "default", (), entries, ((), ()))


def suggest(found: Quality, target: float, original: object = ROWS, column: str | None = None) -> Quality:
    return with_suggestion(found, target, original, Collection.from_arrays(ROWS), column)


def test_the_smallest_whose_whole_interval_holds_is_picked() -> None:
    entries = [entry("a", 30, 0.95, 0.97), entry("b", 20, 0.9, 0.96), entry("c", 10, 0.5, 0.99)]
    assert pick_smallest(entries, 10, 0.9) == "b"
    assert pick_smallest(entries, 10, 0.95) == "a"
    assert pick_smallest(entries, 10, 0.96) == "raw"
    assert pick_smallest(entries, 1, 0.1) == "raw"  # at a k that was not measured nothing is known
    assert pick_smallest([entry("a", 1, 1, 1, failed="why")], 10, 0.1) == "raw"


def test_a_target_of_all_asks_for_all_and_not_for_the_interval() -> None:
    """No number of queries gives an interval that is 1 alone."""
    assert pick_smallest([entry("a", 30, 0.98, 1.0), entry("b", 20, 0.98, 0.9999)], 10, 1) == "a"


def test_what_is_not_smaller_than_the_rows_is_not_suggested() -> None:
    assert suggest(report(entry("float16", 1000, 1, 1)), 0.9).suggestion == "raw"
    assert suggest(report(entry("float16", 999, 1, 1)), 0.9).suggestion == "float16"


def test_int8_in_chunks_is_not_suggested_for_rows_it_cannot_hold() -> None:
    entries = entry("int8-chunk", 250, 1, 1), entry("float16", 500, 1, 1)
    assert suggest(report(*entries), 0.9).suggestion == "int8-chunk"
    assert suggest(report(*entries, skipped=1), 0.9).suggestion == "float16"


def test_a_smaller_one_that_nothing_writes_and_one_that_is_unsure_are_named() -> None:
    found = suggest(
        report(entry("float16", 500, 0.95, 0.99), entry("int8-chunk", 250, 0.8, 0.92), entry("pq", 100, 0.95, 0.96)),
        0.9,
    )
    assert (found.suggestion, found.smaller, found.undecided) == ("float16", "pq", "int8-chunk")
    assert found.target == (10, 0.9)
    near = suggest(report(entry("int8-chunk", 1000, 1, 1), entry("int8-file", 995, 1, 1), size=4000), 0.9)
    assert (near.suggestion, near.smaller) == ("int8-chunk", None)


def test_where_nothing_was_measured_the_rows_stay_and_no_target_is_claimed() -> None:
    found = suggest(report(entry("float16", 500, 0, 0, failed="does not fit")), 0.9)
    assert (found.suggestion, found.target, found.command) == ("raw", None, None)


SURE = report(entry("float16", 500, 1, 1))


@pytest.mark.parametrize(
    ("original", "written"),
    [
        ("a.fbin", "a-float16.f16bin"),
        (Path("in the/a.b.npy"), "in the/a.b-float16.f16bin"),
        ("far/part-*.npy", "far/part-float16.f16bin"),
        ("far/*.npy", "far/all-float16.f16bin"),
        ("https://host/far/a.fbin", "a-float16.f16bin"),
        ("s3://bucket/a.fbin", "a-float16.f16bin"),
    ],
)
def test_the_command_writes_beside_the_file_or_here_where_it_is_far(original: str | Path, written: str) -> None:
    command = suggest(SURE, 0.9, original).command
    assert command is not None
    assert shlex.split(command) == ["polyvec", "convert", str(original), written, "--encoding", "float16"]


def test_of_arrays_and_of_rows_that_stay_there_is_no_command() -> None:
    assert suggest(SURE, 0.9).command is None
    assert suggest(report(entry("float16", 500, 0.1, 0.1)), 0.9, "a.fbin").command is None


def test_the_command_names_the_column_that_was_measured_and_the_chunks_that_were_tried() -> None:
    named = suggest(SURE, 0.9, "a.fbin", column="title").command
    assert named is not None and named.endswith("--column title")
    two = Collection.from_arrays({"first": ROWS, "second": ROWS}, main="second")
    command = with_suggestion(SURE, 0.9, "a.npz", two, None).command
    assert command is not None and command.endswith("--column second")
    chunks = Collection(two.select("first").columns, format="cvc")
    command = with_suggestion(report(entry("int8-chunk", 250, 1, 1)), 0.9, "a.cvc", chunks, None).command
    assert command is not None and command.endswith(f"--option chunk_rows={CHUNK_ROWS}")


def test_an_encoding_that_nothing_writes_is_named_only_where_it_is_clearly_smaller():
    rows = np.random.default_rng(8).standard_normal((20_000, 8)).astype(np.float32)
    few = measure_quality(rows, encodings=["int8-chunk", "int8-file"], sample_queries=50, k=[10], suggest=0.1)
    sizes = {entry.name: entry.bytes for entry in few.entries}
    assert sizes["int8-chunk"] * 0.99 < sizes["int8-file"] < sizes["int8-chunk"]
    assert few.suggestion == "int8-chunk" and few.smaller is None
