"""Affine uint8: ``value = code * scale + min``, with one min and scale for all rows it encodes.

The arithmetic is float32 with two roundings, never a fused multiply-add, so that every reader gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from polyvec import kernels
from polyvec.core.blocks import Array, Block, Codec, PartTypes
from polyvec.core.errors import InputError
from polyvec.kernels.filecasts import Cast

SMALLEST_NORMAL = np.float32(2.0**-126)


@dataclass(frozen=True, slots=True)
class AffineUint8(Codec):
    """256 even steps from ``minimum`` on, ``scale`` apart. Constant rows get scale 1 and code 0."""

    name: ClassVar[str] = "affine-uint8"
    fit_scope: ClassVar[str] = "chunk"
    minimum: float
    scale: float

    @property
    def cast(self) -> Cast:
        return Cast("u8", self.minimum, self.scale)

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(np.uint8), row_shape)}

    @classmethod
    def fit(cls, rows: Iterable[Array]) -> Self:
        """Min and scale over all the rows; NaN and infinity are refused, with their place."""
        low, high, start = np.float32(np.inf), np.float32(-np.inf), 0
        for piece in rows:
            piece = np.ascontiguousarray(piece, np.float32)
            if piece.size:
                least, most, finite = kernels.f32_min_max(piece)
                if not finite:
                    refuse_non_finite(piece, start)
                low, high = min(low, np.float32(least)), max(high, np.float32(most))
            start += len(piece)
        if low > high:
            return cls(0.0, 1.0)
        with np.errstate(over="ignore"):
            scale = step_of(np.float32(high - low), 255)
        if not np.isfinite(scale):
            raise InputError(
                f"values from {low:g} to {high:g} span more than float32 can scale; choose an exact encoding"
            )
        return cls(float(low), float(scale) if scale > 0 else 1.0)

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        return {"codes": kernels.f32_to_u8(rows, self.minimum, self.scale).reshape(rows.shape)}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        return kernels.u8_to_f32(block.parts["codes"], self.minimum, self.scale, out)


def step_of(span: Any, levels: int) -> Any:
    """span / levels in float32: a subnormal step rounded up, since rounded down it would leave the ends of the span out,
    and one whose multiple would be infinite rounded down."""
    step = np.asarray(span / np.float32(levels), np.float32)
    with np.errstate(over="ignore"):
        over = np.isfinite(step) & np.isinf(step * np.float32(levels))
        step = np.where(over, np.nextafter(step, np.float32(0)), step)
    wide = np.asarray(span, np.float64)
    up = np.ceil(wide / levels * 2.0**149) * 2.0**-149
    return np.where((step < SMALLEST_NORMAL) & (wide > 0), up, step).astype(np.float32)[()]


def refuse_non_finite(rows: Array, start: int = 0) -> None:
    """`InputError` naming the first NaN or infinity."""
    refuse_first(rows, ~np.isfinite(rows), start, "cannot be stored as int8; remove it, or choose float16 or raw")


def refuse_first(rows: Array, bad: Array, start: int, why: str) -> None:
    """`InputError` with the first value that is bad and its place; ``start`` is the number of the first row."""
    places = np.argwhere(bad)
    if len(places):
        row, *rest = map(int, places[0])
        place = f"row {start + row}" + (f", column {rest[0]}" if rest else "")
        raise InputError(f"{rows[tuple(places[0])]:g} in {place} {why}")
