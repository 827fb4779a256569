"""Byte planes: float32 rows kept bit for bit, each of the four byte planes coded by the bytes that occur in it.

The payload of one chunk::

    u32 n_values, u8 bits[4], then for each plane, lowest byte first:
    u16 dict_size, dict_size bytes (the sorted bytes that occur), ceil(n_values * bits / 8) bytes of codes, packed
    most significant bit first; bits = max(1, ceil(log2(dict_size))), and the dictionary is there even at 8 bits.

Embeddings use few exponents, so the highest plane shrinks; the lower ones are noise and cost nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from polyvec.core.blocks import Array, Block, Codec, PartTypes
from polyvec.core.errors import Corrupt
from polyvec.kernels.planes import PLANES, packed_size, planes_pack, planes_seen, planes_unpack

HEAD = struct.Struct("<I4B")
MAX_VALUES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The dictionaries of one chunk, and from them where everything lies in its payload."""

    values: int
    dictionaries: tuple[bytes, ...]

    @classmethod
    def fit(cls, values: int, rows: Iterable[Array]) -> Plan:
        """The plan for ``values`` values that come as arrays in sequence."""
        seen = np.zeros((PLANES, 256), np.uint8)
        for piece in rows:
            planes_seen(np.ascontiguousarray(piece, np.float32), seen)
        return cls(values, tuple(np.flatnonzero(plane).astype(np.uint8).tobytes() for plane in seen))

    @property
    def bits(self) -> tuple[int, ...]:
        """Bits of a code in each plane."""
        return tuple(max(1, (len(entries) - 1).bit_length()) if entries else 1 for entries in self.dictionaries)

    @property
    def heads(self) -> list[bytes]:
        """What stands before each plane's codes; the first begins with the payload's head."""
        heads = [struct.pack("<H", len(entries)) + entries for entries in self.dictionaries]
        return [HEAD.pack(self.values, *self.bits) + heads[0], *heads[1:]]

    @property
    def starts(self) -> list[int]:
        """Where each plane's codes begin, counted from the payload's first byte."""
        starts, at = [], 0
        for head, bits in zip(self.heads, self.bits):
            starts.append(at + len(head))
            at = starts[-1] + packed_size(self.values, bits)
        return starts

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return self.starts[-1] + packed_size(self.values, self.bits[-1])

    def pack(self, plane: int, rows: Array, out: Array | None = None) -> Array:
        """The codes of one plane of some rows; all but the last rows of a chunk must be a multiple of 8 values."""
        table = np.zeros(256, np.uint8)
        entries = np.frombuffer(self.dictionaries[plane], np.uint8)
        table[entries] = np.arange(len(entries), dtype=np.uint8)
        return planes_pack(rows, plane, self.bits[plane], table, out)

    @classmethod
    def parse(cls, payload: Array, values: int) -> Plan:
        """The plan a payload states, checked against its size; `Corrupt` otherwise."""
        if payload.size < HEAD.size:
            raise Corrupt(
                "the lossless payload is too short for its head",
                field="payload",
                expected=f"{HEAD.size} bytes",
                found=f"{payload.size} bytes",
            )
        found, *bits = HEAD.unpack(payload[: HEAD.size].tobytes())
        if found != values:
            raise Corrupt(
                "the lossless payload holds another number of values", field="n_values", expected=values, found=found
            )
        dictionaries = []
        at = HEAD.size
        for plane, width in enumerate(bits):
            if not 1 <= width <= 8:
                raise Corrupt(
                    "a byte plane has a bad code width", field=f"bits[{plane}]", expected="1 to 8", found=width
                )
            count = int.from_bytes(payload[at : at + 2].tobytes(), "little") if at + 2 <= payload.size else -1
            end = at + 2 + count + packed_size(values, width)
            if count < 0 or count > 1 << width or end > payload.size:
                raise Corrupt(
                    "a byte plane does not fit its payload",
                    field=f"dict_size[{plane}]",
                    expected=f"at most {1 << width} entries, and {payload.size} bytes in all",
                    found=count,
                )
            dictionaries.append(payload[at + 2 : at + 2 + count].tobytes())
            at = end
        if at != payload.size:
            raise Corrupt(
                "bytes are left after the last byte plane",
                field="payload",
                expected=f"{at} bytes",
                found=f"{payload.size} bytes",
            )
        plan = cls(values, tuple(dictionaries))
        return plan if plan.bits == tuple(bits) else _Wide(values, tuple(dictionaries), tuple(bits))


@dataclass(frozen=True, slots=True)
class _Wide(Plan):
    """A plan whose codes are wider than they need be: legal, though no writer makes it."""

    widths: tuple[int, ...]

    @property
    def bits(self) -> tuple[int, ...]:
        return self.widths


@dataclass(frozen=True, slots=True)
class BytePlanes(Codec):
    """Lossless float32. Its codes are one payload a chunk: rows cannot be sliced."""

    name: ClassVar[str] = "lossless"
    fit_scope: ClassVar[str] = "chunk"
    exact: ClassVar[bool] = True
    row_shape: tuple[int, ...]

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(np.uint8), ())}

    def row_bytes(self, row_shape: tuple[int, ...]) -> int | None:
        return None

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        plan = Plan.fit(rows.size, [rows])
        payload = np.empty(plan.size, np.uint8)
        for plane, (head, start, bits) in enumerate(zip(plan.heads, plan.starts, plan.bits)):
            payload[start - len(head) : start] = np.frombuffer(head, np.uint8)
            plan.pack(plane, rows, payload[start : start + packed_size(rows.size, bits)])
        return {"codes": payload}

    def decoded_shape(self, block: Block) -> tuple[int, ...]:
        return (block.rows, *self.row_shape)

    def decode(self, block: Block, out: Array | None = None) -> Array:
        payload = block.parts["codes"]
        plan = Plan.parse(payload, block.rows * prod(self.row_shape))
        if out is None:
            out = np.empty(self.decoded_shape(block), np.float32)
        if not planes_unpack(payload, plan.starts, plan.bits, plan.dictionaries, out):
            raise Corrupt("a code of a byte plane has no entry in its dictionary", field="payload")
        return out
