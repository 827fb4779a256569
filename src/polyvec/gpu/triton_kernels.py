"""The decode kernel in Triton; also runs in Triton's interpreter on the CPU, which is how it is tested everywhere."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def decode_tiles(
    bytes_ptr,
    halves_ptr,
    words_ptr,
    table_ptr,
    tiles_ptr,
    out_ptr,
    TILE: tl.constexpr,
    OUT: tl.constexpr,
    ALIGNED: tl.constexpr,
    KINDS: tl.constexpr,
    PART: tl.constexpr,
):
    """One program decodes one tile of one piece. The three pointers are the same buffer as u8, u16 and i32."""
    tile = tl.program_id(0)
    number = tl.load(tiles_ptr + 2 * tile)
    begin = tl.multiple_of(tl.load(tiles_ptr + 2 * tile + 1), TILE)
    record = table_ptr + 8 * number
    source = tl.load(record)
    target = tl.load(record + 1) + begin
    count = tl.load(record + 2) - begin
    kind = tl.load(record + 3)
    a = tl.load(record + 4).to(tl.int32).to(tl.float32, bitcast=True)
    b = tl.load(record + 5).to(tl.int32).to(tl.float32, bitcast=True)
    if ALIGNED:
        target = tl.multiple_of(target, 16)
    source = tl.multiple_of(source, 16)
    # A whole tile is read and written without masks, in full lines; only the last tile of a piece is cut.
    if tl.where(kind >= 3, 2, tl.where(kind >= 1, 1, 0)) == KINDS:
        if count >= TILE:
            for at in tl.static_range(0, TILE, PART):
                _decode(
                    bytes_ptr,
                    halves_ptr,
                    words_ptr,
                    record,
                    source,
                    target + at,
                    begin + at,
                    count - at,
                    kind,
                    a,
                    b,
                    out_ptr,
                    PART,
                    OUT,
                    KINDS,
                    False,
                )
        else:
            for at in range(0, TILE, PART):
                _decode(
                    bytes_ptr,
                    halves_ptr,
                    words_ptr,
                    record,
                    source,
                    target + at,
                    begin + at,
                    count - at,
                    kind,
                    a,
                    b,
                    out_ptr,
                    PART,
                    OUT,
                    KINDS,
                    True,
                )


@triton.jit
def _decode(
    bytes_ptr,
    halves_ptr,
    words_ptr,
    record,
    source,
    target,
    begin,
    count,
    kind,
    a,
    b,
    out_ptr,
    TILE: tl.constexpr,
    OUT: tl.constexpr,
    KINDS: tl.constexpr,
    CUT: tl.constexpr,
):
    lane = tl.arange(0, TILE)
    if KINDS == 0:
        at = words_ptr + (source // 4 + begin) + lane
        bits = tl.load(at, mask=lane < count, other=0) if CUT else tl.load(at)
        _store(out_ptr, target, lane, count, bits.to(tl.float32, bitcast=True), OUT, CUT)
    elif KINDS == 1:
        at = halves_ptr + (source // 2 + begin) + lane
        h = (tl.load(at, mask=lane < count, other=0) if CUT else tl.load(at)).to(tl.int32) & 0xFFFF
        if kind == 1:
            _store(out_ptr, target, lane, count, _half_value(h), OUT, CUT)
        else:
            _store(out_ptr, target, lane, count, (h << 16).to(tl.float32, bitcast=True), OUT, CUT)
    else:
        at = bytes_ptr + (source + begin) + lane
        raw = tl.load(at, mask=lane < count, other=0) if CUT else tl.load(at)
        if kind == 3:
            _store(out_ptr, target, lane, count, raw.to(tl.float32) * a + b, OUT, CUT)
        else:
            signed = raw.to(tl.int8, bitcast=True).to(tl.float32)
            if kind == 4:
                _store(out_ptr, target, lane, count, tl.div_rn(signed, a + 0.0 * signed), OUT, CUT)
            else:
                dim = tl.load(record + 6)
                extra = tl.load(record + 7)
                scale = tl.load(words_ptr + extra // 4 + (begin + lane) // dim, mask=lane < count, other=0)
                _store(out_ptr, target, lane, count, signed * scale.to(tl.float32, bitcast=True), OUT, CUT)


@triton.jit
def _half_value(h):
    exact = h.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    broken = ((h & 0x7C00) == 0x7C00) & ((h & 0x3FF) != 0)
    kept = ((h & 0x8000) << 16) | 0x7F800000 | ((h & 0x3FF) << 13)
    return tl.where(broken, kept.to(tl.float32, bitcast=True), exact)


@triton.jit
def _store(out_ptr, target, lane, count, value, OUT: tl.constexpr, CUT: tl.constexpr):
    if OUT == 0:
        result = value
    elif OUT == 1:
        result = value.to(tl.float16)
    else:  # rounded to nearest even by hand: the interpreter's cast would cut
        u = value.to(tl.int32, bitcast=True)
        rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
        broken = (u & 0x7FFFFFFF) > 0x7F800000
        result = tl.where(broken, (u >> 16) | 0x40, rounded).to(tl.int16)
    if CUT:
        tl.store(out_ptr + target + lane, result, mask=lane < count)
    else:
        tl.store(out_ptr + target + lane, result)


def launch(buffer: Any, table: Any, tiles: Any, out: Any, *, widths: set[int], aligned: bool, count: int) -> None:
    """Decode a buffer of bytes (a torch uint8 tensor) into ``out`` (flat); one launch for each width of code it holds."""
    import torch

    from polyvec.gpu.plan import TILE

    code = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}[out.dtype]
    if code == 2:
        out = out.view(torch.int16)
    halves, words = buffer.view(torch.int16), buffer.view(torch.int32)
    for kinds, width in enumerate((4, 2, 1)):
        if width in widths:
            decode_tiles[(count,)](
                buffer,
                halves,
                words,
                table,
                tiles,
                out,
                TILE=TILE,
                OUT=code,
                ALIGNED=aligned,
                KINDS=kinds,
                PART=1024,
                num_warps=4,
                enable_fp_fusion=False,
            )
