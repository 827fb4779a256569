"""One search behind every door: the same rows and the same query have the same scores, bit for bit, wherever they are asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import finalfusion
from polyvec.cli import run
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.vocab import Vocab
from polyvec.kernels import available_paths, use_path
from polyvec.neighbors.held import HeldRows
from polyvec.neighbors.index import Index
from polyvec.neighbors.metric import NAMES
from polyvec.neighbors.scan import Scan

PATHS = sorted({*available_paths(), "numpy"})
DIMS = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 300, 768, 1024]
DTYPES = ["float32", "float16", "float64", "int8"]
ROWS, K = 300, 12
GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"


def make(dtype, dim):
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((ROWS, dim)) * rng.choice([1e-4, 1, 30], (ROWS, 1))
    if dtype == "int8":
        rows = np.clip(rows * 9, -127, 127)
    rows = rows.astype(dtype)
    rows[17], rows[40], rows[41] = 0, rows[7], rows[7] * (1 if dtype == "int8" else 2)
    rows[7, 0] = rows[7, 0] or 1
    asked = rng.standard_normal((6, dim))
    asked[0], asked[1] = rows[7], asked[1].astype(np.float32)
    return rows, asked


def named(rows):
    """A collection of words in the order of their rows, so that equal scores are told in one order everywhere."""
    words = [f"w{row:04d}" for row in range(len(rows))]
    return Collection({"vectors": ArrayColumn("vectors", rows)}, vocab=Vocab(words))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_door_gives_the_bits_of_search(dtype, path):
    for dim in DIMS:
        rows, asked = make(dtype, dim)
        collection = named(rows)
        with use_path(path):
            model = finalfusion.Embeddings(collection)
            index = Index.build(rows)
            for metric in NAMES:
                many = pv.search(collection, asked, K, metric)
                for j, query in enumerate(asked):
                    one = pv.search(rows, query, K, metric)
                    held = HeldRows(rows, NAMES[metric]).nearest(query, K)
                    told = index.search(query, K, metric)
                    scan = Scan(query, k=K, metric=metric)
                    scan.feed(rows)
                    for found, scores in [
                        (one.rows[0], one.scores[0]),
                        (held[0][:K], held[1][:K]),
                        (told.rows[0], told.scores[0]),
                        [part[0] for part in scan.result()],
                    ]:
                        assert found.tolist() == many.rows[j].tolist()
                        assert scores.tolist() == many.scores[j].tolist()
            cosine = pv.search(collection, asked, K, "cosine")
            similar = model.similar_many(list(asked), K)
            for j, query in enumerate(asked):
                assert [hit.similarity for hit in similar[j]] == cosine.scores[j].tolist()
                assert model.similar(query, K) == similar[j]
            by_word = model.similar("w0007", K, skip=())
            assert [hit.similarity for hit in by_word] == cosine.scores[0].tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_server_gives_the_bits_of_search(dtype):
    pytest.importorskip("starlette")
    from polyvec.web.served import ServedCollection

    for dim in (2, 17, 300):
        rows, asked = make(dtype, dim)
        served = ServedCollection(named(rows), embed=lambda text, asked=asked: asked[len(text)])
        for query, hits in [(rows[7], served.search(row=7, k=K)), (asked[3], served.search(text="abc", k=K))]:
            wanted = pv.search(rows, query.astype(np.float64), K, "cosine")
            assert [hit["row"] for hit in hits] == wanted.rows[0].tolist()
            assert [hit["score"] for hit in hits] == wanted.scores[0].tolist()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["pq_proj0_norms0", "pq_proj0_norms1", "pq_proj1_norms0", "pq_proj1_norms1"])
def test_product_codes_have_the_scores_of_their_rows(name, path):
    file = GOLDEN / f"{name}.fifu"
    with use_path(path), finalfusion.load(file) as model, pv.open(file) as collection:
        for word in list(model.vocab)[:5]:
            query = model.embedding(word)
            wanted = pv.search(collection, query, 5, "cosine")
            assert [hit.similarity for hit in model.similar(query, 5)] == wanted.scores[0].tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_commands_similar_and_search_print_the_same_bits(dtype, tmp_path, capfd):
    rows, _ = make(dtype, 33)
    pv.write(tmp_path / "rows.npy", named(rows))
    printed = []
    for line in (["similar", "w0007", "-k", "300"], ["search", "--word", "w0007", "--k", "300", "--metric", "cosine"]):
        assert run([line[0], str(tmp_path / "rows.npy"), *line[1:], "--json"]) == 0
        printed.append(json.loads(capfd.readouterr().out))
    ((similar,), search) = printed
    scores = dict(zip(search["rows"][0], search["scores"][0]))
    assert len(similar["hits"]) == 299
    assert {int(hit["word"][1:]): hit["similarity"] for hit in similar["hits"]} == {
        r: s for r, s in scores.items() if r != 7
    }
