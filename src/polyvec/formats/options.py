"""The options that our formats have of their own, with their types: for editors and type checkers.

Each format declares the names it takes (`Format.reading`, `Format.options`); a test holds these two to all of them
together. Formats from outside have options that nobody knows here: they are given in a mapping, ``options={...}``.
"""

from __future__ import annotations

from typing import TypedDict

# Names that opening, writing and converting take themselves, whatever the format: no option of one can have them.
READERS = ("where", "format", "lenient", "sidecars", "offered", "options", "variant")
WRITERS = ("path", "data", "vocab", "records", "ids", "metadata", "column", "sidecar", "overwrite", "durable", "sha256")
MORE_WRITERS = ("dry_run", "measure", "check_space", "chunk_rows", "progress", "encoding")
CONVERTERS = ("source", "target", "inputs", "source_format", "resume", "strict")
TAKEN = frozenset((*READERS, *WRITERS, *MORE_WRITERS, *CONVERTERS))


class SharedOptions(TypedDict, total=False):
    """What is read by and written by alike."""

    dataset: str | None  # hdf5: the main one of several; when written, its name


class ReadingOptions(SharedOptions, total=False):
    """What a file does not say itself."""

    dim: int | None  # values in a row, of a headerless .i8bin and of texts whose words hold spaces
    lossy: bool  # word formats: words that are no UTF-8 are read with replacement characters
    orientation: str | None  # weights of the legacy layout: out_in or in_out


class PartsOption(TypedDict, total=False):
    """Apart, because `split` has parts of its own."""

    parts: int  # finalfusion, encoding="pq": codes a row


class SeedOption(TypedDict, total=False):
    """Apart, because `sample` has a seed of its own."""

    seed: int  # finalfusion, encoding="pq": of the training


class OtherOptions(SharedOptions, total=False):
    """How a format is to write, beyond what all formats are told."""

    allow_overflow: bool  # cvc: float16 may become infinite
    bits: int  # finalfusion, encoding="pq": of a code
    compression: str | None  # arrow, hdf5, parquet
    created_at: str | None  # weights: the time in the metadata
    dialect: str  # finalfusion: reference or document
    duplicates: str  # word formats: error, first, last or rename
    group_rows: int | None  # parquet: rows of a row group
    iterations: int  # finalfusion, encoding="pq": of the training
    layout: str | None  # cvc: document or versioned; parquet: polyvec or vectordbbench
    lengths: str | None  # word formats: the column of the lengths that rows were divided by
    mmap_optimized: bool  # cvc: aligned, so that readers may map it
    normalize: bool | None  # finalfusion, i8bin: make rows unit length
    norms: bool  # finalfusion, encoding="pq": keep the norms of the rows apart
    quantizer: str  # finalfusion, encoding="pq": pq or opq
    rounding: str  # i8bin: norm, or what `polyvec.browser` has besides
    spaces: str | None  # word texts: put in place of spaces in words
    subwords: str | None  # word texts: drop leaves the subword rows out
    type: str | None  # finalfusion: f32, f64, int8 and so on
    unnormalize: bool  # word texts: rows times their lengths, where those are known


class OwnOptions(OtherOptions, PartsOption, SeedOption, total=False):
    """All options that formats write by."""
