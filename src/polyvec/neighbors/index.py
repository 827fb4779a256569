"""A reusable index: the int8 shadow of a column with its bounds, in memory or in a sidecar file.

A search with an index reads the codes (a quarter of float32) and fetches only the rows that the bounds cannot
exclude. Results are those of a search without it. `sidecar.py` says what the file `NAME.pvindex` holds.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import check_paths, check_targets, check_texts, check_threads
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.places import Identity, Place
from polyvec.core.progress import telling
from polyvec.kernels.scores import plain_floats
from polyvec.kernels.threads import Crew, resolve_threads
from polyvec.neighbors.inputs import Base, Stamp, check_vectors, memory_view, opened, row_blocks, stamp_of
from polyvec.neighbors.metric import Metric, parse_metric
from polyvec.neighbors.rows import RowBlock, scorable
from polyvec.neighbors.scan import MOST_DIM, Scan
from polyvec.neighbors.search import Hits, check_k
from polyvec.neighbors.search import search as search_base
from polyvec.neighbors.shadow import MEASURES, Frame, RowTerms, Shadow, code_rows
from polyvec.neighbors.sidecar import DTYPES, STRETCH, Sidecar, Stretches, read_sidecar, sidecar_path, write_sidecar

__all__ = ["Index", "sidecar_path"]

BLOCK_ROWS = 1 << 24  # an index block: candidates count rows in 32 bits


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
        self.rehashed = False  # whether the base's rows had to be read to know that the index is theirs
        self._stamp: Stamp | None = None
        self._column: Column | None = None  # the one checked last
        self._unchecked: Stretches | None = None  # checksums of mapped codes that no scan has come to yet
        self._terms: dict[Metric, RowTerms] = {}
        self._saved: tuple[Place, Identity | None] | None = None  # the sidecar that the shadow is mapped from

    @property
    def rows(self) -> int:
        return self.shadow.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the shadow."""
        return sum(getattr(self.shadow, name).nbytes for name in ("codes", *MEASURES))

    @classmethod
    def build(
        cls,
        base: Base,
        *,
        column: str | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Index:
        """Index a path, collection, column or array. A collection must stay open while its index is used."""
        check_texts(column=column)
        check_threads(threads)
        with opened(base, column) as (_, vectors):
            before = stamp_of(base, vectors, settled=True)
            with telling(progress, vectors.rows) as tell:
                index = cls._build(vectors, resolve_threads(threads), tell)
            if stamp_of(base, vectors) != before:
                raise InputError("the base was changed while it was indexed; index a file that rests")
            index._stamp = before
            if isinstance(base, (str, os.PathLike)):
                index.base, index.name = base, column
            else:
                index._column = vectors
            return index

    @classmethod
    @plain_floats()
    def _build(cls, column: Column, threads: int, progress: Progress | None) -> Index:
        check_vectors(column)
        n, dim = column.rows, column.row_shape[0]
        if not n:
            raise InputError("the base is empty; there is nothing to index")
        if dim > MOST_DIM:
            raise InputError(f"rows of {dim} dimensions cannot be indexed as int8; search them without an index")
        whole: dict[str, NDArray[Any]] = {"codes": np.empty((n, dim), np.int8)}
        for name in MEASURES:
            whole[name] = np.empty(n, DTYPES[name])
        frame: Frame | None = None
        hasher = _Hasher()
        with Crew(threads) as pool:
            for block in row_blocks(column):
                rows = block.rows
                assert rows is not None
                hasher.add(rows)
                part = code_rows(rows, frame, pool=pool, threads=threads)
                frame = part.frame
                for name, array in whole.items():
                    array[block.first : block.first + block.count] = getattr(part, name)
                if progress is not None:
                    progress(block.first + block.count, n)
        assert frame is not None
        return cls(Shadow(frame=frame, **whole), column, hasher.hexdigest())

    def search(
        self, queries: Base, k: int | None = None, metric: str | None = None, *, threads: int | None = None
    ) -> Hits:
        """As `polyvec.search`, over the rows this index was made of."""
        return search_base(self.base, queries, k, metric, column=self.name, index=self, threads=threads)

    @plain_floats()
    def scan(
        self,
        queries: NDArray[Any],
        *,
        k: int,
        metric: str | Metric,
        threads: int | None = None,
        column: Column | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and scores for float64 queries, over the column that `check` accepted: the last, or ``column``."""
        column = self._column if column is None else column
        assert column is not None
        check_k(k, column, queries.shape[1])
        chosen = parse_metric(metric)
        scan = Scan(queries, k=k, metric=chosen, threads=threads)
        view = memory_view(column)
        terms = self._row_terms(chosen)
        unchecked, width = self._unchecked, self.shadow.codes.shape[1]
        first = unchecked is not None and unchecked.pending
        step = max(1, 4 * STRETCH // width) if first else BLOCK_ROWS
        for at in range(0, self.rows, step):
            end = min(at + step, self.rows)
            if unchecked is not None and first:
                unchecked.check(at * width, end * width + 64 * (end == self.rows), threads)
            rows = None if view is None else view[at:end]
            scan.feed(RowBlock(at, end - at, rows, column.take, self.shadow.cut(at, end), terms.cut(at, end)))
        return scan.result()

    @plain_floats()
    def check(self, column: Column, stamp: Stamp | None = None) -> None:
        """`InputError` unless the index is of this column. `stamp` is that of its file, where there is one.

        A file whose size and times are those recorded, and the very array that was indexed, are known; the rows of
        anything else are hashed.
        """
        shape = (self.rows, self.shadow.codes.shape[1])
        if column.shape != shape:
            found = " x ".join(map(str, column.shape))
            raise InputError(
                f"the index is of {shape[0]} x {shape[1]} rows and the base has {found}; build it again from this base"
            )
        known = stamp is not None and stamp == self._stamp
        if stamp is None and self._column is not None:
            known = column is self._column or _same_memory(column, self._column)
        if known and self._column is not None:
            self._column = column
            return
        some = np.unique(np.linspace(0, self.rows - 1, min(self.rows, 16)).astype(np.int64))
        rows = scorable(column.take(some))
        part = code_rows(rows, self.shadow.frame)
        same = np.ones(len(some), bool)
        for name in MEASURES:
            a, b = getattr(part, name), getattr(self.shadow, name)[some]
            same &= (a == b) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            raise InputError(
                f"the index is of other rows: row {int(some[~same][0])} differs; build it again from this base"
            )
        if not known:
            self._compare_hash(column)
        self._column, self._stamp = column, stamp

    def _compare_hash(self, column: Column) -> None:
        hasher = _Hasher()
        for block in row_blocks(column):
            assert block.rows is not None
            hasher.add(block.rows)
        if hasher.hexdigest() != self.digest:
            raise InputError("the index is of other rows: their hash differs; build it again from this base")
        self.rehashed = True

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the sidecar, atomically; by convention beside the base as `NAME.pvindex`."""
        check_targets(path=path)
        if self._unchecked is not None and self._unchecked.pending:
            self._unchecked.check(0, len(self._unchecked.data))
        arrays: dict[str, NDArray[Any]] = {name: getattr(self.shadow, name) for name in DTYPES if name != "center"}
        if self.shadow.frame.center is not None:
            arrays["center"] = self.shadow.frame.center
        header = {
            "rows": self.rows,
            "dim": int(self.shadow.codes.shape[1]),
            "unit": self.shadow.frame.unit,
            "sha256": self.digest,
            "stamp": self._stamp,
        }
        return write_sidecar(path, header, arrays)

    @classmethod
    def open(cls, path: str | os.PathLike[str], base: Base, *, column: str | None = None) -> Index:
        """The sidecar of this base, mapped into memory; `InputError` where it belongs to other rows.

        The base's size and times decide where they are as recorded; otherwise its rows are hashed again (`rehashed`;
        saving the index records the new times).
        """
        check_paths(path=path)
        check_texts(column=column)
        sidecar = read_sidecar(path)
        index = cls(_mapped(sidecar), base, str(sidecar.header["sha256"]), name=column)
        index._unchecked, index._saved = sidecar.codes, (sidecar.place, sidecar.identity)
        stamp = sidecar.header["stamp"]
        index._stamp = tuple(stamp) if isinstance(stamp, list) else None
        with opened(base, column) as (_, vectors):
            try:
                index.check(vectors, stamp_of(base, vectors))
            except InputError as error:
                raise InputError(f"{os.fspath(path)}: {error}") from None
            if isinstance(base, (str, os.PathLike)):
                index._column = None  # it is closed here, and opened again for each search
        return index

    def __reduce__(self) -> Any:
        """By the sidecar's place and identity where there is one, and by value where the shadow is in memory alone.

        A base that is a path stays one, as seen from any folder; another travels as its kind does.
        """
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_terms", "_unchecked", "_saved")}
        if isinstance(self.base, (str, os.PathLike, list, tuple)):
            kept["base"], kept["_column"] = _absolute(self.base), None  # it is opened for each search
        if self._saved is None:
            return _rebuild, (kept, None, None)
        del kept["shadow"]
        place, identity = self._saved
        return _rebuild, (kept, place.absolute(), identity)

    def _row_terms(self, metric: Metric) -> RowTerms:
        if metric not in self._terms:
            self._terms[metric] = self.shadow.terms(metric)
        return self._terms[metric]


def _rebuild(kept: dict[str, Any], place: Place | None, identity: Identity | None) -> Index:
    """An index that was pickled; `Replaced` where its sidecar is another by now."""
    index = Index.__new__(Index)
    index._unchecked, index._saved, index._terms = None, None, {}
    index.__dict__.update(kept)
    if place is not None:
        sidecar = read_sidecar(place, identity)
        index.shadow, index._unchecked, index._saved = _mapped(sidecar), sidecar.codes, (place, identity)
    return index


def _mapped(sidecar: Sidecar) -> Shadow:
    arrays = dict(sidecar.arrays)
    return Shadow(frame=Frame(arrays.pop("center", None), float(sidecar.header["unit"])), **arrays)


def _absolute(base: Any) -> Any:
    """A path, or several, as another folder's process names them; what is no path as it is."""
    if isinstance(base, (list, tuple)):
        return [_absolute(one) for one in base]
    return str(Place.of(base).absolute()) if isinstance(base, (str, os.PathLike)) else base


class _Hasher:
    """The SHA-256 of rows as the kernels take them, in row order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, rows: NDArray[Any]) -> None:
        self._hash.update(np.ascontiguousarray(rows).view(np.uint8).data if rows.size else b"")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _same_memory(column: Column, other: Column) -> bool:
    """Whether two columns are of one array."""
    if not (isinstance(column, ArrayColumn) and isinstance(other, ArrayColumn)):
        return False
    a, b = column.view(), other.view()
    if a is None or b is None:
        return False
    return (a.ctypes.data, a.shape, a.strides, a.dtype) == (b.ctypes.data, b.shape, b.strides, b.dtype)
