"""Question files: sections, what is skipped, what is right, and lines that are none."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from polyvec import finalfusion
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.finalfusion import Embeddings
from polyvec.finalfusion.analogies import Section, accuracy

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"
WORDS = ["man", "woman", "king", "queen", "boy", "girl"]
ROWS = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, -1], [1, 1, -1]], np.float32)


@pytest.fixture
def model() -> Embeddings:
    return Embeddings(Collection.from_arrays(ROWS, vocab=WORDS))


def test_the_nearest_word_but_the_three_must_be_the_fourth(model: Embeddings) -> None:
    right, wrong = "man woman king queen", "man woman king boy"
    assert accuracy(model, [right, wrong, right]) == [Section("", 3, 0, 2)]
    assert accuracy(model, [right])[0].accuracy == 1


def test_a_fourth_word_among_the_three_is_never_right(model: Embeddings) -> None:
    assert accuracy(model, ["man woman king king"]) == [Section("", 1, 0, 0)]


def test_sections_come_in_the_order_of_the_file_and_gather_what_is_apart(model: Embeddings) -> None:
    lines = [
        ": royal family\n",
        "man woman king queen\n",
        "\n",
        ":young\n",
        "man woman boy girl\n",
        ": royal   family",
        "woman man queen king",
        ": without questions",
    ]
    assert accuracy(model, lines) == [Section("royal family", 2, 0, 2), Section("young", 1, 0, 1)]


@pytest.mark.parametrize("missing", range(4))
def test_a_question_with_an_unknown_word_is_skipped(model: Embeddings, missing: int) -> None:
    words = ["man", "woman", "king", "queen"]
    words[missing] = "emperor"
    (section,) = accuracy(model, [" ".join(words)])
    assert section == Section("", 0, 1, 0) and math.isnan(section.accuracy)


@pytest.mark.parametrize("batch", [1, 2, 3, 256])
def test_the_batch_changes_no_count(model: Embeddings, batch: int) -> None:
    lines = ["man woman king queen", "man woman nobody queen", "man king woman queen", "king man queen boy", "a b c d"]
    assert accuracy(model, lines, batch=batch) == [Section("", 3, 2, 2)]


@pytest.mark.parametrize("line", ["man woman king", "man woman king queen boy"])
def test_a_line_of_another_length_is_named(model: Embeddings, line: str) -> None:
    words = len(line.split())
    with pytest.raises(InputError, match=f"^line 3 of the questions has {words} words; expected 4, or ': section'$"):
        accuracy(model, [": s", "", line])


def test_accuracy_counts_section_by_section() -> None:
    model = finalfusion.load(GOLDEN / "simple.fifu")
    right = model.analogy("Berlin", "Tübingen", "Zürich", 1)[0].word
    lines = [
        ": one",
        f"Berlin Tübingen Zürich {right}",
        "Berlin Tübingen Zürich hello",
        "",
        ": two",
        "no such words here",
    ]
    sections = finalfusion.accuracy(model, lines)
    assert [tuple(s) for s in sections] == [("one", 2, 0, 1), ("two", 0, 1, 0)]
    assert sections[0].accuracy == 0.5
    with pytest.raises(InputError, match="line 1"):
        finalfusion.accuracy(model, ["a b c"])
