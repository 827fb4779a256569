"""A tiny BERT encoder with random weights: a whole model in 40 kB, for tests and examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from polyvec.core.columns import ArrayColumn
from polyvec.core.targets import open_sink
from polyvec.model.architecture import Architecture
from polyvec.model.safetensors import write_safetensors

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-éß中文"


def tiny_tokens() -> list[str]:
    """A vocabulary with BERT's special tokens, letters, and some words."""
    words = [
        "the",
        "a",
        "of",
        "to",
        "and",
        "how",
        "do",
        "i",
        "read",
        "zip",
        "file",
        "hello",
        "world",
        "open",
        "write",
        "vector",
        "text",
        "search",
    ]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS), *words]


def tiny_metadata(**changed: str) -> dict[str, str]:
    """Metadata of a model of two layers of 32, as text; any of it may be changed."""
    sizes = {
        "model_name": "tiny",
        "model_version": "1.0.0",
        "embedding_dim": "32",
        "vocab_size": str(len(tiny_tokens())),
        "num_layers": "2",
        "num_attention_heads": "4",
        "hidden_size": "32",
        "intermediate_size": "64",
        "max_position_emb": "64",
        "created_at": "1970-01-01T00:00:00Z",
        "max_seq_length": "64",
    }
    return {**sizes, **changed}


def tiny_tensors(metadata: dict[str, str], *, seed: int = 0) -> dict[str, Any]:
    """Random weights of the shapes that the metadata demands."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in Architecture.from_metadata(metadata).required_tensors():
        sizes = tuple(2 if size is None else size for size in shape)
        values = rng.standard_normal(sizes) * (0.3 if len(sizes) > 1 else 0.1)
        tensors[name] = (values + (1.0 if name.endswith("LayerNorm.weight") else 0.0)).astype(np.float32)
    return tensors


def write_tiny_folder(folder: Path, **changed: str) -> Path:
    """A Hugging Face folder of the tiny model."""
    metadata = tiny_metadata(**changed)
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "bert",
        "hidden_size": int(metadata["hidden_size"]),
        "num_hidden_layers": int(metadata["num_layers"]),
        "num_attention_heads": int(metadata["num_attention_heads"]),
        "hidden_act": metadata.get("hidden_act", "gelu"),
        "intermediate_size": int(metadata["intermediate_size"]),
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
        "max_position_embeddings": int(metadata["max_position_emb"]),
        "vocab_size": int(metadata["vocab_size"]),
    }
    pooling = metadata.get("pooling", "mean")
    modes = {
        f"pooling_mode_{key}": pooling == word
        for key, word in (("cls_token", "cls"), ("mean_tokens", "mean"), ("max_tokens", "max"))
    }
    files: dict[str, Any] = {
        "config.json": config,
        "1_Pooling/config.json": modes,
        "tokenizer_config.json": {"do_lower_case": True},
        "sentence_bert_config.json": {"max_seq_length": int(metadata["max_seq_length"])},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "vocab.txt").write_text("\n".join(tiny_tokens()) + "\n", encoding="utf-8")
    tensors = tiny_tensors(metadata)
    with open_sink(folder / "model.safetensors", durable=False) as sink:
        write_safetensors(sink, {name: ArrayColumn(name, value) for name, value in tensors.items()}, {"format": "pt"})
    return folder


def write_tiny_model(path: Path, **changed: str) -> Path:
    """The tiny model as a `.weights` file."""
    from polyvec.writing.write import write

    metadata = tiny_metadata(**changed)
    write(path, tiny_tensors(metadata), vocab=tiny_tokens(), metadata=metadata, durable=False, measure=False)
    return path
