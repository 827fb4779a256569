"""Every write is read back before it replaces anything: what would be misread is refused, and the old file stays."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats
from polyvec.core.format import WriteOptions
from polyvec.core.targets import open_sink
from polyvec.formats.npy import FORMAT as NPY
from polyvec.testing import vectors
from polyvec.testing.atomicity import contents
from polyvec.writing.readback import Expected, read_back

ROWS = vectors(9, 4)
OLD = b"the old file"


def collection(**more) -> pv.Collection:
    return pv.Collection.from_arrays(ROWS, **more)


class Forgetful(type(NPY)):
    """A format that writes something else than it was given, in a way its test chooses."""

    name = "forgetful"
    suffixes = (".forgetful",)
    change = staticmethod(lambda collection: collection)

    def sniff(self, peek):
        return super().sniff(peek) if peek.suffix == ".forgetful" else []

    def write(self, collection, sink, options):
        super().write(type(self).change(collection), sink, options)


@pytest.fixture
def forgetful(monkeypatch):
    with formats.registered(Forgetful()) as format:
        yield lambda change: monkeypatch.setattr(Forgetful, "change", staticmethod(change))
        assert format


def refused(tmp_path: Path, name: str, data, match: str, **options) -> None:
    (tmp_path / name).write_bytes(OLD)
    with pytest.raises((pv.LossyConversion, pv.InputError), match=match) as caught:
        pv.write(tmp_path / name, data, **options)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == {name: OLD}, "a write that was refused changed something"


def test_a_file_with_another_shape_is_refused(tmp_path: Path, forgetful) -> None:
    forgetful(lambda given: given.slice(0, 5))
    refused(tmp_path, "a.forgetful", ROWS, r"nothing was written.*9 x 4 values comes back as 5 x 4", format="forgetful")
    forgetful(lambda given: pv.Collection.from_arrays(given.vectors[:][:, :3]))
    refused(tmp_path, "a.forgetful", ROWS, r"9 x 4 values comes back as 9 x 3", format="forgetful")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(type(NPY), "write", lambda self, collection, sink, options: sink.write(b"\x93NUMPY\x01\x00"))
    refused(tmp_path, "a.npy", ROWS, "as npy this cannot be read back")


def test_a_file_that_its_name_and_bytes_call_another_format_is_refused(tmp_path: Path, monkeypatch) -> None:
    rows = io.BytesIO()
    np.save(rows, ROWS)
    bins = formats.find_format("fbin")[0]
    monkeypatch.setattr(type(bins), "write", lambda self, collection, sink, options: sink.write(rows.getvalue()))
    refused(tmp_path, "a.fbin", ROWS, "it looks like npy")


def test_sidecars_are_read_back_too(tmp_path: Path, monkeypatch) -> None:
    from polyvec.core import sidecars

    monkeypatch.setattr(sidecars, "_strings", lambda kind, strings: (f".{kind}.txt", iter([b"one\n" * 9])))
    refused(
        tmp_path, "a.fbin", collection(vocab=[str(i) for i in range(9)]), "the word '0' of row 0 comes back as 'one'"
    )
    refused(tmp_path, "a.fbin", collection(ids=[f"i{i}" for i in range(9)]), "the id 'i0' of row 0 comes back as 'one'")
    monkeypatch.setattr(sidecars, "_integers", lambda ids: iter([b"", b"x"]))
    refused(tmp_path, "a.fbin", collection(ids=np.arange(9)), "cannot be read back .the ids do not match")


def test_standard_output_is_checked_before_the_first_byte(monkeypatch, forgetful) -> None:
    forgetful(lambda given: given.slice(0, 5))
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    with pytest.raises(pv.LossyConversion, match="9 x 4"):
        pv.write("-", ROWS, format="forgetful")
    assert out.getvalue() == b""
    receipt = pv.write("-", ROWS, format="npy")
    assert np.array_equal(np.load(io.BytesIO(out.getvalue())), ROWS)
    assert receipt.loss is not None and receipt.loss.exact and receipt.loss.rows == 9


def test_siblings_on_disk_do_not_stand_in_for_those_written(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", collection(vocab=[f"old {i}" for i in range(9)]))
    receipt = pv.write(tmp_path / "a.fbin", vectors(5, 4))  # the nine old words would not fit five rows
    assert receipt.rows == 5 and not receipt.sidecars


@pytest.mark.parametrize("suffix", [".hdf5", ".h5"])
def test_single_values_survive_hdf5(tmp_path: Path, suffix: str) -> None:
    np.save(tmp_path / "a.npy", np.arange(7.0))
    target = tmp_path / f"a{suffix}"
    target.write_bytes(OLD)
    receipt = pv.convert(tmp_path / "a.npy", target)
    assert receipt.loss is not None and receipt.loss.exact
    with pv.open(target) as found:
        assert found.vectors[:].tolist() == list(range(7))


def test_a_csr_file_in_hdf5_reads_back(tmp_path: Path) -> None:
    dense = np.where(vectors(6, 5) > 0, vectors(6, 5), 0).astype(np.float32)
    pv.write(tmp_path / "a.csr", dense)
    pv.convert(tmp_path / "a.csr", tmp_path / "b.hdf5")
    with pv.open(tmp_path / "b.hdf5") as found, pv.open(tmp_path / "a.csr") as source:
        assert set(found.columns) >= {name for name, c in source.columns.items() if not c.derived}
        for name, column in found.columns.items():
            assert np.array_equal(column[:], source[name][:])


def test_the_last_row_is_always_compared(tmp_path: Path, forgetful) -> None:
    rows = vectors(5000, 3)

    def cut(given):
        changed = given.vectors[:].copy()
        changed[-1] = 0
        return pv.Collection.from_arrays(changed)

    forgetful(cut)
    receipt = pv.write(tmp_path / "a.forgetful", rows, format="forgetful")
    assert receipt.loss is not None and not receipt.loss.exact and receipt.loss.min_cosine == 0.0


def test_a_format_named_without_its_kind_reads_back_by_the_kind_written(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.dat", ROWS, format="bins")
    assert receipt.loss is not None and receipt.loss.exact
    with pv.open(tmp_path / "a.dat", format="fbin") as found:
        assert np.array_equal(found.vectors[:], ROWS)


def test_a_source_that_goes_bad_while_it_is_compared_is_named(tmp_path: Path) -> None:
    pv.write(tmp_path / "s.npy", ROWS)
    with pv.open(tmp_path / "s.npy") as source, open_sink(tmp_path / "a.npy") as sink:
        NPY.write(source, sink, WriteOptions())
        (tmp_path / "s.npy").write_bytes(b"")
        with pytest.raises(pv.Truncated, match=r"s\.npy"):
            read_back(sink, NPY, "", Expected(source))


def test_errors_name_the_target_and_not_the_temporary_file(tmp_path: Path, forgetful) -> None:
    forgetful(lambda given: given.slice(0, 5))
    with pytest.raises(pv.LossyConversion) as caught:
        pv.write(tmp_path / "a.forgetful", ROWS, format="forgetful")
    assert "a.forgetful" in str(caught.value) and "polyvec-tmp" not in str(caught.value)


def break_header(monkeypatch) -> None:
    """Whatever writes chunks forgets one of them in the header."""
    from polyvec.formats.cvc.writer import ChunkWriter

    whole = ChunkWriter._json
    monkeypatch.setattr(ChunkWriter, "_json", lambda self, entries, rows: whole(self, entries[:1], rows))


@pytest.mark.parametrize("way", ["array", "stream", "columns", "sections", "edit", "upgrade"])
def test_the_cvc_face_reads_back_too(tmp_path: Path, monkeypatch, way: str) -> None:
    from polyvec import cvc

    path, before = tmp_path / "a.cvc", tmp_path / "before.cvc"
    cvc.pack_cvc_columns({"one": ROWS, "two": ROWS}, before, chunk_size=4)
    path.write_bytes(OLD)
    calls = {
        "array": lambda: cvc.pack_cvc(ROWS, path, chunk_size=4),
        "stream": lambda: cvc.pack_cvc(iter([ROWS, ROWS]), path, chunk_size=4),
        "columns": lambda: cvc.pack_cvc_columns({"one": ROWS, "two": ROWS}, path, chunk_size=4),
        "sections": lambda: cvc.pack_cvc_sections([(ROWS, {"a": 1}), (ROWS, {"a": 2})], path, chunk_size=4),
        "edit": lambda: cvc.delete_column(before, "two"),
        "upgrade": lambda: cvc.upgrade_cvc(before, tmp_path / "new.cvc"),
    }
    held = before.read_bytes()
    break_header(monkeypatch)
    with pytest.raises((pv.LossyConversion, pv.FormatError)):
        calls[way]()
    assert contents(tmp_path) == {"a.cvc": OLD, "before.cvc": held}


def test_the_fbin_and_browser_faces_read_back_too(tmp_path: Path, monkeypatch) -> None:
    from polyvec import browser, fbin
    from polyvec.browser import export
    from polyvec.fbin import writing

    (tmp_path / "a.fbin").write_bytes(OLD)
    monkeypatch.setattr(writing, "HEADER", SimpleNamespace(pack=lambda values: b"\x03\0\0\0\x04\0\0\0"))
    with pytest.raises(pv.LossyConversion, match="9 x 4 values comes back as 3 x 4"):
        fbin.FBINWriter(tmp_path / "a.fbin").write(ROWS)
    assert contents(tmp_path) == {"a.fbin": OLD}
    rows = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    card = {"name": "n", "set": "s", "image_url": "https://a.example/i", "card_url": "https://a.example/c"}
    whole = export._write_codes

    def short(collection, sink, *more):
        told = whole(collection, sink, *more)
        sink.write(b"\0")
        return told

    monkeypatch.setattr(export, "_write_codes", short)
    with pytest.raises(pv.LossyConversion, match=r"embeddings\.i8bin: nothing was written"):
        browser.export_for_browser(rows, tmp_path / "site", records=[card] * 9, any_dim=True)
    assert not (tmp_path / "site" / "embeddings.i8bin").exists()
