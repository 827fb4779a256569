"""Models from and to Hugging Face folders."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import Corrupt, FormatError, InputError, Unsupported
from polyvec.embedder import Embedder
from polyvec.model.huggingface import export_model, import_model
from polyvec.testing.models import tiny_metadata, tiny_tensors, write_tiny_folder

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import killing

EXTRA = {"embeddings.position_ids": np.arange(64, dtype=np.int64)[None], "pooler.dense.bias": np.zeros(32, np.float32)}


def pack(tensors: dict[str, Any], *, header: bytes | None = None) -> bytes:
    """A safetensors file by hand."""
    names = {np.dtype("f4"): "F32", np.dtype("f2"): "F16", np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype("i8"): "I64"}
    entries: dict[str, Any] = {}
    at = 0
    for name, value in tensors.items():
        entries[name] = {
            "dtype": names[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = header if header is not None else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(v).tobytes() for v in tensors.values())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_folder(tmp_path / "tiny")


def test_a_folder_becomes_a_model_of_the_same_bits(folder: Path, tmp_path: Path) -> None:
    receipt = import_model(folder, tmp_path / "m.weights", name="tiny")
    assert receipt.loss is not None and receipt.loss.exact
    with pv.open(tmp_path / "m.weights") as c:
        for name, value in tiny_tensors(tiny_metadata()).items():
            assert c[name].to_numpy().tobytes() == value.tobytes()
        assert (
            c.metadata["model_name"] == "tiny"
            and c.metadata["pooling"] == "mean"
            and c.metadata["max_seq_length"] == "64"
        )
        assert c.metadata["special_tokens"] == {"pad_id": 0, "unk_id": 1, "cls_id": 2, "sep_id": 3, "mask_id": 4}
    assert pv.verify(tmp_path / "m.weights").ok


def test_a_model_round_trips_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    for dtype in (None, "f16", "bf16"):
        one, two = tmp_path / "one.weights", tmp_path / "two.weights"
        import_model(folder, one, dtype=dtype, name="tiny", created_at="2025-01-16T12:00:00Z", overwrite=True)
        export_model(one, tmp_path / "back", overwrite=True)
        import_model(tmp_path / "back", two, overwrite=True)
        assert one.read_bytes() == two.read_bytes()


def test_a_kill_at_any_moment_leaves_the_old_model_or_the_new_one(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    for version, dtype in enumerate(("f16", "f32")):
        import_model(folder, home / "models" / f"{version}.weights", dtype=dtype, name=str(version))
    killing.run("model", home, "aside")


def test_an_export_keeps_other_files_and_names_its_target(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    import_model(folder, tmp_path / "m.weights")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("mine")
    export_model(tmp_path / "m.weights", tmp_path / "out")
    with pytest.raises(InputError, match=r"out/config\.json: the output exists; use --force"):
        export_model(tmp_path / "m.weights", tmp_path / "out", overwrite=False)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polyvec.model.huggingface.write_safetensors", fail)
    with pytest.raises(OSError) as found:
        export_model(tmp_path / "m.weights", tmp_path / "out", overwrite=True)
    assert found.value.filename == str(tmp_path / "out" / "model.safetensors")
    assert (tmp_path / "out" / "README.md").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.weights", "out", "tiny"]


def test_what_is_exported_is_read_by_the_real_safetensors_and_tokenizers(folder: Path, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    tokenizers = pytest.importorskip("tokenizers")
    import_model(folder, tmp_path / "m.weights")
    names = export_model(tmp_path / "m.weights", tmp_path / "out")
    assert {
        "model.safetensors",
        "vocab.txt",
        "tokenizer.json",
        "config.json",
        "1_Pooling/config.json",
        "modules.json",
    } <= set(names)
    loaded = safetensors.load_file(tmp_path / "out" / "model.safetensors")
    for name, value in tiny_tensors(tiny_metadata()).items():
        assert np.array_equal(loaded[name], value)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    with Embedder(tmp_path / "m.weights", engine="numpy") as embedder:
        for text in ("hello World", "zip-file 中文 é", ""):
            assert theirs.encode(text).ids == embedder.tokenizer.encode(text)
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()
    with pytest.raises(InputError, match="exists"):
        export_model(tmp_path / "m.weights", tmp_path / "out", overwrite=False)


def test_what_the_real_safetensors_writes_is_imported(folder: Path, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = {f"bert.{name}": value for name, value in tiny_tensors(tiny_metadata()).items()}
    safetensors.save_file(tensors, folder / "model.safetensors")
    import_model(folder / "model.safetensors", tmp_path / "m.weights")
    with pv.open(tmp_path / "m.weights") as c:
        assert np.array_equal(c.vectors.to_numpy(), tensors["bert.embeddings.word_embeddings.weight"])


def test_position_ids_are_dropped_and_other_wide_integers_refused(folder: Path, tmp_path: Path) -> None:
    tensors = {**EXTRA, **tiny_tensors(tiny_metadata())}
    (folder / "model.safetensors").write_bytes(pack(tensors))
    import_model(folder, tmp_path / "m.weights")
    with pv.open(tmp_path / "m.weights") as c:
        assert "embeddings.position_ids" not in c.columns and "pooler.dense.bias" in c.columns
    (folder / "model.safetensors").write_bytes(pack({**tensors, "step": np.arange(3, dtype=np.int64)}))
    with pytest.raises(Unsupported, match="step"):
        import_model(folder, tmp_path / "n.weights")
    (folder / "model.safetensors").write_bytes(pack({**tensors, "scale": np.array(1.0, np.float32)}))
    with pytest.raises(Unsupported, match="scale"):
        import_model(folder, tmp_path / "n.weights")


def test_dtypes_are_as_asked(folder: Path, tmp_path: Path) -> None:
    half = {name: value.astype(np.float16) for name, value in tiny_tensors(tiny_metadata()).items()}
    (folder / "model.safetensors").write_bytes(pack(half))
    for dtype, kind in ((None, np.float16), ("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("int8", np.float32)):
        import_model(folder, tmp_path / "m.weights", dtype=dtype, overwrite=True)
        with pv.open(tmp_path / "m.weights") as c:
            assert c.vectors.dtype == kind and (c.vectors.encoding == "int8") == (dtype == "int8")
            if dtype == "f32":
                assert np.array_equal(
                    c.vectors.to_numpy(), half["embeddings.word_embeddings.weight"].astype(np.float32)
                )
    with pytest.raises(InputError, match="f64"):
        import_model(folder, tmp_path / "m.weights", dtype="f64")


def test_pickles_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04N.")
    for where in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(InputError, match="pickles"):
            import_model(where, tmp_path / "m.weights")


GOOD = {"a": np.zeros((2, 2), np.float32)}
ENTRY = '{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}'


@pytest.mark.parametrize(
    "header",
    [
        f'{{"a":{ENTRY},"a":{ENTRY}}}',
        '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,16]}}',
        '{"a":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}}',
        '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,99]}}',
        '{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}',
        "[]",
        "{",
        "{}",
        '{"a":{"dtype":"F32","shape":[4]}}',
        f'{{"a":{ENTRY},"__metadata__":{{"k":1}}}}',
        '{"a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}}',
        '{"a":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,16]}}',
        f'{{"a":{ENTRY},"b":{ENTRY}}}',
    ],
    ids=range(13),
)
def test_a_bad_safetensors_file_is_told_and_nothing_is_written(folder: Path, tmp_path: Path, header: str) -> None:
    (folder / "model.safetensors").write_bytes(pack(GOOD, header=header.encode()))
    with pytest.raises(FormatError):
        import_model(folder, tmp_path / "m.weights")
    assert not (tmp_path / "m.weights").exists()


def test_a_duplicate_key_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(pack(GOOD, header=f'{{"a":{ENTRY},"a":{ENTRY}}}'.encode()))
    with pytest.raises(Corrupt, match="'a' twice"):
        import_model(folder, tmp_path / "m.weights")


def test_every_truncation_of_a_safetensors_file_is_a_format_error(folder: Path, tmp_path: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    for size in (0, 7, 8, 100, len(data) // 2, len(data) - 1):
        (folder / "model.safetensors").write_bytes(data[:size])
        with pytest.raises(FormatError):
            import_model(folder, tmp_path / "m.weights")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**63) + data[8:])
    with pytest.raises(FormatError):
        import_model(folder, tmp_path / "m.weights")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 5}, "5 heads"),
        ({"num_hidden_layers": 3}, "encoder.layer.2"),
        ({"hidden_size": None}, "hidden_size"),
        ({"model_type": "roberta"}, "roberta"),
        ({"intermediate_size": 7}, "metadata demands"),
        ({"hidden_act": "silu"}, "hidden_act"),
    ],
)
def test_a_configuration_that_contradicts_the_tensors_is_told(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(FormatError, match=message):
        import_model(folder, tmp_path / "m.weights")
    assert not (tmp_path / "m.weights").exists()


def test_missing_files_and_bad_weights_are_named(folder: Path, tmp_path: Path) -> None:
    tensors = tiny_tensors(tiny_metadata())
    tensors["encoder.layer.0.output.dense.bias"][3] = np.inf
    (folder / "model.safetensors").write_bytes(pack(tensors))
    with pytest.raises(Corrupt, match=r"encoder.layer.0.output.dense.bias.*infinity"):
        import_model(folder, tmp_path / "m.weights")
    (folder / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(Corrupt, match="vocabulary"):
        import_model(folder, tmp_path / "m.weights")
    (folder / "vocab.txt").unlink()
    with pytest.raises(InputError, match=r"vocab\.txt"):
        import_model(folder, tmp_path / "m.weights")
    (folder / "config.json").unlink()
    with pytest.raises(InputError):
        import_model(folder, tmp_path / "m.weights")
    with pytest.raises(InputError, match="exists"):
        (tmp_path / "m.weights").touch()
        import_model(write_tiny_folder(tmp_path / "again"), tmp_path / "m.weights", overwrite=False)


def test_the_installed_wheel_has_the_documented_sizes(minilm: Path) -> None:
    with pv.open(minilm) as c:
        assert len(c.columns) == 103 and c.rows == 30522 and c.dim == 384
        sizes = {name: column.nbytes for name, column in c.columns.items()}
        assert sizes["embeddings.word_embeddings.weight"] == 46_881_792
        assert sum(size for name, size in sizes.items() if name.startswith("encoder.")) == 42_587_136
        assert sum(size for name, size in sizes.items() if not name.startswith("pooler.")) == 90_261_504
        assert sum(sizes.values()) == 90_852_864
