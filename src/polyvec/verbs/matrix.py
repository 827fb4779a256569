"""What each format holds, and what a conversion between two of them keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from polyvec import formats
from polyvec.core.dtypes import named
from polyvec.core.format import Format
from polyvec.core.options import Option


def list_formats() -> list[dict[str, Any]]:
    """Every format: name, title, suffixes, aliases (with the variant of each), what it holds, and the options it is read and written by."""
    return [
        {
            "name": f.name,
            "title": f.title,
            "suffixes": list(f.suffixes),
            "aliases": dict(f.aliases),
            "writable": f.writable,
            "extra": f.extra,
            **asdict(f.holds),
            "dtypes": None if f.holds.dtypes is None else [dtype.name for dtype in f.holds.dtypes],
            "dtypes_named": named(f.holds.dtypes),
            "reading": [_option(option) for option in f.reading],
            "options": [_option(option) for option in f.options if f.writable],
        }
        for f in formats.all_formats()
    ]


def _option(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "kind": option.kind.__name__,
        "help": option.help,
        "choices": list(option.choices),
        "default": option.default,
    }


def conversion_matrix() -> dict[str, dict[str, str]]:
    """For each source and target: exact, sidecar, column, lossy, own, or - where it cannot be."""
    every = formats.all_formats()
    return {a.name: {b.name: pair(a, b) for b in every} for a in every}


def pair(source: Format, target: Format) -> str:
    """What converting a source that uses all its format holds into the target keeps, in one word."""
    if not target.writable:
        return "-"
    have, can = source.holds, target.holds
    if can.own_columns and source.name != target.name:
        return "own"
    if "raw" not in can.encodings and source.name != target.name:
        return "lossy"
    if have.many_columns and not can.many_columns:
        return "column"
    short = any(getattr(have, what) and not getattr(can, what) for what in ("vocab", "records", "ids", "metadata"))
    return "sidecar" if short else "exact"
