"""The decode kernel in CUDA C++, compiled at run time (NVRTC) through cupy or torch.

Each block decodes one tile of one piece: the kind is the same for all its threads. Four values a thread and step, so that
a warp reads and writes whole lines; targets that are not 16-byte aligned take the plain path.
"""

from __future__ import annotations

from functools import cache
from typing import Any

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

__device__ __forceinline__ float value(int kind, u32 code, float a, float b) {
    // Two roundings, never a fused multiply-add: the format says so.
    if (kind == 3) return __fadd_rn(__fmul_rn((float)code, a), b);
    if (kind == 4) return __fdiv_rn((float)(signed char)code, a);
    if (kind == 5) return __fmul_rn((float)(signed char)code, a);
    if (kind == 2) return __uint_as_float(code << 16);
    if (kind == 1) return half_value(code);
    return __uint_as_float(code);
}

__device__ __forceinline__ u32 code_at(const u8* p, int width, i64 i) {
    return width == 1 ? p[i] : width == 2 ? ((const u16*)p)[i] : ((const u32*)p)[i];
}

template <int OUT> __device__ __forceinline__ u16 narrow(float f) {
    u16 h;
    if (OUT == 1) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
    u32 u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

template <int OUT> __device__ void decode(const u8* buffer, const i64* tiles, void* out) {
    const i64* tile = tiles + 2 * (i64)blockIdx.x;
    const i64* record = (const i64*)buffer + 8 * tile[0];
    const i64 begin = tile[1];
    const i64 count = min(record[2] - begin, (i64)TILE);
    const int kind = (int)record[3];
    const int width = kind == 0 ? 4 : kind <= 2 ? 2 : 1;
    float a = __int_as_float((int)record[4]);
    const float b = __int_as_float((int)record[5]);
    const u8* codes = buffer + record[0] + begin * width;
    const i64 target = record[1] + begin;
    const float* scales = kind == 5 ? (const float*)(buffer + record[7]) : 0;
    const i64 dim = record[6];
    if (target % 4 == 0 && kind != 5) {
        #pragma unroll 4
        for (i64 i = threadIdx.x * 4; i + 4 <= count; i += blockDim.x * 4) {
            float v[4];
            if (width == 1) {
                u32 w = *(const u32*)(codes + i);
                #pragma unroll
                for (int j = 0; j < 4; ++j) v[j] = value(kind, (w >> (8 * j)) & 0xff, a, b);
            } else if (width == 2) {
                uint2 w = *(const uint2*)(codes + 2 * i);
                v[0] = value(kind, w.x & 0xffff, a, b); v[1] = value(kind, w.x >> 16, a, b);
                v[2] = value(kind, w.y & 0xffff, a, b); v[3] = value(kind, w.y >> 16, a, b);
            } else {
                float4 w = *(const float4*)(codes + 4 * i);
                v[0] = w.x; v[1] = w.y; v[2] = w.z; v[3] = w.w;
            }
            if (OUT == 0) {
                __stcs((float4*)((float*)out + target + i), make_float4(v[0], v[1], v[2], v[3]));
            } else {
                uint2 w;
                w.x = narrow<OUT>(v[0]) | ((u32)narrow<OUT>(v[1]) << 16);
                w.y = narrow<OUT>(v[2]) | ((u32)narrow<OUT>(v[3]) << 16);
                __stcs((uint2*)((u16*)out + target + i), w);
            }
        }
        if (threadIdx.x < count % 4) {
            i64 i = count / 4 * 4 + threadIdx.x;
            float f = value(kind, code_at(codes, width, i), a, b);
            if (OUT == 0) ((float*)out)[target + i] = f; else ((u16*)out)[target + i] = narrow<OUT>(f);
        }
        return;
    }
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        if (scales) a = scales[(begin + i) / dim];
        float f = value(kind, code_at(codes, width, i), a, b);
        if (OUT == 0) ((float*)out)[target + i] = f; else ((u16*)out)[target + i] = narrow<OUT>(f);
    }
}

extern "C" __global__ void decode_f32(const u8* buffer, const i64* tiles, float* out) { decode<0>(buffer, tiles, out); }
extern "C" __global__ void decode_f16(const u8* buffer, const i64* tiles, u16* out) { decode<1>(buffer, tiles, out); }
extern "C" __global__ void decode_bf16(const u8* buffer, const i64* tiles, u16* out) { decode<2>(buffer, tiles, out); }
"""

NAMES = {"float32": "decode_f32", "float16": "decode_f16", "bfloat16": "decode_bf16"}


def source() -> str:
    """The program, with the tile size of the plan."""
    return f"#define TILE {TILE}\n" + SOURCE


@cache
def compiled(name: str) -> Any:
    """``launch(tiles, buffer pointer, tiles pointer, out pointer, stream pointer)`` of one kernel."""
    import cupy

    module = cupy.RawModule(code=source(), options=("--std=c++17",))
    kernel = module.get_function(name)

    def launch(tiles: int, buffer: int, table: int, out: int, stream: int) -> None:
        import numpy as np

        with cupy.cuda.ExternalStream(stream):
            kernel((tiles,), (THREADS,), (np.uintp(buffer), np.uintp(table), np.uintp(out)))

    return launch


@cache
def compiled_by_torch(name: str) -> Any:
    """The same through torch's own NVRTC, for machines without cupy; takes tensors."""
    import torch

    return torch.cuda._compile_kernel(source(), name)
