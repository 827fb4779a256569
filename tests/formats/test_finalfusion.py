"""finalfusion: every chunk, both dialects, the golden files of the Python reference, and files that lie."""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs.product import Product
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import Corrupt, FormatError, InputError, LossyConversion, Truncated, Unsupported
from polyvec.core.subwords import BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer, Subwords
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.finalfusion import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
FILES = sorted(name for name in MANIFEST if name.endswith(".fifu"))
WORDS = ["Berlin", "Tübingen", "New York", "实验", "emoji😀x"]


def embeddings(
    indexer: Subwords | None = None,
    *,
    words: list[str] = WORDS,
    dim: int = 3,
    norms: bool = False,
    metadata: dict[str, Any] | None = None,
    seed: int = 0,
) -> Collection:
    columns: dict[str, Column] = {"vectors": ArrayColumn("vectors", vectors(len(words), dim, seed=seed))}
    if indexer is not None:
        columns["subwords"] = ArrayColumn("subwords", vectors(indexer.rows, dim, seed=seed + 1))
    if norms:
        columns["norms"] = ArrayColumn("norms", np.abs(vectors(len(words), 1, seed=seed + 2)[:, 0]))
    return Collection(columns, vocab=Vocab(words, subwords=indexer), metadata=metadata)


def quantized(*, projection: bool, norms: bool, rows: int = 3, indexer: Subwords | None = None) -> Collection:
    rng = np.random.default_rng(3)
    books = rng.standard_normal((2, 4, 1)).astype(np.float32)
    rotation = np.linalg.qr(rng.standard_normal((2, 2)))[0].astype(np.float32) if projection else None
    codec = Product(books, rotation, norms)

    def column(name: str, count: int) -> Column:
        parts = {"codes": rng.integers(0, 4, (count, 2)).astype(np.uint8)}
        if norms:
            parts["norms"] = rng.random(count).astype(np.float32)
        return ArrayColumn(name, parts["codes"], codec=codec, parts=parts, shape=(count, 2), encoding="pq")

    columns = {"vectors": column("vectors", rows)}
    if indexer is not None:
        columns["subwords"] = column("subwords", indexer.rows)
    return Collection(columns, vocab=Vocab([f"w{i}" for i in range(rows)], subwords=indexer))


def explicit() -> ExplicitIndexer:
    return ExplicitIndexer(3, 4, Strings.from_words(["<Be", "Ber", "erl", "lin>"]), np.array([0, 1, 0, 2]))


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


def test_norms_missing_from_the_header_are_found(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "simple_norms.fifu").read_bytes())
    start = MANIFEST["simple_norms.fifu"]["layout"]["chunks"][2]["offset"]
    short = struct.pack("<4sII2I", b"FiFu", 0, 2, 1, 2) + data[24:start]
    # Without its identifier all that follows moves by four bytes, which leaves the padding as it was.
    with pv.open(bytes(short + data[start:]), format="finalfusion") as collection:
        assert any("not listed" in note for note in collection.notes)
        with pv.open(GOLDEN / "simple_norms.fifu") as listed:
            assert collection["norms"].to_numpy().tobytes() == listed["norms"].to_numpy().tobytes()


def test_unknown_chunks_are_reported_and_kept(tmp_path: Path) -> None:
    data = (GOLDEN / "pad_0.fifu").read_bytes()
    extra = struct.pack("<IQ", 77, 8) + b"whatever"
    before = struct.pack("<4sII3I", b"FiFu", 0, 3, 77, 1, 2) + extra + data[20:]
    after = struct.pack("<4sII3I", b"FiFu", 0, 3, 1, 2, 77) + data[20:] + extra
    for moved in (before, after):
        moved_pad = moved  # both insertions are multiples of four, so padding is unchanged
        with pv.open(moved_pad, format="finalfusion") as collection:
            assert any("77" in note for note in collection.notes)
            pv.write(tmp_path / "kept.fifu", collection, durable=False)
        assert (tmp_path / "kept.fifu").read_bytes() == moved


def test_bytes_after_the_last_chunk_are_a_warning() -> None:
    with pytest.warns(pv.FormatWarning, match="5 bytes after the last chunk"):
        pv.open((GOLDEN / "simple.fifu").read_bytes() + b"extra", format="finalfusion").close()


def test_changed_metadata_is_written_anew_and_unchanged_kept_as_text(tmp_path: Path) -> None:
    with pv.open(GOLDEN / "simple_meta_norms.fifu") as collection:
        collection.metadata["description"] = 'a "new" one\n'
        pv.write(tmp_path / "m.fifu", collection, durable=False)
    with pv.open(tmp_path / "m.fifu") as again:
        assert again.metadata["description"] == 'a "new" one\n'
        assert again.metadata["hyperparameters"] == {"ns": 5, "lr": 0.025, "list": [1, 2, 3]}


def test_explicit_rows_are_written_in_order_of_first_appearance(tmp_path: Path) -> None:
    indexer = ExplicitIndexer(3, 3, Strings.from_words(["<Be", "Ber", "erl"]), np.array([2, 0, 1]))
    collection = embeddings(indexer)
    rows = collection["subwords"].to_numpy()
    pv.write(tmp_path / "e.fifu", collection, durable=False, measure=False)
    with pv.open(tmp_path / "e.fifu") as again:
        assert again.vocab.subwords.targets.tolist() == [0, 1, 2]
        assert again["subwords"].to_numpy().tolist() == rows[[2, 0, 1]].tolist()


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


@pytest.mark.parametrize("indexer", [None, BucketIndexer(3, 6, 2)])
def test_the_document_dialect_is_what_the_document_says(indexer: Subwords | None, tmp_path: Path) -> None:
    collection = embeddings(indexer, words=["a", "bcd"])
    pv.write(tmp_path / "d.fifu", collection, dialect="document", normalize=False, durable=False)
    data = (tmp_path / "d.fifu").read_bytes()
    assert struct.unpack_from("<4sII2I", data) == (b"FiFu", 0, 2, 3 if indexer else 0, 1)
    vocab = struct.unpack_from("<IQ" + ("IIIQ" if indexer else "Q"), data, 20)
    assert vocab[2:] == ((3, 6, 2, 2) if indexer else (2,))
    start = 20 + 12 + vocab[1]
    chunk, length, rows, cols, kind = struct.unpack_from("<IQQII", data, start)
    assert (chunk, rows, cols, kind) == (1, 6 if indexer else 2, 3, 10)
    begin = start + 28 + -(start + 28) % 4  # to a multiple, nothing where it is one already
    assert length == begin - start - 12 + rows * cols * 4
    assert len(data) == begin + rows * cols * 4
    wanted = collection.vectors.to_numpy().tobytes()
    assert data[begin : begin + len(wanted)] == wanted


def test_the_document_has_no_word_for_other_vocabularies(tmp_path: Path) -> None:
    for indexer in (FastTextIndexer(3, 6, 4), explicit()):
        with pytest.raises(InputError, match="the document has no"):
            pv.write(tmp_path / "d.fifu", embeddings(indexer), dialect="document")
    with pytest.raises(InputError, match="dialect"):
        pv.write(tmp_path / "d.fifu", embeddings(), dialect="other")


def test_a_document_matrix_with_both_flags_off_may_still_hold_both(tmp_path: Path) -> None:
    pv.write(tmp_path / "d.fifu", quantized(projection=True, norms=True), dialect="document", durable=False)
    data = bytearray((tmp_path / "d.fifu").read_bytes())
    with pv.open(tmp_path / "d.fifu") as collection:
        codes = next(collection.vectors.blocks()).parts["codes"]
    flags = data.index(struct.pack("<IIIII", 1, 1, 2, 2, 4))
    data[flags : flags + 8] = bytes(8)
    with pv.open(bytes(data), format="finalfusion") as collection:
        block = next(collection.vectors.blocks())
        assert block.parts["codes"].tobytes() == codes.tobytes()
        assert collection.vectors.codec.projection is None and not collection.vectors.codec.norms


def test_half_floats_become_float32_exactly(tmp_path: Path) -> None:
    rows = vectors(4, 3, np.float16)
    receipt = pv.write(tmp_path / "h.fifu", rows, vocab=list("abcd"), normalize=False, durable=False)
    assert receipt.loss.exact
    with pv.open(tmp_path / "h.fifu") as collection:
        assert collection.vectors.dtype == np.float32


def test_rows_without_words_are_named_by_their_number(tmp_path: Path) -> None:
    pv.write(tmp_path / "n.fifu", vectors(3, 2), durable=False)
    with pv.open(tmp_path / "n.fifu") as collection:
        assert list(collection.vocab) == ["0", "1", "2"]


def test_normalize_keeps_the_lengths_as_norms(tmp_path: Path) -> None:
    rows = vectors(20, 5) * 3
    pv.write(tmp_path / "n.fifu", rows, vocab=[f"w{i}" for i in range(20)], normalize=True, durable=False)
    with pv.open(tmp_path / "n.fifu") as collection:
        unit, norms = collection.vectors.to_numpy(), collection["norms"].to_numpy()
        assert np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
        assert np.allclose(unit * norms[:, None], rows, rtol=1e-6)


def test_a_column_that_has_no_place_is_not_lost_silently(tmp_path: Path) -> None:
    collection = Collection.from_arrays({"vectors": vectors(2, 3), "other": vectors(2, 3)}, vocab=["a", "b"])
    with pytest.raises(LossyConversion, match="other"):
        pv.write(tmp_path / "x.fifu", collection)


def test_quantised_storage_is_kept_or_decoded_as_asked(tmp_path: Path) -> None:
    collection = quantized(projection=True, norms=True)
    pv.write(tmp_path / "q.fifu", collection, durable=False)
    pv.convert(tmp_path / "q.fifu", tmp_path / "kept.fifu", durable=False)
    assert (tmp_path / "kept.fifu").read_bytes() == (tmp_path / "q.fifu").read_bytes()
    pv.convert(tmp_path / "q.fifu", tmp_path / "raw.fifu", encoding="raw", durable=False)
    with pv.open(tmp_path / "q.fifu") as one, pv.open(tmp_path / "raw.fifu") as two:
        assert two.vectors.encoding == "raw"
        assert one.vectors.to_numpy().tobytes() == two.vectors.to_numpy().tobytes()


# -- files that lie


def simple(
    words: Sequence[bytes] = (b"a", b"b"),
    *,
    matrix: bytes | None = None,
    ids: tuple[int, ...] = (1, 2),
    extra: bytes = b"",
) -> bytes:
    """A file by hand: the vocabulary chunk, then `matrix` or one float a word."""
    table = b"".join(struct.pack("<I", len(w)) + w for w in words)
    data = struct.pack(f"<4sII{len(ids)}I", b"FiFu", 0, len(ids), *ids)
    data += struct.pack("<IQQ", 1, 8 + len(table), len(words)) + table
    if matrix is None:
        pad = 4 - (len(data) + 28) % 4
        matrix = struct.pack("<IQQII", 2, 16 + pad + 4 * len(words), len(words), 1, 10) + bytes(pad + 4 * len(words))
    return data + matrix + extra


def dense(offset: int, *, rows: int = 2, cols: int = 1, kind: int = 10, size: int = 8) -> bytes:
    pad = 4 - (offset + 28) % 4
    return struct.pack("<IQQII", 2, 16 + pad + size, rows, cols, kind) + bytes(pad + size)


OFFSET = len(simple(matrix=b""))


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (b"FiFx" + simple()[4:], Corrupt, "magic"),
        (simple()[:4] + struct.pack("<I", 1) + simple()[8:], Unsupported, "version"),
        (simple()[:8] + struct.pack("<I", 2**32 - 1) + simple()[12:], Corrupt, "n_chunks"),
        (simple([b"a", b"\xff"]), Corrupt, "word 1"),
        (simple([b"a", b""]), Corrupt, "word 1"),
        (simple([b"a", b"b", b"c"], matrix=dense(OFFSET + 5)), Corrupt, "matrix.rows"),
        (simple(matrix=dense(OFFSET, rows=1, size=4)), Corrupt, "matrix.rows"),
        (simple(matrix=dense(OFFSET, rows=2**63)), Corrupt, "matrix.rows, matrix.cols"),
        (simple(matrix=dense(OFFSET, kind=12)), Corrupt, "type"),
        (simple(matrix=dense(OFFSET, kind=8)), Unsupported, "type"),
        (simple(matrix=dense(OFFSET, kind=9)), Unsupported, "type"),
        (simple(matrix=dense(OFFSET, cols=0, size=0)), Corrupt, "matrix.cols"),
        (simple(ids=(2, 1)), Corrupt, "chunk.id"),
        (simple(ids=(1, 1), matrix=simple()[20:]), Corrupt, "chunk.id"),
        (simple(ids=(1,), matrix=b""), Corrupt, "chunk_ids"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 1) + struct.pack("<IQQI", 1, 12, 1, 2**32 - 1), Truncated, "word 0"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 1) + struct.pack("<IQQI", 1, 12, 2**63, 0), Truncated, "vocab.words"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 5) + struct.pack("<IQ", 5, 5) + b"a = =", Corrupt, "metadata"),
        (struct.pack("<4sIII", b"FiFu", 0, 1, 5) + struct.pack("<IQ", 5, 2) + b"\xff\xff", Corrupt, "metadata"),
        (
            struct.pack("<4sIII", b"FiFu", 0, 1, 3) + struct.pack("<IQQIII", 3, 20, 0, 6, 3, 2),
            Corrupt,
            "vocab.min_n, vocab.max_n",
        ),
        (
            struct.pack("<4sIII", b"FiFu", 0, 1, 3) + struct.pack("<IQQIII", 3, 20, 0, 3, 6, 64),
            Corrupt,
            "vocab.bucket_exp",
        ),
    ],
)
def test_a_lie_is_a_format_error_with_its_field(data: bytes, error: type[FormatError], field: str) -> None:
    with pytest.raises(error) as caught:
        pv.open(data, format="finalfusion")
    assert caught.value.field == field
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (8, 3, "quantized.quantized_len"),
        (16, 257, "quantized.n_centroids"),
        (16, 0, "quantized.n_centroids"),
        (0, 2, "quantized.projection"),
        (28, 3, "quantized.quantized_type"),
        (32, 11, "quantized.reconstructed_type"),
        (8, 0, "quantized.quantized_len"),
    ],
)
def test_a_quantised_matrix_that_lies_is_refused(place: int, value: int, field: str) -> None:
    data = bytearray((GOLDEN / "pq_proj1_norms1.fifu").read_bytes())
    start = MANIFEST["pq_proj1_norms1.fifu"]["layout"]["chunks"][1]["offset"] + 12
    struct.pack_into("<I", data, start + place, value)
    with pytest.raises(FormatError) as caught:
        pv.open(bytes(data), format="finalfusion")
    assert caught.value.field == field


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


def test_lossy_replaces_invalid_words_and_keeps_empty_ones() -> None:
    with pv.open(simple([b"a\xff", b""]), format="finalfusion", lossy=True) as collection:
        assert list(collection.vocab) == ["a�", ""]
        assert collection.vocab.index("a�") == 0
