"""``.i8bin`` for the browser: unit rows as int8, nothing else.

::

    offset 0   n*d int8 codes, row-major, each from -127 to 127; value = code / 127
               no header: d is 512, or what a description beside the file says

Without a description d is 512 only where the rows agree: read at any other width they are not of unit length. Where they
do not, ``dim`` must be said. Every row has a norm from .992 to 1.008 after decoding. An export keeps ``meta.json`` (shape, quantization, records) and
``build_manifest.json`` (hash) beside ``embeddings.i8bin``; other dimensions than 512 are told in ``NAME.shape.json``.
The benchmarks' ``.i8bin`` with a header of n and d is another format (see bins.py), told by its size equation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.codecs import SymmetricInt8, shortcut
from polyvec.codecs.levels import REEXPORT, ROUNDINGS, Codes, bad_rows, check_size, quantize_rows
from polyvec.core.blocks import Block, Extent, Raw
from polyvec.core.collection import Collection
from polyvec.core.columns import FileColumn
from polyvec.core.dtypes import FLOATS
from polyvec.core.errors import AmbiguousFormat, Corrupt, FormatError, InputError, Truncated
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.records import Record, Records
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json
from polyvec.formats.headers import refuse_other_width, rows_there

ROUNDING = Option(
    "rounding",
    str,
    "How values become levels: norm keeps rows of unit length, truncate is what old files did.",
    ROUNDINGS,
    "norm",
)
NORMALIZE = Option("normalize", bool, "Rows are made of unit length first.", (), False)
DIMENSION = Option("dim", int, "Values in a row, which the file does not say.")
DIM = 512  # the document's dimension; others are an extension
MAX_DIM = 1 << 17  # sums of squares stay within 32 bits
CODEC = SymmetricInt8(127.0)
META = "meta.json"
MANIFEST = "build_manifest.json"
MAIN = "embeddings.i8bin"
SHOWN = 20  # bad rows that `verify` lists before it only counts
NORM_MIN, NORM_MAX = 0.992, 1.008  # of a row, by the document
PROBE_BYTES = 1 << 18  # of the rows that are looked at where nothing tells the dimension
COMMON_DIMS = (64, 96, 100, 128, 192, 200, 256, 300, 384, 512, 640, 768, 960, 1024, 1280, 1536, 2048, 3072, 4096)
_SHAPE = re.compile(rb'"shape"\s*:\s*\[\s*(\d{1,15})\s*,\s*(\d{1,15})\s*\]')


class I8bin(Format):
    """Int8 unit rows for the browser."""

    name = "i8bin"
    title = "int8 embeddings for the browser (headerless .i8bin)"
    suffixes = (".i8bin",)
    holds = Holds(encodings=("int8",), dtypes=(np.dtype("i1"), *FLOATS))
    options = (ROUNDING, NORMALIZE)
    reading = (DIMENSION,)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.suffix != ".i8bin":
            return []  # any bytes fit a headerless file: only its name can tell
        if _has_header(peek.head, peek.size):
            return [Match(Confidence.SUFFIX, "suffix .i8bin, but the size fits a header of n and d")]
        if peek.size % DIM:
            return [Match(Confidence.NAMED, f"suffix .i8bin and no header; {peek.size} bytes are no multiple of {DIM}")]
        return [Match(Confidence.NAMED, f"suffix .i8bin, no header, size = {peek.size // DIM} x {DIM}")]

    def open(
        self, source: Source, *, variant: str = "", lenient: bool = False, dim: int | None = None, **own: Any
    ) -> Collection:
        given = dim is not None
        rows, dim = read_shape(source, dim, lenient=lenient)
        extents = [Extent(0, rows, 0, rows * dim, CODEC)] if rows else []
        column = FileColumn("vectors", source, extents, row_shape=(dim,), encoding="int8", dtype=CODEC.dtype)
        meta = _sibling_meta(source)
        records: Records | None = None
        if meta is not None:
            found, _ = _meta_shape(meta)
            if found == rows:
                records = MetaRecords(meta, rows)
            else:
                meta.close()
        notes = []
        if lenient and rows * dim != source.size:
            notes.append(f"the file is not a whole number of rows: {rows} whole rows of {dim} are read")
        if given and rows and not _unit_rows(source.read_at(0, PROBE_BYTES), dim):
            notes.append(f"rows of {dim} values, as was said, are not of unit length; dim= may be wrong")
        collection = Collection({"vectors": column}, records=records, notes=notes)
        if records is not None and meta is not None:
            collection.on_close(meta.close)
        return collection

    def suits(self, collection: Collection, suffix: str) -> bool:
        return collection.vectors.dtype != np.int8

    def target(self, collection: Collection, options: WriteOptions) -> str:
        rounding = ROUNDING.of(options.own)
        return f"int8 ({rounding} rounding)" + (", not conforming" if rounding == "truncate" else "")

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        column = collection.vectors
        if len(column.shape) != 2:
            raise InputError(f"i8bin files hold rows of numbers, not a column of shape {column.shape}")
        rows, dim = column.shape
        if not rows or not 1 <= dim <= MAX_DIM:
            raise InputError(
                f"an i8bin file has no header: it needs at least one row, of 1 to {MAX_DIM} dimensions, "
                f"and the source is {rows} x {dim}"
            )
        rounding, normalize = ROUNDING.of(options.own), NORMALIZE.of(options.own)
        for codes in encode_blocks(column.blocks(reuse=True), rounding=rounding, normalize=normalize):
            sink.write(codes)
            if options.progress:
                options.progress(sink.size // dim, rows)
        if dim != DIM or rounding == "truncate":  # such rows are not of unit length, which would tell 512
            beside = sink.sibling(f"{sink.name}.shape.json")
            beside.write(json.dumps({"shape": [rows, dim]}).encode() + b"\n")
        else:
            sink.discard([f"{sink.name}.shape.json"])

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        try:
            collection = self.open(source, variant=variant, **self.said)
        except FormatError as error:
            yield Finding.of(error)
            return
        flawed = 0
        with collection:
            yield from (Finding("warning", note, field="shape") for note in collection.notes)
            if not self.said and not _described(source):
                yield Finding(
                    "note",
                    f"no description beside the file tells its dimension: {DIM} by the document, and the rows' "
                    "lengths agree",
                    field="shape",
                )
            for codes, start in _code_blocks(source, collection.rows, collection.dim):
                for flaw in bad_rows(codes, start=start):
                    flawed += 1
                    if flawed <= SHOWN:
                        yield Finding("error", flaw.message, flaw.offset, "codes")
            if flawed > SHOWN:
                yield Finding(
                    "error", f"{flawed} rows in all break the rules; the first {SHOWN} are listed", field="codes"
                )
            if collection.dim != DIM:
                yield Finding(
                    "note", f"dimension {collection.dim} is an extension: the document fixes {DIM}", field="shape"
                )
            yield from _check_meta(collection)
        yield from _check_manifest(source)

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        """Where the export's manifest beside it holds its hash."""
        return _manifest_hash(source) is not None

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        rows, dim = read_shape(source, self.said.get("dim"), lenient=True)
        spans = [Span(0, rows * dim, "codes", f"{rows} rows x {dim} int8, value = code / 127")]
        if rows * dim < source.size:
            spans.append(Span(rows * dim, source.size - rows * dim, "extra", "less than a row"))
        return spans


class MetaRecords(Records):
    """The records of a meta.json, parsed on first use."""

    def __init__(self, source: Source, rows: int) -> None:
        self.source = source
        self._rows = rows
        self._records: list[Record] | None = None

    def __len__(self) -> int:
        return self._rows

    def _iterate(self, start: int, stop: int) -> Iterator[Record]:
        if self._records is None:
            self._records = read_meta(self.source, self._rows)["records"]
        yield from self._records[start:stop]


def encode_blocks(blocks: Iterator[Block], *, rounding: Any = "norm", normalize: bool = False) -> Iterator[Codes]:
    """The codes of blocks: as they are where they are levels already (and checked), else rounded from floats."""
    for block in blocks:
        quick = shortcut(block, CODEC)
        if quick is None and block.codec == Raw(np.dtype(np.int8)):
            quick = block  # whole numbers of the format's own kind are codes
        if quick is None or normalize:
            rows = block.decode()
            if rows.dtype.kind not in "fV":
                raise InputError(f"i8bin needs unit float rows or int8 codes, not {rows.dtype}")
            yield quantize_rows(rows, start=block.start, rounding=rounding, normalize=normalize).codes
            continue
        codes = np.ascontiguousarray(quick.parts["codes"], np.int8)
        if rounding != "truncate":
            for error in bad_rows(codes, start=block.start):
                raise InputError(error.message)
        yield codes


def read_shape(source: Source, dim: int | None, *, lenient: bool = False) -> tuple[int, int]:
    """Rows and dimension: as asked, as told beside the file, or 512 where the rows agree; compared with the bytes there are."""
    if dim is not None:
        if not isinstance(dim, int) or not 1 <= dim <= MAX_DIM:
            raise InputError(f"dim must be a whole number from 1 to {MAX_DIM}, not {dim!r}")
        return _whole_rows(source, dim, lenient)
    beside = source.sibling(f"{source.name}.shape.json")
    if beside is not None:
        with beside:
            rows, dim = _shape_in(parse_json(beside.read_at(0, 4096), path=beside.label, field="shape"), beside.label)
    else:
        meta = _sibling_meta(source)
        if meta is None:
            return _whole_rows(source, _document_dim(source), lenient)
        with meta:
            rows, dim = _meta_shape(meta)
        if source.name != MAIN and rows * dim != source.size:
            return _whole_rows(source, _document_dim(source), lenient)  # some other export's description
    if lenient and rows * dim > source.size:
        refuse_other_width(rows, dim, source.size, 1, offset=0, field="shape")
        return rows_there(rows, dim, source.size), dim
    check_size(rows, dim, source.size)
    return rows, dim


def _described(source: Source) -> bool:
    """Whether a file beside this one tells its shape."""
    beside = source.sibling(f"{source.name}.shape.json")
    if beside is None:
        beside = _sibling_meta(source)
    if beside is None:
        return False
    with beside:
        if beside.name == META and source.name != MAIN:
            rows, dim = _meta_shape(beside)
            return rows * dim == source.size
        return True


def _document_dim(source: Source) -> int:
    """512, where the rows at that width are of unit length; `AmbiguousFormat`, naming the candidates, where they are not."""
    head = source.read_at(0, PROBE_BYTES)
    if not len(head) or _unit_rows(head, DIM):
        return DIM
    whole = [dim for dim in COMMON_DIMS if source.size % dim == 0]
    likely = [dim for dim in whole if _unit_rows(head, dim)]
    known = ", ".join(map(str, likely or whole))
    example = likely[0] if likely else DIM if DIM in whole or not whole else whole[-1]
    why = "whose rows are of unit length" if likely else "by the size alone"
    raise AmbiguousFormat(
        f"nothing beside the file tells its dimension, and rows of {DIM} values, the document's, are not of unit length",
        field="shape",
        found=f"{source.size} bytes: {known} fit, {why}" if known else f"{source.size} bytes",
        remedy=f"say it: info, verify and convert take --dim {example} (in Python dim={example})",
    )


def _unit_rows(head: bytes, dim: int) -> bool:
    """Whether most rows at the start of a file, read as ``dim`` values each, are of unit length after decoding."""
    rows = len(head) // dim
    codes = np.frombuffer(head, np.int8, rows * dim).reshape(rows, dim).astype(np.int32)
    norms = np.sqrt(np.einsum("ij,ij->i", codes, codes)) / 127
    return bool(rows) and bool(2 * np.count_nonzero((norms >= NORM_MIN) & (norms <= NORM_MAX)) > rows)


def _whole_rows(source: Source, dim: int, lenient: bool) -> tuple[int, int]:
    rows, rest = divmod(source.size, dim)
    if rest and not lenient:
        raise Truncated(
            f"the file is not a whole number of {dim}-dimensional rows",
            offset=rows * dim,
            field="codes",
            expected=f"a multiple of {dim} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again, or say another dimension: info, verify and convert take --dim (dim=)",
        )
    return rows, dim


def _has_header(head: bytes, size: int) -> bool:
    """Whether the bins family's header explains the file: exactly, or as one that was cut short."""
    for half in (4, 8):
        if len(head) >= 2 * half:
            n, d = int.from_bytes(head[:half], "little"), int.from_bytes(head[half : 2 * half], "little")
            if 2 * half + n * d == size or (1 <= d <= 65536 and size < 2 * half + n * d <= 1000 * size):
                return True
    return False


def _sibling_meta(source: Source) -> Source | None:
    """The export's meta.json, where it lies beside the file and speaks of quantization."""
    meta = source.sibling(META)
    if meta is None:
        return None
    if b'"quantization"' in meta.read_at(0, 4096):
        return meta
    meta.close()
    return None


def _meta_shape(meta: Source) -> tuple[int, int]:
    """The shape of a meta.json: from its head, where exports put it, else by parsing it whole."""
    found = _SHAPE.search(meta.read_at(0, 4096).split(b'"records"')[0])
    if found:
        return _shape_in({"shape": [int(found[1]), int(found[2])]}, meta.label)
    return _shape_in(parse_json(meta.read_at(0, meta.size), path=meta.label, field=META), meta.label)


def _shape_in(value: Any, label: str) -> tuple[int, int]:
    shape = value.get("shape") if isinstance(value, dict) else None
    whole = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)
    if not whole or not isinstance(shape, list) or shape[0] < 0 or not 1 <= shape[1] <= MAX_DIM:
        raise Corrupt("the shape is not one", path=label, field="shape", expected="[rows, dim]", found=str(shape)[:60])
    return shape[0], shape[1]


def read_meta(source: Source, rows: int | None = None) -> dict[str, Any]:
    """A meta.json, checked for what loading needs: dtype, scale and as many records as rows."""
    meta = parse_json(source.read_at(0, source.size), path=source.label, field=META)
    quantization = meta.get("quantization") if isinstance(meta, dict) else None
    dtype = quantization.get("dtype") if isinstance(quantization, dict) else None
    if dtype != "int8":
        raise Corrupt(f"Unsupported quantization dtype: {dtype}. Expected int8. {REEXPORT}", path=source.label)
    assert isinstance(quantization, dict)
    if quantization.get("scale_factor") != 127:
        raise Corrupt(f"Unsupported scale_factor: {quantization.get('scale_factor')}. Expected 127.", path=source.label)
    expected = _shape_in(meta, source.label)[0] if rows is None else rows
    records = meta.get("records")
    count = len(records) if isinstance(records, list) else 0
    if count != expected:
        raise Corrupt(
            f"Metadata count mismatch: expected {expected} records, got {count}. {REEXPORT}", path=source.label
        )
    if not all(isinstance(record, dict) for record in records or []):
        raise Corrupt("a record is not a JSON object", path=source.label, field="records")
    return dict(meta)


def _code_blocks(source: Source, rows: int, dim: int) -> Iterator[tuple[Codes, int]]:
    step = max(1, (4 << 20) // dim)
    for start in range(0, rows, step):
        codes = np.empty((min(step, rows - start), dim), np.int8)
        source.read_into(start * dim, codes)
        yield codes, start


def _check_meta(collection: Collection) -> Iterator[Finding]:
    if isinstance(collection.records, MetaRecords):
        try:
            read_meta(collection.records.source, collection.rows)
        except FormatError as error:
            yield Finding.of(error)


def _manifest_hash(source: Source) -> str | None:
    """The hash that the export's manifest states, where there is one."""
    manifest = source.sibling(MANIFEST) if source.name == MAIN else None
    if manifest is None:
        return None
    with manifest:
        claimed = parse_json(manifest.read_at(0, manifest.size), path=manifest.label, field=MANIFEST)
    said = claimed.get("file_hash") if isinstance(claimed, dict) else None
    return said if isinstance(said, str) else None


def _check_manifest(source: Source) -> Iterator[Finding]:
    try:
        said = _manifest_hash(source)
    except FormatError as error:
        yield Finding.of(error)
        return
    if said is None:
        return
    digest = hashlib.sha256()
    for at in range(0, source.size, 1 << 20):
        digest.update(source.read_at(at, 1 << 20))
    if said.removeprefix("sha256:").lower() != digest.hexdigest():
        message = (
            f"Embedding file hash mismatch: the manifest says {said}, the file has {digest.hexdigest()}. {REEXPORT}"
        )
        yield Finding("error", message, field="file_hash")


FORMAT = I8bin()
