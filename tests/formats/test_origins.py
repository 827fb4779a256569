"""Collections in other processes, and the ways in which their files may not be there any more."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats
from polyvec.testing.descriptors import no_descriptors_left

ROWS = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
WORDS = [f"w{row}" for row in range(40)]
RECORDS = [{"name": word} for word in WORDS]
GOLDEN = Path(__file__).parents[1] / "golden"
FILES = (
    "a.fbin",
    "a.npy",
    "a.npz",
    "a.fvecs",
    "a.cvc",
    "a.fifu",
    "a.i8bin",
    "a.safetensors",
    "a.txt",
    "a.bin",
    "a.h5",
    "a.parquet",
    "a.arrow",
)


def write_all(folder: Path) -> dict[str, Any]:
    """One file of each kind, its rows as this process reads them."""
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    found: dict[str, Any] = {}
    for name in FILES:
        options: dict[str, Any] = {"format": "word2vec"} if name == "a.bin" else {}
        pv.write(folder / name, ROWS, vocab=WORDS, records=RECORDS, durable=False, measure=False, **options)
        found[name] = pv.open(folder / name, **options)
    for shard in range(3):
        pv.write(folder / f"s-{shard}.npy", ROWS[shard * 10 : shard * 10 + 10], durable=False, measure=False)
    found["shards"] = pv.open(folder / "s-*.npy")
    found["slice"] = found["a.fbin"][5:9]
    return found


def golden_files() -> list[Path]:
    """The files that other programs wrote, of every format that has another writer."""
    return [
        path
        for format in formats.all_formats()
        for path in sorted((GOLDEN / format.name).glob("*"))
        if path.suffix in format.suffixes
    ]


def write_own(folder: Path) -> list[Path]:
    """A file of each format that no other program writes."""
    made = []
    for name in ("own.i8bin", "own.weights"):
        pv.write(folder / name, ROWS, format=name.partition(".")[2], durable=False, measure=False)
        made.append(folder / name)
    return made


def seen(collection: pv.Collection) -> dict[str, Any]:
    """All that a collection holds, and what it makes of a word that is not there."""
    vocab, ids = collection.vocab, collection.ids
    subwords = None if vocab is None else vocab.subwords
    return {
        "kind": (collection.format, collection.main, collection.path, collection.notes, collection.metadata),
        "columns": {
            name: (column.shape, column.encoding, np.asarray(column[:]).tobytes(), column[-1:].tobytes())
            for name, column in collection.columns.items()
        },
        "words": None if vocab is None else list(vocab),
        "subwords": None if subwords is None else list(subwords.indices("unseen")),
        "records": None if collection.records is None else list(collection.records),
        "ids": None if ids is None else list(ids),
    }


def read(collection: pv.Collection) -> dict[str, Any]:
    """What another process sees of a collection."""
    with collection:
        return seen(collection)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_process_reads_the_same_rows(tmp_path: Path, method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = write_all(tmp_path)
        for path in (*golden_files(), *write_own(tmp_path)):
            with suppress(pv.FormatError):  # some are there to be refused
                files[f"{path.parent.name}/{path.name}"] = pv.open(path)
        assert {collection.format for collection in files.values()} == {f.name for f in formats.all_formats()}
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = dict(zip(files, pool.map(read, files.values())))
        for name, collection in files.items():
            assert found[name] == seen(collection), name
        for collection in files.values():
            collection.close()
    assert all(found[name]["records"] == RECORDS for name in FILES)


def _inherited(rows: list[int]) -> bytes:
    return b"".join(np.asarray(collection.vectors[row]).tobytes() for row in rows for collection in OPEN)


OPEN: list[pv.Collection] = []


def test_a_forked_process_reads_what_was_open_before(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        OPEN[:] = write_all(tmp_path).values()
    random = np.random.default_rng(1)
    asked = [random.integers(0, 4, 20).tolist() for _ in range(8)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_inherited, asked, chunksize=1) == [_inherited(rows) for rows in asked]
    for collection in OPEN:
        collection.close()
    OPEN.clear()


def test_the_other_process_may_stand_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(tmp_path)
    pv.write("a.fbin", ROWS)
    with pv.open("a.fbin") as collection:
        sent = pickle.dumps(collection), pickle.dumps(collection.vectors), pickle.dumps(collection.vectors.source)
    monkeypatch.chdir(tmp_path / "far")
    with pickle.loads(sent[0]) as found:
        assert found.path == "a.fbin" and found.place == pv.open(tmp_path / "a.fbin").place
    assert (pickle.loads(sent[1])[:] == ROWS).all() and pickle.loads(sent[2]).read_at(0, 4)


def test_how_a_file_was_opened_travels(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, vocab=WORDS)
    os.truncate(tmp_path / "a.fbin", 8 + 100 * 4)
    with pytest.warns(pv.FormatWarning), pv.open(tmp_path / "a.fbin", lenient=True, sidecars=False) as collection:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it was said once
            found = pickle.loads(pickle.dumps(collection))
        assert found.rows == collection.rows == 12 and found.vocab is None and found.notes == collection.notes
        found.close()


def test_a_sidecar_that_changed_is_told(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, vocab=WORDS)
    with pv.open(tmp_path / "a.fbin") as collection:
        sent = pickle.dumps(collection)
    (tmp_path / "a.fbin.words.txt").write_text("".join(f"x{row}\n" for row in range(40)))
    (tmp_path / "a.fbin.polyvec.json").unlink(missing_ok=True)
    with no_descriptors_left(), pytest.raises(pv.FormatError):
        pickle.loads(sent)


def test_what_is_in_memory_travels_by_value(tmp_path: Path) -> None:
    collection = pv.Collection.from_arrays({"a": ROWS, "b": ROWS[:, 0]}, vocab=WORDS, records=RECORDS, ids=range(40))
    found = pickle.loads(pickle.dumps(collection))
    assert (found["a"][:] == ROWS).all() and (found["b"][:] == ROWS[:, 0]).all()
    assert list(found.vocab) == WORDS and list(found.records) == RECORDS and (found.ids[:] == np.arange(40)).all()
    pa = pytest.importorskip("pyarrow")
    from polyvec.writing.inputs import as_collection

    table = pa.table({"emb": pa.FixedSizeListArray.from_arrays(ROWS.ravel(), 8), "name": WORDS})
    found = pickle.loads(pickle.dumps(as_collection(table)))
    assert (found.vectors[:] == ROWS).all() and found.records[3]["name"] == "w3"


def test_words_travel_without_the_file_around_them(tmp_path: Path) -> None:
    words = pv.Vocab(WORDS).view(range(3))
    assert len(pickle.dumps(words)) < 1000 and list(pickle.loads(pickle.dumps(words))) == WORDS[:3]
    assert pickle.loads(pickle.dumps(words)).index("w2") == 2


def test_answers_and_indexes_travel(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.fbin", ROWS)
    assert pickle.loads(pickle.dumps(receipt)) == receipt
    index = pv.Index.build(tmp_path / "a.fbin")
    index.save(tmp_path / "a.fbin.pvindex")
    for one in (index, pv.Index.open(tmp_path / "a.fbin.pvindex", tmp_path / "a.fbin"), pv.Index.build(ROWS)):
        hits = one.search(ROWS[:3], k=2)
        again = pickle.loads(pickle.dumps(one)).search(ROWS[:3], k=2)
        assert (again.rows == hits.rows).all() and (again.scores == hits.scores).all()
        assert (pickle.loads(pickle.dumps(hits)).rows == hits.rows).all()


def test_an_index_leaves_no_file_open(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    pv.Index.build(tmp_path / "a.fbin").save(tmp_path / "i")

    def use() -> None:
        index = pv.Index.open(tmp_path / "i", tmp_path / "a.fbin")
        index.search(ROWS[:2], k=1)

    use()
    with no_descriptors_left(collected=True):
        use()
        with pytest.raises(pv.InputError):
            pv.Index.open(tmp_path / "i", ROWS[::-1].copy())


def test_threads_search_one_index(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    index = pv.Index.build(tmp_path / "a.fbin")
    wanted = index.search(ROWS, k=3)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: index.search(ROWS, k=3), range(40)):
            assert (found.rows == wanted.rows).all() and (found.scores == wanted.scores).all()
