"""What commands share: JSON that is JSON everywhere, tables, sizes, and one line for every error."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from polyvec.cli.terminal import command_names, fail, print_json, progress, size, table, warn


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (9999, "9,999 B"), (10_000, "10.0 kB"), (999_949, "999.9 kB"), (2.5e9, "2.5 GB"), (3e15, "3000.0 TB")],
)
def test_sizes_are_read_at_a_glance(count: float, text: str) -> None:
    assert size(count) == text


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert table(["a", "long"], [[1, "x"], [222, ""]], right=[0]) == "  a  long\n---  ----\n  1  x\n222"


def test_json_has_no_numbers_that_json_has_not() -> None:
    out = io.StringIO()
    print_json({"a": float("nan"), "b": [np.float32(0.5), float("inf")], "c": np.int64(3), "d": {1}}, file=out)
    assert json.loads(out.getvalue()) == {"a": None, "b": [0.5, None], "c": 3, "d": "{1}"}


def test_json_is_escaped_where_the_terminal_has_no_such_letters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_json({"ü": "東"}, file=out)
    out.flush()
    assert json.loads(out.buffer.getvalue().decode("ascii")) == {"ü": "東"}


def test_an_error_is_one_line_and_names_no_temporary_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert fail("a\nb .out.npy.0123abcd.polyvec-tmp c", 2) == 2
    warn("odd\n thing")
    assert capsys.readouterr().err == "polyvec: a b out.npy c\npolyvec: warning: odd thing\n"


def test_shared_modules_are_no_commands_and_no_bar_is_shown_without_a_terminal() -> None:
    assert "convert" in command_names() and "terminal" not in command_names() and "flags" not in command_names()
    assert progress() is None and progress(quiet=True) is None
