"""The checks of arguments: what is right passes, NumPy's values too; what is wrong is one line that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec.core import arguments
from polyvec.core.errors import InputError


def test_what_is_right_passes() -> None:
    arguments.check_whole(1, a=1, b=np.int64(3), c=None)
    arguments.check_flags(a=True, b=np.bool_(False))
    arguments.check_texts(a="x", b=None)
    arguments.check_paths(a="x", b=Path("y"))
    arguments.check_threads(None)
    arguments.check_mapping(a={"x": 1}, b=None)
    assert arguments.whole("a", np.uint8(7), least=7) == 7
    assert arguments.path_list(a="x") == ["x"] and arguments.path_list(a=(Path("x"), "y")) == [Path("x"), "y"]
    assert arguments.whole_list(a=np.array([1, 2])) == [1, 2] and arguments.text_list(a=("x",)) == ["x"]
    assert arguments.joined({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert arguments.array_of([[1, 2]]).shape == (1, 2) and arguments.one_a_row("ids", iter("ab")) == ["a", "b"]


@pytest.mark.parametrize("value", [True, np.bool_(True), 1.0, "1", [1], None])
def test_what_is_no_whole_number_is_named(value: Any) -> None:
    with pytest.raises(InputError, match="rows must be a whole number, not "):
        arguments.whole("rows", value)


def test_a_long_value_is_shown_in_part_and_in_one_line() -> None:
    assert arguments.shown("a\nb" * 99).endswith("…") and len(arguments.shown(list(range(99)))) == arguments.LONGEST
    assert arguments.shown(np.zeros((2, 3))) == "an array of shape (2, 3)"
    assert arguments.shown(np.float32(2)) == repr(np.float32(2))


@pytest.mark.parametrize("asked", ["0", "x"])
def test_a_setting_of_threads_that_is_none_is_an_input_error(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYVEC_THREADS", asked)
    arguments.check_threads(2)
    with pytest.raises(InputError, match=f"POLYVEC_THREADS is '{asked}': expected a whole number"):
        arguments.check_threads(None)
