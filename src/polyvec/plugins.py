"""What a format from outside is written with: the names here are kept stable for it (docs/adding-a-format.md).

A package names its format in the entry-point group ``polyvec.formats``, or a program hands it to
`polyvec.register_format`. `polyvec.testing` has the suite of tests that every format inherits.
"""

from __future__ import annotations

from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw, SymmetricInt8, transcode
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Block, Codec, Extent, Part
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column, FileColumn, ReaderColumn
from polyvec.core.errors import Corrupt, FormatError, InputError, MissingExtra, Truncated, Unsupported
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Cursor, Record, Span, take
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json
from polyvec.core.vocab import Vocab
from polyvec.formats import register_format

__all__ = [
    "AffineUint8",
    "ArrayColumn",
    "BFloat16",
    "Block",
    "Codec",
    "Collection",
    "Column",
    "Confidence",
    "Corrupt",
    "Cursor",
    "Extent",
    "FileColumn",
    "Finding",
    "Float16",
    "Format",
    "FormatError",
    "Holds",
    "InputError",
    "Match",
    "MissingExtra",
    "Option",
    "Part",
    "Peek",
    "Raw",
    "ReaderColumn",
    "Record",
    "Sink",
    "Source",
    "Span",
    "SymmetricInt8",
    "Truncated",
    "Unsupported",
    "Vocab",
    "WriteOptions",
    "check_rows",
    "parse_json",
    "register_format",
    "take",
    "transcode",
    "write_rows",
]
