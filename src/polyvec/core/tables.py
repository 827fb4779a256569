"""What the values of a text table (CSV, TSV) are: numbers, truths or text, decided for whole columns.

A column is numbers where every value in it is one, written as numbers are: ``12``, ``-0.5``, ``1e-3``; whole numbers
where all are whole. It is true and false where every value says so. Anything else is text, and stays as it is: ``007``,
``+49``, ``1_000``, numbers with more digits than a float64 keeps, and columns where one value is something else. A
missing value (nothing between two commas) is null in a column of numbers or truths, and an empty text in one of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

RECODE = "store it as UTF-8 (of a Latin-1 file: iconv -f latin1 -t utf-8 OLD > NEW)"  # what errors advise

Value = str | int | float | bool | None

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_TRUTHS = {"true": True, "false": False}
_EXACT = 2**53  # whole numbers beyond this are ids, and readers of JSON round them
_DIGITS = 17  # that a float64 tells apart


def other_separator(names: Sequence[str], wanted_name: str, *, wanted: str = "commas") -> str | None:
    """What to do where a table's first line is one name that another separator parts into several, the wanted among them."""
    for separator, shown, way in (
        (";", "';'", ""),
        ("|", "'|'", ""),
        (",", "','", ""),
        ("\t", "a tab", ", or name it .tsv"),
    ):
        if len(names) == 1 and separator in names[0] and wanted_name in names[0].split(separator):
            return f"{shown} seems to separate the columns; write the table with {wanted}{way}"
    return None


class ColumnKind:
    """What a column is, as far as its values were seen: a few bits, however long the column is."""

    __slots__ = ("_number", "_seen", "_truth", "_whole")

    def __init__(self) -> None:
        self._seen = False
        self._whole = self._number = self._truth = True

    def see(self, value: str) -> None:
        """Take one more value into account."""
        if value == "" or not (self._number or self._truth):
            return
        self._seen = True
        self._truth = self._truth and value.lower() in _TRUTHS
        if self._number:
            self._whole = self._whole and _is_whole(value)
            self._number = self._whole or _is_number(value)

    def read(self, value: str) -> Value:
        """A value as what its column is."""
        if not self._seen or not (self._number or self._truth):
            return value
        if value == "":
            return None
        if self._truth:
            return _TRUTHS[value.lower()]
        return int(value) if self._whole else float(value)


def read_column(values: Iterable[str]) -> list[Value]:
    """A whole column as what it is."""
    values = list(values)
    kind = ColumnKind()
    for value in values:
        kind.see(value)
    return [kind.read(value) for value in values]


def _is_whole(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None and value != "-0" and not _is_id(value)


def _is_id(value: str) -> bool:
    """Whether these are more digits than a number keeps."""
    return _WHOLE.fullmatch(value) is not None and (len(value) > 17 or abs(int(value)) > _EXACT)


def _is_number(value: str) -> bool:
    found = _NUMBER.fullmatch(value)
    if found is None or _is_id(value):
        return False
    digits = value.lower().partition("e")[0].replace(".", "").lstrip("-").lstrip("0")
    return len(digits) <= _DIGITS and abs(float(value)) < 1e300  # no infinity, which JSON has not
