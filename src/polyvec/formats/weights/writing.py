"""Writing `.weights`: every size is known before the first byte, so the file streams, and the same input gives the
same bytes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import IO, Any

import ml_dtypes
import numpy as np

from polyvec.codecs import Raw, ScaledInt8, transcode
from polyvec.core.blocks import Codec
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import WriteOptions
from polyvec.core.options import Option
from polyvec.core.plain import json_default
from polyvec.core.sinks import Payload, Sink
from polyvec.formats.weights.records import (
    ALIGNMENT,
    CHECKED_HEADER_BYTES,
    CHECKSUM_ENABLED,
    DESCRIPTOR,
    DTYPES,
    FOOTER,
    HEADER,
    MAGIC,
    MAGIC_END,
    METADATA_HEADER,
    REQUIRED_KEYS,
    SPECIALS,
    TENSORS_ALIGNED,
    VOCAB_EMBEDDED,
    VOCAB_HEADER,
    hash_name,
)
from polyvec.kernels import crc32

MAX_U16, MAX_U32 = 2**16 - 1, 2**32 - 1
CREATED_AT = Option("created_at", str, "When the model was made, as its metadata says; 2026-01-31T12:00:00Z.")
ENCODINGS = ("raw", "float16", "bfloat16", "int8")
JSON_KEYS = "polyvec.json"  # the metadata keys whose values are JSON and not plain text
SPECIAL_TOKENS = {"pad_id": "[PAD]", "unk_id": "[UNK]", "cls_id": "[CLS]", "sep_id": "[SEP]", "mask_id": "[MASK]"}
_CODES = {dtype: code for code, (_, dtype) in enumerate(DTYPES)}
_SMALLER = {"float16": np.dtype("<f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor to write: its descriptor's fields, and where its values come from (None: scales of the one before)."""

    name: bytes
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    column: Column | None
    codec: Codec

    @property
    def size(self) -> int:
        return int(prod(self.shape)) * self.dtype.itemsize


def choose_codec(column: Column, encoding: str | None) -> Codec:
    """How a column is stored: as it is, or, for float tensors, in the encoding asked for; `InputError` by name."""
    if encoding is None and isinstance(column.codec, ScaledInt8):
        return column.codec
    dtype = column.dtype
    if encoding == "int8" and dtype.kind in "fV" and len(column.shape) > 1 and column.rows:
        return ScaledInt8()
    if encoding in _SMALLER and dtype.kind in "fV":
        dtype = _SMALLER[encoding]
    if dtype.newbyteorder("<") not in _CODES:
        names = ", ".join(name for name, _ in DTYPES)
        raise InputError(f"tensor {column.name!r} is {dtype.name}, which weights files cannot hold; they hold {names}")
    return Raw(dtype.newbyteorder("<"))


def plan_tensors(collection: Collection, encoding: str | None) -> Iterator[Planned]:
    """Every tensor in order with its place; int8 tensors are followed by their row scales."""
    at = 0
    columns = list(collection.columns.items())
    if not any(name == "embeddings.word_embeddings.weight" for name, _ in columns):
        columns.sort(key=lambda pair: pair[0] != collection.main)  # the first tensor is the main one on reading
    names = {name for name, _ in columns}
    for name, column in columns:
        codec = choose_codec(column, encoding)
        shape = tuple(column.shape)
        encoded = _text(name, "tensor name")
        if not 1 <= len(shape) <= 4 or max(shape) > MAX_U32:
            raise InputError(
                f"tensor {name!r} has shape {list(shape)}; weights files hold 1 to 4 dimensions of 32 bits"
            )
        if shape[0] and not all(shape):
            raise InputError(f"tensor {name!r} has shape {list(shape)}: rows without values cannot be kept")
        pieces: list[tuple[bytes, np.dtype[Any], tuple[int, ...], Column | None]]
        if isinstance(codec, ScaledInt8):
            if f"{name}.scale" in names:
                raise InputError(f"tensor {name!r} needs {name + '.scale'!r} for its scales, and that name is taken")
            pieces = [(encoded, np.dtype("i1"), shape, column), (encoded + b".scale", np.dtype("<f4"), shape[:1], None)]
        else:
            pieces = [(encoded, codec.dtype, shape, column)]
        for piece, dtype, sizes, source in pieces:
            planned = Planned(piece, dtype, sizes, at, source, codec)
            yield planned
            at += planned.size + -planned.size % ALIGNMENT


def write_weights(collection: Collection, sink: Sink, options: WriteOptions) -> None:
    """The whole file, first byte to last."""
    tensors = list(plan_tensors(collection, options.encoding))
    metadata = pack_metadata(collection, CREATED_AT.of(options.own))
    flags = TENSORS_ALIGNED | CHECKSUM_ENABLED | (VOCAB_EMBEDDED if collection.vocab is not None else 0)
    vocab_offset = HEADER.size + len(metadata)
    vocabulary = pack_vocabulary(collection, vocab_offset) if collection.vocab is not None else b""
    index_offset = vocab_offset + len(vocabulary)
    index = b"".join(_pack_descriptor(tensor) for tensor in tensors) + b"".join(tensor.name for tensor in tensors)
    data_offset = index_offset + len(index)
    padding = -data_offset % ALIGNMENT
    data_offset += padding
    if data_offset > MAX_U32:
        raise InputError(f"the vocabulary and metadata take {data_offset} bytes; section offsets have 32 bits")
    data_size = tensors[-1].offset + tensors[-1].size if tensors else 0
    header = HEADER.pack(
        {
            "magic": MAGIC,
            "version_major": 1,
            "version_minor": 0,
            "flags": flags,
            "metadata_offset": HEADER.size,
            "metadata_size": len(metadata),
            "vocab_offset": vocab_offset,
            "vocab_size": len(vocabulary),
            "tensor_index_offset": index_offset,
            "tensor_index_count": len(tensors),
            "tensor_data_offset": data_offset,
            "tensor_data_size": data_size,
            "total_file_size": data_offset + data_size + FOOTER.size,
            "header_checksum": 0,
            "reserved": 0,
        }
    )
    header = header[:CHECKED_HEADER_BYTES] + crc32(header[:CHECKED_HEADER_BYTES]).to_bytes(4, "little") + bytes(4)
    out = _Checked(sink)
    for piece in (header, metadata, vocabulary, index, bytes(padding)):
        out.write(piece)
    out.data = 0
    _write_tensors(out, tensors, data_offset, options)
    sink.write(
        FOOTER.pack({"data_checksum": out.data, "file_checksum": out.file, "magic_end": MAGIC_END, "reserved": 0})
    )


class _Checked:
    """A sink whose bytes are counted into both checksums."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.file = 0
        self.data = 0

    def write(self, data: Payload) -> None:
        self.file, self.data = crc32(data, self.file), crc32(data, self.data)
        self.sink.write(data)


def _write_tensors(out: _Checked, tensors: list[Planned], start: int, options: WriteOptions) -> None:
    total = sum(tensor.shape[0] for tensor in tensors)
    done = 0
    with tempfile.SpooledTemporaryFile(max_size=8 << 20) as scales:
        for tensor in tensors:
            out.write(bytes(start + tensor.offset - out.sink.size))
            if tensor.column is None:
                _copy_scales(out, scales)
            else:
                for block in tensor.column.blocks(options.chunk_rows, reuse=True):
                    stored = transcode(block, tensor.codec)
                    out.write(np.ascontiguousarray(stored.parts["codes"]))
                    if "scale" in stored.parts:
                        scales.write(np.ascontiguousarray(stored.parts["scale"]).tobytes())
                    if options.progress:
                        options.progress(done + block.start + block.rows, total)
            done += tensor.shape[0]


def _copy_scales(out: _Checked, scales: IO[bytes]) -> None:
    scales.seek(0)
    while piece := scales.read(1 << 20):
        out.write(piece)
    scales.seek(0)
    scales.truncate()


def _pack_descriptor(tensor: Planned) -> bytes:
    sizes = [*tensor.shape, 0, 0, 0][:4]
    return DESCRIPTOR.pack(
        {
            "name_hash": hash_name(tensor.name),
            "dtype": _CODES[tensor.dtype],
            "ndim": len(tensor.shape),
            "name_length": len(tensor.name),
            "shape0": sizes[0],
            "shape1": sizes[1],
            "shape2": sizes[2],
            "shape3": sizes[3],
            "data_offset": tensor.offset,
        }
    )


def _text(text: str, what: str) -> bytes:
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{what} {text[:40]!r} holds a lone surrogate, which UTF-8 cannot hold") from None
    if len(encoded) > MAX_U16:
        raise InputError(f"{what} {text[:40]!r}… takes {len(encoded)} bytes; the format holds at most {MAX_U16}")
    return encoded


def pack_metadata(collection: Collection, created_at: str | None = None) -> bytes:
    """The metadata section. Required keys that the collection lacks are filled in from its shape."""
    values = {key: value for key, value in collection.metadata.items() if key not in ("special_tokens", JSON_KEYS)}
    if created_at is not None:
        values["created_at"] = created_at
    wanted = {**_defaults(collection), **values}
    ordered = {key: wanted.pop(key) for key in REQUIRED_KEYS} | wanted
    coded = [key for key, value in ordered.items() if not isinstance(value, str)]
    texts: dict[str, str] = {}
    for key, value in ordered.items():
        if not isinstance(key, str):
            raise InputError(f"metadata keys must be text, not {key!r}")
        texts[key] = value if isinstance(value, str) else _json(key, value)
    if coded:
        texts[JSON_KEYS] = json.dumps(coded)
    entries = bytearray()
    for key, text in texts.items():
        name, content = _text(key, "metadata key"), _text(text, f"metadata {key}")
        entries += len(name).to_bytes(2, "little") + len(content).to_bytes(2, "little") + name + content
    return METADATA_HEADER.pack({"entry_count": len(texts), "total_size": len(entries)}) + bytes(entries)


def _json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=json_default)
    except (TypeError, ValueError):
        raise InputError(f"metadata {key!r} holds {type(value).__name__}, which JSON cannot hold") from None


def _defaults(collection: Collection) -> Mapping[str, str]:
    """What a file of plain vectors says of itself: no layers, and a time that does not change from run to run."""
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), UTC)
    size = str(collection.dim)
    return {
        "model_name": "vectors",
        "model_version": "0",
        "embedding_dim": size,
        "vocab_size": str(collection.rows),
        "num_layers": "0",
        "num_attention_heads": "0",
        "hidden_size": size,
        "intermediate_size": "0",
        "max_position_emb": "0",
        "created_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def pack_vocabulary(collection: Collection, place: int) -> bytes:
    """The vocabulary section at ``place``; special tokens by ``metadata["special_tokens"]``, else by their names."""
    vocab = collection.vocab
    assert vocab is not None
    tokens = bytearray()
    for row in range(len(vocab)):
        word = vocab.words.raw(row)
        if len(word) > MAX_U16:
            raise InputError(f"token {row} takes {len(word)} bytes; the format holds at most {MAX_U16}")
        tokens += len(word).to_bytes(2, "little") + word
    given = collection.metadata.get("special_tokens")
    specials = dict.fromkeys(SPECIALS.fields, 0)
    for name, token in SPECIAL_TOKENS.items():
        number = given.get(name) if isinstance(given, Mapping) else None
        specials[name] = number if isinstance(number, int) else vocab.get(token, 0) or 0
        if not 0 <= specials[name] < max(1, len(vocab)):
            raise InputError(f"special token {name} is {specials[name]}, and the vocabulary has {len(vocab)} tokens")
    head = {
        "token_count": len(vocab),
        "total_size": len(tokens),
        "special_tokens": place + VOCAB_HEADER.size + len(tokens),
    }
    if head["special_tokens"] + SPECIALS.size > MAX_U32:
        raise InputError(f"the vocabulary takes {len(tokens)} bytes; section offsets have 32 bits")
    return VOCAB_HEADER.pack(head) + bytes(tokens) + SPECIALS.pack(specials)
