"""Text to vectors: the embedder's own API over a `.weights` file.

>>> from polyvec.embedder import cosine_similarity, normalize
>>> import numpy as np
>>> round(float(cosine_similarity(np.array([1.0, 0.0]), np.array([1.0, 1.0]))), 4)
0.7071
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.model.encoder import Embedder
from polyvec.model.pooling import normalize
from polyvec.model.tokenizer import Tokenizer

__all__ = ["Embedder", "Tokenizer", "cosine_similarity", "find_similar", "normalize"]


def cosine_similarity(one: NDArray[Any], other: NDArray[Any]) -> Any:
    """Cosines of two vectors (a number), of a vector and rows, or of rows and rows ([rows, rows])."""
    return normalize(np.asarray(one)) @ normalize(np.asarray(other)).T


def find_similar(query: NDArray[Any], corpus: NDArray[Any], top_k: int = 5) -> list[tuple[int, float]]:
    """Rows of the corpus nearest to the query by cosine, best first, as (row, cosine); ties by row.

    >>> find_similar(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [2.0, 0.0]]), top_k=1)
    [(1, 1.0)]
    """
    if top_k < 1:
        raise InputError(f"top_k must be at least 1, not {top_k}")
    rows = np.asarray(corpus)
    if rows.ndim != 2 or np.ndim(query) != 1 or rows.shape[1] != len(query):
        raise InputError(f"expected a query [dim] and a corpus [rows, dim], not {np.shape(query)} and {rows.shape}")
    scores = cosine_similarity(rows, query)
    best = np.lexsort((np.arange(len(scores)), -scores))[:top_k]
    return [(int(row), float(scores[row])) for row in best]
