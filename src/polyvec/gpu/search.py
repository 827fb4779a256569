"""Exact search over compressed rows on a device.

The codes stay as the file has them. One pass computes approximate scores on the matrix units (int8 codes against queries
of 15 bits in exact integers, or float16 against float16 with float32 sums) and keeps only the best of each tile of rows; no score matrix is ever written. The k-th best
tile bounds the k-th best score from below, so every row that could belong to the answer lies in a tile whose best
reaches that bound less twice the error; those few rows are scored again in float64 from their decoded values.

Why it is exact: with ``e`` the rounding error of the query, ``|approximate - true| <= margin`` where
``margin = (|e| + |q| (dim + 16) 2^-23) max|a c| + 2^-21 (max|b| |sum q| + max|c|)`` (for a float32 base, kept as
float16, plus ``|q|`` times the largest rounding error of a row). Let ``t`` be the k-th highest
tile maximum: k rows have approximate scores of at least ``t``, so the true k-th score is at least ``t - margin``, and a
row of the answer has an approximate score of at least ``t - 2 margin``. All rows above that are candidates.

The bound is relative; underflow and overflow of float32 are not in it. So rows and queries must be of lengths between
`SHORTEST` and `LONGEST` (or zero), where neither can occur; others are `Unsearchable`, and the CPU searches them. Scores are
those of `polyvec.kernels.scores`, bit for bit: the same lanes, the same tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs import AffineUint8, Raw, SymmetricInt8
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Unsearchable
from polyvec.gpu.pipeline import load_codes, load_column, open_memory
from polyvec.kernels.scores import LANES, query_norms, sum_lanes

TILE_ROWS = 1024
STEP = 128
CHUNK = 1 << 18  # rows decoded at a time when norms are taken
SHORTEST, LONGEST = 1e-15, 1e15

Found = tuple[NDArray[np.int64], NDArray[np.float64]]


class DeviceIndex:
    """A column's codes on a device, ready to be searched; made once, searched often."""

    def __init__(self, column: Column, *, device: str = "cuda") -> None:
        if not isinstance(column, FileColumn) or len(column.row_shape) != 1:
            raise Unsearchable(f"column {column.name!r} does not lie in a file as rows of codes")
        memory: Any = open_memory(device, "torch")
        self.memory, self.torch = memory, memory.torch
        self.rows, self.dim = column.shape
        extents = list(column.extents())
        kinds = {type(extent.codec) for extent in extents}
        dtypes = {extent.codec.parts(column.row_shape)["codes"][0].str for extent in extents}
        if len(kinds) != 1 or len(dtypes) != 1 or not dtypes <= {"|i1", "|u1", "<f2", "<f4"}:
            raise Unsearchable(
                f"column {column.name!r} ({column.encoding}) is not of one kind of int8, float16 or float32 codes"
            )
        self.column = column
        self.rounded = dtypes == {"<f4"}  # a float32 base is kept as float16; answers come from the file's own rows
        self.error = 0.0
        if self.rounded:
            self.dtype = "float16"
            self._round(column, device)
        else:
            self.dtype = {"|i1": "int8", "|u1": "uint8", "<f2": "float16"}[dtypes.pop()]
            width = self.dim * (2 if self.dtype == "float16" else 1)
            codes = load_codes(column, self.memory, width)
            if self.dtype == "uint8":  # the matrix units multiply signed codes: c - 128, and 128 goes into the minimum
                codes ^= 0x80
            view = "int8" if self.dtype == "uint8" else self.dtype
            self.codes = codes.view(getattr(self.torch, view)).reshape(self.rows, self.dim)
        self._factors(extents, kinds.pop())
        self._extremes()
        self._by_metric: dict[str, tuple[Any, Any, Any, float, float, float, float]] = {}

    def _round(self, column: FileColumn, device: str) -> None:
        """Float32 rows as float16 on the device, with their norms and the largest rounding error of a row."""
        torch = self.torch
        self.codes = self.memory.empty((self.rows, self.dim), "float16")
        self.norms = self.memory.empty((self.rows,), "float64")
        for at in range(0, self.rows, CHUNK):
            rows = load_column(column, device=device, start=at, stop=min(at + CHUNK, self.rows))
            part = slice(at, at + len(rows))
            self.codes[part] = rows.to(torch.float16)
            self.norms[part] = torch.linalg.vector_norm(rows.double(), dim=1)
            lost = torch.linalg.vector_norm(rows.double() - self.codes[part].double(), dim=1).max()
            self.error = max(self.error, float(lost) if bool(torch.isfinite(lost)) else float("inf"))
        if not np.isfinite(self.error):
            raise Unsearchable("some values are beyond float16's range")

    def _factors(self, extents: list[Any], kind: type) -> None:
        """How codes become values, a row: value = code * scale + minimum (or code / divisor)."""
        torch = self.torch
        self.divisor = 0.0
        self.scale: Any = None
        self.minimum: Any = None
        if kind is SymmetricInt8:
            divisors = {extent.codec.divisor for extent in extents}
            if len(divisors) != 1:
                raise Unsearchable("rows with different divisors cannot be searched on a device")
            self.divisor = divisors.pop()
        elif kind is AffineUint8:
            counts = torch.tensor([e.rows for e in extents])
            for name, values in (
                ("scale", [e.codec.scale for e in extents]),
                ("minimum", [e.codec.minimum for e in extents]),
            ):
                spread = torch.repeat_interleave(torch.tensor(values, dtype=torch.float32), counts)
                setattr(self, name, spread.to(self.codes.device))
        elif self.dtype == "uint8":
            raise Unsearchable("raw uint8 rows are not searched on a device")
        elif kind is not Raw and self.dtype != "float16":
            raise Unsearchable(f"{kind.__name__} codes cannot be searched on a device")

    def decode(self, rows: Any) -> Any:
        """Rows by a slice or indices as float32, the bits that the CPU gives."""
        if self.rounded:
            return self.torch.from_numpy(self.column.take(rows.cpu().numpy())).to(self.codes.device)
        codes = self.codes[rows].to(self.torch.float32)
        if self.dtype == "uint8":
            codes += 128
        if self.divisor:
            # By a tensor: a plain number would be turned into its reciprocal, which differs for some codes.
            return codes / self.torch.full((), self.divisor, device=codes.device)
        if self.scale is not None:
            return codes * self.scale[rows][:, None] + self.minimum[rows][:, None]
        return codes

    def _extremes(self) -> None:
        """Norms of all rows in float64, and the longest row of codes: what the error bound needs."""
        torch = self.torch
        if not self.rounded:
            self.norms = torch.empty(self.rows, dtype=torch.float64, device=self.codes.device)
        self.code_norms = torch.empty(self.rows, dtype=torch.float32, device=self.codes.device)
        for at in range(0, self.rows, CHUNK):
            part = slice(at, min(at + CHUNK, self.rows))
            if not self.rounded:
                self.norms[part] = torch.linalg.vector_norm(self.decode(part).double(), dim=1)
            self.code_norms[part] = torch.linalg.vector_norm(self.codes[part].double(), dim=1).float()
        if not bool(torch.isfinite(self.norms).all()):
            raise Unsearchable("some rows hold NaN or infinity")
        odd = (self.norms > 0) & ((self.norms < SHORTEST) | (self.norms > LONGEST))
        if bool(odd.any()):
            raise Unsearchable(f"some rows are shorter than {SHORTEST:g} or longer than {LONGEST:g}")

    def _weights(self, metric: str) -> tuple[Any, Any, Any, float, float, float, float]:
        """Row factors a, b, c of a metric's key, and the largest |a c|, |b|, |c|. None stands for plain codes."""
        if metric in self._by_metric:
            return self._by_metric[metric]
        torch = self.torch
        a = (
            self.scale
            if self.scale is not None
            else torch.full((self.rows,), 1.0 / self.divisor if self.divisor else 1.0, device=self.codes.device)
        )
        b = self.minimum if self.minimum is not None else torch.zeros_like(a)
        if self.dtype == "uint8":
            b = b + 128 * a
        c = torch.zeros_like(a)
        if metric == "cosine":
            inverse = torch.where(self.norms > 0, 1.0 / self.norms, 0.0).float()
            a, b = a * inverse, b * inverse
        elif metric == "l2":
            a, b, c = 2 * a, 2 * b, -(self.norms**2).float()
        largest = (
            float((a.abs() * self.code_norms).max()),
            float(b.abs().max()),
            float(c.abs().max()),
            float(a.abs().max()),
        )
        self._by_metric[metric] = (a, b, c, *largest)
        return self._by_metric[metric]

    def search(self, queries: NDArray[Any], k: int, metric: str) -> Found:
        """Rows and scores of the best k, best first, ties by lowest row: shape (queries, k)."""
        exact = np.ascontiguousarray(queries, np.float64)
        lengths = query_norms(exact)
        odd = exact.any(axis=1) & ~((lengths >= SHORTEST) & (lengths <= LONGEST))
        if odd.any():
            raise Unsearchable(f"query {int(np.argmax(odd))} is shorter than {SHORTEST:g} or longer than {LONGEST:g}")
        if metric == "l2" or self.dtype == "float16":
            return self._in_halves(exact, k, metric)
        return self._in_integers(exact, k, metric)

    def _in_integers(self, exact: NDArray[np.float64], k: int, metric: str) -> Found:
        """int8 codes against queries of 15 bits, 128*high + low: both products are exact integers."""
        largest = np.abs(exact).max(axis=1, initial=0.0)
        step = np.where(largest > 0, largest, 1.0) / (127 * 128)
        whole = np.rint(exact / step[:, None])
        high = np.rint(whole / 128)
        low = whole - 128 * high
        error = np.linalg.norm(exact - whole * step[:, None], axis=1)
        sums = exact.sum(axis=1)
        plain = metric == "ip" and self.scale is None
        factor = 1.0 / self.divisor if self.divisor and plain else 1.0
        margin = self._margin(error, np.linalg.norm(exact, axis=1), sums, metric) / (step * factor)
        both = np.stack([high, low]).astype(np.int8)
        return self._run(exact, both, (sums / step).astype(np.float32), margin, k, metric, plain)

    def _in_halves(self, exact: NDArray[np.float64], k: int, metric: str) -> Found:
        """float16 queries; for l2 they are not scaled, because its constant does not scale with them."""
        largest = np.abs(exact).max(axis=1, initial=0.0)
        unit = np.ones(len(exact)) if metric == "l2" else np.where(largest > 0, largest, 1.0)
        with np.errstate(over="ignore"):
            rounded = (exact / unit[:, None]).astype(np.float16)
        if not np.isfinite(rounded).all():
            raise Unsearchable("a query has values beyond float16's range")
        error = np.linalg.norm(exact - rounded.astype(np.float64) * unit[:, None], axis=1)
        sums = exact.sum(axis=1)
        plain = metric == "ip" and self.scale is None
        factor = 1.0 / self.divisor if self.divisor and plain else 1.0
        margin = self._margin(error, np.linalg.norm(exact, axis=1), sums, metric) / (unit * factor)
        return self._run(exact, rounded, (sums / unit).astype(np.float32), margin, k, metric, plain)

    def _margin(self, error: Any, length: Any, sums: Any, metric: str) -> NDArray[np.float64]:
        """How far an approximate score may be from the true one, a query; see the module's proof."""
        longest, most_b, most_c, most_a = self._weights(metric)[3:]
        margin = (error + length * (self.dim + 16) * 2.0**-23) * longest + 2.0**-21 * (most_b * np.abs(sums) + most_c)
        return np.asarray(margin + length * self.error * most_a + 1e-30)

    def _send(self, *arrays: NDArray[Any]) -> list[Any]:
        """Small arrays to the device in one copy."""
        torch = self.torch
        sizes = [-(-array.nbytes // 16) * 16 for array in arrays]
        packed = np.zeros(sum(sizes), np.uint8)
        at = 0
        for array, size in zip(arrays, sizes):
            packed[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            at += size
        device = torch.from_numpy(packed).to(self.codes.device)
        found, at = [], 0
        for array, size in zip(arrays, sizes):
            part = device[at : at + array.nbytes].view(getattr(torch, array.dtype.name))
            found.append(part.reshape(array.shape))
            at += size
        return found

    def _run(
        self,
        exact: NDArray[np.float64],
        rounded: NDArray[Any],
        scaled: NDArray[np.float32],
        margin: NDArray[np.float64],
        k: int,
        metric: str,
        plain: bool,
    ) -> Found:
        import triton

        from polyvec.gpu.triton_search import best_of_int8_tiles, best_of_tiles, rows_of_pairs

        torch = self.torch
        device = self.codes.device
        a, b, c = self._weights(metric)[:3]
        asked, queries, sums, bound = self._send(exact, rounded, scaled, margin)
        count = len(exact)
        tiles = triton.cdiv(self.rows, TILE_ROWS)
        best = torch.empty((count, tiles), dtype=torch.float32, device=device)
        depth = min(128, max(32, triton.next_power_of_2(self.dim)))
        integers = queries.dtype == torch.int8
        block = min(64 if integers else 128, max(16, triton.next_power_of_2(count)))
        grid = (tiles, triton.cdiv(count, block))
        shape = {
            "ROWS": TILE_ROWS,
            "STEP": STEP,
            "QUERIES": block,
            "DEPTH": depth,
            "PLAIN": plain,
            "WHOLE": self.dim % depth == 0,
            "num_warps": 4,
            "num_stages": 3 if integers else 2,
        }
        if integers:
            best_of_int8_tiles[grid](
                self.codes,
                queries[0],
                queries[1],
                a,
                b,
                c,
                sums,
                best,
                self.rows,
                self.dim,
                count,
                tiles,
                ONCE=self.dim <= depth,
                **shape,
            )
            queries = queries[0].to(torch.float32) * 128 + queries[1]
        else:
            best_of_tiles[grid](self.codes, queries, a, b, c, sums, best, self.rows, self.dim, count, tiles, **shape)
        floor = self._floor(best, k, bound)
        pair_query, pair_tile = torch.nonzero(best >= floor[:, None], as_tuple=True)
        room = max(65536, 64 * count * k)
        while True:
            found = torch.zeros(1, dtype=torch.int32, device=device)
            out = torch.empty((2, room), dtype=torch.int64, device=device)
            if len(pair_query):
                rows_of_pairs[(len(pair_query),)](
                    self.codes,
                    queries,
                    a,
                    b,
                    c,
                    sums,
                    pair_query,
                    pair_tile,
                    floor,
                    found,
                    out[0],
                    out[1],
                    self.rows,
                    self.dim,
                    room,
                    ROWS=TILE_ROWS,
                    STEP=STEP,
                    DEPTH=depth,
                    PLAIN=plain,
                    num_warps=4,
                )
            total = int(found.item())
            if total <= room:
                break
            room = total
        return self._rerank(asked, out[0, :total], out[1, :total], k, metric)

    def _floor(self, best: Any, k: int, margin: Any) -> Any:
        """For each query, the approximate score below which no row of the answer lies."""
        torch = self.torch
        if best.shape[1] >= k:
            kth = torch.topk(best, k, dim=1).values[:, -1]
        else:
            kth = torch.full(
                (len(best),), float("-inf"), device=best.device
            )  # fewer tiles than k: all rows are candidates
        lowered = (kth.double() - 2 * margin).float()
        return torch.nextafter(lowered, torch.full_like(lowered, float("-inf")))

    def _sum(self, a: Any, b: Any) -> Any:
        """a . b of float64 rows in the lanes and the tree that define a score; every operation is rounded by itself."""
        lanes = self.torch.zeros((len(a), LANES), dtype=self.torch.float64, device=a.device)
        for at in range(0, self.dim, LANES):
            product = a[:, at : at + LANES] * b[:, at : at + LANES]
            lanes[:, : product.shape[1]] += product
        return sum_lanes(lanes)

    def _rerank(self, asked: Any, query: Any, row: Any, k: int, metric: str) -> Found:
        """float64 scores of the candidates, and the best k of each query."""
        torch = self.torch
        keys = torch.empty(len(row), dtype=torch.float64, device=self.codes.device)
        norms = self._sum(asked, asked).sqrt()
        for at in range(0, len(row), CHUNK):
            part = slice(at, at + CHUNK)
            rows = self.decode(row[part]).double()
            q = asked[query[part]]
            if metric == "l2":
                gap = rows - q
                keys[part] = -self._sum(gap, gap)
            else:
                keys[part] = self._sum(rows, q)
                if metric == "cosine":
                    both_norms = self._sum(rows, rows).sqrt() * norms[query[part]]
                    keys[part] = torch.where(both_norms > 0, keys[part] / both_norms, 0.0)
        both = torch.stack([query, row, keys.view(torch.int64)]).cpu().numpy()  # one copy back
        queries, found, scores = both[0], both[1], both[2].view(np.float64)
        order = np.lexsort((found, -scores, queries))
        starts = np.searchsorted(queries[order], np.arange(len(asked)))
        chosen = order[starts[:, None] + np.arange(k)[None, :]]
        return found[chosen], -scores[chosen] if metric == "l2" else scores[chosen]
