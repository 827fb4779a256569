"""float16 and bfloat16: float32 rows kept in two bytes a value, rounded to nearest even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from polyvec import kernels
from polyvec.codecs.affine import refuse_first
from polyvec.core.blocks import Array, Block, Codec, PartTypes
from polyvec.kernels.filecasts import Cast

BRAIN_END = (2 - 2.0**-8) * 2.0**127  # from here on the nearest bfloat16 is infinity


@dataclass(frozen=True, slots=True)
class Float16(Codec):
    """IEEE half precision. Values beyond 65504 are refused unless ``allow_overflow``."""

    name: ClassVar[str] = "float16"
    allow_overflow: bool = False

    @property
    def cast(self) -> Cast:
        return Cast("f16")

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype("<f2"), row_shape)}

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        codes = kernels.f32_to_f16(rows).view("<f2").reshape(rows.shape)
        if not self.allow_overflow and not _within_half(rows):
            refuse_overflow(rows, start)
        return {"codes": codes}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        return kernels.f16_to_f32(block.parts["codes"], out)


def _within_half(rows: Array) -> bool:
    """Whether surely no value overflows: one fast pass, where comparing every value costs several slow ones."""
    low, high, _ = kernels.f32_min_max(rows)
    return low > -65520.0 and high < 65520.0  # from 65520 on the nearest half is infinity; false where there is a NaN


def refuse_overflow(rows: Array, start: int = 0) -> None:
    """`InputError` naming the first finite value that float16 cannot hold, by its row."""
    with np.errstate(over="ignore"):
        bad = np.isinf(rows.astype(np.float16)) & np.isfinite(rows)
    refuse_first(
        rows,
        bad,
        start,
        "does not fit float16 (at most 65504); choose an exact encoding, bfloat16, or "
        "allow_overflow=True to store infinity",
    )


def _within_brain(rows: Array) -> bool:
    low, high, _ = kernels.f32_min_max(rows)
    return low > -BRAIN_END and high < BRAIN_END


def refuse_brain_overflow(rows: Array, start: int = 0) -> None:
    """`InputError` naming the first finite value that bfloat16 would make an infinity, by its row."""
    bad = (np.abs(rows) >= np.float32(BRAIN_END)) & np.isfinite(rows)
    refuse_first(rows, bad, start, "does not fit bfloat16 (at most 3.38953e+38); choose an exact encoding")


@dataclass(frozen=True, slots=True)
class BFloat16(Codec):
    """The upper half of a float32: its range, with eight bits of precision. The last values of float32 are refused."""

    name: ClassVar[str] = "bfloat16"

    @property
    def cast(self) -> Cast:
        return Cast("bf16")

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(ml_dtypes.bfloat16), row_shape)}

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.ascontiguousarray(rows, np.float32)
        if not _within_brain(rows):
            refuse_brain_overflow(rows, start)
        codes: np.ndarray[Any, Any] = kernels.f32_to_bf16(rows)
        return {"codes": codes.view(ml_dtypes.bfloat16).reshape(rows.shape)}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        return kernels.bf16_to_f32(block.parts["codes"].view(np.uint16), out)
