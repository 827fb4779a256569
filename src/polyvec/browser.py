"""The ``.i8bin`` community's own API: export a collection for the browser, read an export back.

>>> import numpy as np
>>> from polyvec.browser import export_for_browser, load_browser_index
>>> cards = [{"name": name, "set": "lea", "image_url": "", "card_url": ""} for name in ("Ankh", "Bog", "Crypt")]
>>> done = export_for_browser(np.eye(3, 512, dtype=np.float32), "index_out", records=cards)
>>> load_browser_index("index_out").search(1, k=1)[0].record["name"]
'Bog'

Also ``python -m polyvec.browser --input-dir IN --output-dir OUT``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.codecs.levels import Codes, bad_rows, norm_message, quantize_rows
from polyvec.core.collection import Collection
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.folders import FolderSink, recover
from polyvec.core.format import Progress
from polyvec.core.plain import plain, with_id
from polyvec.core.records import Record as RecordMapping
from polyvec.core.sidecars import COMPANIONS
from polyvec.core.sinks import Sink
from polyvec.core.sources import open_source
from polyvec.core.strict_json import parse_json
from polyvec.core.targets import open_sink, refuse_inputs
from polyvec.formats.i8bin import CODEC, DIM, MAIN, MANIFEST, META, encode_blocks, read_meta, read_shape
from polyvec.formats.i8bin import FORMAT as I8BIN
from polyvec.kernels.rounding import LEVELS, Rounding
from polyvec.verbs.records import attach_records
from polyvec.writing.readback import check_shapes

__all__ = [
    "BrowserExport",
    "BrowserIndex",
    "dequantize",
    "export_for_browser",
    "load_browser_index",
    "meta_schema",
    "quantize",
    "validate_l2_norm",
]

VERSION = "1.0"
FILES = {
    MAIN,
    META,
    MANIFEST,
    f"{MAIN}.shape.json",
    *(MAIN + ending for ending in COMPANIONS),
}  # what goes with an export
INPUT_VECTORS, INPUT_RECORDS = "mtg_embeddings.npy", "mtg_meta.jsonl"
NOTE = "float32 = int8 / 127; rows keep their length and need no re-normalization"


class Quantization(msgspec.Struct, forbid_unknown_fields=True):
    """How codes become values."""

    dtype: Literal["int8"]
    scale_factor: Literal[127]
    original_dtype: Literal["float32"]
    note: str = ""


class CardRecord(msgspec.Struct):
    """One row. Further keys are kept as they are."""

    name: str
    set: str
    image_url: str
    card_url: str
    scryfall_id: str | None = None
    face_id: str | int | None = None
    collector_number: str | None = None
    frame: str | None = None
    layout: str | None = None
    lang: str | None = None
    colors: list[str] | None = None
    scryfall_uri: str | None = None


class Meta(msgspec.Struct, forbid_unknown_fields=True):
    """meta.json."""

    version: Literal["1.0"]
    quantization: Quantization
    shape: tuple[int, int]
    records: list[CardRecord]


def meta_schema() -> dict[str, Any]:
    """The JSON Schema of meta.json, which docs/formats/i8bin.schema.json holds."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Meta)}


@dataclass(frozen=True, slots=True)
class BrowserExport:
    """What an export wrote: its files, shape, hash of the codes, and how far rounding moved the values (in levels)."""

    embeddings: Path
    meta: Path
    manifest: Path
    rows: int
    dim: int
    file_hash: str
    norm_min: float
    norm_max: float
    max_error: float
    mean_error: float


def export_for_browser(
    input: str | os.PathLike[str] | Collection | NDArray[Any],
    output_dir: str | os.PathLike[str],
    *,
    records: Any = None,
    rounding: Rounding = "norm",
    normalize: bool = False,
    any_dim: bool = False,
    timestamp: str | None = None,
    progress: Progress | None = None,
) -> BrowserExport:
    """Write ``embeddings.i8bin``, ``meta.json`` and ``build_manifest.json`` into ``output_dir``, all or nothing.

    ``input`` is a folder with mtg_embeddings.npy and mtg_meta.jsonl, a file of any format, a collection or an array
    of unit rows; ``records`` a path (JSONL, CSV, Parquet) or one mapping a row, each with name, set, image_url and
    card_url. Ids go into the records as ``id``, those that JavaScript would round as text. ``timestamp`` (now unless
    told) goes into the manifest; with it the same input gives the same bytes.
    `InputError` with its index at the first row or record that breaks a rule.
    """
    collection, inputs, owned = _open_input(input, records)
    try:
        if collection.records is None:
            raise InputError("an export needs one record a row: give records= (--records)")
        rows, dim = _checked_shape(collection, any_dim)
        target = Path(output_dir)
        recover(target)
        for name in (MAIN, META, MANIFEST):
            refuse_inputs(target / name, inputs)
        with FolderSink(target, ours=FILES.__contains__, last=MANIFEST, in_place=True) as folder:
            with open_sink(folder.path / MAIN, durable=False, working=True) as sink:
                told = _write_codes(collection, sink, rounding, normalize, progress)
                check_shapes(sink, I8BIN, {"vectors": (rows, dim)}, dim=dim)
            with open_sink(folder.path / META, durable=False, working=True) as sink:
                hashes = {MAIN: (rows * dim, told["sha256"]), META: _write_meta(collection, sink)}
            statistics = {"rows": rows, "dim": dim, **{k: v for k, v in told.items() if k != "sha256"}}
            parameters = {
                "rounding": rounding,
                "normalize": normalize,
                "scale_factor": LEVELS,
                "conforming": rounding != "truncate",
            }
            folder.put(
                MANIFEST,
                [
                    _json(
                        {
                            "version": VERSION,
                            "timestamp": timestamp or datetime.now(UTC).isoformat(timespec="seconds"),
                            "parameters": parameters,
                            "statistics": statistics,
                            "outputs": {
                                name: {"bytes": size, "sha256": digest} for name, (size, digest) in hashes.items()
                            },
                            "file_hash": told["sha256"],
                        },
                        indent=2,
                    )
                    + b"\n"
                ],
            )
        return BrowserExport(
            target / MAIN,
            target / META,
            target / MANIFEST,
            rows,
            dim,
            told["sha256"],
            told["norm_min"],
            told["norm_max"],
            told["max_error"],
            told["mean_error"],
        )
    finally:
        if owned:
            collection.close()


def _open_input(value: Any, records: Any) -> tuple[Collection, list[str], bool]:
    inputs: list[str] = []
    if isinstance(value, Collection):
        collection, owned = value, False
    elif isinstance(value, (str, os.PathLike)):
        path, owned = Path(value), True
        if path.is_dir():
            records = records if records is not None else path / INPUT_RECORDS
            path = path / INPUT_VECTORS
        inputs.append(str(path))
        collection = formats.open(path)
    else:
        collection, owned = Collection.from_arrays(np.asarray(value)), False
    try:
        if records is not None:
            if isinstance(records, (str, os.PathLike)):
                inputs.append(os.fspath(records))
            attached = Collection(
                collection.columns, main=collection.main, ids=collection.ids, close=collection.close if owned else None
            )
            # in the words of the format's document, which its readers use too
            mismatch = "Metadata count mismatch: expected {rows} records, got {found}; give one record a row"
            collection = attach_records(attached, records, otherwise=mismatch)
    except BaseException:
        if owned:
            collection.close()
        raise
    return collection, inputs, owned


def _checked_shape(collection: Collection, any_dim: bool) -> tuple[int, int]:
    shape = collection.vectors.shape
    if len(shape) != 2 or not shape[0]:
        raise InputError(f"an export needs rows of numbers, and the input has shape {shape}")
    if shape[1] != DIM and not any_dim:
        raise InputError(
            f"embeddings must have exactly {DIM} dimensions, found {shape[1]}; any_dim=True (--any-dim) allows others"
        )
    return shape[0], shape[1]


def _write_codes(
    collection: Collection, sink: Sink, rounding: Rounding, normalize: bool, progress: Progress | None
) -> dict[str, Any]:
    digest, low, high, most, total = hashlib.sha256(), math.inf, 0.0, 0.0, 0.0
    column = collection.vectors
    for block in column.blocks(reuse=True):
        if block.codec == CODEC and not normalize:
            (codes,) = encode_blocks(iter([block]), rounding=rounding)
            squares = np.einsum("ij,ij->i", codes.astype(np.int32), codes.astype(np.int32))
        else:
            rows = block.decode()
            if rows.dtype.kind not in "fV":
                raise InputError(f"an export needs float rows, not {rows.dtype}")
            levels = quantize_rows(rows, start=block.start, rounding=rounding, normalize=normalize, flag="--normalize")
            codes, squares = levels.codes, levels.squares
            most, total = max(most, levels.max_error), total + levels.sum_error
        norms = np.sqrt(squares) / LEVELS
        low, high = min(low, float(norms.min())), max(high, float(norms.max()))
        sink.write(codes)
        digest.update(codes.tobytes())
        if progress:
            progress(block.start + block.rows, column.rows)
    mean = total / (column.rows * column.shape[1])
    return {"norm_min": low, "norm_max": high, "max_error": most, "mean_error": mean, "sha256": digest.hexdigest()}


def _write_meta(collection: Collection, sink: Sink) -> tuple[int, str]:
    """Stream meta.json, every record checked against the contract; its size and hash."""
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        sink.write(data)
        digest.update(data)

    rows, dim = collection.vectors.shape
    quantization = {"dtype": "int8", "scale_factor": LEVELS, "original_dtype": "float32", "note": NOTE}
    head = {"version": VERSION, "quantization": quantization, "shape": [rows, dim], "records": []}
    put(_json(head)[:-2])
    assert collection.records is not None
    for (row, record), held in zip(enumerate(collection.records), _ids(collection)):
        try:
            msgspec.convert(record, CardRecord)
        except msgspec.ValidationError as error:
            raise InputError(f"record {row} breaks the contract of {META}: {_lower(str(error))}") from None
        put((b",\n" if row else b"\n") + _json(with_id(record, held)))
    put(b"\n]}\n")
    return sink.size, digest.hexdigest()


def _ids(collection: Collection, step: int = 4096) -> Iterator[Any]:
    for start in range(0, collection.rows, step):
        stop = min(start + step, collection.rows)
        yield from [None] * (stop - start) if collection.ids is None else map(plain, collection.ids[start:stop])


def _json(value: Any, indent: int | None = None) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except (ValueError, TypeError) as error:
        raise InputError(f"a record cannot be written as JSON: {error}") from None
    return text.encode("utf-8")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One answer of a search: a row, its dot product with the query, and its record."""

    row: int
    score: float
    record: RecordMapping


class BrowserIndex:
    """An export in memory, every row checked: ``codes`` (n, dim) int8, ``meta``, ``manifest``, ``records``."""

    def __init__(self, codes: Codes, meta: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> None:
        self.codes = codes
        self.meta = meta
        self.manifest = manifest

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def records(self) -> Sequence[RecordMapping]:
        """One mapping a row."""
        found: list[RecordMapping] = self.meta["records"]
        return found

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """All rows as float32, computed once."""
        return dequantize(self.codes)

    def search(self, query: int | NDArray[Any], k: int = 10) -> list[Neighbor]:
        """The k rows with the largest dot product, best first, ties to the lower row. Nothing is re-normalized."""
        vector = self.vectors[query] if isinstance(query, (int, np.integer)) else np.asarray(query, np.float32)
        if vector.shape != (self.codes.shape[1],):
            raise InputError(f"expected a query of {self.codes.shape[1]} values, found shape {vector.shape}")
        scores = self.vectors @ vector
        best = np.lexsort((np.arange(len(scores)), -scores))[: max(0, k)]
        return [Neighbor(int(row), float(scores[row]), self.records[row]) for row in best]


def load_browser_index(directory: str | os.PathLike[str]) -> BrowserIndex:
    """Read an export back. Size, range, every norm, metadata and the manifest's hash are checked, as in the browser."""
    folder = Path(directory)
    recover(folder)
    with open_source(folder / META) as source:
        meta = read_meta(source)
    manifest = None
    if (folder / MANIFEST).is_file():
        with open_source(folder / MANIFEST) as source:
            manifest = parse_json(source.read_at(0, source.size), path=source.label, field=MANIFEST)
    try:
        source = open_source(folder / MAIN)
    except FileNotFoundError:
        raise Corrupt("Failed to load embeddings: 404 Not Found", path=str(folder / MAIN)) from None
    with source:
        try:
            rows, dim = read_shape(source, None)
            codes = np.empty((rows, dim), np.int8)
            source.read_into(0, codes)
            _check_hash(codes, manifest)
            for start in range(0, rows, 8192):
                for error in bad_rows(codes[start : start + 8192], start=start):
                    raise error
        except FormatError as error:
            raise error.located(source.label) from None
    return BrowserIndex(codes, meta, manifest if isinstance(manifest, dict) else None)


def _check_hash(codes: Codes, manifest: Any) -> None:
    said = manifest.get("file_hash") if isinstance(manifest, dict) else None
    if isinstance(said, str):
        found = hashlib.sha256(codes.tobytes()).hexdigest()
        if said.removeprefix("sha256:").lower() != found:
            raise Corrupt(f"Embedding file hash mismatch: the manifest says {said}, the file has {found}.")


def quantize(rows: NDArray[Any], *, rounding: Rounding = "norm", normalize: bool = False) -> Codes:
    """Int8 codes of unit rows (n, dim), every one within the document's bounds."""
    return quantize_rows(np.atleast_2d(rows), rounding=rounding, normalize=normalize).codes


def dequantize(codes: NDArray[Any]) -> NDArray[np.float32]:
    """float32 values of int8 codes: a true division by 127."""
    values: NDArray[np.float32] = np.divide(codes, np.float32(LEVELS), dtype=np.float32)
    return values


def validate_l2_norm(embedding: NDArray[Any]) -> None:
    """`InputError`, in the document's words, unless a decoded vector has a norm from .992 to 1.008."""
    norm = float(np.sqrt(np.sum(np.asarray(embedding, np.float64) ** 2)))
    if not 0.992 <= norm <= 1.008:
        raise InputError(norm_message(norm))


def _arguments(given: Sequence[str] | None) -> Any:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m polyvec.browser", description="Export embeddings for the browser.")
    parser.add_argument(
        "--input-dir", required=True, help=f"a folder with {INPUT_VECTORS} and {INPUT_RECORDS}, or any file"
    )
    parser.add_argument(
        "--output-dir", required=True, help="where embeddings.i8bin, meta.json and build_manifest.json go"
    )
    parser.add_argument("--records", help="records as JSONL, CSV or Parquet, where the input has none")
    parser.add_argument("--rounding", default="norm", choices=("norm", "nearest", "truncate"))
    parser.add_argument("--normalize", action="store_true", help="rescale rows to length one first")
    parser.add_argument("--any-dim", action="store_true", help=f"allow other dimensions than {DIM} (an extension)")
    parser.add_argument("--timestamp", help="the manifest's timestamp; now unless given")
    return parser.parse_args(given)


def _lines(done: BrowserExport) -> Iterator[str]:
    yield f"wrote {done.embeddings}: {done.rows:,} x {done.dim}, {done.rows * done.dim:,} bytes"
    yield f"  sha256 {done.file_hash}"
    yield (
        f"  norms {done.norm_min:.4f} to {done.norm_max:.4f}; "
        f"errors up to {done.max_error:.3f} of a level, mean {done.mean_error:.3f}"
    )
    yield f"  beside it: {done.meta.name}, {done.manifest.name}"


def main(given: Sequence[str] | None = None) -> int:
    """The original exporter's command; every error is one line on standard error."""
    import sys

    chosen = _arguments(given)
    try:
        done = export_for_browser(
            chosen.input_dir,
            chosen.output_dir,
            records=chosen.records,
            rounding=chosen.rounding,
            normalize=chosen.normalize,
            any_dim=chosen.any_dim,
            timestamp=chosen.timestamp,
        )
    except (FormatError, InputError, OSError) as error:
        print(f"polyvec.browser: {error}", file=sys.stderr)
        return 1
    print("\n".join(_lines(done)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
