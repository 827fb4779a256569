"""Kernels: what must be fast, compiled where possible and in NumPy everywhere, with the same bits.

`cpu_path()` tells which code runs. docs/kernels.md says what each kernel gives and how to add one.
"""

from __future__ import annotations

from polyvec.kernels.casts import (
    bf16_to_f32,
    f16_to_f32,
    f32_min_max,
    f32_to_bf16,
    f32_to_f16,
    f32_to_i8,
    f32_to_u8,
    i8_to_f32,
    u8_to_f32,
)
from polyvec.kernels.checksum import crc32, crc32_combine
from polyvec.kernels.paths import NATIVE, available_paths, cpu_path, use_path
from polyvec.kernels.threads import default_threads

__all__ = [
    "NATIVE",
    "available_paths",
    "bf16_to_f32",
    "cpu_path",
    "crc32",
    "crc32_combine",
    "default_threads",
    "f16_to_f32",
    "f32_min_max",
    "f32_to_bf16",
    "f32_to_f16",
    "f32_to_i8",
    "f32_to_u8",
    "i8_to_f32",
    "u8_to_f32",
    "use_path",
]
