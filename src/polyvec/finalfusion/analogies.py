"""Question files: how many analogies a model answers rightly, section by section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from polyvec.core.errors import InputError
from polyvec.finalfusion.embeddings import Embeddings
from polyvec.words.nearest import combined


class Section(NamedTuple):
    """The analogies of one section of a question file: answered, skipped for a missing word, and right."""

    name: str
    asked: int
    skipped: int
    correct: int

    @property
    def accuracy(self) -> float:
        """The share of answered questions that are right; NaN where none could be answered."""
        return self.correct / self.asked if self.asked else float("nan")


def accuracy(model: Embeddings, questions: Iterable[str], *, batch: int = 256) -> list[Section]:
    """Answer a question file: lines ``a b c d`` (a is to b as c is to d) under lines ``: section``.

    Questions with a word that has no vector are skipped. The nearest word but a, b and c must be d.
    """
    counts: dict[str, list[int]] = {}
    waiting: list[tuple[str, list[str]]] = []

    def answer() -> None:
        vectors = model.embeddings([word for _, words in waiting for word in words[:3]]).reshape(len(waiting), 3, -1)
        queries = combined(vectors[:, 0], vectors[:, 1], vectors[:, 2])
        found = model.similar_many(list(queries), 1, skip=[set(words[:3]) for _, words in waiting])
        for (name, words), hits in zip(waiting, found):
            counts[name][2] += bool(hits) and hits[0].word == words[3]
        waiting.clear()

    name = ""
    for number, line in enumerate(questions, 1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(":"):
            name = " ".join(fields)[1:].strip()
            continue
        if len(fields) != 4:
            raise InputError(f"line {number} of the questions has {len(fields)} words; expected 4, or ': section'")
        section = counts.setdefault(name, [0, 0, 0])
        known = [model.embedding(word, default=None) is not None for word in fields]
        if not all(known[:3]) or fields[3] not in model:
            section[1] += 1
            continue
        section[0] += 1
        waiting.append((name, fields))
        if len(waiting) == batch:
            answer()
    if waiting:
        answer()
    return [Section(name, *values) for name, values in counts.items()]
