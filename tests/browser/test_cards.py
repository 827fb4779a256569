"""What meta.json holds, and the schema that says so."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from polyvec.browser import (
    export_for_browser,
    meta_schema,
)
from polyvec.browser.cards import CardRecord, Quantization


def test_meta_json_keeps_to_our_schema_and_the_schema_is_that_of_the_code(folder: Path, tmp_path: Path):
    jsonschema = pytest.importorskip("jsonschema")
    kept = Path(__file__).parents[2] / "docs" / "formats" / "i8bin.schema.json"
    assert json.loads(kept.read_text()) == meta_schema()
    export_for_browser(folder, tmp_path / "out")
    meta = json.loads((tmp_path / "out" / "meta.json").read_text())
    jsonschema.validate(meta, meta_schema())
    for bad in (
        meta | {"extra": 1},
        meta | {"version": "2.0"},
        meta | {"records": [{"name": "x"}]},
        meta | {"quantization": meta["quantization"] | {"zero_point": 0}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, meta_schema())


def test_a_card_needs_its_four_fields_and_keeps_all_others():
    card = {"name": "a", "set": "lea", "image_url": "", "card_url": ""}
    assert msgspec.convert({**card, "further": [1]}, CardRecord).face_id is None
    for field in card:
        with pytest.raises(msgspec.ValidationError, match=f"missing required field `{field}`"):
            msgspec.convert({key: value for key, value in card.items() if key != field}, CardRecord)
    for field, value in (("colors", "W"), ("face_id", 1.5), ("lang", 3)):
        with pytest.raises(msgspec.ValidationError, match=field):
            msgspec.convert({**card, field: value}, CardRecord)


@pytest.mark.parametrize(("field", "value"), [("dtype", "uint8"), ("scale_factor", 128), ("original_dtype", "float64")])
def test_the_head_says_one_quantization_and_no_other(field: str, value: object):
    said = {"dtype": "int8", "scale_factor": 127, "original_dtype": "float32"}
    assert msgspec.convert(said, Quantization).note == ""
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(said | {field: value}, Quantization)
