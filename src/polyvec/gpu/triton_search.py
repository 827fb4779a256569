"""Search kernels in Triton: scores of compressed rows, reduced to the best of each tile before they leave the chip."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _weights(a_ptr, b_ptr, c_ptr, row, there):
    """The factors of rows: a score is a*(codes . query) + b*sum + c."""
    a = tl.load(a_ptr + row, mask=there, other=0.0)
    b = tl.load(b_ptr + row, mask=there, other=0.0)
    c = tl.load(c_ptr + row, mask=there, other=0.0)
    return a, b, c


@triton.jit
def best_of_tiles(
    codes_ptr,
    queries_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    sums_ptr,
    best_ptr,
    rows,
    dim,
    query_count,
    tile_count,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    QUERIES: tl.constexpr,
    DEPTH: tl.constexpr,
    PLAIN: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """best[query, tile] = the highest approximate score of a tile's rows: a*(codes . query) + b*sum + c."""
    tile = tl.program_id(0)
    query = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    known = query < query_count
    depth = tl.arange(0, DEPTH)
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    sums = tl.load(sums_ptr + query, mask=known, other=0.0)
    for step in range(0, ROWS, STEP):
        row = tile.to(tl.int64) * ROWS + step + tl.arange(0, STEP)
        there = row < rows
        total = tl.zeros([STEP, QUERIES], tl.float32)
        for at in range(0, dim, DEPTH):
            inside = at + depth < dim
            if WHOLE:
                x = tl.load(codes_ptr + row[:, None] * dim + (at + depth)[None, :], mask=there[:, None], other=0)
            else:
                x = tl.load(
                    codes_ptr + row[:, None] * dim + (at + depth)[None, :],
                    mask=there[:, None] & inside[None, :],
                    other=0,
                )
            q = tl.load(
                queries_ptr + query[None, :] * dim + (at + depth)[:, None],
                mask=known[None, :] & inside[:, None],
                other=0.0,
            )
            total = tl.dot(x.to(tl.float16), q, total)
        score = total
        if not PLAIN:
            a, b, c = _weights(a_ptr, b_ptr, c_ptr, row, there)
            score = a[:, None] * total + b[:, None] * sums[None, :] + c[:, None]
        score = tl.where(there[:, None], score, float("-inf"))
        best = tl.maximum(best, tl.max(score, axis=0))
    tl.store(best_ptr + query.to(tl.int64) * tile_count + tile, best, mask=known)


@triton.jit
def best_of_int8_tiles(
    codes_ptr,
    high_ptr,
    low_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    sums_ptr,
    best_ptr,
    rows,
    dim,
    query_count,
    tile_count,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    QUERIES: tl.constexpr,
    DEPTH: tl.constexpr,
    PLAIN: tl.constexpr,
    WHOLE: tl.constexpr,
    ONCE: tl.constexpr,
):
    """As `best_of_tiles` for int8 codes, all in integers: a query is 128*high + low, and both products are exact."""
    tile = tl.program_id(0)
    query = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    known = query < query_count
    depth = tl.arange(0, DEPTH)
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    sums = tl.load(sums_ptr + query, mask=known, other=0.0)
    if ONCE:
        inside = depth < dim
        wanted = known[:, None] & inside[None, :]
        high = tl.load(high_ptr + query[:, None] * dim + depth[None, :], mask=wanted, other=0)
        low = tl.load(low_ptr + query[:, None] * dim + depth[None, :], mask=wanted, other=0)
    for step in range(0, ROWS, STEP):
        row = tile.to(tl.int64) * ROWS + step + tl.arange(0, STEP)
        there = row < rows
        coarse = tl.zeros([STEP, QUERIES], tl.int32)
        fine = tl.zeros([STEP, QUERIES], tl.int32)
        if ONCE:
            if WHOLE:
                x = tl.load(codes_ptr + row[:, None] * dim + depth[None, :], mask=there[:, None], other=0)
            else:
                x = tl.load(
                    codes_ptr + row[:, None] * dim + depth[None, :],
                    mask=there[:, None] & (depth < dim)[None, :],
                    other=0,
                )
            coarse = tl.dot(x, tl.trans(high), coarse, out_dtype=tl.int32)
            fine = tl.dot(x, tl.trans(low), fine, out_dtype=tl.int32)
        else:
            for at in range(0, dim, DEPTH):
                inside = at + depth < dim
                wanted = known[:, None] & inside[None, :]
                x = tl.load(
                    codes_ptr + row[:, None] * dim + (at + depth)[None, :],
                    mask=there[:, None] & inside[None, :],
                    other=0,
                )
                h = tl.load(high_ptr + query[:, None] * dim + (at + depth)[None, :], mask=wanted, other=0)
                low = tl.load(low_ptr + query[:, None] * dim + (at + depth)[None, :], mask=wanted, other=0)
                coarse = tl.dot(x, tl.trans(h), coarse, out_dtype=tl.int32)
                fine = tl.dot(x, tl.trans(low), fine, out_dtype=tl.int32)
        score = coarse.to(tl.float32) * 128.0 + fine.to(tl.float32)
        if not PLAIN:
            a, b, c = _weights(a_ptr, b_ptr, c_ptr, row, there)
            score = a[:, None] * score + b[:, None] * sums[None, :] + c[:, None]
        score = tl.where(there[:, None], score, float("-inf"))
        best = tl.maximum(best, tl.max(score, axis=0))
    tl.store(best_ptr + query.to(tl.int64) * tile_count + tile, best, mask=known)


@triton.jit
def rows_of_pairs(
    codes_ptr,
    queries_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    sums_ptr,
    pair_query_ptr,
    pair_tile_ptr,
    floor_ptr,
    count_ptr,
    out_query_ptr,
    out_row_ptr,
    rows,
    dim,
    room,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    DEPTH: tl.constexpr,
    PLAIN: tl.constexpr,
):
    """Rows of promising tiles whose score reaches their query's floor, appended to a list."""
    pair = tl.program_id(0)
    query = tl.load(pair_query_ptr + pair)
    tile = tl.load(pair_tile_ptr + pair)
    floor = tl.load(floor_ptr + query)
    total_of_query = tl.load(sums_ptr + query)
    depth = tl.arange(0, DEPTH)
    for step in range(0, ROWS, STEP):
        row = tile * ROWS + step + tl.arange(0, STEP)
        there = row < rows
        total = tl.zeros([STEP], tl.float32)
        for at in range(0, dim, DEPTH):
            inside = at + depth < dim
            mask = there[:, None] & inside[None, :]
            x = tl.load(codes_ptr + row[:, None] * dim + (at + depth)[None, :], mask=mask, other=0).to(tl.float32)
            q = tl.load(queries_ptr + query * dim + at + depth, mask=inside, other=0.0).to(tl.float32)
            total += tl.sum(x * q[None, :], axis=1)
        score = total
        if not PLAIN:
            a, b, c = _weights(a_ptr, b_ptr, c_ptr, row, there)
            score = a * total + b * total_of_query + c
        good = there & (score >= floor)
        slot = tl.atomic_add(count_ptr + tl.zeros([STEP], tl.int32), tl.full([STEP], 1, tl.int32), mask=good)
        kept = good & (slot < room)
        tl.store(out_query_ptr + slot, query + tl.zeros([STEP], tl.int64), mask=kept)
        tl.store(out_row_ptr + slot, row, mask=kept)
