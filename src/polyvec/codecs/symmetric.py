"""Symmetric int8: ``value = code / 127`` for unit rows, or ``code * scale`` with a scale a row. Codes -127..127."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from polyvec import kernels
from polyvec.codecs.affine import refuse_non_finite, step_of
from polyvec.core.blocks import Array, Block, Codec, PartTypes
from polyvec.kernels.filecasts import Cast


@dataclass(frozen=True, slots=True)
class SymmetricInt8(Codec):
    """One divisor for all rows; values beyond ±127/divisor saturate."""

    name: ClassVar[str] = "symmetric-int8"
    divisor: float = 127.0

    @property
    def cast(self) -> Cast:
        return Cast("i8", self.divisor)

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(np.int8), row_shape)}

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        refuse_non_finite(rows, start)
        return {"codes": kernels.f32_to_i8(rows, multiplier=self.divisor).reshape(rows.shape)}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        return kernels.i8_to_f32(block.parts["codes"], out, divisor=self.divisor)


@dataclass(frozen=True, slots=True)
class ScaledInt8(Codec):
    """A float32 scale a row, stored beside the codes: the largest value of each row is code ±127."""

    name: ClassVar[str] = "scaled-int8"

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(np.int8), row_shape), "scale": (np.dtype("<f4"), ())}

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        refuse_non_finite(rows, start)
        flat = rows.reshape(len(rows), prod(rows.shape[1:]))
        largest = np.abs(flat).max(axis=1, initial=0.0) if flat.size else np.zeros(len(rows), np.float32)
        scale = step_of(largest, 127)
        scale[scale == 0] = 1.0
        return {"codes": kernels.f32_to_i8(flat, scales=scale).reshape(rows.shape), "scale": scale}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        codes, scale = block.parts["codes"], block.parts["scale"]
        flat = codes.reshape(len(codes), prod(codes.shape[1:]))
        if out is None:
            return kernels.i8_to_f32(flat, scales=scale).reshape(codes.shape)
        kernels.i8_to_f32(flat, out.reshape(flat.shape), scales=scale)
        return out
