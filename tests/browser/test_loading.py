"""Exports read back: every row checked, damage told in the browser's words, and searched as it does."""

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
    validate_l2_norm,
)
from polyvec.browser.loading import BrowserIndex
from polyvec.testing.descriptors import no_descriptors_left

sys.path.insert(0, str(Path(__file__).parent))
from exports import cards, unit


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


def test_neighbours_come_best_first_and_ties_by_row():
    codes = np.array([[127, 0], [0, 127], [127, 0], [90, 90]], np.int8)
    index = BrowserIndex(codes, {"records": [{"name": str(row)} for row in range(4)]}, None)
    assert len(index) == 4 and [n.row for n in index.search(2)] == [0, 2, 3, 1]
    assert [n.record["name"] for n in index.search(np.array([0, 1]), k=2)] == ["1", "3"]
    assert index.search(0, k=0) == [] and index.search(0, k=-1) == []
    assert index.search(0, k=1)[0].score == 1.0
    with pytest.raises(pv.InputError, match=r"a query of 2 values, found shape \(3,\)"):
        index.search(np.ones(3))


def test_a_hash_may_have_a_prefix_and_capitals(tmp_path: Path):
    export_for_browser(unit(2), tmp_path, records=cards(2))
    path = tmp_path / "build_manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"file_hash": "sha256:" + manifest["file_hash"].upper()}))
    assert len(load_browser_index(tmp_path)) == 2
    path.unlink()
    assert load_browser_index(tmp_path).manifest is None


def test_an_error_names_the_file(tmp_path: Path):
    export_for_browser(unit(2), tmp_path, records=cards(2))
    (tmp_path / "embeddings.i8bin").write_bytes(bytes(1024))
    with pytest.raises(pv.FormatError) as caught:
        load_browser_index(tmp_path)
    assert str(tmp_path / "embeddings.i8bin") in str(caught.value)
