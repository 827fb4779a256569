"""Engines by name: threads are a number from one on, and what is not known is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyvec.core.errors import InputError
from polyvec.model.engines import ENGINES, count_threads, start_engine
from polyvec.model.loading import load_model


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_threads_are_a_whole_number_from_one_on(bad: Any) -> None:
    with pytest.raises(InputError, match="num_threads must be at least 1"):
        count_threads(bad)


def test_without_a_wish_every_core_this_process_may_use_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert count_threads(None) == 3 and count_threads(2) == 2


def test_an_unknown_engine_is_told_with_those_there_are(tiny: Path) -> None:
    with pytest.raises(InputError, match=f"unknown engine 'cuda'; there are auto, {', '.join(ENGINES)}"):
        start_engine("cuda", load_model(tiny))


def test_an_engine_asked_for_by_name_is_that_engine(tiny: Path) -> None:
    engine = start_engine("numpy", load_model(tiny))
    assert engine.name == "numpy" and engine.workers == 1 and engine.budget > 0
