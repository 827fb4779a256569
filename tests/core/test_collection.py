"""Collections: cut, joined and chosen with all that belongs to their rows; what does not fit is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.collection import Collection, as_ids, concat
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.core.vocab import Strings
from polyvec.testing import vectors

ROWS = vectors(23, 3)
EDGES = st.none() | st.integers(-60, 60)


def test_collections_are_cut_and_joined_with_all_they_hold() -> None:
    made = Collection.from_arrays(
        {"v": ROWS, "norms": np.arange(23, dtype=np.float32), "other": vectors(5, 2)},
        vocab=[f"w{i}" for i in range(23)],
        records={"n": np.arange(23)},
        ids=np.arange(23) * 10,
        metadata={"k": 1},
    )
    for part, rows in ((made.slice(3, 9), np.arange(3, 9)), (made.take([5, 1, 5]), np.array([5, 1, 5]))):
        assert list(part.columns) == ["v", "norms"]  # a column of another length cannot follow
        assert np.array_equal(part.vectors[:], ROWS[rows]) and np.array_equal(part["norms"][:], rows)
        assert list(part.vocab) == [f"w{i}" for i in rows]
        assert [record["n"] for record in part.records] == rows.tolist()
        assert part.ids[:].tolist() == (rows * 10).tolist() and part.metadata == {"k": 1}
    joined = concat([made.slice(0, 4), made.slice(4, 23)])
    assert np.array_equal(joined.vectors[:], ROWS) and list(joined.vocab) == list(made.vocab)
    assert [dict(r) for r in joined.records] == [dict(r) for r in made.records]
    assert joined.ids[:].tolist() == made.ids[:].tolist()
    mixed = concat([made.slice(0, 4), Collection.from_arrays({"v": ROWS, "norms": np.ones(23, np.float32)})])
    assert mixed.vocab is None and "only 1 of 2 inputs" in mixed.notes[0]


def test_a_collection_is_told_what_does_not_fit() -> None:
    for options, words in [
        ({"vocab": ["a"]}, "1 words for 23 rows"),
        ({"records": [{}]}, "1 records for 23 rows"),
        ({"ids": [1]}, "1 ids for 23 rows"),
        ({"ids": [1.5] * 23}, "integers or strings"),
    ]:
        with pytest.raises(InputError, match=words):
            Collection.from_arrays(ROWS, **options)
    for bad in (np.float32(1), np.array(["a"]), np.array([object()]), np.array([1j])):
        with pytest.raises(InputError, match="expected numbers"):
            Collection.from_arrays(bad)
    with pytest.raises(InputError):
        Collection({})
    with pytest.raises(KeyError, match="there are vectors"):
        Collection.from_arrays(ROWS)["x"]


def made() -> Collection:
    return Collection.from_arrays(
        {"v": ROWS, "norms": np.arange(23, dtype=np.float32)},
        vocab=[f"w{i}" for i in range(23)],
        records={"n": np.arange(23)},
        ids=np.arange(23) * 10,
    )


@given(start=EDGES, stop=EDGES, step=st.none() | st.sampled_from([-3, -1, 1, 2]))
@settings(max_examples=60, deadline=None)
def test_a_cut_collection_holds_the_rows_that_python_cuts(
    start: int | None, stop: int | None, step: int | None
) -> None:
    rows = np.arange(23)[start:stop:step]
    parts = [made()[start:stop:step]]
    if step is None and start is not None:
        parts.append(made().slice(start, stop))
    for part in parts:
        assert part.rows == len(rows) and np.array_equal(np.asarray(part), ROWS[rows])
        assert part.vocab is not None and list(part.vocab) == [f"w{i}" for i in rows]
        assert part.records is not None and [record["n"] for record in part.records] == rows.tolist()
        assert part.ids is not None and part.ids[:].tolist() == (rows * 10).tolist()
        assert part["norms"][:].tolist() == rows.tolist()


def test_a_collection_is_cut_by_rows_asked_by_name_and_walked_by_row() -> None:
    c = made()
    assert c["v"] is c.vectors and np.array_equal(np.asarray(c), ROWS)
    assert np.array_equal(np.asarray(c, np.float64), ROWS.astype(np.float64))
    assert np.array_equal(c[3], ROWS[3]) and np.array_equal(c[-1], ROWS[-1])
    assert np.array_equal(np.stack(list(c)), ROWS)
    assert np.array_equal(np.asarray(c[[1, -1]]), ROWS[[1, -1]]) and list(c[[1, -1]].vocab or ()) == ["w1", "w22"]
    assert np.array_equal(np.asarray(c[ROWS[:, 0] > 0]), ROWS[ROWS[:, 0] > 0]) and c[[]].rows == 0
    assert (
        c.head().rows == 5 and c.head(2).rows == 2 and c.head(99).rows == 23 and list(c.head(1).vocab or ()) == ["w0"]
    )
    for bad in (23, -24, [23], 1.0, True, (1, 2), None, ..., [[0]], range(20, 30)):
        with pytest.raises(IndexError):
            c[bad]
    with pytest.raises(IndexError, match="rows are 0 to 22, and 23 was asked for"):
        c.take([0, 23])
    with pytest.raises(KeyError):
        c["x"]


@pytest.mark.parametrize(
    ("given_ids", "wanted"),
    [
        ([3, -1], [3, -1]),
        ((3, 2**63 - 1), [3, 2**63 - 1]),
        (np.uint8([7, 255]), [7, 255]),
        (iter([1, 2]), [1, 2]),
        (np.array([1, 2], object), [1, 2]),
    ],
)
def test_whole_numbers_are_ids_of_64_bits(given_ids, wanted: list[int]) -> None:
    found = as_ids(given_ids, 2)
    assert found.dtype == np.int64 and found[:].tolist() == wanted


@pytest.mark.parametrize("given_ids", [["a", "ü"], np.array(["a", "ü"]), np.array(["a", "ü"], object)])
def test_text_is_ids_whatever_holds_it(given_ids) -> None:
    found = as_ids(given_ids, 2)
    assert isinstance(found, Strings) and list(found) == ["a", "ü"]


@pytest.mark.parametrize(
    ("given_ids", "says"),
    [
        ([1, "a"], "all of one kind"),
        ([True, False], "all of one kind"),
        ([1.0, 2.0], "not 1.0 in row 0"),
        ([1, None], "not None in row 1"),
        ([1, 2**63], "some are beyond"),
        (np.uint64([1, 2**63]), "9223372036854775808 is beyond"),
        (np.zeros((2, 2), int), r"shape \(2, 2\)"),
        ([1, 2, 3], "3 ids for 2 rows"),
    ],
)
def test_what_is_no_id_is_told(given_ids, says: str) -> None:
    with pytest.raises(InputError, match=says):
        as_ids(given_ids, 2)


def test_one_column_is_chosen_with_what_belongs_to_its_rows() -> None:
    whole = Collection.from_arrays({"v": ROWS, "n": np.arange(23.0), "q": ROWS[:2]}, vocab=[str(i) for i in range(23)])
    assert whole.select("n").main == "n" and list(whole.select("n").vocab) == list(whole.vocab)
    assert whole.select("q").vocab is None and list(whole.select("q").columns) == ["q"]
    assert (whole.rows, whole.dim, whole.select("n").dim) == (23, 3, 1)


def test_columns_that_are_computed_from_others_are_left_out() -> None:
    derived, plain = ArrayColumn("v", ROWS), ArrayColumn("parts", ROWS[:5])
    derived.derived = True
    whole = Collection({"v": derived, "parts": plain})
    kept = whole.without_derived()
    assert list(kept.columns) == ["parts"] and kept.main == "parts"
    assert kept.without_derived() is kept


def test_what_is_given_takes_the_place_of_a_part_and_the_rest_stays() -> None:
    whole = made()
    other = whole.with_parts(ids=as_ids([f"i{n}" for n in range(23)], 23))
    assert list(other.ids)[1] == "i1" and other.vocab is whole.vocab and other.records is whole.records


def test_ids_of_two_kinds_are_not_joined_and_that_is_said() -> None:
    some = [Collection.from_arrays(ROWS, ids=ids) for ids in (np.arange(23), [str(n) for n in range(23)])]
    joined = concat(some)
    assert joined.ids is None and joined.notes == ["ids left out: some inputs have numbers, others strings"]


def test_closing_closes_every_part_once_and_the_last_first() -> None:
    closed: list[str] = []
    with Collection({"v": ArrayColumn("v", ROWS)}, close=lambda: closed.append("file")) as whole:
        whole.on_close(lambda: closed.append("beside"))
    whole.close()
    assert closed == ["beside", "file"]


def test_a_collection_is_called_by_its_file_or_memory() -> None:
    assert made().title == "memory" and made().files == ()
    whole = Collection({"v": ArrayColumn("v", ROWS)}, path="a/b_0.npy")
    assert whole.title == "a/b_0.npy" and whole.files == ("a/b_0.npy",)
    assert repr(whole) == "<Collection memory: v 23x3 float32>"


def test_a_head_and_a_column_are_asked_for_by_a_number_and_a_name() -> None:
    whole = Collection.from_arrays(ROWS)
    for bad in ("a", 1.5, None):
        with pytest.raises(InputError, match=r"^n must be a whole number, not "):
            whole.head(bad)
    for wrong in (3, None, slice(2)):
        with pytest.raises(InputError, match=r"^name must be the name of a column, not "):
            whole.select(wrong)
    assert whole.head(np.int64(2)).rows == 2
