"""A collection behind a server: what it may be asked, in which order names are suggested. (test_serve asks over HTTP.)"""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.testing import vectors
from polyvec.web.served import ServedCollection, TooSlow, fold

WORDS = ["Berlin", "Bern", "New Berlin", "Oberlin", "Tübingen", "in Berlin now"]
ROWS = vectors(6, 4)


def served(**parts: object) -> ServedCollection:
    return ServedCollection(Collection.from_arrays(ROWS, **{"vocab": WORDS, **parts}))


def test_names_that_begin_so_come_first_then_words_then_the_rest() -> None:
    found = [told["name"] for told in served().suggest("berlin", 9)]
    assert found == ["Berlin", "New Berlin", "in Berlin now", "Oberlin"]
    assert [told["row"] for told in served().suggest("now in", 9)] == [5]
    assert served().suggest("", 9) == [] and len(served().suggest("ber", 2)) == 2


def test_accents_and_case_do_not_matter() -> None:
    assert fold("TÜbingen É") == "tubingen e" and served().suggest("tubing", 9)[0]["row"] == 4


def test_an_id_that_is_the_text_comes_before_every_name() -> None:
    collection = served(ids=[10, 20, 1, 40, 50, 60])
    assert collection.suggest("1", 9)[0] == {"row": 2, "id": 1, "name": "New Berlin"}
    assert collection.identified("40") == [{"row": 3, "id": 40, "name": "Oberlin"}] and collection.identified("x") == []


def test_rows_that_are_not_there_are_refused() -> None:
    for rows in ([6], [-1], [0] * 601):
        with pytest.raises(InputError, match="rows must be from 0 to 5"):
            served().records(rows)
    with pytest.raises(InputError, match="no model to search by meaning"):
        served().search(text="x")


def test_neighbours_are_those_of_the_largest_cosine() -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    hits = served().search(row=2, k=6)
    assert [hit["row"] for hit in hits] == np.argsort(-(unit @ unit[2])).tolist() and hits[0]["score"] == pytest.approx(
        1
    )
    with pytest.raises(TooSlow):
        served().search(row=2, seconds=-1)


def test_a_page_needs_rows_of_numbers_and_a_model_of_their_length() -> None:
    with pytest.raises(InputError, match="a page needs rows of numbers"):
        ServedCollection(Collection.from_arrays(np.zeros((0, 3), np.float32)))
    with pytest.raises(InputError, match="the model gives 9 dimensions and the collection has 4"):
        ServedCollection(Collection.from_arrays(ROWS), model_dim=9)


def test_only_the_files_of_the_page_are_given() -> None:
    one = served()
    assert one.file("site.json") and len(one.file("map.bin")) == 6 * 4
    assert one.file("points.bin") is None and one.file("../site.json") is None and one.file("field-9.bin") is None
