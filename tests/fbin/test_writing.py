"""Writing FBIN and IBIN: the bytes of the document, ids that fit, callbacks, nothing left of a cancelled write."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin


def no_temp_files(folder):
    return not [path for path in folder.iterdir() if path.name.endswith(".polyvec-tmp")]


def test_the_bytes_are_those_of_the_document(path, data):
    assert path.read_bytes() == struct.pack("<II", 100, 8) + data.tobytes()


def test_ids_beyond_int32_are_refused_and_the_target_stays(tmp_path):
    target = tmp_path / "g.ibin"
    target.write_bytes(b"old")
    with pytest.raises(pv.InputError, match="does not fit int32"):
        fbin.write_ibin(target, np.array([[1, 2**31]]))
    assert target.read_bytes() == b"old" and no_temp_files(tmp_path)


def test_float_ids_are_refused(tmp_path):
    with pytest.raises(pv.LossyConversion):
        fbin.write_ibin(tmp_path / "g.ibin", np.array([[1.5, 2.0]]))


def test_writer_result_and_callbacks(tmp_path, data):
    calls = []
    writer = fbin.FBINWriter(tmp_path / "o.fbin", progress_callback=lambda *a: calls.append(a))
    result = writer.write(data, chunk_size=25, compute_checksum=True)
    assert calls == [(25, 100), (50, 100), (75, 100), (100, 100)]
    content = (tmp_path / "o.fbin").read_bytes()
    assert result["checksum"] == hashlib.sha256(content).hexdigest() and len(result["checksum"]) == 64
    assert {"output_path", "vector_count", "dimension", "file_size_bytes"} <= set(result)
    assert result["file_size_bytes"] == len(content)


def test_write_from_chunks_checks_the_promised_count(tmp_path, data):
    writer = fbin.FBINWriter(tmp_path / "o.fbin")
    writer.write_from_chunks(iter([data[:60], data[60:]]), 100, 8)
    np.testing.assert_array_equal(fbin.FBINReader(tmp_path / "o.fbin").load(), data)
    for count in (99, 101):
        with pytest.raises(pv.InputError, match="rows in all"):
            writer.write_from_chunks(iter([data]), count, 8)
    with pytest.raises(pv.InputError, match="shape"):
        writer.write_from_chunks(iter([data]), 100, 9)


def test_a_cancelled_write_leaves_the_old_file(tmp_path, data):
    target = tmp_path / "o.fbin"
    target.write_bytes(b"old")
    writer = fbin.FBINWriter(target, progress_callback=lambda current, total: writer.cancel())
    with pytest.raises(pv.Cancelled):
        writer.write(data, chunk_size=10)
    assert target.read_bytes() == b"old" and no_temp_files(tmp_path)
