"""Word embeddings against finalfusion and gensim: open, look up, search, reconstruct, convert.

    python benchmarks/words.py [--small]

One model of 1M words x 300 (1.2 GB) in finalfusion, gensim's own form and word2vec binary; one of 100k words with 2^21
buckets; one of 1M rows of product codes (150 x 256). The peers' times, ours and the machine's limits come from one run.
Files are in the page cache throughout: what is compared is work, not disks.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polyvec as pv
from polyvec import finalfusion
from polyvec.codecs.product import Product
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.subwords import BucketIndexer
from polyvec.core.vocab import Vocab

DIM = 300


def best(work: Callable[[], Any], times: int = 3) -> float:
    """The shortest of a few runs, in seconds."""
    found = []
    for _ in range(times):
        gc.collect()
        started = time.perf_counter()
        result = work()
        found.append(time.perf_counter() - started)
        del result
    return min(found)


def line(what: str, ours: float, peers: dict[str, float], goal: dict[str, float]) -> None:
    """One claim: our time, each peer's, the ratio, and the ratio wanted."""
    parts = [f"{name} {_ms(t)} = {t / ours:.1f}x (wanted {goal[name]:g}x{'' if t / ours >= goal[name] else ', MISSED'})"
             for name, t in peers.items()]  # fmt: skip
    print(f"{what:34} polyvec {_ms(ours)}; {'; '.join(parts)}", flush=True)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def make(folder: Path, rows: int, words: int, exponent: int) -> list[str]:
    """The files, all written by polyvec but gensim's own."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((rows, DIM), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    names = [f"word{number:07d}" for number in rng.permutation(rows)]
    quick = {"durable": False, "measure": False}
    columns = {"vectors": ArrayColumn("vectors", matrix), "norms": ArrayColumn("norms", np.ones(rows, np.float32))}
    pv.write(folder / "words.fifu", Collection(columns, vocab=Vocab(names)), **quick)
    pv.write(folder / "words.bin", matrix, vocab=names, **quick)
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(DIM)
    keyed.add_vectors(names, matrix)
    keyed.save(str(folder / "words.kv"))
    del keyed, matrix
    indexer = BucketIndexer(3, 6, exponent)
    columns = {
        "vectors": ArrayColumn("vectors", rng.standard_normal((words, DIM), dtype=np.float32)),
        "subwords": ArrayColumn("subwords", rng.standard_normal((indexer.rows, DIM), dtype=np.float32)),
    }
    pv.write(folder / "buckets.fifu", Collection(columns, vocab=Vocab(names[:words], subwords=indexer)), **quick)
    codec = Product(rng.standard_normal((DIM // 2, 256, 2), dtype=np.float32))
    codes = rng.integers(0, 256, (rows, DIM // 2)).astype(np.uint8)
    column = ArrayColumn("vectors", codes, codec=codec, parts={"codes": codes}, shape=(rows, DIM), encoding="pq")
    pv.write(folder / "codes.fifu", Collection({"vectors": column}, vocab=Vocab(names)), **quick)
    return names


def look_up(folder: Path, names: list[str]) -> None:
    """Opening and looking up known words."""
    import finalfusion as peer
    from gensim.models import KeyedVectors

    some = names[:: len(names) // 1000][:1000]

    def ours(mmap: bool, count: int) -> Any:
        model = finalfusion.load(folder / "words.fifu", mmap=mmap)
        return [model.embedding(word) for word in some[:count]], model

    def fusion(mmap: bool, count: int) -> Any:
        model = peer.load_finalfusion(str(folder / "words.fifu"), mmap=mmap)
        return [np.array(model.embedding(word)) for word in some[:count]], model

    def gensim(mmap: bool, count: int) -> Any:
        model = KeyedVectors.load(str(folder / "words.kv"), mmap="r" if mmap else None)
        return [np.array(model.get_vector(word)) for word in some[:count]], model

    line("open mmapped, 1,000 look-ups", best(lambda: ours(True, 1000), 7),
         {"finalfusion": best(lambda: fusion(True, 1000), 1), "gensim": best(lambda: gensim(True, 1000), 2)},
         {"finalfusion": 20, "gensim": 10})  # fmt: skip
    line("full load with index", best(lambda: ours(False, 1), 5),
         {"finalfusion": best(lambda: fusion(False, 1), 1), "gensim": best(lambda: gensim(False, 1), 2)},
         {"finalfusion": 6, "gensim": 3})  # fmt: skip
    many = [names[i] for i in np.random.default_rng(1).integers(0, len(names), 100_000)]
    model = finalfusion.load(folder / "words.fifu", mmap=False)
    model.embedding(names[0])
    mine = best(lambda: model.embeddings(many), 9)
    model = None  # the memory goes
    theirs = peer.load_finalfusion(str(folder / "words.fifu"))
    index = theirs.vocab.word_index
    times = {"finalfusion": best(lambda: theirs.storage[[index[word] for word in many]], 9)}
    theirs = None  # the memory goes
    other = KeyedVectors.load(str(folder / "words.kv"))
    times["gensim"] = min(best(lambda: other[many], 2),
                          best(lambda: other.vectors[[other.key_to_index[word] for word in many]], 9))  # fmt: skip
    line("100k known words as a batch", mine, times, {"finalfusion": 1.5, "gensim": 1.5})


def look_up_unknown(folder: Path) -> None:
    """Vectors from subwords."""
    import finalfusion as peer

    unknown = [f"unsee{number:05d}" for number in range(10_000)]  # 34 n-grams each
    model = finalfusion.load(folder / "buckets.fifu", mmap=False)
    ours = best(lambda: model.embeddings(unknown), 9)
    model = None  # the memory goes
    theirs = peer.load_finalfusion(str(folder / "buckets.fifu"))
    line("10k unknown words", ours, {"finalfusion": best(lambda: [theirs.embedding(word) for word in unknown], 5)},
         {"finalfusion": 5})  # fmt: skip


def search(folder: Path, names: list[str]) -> float:
    """Nearest words in floats; returns our time for one."""
    import finalfusion as peer
    from gensim.models import KeyedVectors

    model = finalfusion.load(folder / "words.fifu", mmap=False)
    started = time.perf_counter()
    model.similar(names[0])
    print(f"{'first search, which makes the copy':34} polyvec {_ms(time.perf_counter() - started)}")
    one = best(lambda: model.similar(names[5]), 7)
    many = best(lambda: model.similar_many(names[:64]), 3) / 64
    model = None  # the memory goes
    theirs = peer.load_finalfusion(str(folder / "words.fifu"))
    times = {"finalfusion": best(lambda: theirs.word_similarity(names[5]), 5)}
    theirs = None  # the memory goes
    other = KeyedVectors.load(str(folder / "words.kv"))
    other.fill_norms()
    times["gensim"] = best(lambda: other.most_similar(names[5]), 5)
    other = None  # the memory goes
    line("top-10 of a word", one, times, {"finalfusion": 2.5, "gensim": 2.5})
    line("top-10, each of 64", many, times, {"finalfusion": 5, "gensim": 5})
    return one


def product(folder: Path, names: list[str], float_search: float) -> None:
    """Product codes: back to rows, and searched as they are."""
    import finalfusion as peer

    with pv.open(folder / "codes.fifu") as collection:
        out = np.empty(collection.vectors.shape, np.float32)
        ours = best(lambda: collection.vectors.to_numpy(out), 5)
    out = None  # the memory goes
    theirs = peer.load_finalfusion(str(folder / "codes.fifu"))
    index = np.arange(max(1, len(names) // 10))  # a tenth, times ten: the peer takes a while
    line("reconstruct the codes' rows", ours, {"finalfusion": 10 * best(lambda: theirs.storage[index], 1)},
         {"finalfusion": 15})  # fmt: skip
    theirs = None  # the memory goes
    model = finalfusion.load(folder / "codes.fifu")
    model.similar(names[0])
    codes = best(lambda: model.similar(names[5]), 7)
    smaller = 4 * DIM * len(names) / model.storage.nbytes
    print(f"{'top-10 over codes':34} polyvec {_ms(codes)}; float search {_ms(float_search)} = "
          f"{float_search / codes:.1f}x (wanted 1x); {smaller:.1f}x smaller (8x); finalfusion cannot")  # fmt: skip


def convert(folder: Path) -> None:
    """word2vec binary to finalfusion, against gensim's load alone."""
    from gensim.models import KeyedVectors

    ours = best(lambda: pv.convert(folder / "words.bin", folder / "out.fifu"), 2)
    theirs = best(lambda: KeyedVectors.load_word2vec_format(str(folder / "words.bin"), binary=True), 1)
    line("word2vec binary to fifu", ours, {"gensim": theirs}, {"gensim": 10})
    copied = best(lambda: shutil.copyfile(folder / "words.bin", folder / "copy.bin"), 1)
    print(f"{'':34} limit: copying the file takes {_ms(copied)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a tenth of the rows and 2^17 buckets")
    small = parser.parse_args().small
    rows, words, exponent = (100_000, 10_000, 17) if small else (1_000_000, 100_000, 21)
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="polyvec-words-", dir=os.environ.get("POLYVEC_BENCH_DIR")))
    try:
        names = make(folder, rows, words, exponent)
        size = (folder / "words.fifu").stat().st_size
        data = np.fromfile(folder / "words.fifu", np.uint8)
        out = np.empty_like(data)
        copied = best(lambda: np.copyto(out, data))
        passed = best(lambda: data[: size // 8 * 8].view(np.uint64).max())
        print(f"{rows:,} words x {DIM}, {size / 1e9:.2f} GB; limits: memcpy {_ms(copied)}, one pass {_ms(passed)}")
        data = out = None  # the memory goes
        look_up(folder, names)
        look_up_unknown(folder)
        one = search(folder, names)
        product(folder, names, one)
        convert(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
