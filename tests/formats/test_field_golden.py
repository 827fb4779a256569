"""Files that other programs wrote, read as what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = np.array(
    [
        [-1.0, 0.75, -1.75, -1.25],
        [-0.75, -0.75, 1.75, 1.25],
        [1.75, 2.0, -1.75, -1.5],
        [1.5, -1.75, -1.5, -1.25],
        [1.75, -0.5, -1.0, -1.5],
        [-0.25, 0.5, 1.25, 0.5],
    ],
    np.float32,
)
IDS = np.array([[2, 0, 3], [2, 4, 1]])
NEAR = np.array([[0.0, 0.125, 0.25], [0.375, 0.5, 0.625]], np.float32)
FILES = [
    ("hdf5/ann_benchmarks.hdf5", {"train": ROWS, "test": ROWS[:2] * 2, "neighbors": IDS, "distances": NEAR}, "train"),
    ("hdf5/chunked_gzip.h5", {"group/vectors": ROWS}, "group/vectors"),
    ("parquet/vectordbbench_train.parquet", {"emb": ROWS}, "emb"),
    ("parquet/vectordbbench_neighbors.parquet", {"neighbors_id": IDS}, "neighbors_id"),
    ("parquet/polars_array.parquet", {"vector": ROWS}, "vector"),
    ("arrow/pyarrow_file.arrow", {"emb": ROWS}, "emb"),
    ("arrow/polars_stream.arrows", {"vector": ROWS}, "vector"),
    ("safetensors/numpy.safetensors", {"embeddings": ROWS, "counts": np.arange(5)}, "embeddings"),
    ("npz/savez.npz", {"labels": np.arange(6), "emb": ROWS}, "emb"),
    ("npz/savez_compressed.npz", {"emb": ROWS}, "emb"),
    ("bins/usearch.fbin", {"vectors": ROWS}, "vectors"),
    ("bins/usearch.hbin", {"vectors": ROWS.astype(np.float16)}, "vectors"),
    ("bins/usearch.dbin", {"vectors": ROWS.astype(np.float64)}, "vectors"),
    ("bins/usearch.i8bin", {"vectors": (ROWS * 4).astype(np.int8)}, "vectors"),
    ("bins/usearch.ibin", {"ids": IDS.astype(np.int32)}, "ids"),
    ("bins/bigann.u8bin", {"vectors": (np.abs(ROWS) * 4).astype(np.uint8)}, "vectors"),
    ("truth/bigann.gt", {"ids": IDS.astype(np.int32), "distances": NEAR}, "ids"),
    (
        "ranges/bigann.range",
        {"counts": np.int32([2, 0, 1]), "ids": np.int32([5, 3, 1]), "distances": np.float32([0.125, 0.5, 0.25])},
        "ids",
    ),
    (
        "csr/bigann.csr",
        {
            "vectors": np.maximum(ROWS, 0),
            "indptr": np.cumsum([0, *(ROWS > 0).sum(axis=1)]),
            "indices": np.nonzero(ROWS > 0)[1].astype(np.int32),
            "data": ROWS[ROWS > 0],
        },
        "vectors",
    ),
    ("word2vec/gensim.bin", {"vectors": ROWS}, "vectors"),
    ("wordtext/gensim.txt", {"vectors": ROWS}, "vectors"),
    ("wordtext/gensim_glove.txt", {"vectors": ROWS}, "vectors"),
    ("vecs/faiss.fvecs", {"vectors": ROWS}, "vectors"),
    ("vecs/faiss.ivecs", {"ids": IDS}, "ids"),
]
WIDENED = ("hdf5/", "parquet/", "npz/", "vecs/")  # whose ids are stated here in another width than the file's
ALONE = {
    "i8bin": "its only other writer breaks the document's own rule for norms",
    "weights": "no other program writes it; golden/weights compares what its vectors are",
}


def test_every_format_with_another_writer_has_files_of_it() -> None:
    for format in formats.all_formats():
        folder = GOLDEN / format.name
        found = {path.suffix for path in folder.glob("*")} & set(format.suffixes)
        assert bool(found) != (format.name in ALONE), f"{format.name}: golden files of an independent writer"
        assert not found or "ritten by" in (folder / "README.md").read_text()


@pytest.mark.parametrize("name, columns, main", FILES, ids=[name for name, _, _ in FILES])
@pytest.mark.filterwarnings("ignore::polyvec.FormatWarning")
def test_every_golden_file_reads_as_what_its_writer_wrote(name: str, columns: dict[str, np.ndarray], main: str) -> None:
    pytest.importorskip({"hdf5": "h5py", "parquet": "pyarrow", "arrow": "pyarrow"}.get(name.split("/")[0], "numpy"))
    with pv.open(GOLDEN / name) as c:
        assert c.format == name.split("/")[0] and c.main == main and set(c.columns) == set(columns)
        for key, values in columns.items():
            assert np.array_equal(c[key], values)
            assert name.startswith(WIDENED) or c[key].dtype == values.dtype
        if name.startswith("word"):
            assert list(c.vocab) == ["the", "of", "naïve", "東京", "in_the", "a"]
    assert pv.verify(GOLDEN / name).ok


def test_the_attributes_of_ann_benchmarks_are_metadata() -> None:
    pytest.importorskip("h5py")
    with pv.open(GOLDEN / "hdf5" / "ann_benchmarks.hdf5") as c:
        assert c.metadata == {"type": "dense", "distance": "angular", "dimension": 4, "point_type": "float"}


def test_ids_and_records_of_a_foreign_table() -> None:
    pytest.importorskip("pyarrow")
    with pv.open(GOLDEN / "parquet" / "polars_array.parquet") as c:
        assert list(c.ids) == [f"d{i}" for i in range(6)] and c.records[5] == {"n": 5}
