"""finalfusion files for the tests: collections of every kind of vocabulary, and files by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyvec.codecs.product import Product
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.subwords import ExplicitIndexer, Subwords
from polyvec.core.vocab import Strings, Vocab
from polyvec.testing import vectors

GOLDEN = Path(__file__).parents[2] / "golden" / "finalfusion"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
WORDS = ["Berlin", "Tübingen", "New York", "实验", "emoji😀x"]


def embeddings(
    indexer: Subwords | None = None,
    *,
    words: list[str] = WORDS,
    dim: int = 3,
    norms: bool = False,
    metadata: dict[str, Any] | None = None,
    seed: int = 0,
) -> Collection:
    columns: dict[str, Column] = {"vectors": ArrayColumn("vectors", vectors(len(words), dim, seed=seed))}
    if indexer is not None:
        columns["subwords"] = ArrayColumn("subwords", vectors(indexer.rows, dim, seed=seed + 1))
    if norms:
        columns["norms"] = ArrayColumn("norms", np.abs(vectors(len(words), 1, seed=seed + 2)[:, 0]))
    return Collection(columns, vocab=Vocab(words, subwords=indexer), metadata=metadata)


def quantized(*, projection: bool, norms: bool, rows: int = 3, indexer: Subwords | None = None) -> Collection:
    rng = np.random.default_rng(3)
    books = rng.standard_normal((2, 4, 1)).astype(np.float32)
    rotation = np.linalg.qr(rng.standard_normal((2, 2)))[0].astype(np.float32) if projection else None
    codec = Product(books, rotation, norms)

    def column(name: str, count: int) -> Column:
        parts = {"codes": rng.integers(0, 4, (count, 2)).astype(np.uint8)}
        if norms:
            parts["norms"] = rng.random(count).astype(np.float32)
        return ArrayColumn(name, parts["codes"], codec=codec, parts=parts, shape=(count, 2), encoding="pq")

    columns = {"vectors": column("vectors", rows)}
    if indexer is not None:
        columns["subwords"] = column("subwords", indexer.rows)
    return Collection(columns, vocab=Vocab([f"w{i}" for i in range(rows)], subwords=indexer))


def explicit() -> ExplicitIndexer:
    return ExplicitIndexer(3, 4, Strings.from_words(["<Be", "Ber", "erl", "lin>"]), np.array([0, 1, 0, 2]))


def simple(
    words: Sequence[bytes] = (b"a", b"b"),
    *,
    matrix: bytes | None = None,
    ids: tuple[int, ...] = (1, 2),
    extra: bytes = b"",
) -> bytes:
    """A file by hand: the vocabulary chunk, then `matrix` or one float a word."""
    table = b"".join(struct.pack("<I", len(w)) + w for w in words)
    data = struct.pack(f"<4sII{len(ids)}I", b"FiFu", 0, len(ids), *ids)
    data += struct.pack("<IQQ", 1, 8 + len(table), len(words)) + table
    if matrix is None:
        pad = 4 - (len(data) + 28) % 4
        matrix = struct.pack("<IQQII", 2, 16 + pad + 4 * len(words), len(words), 1, 10) + bytes(pad + 4 * len(words))
    return data + matrix + extra


def dense(offset: int, *, rows: int = 2, cols: int = 1, kind: int = 10, size: int = 8) -> bytes:
    pad = 4 - (offset + 28) % 4
    return struct.pack("<IQQII", 2, 16 + pad + size, rows, cols, kind) + bytes(pad + size)


OFFSET = len(simple(matrix=b""))
