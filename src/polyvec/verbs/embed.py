"""embed: texts to vectors, in memory or from a corpus of any length to any format, resumable.

A corpus is embedded in chunks. Their vectors and records are appended to files in ``OUT.embedding/``, and only then is
the count of finished texts written, so a run that is stopped goes on where the count stands. Two runs on one target exclude each other. At the end the target
is written like any other collection, and the folder goes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import (
    check_flags,
    check_paths,
    check_targets,
    check_texts,
    check_threads,
    check_whole,
    shown,
)
from polyvec.core.blocks import Extent, Raw
from polyvec.core.collection import Collection
from polyvec.core.columns import FileColumn
from polyvec.core.errors import FormatError, InputError
from polyvec.core.format import Progress
from polyvec.core.locks import job_lock
from polyvec.core.options import near
from polyvec.core.progress import as_progress, check_progress
from polyvec.core.records import LineRecords
from polyvec.core.sources import open_source
from polyvec.core.space import demand_space
from polyvec.core.strict_json import parse_json
from polyvec.core.tables import ColumnKind
from polyvec.core.targets import check_target, open_sink
from polyvec.model.corpus import Corpus, Item, count_texts, open_corpus, read_items
from polyvec.model.encoder import DEFAULTS, Embedder, EmbedderOptions, EmbeddingOptions, as_texts
from polyvec.verbs.records import attach_given, named_file
from polyvec.writing.options import Writing, WritingOptions, gather, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import estimate, fit, write_collection

CHUNK_TEXTS = 2048  # texts between two counts: the most that a stopped run does again
CHUNK_BYTES = 16 << 20  # of text; long texts make shorter chunks, so memory stays bounded


@dataclass(frozen=True, slots=True)
class Embedded:
    """What embedding a corpus did: the receipt of the file, and what became of the texts."""

    receipt: Receipt
    texts: int
    truncated: int
    resumed: int  # texts that an earlier run had done
    seconds: float
    engine: str

    @property
    def texts_per_second(self) -> float:
        return (self.texts - self.resumed) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "texts_per_second": self.texts_per_second}


@dataclass(frozen=True, slots=True)
class Step:
    """How far a run has come; handed to its progress callback after every chunk."""

    texts: int
    truncated: int
    bytes_read: int
    bytes_total: int | None
    seconds: float
    texts_now: int  # of this run


@shows_options(EmbedderOptions, DEFAULTS)
def embed(
    texts: Sequence[str],
    *,
    model: str | os.PathLike[str] | Embedder,
    prompt: str | None = None,
    truncate_dim: int | None = None,
    output: str = "float32",
    batch_size: int | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[EmbedderOptions],
) -> NDArray[Any]:
    """One vector a text, [texts, dim]. ``model`` is a `.weights` file or an `Embedder`; options are the embedder's.

    ``output`` is float32, int8 or binary; ``prompt`` is put before every text; ``truncate_dim`` keeps the first values;
    ``progress`` is True or a callback(texts done, texts).
    """
    texts = as_texts(texts)
    check_threads(threads)
    check_progress(progress)
    for name in options:
        if name not in DEFAULTS:
            raise InputError(f"embed has no option {name!r}{near(name, {*DEFAULTS, 'threads', 'progress'})}")
    told: EmbeddingOptions = {
        "batch_size": batch_size,
        "show_progress": progress or False,
        "prompt": prompt,
        "truncate_dim": truncate_dim,
        "output": output,
    }
    if isinstance(model, Embedder):
        given = [*options, *(["threads"] if threads is not None else [])]
        if given:
            raise InputError(f"{', '.join(sorted(given))} belong to the embedder: give them when you make it")
        return model.embed(texts, **told)
    check_paths(model=model)
    with Embedder(model, num_threads=threads, **options) as embedder:
        return embedder.embed(texts, **told)


@shows_options(WritingOptions)
def embed_corpus(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    model: Embedder,
    kind: str | None = None,
    field: str | None = None,
    prompt: str | None = None,
    truncate_dim: int | None = None,
    resume: bool = True,
    records: bool | str | os.PathLike[str] = True,
    ids: Any = None,
    watch: Callable[[Step], None] | None = None,
    **options: Unpack[WritingOptions],
) -> Embedded:
    """Embed every text of a file (lines, JSONL, CSV, Parquet, ``-``) into any format; records stay beside the vectors.

    A stopped run goes on where it was; ``resume=False`` starts over. ``records`` is also a file of other records, or False;
    ``ids`` a field of them, or what `convert` takes. Further options are those of `write`; ``progress`` is told the texts
    done and how many there are, which is a guess until the end where the file does not say; ``watch`` gets every `Step`.
    """
    check_paths(source=source)
    check_targets(target=target)
    check_texts(kind=kind, field=field, prompt=prompt)
    check_flags(resume=resume)
    check_whole(1, truncate_dim=truncate_dim)
    if not isinstance(model, Embedder):
        raise InputError(f"model must be an Embedder, not {shown(model)}")
    writing = gather(options)
    corpus = open_corpus(source, kind=kind, field=field)
    # A file that is not there, or that is the output, is told before hours of work, too.
    beside = [named_file(os.fspath(given))[0] for given in (ids, records) if isinstance(given, (str, os.PathLike))]
    other = None if isinstance(records, bool) else records
    kept = (records is True) or (ids is not None and other is None)  # a field of theirs may be the ids
    width = truncate_dim or model.embedding_dim
    probe = Collection.from_arrays(np.zeros((1, width), np.float32))
    fit(target, probe, writing)  # what no format writes is told before hours of work
    inputs = [file for file in (corpus.path, model.path, *beside) if file not in (None, "-")]
    check_target(target, inputs=inputs, overwrite=writing.overwrite)
    fingerprint = {
        "corpus": corpus.fingerprint(),
        "prompt": prompt,
        "dim": width,
        "records": kept,
        **describe_model(model),
    }
    place = ".stdout" if os.fspath(target) == "-" else os.fspath(target)
    work = _Work(Path(f"{place}.embedding"), width)
    started = time.perf_counter()
    count = count_texts(corpus)
    tell, writing = as_progress(writing.progress, "texts"), replace(writing, progress=None)
    _demand_space(corpus, count, target, width, kept, writing, work)
    with job_lock(place, label=f"{work.folder}" if place == ".stdout" else None):
        # Standard input leaves no trace to recognise it by, so what it gave before is not trusted to come again.
        resumed = work.begin(fingerprint, resume=resume and corpus.path != "-")
        try:
            _run(corpus, work, model, prompt, truncate_dim, kept, _both(watch, tell, count), started)
        except BaseException:
            if not work.texts:  # nothing is done that a repeated command could go on from
                work.discard()
            raise
        seconds = time.perf_counter() - started
        if not work.texts:
            work.discard()
            raise InputError(f"{os.fspath(source)}: there are no texts to embed")
        if kept and corpus.kind in ("csv", "tsv"):
            work.read_types(corpus.field)
        with work.collection(kept) as collection:
            collection.metadata.update(model=model.metadata["model_name"], max_seq_length=model.max_seq_length)
            attach_given(collection, ids=ids, records=other)
            if records is False:
                collection.records = None
            receipt = write_collection(target, collection, writing, inputs=inputs)
        if tell is not None:
            tell(work.texts, work.texts)
        result = Embedded(receipt, work.texts, work.truncated, resumed, seconds, model.engine)
        work.discard()
        return result


def _both(watch: Callable[[Step], None] | None, tell: Progress | None, count: int) -> Callable[[Step], None] | None:
    """What a run calls after every chunk: who watches it, and who is told texts alone."""
    if watch is None and tell is None:
        return None

    def after(step: Step) -> None:
        if watch is not None:
            watch(step)
        if tell is not None:
            tell(step.texts, max(count, step.texts + 1))  # that these were all is known at the end

    return after


def _demand_space(
    corpus: Corpus, rows: int, target: str | os.PathLike[str], width: int, records: bool, writing: Writing, work: _Work
) -> None:
    """Working files and the output must fit."""
    kept = (corpus.size or 0) if records and corpus.kind != "parquet" else 0
    probe = Collection.from_arrays(np.broadcast_to(np.float32(0), (rows, width)))
    piped = os.fspath(target) == "-"
    needed = rows * width * 4 + kept + (0 if piped else estimate(target, probe, writing) + kept)
    there = sum(path.stat().st_size for path in work.folder.glob("*")) if work.folder.is_dir() else 0
    demand_space(work.folder if piped else target, needed - there, refuse=writing.check_space)


def describe_model(model: Embedder) -> dict[str, Any]:
    """What makes two runs give the same vectors."""
    return {
        "model": model.metadata,
        "weights": model.fingerprint,
        "max_seq_length": model.max_seq_length,
        "normalize": model.normalize_embeddings,
        "engine": model.engine,
    }


def _run(
    corpus: Corpus,
    work: _Work,
    model: Embedder,
    prompt: str | None,
    truncate_dim: int | None,
    records: bool,
    watch: Callable[[Step], None] | None,
    started: float,
) -> None:
    read = 0

    def position(done: int) -> None:
        nonlocal read
        read = done

    first = work.texts
    items = islice(read_items(corpus, position), first, None)
    while chunk := list(_chunk(items)):
        vectors = np.empty((len(chunk), work.width), np.float32)
        try:
            cut = model.embed_into([text for text, _ in chunk], vectors, prompt=prompt, truncate_dim=truncate_dim)
        except InputError as error:
            raise InputError(f"{corpus.path}: after text {work.texts}: {error}") from None
        work.append(vectors, [record for _, record in chunk] if records else None, cut)
        if watch is not None:
            watch(
                Step(work.texts, work.truncated, read, corpus.size, time.perf_counter() - started, work.texts - first)
            )


def _chunk(items: Iterator[Item]) -> Iterator[Item]:
    size = 0
    for item in islice(items, CHUNK_TEXTS):
        yield item
        size += len(item[0])
        if size >= CHUNK_BYTES:
            return


class _Work:
    """The folder of an unfinished run: ``vectors`` (float32), ``records.jsonl`` and ``state.json``, the last word."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder = folder
        self.width = width
        self.texts = self.truncated = self._record_bytes = 0
        self._fingerprint: dict[str, Any] = {}
        self._vectors, self._records, self._state = folder / "vectors", folder / "records.jsonl", folder / "state.json"
        self._shown = self._records

    def begin(self, fingerprint: dict[str, Any], *, resume: bool) -> int:
        """Take up an earlier run of the same input and model, or start anew; returns the texts already done."""
        self._fingerprint = json.loads(json.dumps(fingerprint))
        state = self._load() if resume else None
        if state is None:
            self.discard()
            self.folder.mkdir()
            self._vectors.touch()
            self._records.touch()
            self._save()
        elif state["run"] != self._fingerprint:
            raise InputError(
                f"{self.folder}: an unfinished run of another input, model or options lies here; "
                "finish it with the same ones, or start over with --restart (resume=False)"
            )
        else:
            self.texts, self.truncated, self._record_bytes = state["texts"], state["truncated"], state["record_bytes"]
            # What was appended after the last count is cut off: it will be made again.
            os.truncate(self._vectors, self.texts * self.width * 4)
            os.truncate(self._records, self._record_bytes)
        return self.texts

    def _load(self) -> dict[str, Any] | None:
        if not self._state.is_file():
            return None
        try:
            state = parse_json(self._state.read_bytes(), path=str(self._state))
            counts = [state[name] for name in ("texts", "truncated", "record_bytes")]
            whole = all(type(count) is int and count >= 0 for count in counts) and isinstance(state["run"], dict)
            there = (
                self._vectors.stat().st_size >= counts[0] * self.width * 4 and self._records.stat().st_size >= counts[2]
            )
        except (FormatError, KeyError, TypeError, OSError):
            return None
        return state if whole and there else None

    def append(self, vectors: NDArray[np.float32], records: list[dict[str, Any]] | None, cut: int) -> None:
        """Keep a chunk; it counts once the state says so."""
        with self._vectors.open("ab") as file:
            file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
        if records is not None:
            lines = b"".join(_line(record, self.texts + row) for row, record in enumerate(records))
            with self._records.open("ab") as file:
                file.write(lines)
            self._record_bytes += len(lines)
        self.texts += len(vectors)
        self.truncated += cut
        self._save()

    def _save(self) -> None:
        state = {
            "texts": self.texts,
            "truncated": self.truncated,
            "record_bytes": self._record_bytes,
            "run": self._fingerprint,
        }
        with open_sink(self._state, durable=False, working=True) as sink:
            sink.write(json.dumps(state).encode())

    def read_types(self, text_field: str) -> None:
        """Give a table's records the types of their columns, which are known when all values were seen; the texts stay."""
        kinds: dict[str, ColumnKind] = {}
        with self._records.open("rb") as file:
            for line in file:
                for name, value in json.loads(line).items():
                    kinds.setdefault(name, ColumnKind()).see(value)
        kinds.pop(text_field, None)
        typed = self.folder / "typed.jsonl"
        with self._records.open("rb") as file, typed.open("wb") as out:
            for row, line in enumerate(file):
                record = json.loads(line)
                out.write(_line(record | {name: kind.read(record[name]) for name, kind in kinds.items()}, row))
        self._shown = typed

    def collection(self, records: bool) -> Collection:
        """What was embedded, read from the working files."""
        source = open_source(self._vectors)
        extent = Extent(0, self.texts, 0, self.texts * self.width * 4, Raw(np.dtype("<f4")))
        column = FileColumn("vectors", source, [extent], row_shape=(self.width,), encoding="raw")
        result = Collection({"vectors": column}, close=source.close)
        if records:
            lines = open_source(self._shown)
            result.records = LineRecords(lines, self.texts)
            result.on_close(lines.close)
        return result

    def discard(self) -> None:
        """Remove the working files."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)


def _line(record: dict[str, Any], row: int) -> bytes:
    """A record as a line of JSON; what JSON has no word for becomes null (NaN) or text (dates, bytes)."""
    try:
        text = json.dumps(record, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(record), ensure_ascii=False, default=str)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        raise InputError(f"the record of text {row} holds a lone surrogate, which UTF-8 cannot hold") from None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
