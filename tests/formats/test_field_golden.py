"""Files that other programs wrote, read as what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv

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
    ("vecs/faiss.fvecs", {"vectors": ROWS}, "vectors"),
    ("vecs/faiss.ivecs", {"ids": IDS}, "ids"),
]


@pytest.mark.parametrize("name, columns, main", FILES, ids=[name for name, _, _ in FILES])
@pytest.mark.filterwarnings("ignore::polyvec.FormatWarning")
def test_every_golden_file_reads_as_what_its_writer_wrote(name: str, columns: dict[str, np.ndarray], main: str) -> None:
    pytest.importorskip({"hdf5": "h5py", "parquet": "pyarrow", "arrow": "pyarrow"}.get(name.split("/")[0], "numpy"))
    with pv.open(GOLDEN / name) as c:
        assert c.format == name.split("/")[0] and c.main == main and set(c.columns) == set(columns)
        for key, values in columns.items():
            assert np.array_equal(c[key], values)
    assert pv.verify(GOLDEN / name).ok


def test_the_attributes_of_ann_benchmarks_are_metadata() -> None:
    pytest.importorskip("h5py")
    with pv.open(GOLDEN / "hdf5" / "ann_benchmarks.hdf5") as c:
        assert c.metadata == {"type": "dense", "distance": "angular", "dimension": 4, "point_type": "float"}


def test_ids_and_records_of_a_foreign_table() -> None:
    pytest.importorskip("pyarrow")
    with pv.open(GOLDEN / "parquet" / "polars_array.parquet") as c:
        assert list(c.ids) == [f"d{i}" for i in range(6)] and c.records[5] == {"n": 5}
