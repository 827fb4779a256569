"""Exports: any input, all or nothing, and what breaks a rule told by its row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.browser import (
    export_for_browser,
    load_browser_index,
)

sys.path.insert(0, str(Path(__file__).parent))
from exports import WHEN, cards, unit


def test_ids_are_in_the_records_of_an_export(tmp_path: Path):
    ids = [7, 2**53 + 1, -3]
    told = [*cards(2), {**cards(3)[2], "id": "own"}]
    for given, records in (
        (pv.Collection.from_arrays(unit(3), ids=ids, records=told), None),
        (pv.Collection.from_arrays(unit(3), ids=ids), told),
    ):
        export_for_browser(given, tmp_path / "out", records=records)
        held = load_browser_index(tmp_path / "out").records
        assert [record["id"] for record in held] == [7, str(2**53 + 1), "own"] and held[2]["row id"] == -3


def test_the_same_input_gives_the_same_bytes(folder: Path, tmp_path: Path):
    for name in ("one", "two"):
        export_for_browser(folder, tmp_path / name, timestamp=WHEN)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".json", ".parquet"])
def test_any_collection_and_any_table_of_records_can_be_exported(tmp_path: Path, suffix: str):
    pv.write(tmp_path / "v.fbin", unit(6))
    table = tmp_path / f"records{suffix}"
    plain = [{k: v for k, v in card.items() if k != "colors"} for card in cards(6)]
    if suffix == ".csv":
        lines = [",".join(plain[0]), *(",".join(map(str, card.values())) for card in plain)]
        table.write_text("\n".join(lines), encoding="utf-8")
    elif suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(plain), table)
    elif suffix == ".json":
        table.write_text(json.dumps(plain))
    else:
        table.write_text("\n".join(map(json.dumps, plain)))
    export_for_browser(tmp_path / "v.fbin", tmp_path / "out", records=table)
    assert list(load_browser_index(tmp_path / "out").records) == plain


@pytest.mark.parametrize(
    ("rows", "records", "options", "words"),
    [
        (unit(3, 384), cards(3), {}, "exactly 512 dimensions, found 384; any_dim=True"),
        (unit(3), cards(2), {}, "Metadata count mismatch: expected 3 records, got 2"),
        (unit(3), None, {}, "one record a row"),
        (
            unit(3),
            [*cards(2), {"name": "x"}],
            {},
            "record 2 breaks the contract of meta.json: object missing required field `set`",
        ),
        (unit(3), [*cards(2), cards(1)[0] | {"name": 5}], {}, "record 2 .* expected `str`, got `int` - at `\\$.name`"),
        (2 * unit(3), cards(3), {}, "row 0 is not of length one: its L2 norm is .*--normalize"),
        (unit(3), cards(3), {"rounding": "up"}, "unknown rounding 'up'"),
        (np.ones((3, 512), np.int32), cards(3), {}, "needs float rows, not int32"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_nothing_is_left(tmp_path: Path, rows, records, options, words):
    with pytest.raises(pv.InputError, match=words):
        export_for_browser(rows, tmp_path / "out", records=records, **options)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_options_open_what_the_document_closes(tmp_path: Path):
    assert export_for_browser(unit(3, 96), tmp_path / "a", records=cards(3), any_dim=True).dim == 96
    assert load_browser_index(tmp_path / "a").codes.shape == (3, 96)
    done = export_for_browser(5 * unit(3), tmp_path / "b", records=cards(3), normalize=True)
    assert 0.998 < done.norm_min <= done.norm_max < 1.002
    export_for_browser(unit(3), tmp_path / "c", records=cards(3), rounding="truncate")
    assert json.loads((tmp_path / "c" / "build_manifest.json").read_text())["parameters"]["conforming"] is False
    with pytest.raises(pv.FormatError, match=r"L2 norm out of expected range: 0.9"):
        load_browser_index(tmp_path / "c")


def test_an_export_is_not_written_over_its_own_input(tmp_path: Path):
    export_for_browser(unit(2), tmp_path, records=cards(2))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(pv.InputError, match="also an input"):
        export_for_browser(tmp_path / "embeddings.i8bin", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_already_int8_keeps_its_codes(tmp_path: Path):
    export_for_browser(unit(5), tmp_path / "one", records=cards(5))
    done = export_for_browser(tmp_path / "one" / "embeddings.i8bin", tmp_path / "two")
    codes = (tmp_path / "one" / "embeddings.i8bin").read_bytes()
    assert (tmp_path / "two" / "embeddings.i8bin").read_bytes() == codes
    assert (done.max_error, done.mean_error) == (0, 0) and 0.992 <= done.norm_min <= done.norm_max <= 1.008


def test_the_collection_given_stays_open_and_progress_is_told(tmp_path: Path):
    closed: list[int] = []
    given = pv.Collection.from_arrays(unit(4), records=cards(4))
    given.on_close(lambda: closed.append(1))
    told: list[tuple[int, int]] = []
    export_for_browser(given, tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert not closed and told[-1] == (4, 4)


def test_a_record_that_json_cannot_hold_is_refused(tmp_path: Path):
    with pytest.raises(pv.InputError, match="cannot be written as JSON"):
        export_for_browser(unit(1), tmp_path / "out", records=[cards(1)[0] | {"power": float("nan")}])
