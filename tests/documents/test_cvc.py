"""The CVC document: its Python blocks run as they stand, its JSON blocks are files, its clauses are checked.

Only the package's name, the sizes (a million vectors take 3 GB) and the folder are mapped.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.core.errors import DeviceWarning
from polyvec.formats.cvc.header import read_header
from polyvec.testing import MemorySource, vectors

CREATING = """
import numpy as np
from decompressed import pack_cvc

embeddings = np.random.randn(1_000_000, 768).astype(np.float32)

# FP16
pack_cvc(
    embeddings,
    output_path="embeddings_fp16.cvc",
    compression="fp16",
    chunk_size=100_000,
)

# INT8
pack_cvc(
    embeddings,
    output_path="embeddings_int8.cvc",
    compression="int8",
    chunk_size=100_000,
)
"""

LOADING = """
from decompressed import load_cvc

# CPU (NumPy)
vectors_cpu = load_cvc("embeddings_fp16.cvc", device="cpu")
"""

LOADING_GPU = """
# GPU (PyTorch + Triton backend)
vectors_torch = load_cvc(
    "embeddings_fp16.cvc",
    device="cuda",
    framework="torch",
    backend="auto",  # prefers CUDA, falls back to Triton
)
"""

LOADING_CUPY = """
# GPU (CuPy)
vectors_cupy = load_cvc(
    "embeddings_fp16.cvc",
    device="cuda",
    framework="cupy",
    backend="triton",
)
"""


def run(block: str, names: dict[str, object] | None = None) -> dict[str, object]:
    found: dict[str, object] = dict(names or {})
    mapped = (
        block.replace("from decompressed", "from polyvec.cvc").replace("1_000_000", "2_000").replace("100_000", "300")
    )
    exec(mapped, found)
    return found


@pytest.fixture
def created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)
    return run(CREATING)


def test_the_blocks_that_create_and_load(created: dict[str, object]) -> None:
    loaded = run(LOADING)["vectors_cpu"]
    embeddings = created["embeddings"]
    assert isinstance(loaded, np.ndarray) and isinstance(embeddings, np.ndarray)
    assert loaded.dtype == np.float32 and np.array_equal(loaded, embeddings.astype(np.float16).astype(np.float32))
    assert np.abs(cvc.load_cvc("embeddings_int8.cvc") - embeddings).max() < 0.025


def test_the_blocks_that_load_to_a_gpu(created: dict[str, object]) -> None:
    if not cvc.get_available_backends()["triton"]:
        with pytest.warns(DeviceWarning, match="loaded on the CPU instead"):
            here = run(LOADING_GPU, {"load_cvc": cvc.load_cvc})["vectors_torch"]
        assert np.array_equal(np.asarray(here), cvc.load_cvc("embeddings_fp16.cvc"))
        with pytest.raises(pv.PolyvecError):  # a backend named by its name is not replaced by another
            run(LOADING_CUPY, {"load_cvc": cvc.load_cvc})
        pytest.skip(str(cvc.get_backend_errors()["triton"]))
    on_gpu = run(LOADING_GPU, {"load_cvc": cvc.load_cvc})["vectors_torch"]
    assert np.array_equal(on_gpu.cpu().numpy(), cvc.load_cvc("embeddings_fp16.cvc"))  # type: ignore[attr-defined]
    pytest.importorskip("cupy")
    on_gpu = run(LOADING_CUPY, {"load_cvc": cvc.load_cvc})["vectors_cupy"]
    assert np.array_equal(on_gpu.get(), cvc.load_cvc("embeddings_fp16.cvc"))  # type: ignore[attr-defined]


def document_file(header: dict[str, object], payloads: list[bytes]) -> bytes:
    """Magic, header length, JSON, then length and payload of each chunk: the document's diagram."""
    text = json.dumps(header).encode("utf-8")
    chunks = b"".join(struct.pack("<I", len(payload)) + payload for payload in payloads)
    return b"CVCF" + struct.pack("<I", len(text)) + text + chunks


def test_the_header_example_with_mixed_compression() -> None:
    """Its counts, cut from 100,000 rows of 768 to 2 of 4, and its second chunk as it stands."""
    header = {
        "num_vectors": 4,
        "dimension": 4,
        "compression": "fp16",
        "chunks": [
            {"rows": 2, "compression": "fp16"},
            {"rows": 2, "compression": "int8", "min": -0.5, "scale": 0.00392156862},
        ],
    }
    half, codes = vectors(2, 4).astype("<f2"), np.arange(8, dtype=np.uint8).reshape(2, 4) * 36
    with pv.open(document_file(header, [half.tobytes(), codes.tobytes()])) as found:
        rows = found.vectors.to_numpy()
    assert np.array_equal(rows[:2], half.astype(np.float32))
    expected = codes.astype(np.float32) * np.float32(0.00392156862) + np.float32(-0.5)
    assert np.array_equal(rows[2:], expected)


def test_the_columnar_example_with_its_offsets() -> None:
    """768, 512 and 1 values a row, fp16, int8 and int32, at the offsets the document computes (100,000 rows there)."""
    rows = 3
    text, codes = vectors(rows, 768).astype("<f2"), np.arange(rows * 512, dtype=np.int64) % 256
    ids = np.array([1, 2**24 + 1, -7], "<i4")
    sizes = [153600000 * rows // 100000, 51200000 * rows // 100000, 400000 * rows // 100000]
    payload = text.tobytes() + codes.astype(np.uint8).tobytes() + ids.tobytes()
    assert [text.nbytes, codes.size, ids.nbytes] == sizes
    header = {
        "format_type": "columnar",
        "num_vectors": rows,
        "columns": [
            {"name": "text", "dimension": 768, "dtype": "float32", "compression": "fp16"},
            {"name": "image", "dimension": 512, "dtype": "float32", "compression": "int8"},
            {"name": "doc_id", "dimension": 1, "dtype": "int32", "compression": "none"},
        ],
        "chunks": [
            {
                "rows": rows,
                "columns": {
                    "text": {"offset": 0, "size": sizes[0], "compression": "fp16"},
                    "image": {
                        "offset": sizes[0],
                        "size": sizes[1],
                        "compression": "int8",
                        "min": -1.0,
                        "scale": 0.00784,
                    },
                    "doc_id": {"offset": sizes[0] + sizes[1], "size": sizes[2], "compression": "none"},
                },
            }
        ],
    }
    versioned = json.dumps(header).encode()
    data = b"CVCF" + struct.pack("<HHI", 2, 0, len(versioned)) + versioned
    data += struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
    for file in (data, document_file(header, [payload])):
        with pv.open(file) as found:
            assert np.array_equal(found["text"].to_numpy(), text.astype(np.float32))
            image = codes.reshape(rows, 512).astype(np.float32) * np.float32(0.00784) + np.float32(-1.0)
            assert np.array_equal(found["image"].to_numpy(), image)
            assert found["doc_id"].to_numpy().tolist() == ids.tolist()


def test_the_mmap_example_with_a_file_offset() -> None:
    half = vectors(2, 4).astype("<f2")
    header = {
        "num_vectors": 2,
        "dimension": 4,
        "compression": "fp16",
        "mmap_optimized": True,
        "chunks": [{"file_offset": 4096, "rows": 2}],
    }
    text = json.dumps(header).encode()
    data = (b"CVCF" + struct.pack("<I", len(text)) + text).ljust(4096, b"\0")
    data += struct.pack("<I", half.nbytes) + half.tobytes()
    with pv.open(data) as found:
        assert np.array_equal(found.vectors.to_numpy(), half.astype(np.float32))


def test_sizes_are_those_of_the_tables(tmp_path: Path) -> None:
    rows = vectors(5000, 64)
    for compression, share in (("fp16", 0.5), ("int8", 0.25)):
        cvc.pack_cvc(rows, tmp_path / "a.cvc", compression=compression)
        assert (tmp_path / "a.cvc").stat().st_size / rows.nbytes == pytest.approx(share, rel=0.01)


def test_the_quantization_process_step_by_step(tmp_path: Path) -> None:
    rows = vectors(500, 16)
    cvc.pack_cvc(rows, tmp_path / "a.cvc", compression="int8", chunk_size=200)
    with pv.open_source(tmp_path / "a.cvc") as source:
        for chunk in read_header(source).chunks:
            piece = rows[chunk.start : chunk.start + chunk.rows]
            low, high = piece.min(), piece.max()
            scale = np.float32((high - low) / np.float32(255))
            assert (chunk.entry["min"], chunk.entry["scale"]) == (float(low), float(scale))
            codes = np.clip(np.rint((piece - low) / scale), 0, 255).astype(np.uint8)
            assert source.read_at(chunk.payload, chunk.size) == codes.tobytes()


def test_readers_reject_bad_magic_missing_chunks_and_truncation() -> None:
    header = {"num_vectors": 2, "dimension": 4, "compression": "fp16", "chunks": [{"rows": 1}, {"rows": 1}]}
    good = document_file(header, [bytes(8), bytes(8)])
    read_header(MemorySource(good, "a.cvc"))
    for bad in (b"XVCF" + good[4:], good[:-12], good[:-1], document_file(header | {"num_vectors": 3}, [bytes(8)] * 2)):
        with pytest.raises(pv.FormatError):
            read_header(MemorySource(bad, "a.cvc"))


def test_unknown_fields_are_ignored_and_unknown_compressions_refused() -> None:
    header = {"num_vectors": 1, "dimension": 4, "compression": "fp16", "new": [1], "chunks": [{"rows": 1, "later": {}}]}
    assert read_header(MemorySource(document_file(header, [bytes(8)]), "a.cvc")).rows == 1
    for name in ("int4", "fp8", "", None):
        with pytest.raises(pv.Unsupported, match="unknown compression"):
            read_header(MemorySource(document_file(header | {"compression": name}, [bytes(8)]), "a.cvc"))
