"""The original exporter's command."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from polyvec.browser import (
    main,
)

sys.path.insert(0, str(Path(__file__).parent))
from exports import WHEN, cards, unit


def test_the_original_command_writes_the_three_files(folder: Path, tmp_path: Path):
    out = tmp_path / "index_out"
    command = [sys.executable, "-m", "polyvec.browser", "--input-dir", folder, "--output-dir", out]
    done = subprocess.run([*map(str, command), "--timestamp", WHEN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["build_manifest.json", "embeddings.i8bin", "meta.json"]
    codes = (out / "embeddings.i8bin").read_bytes()
    assert len(codes) == 20 * 512
    manifest = json.loads((out / "build_manifest.json").read_text())
    assert set(manifest) == {"version", "timestamp", "parameters", "statistics", "outputs", "file_hash"}
    assert (
        manifest["file_hash"] == hashlib.sha256(codes).hexdigest() == manifest["outputs"]["embeddings.i8bin"]["sha256"]
    )
    assert manifest["outputs"]["meta.json"]["sha256"] == hashlib.sha256((out / "meta.json").read_bytes()).hexdigest()
    assert manifest["timestamp"] == WHEN
    meta = json.loads((out / "meta.json").read_text())
    assert set(meta) == {"version", "quantization", "shape", "records"}
    assert meta["shape"] == [20, 512] and meta["records"] == cards(20)
    assert {k: meta["quantization"][k] for k in ("dtype", "scale_factor", "original_dtype")} == {
        "dtype": "int8",
        "scale_factor": 127,
        "original_dtype": "float32",
    }


def test_errors_of_the_command_are_one_line(tmp_path: Path, capsys):
    assert main(["--input-dir", str(tmp_path / "none"), "--output-dir", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_tells_what_it_wrote(folder: Path, tmp_path: Path, capsys):
    assert main(["--input-dir", str(folder), "--output-dir", str(tmp_path / "out")]) == 0
    first, digest, norms, beside = capsys.readouterr().out.splitlines()
    assert first == f"wrote {tmp_path / 'out' / 'embeddings.i8bin'}: 20 x 512, 10,240 bytes"
    assert digest.split() == [
        "sha256",
        hashlib.sha256((tmp_path / "out" / "embeddings.i8bin").read_bytes()).hexdigest(),
    ]
    assert norms.startswith("  norms ") and beside == "  beside it: meta.json, build_manifest.json"


def test_options_reach_the_export(tmp_path: Path, capsys):
    np.save(tmp_path / "v.npy", 3 * unit(2, 8))
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, cards(2))))
    given = ["--input-dir", str(tmp_path / "v.npy"), "--output-dir", str(tmp_path / "out")]
    more = ["--records", str(tmp_path / "r.jsonl"), "--any-dim", "--rounding", "nearest", "--timestamp", WHEN]
    assert main([*given, *more]) == 1 and "not of length one" in capsys.readouterr().err
    assert main([*given, *more, "--normalize"]) == 0
    manifest = json.loads((tmp_path / "out" / "build_manifest.json").read_text())
    assert manifest["parameters"]["rounding"] == "nearest" and manifest["parameters"]["normalize"] is True
    assert manifest["timestamp"] == WHEN
