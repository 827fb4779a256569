"""Hypothesis strategies: arrays as embedding files hold them, and whole collections. Needs hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyvec.core.collection import Collection
from polyvec.core.format import Holds

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

DTYPES = ("<f2", "<f4", "<f8", "|i1", "|u1", "<i4", "<u4")


def _hypothesis() -> Any:
    from hypothesis import strategies

    return strategies


def arrays(
    dtype: Any = np.float32,
    *,
    max_rows: int = 9,
    max_dim: int = 7,
    min_rows: int = 0,
    finite: bool = True,
    bound: float | None = None,
) -> SearchStrategy[Any]:
    """Two-dimensional arrays of any values: zeros of both signs, subnormals, extremes, NaN unless ``finite``.

    ``bound`` keeps floats within ±bound.
    """
    st = _hypothesis()
    from hypothesis.extra import numpy as hnp

    kind = np.dtype(dtype)
    elements: Any = None
    if kind.kind == "f":
        limits: dict[str, Any] = {}
        if bound is not None:
            limits = {"min_value": -float(kind.type(bound)), "max_value": float(kind.type(bound))}
        elements = hnp.from_dtype(kind, allow_nan=not finite, allow_infinity=not finite and bound is None, **limits)
    shapes = st.tuples(st.integers(min_rows, max_rows), st.integers(1, max_dim))
    made: SearchStrategy[Any] = hnp.arrays(kind, shapes, elements=elements)
    return made


def words(rows: int) -> SearchStrategy[list[str]]:
    """One word a row: empty ones, line breaks and every plane of Unicode among them."""
    st = _hypothesis()
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    made: SearchStrategy[list[str]] = st.lists(text, min_size=rows, max_size=rows)
    return made


def records(rows: int) -> SearchStrategy[list[dict[str, Any]]]:
    """One small mapping a row; keys differ from row to row."""
    st = _hypothesis()
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    value = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), text)
    made: SearchStrategy[list[dict[str, Any]]] = st.lists(
        st.dictionaries(text, value, max_size=3), min_size=rows, max_size=rows
    )
    return made


def collections(
    holds: Holds | None = None, *, dtype: Any = None, finite: bool = True, **shape: int
) -> SearchStrategy[Collection]:
    """Collections in memory, with all that ``holds`` allows (None: everything but further columns)."""
    st = _hypothesis()
    allowed = holds or Holds(vocab=True, records=True, ids=True, metadata=True)

    def maybe(yes: bool, strategy: Any) -> Any:
        return st.one_of(st.none(), strategy) if yes else st.none()

    def complete(array: Any) -> Any:
        rows = len(array)
        integers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rows, max_size=rows)
        metadata = st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), st.integers(-9, 9), max_size=2
        )
        return st.builds(
            lambda vocab, found, ids, about: Collection.from_arrays(
                array, vocab=vocab, records=found, ids=ids if ids else None, metadata=about or {}
            ),
            maybe(allowed.vocab, words(rows)),
            maybe(allowed.records, records(rows)),
            maybe(allowed.ids, integers),
            maybe(allowed.metadata, metadata),
        )

    kinds = st.sampled_from(DTYPES) if dtype is None else st.just(dtype)
    made: SearchStrategy[Collection] = kinds.flatmap(
        lambda kind: arrays(kind, finite=finite, **shape).flatmap(complete)
    )
    return made
