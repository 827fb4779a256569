"""What every sink does, wherever its bytes go."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.sinks import Sink
from polyvec.core.sources import open_source
from polyvec.core.targets import open_sink
from polyvec.kernels import available_paths, use_path
from polyvec.kernels.filecasts import Cast
from polyvec.testing import MemorySink

Opened = tuple[Sink, Callable[[], dict[str, bytes]]]


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """A sink, and what is to be seen of its files after the commit."""
    if request.param == "memory":
        sink = MemorySink("a.bin")
        return sink, lambda: sink.committed or {}
    return open_sink(tmp_path / "a.bin", durable=False), lambda: {p.name: p.read_bytes() for p in tmp_path.iterdir()}


def test_a_sink_is_a_contract_and_open_sink_makes_one(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="abstract"):
        pv.Sink("a.bin")  # type: ignore[abstract]
    with pv.open_sink(tmp_path / "a.bin") as sink:
        assert isinstance(sink, pv.Sink) and sink.name == "a.bin" and not sink.alone and not sink.hashing
        sink.write(b"x")


def test_a_reserved_header_is_written_last(opened: Opened) -> None:
    sink, files = opened
    with sink:
        assert sink.write(b"magic") == 0
        assert sink.reserve(4) == 5
        assert sink.write(b"rows") == 9
        assert sink.align(8) == 16
        sink.write_at(5, b"HEAD")
        for offset in (-1, 14):
            with pytest.raises(ValueError, match="outside"):
                sink.write_at(offset, b"too far")
    assert files() == {"a.bin": b"magicHEADrows\0\0\0"}


def test_codes_stay_within_what_was_reserved(opened: Opened) -> None:
    sink, files = opened
    with sink:
        at = sink.reserve(20)
        values = np.linspace(-1, 1, 10, dtype=np.float32)
        assert sink.write_cast(at, values, Cast("f16")) == (zlib.crc32(values.astype("<f2").tobytes()), True)
        with pytest.raises(ValueError, match="outside what was written"):
            sink.write_cast(at + 1, values, Cast("f16"))
    assert files() == {"a.bin": values.astype("<f2").tobytes()}


@pytest.mark.parametrize("path", available_paths())
def test_codes_are_the_same_whatever_they_are_written_into(tmp_path: Path, path: str) -> None:
    values = np.array([0.1, -3.5, 70000.0, np.inf, 1e-9], np.float32)
    with np.errstate(over="ignore"):
        codes = {Cast("f16"): values.astype("<f2"), Cast("bf16"): values.astype(ml_dtypes.bfloat16)}
    for cast, wanted in codes.items():
        with use_path(path):
            told = []
            for sink in (open_sink(tmp_path / "a", durable=False), MemorySink("a")):
                with sink:
                    told.append(sink.write_cast(sink.reserve(wanted.nbytes), values, cast))
                    assert sink.read_at(0, 99) == wanted.tobytes()
            assert told == [(zlib.crc32(wanted.tobytes()), False)] * 2


def test_a_copy_goes_to_the_end_or_to_what_was_reserved(opened: Opened) -> None:
    sink, files = opened
    with sink, open_source(b"0123456789") as source:
        at = sink.reserve(3)
        sink.copy_from(source, 5, 5)
        sink.copy_from(source, 0, 3, at=at)
        with pytest.raises(ValueError, match="outside what was written"):
            sink.copy_from(source, 0, 3, at=6)
    assert files() == {"a.bin": b"01256789"}


def test_what_was_written_is_read_back_before_the_commit(opened: Opened) -> None:
    sink, files = opened
    with sink:
        sink.write(b"0123456789")
        sink.sibling("a.bin.ids").write(b"beside")
        assert [sink.read_at(at, size) for at, size in ((0, 3), (7, 9), (10, 5))] == [b"012", b"789", b""]
        with sink.source() as source:
            assert (source.name, source.size, source.read_at(8, 9)) == ("a.bin", 10, b"89")
            beside = source.sibling("a.bin.ids")
            assert beside is not None and beside.read_at(0, 9) == b"beside"
            beside.close()
            assert source.sibling("a.bin.words") is None
        assert files().keys().isdisjoint({"a.bin", "a.bin.ids"})
    assert files() == {"a.bin": b"0123456789", "a.bin.ids": b"beside"}


def test_a_guard_stops_the_commit(opened: Opened) -> None:
    sink, files = opened

    def refuse() -> None:
        raise pv.InputError("not now")

    with pytest.raises(pv.InputError, match="not now"), sink:
        sink.write(b"x")
        sink.guard(refuse)
    assert files() == {}


def test_a_sink_of_another_kind_needs_no_more_than_this() -> None:
    assert Sink.__abstractmethods__ == {
        "_put",
        "reserve",
        "read_at",
        "source",
        "sibling",
        "discard",
        "guard",
        "commit",
        "abort",
        "hexdigest",
    }
