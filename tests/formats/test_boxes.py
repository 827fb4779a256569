"""Boxes, a format for tests: what the model must carry passes the suite and converts both ways."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.kernels import crc32
from polyvec.testing import FormatSuite, Sample, vectors
from polyvec.testing.contents import assert_same_contents

_spec = importlib.util.spec_from_file_location("boxes", Path(__file__).with_name("boxes.py"))
assert _spec is not None and _spec.loader is not None
boxes = sys.modules["boxes"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(boxes)


def make_full() -> Collection:
    return Collection.from_arrays(
        {"vectors": vectors(7, 3), "marks": vectors(5, 2, seed=1)},
        vocab=["a", "naïve", "", "Σ", "b\nc", "f", "last"],
        records=[{"row": i, "text": "x" * i} for i in range(7)],
        ids=range(2**33, 2**33 + 7),
        metadata={"made": "by hand", "list": [1, None]},
    )


class TestBoxes(FormatSuite):
    format = boxes.FORMAT

    def samples(self) -> Iterator[Sample]:
        yield Sample("everything", make_full())
        yield Sample("everything in int8", make_full(), encoding="int8", tolerance={"vectors": 0.02, "marks": 0.02})
        yield Sample("one chunk", make_full(), encoding="int8", options={"chunk": 100}, tolerance=0.05)
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        yield Sample("one column", Collection.from_arrays(vectors(4, 3)))

    def protected(self, sample: Sample, data: bytes) -> list[range]:
        return [range(len(data))]  # there is a checksum on every byte

    def seal(self, data: bytes) -> bytes:
        if len(data) < boxes.HEADER.size:
            return data
        source = pv.open_source(data)
        header = boxes.HEADER.read(source)
        table = source.read_at(header["table"], header["chunks"] * boxes.CHUNK.size)
        header["sections_crc"] = crc32(
            b"".join(source.read_at(header[name], header[f"{name}_size"]) for name in boxes.SECTIONS)
        )
        header["header_crc"] = crc32(table, crc32(boxes.HEADER.pack({**header, "header_crc": 0})))
        return bytes(boxes.HEADER.pack(header)) + data[boxes.HEADER.size :]


@pytest.fixture(autouse=True)
def _boxes_known() -> Iterator[None]:
    with formats.registered(boxes.FORMAT):
        yield


@pytest.mark.parametrize("suffix", [".fbin", ".npy"])
def test_one_column_goes_through_a_plain_format_and_back(tmp_path: Path, suffix: str) -> None:
    first, plain, last = tmp_path / "a.boxes", tmp_path / f"b{suffix}", tmp_path / "c.boxes"
    pv.write(first, make_full())
    receipt = pv.convert(first, plain, column="vectors")
    assert receipt.loss is not None and receipt.loss.exact
    assert receipt.dropped == ("marks",)
    assert {name.removeprefix(plain.name) for name in receipt.sidecars} == {
        ".words.jsonl",
        ".records.jsonl",
        ".ids.npy",
        ".metadata.json",
    }
    pv.convert(plain, last)
    expected = make_full().select("vectors")
    with pv.open(last) as collection:
        assert_same_contents(collection, Sample("there and back", expected))


def test_two_columns_are_not_dropped_unasked(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.boxes", make_full())
    with pytest.raises(pv.LossyConversion, match=r"vectors.*marks.*--column"):
        pv.convert(tmp_path / "a.boxes", tmp_path / "b.fbin")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".fbin"] == []


def test_int8_chunks_decode_the_same_in_every_format(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.boxes", make_full(), encoding="int8")
    pv.convert(tmp_path / "a.boxes", tmp_path / "b.fbin", column="vectors")
    pv.convert(tmp_path / "a.boxes", tmp_path / "m.npy", column="marks")
    with pv.open(tmp_path / "a.boxes") as one:
        with pv.open(tmp_path / "b.fbin") as two:
            assert np.array_equal(one.vectors[:], two.vectors[:])
        assert np.array_equal(one["marks"][:], np.load(tmp_path / "m.npy"))
        assert {extent.codec.name for extent in one.vectors.extents()} == {"affine-uint8"}
        assert len({extent.codec for extent in one.vectors.extents()}) == 2  # a min and scale a chunk


def test_codes_pass_through_a_copy_unchanged(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.boxes", make_full(), encoding="int8")
    receipt = pv.convert(tmp_path / "a.boxes", tmp_path / "b.boxes")
    assert receipt.loss is not None and receipt.loss.exact
    assert (tmp_path / "a.boxes").read_bytes() == (tmp_path / "b.boxes").read_bytes()


def test_a_slice_and_a_merge_keep_words_and_records(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.boxes", make_full().select("vectors"))
    pv.split(tmp_path / "a.boxes", tmp_path / "part.boxes", rows=3)
    pv.merge(str(tmp_path / "part-*.boxes"), tmp_path / "b.boxes")
    with pv.open(tmp_path / "b.boxes") as collection:
        assert_same_contents(collection, Sample("merged", make_full().select("vectors")))


def test_a_flipped_payload_bit_is_told_with_its_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.boxes"
    pv.write(path, make_full())
    with pv.open(path) as collection:
        extent = list(collection.vectors.extents())[1]
    data = bytearray(path.read_bytes())
    data[extent.offset + 5] ^= 4
    path.write_bytes(bytes(data))
    report = pv.verify(path)
    assert not report.ok
    assert [finding.offset for finding in report.findings] == [extent.offset]
    assert "rows 4 to 6 fail their checksum" in report.findings[0].message
