"""The words nearest to vectors: cosine, ties by name, room for what is left out, queries that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec import finalfusion
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.core.vocab import Vocab
from polyvec.words.nearest import NearestWords, combined
from polyvec.words.storage import Storage

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"


def model_of(rows: np.ndarray, words: list[str]) -> finalfusion.Embeddings:
    return finalfusion.Embeddings(Collection.from_arrays(rows, vocab=words))


def test_similarity_is_the_cosine_even_where_rows_are_not_unit() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 16)).astype(np.float32) * rng.random((200, 1)).astype(np.float32)
    model = model_of(rows, [f"w{i:03}" for i in range(200)])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    query = rng.standard_normal(16)
    scores = unit @ (query / np.linalg.norm(query))
    hits = model.similar(query, 7)
    assert [hit.word for hit in hits] == [f"w{i:03}" for i in np.argsort(-scores)[:7]]
    angular = model.similar(query, 7, metric="angular")
    assert [h.word for h in angular] == [h.word for h in hits]
    assert angular[0].similarity == pytest.approx(1 - np.arccos(hits[0].similarity) / np.pi)
    batch = model.similar_many([query, "w005"], 7)
    assert batch[0] == hits and batch[1] == model.similar("w005", 7)


def test_ties_come_by_name_and_skipped_words_make_room() -> None:
    model = model_of(np.tile(np.eye(2, dtype=np.float32)[0], (5, 1)), ["e", "b", "d", "a", "c"])
    assert [hit.word for hit in model.similar("a", 2)] == ["b", "c"]
    assert [hit.word for hit in model.similar("a", 9)] == ["b", "c", "d", "e"]
    assert [hit.word for hit in model.similar("a", 2, skip=())] == ["a", "b"]
    assert [hit.word for hit in model.similar(np.array([1.0, 0]), 2, skip={"a", "b"})] == ["c", "d"]


@pytest.mark.parametrize("query", [np.zeros(10), np.full(10, np.nan), np.zeros(3)])
def test_a_query_without_direction_is_refused(query: np.ndarray) -> None:
    with pytest.raises(InputError):
        finalfusion.load(GOLDEN / "simple.fifu").similar(query)


def words_of(rows: np.ndarray, words: list[str]) -> NearestWords:
    return NearestWords(Vocab(words), Storage(ArrayColumn("vectors", rows), mmap=True))


def test_each_vector_has_its_own_words_left_out() -> None:
    nearest = words_of(np.eye(3, dtype=np.float32), ["a", "b", "c"])
    query = np.array([3.0, 2, 1])
    found = nearest.find([query, query, query], 1, [(), {"a"}, {"a", "b"}], "cosine")
    assert [[hit.word for hit in hits] for hits in found] == [["a"], ["b"], ["c"]]
    assert found[2][0].similarity == pytest.approx(1 / np.sqrt(14))


@pytest.mark.parametrize("score", [1, -1])
def test_the_angular_similarity_stays_between_0_and_1_at_its_ends(score: int) -> None:
    rows = np.array([[0.1, 0.3, 0.7]], np.float32)
    (hits,) = words_of(rows, ["a"]).find([rows[0].astype(np.float64) * score / 3], 1, [()], "angular")
    assert 0 <= hits[0].similarity <= 1 and hits[0].similarity == pytest.approx((1 + score) / 2, abs=1e-6)


def test_no_queries_no_words_and_no_k_find_nothing() -> None:
    nearest = words_of(np.eye(2, dtype=np.float32), ["a", "b"])
    assert nearest.find([], 3, [], "cosine") == []
    assert nearest.find([np.ones(2)], 0, [()], "cosine") == [[]]
    assert words_of(np.empty((0, 2), np.float32), []).find([np.ones(2)], 3, [()], "cosine") == [[]]


@pytest.mark.parametrize(
    ("vector", "k", "metric", "says"),
    [
        (np.ones(2), 1, "l2", "unknown metric 'l2'; there are cosine, angular"),
        (np.ones(2), -1, "cosine", "k must not be negative, and is -1"),
        (np.ones(3), 1, "cosine", r"a query has 2 values, not shape \(3,\)"),
        (np.ones((1, 2)), 1, "cosine", r"a query has 2 values, not shape \(1, 2\)"),
        (np.array([1, np.inf]), 1, "cosine", "is similar to nothing"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(vector: np.ndarray, k: int, metric: str, says: str) -> None:
    with pytest.raises(InputError, match=f"^{says}$" if "shape" in says else says):
        words_of(np.eye(2, dtype=np.float32), ["a", "b"]).find([vector], k, [()], metric)


def test_an_analogy_is_added_in_float64_and_made_unit() -> None:
    a, b, c = (np.array(values, np.float32) for values in ([3e38, 0], [-3e38, 1e38], [3e38, 0]))
    one = combined(a, b, c)
    assert one.shape == (2,) and np.allclose(one, np.array([-3, 1]) / np.sqrt(10), atol=1e-6)
    many = combined(*(np.stack([v, v * np.float32(1e-40)]) for v in (a, b, c)))
    assert many.shape == (2, 2) and many[0].tobytes() == one.tobytes()
    assert np.allclose(many[1], one, atol=1e-4)
