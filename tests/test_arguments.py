"""Arguments of the public functions: names that mean the same everywhere, and wrong ones told in one line."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.model.huggingface import export_model, import_model
from polyvec.neighbors.truth import compute_truth, write_truth
from polyvec.neighbors.truth_check import verify_truth
from polyvec.reports.quality import measure_quality
from polyvec.reports.recall import measure_recall
from polyvec.testing.atomicity import contents
from polyvec.verbs.embed import embed_corpus
from polyvec.web.publish import publish, publish_single_file

ROWS = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
IDS = np.arange(40, dtype=np.int32).reshape(4, 10)
ROOMS = ("verbs", "reports", "neighbors", "writing", "web", "model")
INNER = ("polyvec.neighbors.shadow",)  # kernels in all but name: they are told a number of threads
MEANT = {
    "progress": ("Progress | bool | None", None),
    "threads": ("int | None", None),
    "overwrite": ("bool", True),
}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, and every method of a public class, of the package and of the rooms behind it."""
    found: dict[str, Any] = {f"polyvec.{name}": getattr(pv, name) for name in pv.__all__}
    for folder in ROOMS:
        package = importlib.import_module(f"polyvec.{folder}")
        for module in pkgutil.iter_modules(package.__path__):
            loaded = importlib.import_module(f"polyvec.{folder}.{module.name}")
            if loaded.__name__ in INNER:
                continue
            for name, value in vars(loaded).items():
                if not name.startswith("_") and getattr(value, "__module__", "") == loaded.__name__:
                    found[f"{loaded.__name__}.{name}"] = value
    for name, value in found.items():
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and issubclass(value, pv.Index):
            yield from ((f"{name}.{m}", f) for m, f in inspect.getmembers(value, callable) if not m.startswith("_"))


def test_progress_threads_and_overwrite_mean_the_same_everywhere() -> None:
    seen: dict[str, set[str]] = {name: set() for name in MEANT}
    for name, function in public():
        for what, parameter in inspect.signature(function).parameters.items():
            if what in MEANT and parameter.default is not parameter.empty:  # a default is what callers are offered
                assert (parameter.annotation, parameter.default) == MEANT[what], (name, what)
                seen[what].add(name.rpartition(".")[2])
    assert {"write", "convert", "merge", "split", "sample", "embed", "search", "stats", "verify", "build"} <= seen[
        "progress"
    ]
    assert {"search", "stats", "build", "embed", "write_truth", "measure_quality"} <= seen["threads"]
    assert {"write", "convert", "merge", "publish", "write_truth", "import_model", "export_model"} <= seen["overwrite"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pv.write("a.fbin", ROWS)
    pv.write("truth.ibin", IDS)
    return tmp_path


# What each call is, and what its one line says.
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "write to None": (lambda: pv.write(None, ROWS), "path must be a path"),
    "write to bytes": (lambda: pv.write(b"o.fbin", ROWS), "path must be a path"),
    "write to a zero byte": (lambda: pv.write("o\0.fbin", ROWS), "zero byte"),
    "write a text": (lambda: pv.write("o.fbin", "rows"), "numbers"),
    "write None": (lambda: pv.write("o.fbin", None), "numbers"),
    "write a number": (lambda: pv.write("o.fbin", 3.5), "numbers"),
    "write texts": (lambda: pv.write("o.fbin", ["one", "two"]), "numbers"),
    "write ragged rows": (lambda: pv.write("o.fbin", [[1.0], [1.0, 2.0]]), "numbers"),
    "write bad metadata": (lambda: pv.write("o.cvc", ROWS, metadata=[1]), "metadata must be a mapping"),
    "write bad ids": (lambda: pv.write("o.cvc", ROWS, ids=7), "ids"),
    "write bad records": (lambda: pv.write("o.cvc", ROWS, records=7), "records"),
    "write words of numbers": (lambda: pv.write("o.cvc", ROWS, vocab=list(range(40))), "words|vocab|text"),
    "write a list of nothing": (lambda: pv.write("o.fbin", {}), "no column"),
    "write bad words": (lambda: pv.write("o.cvc", ROWS, vocab=7), "words|vocab"),
    "encoding of another type": (lambda: pv.write("o.fbin", ROWS, encoding=3), "unknown encoding 3"),
    "format of another type": (lambda: pv.write("o.fbin", ROWS, format=3), "format must be text"),
    "column of another type": (lambda: pv.write("o.fbin", ROWS, column=3), "column must be text"),
    "overwrite as text": (lambda: pv.write("o.fbin", ROWS, overwrite="yes"), "overwrite must be True or False"),
    "sidecar as a number": (lambda: pv.write("o.fbin", ROWS, sidecar=1), "sidecar must be True or False"),
    "progress as text": (lambda: pv.write("o.fbin", ROWS, progress="bar"), "progress must be True or a callback"),
    "chunk_rows as text": (lambda: pv.write("o.fbin", ROWS, chunk_rows="ten"), "chunk_rows must be a whole number"),
    "chunk_rows as a float": (lambda: pv.write("o.fbin", ROWS, chunk_rows=2.5), "chunk_rows must be a whole number"),
    "an option's value": (lambda: pv.write("o.cvc", ROWS, mmap_optimized="maybe"), "mmap_optimized is true or false"),
    "convert nothing": (lambda: pv.convert(None, "o.npy"), "source must be a path"),
    "convert to a number": (lambda: pv.convert("a.fbin", 3), "target must be a path"),
    "convert leniently, perhaps": (lambda: pv.convert("a.fbin", "o.npy", lenient="no"), "lenient must be True"),
    "convert with a bad resume": (lambda: pv.convert("a.fbin", "o.npy", resume=1), "resume must be True or False"),
    "convert from a format": (lambda: pv.convert("a.fbin", "o.npy", source_format=1), "source_format must be text"),
    "convert with a slip": (lambda: pv.convert("a.fbin", "o.npy", encodng="int8"), "did you mean encoding"),
    "convert with bad ids": (lambda: pv.convert("a.fbin", "o.cvc", ids=7), "ids"),
    "convert with bad records": (lambda: pv.convert("a.fbin", "o.cvc", records=7), "records"),
    "merge a number": (lambda: pv.merge(3, "o.fbin"), "inputs must be a path or a list"),
    "merge numbers": (lambda: pv.merge([3], "o.fbin"), "inputs must be a path"),
    "merge nothing": (lambda: pv.merge([], "o.fbin"), "nothing to merge"),
    "merge strictly, perhaps": (lambda: pv.merge(["a.fbin"], "o.fbin", strict="yes"), "strict must be True"),
    "split by text": (lambda: pv.split("a.fbin", "o.fbin", rows="two"), "rows must be a whole number"),
    "split by nothing": (lambda: pv.split("a.fbin", "o.fbin"), "either rows or parts"),
    "split by less than nothing": (lambda: pv.split("a.fbin", "o.fbin", rows=-1), "rows must be at least 1"),
    "split by True": (lambda: pv.split("a.fbin", "o.fbin", parts=True), "parts must be a whole number"),
    "sample text": (lambda: pv.sample("a.fbin", "o.fbin", head="two"), "head must be a whole number"),
    "sample half a row": (lambda: pv.sample("a.fbin", "o.fbin", random=1.5), "random must be a whole number"),
    "sample with a bad seed": (lambda: pv.sample("a.fbin", "o.fbin", random=2, seed=-1), "seed must be at least 0"),
    "sample with a seed of text": (lambda: pv.sample("a.fbin", "o.fbin", random=2, seed="x"), "seed must be a whole"),
    "sample a range of one": (lambda: pv.sample("a.fbin", "o.fbin", range=3), "range must be a pair"),
    "sample a range of text": (lambda: pv.sample("a.fbin", "o.fbin", range=("a", "b")), "range's start must be"),
    "open nothing": (lambda: pv.open(None), "where must be a path"),
    "open a list": (lambda: pv.open(["a.fbin"]), "where must be a path"),
    "open as a number": (lambda: pv.open("a.fbin", format=3), "format must be text"),
    "open by a writing option": (lambda: pv.open("a.fbin", compression="gzip"), "no option compression"),
    "verify a number": (lambda: pv.verify(3), "path must be a path"),
    "verify a bad digest": (lambda: pv.verify("a.fbin", sha256=3), "sha256 must be"),
    "verify with progress": (lambda: pv.verify("a.fbin", progress=3), "progress must be True or a callback"),
    "describe nothing": (lambda: pv.describe(None), "path must be a path"),
    "describe a layout": (lambda: pv.describe("a.fbin", layout="yes"), "layout must be True or False"),
    "stats of None": (lambda: pv.stats(None), "numbers"),
    "stats of texts": (lambda: pv.stats(["a", 3]), "numbers"),
    "stats with no threads": (lambda: pv.stats(ROWS, threads=0), "threads must be at least 1"),
    "search None": (lambda: pv.search(None, ROWS), "numbers"),
    "search for texts": (lambda: pv.search(ROWS, {"a": 1}), "numbers"),
    "search for ten": (lambda: pv.search(ROWS, ROWS, k="ten"), "k must be a whole number"),
    "search for no neighbours": (lambda: pv.search(ROWS, ROWS, k=0), "k is 0; it must be at least 1"),
    "search by a number": (lambda: pv.search(ROWS, ROWS, metric=3), "metric 3 is unknown"),
    "search with threads": (lambda: pv.search(ROWS, ROWS, threads=-2), "threads must be at least 1"),
    "search with half a thread": (lambda: pv.search(ROWS, ROWS, threads=1.5), "threads must be a whole number"),
    "search with a text for an index": (lambda: pv.search(ROWS, ROWS, index="a.pvindex"), "index must be an Index"),
    "search where": (lambda: pv.search(ROWS, ROWS, where=3), "filter|where"),
    "search on a device": (lambda: pv.search(ROWS, ROWS, device=3), "device must be text"),
    "search with progress": (lambda: pv.search(ROWS, ROWS, progress=3), "progress must be True or a callback"),
    "index with no threads": (lambda: pv.Index.build(ROWS, threads=0), "threads must be at least 1"),
    "index a column": (lambda: pv.Index.build(ROWS, column=3), "column must be text"),
    "search an index": (lambda: pv.Index.build(ROWS).search(ROWS, k="ten"), "k must be a whole number"),
    "save an index": (lambda: pv.Index.build(ROWS).save(None), "path must be a path"),
    "open no index": (lambda: pv.Index.open(None, ROWS), "path must be a path"),
    "embed one text": (lambda: pv.embed("one", model="m.weights"), "texts must be a list"),
    "embed numbers": (lambda: pv.embed(3, model="m.weights"), "texts must be a list"),
    "embed by nothing": (lambda: pv.embed(["a"], model=None), "model must be a path"),
    "embed with no threads": (lambda: pv.embed(["a"], model="m", threads=0), "threads must be at least 1"),
    "embed with a slip": (lambda: pv.embed(["a"], model="m", num_threads=1), "did you mean threads"),
    "embed a corpus by a path": (lambda: embed_corpus("a.txt", "o.fbin", model="m"), "model must be an Embedder"),
    "truth to None": (lambda: write_truth(ROWS, ROWS, None, metric="l2"), "output must be a path"),
    "truth in half a style": (lambda: write_truth(ROWS, ROWS, "o.ibin", style=3), "style must be text"),
    "truth of ten": (lambda: compute_truth(ROWS, ROWS, k="ten", metric="l2"), "k must be a whole number"),
    "truth, resumed": (lambda: write_truth(ROWS, ROWS, "o.ibin", resume="no"), "resume must be True or False"),
    "truth, sampled": (lambda: verify_truth(ROWS, ROWS, IDS, sample=-1), "sample must be at least 0"),
    "quality at ten": (lambda: measure_quality(ROWS, k=10), "k must be a list of whole numbers"),
    "quality of one encoding": (lambda: measure_quality(ROWS, encodings="int8"), "encodings must be a list of texts"),
    "quality by a seed": (lambda: measure_quality(ROWS, seed=-1), "seed must be at least 0"),
    "quality promised": (lambda: measure_quality(ROWS, suggest="high"), "recall target"),
    "recall at ten": (lambda: measure_recall(IDS, IDS, k="ten"), "k must be a list of whole numbers"),
    "recall of None": (lambda: measure_recall(None, IDS), "numbers"),
    "publish a path": (lambda: publish("a.fbin", "site"), "collection must be a Collection"),
    "publish to None": (lambda: publish(pv.open("a.fbin"), None), "output must be a path"),
    "publish roles": (lambda: publish_single_file(pv.open("a.fbin"), "o.html", roles=[1]), "roles must be a mapping"),
    "import nothing": (lambda: import_model(None, "m.weights"), "where must be a path"),
    "export nothing": (lambda: export_model(None, "out"), "source must be a path"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_argument_is_an_input_error_in_one_line(folder: Path, what: str) -> None:
    call, words = BAD[what]
    before = contents(folder)
    with pytest.raises(pv.InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert contents(folder) == before
