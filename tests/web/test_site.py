"""Names, ids and roles: what the page calls a row, whatever the collection has."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.web.site import NAME_LENGTH, Entries, Roles, one_line

ROWS = np.zeros((3, 2), np.float32)


def roles(records: list[dict], **told: str | None) -> dict[str, str]:
    return Roles(Collection.from_arrays(ROWS, records=records), told).of


def entries(**parts: object) -> list:
    collection = Collection.from_arrays(ROWS, **parts)
    return list(Entries(collection, Roles(collection)).read(0, 3))


def test_roles_are_found_by_common_names_and_by_what_is_in_them() -> None:
    record = {"title": "t", "url": "https://x", "image": "file.png", "summary": "s"}
    assert roles([record] * 3) == {"name": "title", "link": "url", "text": "summary"}
    assert roles([{"title": None}, {"title": "t"}, {}]) == {"name": "title"}
    assert roles([{"a": "x", "title": "t"}] * 3, name="a")["name"] == "a"


def test_a_role_or_a_field_that_is_none_is_told() -> None:
    with pytest.raises(InputError, match="unknown role colour"):
        roles([{}] * 3, colour="x")
    with pytest.raises(InputError, match="records have no field 'x' for the name; there are a"):
        roles([{"a": 1}] * 3, name="x")


def test_a_row_is_called_by_its_name_its_word_or_its_id() -> None:
    assert [e.name for e in entries(records=[{"name": "a\nb"}, {"name": ""}, {}], ids=[7, 8, 9])] == ["a b", "8", "9"]
    assert [e.name for e in entries(vocab=["x", "y", "z"])] == ["x", "y", "z"]
    assert [e.name for e in entries(ids=[2**60, 1, 2])] == [str(2**60), "1", "2"]
    assert [e.name for e in entries()] == ["", "", ""]


def test_a_record_has_its_id_and_large_ids_are_text() -> None:
    first, second, _ = entries(records=[{"id": 5}, {"id": "other"}, {}], ids=[5, 2**60, 7])
    assert first.record == {"id": 5} and second.record == {"id": "other", "row id": str(2**60)}
    assert second.id == str(2**60)


def test_a_name_is_one_line_of_bounded_length() -> None:
    assert one_line("a\t\x00b\u2028 c ") == "a b c"
    assert len(entries(vocab=["x" * 999, "y", "z"])[0].name) == NAME_LENGTH
