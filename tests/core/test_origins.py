"""Parts of collections as they travel: by where they came from, or by what they hold."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw, ScaledInt8, SymmetricInt8
from polyvec.codecs.product import Product
from polyvec.core.blocks import Block, Codec
from polyvec.core.collection import concat
from polyvec.core.columns import ArrayColumn
from polyvec.core.origins import Once
from polyvec.core.records import ColumnRecords, ListRecords, RunRecords
from polyvec.core.subwords import BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer
from polyvec.core.vocab import Strings

ROWS = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
WORDS = [f"w{row}" for row in range(20)]
RECORDS = [{"n": row} for row in range(20)]
CODECS: list[Codec] = [
    Raw(np.dtype("<f4")),
    Raw(np.dtype(ml_dtypes.bfloat16)),
    Float16(),
    BFloat16(),
    AffineUint8.fit([ROWS]),
    SymmetricInt8(127.0),
    ScaledInt8.fit([ROWS]),
    BytePlanes((8,)),
    Product(np.random.default_rng(1).standard_normal((4, 16, 2)).astype(np.float32)),
    Product(ROWS[:16].reshape(4, 16, 2), projection=np.eye(8, dtype=np.float32), norms=True),
]


def sent(what: Any) -> Any:
    return pickle.loads(pickle.dumps(what))


def file_of(folder: Path, name: str = "a.fbin") -> pv.Collection:
    pv.write(folder / name, ROWS, vocab=WORDS, records=RECORDS, ids=range(100, 120), durable=False)
    return pv.open(folder / name)


def same(found: pv.Collection, wanted: pv.Collection) -> None:
    assert {n: c[:].tobytes() for n, c in found.columns.items()} == {
        n: c[:].tobytes() for n, c in wanted.columns.items()
    }
    for part in ("vocab", "records", "ids"):
        one, other = getattr(found, part), getattr(wanted, part)
        assert (one is None) == (other is None) and (one is None or list(one) == list(other)), part
    assert (found.main, found.metadata, found.path, found.places) == (
        wanted.main,
        wanted.metadata,
        wanted.path,
        wanted.places,
    )


def test_every_codec_is_here() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {k.__name__ for k in below(Codec) if k.__module__.startswith(("polyvec.codecs.", "polyvec.core."))}
    assert ours - {"Codec"} == {type(codec).__name__ for codec in CODECS}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_codecs_and_blocks_travel_by_value(codec: Codec) -> None:
    assert sent(codec) == codec and hash(sent(codec)) == hash(codec)
    block = Block(3, codec.encode(ROWS[3:9]), codec, 6)
    found = sent(block)
    assert (found.start, found.rows, found.codec) == (3, 6, codec)
    assert found.decode().tobytes() == block.decode().tobytes()
    if codec.row_bytes((8,)) is not None:
        column = ArrayColumn("v", ROWS, codec=codec, parts=codec.encode(ROWS), shape=ROWS.shape)
        assert sent(column)[:].tobytes() == column[:].tobytes()
        assert (sent(column).encoding, sent(column).codec) == (codec.name, codec)


@pytest.mark.parametrize(
    "subwords",
    [
        None,
        BucketIndexer(3, 6, 10),
        FastTextIndexer(3, 6, 1000),
        FloretIndexer(2, 5, 7, 2),
        ExplicitIndexer(2, 2, Strings.from_words(["ab", "bc"]), np.array([1, 0])),
    ],
    ids=lambda subwords: type(subwords).__name__,
)
def test_words_travel_with_what_makes_their_subwords(subwords: Any) -> None:
    vocab = pv.Vocab(["a", "bc", "a"], subwords=subwords)
    for found in (sent(vocab), (vocab.index("bc"), sent(vocab))[1]):
        assert list(found) == ["a", "bc", "a"] and found.index("bc") == 1 and found.duplicates.tolist() == [2]
        assert (found.subwords is None) == (subwords is None)
        if subwords is not None:
            assert found.subwords.indices("abc").tolist() == subwords.indices("abc").tolist()


def test_records_of_every_kind_travel(tmp_path: Path) -> None:
    for records in (
        ListRecords(RECORDS),
        ColumnRecords({"n": np.arange(20), "w": WORDS}),
        RunRecords([(0, 3, {"a": 1}), (3, 5, {"b": 2})], 5),
    ):
        assert list(sent(records)) == list(records)
        assert list(sent(records.view(range(1, 4)))) == list(records)[1:4]
    with file_of(tmp_path) as collection:
        assert collection.records is not None
        assert list(sent(collection.records)) == RECORDS
        assert list(sent(collection.records.view(np.array([3, 1])))) == [RECORDS[3], RECORDS[1]]


def test_hits_and_receipts_travel_whole(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.cvc", ROWS, encoding="int8", vocab=WORDS)
    assert sent(receipt) == receipt and sent(receipt).to_dict() == receipt.to_dict()
    with file_of(tmp_path) as collection:
        hits = pv.search(collection, ROWS[:2], k=3, where={"n": [1, 2]})
        assert sent(hits).to_dict() == hits.to_dict() and sent(hits).notes == hits.notes != ()


def test_what_is_made_of_several_files_travels(tmp_path: Path) -> None:
    with file_of(tmp_path) as one, file_of(tmp_path, "b.cvc") as other, file_of(tmp_path, "c.fbin") as third:
        memory = pv.Collection.from_arrays(ROWS, vocab=WORDS, records=RECORDS, ids=range(20))
        whole = concat([one, third])
        parts = {
            "joined": whole,
            "joined with memory": concat([one, memory]),
            "cut": whole[15:25],
            "taken": whole.take([39, 0, 20, 0]),
            "cut of taken": whole.take(np.arange(0, 40, 3))[2:6],
            "selected": other.select("vectors"),
            "other words": one.with_parts(vocab=pv.Vocab([w.upper() for w in WORDS]), metadata={"a": [1]}),
            "other columns": one.with_parts(
                columns={"vectors": other.vectors, "more": ArrayColumn("more", ROWS[:, :2])}
            ),
            "words of another file": one.with_parts(vocab=third.vocab, records=third.records, ids=third.ids),
            "nothing": one[3:3],
        }
        for name, part in parts.items():
            with sent(part) as found:
                same(found, part)
                with sent(found) as again:
                    same(again, part)
            assert len(pickle.dumps(part)) < (5000 if "memory" not in name and "other" not in name else 9000), name


def test_merged_files_travel(tmp_path: Path) -> None:
    file_of(tmp_path).close()
    file_of(tmp_path, "b.fbin").close()
    pv.merge([tmp_path / "a.fbin", tmp_path / "b.fbin"], tmp_path / "all.parquet")
    with pv.open(tmp_path / "all.parquet") as merged, sent(merged) as found, sent(merged[18:22]) as cut:
        same(found, merged)
        assert list(cut.vocab or ()) == WORDS[18:] + WORDS[:2] and cut.vectors[2].tobytes() == ROWS[0].tobytes()


SENDER = """
import pickle, sys
import polyvec as pv
collection = pv.open("-" if len(sys.argv) == 1 else open(sys.argv[1], "rb").read(), format="npy")
for what in (collection, collection.vectors, collection[:2], pv.Index.build(collection)):
    try:
        pickle.dumps(what)
    except pv.InputError as error:
        print(str(error).count("\\n"), error)
    else:
        sys.exit(f"{what} was pickled")
"""


@pytest.mark.parametrize("where", ["standard input", "bytes"])
def test_what_came_from_standard_input_or_bytes_says_in_a_line_why_it_stays(tmp_path: Path, where: str) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    given = [str(tmp_path / "a.npy")] if where == "bytes" else []
    with (tmp_path / "a.npy").open("rb") as stream:
        told = subprocess.run([sys.executable, "-c", SENDER, *given], stdin=stream, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    said = [line.partition(" ") for line in told.stdout.splitlines()]
    assert len(said) == 4 and all(breaks == "0" for breaks, _, _ in said), told.stdout
    assert all("cannot be pickled; write it to a file" in message for _, _, message in said), told.stdout


def test_many_threads_make_a_value_once_and_all_get_it() -> None:
    made: list[object] = []
    gate = threading.Barrier(8)
    once: Once[object] = Once()

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask(_: int) -> object:
        gate.wait()
        return once.get(make)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(made) == 1 and all(value is made[0] for value in found) and not sent(once).made


def test_what_failed_to_be_made_is_made_by_the_next_who_asks() -> None:
    once: Once[int] = Once()
    with pytest.raises(ZeroDivisionError):
        once.get(lambda: 1 // 0)
    assert not once.made and once.get(lambda: 7) == 7
