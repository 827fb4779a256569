"""Batches of texts of like length under a token budget: little padding, and activations that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of the input, their ids padded to the longest, and their lengths."""

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    lengths: NDArray[np.int32]


def plan_batches(
    lengths: Sequence[int], *, budget: int, batch_size: int | None = None, whole: int | None = None
) -> list[NDArray[np.int64]]:
    """Rows of each batch, longest texts first; a batch holds at most ``budget`` tokens with padding, or one text.

    Texts of more than ``whole`` tokens only share a batch with texts of the same length: they fill an engine without
    company, and padding would cost more than company gives.

    >>> [rows.tolist() for rows in plan_batches([3, 9, 4, 9], budget=18)]
    [[1, 3], [2, 0]]
    >>> [rows.tolist() for rows in plan_batches([3, 9, 8, 9, 4], budget=27, whole=5)]
    [[1, 3], [2], [4, 0]]
    """
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(-sizes, kind="stable")
    descending = sizes[order]
    batches = []
    start = 0
    while start < len(order):
        longest = int(descending[start])
        count = max(1, budget // max(1, longest))
        if whole is not None and longest > whole:
            count = min(count, int(np.searchsorted(-descending, -longest, "right")) - start)
        if batch_size is not None:
            count = min(count, batch_size)
        batches.append(order[start : start + count])
        start += count
    return batches


def make_batch(rows: NDArray[np.int64], ids: Sequence[Sequence[int]], pad_id: int) -> Batch:
    """The ids of some rows as one array."""
    lengths = np.array([len(ids[row]) for row in rows], np.int32)
    padded = np.full((len(rows), int(lengths.max(initial=1))), pad_id, np.int64)
    for number, row in enumerate(rows):
        padded[number, : lengths[number]] = ids[row]
    return Batch(rows, padded, lengths)
