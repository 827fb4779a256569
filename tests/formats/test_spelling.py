"""Words that no format may change in silence: through every word format they come back identical, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt, FormatError, InputError, LossyConversion
from polyvec.core.vocab import Strings, Vocab
from polyvec.testing import vectors

SUFFIXES = (".fifu", ".bin", ".w2v", ".txt", ".glove", ".vec", ".fasttext")
ODD = [
    "a",
    "\0",
    "a\0b",
    "a\r",
    "\ra",
    "a\rb",
    "a b",
    "a\tb",
    " a",
    "a ",
    "\t",
    "a\u00a0b",
    "\u3000",
    "\u2028x",
    "x\x85",
    "a 5",
    "5",
    "1e5",
    "nan",
    "a nan",
    "-inf",
    "1 2",
    "",
    "é",
    "y" * 5000,
    "</s>",
    "\ufeffa",
    "2 3",
    "a\nb",
    "\n",
    "a\x0bb",
    "\x0c5 3",
    "日本",
    "1_0",
    "a 1_0",
    "<",
    "0x1p3",
    "infinity x",
]


def assert_identical_or_refused(path: Path, rows: np.ndarray, words: list[str]) -> None:
    path.unlink(missing_ok=True)
    try:
        pv.write(path, rows, vocab=words, durable=False)
    except (LossyConversion, InputError) as error:
        assert "\n" not in str(error)
        assert "read back" not in str(error)  # the format knows what it cannot spell, and says what to do
        return
    with pv.open(path) as found:
        assert list(found.vocab) == words
        assert found.vectors.shape == rows.shape
        values = found.vectors.to_numpy()
        if "norms" in found.columns:
            values = values.astype(np.float64) * found["norms"].to_numpy().astype(np.float64)[:, None]
            assert np.allclose(values, rows, rtol=1e-6, atol=0)
        else:
            assert values.tobytes() == rows.tobytes()
    assert pv.verify(path).ok


@pytest.mark.parametrize("dim", [1, 2, 300])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_odd_words_come_back_identical_or_are_refused(suffix: str, dim: int, tmp_path: Path) -> None:
    assert_identical_or_refused(tmp_path / f"o{suffix}", vectors(0, dim), [])
    for word in ODD:
        for others in ([], ["zz"], ["q", "r 1", "s 2"]):
            names = [word, *others]
            assert_identical_or_refused(tmp_path / f"o{suffix}", vectors(len(names), dim), names)


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(
        st.text(
            st.one_of(st.sampled_from(" \t\r\n\0_.-15ea\u00a0"), st.characters(exclude_categories=["Cs"])), max_size=6
        ),
        max_size=12,
    ),
    dim=st.sampled_from([1, 2, 300]),
    suffix=st.sampled_from(SUFFIXES),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
    unique=st.booleans(),
)
def test_any_words_come_back_identical_or_are_refused(
    words: list[str], dim: int, suffix: str, scale: float, unique: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = list(dict.fromkeys(words)) if unique else words
    rows = (vectors(len(names), dim) * np.float32(scale)).astype(np.float32)
    assert_identical_or_refused(tmp_path_factory.mktemp("any") / f"o{suffix}", rows, names)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("word", "said"), [(b"", "row 1 is empty"), (b"\xff\xfe", r"'\\xff\\xfe' of row 1 is not UTF-8")]
)
def test_a_word_that_is_none_is_named_with_its_row(word: bytes, said: str, suffix: str, tmp_path: Path) -> None:
    collection = Collection.from_arrays(vectors(3, 2), vocab=Vocab(Strings.from_words([b"a", word, b"c"])))
    with pytest.raises(LossyConversion, match=said):
        pv.write(tmp_path / f"o{suffix}", collection)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("rows", "dim", "said"), [(3, 1, "one dimension"), (0, 3, "no rows")])
def test_plain_text_that_tells_no_dimension_is_refused_and_counts_tell_it(
    rows: int, dim: int, said: str, tmp_path: Path
) -> None:
    names = [f"w{row}" for row in range(rows)]
    with pytest.raises(LossyConversion, match=rf"{said}.*write \.vec"):
        pv.write(tmp_path / "o.txt", vectors(rows, dim), vocab=names)
    pv.write(tmp_path / "o.vec", vectors(rows, dim), vocab=names)
    with pv.open(tmp_path / "o.vec") as found:
        assert found.vectors.to_numpy().tobytes() == vectors(rows, dim).tobytes() and list(found.vocab) == names


def test_a_word_that_ends_in_a_number_is_refused_by_plain_text_and_kept_where_counts_stand(tmp_path: Path) -> None:
    names = ["route 66", "b", "c"]
    with pytest.raises(LossyConversion, match=r"'route 66' of row 0 ends in a number.*\.vec"):
        pv.write(tmp_path / "o.txt", vectors(3, 4), vocab=names)
    pv.write(tmp_path / "o.vec", vectors(3, 4), vocab=names)
    with pv.open(tmp_path / "o.vec") as found:
        assert list(found.vocab) == names and found.dim == 4
    pv.write(tmp_path / "o.txt", vectors(3, 4), vocab=["a", "b c d", "66"])
    with pv.open(tmp_path / "o.txt") as found:
        assert list(found.vocab) == ["a", "b c d", "66"] and found.dim == 4


def test_replaced_spaces_must_not_make_two_words_one(tmp_path: Path) -> None:
    with pytest.raises(LossyConversion, match=r"'a_b' of row 1 stands twice"):
        pv.write(tmp_path / "o.bin", vectors(2, 3), vocab=["a b", "a_b"], spaces="_")
    with pytest.raises(InputError, match="another"):
        pv.write(tmp_path / "o.bin", vectors(2, 3), vocab=["a b", "a_b"], spaces=" ")


# -- each word once


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_repeated_words_are_refused_with_their_rows(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(LossyConversion, match=r"'b' stands in rows 1 and 3.*--duplicates first, last or rename"):
        pv.write(tmp_path / f"o{suffix}", vectors(5, 3), vocab=["a", "b", "c", "b", "d"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("asked", "rows", "words"),
    [
        ("first", [0, 1, 2, 4], ["a", "b", "c", "b_2"]),
        ("last", [0, 2, 4, 5], ["a", "c", "b_2", "b"]),
        ("rename", [0, 1, 2, 3, 4, 5], ["a", "b", "c", "b_3", "b_2", "b_4"]),
    ],
)
def test_of_repeated_words_the_one_asked_for_is_kept(
    suffix: str, asked: str, rows: list[int], words: list[str], tmp_path: Path
) -> None:
    given = vectors(6, 3)
    names = ["a", "b", "c", "b", "b_2", "b"]
    receipt = pv.write(tmp_path / f"o{suffix}", given, vocab=names, ids=np.arange(6), duplicates=asked, durable=False)
    assert receipt.rows == len(rows)
    assert any("repeated" in note for note in receipt.notes)
    with pv.open(tmp_path / f"o{suffix}") as found:
        assert list(found.vocab) == words
        values = found.vectors.to_numpy()
        if "norms" in found.columns:
            values = values * found["norms"].to_numpy()[:, None]
        assert np.allclose(values, given[rows], rtol=1e-6)
        assert found.ids[:].tolist() == rows
    assert pv.verify(tmp_path / f"o{suffix}").ok


def test_merged_vocabularies_that_overlap_are_refused_or_settled(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.txt", vectors(2, 3), vocab=["x", "y"])
    pv.write(tmp_path / "b.txt", vectors(2, 3, seed=1), vocab=["y", "z"])
    both = [tmp_path / "a.txt", tmp_path / "b.txt"]
    with pytest.raises(LossyConversion, match="'y' stands in rows 1 and 2"):
        pv.merge(both, tmp_path / "m.txt")
    pv.merge(both, tmp_path / "m.txt", duplicates="last")
    with pv.open(tmp_path / "m.txt") as found:
        assert list(found.vocab) == ["x", "y", "z"]
        assert found.vectors[1].tobytes() == vectors(2, 3, seed=1)[0].tobytes()
    with pytest.raises(InputError, match="first, last, rename"):
        pv.merge(both, tmp_path / "n.txt", duplicates="best")


def test_repeated_words_of_a_read_file_are_told_by_verify(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    report = pv.verify(tmp_path / "d.txt")
    assert report.ok
    assert any("'a' in rows 0 and 2" in finding.message for finding in report.findings)


# -- lines that differ from the others


def glove(rows: int, dim: int, odd: dict[int, str]) -> bytes:
    lines = [f"w{row} " + " ".join(str(row + i / 8) for i in range(dim)) for row in range(rows)]
    for row, line in odd.items():
        lines[row] = line
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("row", [0, 1, 50, 150, 299])
@pytest.mark.parametrize(("line", "values"), [("odd 1 2", 2), ("odd 1 2 3 4 5", 5), ("odd", 0)])
def test_one_odd_line_is_named_and_does_not_change_the_dimension(
    row: int, line: str, values: int, tmp_path: Path
) -> None:
    data = glove(300, 4, {row: line})
    (tmp_path / "g.txt").write_bytes(data)
    offset = data.index(b"odd")
    with pytest.raises(Corrupt, match=rf"line {row + 1} has {values} values.*4.*at byte {offset}\b"):
        pv.open(tmp_path / "g.txt")
    report = pv.verify(tmp_path / "g.txt")
    assert not report.ok and any(f"line {row + 1} " in finding.message for finding in report.findings)


def test_an_odd_head_does_not_speak_for_a_large_file(tmp_path: Path) -> None:
    odd = {row: f"w{row} 1 2 3" for row in range(300)}
    data = glove(4000, 64, odd)
    assert len(data) > 1 << 20
    (tmp_path / "g.txt").write_bytes(data)
    with pytest.raises(Corrupt, match="line 1 has 3 values, and most lines have 64"):
        pv.open(tmp_path / "g.txt")


def test_words_with_spaces_are_read_where_the_dimension_is_known(tmp_path: Path) -> None:
    data = glove(50, 4, {7: ". . . 1 2 3 4", 9: "at name@domain.com 1 2 3 4", 11: "New York 5 6 7 8"})
    (tmp_path / "g.txt").write_bytes(data)
    with pv.open(tmp_path / "g.txt") as found:
        assert (found.dim, found.vocab[7], found.vocab[9], found.vocab[11]) == (
            4,
            ". . .",
            "at name@domain.com",
            "New York",
        )
        assert found.vectors[11].tolist() == [5, 6, 7, 8]
    counted = b"50 4\n" + glove(50, 4, {3: "route 66 1 2 3 4"})
    (tmp_path / "g.vec").write_bytes(counted)
    with pv.open(tmp_path / "g.vec") as found:
        assert found.vocab[3] == "route 66" and found.vectors[3].tolist() == [1, 2, 3, 4]


def test_a_dimension_that_is_told_settles_what_the_lines_leave_open(tmp_path: Path) -> None:
    data = glove(50, 4, {3: "route 66 1 2 3 4"})
    (tmp_path / "g.txt").write_bytes(data)
    with pytest.raises(Corrupt, match=r"line 4 has 5 values, and most lines have 4.*--dim 4"):
        pv.open(tmp_path / "g.txt")
    with pv.open(tmp_path / "g.txt", dim=4) as found:
        assert found.vocab[3] == "route 66" and found.vectors[3].tolist() == [1, 2, 3, 4]
    with pytest.raises(Corrupt, match="the first line says 4"):
        pv.open(b"50 4\n" + data, format="textdims", dim=3)


def test_a_short_line_is_named_where_counts_stand(tmp_path: Path) -> None:
    (tmp_path / "g.vec").write_bytes(b"50 4\n" + glove(50, 4, {30: "odd 1 2"}))
    with pytest.raises(Corrupt, match="line 32 has 2 values, and the first line says 4"):
        pv.open(tmp_path / "g.vec")


def test_counts_that_miss_most_of_the_numbers_are_noted() -> None:
    with pytest.warns(pv.FormatWarning, match="most lines hold 4 numbers and the first one says 2"):
        pv.open(b"50 2\n" + glove(50, 4, {}), format="textdims").close()


def test_lenient_leaves_out_a_last_line_that_was_cut(tmp_path: Path) -> None:
    data = glove(20, 4, {})[:-12]
    with pytest.raises(FormatError, match="line 20"):
        pv.open(data, format="glove")
    with pytest.warns(pv.FormatWarning, match="last line"), pv.open(data, format="glove", lenient=True) as found:
        assert found.rows == 19


def test_of_two_lines_the_shorter_is_the_odd_one() -> None:
    with pytest.raises(Corrupt, match="line 2 has 1 values, and most lines have 2"):
        pv.open(b"a 1 2\nb 3", format="glove")
    with pytest.warns(pv.FormatWarning), pv.open(b"a 1 2\nb 3", format="glove", lenient=True) as found:
        assert found.vectors.to_numpy().tolist() == [[1, 2]]
    with pytest.raises(Corrupt, match="line 1 has 2 values"):
        pv.open(b"a 1 2\nb 3 4 5\n", format="glove", lenient=True)


# -- a column that is called norms


def with_side(name: str) -> Collection:
    columns: dict[str, Any] = {
        "vectors": ArrayColumn("vectors", vectors(3, 4)),
        name: ArrayColumn(name, np.array([2, 3, 4], np.float32)),
    }
    return Collection(columns, vocab=Vocab(["a", "b", "c"]))


@pytest.mark.parametrize("suffix", [".txt", ".vec", ".bin", ".fasttext"])
def test_a_column_called_norms_is_not_multiplied_in(suffix: str, tmp_path: Path) -> None:
    pv.write(tmp_path / "s.cvc", with_side("norms"))
    with pytest.raises(LossyConversion, match="--column vectors"):
        pv.convert(tmp_path / "s.cvc", tmp_path / f"o{suffix}")
    with pytest.raises(LossyConversion):
        pv.write(tmp_path / f"o{suffix}", with_side("norms"))
    pv.convert(tmp_path / "s.cvc", tmp_path / f"o{suffix}", column="vectors", durable=False)
    with pv.open(tmp_path / f"o{suffix}") as found:
        assert found.vectors.to_numpy().tobytes() == vectors(3, 4).tobytes()


def test_lengths_are_what_the_caller_says_they_are(tmp_path: Path) -> None:
    pv.write(tmp_path / "s.cvc", with_side("size"))
    pv.convert(tmp_path / "s.cvc", tmp_path / "o.txt", lengths="size", durable=False)
    pv.convert(tmp_path / "s.cvc", tmp_path / "o.fifu", lengths="size", durable=False)
    with pv.open(tmp_path / "o.txt") as text, pv.open(tmp_path / "o.fifu") as fifu:
        assert np.allclose(text.vectors.to_numpy(), vectors(3, 4) * [[2], [3], [4]])
        assert fifu["norms"][:].tolist() == [2, 3, 4]
        assert fifu.vectors.to_numpy().tobytes() == vectors(3, 4).tobytes()
    with pytest.raises(InputError, match="there are size"):
        pv.convert(tmp_path / "s.cvc", tmp_path / "o.txt", lengths="other")


def test_a_files_column_called_norms_becomes_norms_only_when_asked(tmp_path: Path) -> None:
    pv.write(tmp_path / "s.cvc", with_side("norms"))
    with pytest.raises(LossyConversion, match="lengths=norms"):
        pv.convert(tmp_path / "s.cvc", tmp_path / "o.fifu")
    pv.convert(tmp_path / "s.cvc", tmp_path / "o.fifu", lengths="norms", durable=False)
    with pv.open(tmp_path / "o.fifu") as found:
        assert found["norms"][:].tolist() == [2, 3, 4]
