"""Errors: one line with what, where and what to do; whole after a journey to another process."""

from __future__ import annotations

import pickle

import pytest

from polyvec.core.errors import Corrupt, FormatError, MissingExtra, Truncated, UnknownWord, speak_of

FULL = Truncated(
    "the file\nis short", path="a.npy", offset=8, field="rows", expected=3, found="2", remedy="fetch it again"
)


def test_a_message_is_one_line_of_all_that_is_known() -> None:
    assert str(FULL) == "a.npy: the file is short (field rows at byte 8; expected 3, found 2); fetch it again"
    assert str(Corrupt("odd")) == "odd"
    assert str(Corrupt("odd", offset=0)) == "odd (at byte 0)"
    assert str(Corrupt("odd", found="x")) == "odd (found x)"


def test_an_error_names_the_first_file_it_is_told_of() -> None:
    error = Corrupt("odd")
    assert error.located("a") is error and error.located("b").path == "a"


def test_an_error_travels_with_its_kind_and_fields() -> None:
    back = pickle.loads(pickle.dumps(FULL))
    assert type(back) is Truncated and str(back) == str(FULL) and vars(back) == vars(FULL)


def test_an_unknown_word_reads_as_a_sentence_and_is_a_key_error() -> None:
    error = UnknownWord("no word 'x'")
    assert str(error) == "no word 'x'" and isinstance(error, KeyError) and str(UnknownWord()) == "unknown word"


def test_a_missing_extra_speaks_of_one_or_many() -> None:
    assert str(MissingExtra("x", extra="e", purpose="Files")).startswith("Files need x")
    error = MissingExtra("x", extra="e", purpose="Training", one=True)
    assert str(error) == "Training needs x, which is not installed; pip install 'polyvec[e]'"
    assert (error.package, error.extra) == ("x", "e")


def test_another_name_is_said_in_every_part_of_an_error_and_of_its_causes() -> None:
    try:
        try:
            raise FileNotFoundError(2, "gone", "/t/.out.tmp", None, "/t/.out.tmp")
        except OSError as cause:
            raise Corrupt("in .out.tmp", path="/t/.out.tmp", found="/t/.out.tmp", remedy="see .out.tmp") from cause
    except FormatError as error:
        speak_of(error, "/t/.out.tmp", "/t/out.npy")
        assert str(error) == "/t/out.npy: in out.npy (found /t/out.npy); see out.npy"
        assert error.__cause__.filename == error.__cause__.filename2 == "/t/out.npy"


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError("a/x"), ValueError("a/x")
    one.__cause__, two.__cause__ = two, one
    speak_of(one, "a/x", "a/y")
    assert one.args == two.args == ("a/y",)
    lone = OSError("no names")
    speak_of(lone, "a/x", "a/y")
    with pytest.raises(OSError, match="no names"):
        raise lone
    assert lone.filename is None
