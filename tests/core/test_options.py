"""Options of formats: declared with a kind, checked by one function for reading and writing."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.errors import InputError
from polyvec.core.options import Option, Text, check_options, near

LEVEL = Option("level", int, "How hard.")
SHARE = Option("share", float, "How much.")
PACK = Option("pack", bool, "Whether.", (), False)
STYLE = Option("style", str, "Which.", ("plain", "fancy"), "plain")
ALIGN = Option("align", int, "To what.", (1, 16, 64))
DECLARED = (LEVEL, SHARE, PACK, STYLE, ALIGN)


def checked(own: dict, **more) -> dict:
    return check_options("boxes", DECLARED, own, **{"reading": False, **more})


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"level": 3}, 3),
        ({"level": np.int64(3)}, 3),
        ({"level": Text("3")}, 3),
        ({"share": 2}, 2.0),
        ({"share": Text("0.5")}, 0.5),
        ({"pack": np.True_}, True),
        ({"pack": Text("True")}, True),
        ({"pack": Text("0")}, False),
        ({"style": "fancy"}, "fancy"),
        ({"style": Text("fancy")}, "fancy"),
    ],
)
def test_a_value_is_of_the_kind_that_is_declared(given: dict, value: object) -> None:
    (found,) = checked(given).values()
    assert found == value and type(found) in (int, float, bool, str, Text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": "3"}, "level is a whole number, not '3'"),
        ({"level": True}, "level is a whole number, not True"),
        ({"level": 1.5}, "level is a whole number, not 1.5"),
        ({"level": Text("many")}, "level is a whole number, not 'many'"),
        ({"share": "half"}, "share is a number, not 'half'"),
        ({"pack": 1}, "pack is true or false, not 1"),
        ({"pack": Text("maybe")}, "pack is true or false, not 'maybe'"),
        ({"style": "odd"}, "unknown style 'odd'; there are plain, fancy"),
        ({"style": 4}, "unknown style 4; there are plain, fancy"),
        ({"align": "64"}, "align is a whole number, not '64'"),
        ({"align": 2}, "unknown align 2; there are 1, 16, 64"),
        ({"levle": 3}, "boxes has no option levle; it has level, share, pack, style, align; did you mean level?"),
    ],
)
def test_an_error_says_in_one_line_what_was_expected_and_found(given: dict, words: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(given)
    assert str(caught.value) == words


def test_an_option_of_the_other_direction_is_told_as_such() -> None:
    with pytest.raises(
        InputError, match=r"^compression is an option of writing boxes files, which are not read by it$"
    ):
        checked({"compression": "zstd"}, reading=True, others=[Option("compression", str, "How.")])
    with pytest.raises(InputError, match=r"^dim is an option of reading boxes files, which are not written by it$"):
        checked({"dim": 3}, others=[Option("dim", int, "How many.")])


def test_none_asks_for_nothing_and_the_default_is_the_declared_one() -> None:
    assert checked({"level": None, "style": None}) == {}
    assert STYLE.of({}) == "plain" and STYLE.of({"style": None}) == "plain" and STYLE.of({"style": "fancy"}) == "fancy"
    assert PACK.of({}) is False and LEVEL.of({}) is None


def test_a_declaration_has_a_kind_and_a_name_that_python_can_call() -> None:
    with pytest.raises(TypeError, match="a kind is bool, int, float or str"):
        Option("rows", list, "Which rows.")
    with pytest.raises(TypeError, match="a name is a Python name"):
        Option("no-dash", int, "Never.")


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        (int, {"default": "3"}, "option level: its default must be a whole number, not '3'"),
        (int, {"default": True}, "option level: its default must be a whole number, not True"),
        (str, {"default": 3}, "option level: its default must be text, not 3"),
        (int, {"choices": (1, "2")}, "option level: its choices must be a whole number, not '2'"),
        (str, {"choices": ("a", None)}, "option level: its choices must be text, not None"),
        (str, {"choices": ("a", "b"), "default": "c"}, "option level: its default 'c' is none of its choices"),
        (int, {"least": "1"}, "option level: its least must be a number, not '1'"),
        (str, {"least": 1}, "option level: only numbers have a least one"),
    ],
)
def test_a_default_a_choice_and_a_least_value_are_of_the_kind(kind: type, more: dict, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        Option("level", kind, "How hard.", **more)
    assert str(caught.value) == words


def test_a_name_spelled_nearly_right_is_named() -> None:
    assert near("fbim", ["fbin", "npy"]) == "; did you mean fbin?"
    assert near("docx", ["fbin", "npy"]) == ""
