"""A folder with the files that the commands' examples name, and a way to run commands in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run as run_command
from polyvec.testing.models import write_tiny_folder, write_tiny_model


@pytest.fixture(scope="session")
def example_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((300, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pv.write(folder / "vectors.fbin", vectors, records=[{"name": f"item {i}", "kind": "ab"[i % 2]} for i in range(300)])
    pv.convert(folder / "vectors.fbin", folder / "cards.cvc")
    queries = vectors[:5] + np.float32(0.01)
    pv.write(folder / "queries.fbin", queries)
    order = np.argsort(-(queries @ vectors.T), axis=1).astype(np.int32)
    pv.write(folder / "truth.ibin", order[:, :20])
    pv.write(folder / "result.ibin", order[:, 1:21])
    pv.split(folder / "vectors.fbin", folder / "shard.fbin", parts=3, sidecar=False)
    write_tiny_model(folder / "minilm.weights")
    write_tiny_folder(folder / "all-MiniLM-L6-v2")
    texts = ["how do i read a zip file", "hello world", "the text of a vector"]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    golden = Path(__file__).parents[1] / "golden" / "finalfusion"
    shutil.copy(golden / "simple_meta_norms.fifu", folder / "words.fifu")
    shutil.copy(golden / "bucket_exp7.fifu", folder / "buckets.fifu")
    shutil.copy(golden / "pq_proj1_norms1.fifu", folder / "quantized.fifu")
    (folder / "list.txt").write_text("hello\nNew York\nBerlin\n")
    (folder / "questions.txt").write_text(": cities\nBerlin Tübingen Zürich Daniël\nBerlin a b c\n")
    return folder


@pytest.fixture
def folder(example_files, tmp_path, monkeypatch):
    for path in example_files.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(folder, capfd):
    """Runs a command line in this process: gives (exit code, standard output, standard error)."""

    def call(*arguments):
        capfd.readouterr()
        code = run_command([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def process(folder):
    """Runs a command line as a process of its own."""

    def call(*arguments, **options):
        return subprocess.run([sys.executable, "-m", "polyvec", *map(str, arguments)], capture_output=True, **options)

    return call
