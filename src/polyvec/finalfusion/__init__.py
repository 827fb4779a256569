"""finalfusion: word embeddings with subwords, as its community knows them, over any word format.

>>> import polyvec as pv, numpy as np
>>> _ = pv.write("tiny.fifu", np.eye(3, dtype=np.float32), vocab=["a", "b", "c"])
>>> from polyvec import finalfusion
>>> model = finalfusion.load("tiny.fifu")
>>> model.embedding("b"), "x" in model, [hit.word for hit in model.similar("a", k=2)]
(array([0., 1., 0.], dtype=float32), False, ['b', 'c'])
"""

from __future__ import annotations

from polyvec.finalfusion.analogies import Section, accuracy
from polyvec.finalfusion.embeddings import Embeddings, load
from polyvec.words.nearest import Hit

__all__ = ["Embeddings", "Hit", "Section", "accuracy", "load"]
