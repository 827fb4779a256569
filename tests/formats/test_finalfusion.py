"""finalfusion: every chunk, both dialects, the golden files of the Python reference, and files that lie."""

from __future__ import annotations

import hashlib
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt
from polyvec.core.subwords import BucketIndexer, FastTextIndexer, FloretIndexer
from polyvec.formats.finalfusion import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors

sys.path.insert(0, str(Path(__file__).parent / "finalfusion"))
from fifu import GOLDEN, MANIFEST, embeddings, explicit, quantized, simple

FILES = sorted(name for name in MANIFEST if name.endswith(".fifu"))


class TestFinalfusion(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        metadata = {"name": "golden", "lr": 0.025, "flag": True, "args": {"ns": 5, "list": [1, 2]}, 'a "key"': "ü\n"}
        yield Sample("simple", embeddings(norms=True, metadata=metadata))
        yield Sample("bucket", embeddings(BucketIndexer(3, 6, 2), norms=True))
        yield Sample("fasttext", embeddings(FastTextIndexer(2, 5, 5)), options={"normalize": False})
        yield Sample("explicit", embeddings(explicit()), options={"normalize": False})
        yield Sample("floret", embeddings(FloretIndexer(2, 3, 4, 2, bow="‹"), words=[]))
        yield Sample("no words", embeddings(words=[]))
        yield Sample("quantized", quantized(projection=False, norms=False))
        yield Sample(
            "quantized, projection and norms", quantized(projection=True, norms=True, indexer=BucketIndexer(3, 6, 1))
        )
        for name in ("i1", "u2", "f8"):
            rows = Collection.from_arrays(vectors(2, 2, np.dtype(name)), vocab=["a", "b"])
            yield Sample(f"type {name}", rows, options={"normalize": False})
        yield Sample(
            "type i8, document",
            Collection.from_arrays(vectors(2, 2, np.int64), vocab=["a", "b"]),
            options={"dialect": "document", "normalize": False},
        )
        rows = Collection.from_arrays(vectors(9, 4), vocab=[f"word{row}" for row in range(9)])
        asked = {"parts": 2, "bits": 2, "normalize": False}
        yield Sample("encoded", rows, encoding="pq", options=asked, tolerance=9.0)
        yield Sample("document", embeddings(norms=True, metadata={"x": 1}), options={"dialect": "document"})
        yield Sample(
            "document, bucket", embeddings(BucketIndexer(3, 6, 1)), options={"dialect": "document", "normalize": False}
        )
        yield Sample("document, quantized", quantized(projection=True, norms=True), options={"dialect": "document"})

    def hostile_files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        yield "billions of chunks", data[:8] + struct.pack("<I", 2**31) + data[12:]
        yield "no chunks", data[:8] + struct.pack("<I", 0) + data[12:]
        for at in range(12, min(len(data) - 8, 100), 4):
            yield f"2^63 at {at}", data[:at] + struct.pack("<Q", 2**63) + data[at + 8 :]


# -- golden files


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.FormatWarning)
        yield


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_reads_as_its_writer_says(name: str) -> None:
    told = MANIFEST[name]["loaded"]
    with pv.open(GOLDEN / name) as collection:
        assert hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest() == MANIFEST[name]["sha256"]
        assert collection.rows == told["n_words"]
        assert collection.dim == told["dims"]
        assert collection.vocab[: len(told["words_head"])] == told["words_head"]
        assert sum(c.rows for n, c in collection.columns.items() if n != "norms") == told["shape"][0]
        rows = collection.vectors.to_numpy()
        for word, vector in told["vectors"].items():
            found = rows[collection.vocab.index(word)][:10]
            if name.startswith("pq_"):
                assert np.allclose(found, vector, atol=1e-6)
            else:
                assert found.tolist() == vector
        for word, norm in told.get("norms", {}).items():
            assert float(collection["norms"][collection.vocab.index(word)]) == norm
        assert collection.metadata == (told["metadata"] or {})


@pytest.mark.parametrize("name", FILES)
def test_the_byte_map_is_the_writers(name: str) -> None:
    spans = FORMAT.layout(pv.open_source(GOLDEN / name))
    places = {span.offset for span in spans}
    for chunk in MANIFEST[name]["layout"]["chunks"]:
        assert chunk["offset"] in places
        if "data_offset" in chunk:
            assert chunk["data_offset"] in places
    at = 0
    for span in spans:
        assert span.offset == at, span
        at += span.size
    assert at == MANIFEST[name]["bytes"]


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_is_rewritten_byte_for_byte(name: str, tmp_path: Path) -> None:
    with pv.open(GOLDEN / name) as collection:
        pv.write(tmp_path / "again.fifu", collection, durable=False)
        again = (tmp_path / "again.fifu").read_bytes()
        original = (GOLDEN / name).read_bytes()
        if not name.startswith("explicit"):
            assert again == original
            return
        # That writer's length is short by 8 bytes an n-gram; ours is right, and all else is the same.
        ours, theirs = bytearray(again), bytearray(original)
        place = MANIFEST[name]["layout"]["chunks"][0]["offset"] + 4
        chunk = MANIFEST[name]["layout"]["chunks"][0]
        assert struct.unpack_from("<Q", ours, place)[0] == chunk["actual_len"]
        assert struct.unpack_from("<Q", theirs, place)[0] == chunk["declared_len"]
        ours[place : place + 8] = theirs[place : place + 8]
        assert ours == theirs
        assert any("short" in note for note in collection.notes)


@pytest.mark.parametrize("name", [n for n in FILES if "oov" in MANIFEST[n]["loaded"]])
def test_unknown_words_index_the_writers_rows(name: str) -> None:
    told = MANIFEST[name]["loaded"]
    with pv.open(GOLDEN / name) as collection:
        subwords = collection.vocab.subwords
        for word, answer in told["oov"].items():
            wanted = [] if answer is None else answer["indices"]
            assert (subwords.indices(word) + collection.rows).tolist() == wanted


# -- what real files do


def test_explicit_rows_with_gaps_are_numbered_by_first_appearance() -> None:
    data = bytearray((GOLDEN / "explicit_shared.fifu").read_bytes())
    with pv.open(bytes(data), format="finalfusion") as collection:
        indexer = collection.vocab.subwords
        stops, targets = indexer.ngrams.stops.copy(), indexer.targets.copy()
    for stop, target in zip(stops, targets):
        struct.pack_into("<Q", data, int(stop), int(target) * 10 + 7)
    with pv.open(bytes(data), format="finalfusion") as collection:
        assert collection.vocab.subwords.targets.tolist() == targets.tolist()
        assert any("gaps" in note for note in collection.notes)


def test_normalize_keeps_the_lengths_as_norms(tmp_path: Path) -> None:
    rows = vectors(20, 5) * 3
    pv.write(tmp_path / "n.fifu", rows, vocab=[f"w{i}" for i in range(20)], normalize=True, durable=False)
    with pv.open(tmp_path / "n.fifu") as collection:
        unit, norms = collection.vectors.to_numpy(), collection["norms"].to_numpy()
        assert np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
        assert np.allclose(unit * norms[:, None], rows, rtol=1e-6)


# -- files that lie


def test_a_code_beyond_the_centroids_is_an_error_when_it_is_read() -> None:
    data = bytearray((GOLDEN / "pq_proj0_norms0.fifu").read_bytes())
    data[-1] = 16
    opened = pv.open(bytes(data), format="finalfusion")
    with opened as collection, pytest.raises(Corrupt, match="names no centroid") as caught:
        collection.vectors.to_numpy()
    assert (caught.value.offset, caught.value.field) == (len(data) - 1, "codes")
    assert not pv.verify(pv.open_source(bytes(data))).ok


def test_duplicates_are_handled_and_reported() -> None:
    data = simple([b"a", b"a"])
    with pv.open(data, format="finalfusion") as collection:
        assert collection.vocab.index("a") == 0
        assert collection.vocab.duplicates.tolist() == [1]
    report = pv.verify(pv.open_source(data))
    assert not report.ok and "stand twice" in report.findings[0].message
