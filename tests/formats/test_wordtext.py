"""Text word embeddings: what the suite promises, spellings that cannot be, numbers that are none, files that lie."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt, FormatError, LossyConversion
from polyvec.formats import wordtext
from polyvec.kernels import strings as tables
from polyvec.testing import FormatSuite, Sample, vectors


def words(names: list[str], dim: int = 3) -> Collection:
    return Collection.from_arrays(vectors(len(names), dim), vocab=names)


class TestWordText(FormatSuite):
    format = wordtext.FORMAT

    def samples(self) -> Iterator[Sample]:
        yield Sample("plain", words(["Berlin", "New York", ". . .", "实验", "a"]))
        yield Sample("dims", words(["Berlin", "New York", "42", "a"]), suffix=".vec")
        yield Sample("dims, none", words([]), suffix=".vec")


@pytest.mark.parametrize("word", ["", "a\nb", "trailing "])
def test_words_that_text_cannot_spell_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(LossyConversion):
        pv.write(tmp_path / "o.txt", vectors(2, 3), vocab=["fine", word])


def test_a_bad_number_names_its_row() -> None:
    for data, format, row in ((b"a 1 2\nb 3 4\nc 5 x6\n", "glove", 2), (b"2 2\na 1 2\nb 5 x6\n", "textdims", 1)):
        with pv.open(data, format=format) as collection, pytest.raises(Corrupt, match=f"value 1 of row {row}"):
            collection.vectors.to_numpy()


def test_invalid_utf8_is_an_error_or_replaced() -> None:
    data = b"a\xff 1 2\nb 3 4\n"
    with pytest.raises(Corrupt, match="UTF-8"):
        pv.open(data, format="glove")
    with pv.open(data, format="glove", lossy=True) as collection:
        assert list(collection.vocab) == ["a�", "b"]


@pytest.mark.parametrize(("name", "head", "line"), [("t.txt", "", 2), ("t.vec", "3 3\n", 3)])
def test_what_is_no_number_is_told_with_its_line_and_what_to_do(
    tmp_path: Path, name: str, head: str, line: int
) -> None:
    (tmp_path / name).write_text(f"{head}a 1 2 3\nb 1 x 3\nc 1 2 3\n")
    with pytest.raises(Corrupt, match=rf"not a number .*line {line} .*; mend or remove that line"):
        pv.convert(tmp_path / name, tmp_path / "out.fbin")


@pytest.mark.parametrize(
    ("data", "format", "field", "offset"),
    [
        (b"2 2\na 1 2\nb 1\n", "textdims", "line 3", 10),
        (b"3 2\na 1 2\nb 1 2\n", "textdims", "rows", 16),
        (b"a 1 2\nb 1 2\n", "textdims", "rows, cols", 0),
        (b"a 1 2\nb 1 2\nc 1\n", "glove", "line 3", 12),
        (b"a 1 2\nb 1 2\nc 1 2 3\n", "glove", "line 3", 12),
    ],
)
def test_a_lie_is_a_format_error_at_its_line(data: bytes, format: str, field: str, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        pv.open(data, format=format)
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_lenient_leaves_out_a_last_line_that_is_cut_and_no_other() -> None:
    with pytest.warns(pv.FormatWarning, match="line 3 has 1 values"):
        found = pv.open(b"a 1 2\nb 1 2\nc 1", format="glove", lenient=True)
    with found:
        assert list(found.vocab) == ["a", "b"]
    with pytest.raises(Corrupt, match="line 2 has 1 values"):
        pv.open(b"a 1 2\nb 1\nc 1 2\n", format="glove", lenient=True)


def test_a_dimension_that_is_said_takes_numbers_into_the_words() -> None:
    data = b"route 66 1 2\nroute 7 3 4\n"
    with pv.open(data, format="glove", dim=2) as collection:
        assert list(collection.vocab) == ["route 66", "route 7"]
        assert collection.vectors.to_numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(Corrupt, match="says 2 values a row, and 3 were asked for"):
        pv.open(b"1 2\na 1 2\n", format="textdims", dim=3)


@pytest.mark.parametrize(
    ("names", "dim", "says"),
    [([], 3, "no rows"), (["a"], 1, "one dimension"), (["route 66", "b"], 3, "ends in a number")],
)
def test_what_plain_text_would_misread_is_refused_and_counted_text_takes_it(
    names: list[str], dim: int, says: str, tmp_path: Path
) -> None:
    with pytest.raises(LossyConversion, match=says):
        pv.write(tmp_path / "o.txt", words(names, dim))
    pv.write(tmp_path / "o.vec", words(names, dim), durable=False)
    with warnings.catch_warnings(action="ignore", category=pv.FormatWarning), pv.open(tmp_path / "o.vec") as back:
        assert list(back.vocab) == names and back.dim == dim


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=9))
@settings(max_examples=60, deadline=None)
def test_any_float32_is_written_so_that_it_reads_back(values: list[float]) -> None:
    rows = np.array(values[: len(values) // 3 * 3], np.float32).reshape(-1, 3)
    names = [f"w{row}" for row in range(len(rows))]
    text = tables.format_rows(tables.pack(names), rows)
    with pv.open(bytes(text), format="glove", dim=3) as back:
        assert back.vectors.to_numpy().tobytes() == rows.tobytes()
