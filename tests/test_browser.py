"""polyvec.browser: exports for the browser, written, checked and read back."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.browser import (
    dequantize,
    export_for_browser,
    load_browser_index,
    main,
    meta_schema,
    quantize,
    validate_l2_norm,
)
from polyvec.testing.descriptors import no_descriptors_left
from polyvec.verbs.records import read_records

WHEN = "2025-10-16T00:00:00+00:00"


def unit(rows: int, dim: int = 512, *, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cards(rows: int) -> list[dict]:
    base = {"set": "lea", "image_url": "https://img.example/1.png", "card_url": "https://card.example/1"}
    return [{"name": f"Card {i} «ü»", **base, "colors": ["W", "U"], "power": i} for i in range(rows)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The original exporter's input."""
    source = tmp_path / "in"
    source.mkdir()
    np.save(source / "mtg_embeddings.npy", unit(20))
    (source / "mtg_meta.jsonl").write_text("".join(json.dumps(card) + "\n" for card in cards(20)), encoding="utf-8")
    return source


def test_the_original_command_writes_the_three_files(folder: Path, tmp_path: Path):
    out = tmp_path / "index_out"
    command = [sys.executable, "-m", "polyvec.browser", "--input-dir", folder, "--output-dir", out]
    done = subprocess.run([*map(str, command), "--timestamp", WHEN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["build_manifest.json", "embeddings.i8bin", "meta.json"]
    codes = (out / "embeddings.i8bin").read_bytes()
    assert len(codes) == 20 * 512
    manifest = json.loads((out / "build_manifest.json").read_text())
    assert set(manifest) == {"version", "timestamp", "parameters", "statistics", "outputs", "file_hash"}
    assert (
        manifest["file_hash"] == hashlib.sha256(codes).hexdigest() == manifest["outputs"]["embeddings.i8bin"]["sha256"]
    )
    assert manifest["outputs"]["meta.json"]["sha256"] == hashlib.sha256((out / "meta.json").read_bytes()).hexdigest()
    assert manifest["timestamp"] == WHEN
    meta = json.loads((out / "meta.json").read_text())
    assert set(meta) == {"version", "quantization", "shape", "records"}
    assert meta["shape"] == [20, 512] and meta["records"] == cards(20)
    assert {k: meta["quantization"][k] for k in ("dtype", "scale_factor", "original_dtype")} == {
        "dtype": "int8",
        "scale_factor": 127,
        "original_dtype": "float32",
    }


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


def test_meta_json_keeps_to_our_schema_and_the_schema_is_that_of_the_code(folder: Path, tmp_path: Path):
    jsonschema = pytest.importorskip("jsonschema")
    kept = Path(__file__).parents[1] / "docs" / "formats" / "i8bin.schema.json"
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


def test_an_export_reads_back_with_every_invariant(folder: Path, tmp_path: Path):
    done = export_for_browser(folder, tmp_path / "out")
    index = load_browser_index(tmp_path / "out")
    assert len(index) == 20 and index.records[3]["name"] == "Card 3 «ü»" and index.manifest is not None
    source = np.load(folder / "mtg_embeddings.npy")
    assert np.abs(index.vectors - source).max() < 0.6 / 127
    assert done.max_error < 0.6
    norms = np.linalg.norm(index.vectors.astype(np.float64), axis=1)
    assert norms.min() >= 0.992 and norms.max() <= 1.008
    assert index.codes.min() >= -127
    for row in index.vectors:
        validate_l2_norm(row)
    hits = index.search(4, k=3)
    assert hits[0].row == 4 and hits[0].record["name"].startswith("Card 4")
    assert [h.row for h in index.search(source[7], k=1)] == [7]
    with pv.open(tmp_path / "out" / "embeddings.i8bin") as c:
        assert c.records is not None and dict(c.records[5]) == cards(20)[5]
        np.testing.assert_array_equal(c.vectors[:], index.vectors)
    assert pv.verify(tmp_path / "out" / "embeddings.i8bin").ok


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


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "embeddings.i8bin",
            lambda d: d[:-1],
            "size mismatch: expected 2048 bytes (4 cards × 512 dims), got 2047 bytes",
        ),
        ("embeddings.i8bin", lambda d: d + d, "old float16 format"),
        ("embeddings.i8bin", lambda d: b"\x01" * 2048, "hash mismatch"),
        ("embeddings.i8bin", lambda d: None, "Failed to load embeddings: 404 Not Found"),
        ("meta.json", lambda d: d.replace(b'"int8"', b'"float16"'), "Unsupported quantization dtype: float16"),
        (
            "meta.json",
            lambda d: d.replace(b"[4, 512]", b"[5, 512]"),
            "Metadata count mismatch: expected 5 records, got 4",
        ),
        ("meta.json", lambda d: d[:-3], "invalid JSON"),
        ("build_manifest.json", lambda d: d.replace(b'"file_hash": "', b'"file_hash": "0'), "hash mismatch"),
    ],
)
def test_a_damaged_export_is_refused_in_the_browsers_words(tmp_path: Path, name, change, words):
    export_for_browser(unit(4), tmp_path, records=cards(4))
    path = tmp_path / name
    data = change(path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)
    with no_descriptors_left(), pytest.raises(pv.FormatError) as caught:
        load_browser_index(tmp_path)
    assert words in str(caught.value)


def test_minus_128_is_refused_even_where_the_hash_agrees(tmp_path: Path):
    export_for_browser(unit(4), tmp_path, records=cards(4))
    data = bytearray((tmp_path / "embeddings.i8bin").read_bytes())
    data[600] = 0x80
    (tmp_path / "embeddings.i8bin").write_bytes(data)
    (tmp_path / "build_manifest.json").unlink()
    with pytest.raises(pv.Corrupt, match="Invalid int8 value at index 600: -128"):
        load_browser_index(tmp_path)


def test_quantize_and_dequantize_are_the_documents_formulas():
    rows = unit(50)
    codes = quantize(rows)
    assert codes.dtype == np.int8 and np.abs(dequantize(codes) - rows).max() < 1 / 127
    every = np.arange(-127, 128, dtype=np.int8)
    np.testing.assert_array_equal(dequantize(every), every.astype(np.float32) / np.float32(127))
    assert (dequantize(every) != every * (np.float32(1) / np.float32(127))).sum() == 16
    with pytest.raises(pv.InputError, match=r"L2 norm out of expected range: 0.85"):
        validate_l2_norm(np.array([0.85]))


def test_errors_of_the_command_are_one_line(tmp_path: Path, capsys):
    assert main(["--input-dir", str(tmp_path / "none"), "--output-dir", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_table_of_records_is_read_with_its_types(tmp_path: Path):
    (tmp_path / "t.csv").write_text("name,year,price,zip\nA,1999,1.5,007\nB,,2,010\n")
    assert read_records(tmp_path / "t.csv")[:] == [
        {"name": "A", "year": 1999, "price": 1.5, "zip": "007"},
        {"name": "B", "year": None, "price": 2.0, "zip": "010"},
    ]
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(pv.Corrupt, match="line 3"):
        read_records(tmp_path / "bad.csv")
    (tmp_path / "nan.csv").write_text("a\nnan\n1\n")
    assert read_records(tmp_path / "nan.csv")[0] == {"a": "nan"}
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(pv.Corrupt, match="list of JSON objects"):
        read_records(tmp_path / "bad.json")
    with pytest.raises(pv.InputError, match="records are read from"):
        read_records(tmp_path / "x.txt")
