"""word2vec binary: what the suite promises, files with and without line breaks, and files that lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.errors import FormatError, LossyConversion, Truncated
from polyvec.formats import word2vec
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"


def words(names: list[str], dim: int = 3) -> Collection:
    return Collection.from_arrays(vectors(len(names), dim), vocab=names)


class TestWord2Vec(FormatSuite):
    format = word2vec.FORMAT

    def samples(self) -> Iterator[Sample]:
        yield Sample("words", words(["Berlin", "Tübingen", "实验", "a"]))
        yield Sample("one", words(["x"], 1))
        yield Sample("none", words([]))


def test_word2vec_without_line_breaks_reads_too() -> None:
    rows = vectors(2, 3)
    data = b"2 3\nab " + rows[0].tobytes() + b"cd " + rows[1].tobytes()
    with pv.open(data, format="word2vec") as collection:
        assert list(collection.vocab) == ["ab", "cd"]
        assert collection.vectors.to_numpy().tobytes() == rows.tobytes()


def test_lenient_takes_the_whole_rows_of_a_cut_file() -> None:
    data = (GOLDEN / "conv.w2v.bin").read_bytes()[:-10]
    with pytest.raises(Truncated):
        pv.open(data, format="word2vec")
    with pytest.warns(pv.FormatWarning, match="5 of 6"), pv.open(data, format="word2vec", lenient=True) as collection:
        assert collection.rows == 5


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (b"9999999999 300\nab " + bytes(1200), "rows, cols", 15),
        (b"2 0\na b ", "rows, cols", 4),
        (b"x y\n", "rows, cols", 0),
        (b"2 1\nab \1\2\3\4\ncd", "word 1", 11),
    ],
)
def test_a_lie_is_a_format_error_at_its_place(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        pv.open(data, format="word2vec")
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_counts_are_two_numbers_and_a_line_break() -> None:
    assert word2vec.read_counts(b"12 300\nthe ...") == (12, 300, 7)
    assert word2vec.read_counts(b"12\t300 \r\nthe") == (12, 300, 9)
    for head in (b"12 300", b"12\n", b"-1 3\n", b"a 3\n", b"12 3000000000\n", b""):
        assert word2vec.read_counts(head) is None


def test_text_is_not_taken_for_floats() -> None:
    assert not word2vec.fits(b"2 3\nab 0.5 -1 2e3\n", 4, 3)
    assert word2vec.fits(b"2 3\nab \0\0\0?\0\0\0?", 4, 3)
    assert not word2vec.fits(b"2 0\nab \0\0", 4, 0)
    assert word2vec.fits(b"0 3\n", 4, 3)


def test_a_first_row_that_reads_as_text_is_refused(tmp_path: Path) -> None:
    rows = np.frombuffer(b"1 2 3 4 5 6 7 8 \n", np.float32, count=4).reshape(1, 4)
    with pytest.raises(LossyConversion, match="taken for text"):
        pv.write(tmp_path / "o.bin", rows, vocab=["a"])
    assert not (tmp_path / "o.bin").exists()


def test_bytes_after_the_last_row_are_told() -> None:
    data = b"1 1\na \1\2\3\4\nmore"
    with pytest.warns(pv.FormatWarning, match="after the last row, from byte 10 on, are ignored"):
        pv.open(data, format="word2vec").close()


def test_a_cut_file_whose_dimension_is_damaged_gives_no_rows() -> None:
    rows = np.full((20, 4), 0.5, np.float32)
    whole = b"".join(b"w%02d " % n + row.tobytes() + b"\n" for n, row in enumerate(rows))
    with pytest.raises(FormatError) as caught:
        pv.open(b"20 9\n" + whole, format="word2vec", lenient=True)
    assert caught.value.field == "cols" and "no shape is guessed" in str(caught.value)
