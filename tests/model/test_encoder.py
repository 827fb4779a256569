"""The embedder: engines against the oracle and the reference, outputs, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import kernels
from polyvec.core.errors import Corrupt, InputError
from polyvec.embedder import Embedder, normalize
from polyvec.model.architecture import Architecture
from polyvec.model.engines.native import refuse
from polyvec.testing.models import tiny_metadata, tiny_tensors, tiny_tokens, write_tiny_model

GOLDEN = Path(__file__).parents[1] / "golden" / "weights"
MULTIPLES = {"num_attention_heads": "2", "hidden_size": "64", "embedding_dim": "64", "intermediate_size": "96"}
TEXTS = ["how do i read a zip file", "hello world", "", "the text of a vector " * 20, "a"] * 3


def need(engine: str) -> None:
    if engine == "native":
        reason = refuse(Architecture.from_metadata(tiny_metadata(**MULTIPLES)))
        if reason is not None:
            pytest.skip(reason)
    elif engine != "numpy":
        pytest.importorskip(engine)


@pytest.mark.parametrize("engine", ["numpy", "native", "onnxruntime", "openvino"])
def test_vectors_are_those_of_sentence_transformers(minilm: Path, engine: str) -> None:
    need(engine)
    texts = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
    with Embedder(minilm, engine=engine) as embedder:
        found = embedder.embed(texts)
        assert embedder.engine == engine and embedder.embedding_dim == 384 and embedder.truncated == 1
    cosines = (found.astype(np.float64) * np.load(GOLDEN / "vectors.npy")).sum(axis=1)
    assert cosines.min() >= (0.9999 if engine == "openvino" else 1 - 1e-6)


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("engine", ["native", "onnxruntime", "openvino"])
def test_every_engine_agrees_with_the_oracle(tmp_path: Path, engine: str, pooling: str, act: str) -> None:
    need(engine)
    sizes = MULTIPLES if engine == "native" else {}
    path = write_tiny_model(tmp_path / "m.weights", pooling=pooling, hidden_act=act, layer_norm_eps="1e-6", **sizes)
    with Embedder(path, engine="numpy") as oracle, Embedder(path, engine=engine, num_threads=2) as embedder:
        wanted, found = oracle.embed(TEXTS), embedder.embed(TEXTS)
    limit = 0.998 if engine == "openvino" else 1 - 1e-6
    assert (wanted.astype(np.float64) * found).sum(axis=1).min() >= limit


def test_the_default_engine_is_the_first_that_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    path = write_tiny_model(tmp_path / "m.weights", **MULTIPLES)
    monkeypatch.setattr("polyvec.model.engines.native.native", lambda: None)
    with Embedder(path) as embedder:
        assert embedder.engine == "onnxruntime"
    with pytest.raises(InputError, match="'native' cannot run here: the compiled module is missing"):
        Embedder(path, engine="native")
    monkeypatch.undo()
    need("native")
    with Embedder(path) as embedder:
        assert embedder.engine == "native"
    odd = write_tiny_model(tmp_path / "odd.weights")
    with Embedder(odd) as embedder:
        assert embedder.engine == "onnxruntime"
    with pytest.raises(InputError, match="multiples of 32"):
        Embedder(odd, engine="native")
    with kernels.use_path("portable"), pytest.raises(InputError, match="no more than portable"):
        Embedder(path, engine="native")


@pytest.mark.parametrize("sizes", [("3", "2", "48", "96"), ("1", "8", "64", "32")], ids=["deeper", "wider"])
def test_other_encoders_are_taken_by_their_own_metadata(tmp_path: Path, sizes: tuple[str, str, str, str]) -> None:
    pytest.importorskip("onnxruntime")
    layers, heads, width, inner = sizes
    path = write_tiny_model(
        tmp_path / "m.weights",
        num_layers=layers,
        num_attention_heads=heads,
        hidden_size=width,
        embedding_dim=width,
        intermediate_size=inner,
    )
    with Embedder(path, engine="numpy") as oracle, Embedder(path, engine="onnxruntime") as embedder:
        assert np.allclose(oracle.embed(TEXTS), embedder.embed(TEXTS), atol=1e-5)
        assert embedder.embedding_dim == int(width)


def test_batches_do_not_change_the_vectors(tiny: Path) -> None:
    with Embedder(tiny, engine="numpy") as embedder:
        alone = np.stack([embedder.embed_single(text) for text in TEXTS])
        for batch_size in (None, 1, 4):
            assert np.allclose(embedder.embed(TEXTS, batch_size), alone, atol=1e-6)
        assert np.array_equal(embedder.embed_batch(TEXTS), embedder.embed(TEXTS))
        assert embedder.embed([]).shape == (0, 32)


def test_outputs_are_cut_normalised_and_packed(tiny: Path) -> None:
    with Embedder(tiny, engine="numpy") as embedder:
        full = embedder.embed(TEXTS)
        assert np.allclose(np.linalg.norm(full, axis=1), 1, atol=1e-6)
        cut = embedder.embed(TEXTS, truncate_dim=10)
        assert np.allclose(cut, normalize(full[:, :10]), atol=1e-6)
        codes = embedder.embed(TEXTS, output="int8")
        assert codes.dtype == np.int8 and np.abs(codes / 127 - full).max() <= 0.5 / 127 + 1e-6
        bits = embedder.embed(TEXTS, output="binary", truncate_dim=10)
        assert bits.shape == (len(TEXTS), 2) and np.array_equal(bits, np.packbits(cut > 0, axis=1))
        assert np.array_equal(embedder.embed(["b"], prompt="a "), embedder.embed(["a b"]))
    with Embedder(tiny, engine="numpy", normalize_embeddings=False) as raw:
        assert np.allclose(normalize(raw.embed(TEXTS)), full, atol=1e-6)
        assert not np.allclose(np.linalg.norm(raw.embed(TEXTS), axis=1), 1)
        with pytest.raises(InputError, match="normalize"):
            raw.embed(TEXTS, output="int8")


def test_embed_into_writes_rows_where_they_belong(tiny: Path) -> None:
    with Embedder(tiny, engine="numpy") as embedder:
        out = np.zeros((len(TEXTS), 32), np.float16)
        cut = embedder.embed_into(TEXTS, out)
        assert cut == embedder.truncated == 3
        assert np.array_equal(out, embedder.embed(TEXTS).astype(np.float16))
        for bad in (np.zeros((2, 32), np.float32), np.zeros((len(TEXTS), 32), np.int8)):
            with pytest.raises(InputError, match="out must"):
                embedder.embed_into(TEXTS, bad)


def test_progress_counts_every_text(tiny: Path) -> None:
    seen: list[tuple[int, int]] = []
    with Embedder(tiny, engine="numpy") as embedder:
        embedder.embed(TEXTS, batch_size=4, show_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(TEXTS), len(TEXTS)) and len(seen) >= 4


def test_max_seq_length_counts_tokens_with_cls_and_sep(tiny: Path) -> None:
    with Embedder(tiny, engine="numpy", max_seq_length=5) as embedder:
        assert len(embedder.tokenizer.encode("a a a a a a")) == 5
        assert np.allclose(embedder.embed_single("a a a"), embedder.embed_single("a a a zip"), atol=1e-6)
    with Embedder(tiny, engine="numpy", max_seq_length=5000) as embedder:
        assert embedder.max_seq_length == 64


def test_the_default_length_gives_way_to_the_models_own(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.weights", max_seq_length="16")
    with Embedder(path, engine="numpy") as own, Embedder(path, engine="numpy", max_seq_length=40) as asked:
        assert (own.max_seq_length, asked.max_seq_length) == (16, 40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "magic"}, "unknown engine"),
        ({"num_threads": 0}, "num_threads"),
        ({"max_seq_length": 2}, "max_seq_length"),
    ],
)
def test_wrong_options_are_named(tiny: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Embedder(tiny, **options)


def test_wrong_texts_are_named(tiny: Path) -> None:
    with Embedder(tiny, engine="numpy") as embedder:
        for texts, message in (("bare", "embed_single"), ([1], "text 0 is int"), (["\udc80"], "lone surrogate")):
            with pytest.raises(InputError, match=message):
                embedder.embed(texts)  # type: ignore[arg-type]
        for options, message in (
            ({"output": "float8"}, "output"),
            ({"truncate_dim": 33}, "truncate_dim"),
            ({"batch_size": 0}, "batch"),
        ):
            with pytest.raises(InputError, match=message):
                embedder.embed(["a"], **options)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            embedder.embed_single(["a"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="closed"):
        embedder.embed(["a"])


def broken(tmp_path: Path, tensors: dict[str, Any], vocab: list[str] | None = None, **changed: str) -> Path:
    path = tmp_path / "broken.weights"
    pv.write(path, tensors, vocab=vocab, metadata=tiny_metadata(**changed), durable=False, measure=False)
    return path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_attention_heads": "5"}, "5 heads do not divide the width 32"),
        ({"num_layers": "three"}, "num_layers"),
        ({"hidden_size": "64"}, "embedding_dim 32"),
        ({"num_layers": "3"}, "encoder.layer.2.*missing"),
        ({"intermediate_size": "65"}, "metadata demands"),
        ({"vocab_size": "9"}, "as long as the metadata says"),
        ({"pooling": "median"}, "pooling"),
        ({"max_seq_length": "65"}, "max_seq_length"),
        ({"layer_norm_eps": "nan"}, "layer_norm_eps"),
        ({"hidden_act": "swish"}, "hidden_act"),
        ({"num_layers": "0"}, "num_layers"),
        ({"num_layers": "9" * 30}, "num_layers"),
    ],
)
def test_metadata_that_contradicts_the_tensors_is_told(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(Corrupt, match=message):
        Embedder(broken(tmp_path, tiny_tensors(tiny_metadata()), tiny_tokens(), **changed), engine="numpy")


def test_missing_bad_or_vocabulary_less_weights_are_told(tmp_path: Path) -> None:
    tensors = tiny_tensors(tiny_metadata())
    gone = "encoder.layer.1.output.dense.bias"
    with pytest.raises(Corrupt, match=gone):
        Embedder(broken(tmp_path, {k: v for k, v in tensors.items() if k != gone}, tiny_tokens()), engine="numpy")
    nan = {**tensors, gone: np.full(32, np.nan, np.float32)}
    with pytest.raises(Corrupt, match=f"{gone}.*nan at element 0"):
        Embedder(broken(tmp_path, nan, tiny_tokens()), engine="numpy")
    bare = broken(tmp_path, tensors)
    with pytest.raises(InputError, match="VOCAB_EMBEDDED"):
        Embedder(bare, engine="numpy")
    with Embedder(bare, engine="numpy", vocabulary=tiny_tokens()) as embedder:
        assert embedder.embed(["zip"]).shape == (1, 32)
    with pytest.raises(Corrupt, match=r"lacks \[PAD\]"):
        Embedder(bare, engine="numpy", vocabulary=["x"] * len(tiny_tokens()))


@pytest.mark.parametrize("odd", ["", "a b", "$A", "x:1:2", "\n"])
def test_special_tokens_may_be_called_anything(tmp_path: Path, odd: str) -> None:
    tokens = tiny_tokens()
    tokens[2:4] = [odd, odd + "x"]
    specials = {"pad_id": 0, "unk_id": 1, "cls_id": 2, "sep_id": 3, "mask_id": 4}
    metadata = {**tiny_metadata(), "special_tokens": specials}
    pv.write(tmp_path / "odd.weights", tiny_tensors(tiny_metadata()), vocab=tokens, metadata=metadata)
    with Embedder(tmp_path / "odd.weights", engine="numpy") as embedder:
        ids = embedder.tokenizer.encode("zip")
        assert (ids[0], ids[-1]) == (2, 3)


def test_checksums_are_compared_where_asked(tmp_path: Path, tiny: Path) -> None:
    data = bytearray(tiny.read_bytes())
    data[-20] ^= 1
    (tmp_path / "bad.weights").write_bytes(data)
    with pytest.raises(Corrupt, match="checksum"):
        Embedder(tmp_path / "bad.weights", engine="numpy", verify=True)


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 0.99999), ("bfloat16", 0.999), ("int8", 0.999)])
def test_smaller_weights_give_nearly_the_same_vectors(tmp_path: Path, tiny: Path, dtype: str, limit: float) -> None:
    small = tmp_path / "small.weights"
    pv.convert(tiny, small, encoding=dtype)
    with Embedder(tiny, engine="numpy") as one, Embedder(small, engine="numpy") as two:
        assert (one.embed(TEXTS).astype(np.float64) * two.embed(TEXTS)).sum(axis=1).min() > limit


def test_a_legacy_file_embeds_the_same(tmp_path: Path, tiny: Path) -> None:
    import struct

    tensors = tiny_tensors(tiny_metadata())
    out = b"EMBD" + struct.pack("<II", 1, len(tensors))
    for name, value in tensors.items():
        turned = value.T if value.ndim == 2 and not name.startswith("embeddings.") else value
        out += struct.pack("<I", len(name)) + name.encode() + struct.pack(f"<I{value.ndim}I", value.ndim, *turned.shape)
        out += np.ascontiguousarray(turned).tobytes()
    out += struct.pack("<I", len(tiny_tokens())) + b"".join(
        struct.pack("<I", len(t.encode())) + t.encode() for t in tiny_tokens()
    )
    (tmp_path / "old.weights").write_bytes(out)
    # The layout has no metadata; heads are guessed at 64 wide, so one head of 32 is what a width of 32 gives.
    path = write_tiny_model(tmp_path / "one.weights", num_attention_heads="1")
    with Embedder(tmp_path / "old.weights", engine="numpy") as old, Embedder(path, engine="numpy") as new:
        assert np.allclose(old.embed(TEXTS), new.embed(TEXTS), atol=1e-6) and old.notes
