"""The typed options of our formats: exactly what the formats declare, in the kinds that they declare."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from polyvec.core.options import Option
from polyvec.formats.discovery import all_formats
from polyvec.formats.options import OwnOptions, ReadingOptions


def declared(what: str) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for format in all_formats():
        for option in getattr(format, what):
            found.setdefault(option.name, []).append(option)
    return found


@pytest.mark.parametrize(("kind", "what"), [(OwnOptions, "options"), (ReadingOptions, "reading")])
def test_the_typed_options_are_those_that_formats_declare_and_no_others(kind: type, what: str) -> None:
    assert set(get_type_hints(kind)) == set(declared(what))


@pytest.mark.parametrize(("kind", "what"), [(OwnOptions, "options"), (ReadingOptions, "reading")])
def test_a_typed_option_takes_the_kinds_that_formats_declare(kind: type, what: str) -> None:
    hints: dict[str, Any] = get_type_hints(kind)
    for name, options in declared(what).items():
        kinds = set(get_args(hints[name]) or (hints[name],)) - {type(None)}
        assert kinds == {option.kind for option in options}, name
