"""Embedding a corpus: every input, any output, records kept, resumable."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import FormatError, InputError
from polyvec.embedder import Embedder
from polyvec.testing.atomicity import contents
from polyvec.testing.models import write_tiny_model
from polyvec.verbs import embed as verb
from polyvec.verbs.embed import Step, embed_corpus

TEXTS = ["hello world", "how do i read a zip file", "é中文", "", "the a of " * 40, "last"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Embedder(write_tiny_model(tmp_path_factory.mktemp("m") / "tiny.weights"), engine="numpy") as embedder:
        yield embedder


def write_corpus(folder: Path, kind: str) -> Path:
    path = folder / f"texts.{kind}"
    if kind == "txt":
        path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    elif kind == "jsonl":
        path.write_text("\n\n".join(json.dumps({"n": n, "body": t}) for n, t in enumerate(TEXTS)), encoding="utf-8")
    elif kind in ("csv", "tsv"):
        import csv

        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([("n", "body"), *((n, t) for n, t in enumerate(TEXTS))])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"n": range(len(TEXTS)), "body": TEXTS}), path)
    return path


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "tsv", "parquet"])
def test_every_input_gives_its_texts_vectors_and_records(model: Embedder, tmp_path: Path, kind: str) -> None:
    source, target = write_corpus(tmp_path, kind), tmp_path / "out.fbin"
    done = embed_corpus(source, target, model=model, field=None if kind == "txt" else "body")
    assert (done.texts, done.truncated, done.resumed) == (6, 1, 0)
    with pv.open(target) as c:
        assert np.allclose(c.vectors.to_numpy(), model.embed(TEXTS), atol=1e-6)
        assert c.records is not None
        assert [record["text" if kind == "txt" else "body"] for record in c.records] == TEXTS
        if kind != "txt":
            assert [record["n"] for record in c.records] == list(range(6))
    assert not (tmp_path / "out.fbin.embedding").exists()


def test_numbers_in_a_table_are_numbers_in_the_records_by_column(model: Embedder, tmp_path: Path) -> None:
    source, target = tmp_path / "t.csv", tmp_path / "o.fbin"
    source.write_text("text,year,price,zip,new,mixed\n12,1999,1.5,007,true,1\n13,,2,010,False,x\n14,-5,1e-3,5,,\n")
    for resumed in (False, True):
        if resumed:  # the types are those of all rows, also of those that an earlier run had read
            stop_after_the_first_chunk(source, target, model)
        embed_corpus(source, target, model=model)
        with pv.open(target) as c:
            assert c.records is not None and [dict(record) for record in c.records] == [
                {"text": "12", "year": 1999, "price": 1.5, "zip": "007", "new": True, "mixed": "1"},
                {"text": "13", "year": None, "price": 2.0, "zip": "010", "new": False, "mixed": "x"},
                {"text": "14", "year": -5, "price": 0.001, "zip": "5", "new": None, "mixed": ""},
            ]


def stop_after_the_first_chunk(source: Path, target: Path, model: Embedder) -> None:
    def stop(_: Step) -> None:
        raise KeyboardInterrupt

    old, verb.CHUNK_TEXTS = verb.CHUNK_TEXTS, 1
    try:
        with pytest.raises(KeyboardInterrupt):
            embed_corpus(source, target, model=model, watch=stop)
    finally:
        verb.CHUNK_TEXTS = old


@pytest.mark.parametrize(
    ("name", "encoding"), [("o.npy", None), ("o.weights", "int8"), ("o.npy", "float16"), ("o.cvc", None)]
)
def test_any_format_we_write_is_an_output(model: Embedder, tmp_path: Path, name: str, encoding: str | None) -> None:
    done = embed_corpus(write_corpus(tmp_path, "txt"), tmp_path / name, model=model, encoding=encoding)
    assert done.receipt.rows == 6
    with pv.open(tmp_path / name) as c:
        assert np.allclose(c.vectors.to_numpy().astype(np.float32), model.embed(TEXTS), atol=0.02)
        assert c.records is not None and len(c.records) == 6


def test_standard_input_is_read(model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "zip"}\n')))
    done = embed_corpus("-", tmp_path / "o.npy", model=model, kind="jsonl")
    assert done.texts == 1


def test_a_stopped_run_goes_on_where_it_was(model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = write_corpus(tmp_path, "jsonl"), tmp_path / "o.fbin"
    monkeypatch.setattr(verb, "CHUNK_TEXTS", 2)
    whole = embed_corpus(source, tmp_path / "whole.fbin", model=model, field="body")

    def stop(step: Step) -> None:
        if step.texts >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(source, target, model=model, field="body", watch=stop)
    assert not target.exists()
    with (tmp_path / "o.fbin.embedding" / "vectors").open("ab") as file:
        file.write(b"half a chunk")  # what a kill between two counts leaves
    seen: list[int] = []
    monkeypatch.setattr(
        model,
        "embed_into",
        lambda texts, out, **o: seen.extend([len(texts)]) or Embedder.embed_into(model, texts, out, **o),
    )
    done = embed_corpus(source, target, model=model, field="body")
    assert (done.resumed, done.texts, done.truncated) == (4, 6, whole.truncated) and seen == [2]
    assert target.read_bytes() == (tmp_path / "whole.fbin").read_bytes()
    assert (tmp_path / "o.fbin.records.jsonl").read_bytes() == (tmp_path / "whole.fbin.records.jsonl").read_bytes()


def test_a_run_of_another_input_is_not_mixed_in(model: Embedder, tmp_path: Path) -> None:
    source, target = write_corpus(tmp_path, "txt"), tmp_path / "o.fbin"

    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(source, target, model=model, watch=stop)
    with pytest.raises(InputError, match="--restart"):
        embed_corpus(source, target, model=model, prompt="query: ")
    assert embed_corpus(source, target, model=model, prompt="query: ", resume=False).resumed == 0
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(source, target, model=model, watch=stop)
    (tmp_path / "o.fbin.embedding" / "state.json").write_text("{broken")
    assert embed_corpus(source, target, model=model).resumed == 0


def test_memory_is_bounded_by_the_chunk(model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "CHUNK_BYTES", 100)
    sizes: list[int] = []
    monkeypatch.setattr(
        model,
        "embed_into",
        lambda texts, out, **o: sizes.append(sum(map(len, texts))) or Embedder.embed_into(model, texts, out, **o),
    )
    (tmp_path / "t.txt").write_text("word " * 15 + "\n" + "word\n" * 100)
    embed_corpus(tmp_path / "t.txt", tmp_path / "o.fbin", model=model)
    assert max(sizes) < 200 and len(sizes) > 3


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("t.jsonl", b'{"text": 3}', {}, "line 1: field 'text' is int"),
        ("t.jsonl", b'{"body": "x"}', {}, "no field 'text'"),
        ("t.jsonl", b"[1]", {}, "not an object"),
        ("t.jsonl", b"{nope", {}, "invalid JSON"),
        ("t.jsonl", b'{"text":"a","text":"b"}', {}, "twice"),
        ("t.jsonl", b'{"text": "\\ud800"}', {}, "lone surrogate"),
        ("t.txt", b"ok\n\xff\n", {}, "line 2 is not valid UTF-8"),
        ("t.txt", b"", {}, "no texts"),
        ("t.txt", b"x", {"field": "y"}, "no fields"),
        ("t.csv", b"a,b\n1,2\n", {}, "no column 'text'"),
        ("t.csv", b"text,b\n1\n", {}, "1 fields"),
        ("t.csv", b"text\n\xff\n", {}, "line 2 is not valid UTF-8 at byte 0 of the line; store it as UTF-8"),
        ("t.csv", b"text\n" + b"x\n" * 9000 + b"\xe9t\xe9\n", {}, "line 9002 is not valid UTF-8.*iconv -f latin1"),
        ("t.csv", b"text;id\na;1\n", {}, "no column 'text'; there are text;id: ';' seems to separate .* commas"),
        ("t.csv", b"text\tid\na\t1\n", {}, "a tab seems to separate .* or name it .tsv"),
        ("t.parquet", b"nope", {}, "Parquet"),
        ("t.txt", b"x", {"kind": "xml"}, "xml"),
        ("t.csv", b"text,text\n1,2\n", {}, "same name"),
    ],
)
def test_bad_input_is_told_and_leaves_no_output(
    model: Embedder, tmp_path: Path, name: str, content: bytes, options: dict[str, Any], message: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, FormatError), match=message):
        embed_corpus(tmp_path / name, tmp_path / "o.fbin", model=model, **options)
    assert not (tmp_path / "o.fbin").exists()


def test_records_that_json_cannot_hold_are_kept_as_near_as_can_be(model: Embedder, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"text": ["a", "b"], "score": [float("nan"), 1.5], "tags": [[float("inf")], [2.0]]})
    parquet.write_table(table, tmp_path / "t.parquet")
    embed_corpus(tmp_path / "t.parquet", tmp_path / "o.fbin", model=model)
    with pv.open(tmp_path / "o.fbin") as c:
        assert c.records is not None
        assert [dict(record) for record in c.records] == [
            {"text": "a", "score": None, "tags": [None]},
            {"text": "b", "score": 1.5, "tags": [2.0]},
        ]
    (tmp_path / "s.jsonl").write_text('{"text": "fine", "note": "\\ud800"}\n')
    with pytest.raises(InputError, match="lone surrogate"):
        embed_corpus(tmp_path / "s.jsonl", tmp_path / "p.fbin", model=model)


def test_a_wrong_output_is_told_before_any_work(model: Embedder, tmp_path: Path) -> None:
    source = write_corpus(tmp_path, "txt")
    (tmp_path / "there.fbin").touch()
    for target, options in (
        ("o.xyz", {}),
        ("there.fbin", {"overwrite": False}),
        ("no/folder.fbin", {}),
        ("o.fbin", {"encoding": "odd"}),
    ):
        with pytest.raises(InputError):
            embed_corpus(source, tmp_path / target, model=model, **options)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        embed_corpus(tmp_path / "absent.txt", tmp_path / "o.fbin", model=model)
    assert not list(tmp_path.glob("*.embedding"))


def test_a_second_run_on_one_target_is_refused_and_changes_nothing(model: Embedder, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, "txt")
    target = tmp_path / "out.fbin"
    tried: list[str] = []

    def again(step: Step) -> None:
        before = contents(tmp_path / "out.fbin.embedding")
        with pytest.raises(InputError, match=r"out\.fbin: another run is writing this output"):
            embed_corpus(corpus, target, model=model)
        assert contents(tmp_path / "out.fbin.embedding") == before
        tried.append("refused")

    done = embed_corpus(corpus, target, model=model, watch=again)
    assert tried and done.texts
    with pv.open(target) as found:
        assert found.rows == done.texts
    assert not list(tmp_path.glob(".*"))


def test_another_text_of_the_same_size_and_time_is_not_taken_up(
    model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("hello world\n" * 5)
    monkeypatch.setattr(verb, "CHUNK_TEXTS", 2)

    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(corpus, tmp_path / "out.fbin", model=model, watch=stop)
    status = corpus.stat()
    corpus.write_text("world hello\n" * 5)
    os.utime(corpus, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InputError, match="another input"):
        embed_corpus(corpus, tmp_path / "out.fbin", model=model)


def test_a_disk_that_is_too_small_is_told_before_any_text_is_embedded(
    model: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("hello world\n" * 20_000)
    monkeypatch.setattr("polyvec.core.space.free_bytes", lambda folder: 1_000_000)
    with pytest.raises(InputError, match=r"out\.fbin: about .* MB will be written and 1\.0 MB are free"):
        embed_corpus(corpus, tmp_path / "out.fbin", model=model)
    assert contents(tmp_path).keys() == {"texts.txt"}


def test_ids_are_a_field_of_the_corpus_or_a_file(model: Embedder, tmp_path: Path) -> None:
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": f"text {i}", "key": f"k{i}"}) + "\n" for i in range(5)))
    (tmp_path / "other.jsonl").write_text("".join(json.dumps({"n": i}) + "\n" for i in range(5)))
    embed_corpus(source, tmp_path / "a.fbin", model=model, ids="key")
    embed_corpus(source, tmp_path / "b.fbin", model=model, ids="key", records=False)
    embed_corpus(
        source, tmp_path / "c.fbin", model=model, ids=tmp_path / "other.jsonl", records=tmp_path / "other.jsonl"
    )
    with pv.open(tmp_path / "a.fbin") as a, pv.open(tmp_path / "b.fbin") as b, pv.open(tmp_path / "c.fbin") as c:
        assert list(a.ids) == list(b.ids) == [f"k{i}" for i in range(5)] and a.records[2]["key"] == "k2"
        assert b.records is None and c.records[3] == {"n": 3} and c.ids[:].tolist() == list(range(5))
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        embed_corpus(source, tmp_path / "d.fbin", model=model, ids=tmp_path / "gone.txt")
    assert not (tmp_path / "d.fbin.embedding").exists(), "it is told before any text is embedded"
    (tmp_path / "few.txt").write_text("a\n")
    with pytest.raises(pv.Corrupt, match="expected 5 lines, found 1"):
        embed_corpus(source, tmp_path / "e.fbin", model=model, ids=tmp_path / "few.txt")
    assert embed_corpus(source, tmp_path / "e.fbin", model=model, ids="key").resumed == 5, "no text is embedded twice"


def test_an_encoding_that_the_target_does_not_have_is_told_before_any_text_is_embedded(
    model: Embedder, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="bins files hold no int8 encoding"):
        embed_corpus(write_corpus(tmp_path, "txt"), tmp_path / "o.fbin", model=model, encoding="int8")
    assert contents(tmp_path).keys() == {"texts.txt"}
