"""Writes golden files by the document alone, with struct and zlib: `python make.py` here.

It knows nothing of polyvec, so what it writes is an independent reading of the layout.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

HERE = Path(__file__).parent
MAGIC = b"\x89VMAT\r\n\x1a"


def vmat(values: list[list[float]], kind: int, notes: bytes) -> bytes:
    rows = b"".join(struct.pack(f"<{len(row)}{'fe'[kind]}", *row) for row in values)
    head = struct.pack("<QIIQII", len(values), len(values[0]), kind, len(notes), zlib.crc32(rows), zlib.crc32(notes))
    return rows + notes + head + struct.pack("<II", zlib.crc32(head), 0) + MAGIC


if __name__ == "__main__":
    values = [[0.5, -1.25, 3.0], [1e-3, 65504.0, -0.0]]
    (HERE / "floats.vmat").write_bytes(vmat(values, 0, b'{"made by": "struct", "n\\u00e4me": [1, 2]}'))
    (HERE / "halves.vmat").write_bytes(vmat(values, 1, b"{}"))
    (HERE / "bare.vmat").write_bytes(struct.pack("<6f", *values[0], *values[1]))
