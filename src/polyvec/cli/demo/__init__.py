"""polyvec demo: the whole tool in about twenty seconds, on real text that is on every machine."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polyvec.cli import flags

if TYPE_CHECKING:
    from polyvec.core.collection import Collection
    from polyvec.model.bundled import Corpus

MOST = 3000
EMBED_SECONDS = 8.0  # of the twenty that all takes
COLLECTION, PAGE, MODEL = "stdlib.cvc", "stdlib.html", "minilm.weights"


def command(
    output: Annotated[
        Path | None, flags.output("a folder for the page and the collection; one for temporary files unless told")
    ] = None,
    rows: Annotated[
        int | None,
        flags.row_count(f"summaries, {MOST:,} unless told; fewer where embedding takes its time", min=20, max=MOST),
    ] = None,
) -> None:
    """Show what polyvec does, step by step, on the Python standard library's own summaries; ends by itself.

    A page to search in and its collection stay in a folder that is named at the end; the next run replaces them.

    Example:

        $ polyvec demo --rows 300
    """
    from polyvec import __version__
    from polyvec.cli.demo.table import print_table
    from polyvec.kernels import NATIVE, cpu_path

    started = time.perf_counter()
    how = f"native kernels ({cpu_path()})" if NATIVE else "NumPy only: no compiled kernels here, so it is slower"
    print(f"polyvec {__version__}, {how}")
    kept = _kept_folder(output)
    with tempfile.TemporaryDirectory(prefix="polyvec-demo-") as place:
        folder = Path(place)
        with _step("1. Text becomes vectors: what the Python standard library says about itself"):
            corpus = _embed(folder, rows)
        collection = corpus.collection()
        with _step("2. The same vectors in every format and encoding: what each one costs, and what it loses"):
            print_table(corpus.vectors, folder)
        with _step("3. One bit flips on the disk"):
            _flip(collection, folder)
        with _step("4. Cut into four shards, one of them lost, found again and merged"):
            _shard(collection, folder)
        with _step(f"5. A question: {corpus.question}?"):
            _ask(collection, corpus)
        with _step("6. A page to go on with: search, neighbours and a map in one file, no server needed"):
            _publish(collection, corpus, kept)
    print(f"\nDone in {time.perf_counter() - started:.1f} s.")


@contextmanager
def _step(title: str) -> Iterator[None]:
    started = time.perf_counter()
    print(f"\n{title}", flush=True)
    yield
    print(f"   [{time.perf_counter() - started:.2f} s]", flush=True)


def _kept_folder(keep: Path | None) -> Path:
    """Where the page stays: one folder a user, so that runs replace each other and never another person's files."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return keep
    owner = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    folder = Path(tempfile.gettempdir()) / f"polyvec-demo{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_symlink() and (not owner or folder.stat().st_uid == os.getuid()):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="polyvec-demo-"))  # the name is taken by something that is not ours


def _embed(folder: Path, rows: int | None) -> Corpus:
    """The summaries with their vectors, by the real model where it is installed."""

    def announce(chosen: int, wanted: int, seconds: float) -> None:
        fewer = f" of {wanted:,}, for time (--rows {wanted} takes all)" if chosen < wanted and rows is None else ""
        print(f"   embedding {chosen:,} summaries{fewer}: about {seconds:.0f} s on this machine", flush=True)

    from polyvec.cli.terminal import progress
    from polyvec.model.bundled import make_corpus

    corpus = make_corpus(
        folder,
        limit=rows or MOST,
        seconds=EMBED_SECONDS if rows is None else None,
        progress=progress(),
        announce=announce,
    )
    kinds = [entry.kind for entry in corpus.entries]
    counted = ", ".join(
        f"{kinds.count(kind):,} {name}"
        for kind, name in (
            ("module", "modules"),
            ("class", "classes"),
            ("function", "functions"),
            ("method", "methods"),
        )
    )
    example = min(corpus.entries, key=lambda entry: (entry.module != "zipfile", entry.name))
    print(f"   {len(kinds):,} summaries ({counted}), such as")
    print(f"   {example.name}: {_short(example.summary, 90)}")
    print(f"   each is now {corpus.vectors.shape[1]} numbers of float32; near in meaning is near in space")
    print(f"   {corpus.note}")
    if corpus.model is None:
        print("   (bundled vectors were rounded to int8 once already: below, int8 loses less than it would)")
    return corpus


def _flip(collection: Collection, folder: Path) -> None:
    """One flipped bit, caught with its place."""
    from polyvec.verbs.verify import verify
    from polyvec.writing.write import write

    path = folder / "damaged.cvc"
    chunk = max(1, collection.rows // 6)
    write(path, collection, encoding="raw", chunk_rows=chunk, durable=False, measure=False)
    sound = verify(path).ok
    place = path.stat().st_size * 2 // 3
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    print(
        f"   {path.name}, {path.stat().st_size:,} bytes, was {'sound' if sound else 'NOT sound'}; "
        f"bit 0 of byte {place:,} was flipped. polyvec verify says:"
    )
    found = verify(path).findings
    for finding in found:
        print(f"   {finding.severity}: {finding.message.replace(str(folder) + os.sep, '')}")
    if not found:
        print("   nothing: NOT caught")


def _shard(collection: Collection, folder: Path) -> None:
    """Split into shards, one missing, merged again: the same bytes."""
    from polyvec.verbs.merge import merge
    from polyvec.verbs.split import split
    from polyvec.writing.write import write

    source, merged, shards = folder / "whole.fbin", folder / "merged.fbin", str(folder / "shard-*.fbin")
    write(source, collection, durable=False, measure=False)
    made = [Path(receipt.output) for receipt in split(source, folder / "shard.fbin", parts=4, durable=False)]
    print(f"   {source.name} -> {', '.join(path.name for path in made)}")
    hidden = made[2].with_suffix(".lost")
    made[2].rename(hidden)
    receipt = merge(shards, merged, durable=False, dry_run=True)
    print(f"   without {made[2].name}, polyvec merge says: {receipt.notes[0]}")
    hidden.rename(made[2])
    receipt = merge(shards, merged, durable=False, sha256=True)
    same = merged.read_bytes() == source.read_bytes()
    print(
        f"   with it: {receipt.rows:,} rows merged, sha256 {str(receipt.sha256)[:16]}…, "
        f"{'the same bytes as before' if same else 'NOT the same bytes'}"
    )


def _ask(collection: Collection, corpus: Corpus) -> None:
    """The five summaries nearest to the question."""
    from polyvec.neighbors.search import search

    hits = search(collection, corpus.query, k=5, metric="cosine")
    found = [(corpus.entries[row], score) for row, score in zip(hits.rows[0].tolist(), hits.scores[0].tolist())]
    width = max(len(entry.name) for entry, _ in found)
    for entry, score in found:
        print(f"   {score:.3f}  {entry.name:<{width}}  {_short(entry.summary, 100 - width)}")


def _publish(collection: Collection, corpus: Corpus, kept: Path) -> None:
    """The page and the collection, kept; and how to serve them."""
    from importlib.util import find_spec

    from polyvec.web.publish import publish_single_file
    from polyvec.writing.write import write

    write(kept / COLLECTION, collection, durable=False)
    (kept / MODEL).unlink(missing_ok=True)
    if corpus.model is not None:
        shutil.move(corpus.model, kept / MODEL)
    page = publish_single_file(collection, kept / PAGE, title="The Python standard library")
    print(f"   {page.rows:,} summaries in {page.bytes:,} bytes. Open it in a browser:")
    print(f"      {page.page.resolve().as_uri()}")
    model = ["--model", str(kept / MODEL)] if corpus.model else []
    meaning = ", and ask it questions in your own words" if model else ""
    print(f"   Or serve the collection, on this machine only{meaning}:")
    print(f"      {shlex.join(['polyvec', 'serve', str(kept / COLLECTION), *model])}")
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        print("      (this needs pip install 'polyvec[web]')")
    names = [name for name in (PAGE, COLLECTION, MODEL) if (kept / name).exists()]
    print(f"   Kept in {kept}: {', '.join(names)}; the rest is gone.")


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
