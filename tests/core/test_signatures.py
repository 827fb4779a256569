"""Signatures that name the options hidden in ``**options``: each once, keyword-only, with its default where one is known."""

from __future__ import annotations

import inspect
from typing import Any, TypedDict

from polyvec.core.signatures import shows_options


class Options(TypedDict, total=False):
    encoding: str | None
    overwrite: bool
    bits: int


@shows_options(Options, {"encoding": None, "overwrite": True})
def write(path: str, *, overwrite: bool = False, **options: Any) -> dict[str, Any]:
    return {"path": path, "overwrite": overwrite, **options}


def test_every_option_is_named_once_and_the_functions_own_come_first() -> None:
    shown = inspect.signature(write).parameters
    assert list(shown) == ["path", "overwrite", "encoding", "bits"]
    assert shown["overwrite"].default is False and shown["encoding"].default is None
    assert all(shown[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("encoding", "bits"))
    assert repr(shown["bits"].default) == "<the format's own>"


def test_the_call_is_what_it_was() -> None:
    assert write("a", bits=4) == {"path": "a", "overwrite": False, "bits": 4}
