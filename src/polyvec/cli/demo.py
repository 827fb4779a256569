"""polyvec demo: the whole tool in twenty seconds, on data made on the spot."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    keep: Annotated[Path | None, typer.Option(help="Leave the files in this folder.")] = None,
    rows: Annotated[int, typer.Option(help="Rows of the sample collection, where it is made and not embedded.")] = 3000,
) -> None:
    """Show what polyvec does, step by step, on a sample collection; ends by itself and leaves nothing behind.

    Example:

        $ polyvec demo
    """
    from polyvec import __version__
    from polyvec.kernels import NATIVE, cpu_path

    started = time.perf_counter()
    how = f"native kernels ({cpu_path()})" if NATIVE else "NumPy only: no compiled kernels here, so it is slower"
    print(f"polyvec {__version__}, {how}")
    folder = Path(keep or tempfile.mkdtemp(prefix="polyvec-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        source = _sample(folder, rows)
        _table(source, folder)
        _flip(source, folder)
        _shards(source, folder)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\nDone in {time.perf_counter() - started:.1f} s. Next: polyvec --help, polyvec info YOUR-FILE")


@contextmanager
def _step(title: str) -> Iterator[None]:
    started = time.perf_counter()
    print(f"\n{title}")
    yield
    print(f"   [{time.perf_counter() - started:.2f} s]")


def _sample(folder: Path, rows: int) -> Path:
    """A collection of made-up documents: clustered unit vectors with names and topics."""
    import numpy as np

    from polyvec.verbs.convert import write

    with _step("1. A sample collection: vectors, a name and a topic for each"):
        rng = np.random.default_rng(0)
        topics = ["astronomy", "baking", "chess", "diving", "geology", "music", "sailing", "weaving"]
        centres = rng.standard_normal((len(topics), 384))
        topic = rng.integers(0, len(topics), rows)
        vectors = centres[topic] + 0.8 * rng.standard_normal((rows, 384))
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        records = [{"name": f"{topics[t]} {i}", "topic": topics[t]} for i, t in enumerate(topic)]
        path = folder / "sample.fbin"
        receipt = write(path, vectors, records=records)
        print(f"   {path.name}: {receipt.rows:,} rows of {receipt.dim} float32 values, {receipt.bytes:,} bytes")
        print(f"   FBIN holds no names, so they lie beside it: {', '.join(receipt.sidecars)}")
    return path


def _table(source: Path, folder: Path) -> None:
    """The same vectors in every format at hand."""
    from polyvec.cli.terminal import table

    with _step("2. The same vectors in every format, with what each one costs and loses"):
        original = source.stat().st_size
        lines = [line for target in _targets() if (line := _line(source, folder, original, *target))]
        print(_indented(table(("file", "encoding", "bytes", "of fbin", "max error", "worst cosine", "seconds"), lines,
                              right=(2, 3, 4, 5, 6))))  # fmt: skip


def _targets() -> list[tuple[str, str, str | None]]:
    """``(format, suffix, encoding)`` of every row of the table: each format as it is, and in each encoding it has."""
    from polyvec import formats

    suffixes = {"bins": ("fbin", "f16bin")}
    found: list[tuple[str, str, str | None]] = []
    for format in formats.all_formats():
        if not format.writable or not format.demo:
            continue
        for suffix in suffixes.get(format.name, (format.suffixes[0].lstrip("."),)):
            found.append((format.name, suffix, None))
        if format.name != "bins":
            found.extend((format.name, format.suffixes[0].lstrip("."), e) for e in format.holds.encodings if e != "raw")
    return found


def _line(source: Path, folder: Path, original: int, format: str, suffix: str, encoding: str | None) -> list[Any] | None:
    from polyvec.core.errors import PolyvecError
    from polyvec.verbs.convert import convert

    target = folder / f"sample-{encoding or 'as-is'}.{suffix}"
    try:
        receipt = convert(source, target, format=format if format != "bins" else suffix, encoding=encoding, durable=False)
    except PolyvecError as error:
        return [target.name, f"not here: {str(error)[:60]}", "", "", "", "", ""]
    loss = receipt.loss
    exact = loss is not None and loss.exact
    return [
        target.name, receipt.codec.split(" -> ")[-1], f"{receipt.bytes:,}", f"{receipt.bytes / original:.0%}",
        "exact" if exact else f"{loss.max_error:.2g}" if loss else "?",
        "1" if exact else f"{loss.min_cosine:.6f}" if loss else "?", f"{receipt.seconds:.3f}",
    ]  # fmt: skip


def _flip(source: Path, folder: Path) -> None:
    """One flipped bit, caught with its place."""
    from polyvec.verbs.verify import verify

    with _step("3. One bit flips on the disk"):
        candidates = [p for p in sorted(folder.glob("sample-*")) if p.suffix in (".cvc", ".weights")] or [source]
        damaged = folder / f"damaged{candidates[0].suffix}"
        content = bytearray(candidates[0].read_bytes())
        # A checksummed file tells a flip anywhere; FBIN has no checksum, so there the header must be hit.
        place = len(content) // 2 if candidates[0] != source else 4
        content[place] ^= 1
        damaged.write_bytes(content)
        print(f"   bit 0 of byte {place:,} of {damaged.name} was flipped; polyvec verify says:")
        for finding in verify(damaged).findings:
            print(f"   {finding.severity}: {finding.message.replace(str(folder) + '/', '')}")


def _shards(source: Path, folder: Path) -> None:
    """Split into shards and merged again: the same bytes."""
    from polyvec.verbs.merge import merge
    from polyvec.verbs.split import split

    with _step("4. Split into shards, one lost, then merged"):
        made = split(source, folder / "shard.fbin", parts=4, durable=False)
        names = [Path(receipt.output).name for receipt in made]
        print(f"   {', '.join(names)}")
        lost = Path(made[2].output)
        kept = lost.with_suffix(".kept")
        lost.rename(kept)
        receipt = merge(str(folder / "shard-*.fbin"), folder / "gap.fbin", durable=False, dry_run=True)
        print(f"   without {lost.name}: {receipt.notes[0]}")
        kept.rename(lost)
        receipt = merge(str(folder / "shard-*.fbin"), folder / "merged.fbin", durable=False, sha256=True)
        same = (folder / "merged.fbin").read_bytes() == source.read_bytes()
        print(f"   merged again: {receipt.rows:,} rows, sha256 {str(receipt.sha256)[:16]}…, "
              f"{'the same bytes as before' if same else 'NOT the same bytes'}")  # fmt: skip


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())
