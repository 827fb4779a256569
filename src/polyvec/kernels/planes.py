"""Byte planes of float32 values, compiled or in NumPy, with the same bits.

Plane ``p`` holds byte ``p`` of every little-endian value. Codes of 1 to 8 bits are packed most significant bit first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.paths import native
from polyvec.kernels.threads import resolve_threads

Array = NDArray[Any]
PLANES = 4
SLICE = 1 << 18  # values at a time in NumPy: temporaries of a few MB


def packed_size(values: int, bits: int) -> int:
    """Bytes of ``values`` codes of ``bits`` bits."""
    return (values * bits + 7) // 8


def planes_seen(values: Array, seen: Array | None = None, *, num_threads: int | None = None) -> Array:
    """Which bytes occur: a (4, 256) uint8 array of 0 and 1, added to ``seen`` where it is given."""
    flat = _floats(values)
    seen = np.zeros((PLANES, 256), np.uint8) if seen is None else seen
    module = native()
    if module is not None:
        module.planes_seen(flat, seen, resolve_threads(num_threads))
        return seen
    for start in range(0, flat.size, SLICE):
        view = flat[start : start + SLICE].view(np.uint8).reshape(-1, PLANES)
        for plane in range(PLANES):
            seen[plane] |= np.bincount(view[:, plane], minlength=256).astype(bool).view(np.uint8)
    return seen


def planes_pack(
    values: Array, plane: int, bits: int, table: Array, out: Array | None = None, *, num_threads: int | None = None
) -> Array:
    """The codes ``table[byte]`` of one plane, packed into uint8."""
    flat = _floats(values)
    size = packed_size(flat.size, bits)
    out = np.empty(size, np.uint8) if out is None else out
    if out.shape != (size,) or out.dtype != np.uint8:
        raise ValueError(f"out must be {size} bytes of uint8, not {out.shape} {out.dtype}")
    module = native()
    if module is not None:
        module.planes_pack(flat, plane, bits, table, out, resolve_threads(num_threads))
        return out
    for start in range(0, flat.size, SLICE):  # a multiple of 8 values: whole bytes
        codes = table[flat[start : start + SLICE].view(np.uint8)[plane::PLANES]]
        digits = np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :]
        packed = np.packbits(digits.reshape(-1))
        at = start // 8 * bits
        out[at : at + packed.size] = packed
    return out


def planes_unpack(
    payload: Array,
    starts: Sequence[int],
    bits: Sequence[int],
    dictionaries: Sequence[bytes],
    out: Array,
    *,
    num_threads: int | None = None,
) -> bool:
    """Fill ``out`` (float32) from four packed planes that lie at ``starts`` in the payload.

    False where a code has no byte in its plane's dictionary; what ``out`` holds then is of no use.
    """
    flat = _floats(out)
    module = native()
    if module is not None:
        tables = np.zeros((PLANES, 256), np.uint8)
        for plane, entries in enumerate(dictionaries):
            tables[plane, : len(entries)] = np.frombuffer(entries, np.uint8)
        sizes = np.array([len(entries) for entries in dictionaries], np.uint16)
        return bool(
            module.planes_unpack(payload, *starts, bytes(bits), tables, sizes, flat, resolve_threads(num_threads))
        )
    good = True
    for start in range(0, flat.size, SLICE):
        piece = flat[start : start + SLICE]
        target = piece.view(np.uint8).reshape(-1, PLANES)
        for plane, (at, width, entries) in enumerate(zip(starts, bits, dictionaries)):
            first = at + start // 8 * width
            packed = payload[first : first + packed_size(piece.size, width)]
            digits = np.unpackbits(packed, count=piece.size * width).reshape(-1, width)
            codes = np.packbits(np.pad(digits, ((0, 0), (8 - width, 0))), axis=1).reshape(-1)
            table = np.zeros(256, np.uint8)
            table[: len(entries)] = np.frombuffer(entries, np.uint8)
            good = good and (not codes.size or int(codes.max()) < len(entries))
            target[:, plane] = table[codes]
    return good


def _floats(array: Array) -> Array:
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ValueError(f"expected C-contiguous float32 values, found {array.dtype}")
    return array.reshape(-1)
