"""Sidecars: what a format cannot hold is written beside the file, tied to it, and found again; stale ones go."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.format import Holds
from polyvec.core.places import Place
from polyvec.core.sidecars import attach_sidecars, lacking, read_strings, sidecar_places, write_sidecars
from polyvec.core.sources import open_source
from polyvec.core.targets import open_sink
from polyvec.testing import MemorySource, vectors

ROWS = vectors(3, 2)


def full(**parts: object) -> Collection:
    given = {"vocab": ["a", "b c", "ü"], "records": [{"n": i} for i in range(3)], "ids": [7, -1, 2**62]}
    return Collection.from_arrays(ROWS, metadata={"k": [1, None]}, **{**given, **parts})


def written(folder: Path, collection: Collection, what: list[str]) -> list[str]:
    with open_sink(folder / "a.raw", durable=False) as sink:
        sink.write(ROWS)
        return write_sidecars(collection, sink, what)


def attached(folder: Path) -> Collection:
    found = Collection.from_arrays(ROWS)
    with open_source(folder / "a.raw") as source:
        attach_sidecars(found, source)
    return found


def test_what_a_format_does_not_hold_is_what_is_there_and_has_no_place() -> None:
    assert lacking(full(), Holds()) == ["words", "records", "ids", "metadata"]
    assert lacking(full(), Holds(vocab=True, metadata=True)) == ["records", "ids"]
    assert lacking(Collection.from_arrays(ROWS), Holds()) == []


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    names = written(tmp_path, full(), ["words", "ids", "records", "metadata"])
    assert names == ["a.raw.words.txt", "a.raw.ids.npy", "a.raw.records.jsonl", "a.raw.metadata.json"]
    found = attached(tmp_path)
    assert list(found.vocab) == ["a", "b c", "ü"] and found.ids[:].tolist() == [7, -1, 2**62]
    assert list(found.records) == [{"n": 0}, {"n": 1}, {"n": 2}] and found.metadata == {"k": [1, None]}
    assert sorted(found.sidecars) == sorted(names)
    assert sorted(place.name for place in sidecar_places(Place.of(tmp_path / "a.raw"))) == sorted(names)
    found.close()


@pytest.mark.parametrize("words", [["a\nb", "", "c"], ["a\r", "b", "c"]])
def test_words_with_line_breaks_are_lines_of_json(words: list[str], tmp_path: Path) -> None:
    assert written(tmp_path, full(vocab=words), ["words"]) == ["a.raw.words.jsonl"]
    assert list(attached(tmp_path).vocab) == words


def test_ids_of_text_are_lines_and_numbers_an_npy(tmp_path: Path) -> None:
    assert written(tmp_path, full(ids=["x", "y", "z"]), ["ids"]) == ["a.raw.ids.txt"]
    assert list(attached(tmp_path).ids) == ["x", "y", "z"]
    assert written(tmp_path, full(), ["ids"]) == ["a.raw.ids.npy"]
    assert np.load(tmp_path / "a.raw.ids.npy").tolist() == [7, -1, 2**62]
    assert not (tmp_path / "a.raw.ids.txt").exists(), "the ids of an earlier file stayed"


def test_a_file_without_sidecars_drops_those_of_an_earlier_one(tmp_path: Path) -> None:
    written(tmp_path, full(), ["words", "metadata"])
    assert written(tmp_path, full(), []) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.raw"]


def test_what_a_file_holds_itself_is_not_covered(tmp_path: Path) -> None:
    written(tmp_path, full(), ["words"])
    own = full(vocab=["1", "2", "3"])
    with open_source(tmp_path / "a.raw") as source:
        attach_sidecars(own, source)
    assert list(own.vocab) == ["1", "2", "3"] and own.sidecars == []


def test_metadata_that_json_has_not_is_refused_and_the_way_out_is_said(tmp_path: Path) -> None:
    collection = full()
    collection.metadata = {"x": float("nan")}
    with pytest.raises(InputError, match="--no-sidecar"):
        written(tmp_path, collection, ["metadata"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("w.txt", b"a\nb\n", ["a", "b"]),
        ("w.txt", b"a\nb", ["a", "b"]),
        ("w.txt", b"\n\n", ["", ""]),
        ("w.jsonl", b'"a\\n"\n"b"\n', ["a\n", "b"]),
    ],
)
def test_strings_are_one_a_line(name: str, data: bytes, wanted: list[str]) -> None:
    assert list(read_strings(MemorySource(data, name), 2, "words")) == wanted


def test_a_mark_of_byte_order_is_passed_over_only_where_editors_write() -> None:
    marked = MemorySource(b"\xef\xbb\xbfa\n", "w.txt")
    assert list(read_strings(marked, 1, "words", marked=True)) == ["a"]
    assert list(read_strings(marked, 1, "words")) == ["\ufeffa"]


def test_lines_that_do_not_match_the_rows_are_corrupt() -> None:
    with pytest.raises(Corrupt) as caught:
        read_strings(MemorySource(b"a\n", "w.txt"), 2, "words")
    assert (caught.value.expected, caught.value.found) == ("2 lines", "1 lines")
    with pytest.raises(Corrupt, match="not a JSON string"):
        read_strings(MemorySource(b"1\n", "w.jsonl"), 1, "words")


def test_ids_of_another_shape_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(ROWS.tobytes())
    for ids in (np.zeros(2, np.int64), np.zeros(3, np.int32), np.zeros((3, 1), np.int64)):
        np.save(tmp_path / "a.raw.ids.npy", ids)
        with pytest.raises(FormatError, match="ids do not match the rows"):
            attached(tmp_path)


def test_metadata_beside_a_file_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(ROWS.tobytes())
    (tmp_path / "a.raw.metadata.json").write_text(json.dumps([1]))
    with pytest.raises(FormatError):
        attached(tmp_path)
