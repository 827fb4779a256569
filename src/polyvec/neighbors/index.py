"""A reusable index: the int8 shadow of a column with its bounds, in memory or in a sidecar file.

A search with an index reads the codes (a quarter of float32) and fetches only the rows that the bounds cannot
exclude. Results are those of a search without it. Sidecar `NAME.pvindex`, little endian::

    offset 0    8 bytes  "PVINDEX1"
    offset 8    u32      length of the header
    offset 12   JSON     {"rows", "dim", "unit", "sha256": of the rows, "stamp": [size, mtime_ns] or null,
                          "arrays": [[name, dtype, offset, bytes], ...]}
    then        the arrays, each at a multiple of 64 bytes
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.columns import Column
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.files import Source
from polyvec.core.format import Progress
from polyvec.core.sinks import Sink
from polyvec.core.strict_json import parse_json
from polyvec.kernels.paths import resolve_threads
from polyvec.neighbors.base import Base, check_vectors, memory_view, opened, row_blocks, scorable
from polyvec.neighbors.metric import Metric, parse_metric
from polyvec.neighbors.scan import MOST_DIM, RowBlock, Scan
from polyvec.neighbors.search import Hits, check_k
from polyvec.neighbors.search import search as search_base
from polyvec.neighbors.shadow import Frame, RowTerms, Shadow, adopt_codes, cast_shadow, choose_frame

MAGIC = b"PVINDEX1"
SUFFIX = ".pvindex"
MOST_HEADER = 1 << 16
BLOCK_ROWS = 1 << 24  # an index block: candidates count rows in 32 bits

_DTYPES = {
    "codes": np.int8, "scale": np.float32, "error": np.float32, "hat": np.float32, "norm": np.float64,
    "half": np.float64, "along": np.float64, "center": np.float32,
}  # fmt: skip


class Index:
    """The int8 shadow of a column.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    >>> index = Index.build(rows)
    >>> index.search(rows[7], k=1, metric="cosine").rows
    array([[7]])
    """

    def __init__(self, shadow: Shadow, base: Base, digest: str, *, name: str | None = None) -> None:
        self.shadow = shadow
        self.base = base  # a path is opened for each search
        self.name = name
        self.digest = digest
        self._stamp: tuple[int, int] | None = None
        self._column: Column | None = None  # the one checked last
        self._terms: dict[Metric, RowTerms] = {}

    @property
    def rows(self) -> int:
        return self.shadow.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the shadow."""
        shadow = self.shadow
        arrays = (shadow.codes, shadow.scale, shadow.error, shadow.hat, shadow.norm, shadow.half, shadow.along)
        return sum(array.nbytes for array in arrays)

    @classmethod
    def build(
        cls, base: Base, *, column: str | None = None, threads: int | None = None, progress: Progress | None = None
    ) -> Index:
        """Index a path, collection, column or array. A collection must stay open while its index is used."""
        with opened(base, column) as (collection, vectors):
            index = cls._build(vectors, resolve_threads(threads), progress)
            if isinstance(base, (str, os.PathLike)):
                index.base, index.name, index._stamp = base, column, stamp_of(os.fspath(base))
            else:
                index._column, index._stamp = vectors, stamp_of(collection.path)
            return index

    @classmethod
    def _build(cls, column: Column, threads: int, progress: Progress | None) -> Index:
        check_vectors(column)
        n, dim = column.rows, column.row_shape[0]
        if not n:
            raise InputError("the base is empty; there is nothing to index")
        if dim > MOST_DIM:
            raise InputError(f"rows of {dim} dimensions cannot be indexed as int8; search them without an index")
        whole: dict[str, NDArray[Any]] = {"codes": np.empty((n, dim), np.int8)}
        for name in ("scale", "error", "hat", "norm", "half", "along"):
            whole[name] = np.empty(n, _DTYPES[name])
        frame: Frame | None = None
        hasher = _Hasher()
        with ThreadPoolExecutor(threads) as pool:
            for block in row_blocks(column):
                rows = block.rows
                assert rows is not None
                hasher.add(rows)
                if rows.dtype in (np.int8, np.uint8):
                    part = adopt_codes(rows, frame)
                else:
                    frame = frame or choose_frame(rows[:: max(1, len(rows) // 2048)])
                    part = cast_shadow(rows, frame, narrow=True, pool=pool, threads=threads)
                frame = part.frame
                for name, array in whole.items():
                    array[block.first : block.first + block.count] = getattr(part, name)
                if progress is not None:
                    progress(block.first + block.count, n)
        assert frame is not None
        return cls(Shadow(frame=frame, **whole), column, hasher.hexdigest())

    def search(self, queries: Base, k: int = 10, metric: str | None = None, *, threads: int | None = None) -> Hits:
        """As `polyvec.search`, over the rows this index was made of."""
        return search_base(self.base, queries, k, metric, column=self.name, index=self, threads=threads)

    def scan(
        self, queries: NDArray[Any], *, k: int, metric: str | Metric, threads: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and scores for float64 queries, over the column that `check` accepted."""
        column = self._column
        assert column is not None
        check_k(k, column, queries.shape[1])
        chosen = parse_metric(metric)
        scan = Scan(queries, k=k, metric=chosen, threads=threads)
        view = memory_view(column)
        terms = self._row_terms(chosen)
        for at in range(0, self.rows, BLOCK_ROWS):
            end = min(at + BLOCK_ROWS, self.rows)
            part = RowTerms(terms.A[at:end], terms.E[at:end], terms.N[at:end], terms.H[at:end])
            rows = None if view is None else view[at:end]
            scan.feed(RowBlock(at, end - at, rows, column.take, _cut(self.shadow, at, end), part))
        return scan.result()

    def check(self, column: Column) -> None:
        """`InputError` unless the index is of this column: same shape, and same rows where a few are looked at."""
        shape = (self.rows, self.shadow.codes.shape[1])
        if column.shape != shape:
            found = " x ".join(map(str, column.shape))
            raise InputError(
                f"the index is of {shape[0]} x {shape[1]} rows and the base has {found}; build it again from this base"
            )
        if column is self._column:
            return
        some = np.unique(np.linspace(0, self.rows - 1, min(self.rows, 16)).astype(np.int64))
        rows = scorable(column.take(some))
        with np.errstate(all="ignore"):
            lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
            known = self.shadow.norm[some]
            same = np.isclose(lengths, known, rtol=1e-9, atol=0) | ~np.isfinite(lengths) | np.isnan(known)
        if not same.all():
            raise InputError(
                f"the index is of other rows: row {int(some[~same][0])} differs; build it again from this base"
            )
        self._column = column

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the sidecar, atomically; by convention beside the base as `NAME.pvindex`."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self.shadow, name) for name in _DTYPES if name != "center"}
        if self.shadow.frame.center is not None:
            arrays["center"] = self.shadow.frame.center
        table: list[list[Any]] = []
        at = 0
        for name, array in arrays.items():
            table.append([name, np.dtype(_DTYPES[name]).str, at, array.nbytes])
            at += -(-array.nbytes // 64) * 64
        header = {
            "rows": self.rows, "dim": int(self.shadow.codes.shape[1]), "unit": self.shadow.frame.unit,
            "sha256": self.digest, "stamp": self._stamp, "arrays": table,
        }  # fmt: skip
        text = json.dumps(header).encode()
        with Sink(path) as sink:
            sink.write(MAGIC + len(text).to_bytes(4, "little") + text)
            sink.align(64)
            for array in arrays.values():
                sink.write(array)
                sink.align(64)
            return sink.path

    @classmethod
    def open(cls, path: str | os.PathLike[str], base: Base, *, column: str | None = None) -> Index:
        """The sidecar of this base, mapped into memory; `InputError` where it belongs to other rows.

        The base's size and time decide where they are as recorded; otherwise its rows are hashed again.
        """
        source = Source(path)
        header, arrays = _read_sidecar(source)
        frame = Frame(arrays.pop("center", None), float(header["unit"]))
        index = cls(Shadow(frame=frame, **arrays), base, str(header["sha256"]), name=column)
        with opened(base, column) as (collection, vectors):
            index.check(vectors)
            where = os.fspath(base) if isinstance(base, (str, os.PathLike)) else collection.path
            stamp = stamp_of(where)
            if stamp is None or list(stamp) != header["stamp"]:
                hasher = _Hasher()
                for block in row_blocks(vectors):
                    assert block.rows is not None
                    hasher.add(block.rows)
                if hasher.hexdigest() != index.digest:
                    raise InputError(
                        f"{os.fspath(path)}: the index is of another file: the rows' hash differs; build it again"
                    )
            index._stamp = stamp
        return index

    def _row_terms(self, metric: Metric) -> RowTerms:
        if metric not in self._terms:
            self._terms[metric] = self.shadow.terms(metric)
        return self._terms[metric]


class _Hasher:
    """The SHA-256 of rows as the kernels take them, in row order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, rows: NDArray[Any]) -> None:
        self._hash.update(np.ascontiguousarray(rows).view(np.uint8).data if rows.size else b"")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Where the index of a file lies by convention."""
    return Path(os.fspath(path) + SUFFIX)


def stamp_of(path: str | None) -> tuple[int, int] | None:
    """Size and time of a file; None where there is no single file."""
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _cut(shadow: Shadow, start: int, stop: int) -> Shadow:
    if start == 0 and stop == shadow.rows:
        return shadow
    return Shadow(
        shadow.codes[start:stop], shadow.scale[start:stop], shadow.error[start:stop], shadow.hat[start:stop],
        shadow.norm[start:stop], shadow.half[start:stop], shadow.along[start:stop], shadow.frame,
    )  # fmt: skip


def _read_sidecar(source: Source) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays, every length checked against the bytes that exist."""

    def wrong(what: str) -> Corrupt:
        return Corrupt(f"not a usable index: {what}", path=source.label, remedy="build it again")

    head = source.read_at(0, 12)
    length = int.from_bytes(head[8:12], "little")
    if len(head) < 12 or head[:8] != MAGIC:
        raise wrong("the first bytes are not PVINDEX1")
    if length > MOST_HEADER or 12 + length > source.size:
        raise wrong(f"its header of {length} bytes does not fit")
    header = parse_json(source.read_at(12, length), path=source.label, offset=12)
    try:
        rows, dim, unit = header["rows"], header["dim"], float(header["unit"])
        table = {str(name): (str(dtype), offset, size) for name, dtype, offset, size in header["arrays"]}
        str(header["sha256"]), header["stamp"]
    except (TypeError, KeyError, ValueError):
        raise wrong("its header lacks a field") from None
    if not all(type(v) is int and v > 0 for v in (rows, dim)) or not (np.isfinite(unit) and unit > 0):
        raise wrong("its header holds impossible numbers")
    if set(table) - {"center"} != set(_DTYPES) - {"center"}:
        raise wrong("its arrays are not those of an index")
    start = -(-(12 + length) // 64) * 64
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, offset, size) in table.items():
        shape = (rows, dim) if name == "codes" else (dim,) if name == "center" else (rows,)
        expected = np.dtype(_DTYPES[name])
        bytes_needed = expected.itemsize * shape[0] * (shape[1] if len(shape) > 1 else 1)
        sound = type(offset) is int and type(size) is int and offset >= 0 and offset % 64 == 0
        if not sound or dtype != expected.str or size != bytes_needed or start + offset + size > source.size:
            raise wrong(f"array {name} does not fit the file")
        arrays[name] = source.view(start + offset, size).view(expected).reshape(shape)
    for name in ("scale", "error", "hat"):
        if not bool((arrays[name] >= 0).all()):
            raise wrong(f"array {name} holds impossible numbers")
    return header, arrays
