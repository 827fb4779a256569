"""Open, check, convert, shrink and search any embedding file, and know exactly what you lost.

>>> import numpy as np, polyvec as pv
>>> receipt = pv.write("vectors.fbin", np.eye(4, dtype=np.float32))
>>> with pv.open("vectors.fbin") as c:
...     c.format, c.rows, c.dim, c.vectors[1]
('bins', 4, 4, array([0., 1., 0., 0.], dtype=float32))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyvec.core.providers import provide

__version__ = "0.1.0"

if TYPE_CHECKING:
    from polyvec.core.blocks import Block as Block
    from polyvec.core.blocks import Codec as Codec
    from polyvec.core.blocks import Extent as Extent
    from polyvec.core.collection import Collection as Collection
    from polyvec.core.columns import Column as Column
    from polyvec.core.errors import AmbiguousFormat as AmbiguousFormat
    from polyvec.core.errors import Cancelled as Cancelled
    from polyvec.core.errors import Corrupt as Corrupt
    from polyvec.core.errors import DeviceError as DeviceError
    from polyvec.core.errors import DeviceWarning as DeviceWarning
    from polyvec.core.errors import FormatError as FormatError
    from polyvec.core.errors import FormatWarning as FormatWarning
    from polyvec.core.errors import InputError as InputError
    from polyvec.core.errors import LossyConversion as LossyConversion
    from polyvec.core.errors import MissingExtra as MissingExtra
    from polyvec.core.errors import PolyvecError as PolyvecError
    from polyvec.core.errors import Replaced as Replaced
    from polyvec.core.errors import SizeMismatchWarning as SizeMismatchWarning
    from polyvec.core.errors import Truncated as Truncated
    from polyvec.core.errors import UnknownFormat as UnknownFormat
    from polyvec.core.errors import UnknownWord as UnknownWord
    from polyvec.core.errors import Unsupported as Unsupported
    from polyvec.core.format import Confidence as Confidence
    from polyvec.core.format import Finding as Finding
    from polyvec.core.format import Format as Format
    from polyvec.core.format import Holds as Holds
    from polyvec.core.format import Match as Match
    from polyvec.core.format import Peek as Peek
    from polyvec.core.format import WriteOptions as WriteOptions
    from polyvec.core.options import Option as Option
    from polyvec.core.sinks import Sink as Sink
    from polyvec.core.sources import Source as Source
    from polyvec.core.sources import open_source as open_source
    from polyvec.core.targets import open_sink as open_sink
    from polyvec.core.vocab import Vocab as Vocab
    from polyvec.formats import open as open
    from polyvec.formats import register_format as register_format
    from polyvec.neighbors.index import Index as Index
    from polyvec.neighbors.search import Hits as Hits
    from polyvec.neighbors.search import search as search
    from polyvec.reports.stats import stats as stats
    from polyvec.verbs.convert import convert as convert
    from polyvec.verbs.describe import Description as Description
    from polyvec.verbs.describe import describe as describe
    from polyvec.verbs.embed import embed as embed
    from polyvec.verbs.merge import merge as merge
    from polyvec.verbs.split import sample as sample
    from polyvec.verbs.split import split as split
    from polyvec.verbs.verify import Report as Report
    from polyvec.verbs.verify import verify as verify
    from polyvec.writing.receipts import Receipt as Receipt
    from polyvec.writing.write import write as write

# Where each public name lives. Loaded on first use, so that `import polyvec` and `polyvec --help` stay instant.
_HOMES = {
    "open": "formats",
    "register_format": "formats",
    "write": "writing.write",
    "convert": "verbs.convert",
    "Receipt": "writing.receipts",
    "verify": "verbs.verify",
    "Report": "verbs.verify",
    "describe": "verbs.describe",
    "Description": "verbs.describe",
    "embed": "verbs.embed",
    "merge": "verbs.merge",
    "split": "verbs.split",
    "sample": "verbs.split",
    "search": "neighbors.search",
    "Hits": "neighbors.search",
    "Index": "neighbors.index",
    "stats": "reports.stats",
    "Collection": "core.collection",
    "Column": "core.columns",
    "Block": "core.blocks",
    "Codec": "core.blocks",
    "Extent": "core.blocks",
    "Format": "core.format",
    "Confidence": "core.format",
    "Holds": "core.format",
    "Match": "core.format",
    "Peek": "core.format",
    "WriteOptions": "core.format",
    "Option": "core.options",
    "Finding": "core.format",
    "Source": "core.sources",
    "open_source": "core.sources",
    "Sink": "core.sinks",
    "open_sink": "core.targets",
    "Vocab": "core.vocab",
    "PolyvecError": "core.errors",
    "FormatError": "core.errors",
    "UnknownFormat": "core.errors",
    "UnknownWord": "core.errors",
    "AmbiguousFormat": "core.errors",
    "Truncated": "core.errors",
    "Corrupt": "core.errors",
    "Unsupported": "core.errors",
    "Replaced": "core.errors",
    "InputError": "core.errors",
    "LossyConversion": "core.errors",
    "MissingExtra": "core.errors",
    "Cancelled": "core.errors",
    "DeviceError": "core.errors",
    "DeviceWarning": "core.errors",
    "FormatWarning": "core.errors",
    "SizeMismatchWarning": "core.errors",
}

__all__ = ["__version__", *_HOMES]

provide(lambda: import_module("polyvec.gpu"))  # registers its devices when the first is asked for


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'polyvec' has no attribute {name!r}")
    value = getattr(import_module(f"polyvec.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
