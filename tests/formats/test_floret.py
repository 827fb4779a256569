"""floret tables: what the suite promises, the vectors of their own program, and tables that lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import FormatError, LossyConversion
from polyvec.core.subwords import FloretIndexer
from polyvec.core.vocab import Vocab
from polyvec.formats import floret
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "floret"
FLORET = json.loads((GOLDEN / "floret.json").read_text())


class TestFloret(FormatSuite):
    format = floret.FORMAT

    def samples(self) -> Iterator[Sample]:
        columns = {
            "vectors": ArrayColumn("vectors", np.empty((0, 3), np.float32)),
            "subwords": ArrayColumn("subwords", vectors(7, 3)),
        }
        yield Sample("table", Collection(columns, vocab=Vocab([], subwords=FloretIndexer(2, 5, 7, 2, bow="‹"))))


def test_floret_files_give_florets_vectors() -> None:
    with pv.open(GOLDEN / "table.floret") as collection:
        table = collection["subwords"].to_numpy()
        for word, vector in FLORET["table.floret"].items():
            total = table[collection.vocab.subwords.indices(word)].sum(axis=0)
            cosine = total @ np.array(vector) / np.linalg.norm(total) / np.linalg.norm(vector)
            assert cosine == pytest.approx(1, abs=1e-5)  # the table's text has five digits


def test_floret_tables_go_to_finalfusion_and_back(tmp_path: Path) -> None:
    pv.convert(GOLDEN / "table.floret", tmp_path / "t.fifu", durable=False)
    pv.convert(tmp_path / "t.fifu", tmp_path / "t.floret", durable=False)
    with pv.open(GOLDEN / "table.floret") as one, pv.open(tmp_path / "t.floret") as two:
        assert one["subwords"].to_numpy().tobytes() == two["subwords"].to_numpy().tobytes()
        assert one.vocab.subwords == two.vocab.subwords


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (b"9 3 2 5 9 1 < >\n", "header", 0),
        (b"2 1 5 2 1 1 < >\n0 1\n1 1\n", "header", 0),
        (b"2 1 2 5 1 4294967296 < >\n0 1\n1 1\n", "header", 0),
        (b"2 1 2 5 1 1 < \xff\n0 1\n1 1\n", "header", 0),
        (b"words\n", "header", 0),
        (b"2 1 2 5 1 1 < >\n0 1\n2 1\n", "row 1", 20),
        (b"2 1 2 5 1 1 < >\n0 1\n", "buckets", 16),
        (b"2 2 2 5 1 1 < >\n0 1 2\n1 1222\n", "row 1", 22),
        (b"99999999999999999 1 2 5 1 1 < >\n0 1\n", "buckets", 32),
    ],
)
def test_a_lie_is_a_format_error_at_its_place(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        pv.open(data, format="floret")
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_a_value_that_is_no_number_is_told_when_it_is_read() -> None:
    with pv.open(b"2 2 2 5 1 1 < >\n0 1 2\n1 1 x\n", format="floret") as table:
        assert table["subwords"][0].tolist() == [1, 2]
        with pytest.raises(FormatError, match="value 1 of row 1 is not a number"):
            table["subwords"].to_numpy()


def test_the_first_line_is_the_indexer() -> None:
    with pv.open(b"3 1 2 5 2 7 [ ]\n0 1\n1 2\n2 3\n", format="floret") as table:
        assert table.vocab.subwords == FloretIndexer(2, 5, 3, 2, 7, "[", "]")
        assert table.rows == 0 and table["subwords"].shape == (3, 1)


def test_brackets_that_the_first_line_cannot_hold_are_refused(tmp_path: Path) -> None:
    columns = {
        "vectors": ArrayColumn("vectors", np.empty((0, 3), np.float32)),
        "subwords": ArrayColumn("subwords", vectors(4, 3)),
    }
    for bow in ("", "a b"):
        collection = Collection(columns, vocab=Vocab([], subwords=FloretIndexer(2, 5, 4, bow=bow)))
        with pytest.raises(LossyConversion, match="brackets"):
            pv.write(tmp_path / "o.floret", collection)
