"""EMBD files by hand, for the tests of .weights: one of every section, and one with a field changed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.sources import open_source
from polyvec.formats.weights import FORMAT
from polyvec.testing import vectors

WORDS = "embeddings.word_embeddings.weight"


def seal(data: bytes) -> bytes:
    """Both footer checksums and the header's, made right where the places they stand at still exist."""
    body = bytearray(data)
    if len(body) >= 80:
        body[56:60] = zlib.crc32(body[:56]).to_bytes(4, "little")
        start = min(int.from_bytes(body[36:40], "little"), len(body) - 16)
        body[-16:-12] = zlib.crc32(body[start:-16]).to_bytes(4, "little")
        body[-12:-8] = zlib.crc32(body[:-16]).to_bytes(4, "little")
    return bytes(body)


def model_bytes(tmp_path: Path, **more: Any) -> bytes:
    tensors = {WORDS: vectors(4, 3), "t.275672f2": vectors(2, 2), "t.7be8e215": vectors(2, 2, seed=1)}
    pv.write(tmp_path / "m.weights", tensors, vocab=["a", "b", "c", "d"], **more)
    return (tmp_path / "m.weights").read_bytes()


def patched(data: bytes, offset: int, code: str, value: Any, *, sealed: bool = True) -> bytes:
    body = bytearray(data)
    struct.pack_into("<" + code, body, offset, value)
    return seal(bytes(body)) if sealed else bytes(body)


def opened(data: bytes) -> Collection:
    return FORMAT.open(open_source(data, name="m.weights"))


def index_of(data: bytes) -> int:
    return int.from_bytes(data[28:32], "little")
