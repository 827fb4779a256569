"""The options that `write` and its kin take: their types for editors and checkers, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from polyvec import formats
from polyvec.core import signatures
from polyvec.core.arguments import check_flags, check_texts, joined, shown, whole
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.options import names, near
from polyvec.core.progress import check_progress
from polyvec.core.signatures import Function
from polyvec.core.targets import Together
from polyvec.formats.options import OtherOptions, OwnOptions, PartsOption, ReadingOptions, SeedOption

ENCODINGS = ("raw", "float16", "bfloat16", "int8", "pq", "lossless")


class RoadOptions(TypedDict, total=False):
    """How a file is written, whatever it holds."""

    column: str | None  # one of several
    sidecar: bool  # keep beside the file what it cannot hold
    overwrite: bool  # replace a file that is there
    durable: bool  # on the disk, and not only in its cache, when the call returns
    sha256: bool  # the file's digest in the receipt
    dry_run: bool  # write nothing, say what would be written
    measure: bool  # the loss in the receipt
    check_space: bool  # refuse to start where the disk is too small
    chunk_rows: int | None  # rows between two calls of progress, and rows of a chunk in formats that have them
    progress: Progress | bool | None  # a callback(rows done, rows in all), or True for a bar
    options: Mapping[str, Any] | None  # further options by name: those of formats from outside, say


class CommonOptions(RoadOptions, total=False):
    """What every verb that writes a file takes, whatever the format."""

    encoding: str | None  # another than the source's: one of ENCODINGS
    format: str | None  # of the target, where its suffix does not say


class WritingOptions(CommonOptions, OwnOptions, total=False):
    """What `write` takes."""


class ConvertingOptions(WritingOptions, ReadingOptions, total=False):
    """What verbs take that read a file and write one."""


class SplittingOptions(CommonOptions, OtherOptions, SeedOption, ReadingOptions, total=False):
    """`ConvertingOptions` without ``parts``, which `split` means otherwise."""


class SamplingOptions(CommonOptions, OtherOptions, PartsOption, ReadingOptions, total=False):
    """`ConvertingOptions` without ``seed``, which `sample` means otherwise."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How `write` and its kin go about it; `CommonOptions` says what each is."""

    encoding: str | None = None
    format: str | None = None
    column: str | None = None
    sidecar: bool = True
    overwrite: bool = True
    durable: bool = True
    sha256: bool = False
    dry_run: bool = False
    measure: bool = True
    check_space: bool = True
    chunk_rows: int | None = None
    progress: Progress | bool | None = None
    together: Together | None = None  # the file appears when the others of this set do
    working: bool = False  # a part of unfinished work, and no output
    own: Mapping[str, Any] = field(default_factory=dict)


COMMON = tuple(name for name in CommonOptions.__annotations__ if name != "options")
DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Writing) if f.name in COMMON}


def gather(options: Mapping[str, Any]) -> Writing:
    """Options as given to a verb, checked; what is not a common one belongs to a format."""
    given = joined({name: value for name, value in options.items() if name != "options"}, options.get("options"))
    common = {name: value for name, value in given.items() if name in COMMON}
    own = {name: value for name, value in given.items() if name not in COMMON}
    _refuse_unknown(own)
    writing = Writing(**common, own=own)
    check_texts(format=writing.format, column=writing.column)
    check_flags(**{name: getattr(writing, name) for name, default in DEFAULTS.items() if isinstance(default, bool)})
    check_progress(writing.progress)
    asked = writing.encoding
    if asked is not None and asked not in ENCODINGS:
        raise InputError(
            f"unknown encoding {shown(asked)}; there are {', '.join(ENCODINGS)}"
            + (near(asked, ENCODINGS) if isinstance(asked, str) else "")
        )
    if writing.chunk_rows is not None and whole("chunk_rows", writing.chunk_rows) < 1:
        raise InputError(f"chunk size must be at least 1 row, not {writing.chunk_rows}")
    if writing.format is not None:
        formats.find_format(writing.format)
    return writing


def _refuse_unknown(own: Mapping[str, Any]) -> None:
    """`InputError` for options that no format has, whichever it will be: told before anything is opened."""
    if not own:
        return
    known = {name for format in formats.all_formats() for name in names((*format.options, *format.reading))}
    for name in own:
        if name not in known:
            meant = near(name, {*known, *COMMON}) or "; polyvec formats lists them all"
            raise InputError(f"no format has an option {name!r}{meant}")


def shows_options(kind: type[Any], defaults: Mapping[str, Any] = DEFAULTS) -> Callable[[Function], Function]:
    """`polyvec.core.signatures.shows_options` with the defaults of a `Writing`."""
    return signatures.shows_options(kind, {"options": None, **defaults})
