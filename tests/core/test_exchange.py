"""Collections as Arrow tables: every name once, every value as it is, one type a field or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.exchange import (
    KEY,
    batch_rows,
    list_type,
    number_type,
    plan_table,
    record_batches,
    schema_of,
    text_type,
)
from polyvec.testing import vectors

pa = pytest.importorskip("pyarrow")
ROWS = vectors(4, 3)


def table(collection: Collection, **how: bool):
    plan = plan_table(collection, **how)
    schema = schema_of(collection, plan)
    return pa.Table.from_batches(list(record_batches(collection, plan, schema)), schema)


def test_names_that_meet_are_kept_apart_and_the_note_says_what_they_are() -> None:
    collection = Collection.from_arrays(
        {"id": ROWS}, ids=[1, 2, 3, 4], vocab=list("abcd"), records=[{"word": n, "id": "x"} for n in range(4)]
    )
    made = table(collection)
    assert made.column_names == ["id_", "word", "id", "word_", "id__"]
    note = json.loads(made.schema.metadata[KEY])
    assert note["ids"] == "id_" and note["vocab"] == "word" and note["records"] == {"word_": "word", "id__": "id"}


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ([1, -2, 3, 4], "int64", False),
        ([1.5, 2.0, None, 3.0], "double", False),
        ([True, False, True, None], "bool", False),
        (["a", "b", "c", "d"], "string", False),
        ([1, 2.5, 3, 4], "string", True),
        ([1, True, 3, 4], "string", True),
        ([2**63, 1, 2, 3], "string", True),
        ([None] * 4, "string", True),
        ([[1], [2], [], None], "string", True),
    ],
)
def test_a_field_has_one_type_or_is_json(values: list, kind: str, text: bool) -> None:
    plan = plan_table(Collection.from_arrays(ROWS, records=[{"f": value} for value in values]))
    assert plan.kinds == {"f": kind} and plan.texts == (("f",) if text else ())


def test_a_field_that_some_records_lack_is_json_so_that_null_and_nothing_differ() -> None:
    collection = Collection.from_arrays(ROWS, records=[{"f": 1}, {}, {"f": None}, {"f": 2}])
    assert table(collection)["f"].to_pylist() == ["1", None, "null", "2"]


def test_vectors_are_fixed_lists_lists_or_halves_as_asked() -> None:
    collection = Collection.from_arrays({"v": ROWS, "deep": np.arange(16, dtype=np.int8).reshape(4, 2, 2)})
    made = table(collection)
    assert made.schema.field("v").type == pa.list_(pa.field("element", pa.float32(), nullable=False), 3)
    assert np.array_equal(made["v"].to_pylist(), ROWS) and made["deep"].to_pylist()[1] == [[4, 5], [6, 7]]
    loose = table(collection, lists=True)
    assert pa.types.is_list(loose.schema.field("v").type) and loose["deep"].to_pylist() == made["deep"].to_pylist()
    half = table(collection, halves=True)
    assert half.schema.field("v").type.value_type == pa.float16() and half.schema.field("deep") == made.schema.field(
        "deep"
    )


def test_bfloat16_is_float32_in_a_table() -> None:
    rows = ROWS.astype(ml_dtypes.bfloat16)
    assert np.array_equal(table(Collection.from_arrays(rows))["vectors"].to_pylist(), rows.astype(np.float32))


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="this machine's widest floats are float64")
def test_wider_floats_are_float64_in_a_table_and_the_receipt_says_so(tmp_path: Path) -> None:
    rows = np.array([[1 + 1e-12, np.pi], [1e300, 2]], np.longdouble)
    for name in ("a.parquet", "a.arrow"):
        receipt = pv.write(tmp_path / name, rows)
        assert receipt.codec == f"raw {rows.dtype.name} -> raw float64" and receipt.loss is not None
        with pv.open(tmp_path / name) as found:
            assert found.vectors.dtype == np.float64 and (found.vectors[:] == rows.astype(np.float64)).all()
    beyond = np.array([[np.longdouble(10) ** 4000]])
    with pytest.raises(InputError, match="does not fit float64"):
        pv.write(tmp_path / "b.parquet", beyond)
    assert not (tmp_path / "b.parquet").exists()


def test_columns_of_other_lengths_are_refused_or_left_out() -> None:
    collection = Collection.from_arrays({"v": ROWS, "q": ROWS[:2]})
    with pytest.raises(LossyConversion, match=r"q differ from v \(4 rows\)"):
        plan_table(collection)
    assert list(plan_table(collection, strict=False).columns) == ["v"]


def test_values_that_json_has_not_are_told_with_their_field() -> None:
    collection = Collection.from_arrays(ROWS, records=[{"f": object()}] * 4)
    with pytest.raises(InputError, match="the record field 'f' cannot be written"):
        table(collection)


def test_batches_hold_about_eight_megabytes_and_cover_the_rows_asked_for() -> None:
    collection = Collection.from_arrays(np.zeros((70_000, 2), np.float32))
    plan = plan_table(collection)
    assert batch_rows(collection, plan) == 1 << 16
    sizes = [b.num_rows for b in record_batches(collection, plan, schema_of(collection, plan), first=10, last=66_000)]
    assert sizes == [1 << 16, 66_000 - 10 - (1 << 16)]


def test_types_are_known_by_what_they_hold() -> None:
    assert list_type(pa.list_(pa.float32(), 3)) == ((3,), np.dtype("f4"))
    assert list_type(pa.large_list(pa.list_(pa.int8(), 2))) == ((None, 2), np.dtype("i1"))
    for kind in (pa.float32(), pa.list_(pa.string()), pa.list_(pa.list_(pa.float32()))):
        assert list_type(kind) is None
    assert number_type(pa.uint16()) == np.dtype("u2") and number_type(pa.date32()) is None
    assert text_type(pa.large_string()) and text_type(pa.string()) and not text_type(pa.binary())
