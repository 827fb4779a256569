"""Every Python block of the FBIN/IBIN document, run as it stands: only import lines and sample paths are mapped."""

# ruff: noqa: W291 (the blocks are the document's, to the letter)
from __future__ import annotations

import numpy as np
import pytest

from polyvec import fbin

READING_FBIN = """
reader = FBINReader("vectors.fbin")
metadata = reader.get_metadata()
print(f"Vectors: {metadata['vector_count']}, Dim: {metadata['dimension']}")

# Load all vectors
vectors = reader.load()

# Sample first 10 vectors
sample = reader.sample(start=0, count=10)

# Random sampling
indices, vectors = reader.sample_random(count=10, seed=42)

# Strided sampling
vectors = reader.sample_strided(stride=100, max_count=100)

# Sequential reading in chunks
for chunk in reader.read_sequential(chunk_size=1000):
    process(chunk)
"""

WRITING_FBIN = """
# Method 1: Using FBINWriter class
data = np.random.randn(1000, 128).astype(np.float32)
writer = FBINWriter("output.fbin")
result = writer.write(data, compute_checksum=True)

# Method 2: Convenience function
result = write_fbin("output.fbin", data, compute_checksum=True)
print(f"Checksum: {result['checksum']}")
"""

READING_IBIN = """
reader = IBINReader("ground_truth.ibin")
metadata = reader.get_metadata()
print(f"Queries: {metadata['vector_count']}, k: {metadata['k']}")

# Get neighbors for a specific query
neighbors = reader.get_neighbors(query_index=42)
"""

MERGING = """
# Validate compatibility
merger = ShardMerger()
infos = merger.validate_shards([
    "shard_0.fbin",
    "shard_1.fbin", 
    "shard_2.fbin"
])

# Preview merge
preview = merger.preview_merge(shard_paths, output_format="fbin")
print(f"Total vectors: {preview.total_vectors}")

# Perform merge
result = merger.merge(
    shard_paths,
    output_path="merged.fbin",
    output_format="fbin",
    compute_checksum=True
)
print(f"Checksum: {result['checksum']}")
"""

FBIN_AND_NPY = """
# FBIN to NPY
result = convert_fbin_to_npy(
    "input.fbin", 
    "output.npy",
    chunk_size=10000,
    dry_run=False
)

# NPY to FBIN
result = convert_npy_to_fbin(
    "input.npy",
    "output.fbin", 
    compute_checksum=True
)
"""

FBIN_TO_HDF5 = """
result = convert_fbin_to_hdf5(
    "input.fbin",
    "output.h5",
    dataset_name="vectors",
    compression="gzip"
)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a block in a folder with the files it names; returns its variables."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(1).standard_normal((2500, 16)).astype(np.float32)
    for name in ("vectors.fbin", "input.fbin"):
        fbin.write_fbin(name, rows)
    np.save("input.npy", rows)
    fbin.write_ibin("ground_truth.ibin", np.arange(1000).reshape(100, 10))
    paths = [f"shard_{n}.fbin" for n in range(3)]
    for number, path in enumerate(paths):
        fbin.write_fbin(path, rows[number * 100 : number * 100 + 100])

    def run_block(block):
        chunks: list[np.ndarray] = []
        names = {"np": np, "process": chunks.append, "chunks": chunks, "shard_paths": paths, "rows": rows}
        names.update({name: getattr(fbin, name) for name in fbin.__all__})
        exec(compile(block, "document", "exec"), names)
        return names

    return run_block


def test_reading_fbin(run, capsys):
    names = run(READING_FBIN)
    assert capsys.readouterr().out == "Vectors: 2500, Dim: 16\n"
    assert names["sample"].shape == (10, 16) and names["vectors"].shape == (25, 16)
    assert [len(c) for c in names["chunks"]] == [1000, 1000, 500]


def test_writing_fbin(run, capsys):
    names = run(WRITING_FBIN)
    np.testing.assert_array_equal(fbin.FBINReader("output.fbin").load(), names["data"])
    assert len(capsys.readouterr().out.split()[1]) == 64


def test_reading_ibin(run, capsys):
    assert run(READING_IBIN)["neighbors"].tolist() == list(range(420, 430))
    assert capsys.readouterr().out == "Queries: 100, k: 10\n"


def test_merging_shards(run, capsys):
    names = run(MERGING)
    assert capsys.readouterr().out.startswith("Total vectors: 300\nChecksum: ")
    np.testing.assert_array_equal(fbin.FBINReader("merged.fbin").load(), names["rows"][:300])
    assert all(info.validation_result is fbin.ShardValidationResult.COMPATIBLE for info in names["infos"])


def test_fbin_and_npy(run):
    names = run(FBIN_AND_NPY)
    np.testing.assert_array_equal(np.load("output.npy"), names["rows"])
    np.testing.assert_array_equal(fbin.FBINReader("output.fbin").load(), names["rows"])


def test_fbin_to_hdf5(run):
    h5py = pytest.importorskip("h5py")
    names = run(FBIN_TO_HDF5)
    with h5py.File("output.h5") as file:
        np.testing.assert_array_equal(file["vectors"][:], names["rows"])
        assert file["vectors"].compression == "gzip"
