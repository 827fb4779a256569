"""Exports for the browser: codes, records and a manifest, all or nothing."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.browser.cards import CardRecord
from polyvec.codecs.levels import quantize_rows
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.folders import FolderSink, recover
from polyvec.core.format import Progress
from polyvec.core.places import Place
from polyvec.core.plain import plain, with_id
from polyvec.core.sidecars import COMPANIONS
from polyvec.core.sinks import Sink
from polyvec.core.targets import open_sink, refuse_inputs
from polyvec.formats.i8bin import CODEC, DIM, MAIN, MANIFEST, META, encode_blocks
from polyvec.formats.i8bin import FORMAT as I8BIN
from polyvec.kernels.rounding import LEVELS, Rounding
from polyvec.verbs.records import attach_records
from polyvec.writing.readback import check_shapes

VERSION = "1.0"
BESIDE = (f"{MAIN}.shape.json", *(MAIN + ending for ending in COMPANIONS))
FILES = {MAIN, META, MANIFEST, *BESIDE}  # what goes with an export
INPUT_VECTORS, INPUT_RECORDS = "mtg_embeddings.npy", "mtg_meta.jsonl"
NOTE = "float32 = int8 / 127; rows keep their length and need no re-normalization"


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
                codes, figures = _write_codes(collection, sink, rounding, normalize, progress)
                check_shapes(sink, I8BIN, {"vectors": (rows, dim)}, dim=dim)
            with open_sink(folder.path / META, durable=False, working=True) as sink:
                meta = _write_meta(collection, sink)
            manifest = {
                "version": VERSION,
                "timestamp": timestamp or datetime.now(UTC).isoformat(timespec="seconds"),
                "parameters": {
                    "rounding": rounding,
                    "normalize": normalize,
                    "scale_factor": LEVELS,
                    "conforming": rounding != "truncate",
                },
                "statistics": {"rows": rows, "dim": dim, **asdict(figures)},
                "outputs": {MAIN: asdict(codes), META: asdict(meta)},
                "file_hash": codes.sha256,
            }
            folder.put(MANIFEST, [_json(manifest, indent=2) + b"\n"])
        return BrowserExport(
            target / MAIN, target / META, target / MANIFEST, rows, dim, file_hash=codes.sha256, **asdict(figures)
        )
    finally:
        if owned:
            collection.close()


@dataclass(frozen=True, slots=True)
class _Written:
    """A file as the manifest lists it."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Figures:
    """Lengths of the rows as written, and how far rounding moved the values (in levels)."""

    norm_min: float
    norm_max: float
    max_error: float
    mean_error: float


def _open_input(value: Any, records: Any) -> tuple[Collection, list[str], bool]:
    inputs: list[str] = []
    if isinstance(value, Collection):
        collection, owned = value, False
    elif isinstance(value, (str, os.PathLike)):
        place, owned = Place.of(value), True
        if place.local and place.path.is_dir():
            records = records if records is not None else place.path / INPUT_RECORDS
            place = Place.of(place.path / INPUT_VECTORS)
        inputs.append(str(place))
        collection = formats.open(place)
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
) -> tuple[_Written, _Figures]:
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
    values = column.rows * column.shape[1]
    return _Written(values, digest.hexdigest()), _Figures(low, high, most, total / values)


def _write_meta(collection: Collection, sink: Sink) -> _Written:
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
    return _Written(sink.size, digest.hexdigest())


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
