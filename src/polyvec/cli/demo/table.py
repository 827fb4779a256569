"""The demo's table: the same vectors in every format and encoding at hand, one line each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.cli.terminal import table
from polyvec.core.collection import Collection
from polyvec.core.errors import MissingExtra, PolyvecError
from polyvec.core.format import Format
from polyvec.kernels import NATIVE
from polyvec.neighbors.search import search
from polyvec.reports.recall import recall_at
from polyvec.writing.write import write

QUERIES = 200 if NATIVE else 50  # sampled rows; an exact search without compiled kernels takes its time
SLOW = ("wordtext",)  # a number at a time where no compiled kernel reads and writes them
HEADINGS = ("format", "encoding", "bytes", "size", "max error", "worst cosine", "recall@10", "seconds")


def print_table(vectors: NDArray[np.float32], folder: Path) -> None:
    """Write the vectors in every format and encoding, and print what became of them."""
    trial = _Trial(vectors, folder)
    lines, missing = [], []
    for format in formats.all_formats():
        if not (format.writable and format.demo):
            continue
        if format.name in SLOW and not NATIVE:
            missing.append(f"{format.name}: left out; it takes long without compiled kernels")
            continue
        for encoding, suffix in _targets(format):
            try:
                lines.append(trial.line(format, encoding, suffix))
            except MissingExtra as error:
                missing.append(
                    f"{format.name} {'' if encoding == 'raw' else encoding}".strip() + f": not here; {error}"
                )
                if encoding == "raw":  # its other encodings need the same
                    break
            except PolyvecError as error:
                missing.append(f"{format.name} {encoding}: left out; {error}")
    printed = table(HEADINGS, lines, right=range(2, len(HEADINGS)))
    print("\n".join(f"   {line}" for line in [*printed.splitlines(), *missing]))
    print("   size: against plain float32. max error: of any one number. worst cosine: 1 is the same direction.")
    print(f"   recall@10: the 10 nearest of {trial.queries} rows, how many are still found. seconds: write, compare.")


def _targets(format: Format) -> list[tuple[str, str]]:
    """``(encoding, suffix)`` of each line of a format; the bins name their encoding by their suffix."""
    if format.name == "bins":
        return [("raw", ".fbin"), ("float16", ".f16bin")]
    return [(encoding, format.suffixes[0]) for encoding in format.holds.encodings]


class _Trial:
    """The original, and what an exact search finds in it."""

    def __init__(self, vectors: NDArray[np.float32], folder: Path) -> None:
        self.folder, self.bytes = folder, vectors.nbytes
        self.collection = Collection.from_arrays(vectors)
        self.queries = min(QUERIES, len(vectors))
        self.asked = np.sort(np.random.default_rng(0).permutation(len(vectors))[: self.queries])
        self.probes = vectors[self.asked]
        self.truth = self._nearest(vectors)
        self.known: dict[bytes, float] = {}

    def line(self, format: Format, encoding: str, suffix: str) -> list[Any]:
        """Write, read back, compare, search; the file is gone afterwards."""
        path = self.folder / f"{format.name}-{encoding}{suffix}"
        name = suffix[1:] if format.name == "bins" else format.name
        # A quantizer of 4 bits is learnt in a moment; the usual 8 bits take longer than all the rest.
        own: dict[str, Any] = {"bits": 4, "iterations": 2} if encoding == "pq" else {}
        try:
            with _calm_faiss() if own else nullcontext():
                receipt = write(
                    path, self.collection, format=name, encoding=encoding, durable=False, sidecar=False, **own
                )
            with formats.open(path, format=name) as written:
                recall = self._recall(written.vectors.to_numpy())
        finally:
            path.unlink(missing_ok=True)
        loss = receipt.loss
        error, cosine = ("?", "?") if loss is None else (f"{loss.max_error:.1g}", f"{loss.min_cosine:.6f}")
        if loss is not None and loss.exact:
            error, cosine = "exact", "1"
        shown = receipt.codec.split(" -> ")[-1] + (", 4 bits" if own else "")
        return [
            name,
            shown,
            f"{receipt.bytes:,}",
            f"{receipt.bytes / self.bytes:.0%}",
            error,
            cosine,
            f"{recall:.1%}",
            f"{receipt.seconds:.2f}",
        ]

    def _recall(self, rows: NDArray[Any]) -> float:
        """The share of the true neighbours found among the rows; many formats give back the very same rows."""
        rows = np.ascontiguousarray(rows, np.float32)
        key = hashlib.sha256(rows.data).digest()
        if key not in self.known:
            self.known[key] = recall_at(10, self._nearest(rows), self.truth).recall
        return self.known[key]

    def _nearest(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """The ten rows nearest to each sampled row, itself not counted."""
        found = search(rows, self.probes, k=min(11, len(rows)), metric="cosine").rows
        others = np.argsort(found == self.asked[:, None], axis=1, kind="stable")[:, :10]
        return np.take_along_axis(found, others, axis=1)


@contextmanager
def _calm_faiss() -> Iterator[None]:
    """One thread: hundreds of tiny steps cost more in waiting for each other than they win."""
    try:
        import faiss
    except ImportError:
        yield
        return
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
