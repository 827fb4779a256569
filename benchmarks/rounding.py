"""Claim: norm-tuned rounding runs natively at least 10x its NumPy reference, and keeps more neighbours.

Prints the speed of the native kernel against the reference, plain ``np.rint`` and a memory copy, then recall@10 of
truncation, rounding to nearest and norm-tuned rounding on three seeded recipes.

    python benchmarks/rounding.py [--small]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from polyvec.kernels.rounding import round_levels, round_levels_reference

K = 10


def recipe(name: str, rows: int, dim: int, *, seed: int = 11) -> np.ndarray:
    """Unit rows: isotropic noise, tight clusters, or CLIP-like rows with a few outlier dimensions."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim), dtype=np.float32)
    if name == "clustered":
        # a few hundred rows a cluster, close together: neighbours differ by less than a level, so norms matter
        x = (
            0.25 * x
            + rng.standard_normal((max(1, rows // 250), dim), dtype=np.float32)[
                rng.integers(0, max(1, rows // 250), rows)
            ]
        )
    if name == "outliers":
        x = (
            0.5 * x
            + rng.standard_normal((max(1, rows // 500), dim), dtype=np.float32)[
                rng.integers(0, max(1, rows // 500), rows)
            ]
        )
        x[:, rng.choice(dim, 4, replace=False)] += np.float32(12.0)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def best(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


def top(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :K]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="5,000 rows instead of 50,000")
    rows = 5_000 if parser.parse_args().small else 50_000
    dim, queries = 512, 500

    x = recipe("isotropic", rows, dim)
    out = np.empty_like(x)
    native = best(lambda: round_levels(x), 5)
    reference = best(lambda: round_levels_reference(x), 1 if rows > 10_000 else 3)
    plain = best(lambda: np.rint(x * np.float32(127)).astype(np.int8), 3)
    copy = best(lambda: np.copyto(out, x), 5)
    size = x.nbytes / 1e9
    print(f"rounding {rows} x {dim} float32 ({size:.2f} GB), best of runs")
    for label, seconds in [
        ("norm-tuned, native", native),
        ("norm-tuned, NumPy reference", reference),
        ("np.rint alone (no tuning)", plain),
        ("memory copy of the input (limit)", copy),
    ]:
        print(
            f"  {label:34} {seconds * 1e3:9.1f} ms  {size / seconds:6.2f} GB/s  {seconds / native:6.2f}x native's time"
        )
    print(f"  native against its reference: {reference / native:.1f}x faster (claim: at least 10x)")

    print(f"recall@{K} of int8 rows against float32 rows, {queries} queries held out, float queries")
    print(f"  {'recipe':12}{'truncate':>10}{'nearest':>10}{'norm':>10}{'norm, top 100 reranked':>25}")
    for name in ("isotropic", "clustered", "outliers"):
        everything = recipe(name, rows + queries, dim)
        base, asked = everything[:rows], everything[rows:]
        truth = top(asked, base)
        cells = []
        for how in ("truncate", "nearest", "norm"):
            codes, _ = round_levels(base, rounding=how)  # type: ignore[arg-type]
            scores = asked @ codes.astype(np.float32).T
            found = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            cells.append(np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth)]))
        near = np.argpartition(-scores, 100, axis=1)[:, :100]
        again = np.take_along_axis(near, np.argsort(-np.einsum("qd,qkd->qk", asked, base[near]), axis=1)[:, :K], 1)
        cells.append(np.mean([len(set(a) & set(b)) / K for a, b in zip(again, truth)]))
        print(f"  {name:12}{cells[0]:>10.3f}{cells[1]:>10.3f}{cells[2]:>10.3f}{cells[3]:>25.3f}")


if __name__ == "__main__":
    main()
