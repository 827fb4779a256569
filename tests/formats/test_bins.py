"""FBIN, IBIN and kin."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.bins import FORMAT, TYPES
from polyvec.testing import FormatSuite, Sample, strategies, vectors
from polyvec.testing.contents import assert_same_contents


class TestBins(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        for kind in ("fbin", "ibin", "u8bin", "i8bin", "f16bin", "dbin", "u32bin"):
            rows = vectors(5, 3, np.dtype(TYPES[kind]))
            yield Sample(kind, Collection.from_arrays(rows), suffix=f".{kind}")
        yield Sample("empty", Collection.from_arrays(vectors(0, 3)), suffix=".fbin")
        words = ["a", "naïve", "Σ", "", "last"]
        full = Collection.from_arrays(
            vectors(5, 3),
            vocab=words,
            ids=[5, 4, 3, 2, 2**40],
            metadata={"k": [1, None, "ü"]},
            records=[{"row": i, "text": "x" * i} for i in range(5)],
        )
        yield Sample("with all that goes into sidecars", full, suffix=".fbin")
        large = vectors(700, 3)
        large[3] = np.nan
        large[4] = np.inf
        yield Sample("large", Collection.from_arrays(large), suffix=".fbin")

    def hostile_files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        for n in (0, 1, 2**32 - 1, 2**63, 2**64 - 1):
            for d in (0, 1, 2**32 - 1, 2**62, 2**64 - 1):
                yield f"64-bit header of {n} x {d}", struct.pack("<QQ", n, d)
                yield f"32-bit header of {n} x {d}", struct.pack("<II", n % 2**32, d % 2**32) + data[8:]


BY_HAND = {
    "fbin": ("<f4", struct.pack("<II6f", 2, 3, 1, -2, 0.5, 3, 4, -0.0)),
    "ibin": ("<i4", struct.pack("<II6i", 2, 3, 1, -2, 5, 2**31 - 1, -(2**31), 0)),
    "i32bin": ("<i4", struct.pack("<II6i", 2, 3, 1, -2, 5, 2**31 - 1, -(2**31), 0)),
    "u32bin": ("<u4", struct.pack("<II6I", 2, 3, 1, 2, 5, 2**32 - 1, 0, 0)),
    "u8bin": ("|u1", struct.pack("<II6B", 2, 3, 1, 2, 5, 255, 0, 0)),
    "i8bin": ("|i1", struct.pack("<II6b", 2, 3, 1, -2, 5, 127, -128, 0)),
    "f16bin": ("<f2", struct.pack("<II6e", 2, 3, 1, -2, 0.5, 65504, 6e-8, 0)),
    "hbin": ("<f2", struct.pack("<II6e", 2, 3, 1, -2, 0.5, 65504, 6e-8, 0)),
    "dbin": ("<f8", struct.pack("<II6d", 2, 3, 1, -2, 0.5, 1e300, 5e-324, 0)),
}


@pytest.mark.parametrize("kind", list(BY_HAND))
def test_bytes_packed_by_hand_are_read_and_written_as_they_are(kind: str, tmp_path: Path) -> None:
    dtype, data = BY_HAND[kind]
    path = tmp_path / f"hand.{kind}"
    path.write_bytes(data)
    expected = np.frombuffer(data, dtype, offset=8).reshape(2, 3)
    with pv.open(path) as collection:
        assert collection.vectors.dtype == np.dtype(dtype)
        assert np.array_equal(collection.vectors[:], expected)
    pv.write(tmp_path / f"ours.{kind}", expected)
    assert (tmp_path / f"ours.{kind}").read_bytes() == data


def test_a_64_bit_header_is_chosen_by_the_file_size() -> None:
    data = struct.pack("<QQ6f", 2, 3, *range(6))
    with pv.open(pv.open_source(data, name="wide.fbin")) as collection:
        assert np.array_equal(collection.vectors[:], np.arange(6, dtype=np.float32).reshape(2, 3))


def test_the_mark_of_a_cropped_download_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "base.fbin.crop_nb_2"
    path.write_bytes(BY_HAND["fbin"][1])
    with pv.open(path) as collection:
        assert collection.vectors.shape == (2, 3) and collection.vectors.dtype == np.float32


def test_missing_bytes_are_truncated_and_lenient_takes_whole_rows() -> None:
    source = pv.open_source(BY_HAND["fbin"][1][:-5], name="cut.fbin")
    with pytest.raises(pv.Truncated, match=r"expected 32 bytes, found 27 bytes.*--lenient"):
        pv.open(source)
    with pytest.warns(pv.FormatWarning, match="1 of 2 rows"), pv.open(source, lenient=True) as collection:
        assert collection.vectors.shape == (1, 3)


def test_extra_bytes_are_a_warning_with_their_offset() -> None:
    source = pv.open_source(BY_HAND["fbin"][1] + b"more", name="long.fbin")
    with pytest.warns(pv.FormatWarning, match="4 extra bytes after the last row, from byte 32"):
        assert pv.open(source).rows == 2


def test_without_a_suffix_every_layout_that_fits_is_named() -> None:
    with pytest.raises(pv.AmbiguousFormat, match=r"fbin, ibin, u32bin.*--from fbin"):
        pv.open(pv.open_source(BY_HAND["fbin"][1], name="base"))


@given(collection=strategies.collections(finite=False))
@settings(max_examples=60, deadline=None)
def test_any_collection_comes_back_with_its_sidecars(collection: pv.Collection) -> None:
    kinds = {np.dtype(code): kind for kind, code in reversed(TYPES.items())}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/any.{kinds[collection.vectors.dtype]}"
        pv.write(path, collection, durable=False, measure=False)
        with pv.open(path) as found:
            assert_same_contents(found, Sample("any", collection))
