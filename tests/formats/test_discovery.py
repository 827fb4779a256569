"""Which formats there are: our own, those registered, and that no name means two."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

import polyvec as pv
from polyvec import formats
from polyvec.core.format import Confidence, Match
from polyvec.formats.npy import FORMAT as NPY
from polyvec.formats.options import TAKEN
from polyvec.testing import vectors
from polyvec.writing.options import COMMON


class Mine(type(NPY)):
    name = "mine"
    title = "Mine (for tests)"
    suffixes = (".mine",)
    aliases = {"mi": ""}  # noqa: RUF012

    def sniff(self, peek):
        return [Match(Confidence.MAGIC, "mine")] if peek.suffix == ".mine" else []


LEVEL = pv.Option("level", int, "How hard.")


@pytest.fixture
def clean(monkeypatch):
    monkeypatch.setattr("polyvec.formats.discovery._registered", [])


@pytest.mark.usefixtures("clean")
def test_a_registered_format_is_read_and_written_like_any_other(tmp_path: Path) -> None:
    mine = Mine()
    assert pv.register_format(mine) is mine
    assert formats.find_format("mi") == (mine, "") and mine in formats.all_formats()
    receipt = pv.write(tmp_path / "a.mine", vectors(3, 2), format="mine")
    with pv.open(tmp_path / "a.mine", format="mi") as found:
        assert receipt.format == found.format == "mine"
        assert found.vectors[:].tobytes() == vectors(3, 2).tobytes()


def test_a_format_registered_for_a_while_goes_again() -> None:
    with pytest.raises(RuntimeError), formats.registered(Mine()) as mine:
        assert mine in formats.all_formats()
        raise RuntimeError
    assert "mine" not in [made.name for made in formats.all_formats()]


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "npy"}, "the name 'npy' of the format npy is taken by the format npy"),
        ({"name": "fbin"}, "the name 'fbin' of the format fbin is taken by the format bins"),
        ({"aliases": {"hdf5": ""}}, "the name 'hdf5' of the format mine is taken by the format hdf5"),
        ({"aliases": {"h5": ""}}, "the name 'h5' of the format mine is taken by the format hdf5"),
        ({"name": "No Name"}, "a format's name is lower-case letters, digits, - and _, not 'No Name'"),
        ({"name": ""}, "a format's name is"),
        ({"title": ""}, "the format mine has no title"),
        ({"suffixes": ()}, "the format mine has no suffixes"),
        ({"suffixes": ".mine"}, "the format mine has no suffixes"),
        ({"suffixes": ("mine",)}, "a suffix of the format mine is a dot and lower-case characters, not 'mine'"),
        ({"suffixes": (".MINE",)}, "not '.MINE'"),
        ({"options": ("level",)}, "the options of the format mine are a tuple of polyvec.Option"),
        ({"reading": ("dim",)}, "the reading of the format mine are a tuple of polyvec.Option"),
        ({"options": (LEVEL, LEVEL)}, "the option 'level' stands twice in the options of the format mine"),
        ({"reading": (LEVEL, LEVEL)}, "the option 'level' stands twice in the reading of the format mine"),
        (
            {"options": (pv.Option("overwrite", bool, "No."),)},
            "the option 'overwrite' of the format mine is what every",
        ),
        ({"reading": (pv.Option("lenient", bool, "No."),)}, "the option 'lenient' of the format mine is what every"),
    ],
)
def test_a_format_with_a_taken_name_or_a_wrong_declaration_is_refused(change: dict, words: str) -> None:
    made = type("Changed", (Mine,), change)()
    with pytest.raises(pv.InputError) as caught:
        pv.register_format(made)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert made not in formats.all_formats()


@pytest.mark.usefixtures("clean")
def test_a_format_registered_again_under_its_name_replaces_the_one_before() -> None:
    others = formats.all_formats()
    first = pv.register_format(Mine())
    assert pv.register_format(first) is first and formats.all_formats() == [*others, first]
    second = pv.register_format(Mine())
    assert formats.all_formats() == [*others, second] and formats.find_format("mi") == (second, "")
    with formats.registered(Mine()) as third:
        assert formats.all_formats() == [*others, third]
    assert formats.all_formats() == [*others, second]
    other = type("Other", (Mine,), {"name": "other", "suffixes": (".other",)})()
    with pytest.raises(pv.InputError, match="the name 'mi' of the format other is taken by the format mine"):
        pv.register_format(other)
    with pytest.raises(pv.InputError, match="has no title"):
        pv.register_format(type("Untitled", (Mine,), {"title": ""})())
    assert formats.all_formats() == [*others, second]


@pytest.mark.usefixtures("clean")
def test_a_class_is_no_format() -> None:
    with pytest.raises(pv.InputError, match="not the class Mine"):
        pv.register_format(Mine)  # type: ignore[arg-type]


def test_no_option_can_have_the_name_of_an_argument_of_every_format() -> None:
    own = {option.name for made in formats.all_formats() for option in (*made.options, *made.reading)}
    for verb in (pv.open, pv.write, pv.convert, pv.merge):
        assert set(signature(verb).parameters) - own <= TAKEN, verb
    assert {*COMMON, "variant"} <= TAKEN and not TAKEN & own


def test_our_own_formats_keep_the_rules_for_strangers() -> None:
    from polyvec.formats.discovery import NAME, SUFFIX

    for made in formats.all_formats():
        assert NAME.fullmatch(made.name) and all(map(SUFFIX.fullmatch, made.suffixes))
        for options in (made.options, made.reading):
            assert len({option.name for option in options}) == len(options)
            assert not {option.name for option in options} & {*COMMON, "format", "lenient", "sidecars", "offered"}
            assert all(option.help.endswith(".") and "\n" not in option.help for option in options)
