"""Texts as a stream: each with the record it stood in, each fault with its line, nothing guessed."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from polyvec.core.errors import FormatError, InputError
from polyvec.model import corpus as module
from polyvec.model.corpus import count_texts, open_corpus, read_items


def items(path: Path, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    return list(read_items(open_corpus(path, **options)))


def made(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def test_lines_are_texts_whatever_ends_them_and_empty_ones_count(tmp_path: Path) -> None:
    path = made(tmp_path, "a.txt", "\ufeffeins\r\n\nzwei\u2028drei\nlast".encode())
    assert [text for text, _ in items(path)] == ["eins", "", "zwei\u2028drei", "last"]
    assert items(path)[0][1] == {"text": "eins"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'{"id": 1, "t": "x"}\n\n{"id": 2, "t": "y, z"}\n'),
        ("a.ndjson", b'{"id": 1, "t": "x"}\r\n{"id": 2, "t": "y, z"}'),
    ],
)
def test_objects_are_records_and_blank_lines_nothing(tmp_path: Path, name: str, data: bytes) -> None:
    assert items(made(tmp_path, name, data), field="t") == [
        ("x", {"id": 1, "t": "x"}),
        ("y, z", {"id": 2, "t": "y, z"}),
    ]


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.csv", b'id,t\n1,x\n2,"y, z"\n'), ("a.tsv", b"\xef\xbb\xbfid\tt\n1\tx\n\n2\ty, z\n")],
)
def test_tables_are_records_of_text(tmp_path: Path, name: str, data: bytes) -> None:
    found = items(made(tmp_path, name, data), field="t")
    assert found == [("x", {"id": "1", "t": "x"}), ("y, z", {"id": "2", "t": "y, z"})]


def test_parquet_is_records_too(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"id": [1, 2], "t": ["x", None]}), tmp_path / "a.parquet")
    corpus = open_corpus(tmp_path / "a.parquet", field="t")
    stream = read_items(corpus)
    assert next(stream) == ("x", {"id": 1, "t": "x"})
    with pytest.raises(InputError, match="row 2: field 't' is NoneType, not text"):
        next(stream)
    assert count_texts(corpus) == 2
    with pytest.raises(InputError, match="no column 'text'; there are id, t"):
        items(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        items(made(tmp_path, "b.parquet", b"PAR1 not"))


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.txt", b"fine\nb\xff\n", "line 2 is not valid UTF-8 at byte 1 of the line"),
        ("a.jsonl", b'{"text": "x"}\n["x"]\n', "line 2 is list, not an object"),
        ("a.jsonl", b'{"txt": "x"}\n', "line 1 has no field 'text'; it has txt: choose with --field"),
        ("a.jsonl", b'{"text": 3}\n', "field 'text' is int, not text"),
        ("a.csv", b"text,a\nx,1\ny\n", "line 3 has 1 fields, and the first line 2"),
        ("a.csv", b"text,text\nx,1\n", "two columns have the same name"),
        ("a.csv", b"a,b\nx,1\n", "no column 'text'; there are a, b"),
        ("a.csv", b"", "no column 'text'"),
        ("a.csv", b'text\n"x\n', "line 2"),
        ("a.csv", b"text\nfine\nb\xff\n", "line 3 is not valid UTF-8"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        items(made(tmp_path, name, data))


def test_a_line_that_is_no_json_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 2"):
        items(made(tmp_path, "a.jsonl", b'{"text": "x"}\n{"text": \n'))


def test_a_line_without_an_end_is_not_taken_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 100)
    assert items(made(tmp_path, "a.txt", b"x" * 99 + b"\n"))[0][0] == "x" * 99
    with pytest.raises(InputError, match="line 2 is longer than"):
        items(made(tmp_path, "a.txt", b"x\n" + b"y" * 200))


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("a.txt", {"kind": "xml"}, "input kind is 'xml'"),
        ("-", {"kind": "parquet"}, "standard input"),
        ("a.txt", {"field": "t"}, "plain lines have no fields"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(path: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        open_corpus(path, **options)


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_corpus(tmp_path / "none.txt")


def test_standard_input_is_read_and_its_size_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    corpus = open_corpus("-")
    assert corpus.size is None and count_texts(corpus) == 0
    assert [text for text, _ in read_items(corpus)] == ["one", "two"]


def test_texts_are_counted_from_the_first_of_them(tmp_path: Path) -> None:
    assert count_texts(open_corpus(made(tmp_path, "a.txt", b"x\n" * 700))) == 700
    assert count_texts(open_corpus(made(tmp_path, "b.txt", b"12345\n" * 20_000))) == pytest.approx(20_000, rel=0.01)
    assert count_texts(open_corpus(made(tmp_path, "c.jsonl", b"no json\n"))) == 0


def test_a_fingerprint_changes_with_the_file_the_kind_and_the_field(tmp_path: Path) -> None:
    path = made(tmp_path, "a.jsonl", b'{"text": "x"}\n')
    first = open_corpus(path).fingerprint()
    assert first == open_corpus(path).fingerprint() != open_corpus(path, field="t").fingerprint()
    made(tmp_path, "a.jsonl", b'{"text": "xy"}\n')
    assert open_corpus(path).fingerprint() != first
