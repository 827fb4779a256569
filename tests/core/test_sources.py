"""Sources: checked reads over files, bytes and pipes."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from polyvec.core import sources
from polyvec.core.blocks import Extent, Raw
from polyvec.core.columns import FileColumn
from polyvec.core.errors import FormatError, InputError, Truncated
from polyvec.core.sources import Source, open_source
from polyvec.testing.descriptors import no_descriptors_left
from polyvec.testing.distant import DistantSource

DATA = bytes(range(200))


@pytest.fixture(params=["file", "bytes", "pipe"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    path = tmp_path / "data.bin"
    if request.param == "bytes":
        return open_source(DATA)
    if request.param == "file":
        path.write_bytes(DATA)
        return open_source(path)
    os.mkfifo(path)
    threading.Thread(target=lambda: path.write_bytes(DATA)).start()
    return open_source(path)


def test_every_kind_of_source_reads_the_same(source: Source) -> None:
    with source:
        assert source.size == 200
        assert source.read_at(5, 10) == DATA[5:15]
        assert source.read_at(190, 50) == DATA[190:]
        assert source.read_at(500, 5) == b"" and source.read_at(5, -3) == b""
        out = np.empty((4, 3), "<u2")
        source.read_into(20, out)
        assert out.tobytes() == DATA[20:44]
        view = source.view(20, 24)
        assert view.tobytes() == DATA[20:44] and not view.flags.writeable
        assert source.view(200, 0).size == 0
    assert view.tobytes() == DATA[20:44]  # views outlive their source


def test_reads_past_the_end_are_truncated_with_their_offset(source: Source) -> None:
    with source:
        for read in (lambda: source.read_into(190, np.empty(11, np.uint8)), lambda: source.view(190, 11)):
            with pytest.raises(Truncated, match="at byte 190; expected 11 bytes, found 10 bytes"):
                read()
        for read in (lambda: source.read_into(-1, np.empty(1, np.uint8)), lambda: source.view(-1, 1)):
            with pytest.raises(Truncated):
                read()


def test_bytes_read_are_counted(source: Source) -> None:
    with source:
        source.read_at(0, 7)
        source.read_into(0, np.empty(5, np.uint8))
        assert source.bytes_read == 12


def test_a_file_that_shrinks_is_truncated_and_no_bus_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10_000))
    with open_source(tmp_path / "a") as source:
        os.truncate(tmp_path / "a", 100)
        with pytest.raises(Truncated, match="shorter while it was read"):
            source.read_into(0, np.empty(5000, np.uint8))


def test_a_directory_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="directory"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "none")


def test_suffixes_are_lower_case_and_a_crops_mark_is_passed_over() -> None:
    for name, suffix in [("A.FBIN", ".fbin"), ("a.fbin.crop_nb_10000", ".fbin"), ("a", ""), ("a.tar.gz", ".gz")]:
        assert open_source(b"", name=name).suffix == suffix


def test_a_file_travels_to_another_process_and_memory_does_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with open_source(tmp_path / "a") as source, pickle.loads(pickle.dumps(source)) as other:
        assert other.read_at(0, 200) == DATA
    with pytest.raises(InputError, match="cannot be pickled"):
        pickle.dumps(open_source(b""))


def test_siblings_are_found_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "a.words.txt").write_bytes(b"x")
    with open_source(tmp_path / "a") as source:
        beside = source.sibling("a.words.txt")
        assert beside is not None and beside.read_at(0, 9) == b"x"
        beside.close()
        assert source.sibling("none") is None
    assert open_source(b"abc").sibling("x") is None


@pytest.mark.parametrize("threads", ["1", "3"])
def test_large_reads_are_spread_over_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setattr("polyvec.core.sources.PARALLEL_BYTES", 64)
    monkeypatch.setattr("polyvec.core.sources.PARALLEL_PIECE", 7)
    monkeypatch.setenv("POLYVEC_THREADS", threads)
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    with open_source(path) as source:
        out = np.zeros(150, np.uint8)
        source.read_into(13, out)
        assert out.tobytes() == DATA[13:163]
        assert source.bytes_read == 150
        os.truncate(path, 100)
        with pytest.raises(Truncated, match="became shorter"):
            source.read_into(13, out)


def test_a_device_is_no_file() -> None:
    with pytest.raises(FormatError, match="a device, not a file"):
        open_source("/dev/zero")


def test_a_source_sent_elsewhere_does_not_become_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"one")
    with open_source(path) as source:
        sent = pickle.dumps(source)
        with pickle.loads(sent) as again:
            assert again.read_at(0, 3) == b"one" and again.current()
        (tmp_path / "b.bin").write_bytes(b"two")
        (tmp_path / "b.bin").replace(path)
        assert not source.current() and source.read_at(0, 3) == b"one"
        with pytest.raises(FormatError, match="replaced"):
            pickle.loads(sent)


def test_a_file_that_was_replaced_is_told_whatever_becomes_of_its_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with open_source(path) as source:
        path.unlink()
        gone = tmp_path / "renamed at this very moment"
        monkeypatch.setattr(sources, "locate", lambda _: gone)
        assert source.replaced()


def test_a_file_whose_name_goes_while_it_is_opened_is_no_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    plain = sources.open_named

    def opened(name: Path) -> tuple[BinaryIO, Path]:
        found = plain(name)
        path.unlink()
        return found

    monkeypatch.setattr(sources, "open_named", opened)
    with open_source(path) as source:
        assert source.read_at(0, 9) == b"old" and source.replaced()


# -- sources that give bytes and nothing else


def test_what_cannot_be_mapped_is_read_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for held in (1 << 20, 64):  # in memory, and in a temporary file
        monkeypatch.setattr(sources, "HELD_BYTES", held)
        monkeypatch.setattr(sources, "STEP_BYTES", 70)
        source = DistantSource(DATA, "a")
        assert source.view(0, 200) is None and source.fd is None and source.local() is None
        whole = source.mapped(0, 200)
        read = source.bytes_read
        assert whole.tobytes() == DATA and not whole.flags.writeable
        assert source.mapped(20, 24).tobytes() == DATA[20:44] and source.bytes_read == read == 200
        with pytest.raises(Truncated):
            source.mapped(190, 11)
        source.close()
        assert whole.tobytes() == DATA


def test_ranges_that_lie_near_each_other_are_asked_for_together() -> None:
    source = DistantSource(DATA, "a")
    ranges = [(150, 10), (0, 5), (30, 5), (2, 3), (160, 0)]
    assert source.read_ranges(ranges) == [DATA[at : at + size] for at, size in ranges]
    assert source.requests == 2 and source.bytes_read == 35 + 10
    source.near_bytes = 0
    assert source.read_ranges(ranges) == [DATA[at : at + size] for at, size in ranges]
    assert source.requests == 5
    assert source.read_ranges([]) == []
    for bad in ((195, 6), (-1, 1)):
        with pytest.raises(Truncated):
            source.read_ranges([(0, 1), bad])


def test_scattered_rows_of_a_distant_source_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    source = DistantSource(b"head" + rows.tobytes(), "a")
    asked: list[int] = []
    plain = DistantSource.read_ranges
    monkeypatch.setattr(
        DistantSource, "read_ranges", lambda self, ranges: asked.append(len(ranges)) or plain(self, ranges)
    )
    extents = [Extent(0, 600, 4, 9600, Raw(np.dtype("<f4"))), Extent(600, 400, 9604, 6400, Raw(np.dtype("<f4")))]
    column = FileColumn("v", source, extents, row_shape=(4,), encoding="raw")
    wanted = np.array([900, 3, 598, 602, 300, 3, 999])
    assert column.near_bytes == source.near_bytes == 64
    assert np.array_equal(column.take(wanted), rows[wanted])
    assert asked == [6]


def test_an_error_that_is_kept_keeps_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with no_descriptors_left():
        source = open_source(tmp_path / "a")
        os.truncate(tmp_path / "a", 10)
        with pytest.raises(Truncated) as kept:
            source.read_into(0, np.zeros(100, np.uint8))
        source.close()
    assert kept.value.offset == 10


def test_what_is_no_place_is_an_input_error() -> None:
    for bad in (3, None, 1.5, ["a"]):
        with pytest.raises(InputError, match=r"^where must be a path, not "):
            open_source(bad)
