"""Packing CVC: from arrays, iterators and collections the same file, or a refusal that leaves nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.core.sources import open_source
from polyvec.formats.cvc import writer
from polyvec.formats.cvc.header import read_header
from polyvec.kernels.threads import limit_threads
from polyvec.testing import vectors

ROWS = vectors(1000, 8)


def test_an_iterator_a_collection_and_an_array_give_the_same_vectors(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    for compression in ("fp16", "int8", "lossless", "none"):
        cvc.pack_cvc(ROWS, tmp_path / "1.cvc", compression=compression, chunk_size=300)
        cvc.pack_cvc(
            (ROWS[at : at + 70] for at in range(0, 1000, 70)),
            tmp_path / "2.cvc",
            compression=compression,
            chunk_size=300,
        )
        with pv.open(tmp_path / "a.fbin") as collection:
            cvc.pack_cvc(collection, tmp_path / "3.cvc", compression=compression, chunk_size=300)
        payloads = []
        for number in (1, 2, 3):
            with open_source(tmp_path / f"{number}.cvc") as source:
                chunks = read_header(source).chunks
                payloads.append([source.read_at(chunk.payload, chunk.size) for chunk in chunks])
        assert payloads[0] == payloads[1] == payloads[2]


def test_large_arrays_are_packed_as_small_ones_are(tmp_path: Path) -> None:
    """Stretches written by several threads join to what one thread writes."""
    rows = vectors(30_000, 100)
    for compression in ("fp16", "int8", "lossless", "none", "bfloat16"):
        cvc.pack_cvc(rows, tmp_path / "1.cvc", compression=compression, chunk_size=30_000, durable=False)
        with limit_threads(1):
            cvc.pack_cvc(rows, tmp_path / "2.cvc", compression=compression, chunk_size=30_000, durable=False)
        assert (tmp_path / "1.cvc").read_bytes() == (tmp_path / "2.cvc").read_bytes()
        assert cvc.validate_cvc_integrity(tmp_path / "1.cvc")["valid"]
    assert np.array_equal(cvc.load_cvc(tmp_path / "1.cvc").view(np.uint32) & 0xFFFF, np.zeros((30_000, 100)))


def test_a_header_that_outgrows_its_room_is_given_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "UNKNOWN_RESERVE", 64)
    for mapped in (False, True):
        cvc.pack_cvc(
            iter(np.array_split(ROWS, 7)), tmp_path / "a.cvc", compression="none", chunk_size=10, mmap_optimized=mapped
        )
        assert np.array_equal(cvc.load_cvc(tmp_path / "a.cvc"), ROWS)
        assert pv.verify(tmp_path / "a.cvc").ok
        assert all(c.offset % 4096 == 0 for c in read_header(open_source(tmp_path / "a.cvc")).chunks) or not mapped


def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    nan, large = ROWS.copy(), ROWS.copy()
    nan[700, 3] = np.nan
    large[701, 2] = 1e6
    infinite = nan.copy()
    infinite[700, 3] = np.inf
    path = tmp_path / "z.cvc"
    cases: list[tuple[str, dict[str, Any]]] = [
        ("row 700, column 3", {"vectors": nan, "compression": "int8", "chunk_size": 300}),
        ("inf in row 700", {"vectors": infinite, "compression": "int8", "chunk_size": 300}),
        ("nan in row 700", {"vectors": iter([nan[:650], nan[650:]]), "compression": "int8", "chunk_size": 300}),
        ("1e\\+06 in row 701, column 2", {"vectors": large, "chunk_size": 300}),
        ("at least 1 row, not -5", {"vectors": ROWS, "chunk_size": -5}),
        ("at least 1 row, not 0", {"vectors": ROWS, "chunk_size": 0}),
        ("at least 1 row, not True", {"vectors": ROWS, "chunk_size": True}),
        ("unknown compression 'zip'", {"vectors": ROWS, "compression": "zip"}),
        ("unknown layout", {"vectors": ROWS, "layout": "v3"}),
        ("shape \\(8,\\)", {"vectors": ROWS[0]}),
        ("expected numbers", {"vectors": np.array([["a"]])}),
        ("follows arrays", {"vectors": iter([ROWS, ROWS[:, :3]])}),
        ("no array", {"vectors": iter([])}),
        ("more chunks", {"vectors": iter([ROWS]), "chunk_size": 300, "chunk_metadata": [{}]}),
        ("JSON cannot hold", {"vectors": ROWS, "chunk_metadata": [{"x": float("nan")}]}),
        ("JSON cannot hold", {"vectors": ROWS, "chunk_metadata": [{"x": object()}]}),
    ]
    for message, arguments in cases:
        with pytest.raises(pv.InputError, match=message):
            cvc.pack_cvc(output_path=path, **arguments)
    with pytest.raises(pv.InputError, match="different lengths"):
        cvc.pack_cvc_columns({"a": ROWS, "b": ROWS[:5]}, path)
    with pytest.raises(pv.InputError, match="no columns"):
        cvc.pack_cvc_columns({}, path)
    with pytest.raises(pv.InputError, match="only 'none' keeps whole numbers"):
        cvc.pack_cvc_columns({"a": np.arange(5)}, path, {"a": "fp16"})
    with pytest.raises(pv.InputError, match="names no column"):
        cvc.pack_cvc_columns({"a": ROWS}, path, {"b": "fp16"})
    for sections in ([], [(ROWS, "no mapping")], [(ROWS, {}), (ROWS[:, :2], {})]):
        with pytest.raises(pv.InputError):
            cvc.pack_cvc_sections(sections, path)
    for broken in ([], [({"a": ROWS}, {}), ({"b": ROWS}, {})], [({"a": ROWS, "b": ROWS[:3]}, {})]):
        with pytest.raises(pv.InputError):
            cvc.pack_cvc_sections_columnar(broken, path)
    assert not list(tmp_path.iterdir())
    cvc.pack_cvc(large, path, allow_overflow=True)
    assert np.isinf(cvc.load_cvc(path)[701, 2])


def test_constant_chunks_nan_halves_and_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    cvc.pack_cvc(np.full((5, 3), 2.5, np.float32), path, compression="int8")
    entry = read_header(open_source(path)).chunks[0].entry
    assert (entry["min"], entry["scale"]) == (2.5, 1.0) and (cvc.load_cvc(path) == 2.5).all()
    cvc.pack_cvc(np.array([[np.nan, np.inf]], np.float32), path)
    assert np.array_equal(cvc.load_cvc(path), [[np.nan, np.inf]], equal_nan=True)
    for layout in ("document", "versioned"):
        cvc.pack_cvc(ROWS[:0], path, layout=layout)
        assert cvc.load_cvc(path).shape == (0, 8) and pv.verify(path).ok
    cvc.pack_cvc_columns({"a": ROWS[:0], "b": np.zeros(0, np.int32)}, path)
    assert cvc.load_cvc_columns(path)["b"].shape == (0,)


def test_a_killed_writer_thread_says_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "no space left on device")

    before = threading.active_count()
    monkeypatch.setattr(os, "pwrite", full)
    for data in (ROWS, iter([ROWS]), vectors(30_000, 100)):
        with pytest.raises(OSError, match="no space"):
            cvc.pack_cvc(data, tmp_path / "a.cvc", durable=False)
    monkeypatch.undo()
    assert not list(tmp_path.iterdir()) and threading.active_count() == before
