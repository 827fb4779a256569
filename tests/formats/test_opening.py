"""Opening: one file or many as one collection, with the options of its format, and again where files are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import Replaced
from polyvec.formats import find_format, opening
from polyvec.testing import MemorySource, vectors
from polyvec.testing.descriptors import no_descriptors_left


def test_a_collection_says_where_it_came_from_and_why(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(4, 3), durable=False)
    for where in (tmp_path / "a.fbin", str(tmp_path / "a.fbin"), pv.open_source(tmp_path / "a.fbin")):
        with pv.open(where) as found:
            assert found.path == str(tmp_path / "a.fbin") and found.format == "bins" and found.reason
            assert np.array_equal(found.vectors[:], vectors(4, 3))


def test_what_fails_leaves_no_file_open(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(4, 3), durable=False)
    (tmp_path / "b.fbin").write_bytes((tmp_path / "a.fbin").read_bytes()[:-1])
    with no_descriptors_left():
        with pytest.raises(pv.FormatError) as caught:
            pv.open(tmp_path / "b.fbin")
        assert str(tmp_path / "b.fbin") in str(caught.value)
        with pytest.raises(pv.FormatError, match=r"b\.fbin"):
            opening.open_many([tmp_path / "a.fbin", tmp_path / "b.fbin"])
        with pytest.raises(pv.InputError, match="has no option"):
            pv.open(tmp_path / "a.fbin", lossy_words=True)


def test_options_meant_for_a_file_must_be_known_and_offered_ones_may(tmp_path: Path) -> None:
    format, _ = find_format("i8bin")
    assert opening.reading_options(format, {"dim": 8}, {"dim": 4, "other": 1}) == {"dim": 8}, "meant before offered"
    assert opening.reading_options(format, {}, {"dim": 4, "other": 1}) == {"dim": 4}
    with pytest.raises(pv.InputError, match="i8bin has no option other"):
        opening.reading_options(format, {"other": 1})
    pv.write(tmp_path / "a.fbin", vectors(4, 3), durable=False)
    with pv.open(tmp_path / "a.fbin", offered={"dim": 3}) as found:
        assert found.taken == frozenset()


def test_a_file_that_is_being_replaced_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(opening.time, "sleep", waits.append)
    left = [Replaced("now"), Replaced("now")]

    def work() -> str:
        if left:
            raise left.pop()
        return "opened"

    assert opening.settled(work) == "opened" and waits == list(opening.SETTLING[:2])

    def never() -> str:
        raise Replaced("still")

    waits.clear()
    with pytest.raises(Replaced, match="still"):
        opening.settled(never)
    assert waits == list(opening.SETTLING)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"v": vectors(2, 4)}, "expected dimension 3 of float32 as in one, found dimension 4 of float32"),
        ({"v": vectors(2, 3, np.float64)}, "found dimension 3 of float64; merge files of one kind"),
        ({"v": vectors(2, 3)[:, 0]}, "found dimension 1 of float32"),
        ({"w": vectors(2, 3)}, r"columns \['w'\] differ from \['v'\] of one"),
    ],
)
def test_collections_that_differ_are_named_both(other: dict[str, Any], words: str) -> None:
    first, second = pv.Collection.from_arrays({"v": vectors(5, 3)}), pv.Collection.from_arrays(other)
    first.path, second.path = "one", "two"
    with pytest.raises(pv.InputError, match=f"two: .*{words}|two: {words}"):
        opening.check_alike(first, second)
    opening.check_alike(first, pv.Collection.from_arrays({"v": vectors(9, 3)}))


def test_many_files_are_one_collection_in_the_order_given(tmp_path: Path) -> None:
    for number in range(3):
        pv.write(tmp_path / f"{number}.fbin", vectors(2 + number, 3, seed=number), durable=False)
    with opening.open_many([tmp_path / f"{number}.fbin" for number in (2, 0, 1)]) as found:
        wanted = np.concatenate([vectors(2 + number, 3, seed=number) for number in (2, 0, 1)])
        assert np.array_equal(found.vectors[:], wanted)


@pytest.mark.parametrize("given", [{"format": 3}, {"lenient": 1}, {"sidecars": "no"}, {"offered": []}])
def test_arguments_of_the_wrong_kind_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(pv.InputError, match=next(iter(given))):
        pv.open(MemorySource(b"", "a.fbin"), **given)
