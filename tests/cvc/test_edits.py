"""Edits of CVC files: other columns keep their bytes, and a wrong edit changes nothing."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.core.sources import open_source
from polyvec.formats.cvc.header import read_header
from polyvec.testing import vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "cvc"
ROWS = vectors(1000, 8)
HALF = ROWS.astype(np.float16).astype(np.float32)


def test_edits_copy_the_other_columns_bytes_and_keep_what_they_do_not_know(tmp_path: Path) -> None:
    path = tmp_path / "c.cvc"
    sections = [
        ({"v": ROWS[:600], "w": ROWS[:600, :3], "id": np.arange(600)}, {"s": "a"}),
        ({"v": ROWS[600:], "w": ROWS[600:, :3], "id": np.arange(600, 1000)}, {"s": "b"}),
    ]
    cvc.pack_cvc_sections_columnar(sections, path, {"w": "int8"}, chunk_size=300)
    data = path.read_bytes()
    header = read_header(open_source(path))
    header.json["later"] = {"keep": ["me"]}
    header.json["columns"][0]["unit"] = "m"
    header.json["chunks"][1]["note"] = 1
    header.json["chunks"][1]["columns"]["w"]["note"] = 2
    text = json.dumps(header.json).encode()
    path.write_bytes(data[:8] + struct.pack("<I", len(text)) + text + data[header.json_offset + header.header_len :])
    before = cvc.load_cvc_columns(path)
    old = path.read_bytes()

    cvc.add_column(path, "new", ROWS[:, 0], output_path=tmp_path / "other.cvc")
    assert path.read_bytes() == old
    cvc.add_column(path, "new", ROWS[:, 0])
    assert path.read_bytes() == (tmp_path / "other.cvc").read_bytes()
    cvc.update_column(path, "v", ROWS[:, :2] * 2, compression="none")
    cvc.rename_column(path, "w", "x")
    cvc.delete_column(path, "id")
    assert [column["name"] for column in cvc.list_columns(path)] == ["v", "x", "new"]
    after = cvc.load_cvc_columns(path)
    assert np.array_equal(after["x"], before["w"]) and np.array_equal(after["new"], HALF[:, 0])
    assert np.array_equal(after["v"], ROWS[:, :2] * 2)
    found = read_header(open_source(path))
    assert found.json["later"] == {"keep": ["me"]} and found.json["columns"][0]["unit"] == "m"
    assert found.chunks[1].entry["note"] == 1 and found.chunks[1].entry["columns"]["x"]["note"] == 2
    assert len(cvc.load_cvc_columns(path, section_key="s", section_value="b")["v"]) == 400
    assert pv.verify(path).ok and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("layout", ["document", "versioned"])
@pytest.mark.parametrize("mapped", [False, True])
def test_edits_keep_layout_and_pages(layout: str, mapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "c.cvc"
    cvc.pack_cvc_columns({"a": ROWS, "b": ROWS[:, 0]}, path, chunk_size=90, layout=layout, mmap_optimized=mapped)
    cvc.update_column(path, "b", ROWS[:, 1])
    header = read_header(open_source(path))
    assert (header.layout, header.mapped) == (layout, mapped)
    assert not mapped or all(chunk.offset % 4096 == 0 for chunk in header.chunks)
    assert np.array_equal(cvc.load_cvc_columns(path)["b"], HALF[:, 1]) and pv.verify(path).ok


def test_wrong_edits_change_nothing(columnar: Path, packed: Path) -> None:
    before = columnar.read_bytes()
    wrong: list[Any] = [
        lambda: cvc.add_column(columnar, "c0", np.zeros(400, np.float32)),
        lambda: cvc.add_column(columnar, "new", np.zeros(399, np.float32)),
        lambda: cvc.add_column(columnar, "new", np.full(400, np.nan, np.float32), compression="int8"),
        lambda: cvc.update_column(columnar, "zzz", np.zeros(400, np.float32)),
        lambda: cvc.rename_column(columnar, "c0", "c1"),
        lambda: cvc.rename_column(columnar, "zzz", "c1"),
        lambda: cvc.delete_column(columnar, "zzz"),
        lambda: cvc.delete_column(columnar, "c0", output_path=columnar),
        lambda: cvc.list_columns(packed),
        lambda: cvc.add_column(packed, "new", np.zeros(1000, np.float32)),
        lambda: cvc.load_cvc_columns(packed),
        lambda: cvc.load_cvc_columns(columnar, ["zzz"]),
        lambda: cvc.load_cvc(columnar, out=np.empty(1)),
    ]
    for edit in wrong:
        with pytest.raises(pv.InputError):
            edit()
    assert columnar.read_bytes() == before and len(list(columnar.parent.iterdir())) == 2


def test_upgrading_adds_checksums_and_copies_payloads(tmp_path: Path) -> None:
    old = GOLDEN / "v0_release010_int8.cvc"
    assert "no checksums" in cvc.validate_cvc_integrity(old)["error"]
    report = cvc.upgrade_cvc(old, tmp_path / "new.cvc")
    assert (report["input_version"], report["output_version"], report["num_chunks"]) == ("v0.1", "v1.0", 3)
    assert cvc.validate_cvc_integrity(tmp_path / "new.cvc")["valid"]
    assert np.array_equal(cvc.load_cvc(tmp_path / "new.cvc"), cvc.load_cvc(old))
    with pytest.raises(FileExistsError):
        cvc.upgrade_cvc(old, tmp_path / "new.cvc")
    cvc.upgrade_cvc(GOLDEN / "v2_columnar.cvc", tmp_path / "columns.cvc")
    assert cvc.detect_version(tmp_path / "columns.cvc") == (2, 0) and pv.verify(tmp_path / "columns.cvc").ok
