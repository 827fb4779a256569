"""Files that hold no embeddings are named: pages, pointers, archives, answers of servers, nothing at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats
from polyvec.cli import run

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 1024000000\n"


def archive(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("a.fbin"))
    else:
        with zipfile.ZipFile(out, "w") as zipped:
            zipped.writestr("a.fbin", b"x" * 100)
    return out.getvalue()


FILES = {
    "lfs": (LFS, "this is a Git LFS pointer of a file of 1,024,000,000 bytes.*run git lfs pull"),
    "html": (b"\n<!DOCTYPE html><html><head><title>Sign in</title>" + b" " * 4000, "an HTML page.*download failed"),
    "xhtml": (b'<?xml version="1.0"?>\n<html xmlns="x"></html>', "an HTML page.*download failed"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "an XML answer.*download failed"),
    "json": (b'{"error": "Repository not found"}', r"a JSON answer.*Repository not found.*download failed"),
    "text": (b"Entry not found", "an error message.*Entry not found.*download failed"),
    "tar": (archive("tar"), "a tar archive.*unpack it first"),
    "empty": (b"", "an empty file"),
}
PACKED = {
    "gzip": (gzip.compress(b"x" * 999), "a gzip file.*gunzip"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(range(200)), "a zstd file.*unzstd"),
    "xz": (lzma.compress(b"x" * 999), "an xz file.*unxz"),
    "bzip2": (bz2.compress(b"x" * 999), "a bzip2 file.*bunzip2"),
    "zip": (archive("zip"), "a zip archive.*unzip"),
}
SUFFIXES = sorted({suffix for format in formats.all_formats() for suffix in format.suffixes})


@pytest.mark.parametrize("suffix", [*SUFFIXES, "", ".dat"])
@pytest.mark.parametrize("kind", list(FILES))
def test_a_failed_download_is_named_whatever_it_is_called(tmp_path: Path, kind: str, suffix: str) -> None:
    data, words = FILES[kind]
    path = tmp_path / f"vectors{suffix}"
    path.write_bytes(data)
    for read in (pv.open, pv.describe, lambda p: pv.convert(p, tmp_path / "o.npy")):
        with pytest.raises(pv.UnknownFormat, match=words) as error:
            read(path)
        assert "\n" not in str(error.value)
    (finding,) = pv.verify(path).findings
    assert finding.severity == "error"


@pytest.mark.parametrize("name", ["fbin", "cvc", "npy", "i8bin", "weights", "finalfusion", "hdf5", "word2vec", "glove"])
def test_a_format_that_was_said_does_not_hide_what_the_file_is(tmp_path: Path, name: str) -> None:
    for data, words in FILES.values():
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(pv.FormatError, match=words):
            pv.open(tmp_path / "a", format=name)


@pytest.mark.parametrize("suffix", [".fbin", ".cvc", ".fifu", ".weights", ".npy", ".fvecs", ".i8bin", ".dat", ""])
@pytest.mark.parametrize("kind", list(PACKED))
def test_a_packed_file_is_named_with_what_unpacks_it(tmp_path: Path, kind: str, suffix: str) -> None:
    data, words = PACKED[kind]
    if kind == "zip" and suffix in ("", ".dat"):
        pytest.skip("a zip without a telling name is read as npz, which says what it lacks")
    path = tmp_path / f"vectors{suffix}"
    path.write_bytes(data)
    with pytest.raises(pv.FormatError, match=words):
        pv.open(path)


def test_the_communities_own_readers_name_them_too(tmp_path: Path) -> None:
    from polyvec.cvc import load_cvc
    from polyvec.embedder import Embedder
    from polyvec.fbin import FBINReader
    from polyvec.finalfusion import load

    for read, name in ((FBINReader, "a.fbin"), (load_cvc, "a.cvc"), (Embedder, "a.weights"), (load, "a.fifu")):
        (tmp_path / name).write_bytes(LFS)
        with pytest.raises(pv.UnknownFormat, match="git lfs pull"):
            read(tmp_path / name)


def test_real_files_are_not_taken_for_something_else(tmp_path: Path) -> None:
    rows = np.array([[0.5, -1.25, 3.0], [1.0, 2.0, 4.0]], np.float32)
    for word in ("<html", "Forbidden", "<!--", '{"error":', "BZh"):
        pv.write(tmp_path / "a.txt", rows, vocab=[word, "b"])
        with pv.open(tmp_path / "a.txt") as c:
            assert list(c.vocab or ()) == [word, "b"]
    count = int.from_bytes(b"\x1f\x8b\x08\0", "little")  # a row count that starts like gzip
    (tmp_path / "a.u8bin").write_bytes(b"\x1f\x8b\x08\0" + (1).to_bytes(4, "little") + bytes(count))
    with pv.open(tmp_path / "a.u8bin") as c:
        assert c.rows == count


def test_names_that_are_nearly_right_are_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.ones((3, 4), np.float32)
    for name, near in (
        ("a.fbni", ".fbin"),
        ("a.nyp", ".npy"),
        ("a.parqet", ".parquet"),
        ("a.safetensor", ".safetensors"),
    ):
        with pytest.raises(pv.InputError, match=f"did you mean .*{near}"):
            pv.write(tmp_path / name, rows)
    pv.write(tmp_path / "a.fbin", rows)
    for name, near in (("fbn", "fbin"), ("finalfuson", "finalfusion"), ("safetensor", "safetensors"), (".hdf", "hdf5")):
        with pytest.raises(pv.InputError, match=f"unknown format.*did you mean .*{near}"):
            pv.open(tmp_path / "a.fbin", format=name)
    with pytest.raises(pv.InputError, match=r"unknown format 'zzzz'; there are [^?]*$"):
        pv.open(tmp_path / "a.fbin", format="zzzz")
    (tmp_path / "a.fbinn").write_bytes(b"\x01nothing that anyone knows")
    with pytest.raises(pv.UnknownFormat, match=r"did you mean \.fbin"):
        pv.open(tmp_path / "a.fbinn")
    assert run(["convert", str(tmp_path / "a.fbin"), str(tmp_path / "b.nyp")]) == 2
    assert "did you mean .npz or .npy?" in capsys.readouterr().err
