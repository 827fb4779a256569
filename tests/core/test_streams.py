"""Sources and sinks as file objects: what zipfile, pyarrow and h5py expect of one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from polyvec.core.streams import SinkStream, SourceStream
from polyvec.core.targets import open_sink
from polyvec.testing import MemorySource


def test_a_source_is_read_and_sought_as_bytes_are() -> None:
    data = bytes(range(50))
    ours, theirs = SourceStream(MemorySource(data, "a")), io.BytesIO(data)
    for step in (
        lambda f: f.read(3),
        lambda f: f.seek(10),
        lambda f: f.read(7),
        lambda f: f.seek(-5, 1),
        lambda f: (f.tell(), f.read(2)),
        lambda f: f.seek(-4, 2),
        lambda f: f.read(),
        lambda f: f.read(9),
        lambda f: f.seek(99),
        lambda f: f.read(),
    ):
        assert step(ours) == step(theirs)
    with pytest.raises(OSError, match="before the start"):
        ours.seek(-1)
    assert ours.readable() and ours.seekable() and not ours.writable()


def test_a_buffer_is_filled_as_far_as_there_is_data() -> None:
    stream, buffer = SourceStream(MemorySource(b"abc", "a")), bytearray(b"....")
    assert stream.readinto(buffer) == 3 and bytes(buffer) == b"abc."


def test_closing_a_stream_leaves_the_source_open() -> None:
    source = MemorySource(b"abc", "a")
    SourceStream(source).close()
    assert source.read_at(0, 3) == b"abc"


def test_a_sink_is_written_over_and_beyond_its_end(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a", durable=False) as sink:
        sink.write(b"head")
        stream = SinkStream(sink)
        assert stream.tell() == 4 and stream.write(b"tail") == 4
        stream.seek(2)
        stream.write(b"AD")
        stream.seek(6)
        stream.write(b"ILMORE")
        stream.seek(14)
        stream.write(b"!")
        stream.seek(-1, 2)
        assert stream.tell() == 14
    assert (tmp_path / "a").read_bytes() == b"heADtaILMORE\0\0!"


def test_a_zip_archive_can_be_written_to_a_sink_and_read_from_a_source(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a.zip", durable=False) as sink, zipfile.ZipFile(SinkStream(sink), "w") as archive:
        archive.writestr("x", b"content")
    source = MemorySource((tmp_path / "a.zip").read_bytes(), "a.zip")
    with zipfile.ZipFile(SourceStream(source)) as archive:
        assert archive.read("x") == b"content"


def test_a_forward_stream_does_not_seek(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a", durable=False) as sink:
        stream = SinkStream(sink, seekable=False)
        assert not stream.seekable()
        with pytest.raises(io.UnsupportedOperation):
            stream.seek(0)
