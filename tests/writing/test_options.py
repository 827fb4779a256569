"""The options of writing: one table of them, shown to readers of signatures, refused by name where unknown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.options import Option
from polyvec.formats import registered
from polyvec.formats.npy import Npy
from polyvec.formats.options import OwnOptions, ReadingOptions
from polyvec.verbs.benchmark import assemble, take_apart
from polyvec.verbs.embed import embed_corpus
from polyvec.verbs.words import quantize, reconstruct
from polyvec.writing.options import (
    CommonOptions,
    ConvertingOptions,
    RoadOptions,
    SamplingOptions,
    SplittingOptions,
    Writing,
    WritingOptions,
    gather,
)

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
INTERNAL = {"together", "working", "own"}
TAKING: list[tuple[Callable[..., Any], type]] = [
    (pv.write, WritingOptions),
    (pv.convert, ConvertingOptions),
    (pv.merge, ConvertingOptions),
    (pv.split, SplittingOptions),
    (pv.sample, SamplingOptions),
    (embed_corpus, WritingOptions),
    (assemble, ConvertingOptions),
    (take_apart, ConvertingOptions),
    (quantize, RoadOptions),
    (reconstruct, RoadOptions),
]


def test_the_common_options_are_the_fields_of_a_writing() -> None:
    typed, fields = get_type_hints(CommonOptions), get_type_hints(Writing)
    assert set(typed) - {"options"} == set(fields) - INTERNAL
    assert {name: typed[name] for name in typed if name != "options"} == {
        name: fields[name] for name in fields if name not in INTERNAL
    }


def test_verbs_that_read_and_write_take_the_options_of_both() -> None:
    both = set(get_type_hints(WritingOptions)) | set(get_type_hints(ReadingOptions))
    assert set(get_type_hints(ConvertingOptions)) == both
    assert set(get_type_hints(SplittingOptions)) == both - {"parts"}
    assert set(get_type_hints(SamplingOptions)) == both - {"seed"}


@pytest.mark.parametrize(("function", "kind"), TAKING)
def test_a_signature_names_every_option_with_its_default(function: Callable[..., Any], kind: type) -> None:
    shown = inspect.signature(function).parameters
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    assert set(get_type_hints(kind)) <= set(shown)
    for name in set(get_type_hints(CommonOptions)) & set(get_type_hints(kind)) - {"options"}:
        assert shown[name].default == getattr(Writing(), name), name
    assert "overwrite: 'bool' = True" in str(inspect.signature(function))


@pytest.mark.parametrize("function", [pv.open, pv.describe, pv.verify])
def test_a_signature_names_what_files_are_read_by(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    assert {*get_type_hints(ReadingOptions), "options"} <= set(shown)
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())


@pytest.mark.parametrize("meant", ["encoding", "overwrite", "compression", "chunk_rows", "duplicates"])
def test_a_slip_of_the_pen_is_told_with_the_name_that_is_meant(tmp_path: Path, meant: str) -> None:
    with pytest.raises(pv.InputError, match=rf"no format has an option '{meant[:-1]}'; did you mean .*{meant}"):
        pv.convert(tmp_path / "absent.fbin", tmp_path / "b.npy", **{meant[:-1]: None})  # before it is opened


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_what_the_road_keeps_to_itself_is_no_option(tmp_path: Path, name: str) -> None:
    with pytest.raises(pv.InputError, match=f"no format has an option '{name}'"):
        pv.write(tmp_path / "a.npy", ROWS, **{name: None})
    assert not list(tmp_path.iterdir())


class Outside(Npy):
    """A format from outside, with an option that no type knows."""

    name = "outside"
    suffixes = (".outside",)
    aliases = {}  # noqa: RUF012
    options = (Option("zeal", int, "How much."),)


def test_a_foreign_formats_options_are_given_in_a_mapping(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match="no format has an option 'zeal'"):
        pv.write(tmp_path / "a.npy", ROWS, options={"zeal": 1})
    with registered(Outside()):
        assert gather({"options": {"zeal": 1}}).own == gather({"zeal": 1}).own == {"zeal": 1}
        with pytest.raises(pv.InputError, match="zeal is given twice"):
            gather({"zeal": 1, "options": {"zeal": 2}})
        with pytest.raises(pv.InputError, match="npy has no option zeal"):
            pv.write(tmp_path / "a.npy", ROWS, options={"zeal": 1})
    with pytest.raises(pv.InputError, match="options must be a mapping"):
        pv.write(tmp_path / "a.npy", ROWS, options=["zeal"])  # type: ignore[typeddict-item]
    assert not list(tmp_path.iterdir())


def test_split_and_sample_give_a_format_what_they_mean_otherwise_by_the_mapping(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.npy", ROWS)
    for verb, own in (
        (pv.split, {"rows": 2, "options": {"parts": 1}}),
        (pv.sample, {"head": 2, "options": {"seed": 1}}),
    ):
        with pytest.raises(pv.InputError, match=r"npy has no option (parts|seed)"):
            verb(tmp_path / "a.npy", tmp_path / "b.npy", **own)  # type: ignore[arg-type]


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing.md").read_text()
    listed = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert (
        set(get_type_hints(CommonOptions)) | set(get_type_hints(OwnOptions)) | set(get_type_hints(ReadingOptions))
        <= listed
    )
