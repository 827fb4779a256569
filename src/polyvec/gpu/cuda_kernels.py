"""The decode kernel in CUDA C++, compiled at run time (NVRTC) through cupy or torch.

Each block decodes one tile of one piece: the kind is the same for all its threads. Whole tiles at aligned targets are read
and written in full lines, all loads before the first store; the ends, odd targets and scaled rows take the plain path.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from polyvec.gpu.plan import TILE

THREADS = 256

SOURCE = r"""
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

__device__ __forceinline__ float half_value(u32 h) {
    // NaNs keep their payload, as on the CPU; everything else is exact in hardware.
    float f;
    if ((h & 0x7c00u) == 0x7c00u && (h & 0x3ffu))
        return __uint_as_float(((h & 0x8000u) << 16) | 0x7f800000u | ((h & 0x3ffu) << 13));
    asm("{ .reg .b16 t; mov.b16 t, %1; cvt.f32.f16 %0, t; }" : "=f"(f) : "h"((u16)h));
    return f;
}

template <int KIND> __device__ __forceinline__ float value(u32 code, float a, float b, float r) {
    // Two roundings, never a fused multiply-add: the format says so.
    if (KIND == 3) return __fadd_rn(__fmul_rn((float)code, a), b);
    if (KIND == 4) {
        // The correctly rounded quotient by its reciprocal r and two exact residuals: faster than a division.
        const float x = (float)(signed char)code;
        float q = __fmul_rn(x, r);
        q = __fmaf_rn(__fmaf_rn(-q, a, x), r, q);
        return __fmaf_rn(__fmaf_rn(-q, a, x), r, q);
    }
    if (KIND == 5) return __fmul_rn((float)(signed char)code, a);
    if (KIND == 2) return __uint_as_float(code << 16);
    if (KIND == 1) return half_value(code);
    return __uint_as_float(code);
}

template <int OUT> __device__ __forceinline__ u16 narrow(float f) {
    u16 h;
    if (OUT == 1) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
    u32 u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

// Eight values from their codes: 8, 16 or 32 bytes read at once.
template <int WIDTH> __device__ __forceinline__ void read8(const u8* codes, i64 i, u32* c) {
    if (WIDTH == 1) {
        uint2 w = __ldcs((const uint2*)(codes + i));
        #pragma unroll
        for (int j = 0; j < 4; ++j) { c[j] = (w.x >> (8 * j)) & 0xff; c[4 + j] = (w.y >> (8 * j)) & 0xff; }
    } else if (WIDTH == 2) {
        uint4 w = __ldcs((const uint4*)(codes + 2 * i));
        c[0] = w.x & 0xffff; c[1] = w.x >> 16; c[2] = w.y & 0xffff; c[3] = w.y >> 16;
        c[4] = w.z & 0xffff; c[5] = w.z >> 16; c[6] = w.w & 0xffff; c[7] = w.w >> 16;
    }
}

// Four values: what a float32 target wants, so that a warp's stores are whole lines.
template <int WIDTH> __device__ __forceinline__ void read4(const u8* codes, i64 i, u32* c) {
    if (WIDTH == 1) {
        u32 w = __ldcs((const u32*)(codes + i));
        #pragma unroll
        for (int j = 0; j < 4; ++j) c[j] = (w >> (8 * j)) & 0xff;
    } else if (WIDTH == 2) {
        uint2 w = __ldcs((const uint2*)(codes + 2 * i));
        c[0] = w.x & 0xffff; c[1] = w.x >> 16; c[2] = w.y & 0xffff; c[3] = w.y >> 16;
    } else {
        uint4 w = __ldcs((const uint4*)(codes + 4 * i));
        c[0] = w.x; c[1] = w.y; c[2] = w.z; c[3] = w.w;
    }
}

// A whole tile at an aligned target: every load is started before the first store.
template <int OUT, int KIND, int WIDTH> __device__ void whole(const u8* codes, void* out, i64 target, float a, float b, float r) {
    if (OUT == 0 || WIDTH == 4) {
        const int N = 8;  // TILE / (THREADS * 4)
        u32 c[N][4];
        #pragma unroll
        for (int k = 0; k < N; ++k) read4<WIDTH>(codes, (k * THREADS + threadIdx.x) * 4, c[k]);
        #pragma unroll
        for (int k = 0; k < N; ++k) {
            i64 at = target + (k * THREADS + threadIdx.x) * 4;
            float v[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) v[j] = value<KIND>(c[k][j], a, b, r);
            if (OUT == 0) {
                __stcs((float4*)((float*)out + at), make_float4(v[0], v[1], v[2], v[3]));
            } else {
                uint2 w;
                w.x = narrow<OUT>(v[0]) | ((u32)narrow<OUT>(v[1]) << 16);
                w.y = narrow<OUT>(v[2]) | ((u32)narrow<OUT>(v[3]) << 16);
                __stcs((uint2*)((u16*)out + at), w);
            }
        }
    } else {
        const int N = 4;  // TILE / (THREADS * 8)
        u32 c[N][8];
        #pragma unroll
        for (int k = 0; k < N; ++k) read8<WIDTH>(codes, (k * THREADS + threadIdx.x) * 8, c[k]);
        #pragma unroll
        for (int k = 0; k < N; ++k) {
            u32 w[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                w[j] = narrow<OUT>(value<KIND>(c[k][2 * j], a, b, r)) | ((u32)narrow<OUT>(value<KIND>(c[k][2 * j + 1], a, b, r)) << 16);
            __stcs((uint4*)((u16*)out + target + (k * THREADS + threadIdx.x) * 8), make_uint4(w[0], w[1], w[2], w[3]));
        }
    }
}

template <int OUT, int KIND, int WIDTH> __device__ void tile(const u8* buffer, const i64* record, i64 begin, void* out) {
    const i64 count = min(record[2] - begin, (i64)TILE);
    float a = __int_as_float((int)record[4]);
    const float b = __int_as_float((int)record[5]);
    const u8* codes = buffer + record[0] + begin * WIDTH;
    const i64 target = record[1] + begin;
    if (KIND != 5 && count == TILE && target % 8 == 0)
        return whole<OUT, KIND, WIDTH>(codes, out, target, a, b, KIND == 4 ? __frcp_rn(a) : 0.0f);
    const float* scales = (const float*)(buffer + record[7]);
    for (int i = threadIdx.x; i < count; i += THREADS) {
        if (KIND == 5) a = scales[(begin + i) / record[6]];
        const u32 code = WIDTH == 1 ? codes[i] : WIDTH == 2 ? ((const u16*)codes)[i] : ((const u32*)codes)[i];
        const float f = value<KIND>(code, a, b, KIND == 4 ? __frcp_rn(a) : 0.0f);
        if (OUT == 0) ((float*)out)[target + i] = f; else ((u16*)out)[target + i] = narrow<OUT>(f);
    }
}

template <int OUT> __device__ void decode(const u8* buffer, const i64* tiles, void* out) {
    const i64* place = tiles + 2 * (i64)blockIdx.x;
    const i64* record = (const i64*)buffer + 8 * place[0];
    switch ((int)record[3]) {  // the same for all threads of a block
        case 0: return tile<OUT, 0, 4>(buffer, record, place[1], out);
        case 1: return tile<OUT, 1, 2>(buffer, record, place[1], out);
        case 2: return tile<OUT, 2, 2>(buffer, record, place[1], out);
        case 3: return tile<OUT, 3, 1>(buffer, record, place[1], out);
        case 4: return tile<OUT, 4, 1>(buffer, record, place[1], out);
        default: return tile<OUT, 5, 1>(buffer, record, place[1], out);
    }
}

extern "C" __global__ void decode_f32(const u8* buffer, const i64* tiles, float* out) { decode<0>(buffer, tiles, out); }
extern "C" __global__ void decode_f16(const u8* buffer, const i64* tiles, u16* out) { decode<1>(buffer, tiles, out); }
extern "C" __global__ void decode_bf16(const u8* buffer, const i64* tiles, u16* out) { decode<2>(buffer, tiles, out); }
"""

NAMES = {"float32": "decode_f32", "float16": "decode_f16", "bfloat16": "decode_bf16"}


def source() -> str:
    """The program, with the tile size of the plan."""
    return f"#define TILE {TILE}\n#define THREADS {THREADS}\n" + SOURCE


@cache
def compiled(name: str) -> Any:
    """``launch(tiles, buffer pointer, tiles pointer, out pointer, stream pointer)`` of one kernel."""
    import cupy

    module = cupy.RawModule(code=source(), options=("--std=c++17",))
    kernel = module.get_function(name)

    def launch(tiles: int, buffer: int, table: int, out: int, stream: int) -> None:
        with external(cupy, stream):
            kernel((tiles,), (THREADS,), (np.uintp(buffer), np.uintp(table), np.uintp(out)))

    return launch


@lru_cache(16)
def external(cupy: Any, stream: int) -> Any:
    """Another library's stream as cupy's."""
    make = getattr(cupy.cuda.Stream, "from_external", None)
    return cupy.cuda.ExternalStream(stream) if make is None else make(_Stream(stream))


class _Stream:
    """A stream by the CUDA stream protocol."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


@cache
def compiled_by_torch(name: str) -> Any:
    """The same through torch's own NVRTC, for machines without cupy; takes tensors."""
    import torch

    return torch.cuda._compile_kernel(source(), name)
