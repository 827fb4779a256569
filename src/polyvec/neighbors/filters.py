"""Filters: which rows take part in a search, by the fields of their records, a predicate or a mask.

A field matches where its value equals the wanted one as JSON knows them: numbers by value (2 is 2.0), true and false
are no numbers, null is a missing field as well. A command line has only text, which may spell any of these: `Spelled`.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import shown
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.plain import as_text, stored
from polyvec.core.records import Filter, Records

Where = Mapping[str, Any] | Filter | NDArray[np.bool_]
Mask = Callable[[int, int], NDArray[np.bool_]]

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
SEVERAL = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A wanted value as text: the text itself, a number, true or false in any case, or null (nothing at all, too)."""

    text: str

    def __str__(self) -> str:
        return self.text

    def matches(self, found: Any) -> bool:
        """Whether it spells this value of a record."""
        if _missing(found):
            return self.text.lower() in ("", "null") or (found is not None and self.text.lower() == "nan")
        if isinstance(found, bool):
            return self.text.lower() == ("true" if found else "false")
        if isinstance(found, (int, float, decimal.Decimal)) and NUMBER.fullmatch(self.text):
            # A float is what its decimals round to; whole numbers and decimals are compared exactly.
            return bool(found == (float(self.text) if isinstance(found, float) else decimal.Decimal(self.text)))
        if isinstance(found, (list, Mapping)) and self.text[:1] in ("[", "{"):
            try:
                return bool(json.loads(self.text) == found)
            except ValueError:
                return False
        return str(found) == self.text


def same(found: Any, wanted: Any) -> bool:
    """Whether a record's value is the wanted one; several wanted values mean any of them.

    Text given in Python is text, and matches what prints as it.
    """
    if isinstance(wanted, SEVERAL):
        return any(same(found, one) for one in wanted)
    found, wanted = stored_scalar(found), stored_scalar(wanted)
    if isinstance(wanted, Spelled):
        return wanted.matches(found)
    if _missing(wanted) or _missing(found):
        return _missing(wanted) and _missing(found)
    if isinstance(found, bool) is not isinstance(wanted, bool) and not isinstance(wanted, str):
        return False
    return bool(found == wanted) or (isinstance(wanted, str) and str(found) == wanted)


def stored_scalar(value: Any) -> Any:
    """NumPy's values as Python's; all others as they are."""
    return stored(value) if isinstance(value, np.generic) else value


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def make_mask(collection: Collection, where: Where | None) -> Mask | None:
    """A filter as a function of a range of rows: fields and their values, a predicate of a record, or a mask."""
    if where is None:
        return None
    if isinstance(where, np.ndarray):
        if where.shape != (collection.rows,) or where.dtype != bool:
            raise InputError(f"a mask must hold one bool a row ({collection.rows}), not {where.shape} of {where.dtype}")
        given = where
        return lambda start, stop: given[start:stop]
    if not (isinstance(where, Mapping) or callable(where)):
        raise InputError(f"where must be a mapping of fields to values, a predicate or a mask, not {shown(where)}")
    records = collection.records
    if records is None:
        raise InputError("a filter needs records, and the collection has none")
    if isinstance(where, Mapping):
        wanted = dict(where)
        _check_fields(records, set(wanted))

        def test(record: Mapping[str, Any]) -> bool:
            return all(same(record.get(name), value) for name, value in wanted.items())
    else:
        test = where  # type: ignore[assignment]
    found = records
    return lambda start, stop: np.fromiter((bool(test(r)) for r in found.iterate(start, stop)), bool, stop - start)


def _check_fields(records: Records, names: set[str]) -> None:
    """`InputError` for a field that no record has. Records need not agree: a later one may have what the first lacks."""
    unknown = names.difference(records.fields)
    if not unknown or not len(records):
        return
    for record in records.iterate(0, len(records)):
        unknown.difference_update(record)
        if not unknown:
            return
    raise InputError(f"records have no field {min(unknown)!r}; the first record has {', '.join(records.fields)}")


def shortage(where: Where, passed: int, k: int) -> tuple[str, ...]:
    """What is to be said where fewer rows than k passed a filter; nothing where enough did."""
    if passed >= k:
        return ()
    told = _told(where) if isinstance(where, Mapping) else None
    if not passed:
        return (f"no record has {told}" if told else "no row passed the filter",)
    return (f"only {passed} of the {k} rows asked for passed the filter{f' {told}' if told else ''}",)


def _told(wanted: Mapping[str, Any]) -> str:
    """The fields and values of a filter in words: ``lang=en and year=1999 or 2000``."""
    said = []
    for name, value in wanted.items():
        several = list(value) if isinstance(value, SEVERAL) else [value]
        said.append(f"{name}={' or '.join('null' if one is None else _shown(one) for one in several)}")
    return " and ".join(said)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Spelled) else as_text(stored_scalar(value))
