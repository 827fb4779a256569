"""Encodings, one file each, and the ways between them."""

from __future__ import annotations

import numpy as np

from polyvec.codecs.affine import AffineUint8
from polyvec.codecs.float16 import BFloat16, Float16
from polyvec.codecs.planes import BytePlanes
from polyvec.codecs.raw import Raw
from polyvec.codecs.symmetric import ScaledInt8, SymmetricInt8
from polyvec.core.blocks import Block, Codec
from polyvec.core.columns import same_codes

__all__ = [
    "AffineUint8",
    "BFloat16",
    "BytePlanes",
    "Float16",
    "Raw",
    "ScaledInt8",
    "SymmetricInt8",
    "shortcut",
    "transcode",
]


def shortcut(block: Block, codec: Codec) -> Block | None:
    """The block in another codec without decoding it, where the codes allow; else None."""
    own = block.codec
    codes = block.parts["codes"]
    if own == codec:
        return block
    if same_codes(own, codec, codes.shape[1:]):
        part, (dtype, _) = codes, codec.parts(codes.shape[1:])["codes"]
        return Block(block.start, {"codes": part.view(dtype)}, codec, block.rows)
    if own == SymmetricInt8(127.0) and codec == shifted_symmetric():
        if codes.size and codes.min() == -128:
            return None  # outside the symmetric range: decoding clamps nothing, so neither may the shift
        return Block(block.start, {"codes": (codes.view(np.uint8) + np.uint8(127))}, codec, block.rows)
    if codec == SymmetricInt8(127.0) and own == shifted_symmetric():
        if codes.size and codes.max() == 255:
            return None
        return Block(block.start, {"codes": (codes - np.uint8(127)).view(np.int8)}, codec, block.rows)
    return None


def shifted_symmetric() -> AffineUint8:
    """Symmetric int8 as affine codes: code + 127, min -1, scale 1/127. Codes exact, values within 1e-7."""
    return AffineUint8(-1.0, float(np.float32(1.0) / np.float32(127.0)))


def transcode(block: Block, codec: Codec) -> Block:
    """The block in another codec: as it is, by code, or decoded and encoded."""
    quick = shortcut(block, codec)
    if quick is not None:
        return quick
    rows = block.decode()
    return Block(block.start, codec.encode(rows, block.start), codec, len(rows))
