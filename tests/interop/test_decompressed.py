"""CVC both ways with the reference implementation, PyPI `decompressed` 2.1.1: bit for bit, its own bugs named."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.formats.cvc.header import read_header
from polyvec.testing import vectors

peer = pytest.importorskip("decompressed", reason="pip install decompressed==2.1.1")
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROWS = vectors(1000, 16)
# Its native decode rounds once where the machine fuses multiply and add (ARM does); the document rounds twice, as this
# backend does, and as we do.
PYTHON = {"backend": "python"}
COLUMNS = {
    "text": ROWS,
    "image": vectors(1000, 6, seed=1),
    "score": ROWS[:, 0].copy(),
    "id": np.arange(1000, dtype=np.int32),
}


def quiet(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The peer prints; the tests do not."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(*arguments, **options)


def same(one: np.ndarray, two: np.ndarray) -> bool:
    return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()


def within_a_rounding(one: np.ndarray, two: np.ndarray) -> bool:
    """The same but for the rounding of a product before a sum, which is no larger than the rows' largest value."""
    largest = np.abs(two).max()
    return one.dtype == two.dtype and bool(np.all(np.abs(one - two) <= 2 * np.spacing(largest)))


def payloads(path: Path) -> list[bytes]:
    with pv.open_source(path) as source:
        return [source.read_at(chunk.payload, chunk.size) for chunk in read_header(source).chunks]


@pytest.mark.parametrize("compression", ["fp16", "int8", "lossless"])
@pytest.mark.parametrize("layout", ["document", "versioned"])
def test_single_columns_both_ways(compression: str, layout: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.cvc", tmp_path / "theirs.cvc"
    rows = ROWS[:200] if compression == "lossless" else ROWS  # its lossless takes a second a megabyte
    cvc.pack_cvc(rows, ours, compression=compression, chunk_size=90, layout=layout)
    quiet(peer.pack_cvc, rows, str(theirs), compression=compression, chunk_size=90)
    assert payloads(ours) == payloads(theirs)
    expected = quiet(peer.load_cvc, str(theirs), backend="python")
    for path in (ours, theirs):
        assert same(quiet(peer.load_cvc, str(path), backend="python"), expected)
        assert same(cvc.load_cvc(path), expected)
    native = quiet(peer.load_cvc, str(theirs), backend="cpp")
    assert same(quiet(peer.load_cvc, str(ours), backend="cpp"), native)
    assert within_a_rounding(native, expected)


def test_versioned_files_are_read_by_chunk_by_range_and_validated(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    cvc.pack_cvc(ROWS, path, compression="int8", chunk_size=300, layout="versioned")
    for (index, ours), (other, theirs) in zip(cvc.load_cvc_chunked(path), peer.load_cvc_chunked(path, **PYTHON)):
        assert index == other and same(ours, theirs)
    assert same(cvc.load_cvc_range(path, [0, 2]), peer.load_cvc_range(path, [0, 2], **PYTHON))
    assert peer.validate_cvc(path)["valid"] and peer.validate_cvc_integrity(path)["valid"]
    theirs, ours = peer.get_cvc_info(path), cvc.get_cvc_info(path)
    assert {key: ours[key] for key in theirs} == theirs


def test_a_stream_is_read_although_its_header_is_padded(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    cvc.pack_cvc((ROWS[at : at + 77] for at in range(0, 1000, 77)), path, chunk_size=300)
    assert same(quiet(peer.load_cvc, path, **PYTHON), cvc.load_cvc(path))


def test_chunk_metadata_both_ways(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.cvc"), str(tmp_path / "theirs.cvc")
    metadata = [{"source": "a"}, {"source": "b"}, {"source": "a"}, {"source": "c"}]
    cvc.pack_cvc(ROWS, ours, chunk_size=300, chunk_metadata=metadata)
    quiet(peer.pack_cvc, ROWS, theirs, chunk_size=300, chunk_metadata=metadata)
    for path in (ours, theirs):
        arguments = {"metadata_key": "source", "metadata_value": "a"}
        assert same(cvc.load_cvc_range(path, **arguments), peer.load_cvc_range(path, **arguments, **PYTHON))


def test_sections_both_ways(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.cvc"), str(tmp_path / "theirs.cvc")
    sections = [(ROWS[:70], {"s": "wiki", "n": 1}), (ROWS[70:480], {"s": "arxiv"}), (ROWS[480:], {"s": "web"})]
    cvc.pack_cvc_sections(sections, ours, chunk_size=100)
    quiet(peer.pack_cvc_sections, sections, theirs, chunk_size=100)
    assert cvc.get_cvc_info(ours)["sections"] == peer.get_cvc_info(theirs)["sections"]
    for value in ("wiki", "arxiv", "web"):
        for path in (ours, theirs):
            arguments = {"section_key": "s", "section_value": value}
            assert same(cvc.load_cvc_range(path, **arguments), peer.load_cvc_range(path, **arguments, **PYTHON))
    assert pv.verify(theirs).ok and not pv.verify(theirs).findings


def test_columns_both_ways(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.cvc"), str(tmp_path / "theirs.cvc")
    cvc.pack_cvc_columns(COLUMNS, ours, {"image": "int8"}, chunk_size=300)
    quiet(peer.pack_cvc_columns, COLUMNS, theirs, {"image": "int8"}, chunk_size=300)
    assert payloads(Path(ours)) == payloads(Path(theirs))
    for path in (ours, theirs):
        found, expected = cvc.load_cvc_columns(path), peer.load_cvc_columns(path, **PYTHON)
        for name in ("text", "image", "score"):
            assert same(found[name], expected[name])
        assert same(found["id"], COLUMNS["id"])
        assert np.array_equal(found["id"], expected["id"])
    assert [c["name"] for c in peer.list_columns(ours)] == list(COLUMNS)


def test_columns_with_sections_both_ways(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.cvc"), str(tmp_path / "theirs.cvc")
    sections = [
        ({n: a[:450] for n, a in COLUMNS.items()}, {"s": "x"}),
        ({n: a[450:] for n, a in COLUMNS.items()}, {"s": "y"}),
    ]
    cvc.pack_cvc_sections_columnar(sections, ours, chunk_size=200)
    quiet(peer.pack_cvc_sections_columnar, sections, theirs, chunk_size=200)
    for path in (ours, theirs):
        for value in ("x", "y"):
            arguments = {"columns": ["text", "image"], "section_key": "s", "section_value": value}
            found, expected = (
                cvc.load_cvc_columns(path, **arguments),
                peer.load_cvc_columns(path, **arguments, **PYTHON),
            )
            assert all(same(found[name], expected[name]) for name in expected)


def test_edited_files_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    quiet(peer.pack_cvc_columns, COLUMNS, path, chunk_size=300)
    cvc.add_column(path, "new", ROWS[:, :3], compression="int8")
    cvc.rename_column(path, "text", "words")
    cvc.delete_column(path, "score")
    found, expected = cvc.load_cvc_columns(path), peer.load_cvc_columns(path, **PYTHON)
    assert list(expected) == ["words", "image", "id", "new"]
    assert all(same(found[name], expected[name]) for name in ("words", "image", "new"))


def test_mapped_files_both_ways(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.cvc"), str(tmp_path / "theirs.cvc")
    cvc.pack_cvc(ROWS, ours, chunk_size=5, mmap_optimized=True)  # 200 chunks
    quiet(peer.pack_cvc, ROWS, theirs, chunk_size=100, mmap_optimized=True)
    with peer.MMapCVCLoader(ours) as loader:
        assert same(loader.load(), cvc.load_cvc(ours))
    with peer.MMapCVCLoader(theirs) as loader, cvc.MMapCVCLoader(theirs) as own:
        assert same(own.load(), loader.load()) and same(own.load_chunk(3), loader.load_chunk(3))


def test_upgraded_files_are_read(tmp_path: Path) -> None:
    old = Path(__file__).parent.parent / "golden" / "cvc" / "v0_release010_int8.cvc"
    cvc.upgrade_cvc(old, tmp_path / "new.cvc")
    quiet(peer.upgrade_cvc, str(old), str(tmp_path / "theirs.cvc"))
    assert same(peer.load_cvc(str(tmp_path / "new.cvc"), **PYTHON), cvc.load_cvc(tmp_path / "theirs.cvc"))
    assert peer.detect_version(str(tmp_path / "new.cvc")) == cvc.detect_version(tmp_path / "new.cvc") == (1, 0)


# -- what the peer gets wrong, so that nobody looks for it here: each fails the day it is mended


def test_the_peer_cannot_load_its_own_mapped_files_and_we_can(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    quiet(peer.pack_cvc, ROWS, path, chunk_size=100, mmap_optimized=True)
    with pytest.raises(Exception):  # noqa: B017
        quiet(peer.load_cvc, path)
    assert same(cvc.load_cvc(path), ROWS.astype(np.float16).astype(np.float32))


def test_the_peer_overwrites_chunks_of_mapped_files_with_many_and_we_say_so(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    quiet(peer.pack_cvc, ROWS, path, chunk_size=10, mmap_optimized=True)
    with pytest.raises(pv.FormatError):
        cvc.load_cvc(path)


def test_the_peer_reads_raw_columns_as_int32_and_we_in_their_dtype(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    data = {"raw": ROWS[:, :2].copy(), "big": np.arange(2**24, 2**24 + 1000, dtype=np.int32)}
    quiet(peer.pack_cvc_columns, data, path, {"raw": "none"})
    found, wrong = cvc.load_cvc_columns(path), peer.load_cvc_columns(path)
    for name, true in data.items():
        assert same(found[name], true) and not np.array_equal(wrong[name], true)


def test_the_peer_returns_one_of_two_equal_sections_in_a_chunk_and_we_both(tmp_path: Path) -> None:
    path = str(tmp_path / "a.cvc")
    quiet(peer.pack_cvc_sections, [(ROWS[:10], {"s": 1}), (ROWS[10:20], {"s": 2}), (ROWS[20:30], {"s": 1})], path)
    arguments = {"section_key": "s", "section_value": 1}
    assert len(peer.load_cvc_range(path, **arguments, **PYTHON)) == 10
    assert len(cvc.load_cvc_range(path, **arguments)) == 20


def test_the_peer_ignores_an_unknown_on_corruption_and_we_refuse_it(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    quiet(peer.pack_cvc, ROWS, str(path))
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x10
    path.write_bytes(data)
    assert peer.load_cvc(str(path), on_corruption="bogus").shape == ROWS.shape
    with pytest.raises(pv.InputError):
        cvc.load_cvc(path, on_corruption="bogus")


def test_the_peer_drops_sections_when_it_edits_and_we_keep_them(tmp_path: Path) -> None:
    sections = [({"v": ROWS[:500]}, {"s": 1}), ({"v": ROWS[500:]}, {"s": 2})]
    for name, edit in (("theirs.cvc", peer.add_column), ("ours.cvc", cvc.add_column)):
        path = str(tmp_path / name)
        quiet(peer.pack_cvc_sections_columnar, sections, path)
        quiet(edit, path, "new", ROWS[:, 0])
        assert ("sections" in cvc.get_cvc_info(path)) == (name == "ours.cvc")


def test_what_the_peer_does_not_know_it_refuses_by_name(tmp_path: Path) -> None:
    """Our extensions, and what it lacks: listed in docs/formats/cvc.md."""
    path = str(tmp_path / "a.cvc")
    for compression in ("none", "bfloat16"):
        cvc.pack_cvc(ROWS, path, compression=compression)
        with pytest.raises(ValueError, match=compression):
            quiet(peer.load_cvc, path)
    cvc.pack_cvc_columns({"v": ROWS}, path, {"v": "lossless"})
    with pytest.raises(ValueError, match="lossless"):
        quiet(peer.load_cvc_columns, path)
    assert same(cvc.load_cvc_columns(path)["v"], ROWS)
    assert peer.validate_cvc_integrity(path)["valid"]
