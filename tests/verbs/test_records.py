"""--ids and --records: from files, fields and columns, one a row, told in one line where they are not."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.verbs.records import read_records

ROWS = vectors(6, 3)
NAMES = [f"n{i}" for i in range(6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pv.write(tmp_path / "a.fbin", ROWS, records=[{"name": name, "n": i, "x": 0.5} for i, name in enumerate(NAMES)])
    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in NAMES))
    np.save(tmp_path / "ids.npy", np.arange(6) + 2**40)
    lines = [{"id": i + 10, "key": name} for i, name in enumerate(NAMES)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "t.csv").write_text("key,year\n" + "".join(f"{name},{i}\n" for i, name in enumerate(NAMES)))
    (tmp_path / "t.json").write_text(json.dumps(lines))
    (tmp_path / "one.csv").write_text("key\n" + "".join(f"{name}\n" for name in NAMES))
    return tmp_path


def ids_of(path: Path) -> list:
    with pv.open(path) as found:
        return [v if isinstance(v, str) else int(v) for v in found.ids]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ids.txt", NAMES),
        ("ids.npy", [2**40 + i for i in range(6)]),
        ("t.jsonl", [10 + i for i in range(6)]),
        ("t.jsonl:key", NAMES),
        ("t.json:key", NAMES),
        ("t.csv:key", NAMES),
        ("t.csv:year", list(range(6))),
        ("one.csv", NAMES),
        ("name", NAMES),
        ("n", list(range(6))),
    ],
)
def test_ids_come_from_files_and_fields(folder: Path, monkeypatch, given: str, expected: list) -> None:
    monkeypatch.chdir(folder)
    receipt = pv.convert("a.fbin", "b.fbin", ids=given)
    assert any("ids" in name for name in receipt.sidecars) and ids_of(folder / "b.fbin") == expected
    pv.merge(["a.fbin", "a.fbin"], "m.fbin")
    with pytest.raises((pv.InputError, pv.Corrupt), match="12"):  # six ids for twelve rows
        pv.merge(["a.fbin", "a.fbin"], "m2.fbin", ids=given if given not in ("name", "n") else "t.csv:key")


def test_ids_come_from_parquet_and_columns(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    pv.write(folder / "t.parquet", {"vectors": ROWS, "number": np.arange(6) * 3})
    pv.convert(folder / "t.parquet", folder / "b.npz", ids="number")
    assert ids_of(folder / "b.npz") == [0, 3, 6, 9, 12, 15]
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"key": NAMES, "n": range(6)}), folder / "plain.parquet")
    pv.convert(
        folder / "a.fbin", folder / "c.fbin", ids=f"{folder}/plain.parquet:key", records=folder / "plain.parquet"
    )
    assert ids_of(folder / "c.fbin") == NAMES
    with pv.open(folder / "c.fbin") as found:
        assert found.records[2] == {"key": "n2", "n": 2}


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.json"])
def test_records_take_the_place_of_the_sources(folder: Path, name: str) -> None:
    pv.convert(folder / "a.fbin", folder / "b.cvc", records=folder / name, ids="key", encoding="int8")
    with pv.open(folder / "b.cvc") as found:
        assert found.records[3]["key"] == "n3" and "name" not in found.records[3]
    assert ids_of(folder / "b.cvc") == NAMES


def test_ids_given_as_values_are_ids(folder: Path) -> None:
    pv.convert(folder / "a.fbin", folder / "b.fbin", ids=NAMES[::-1])
    assert ids_of(folder / "b.fbin") == NAMES[::-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nothing", "no such file, and no such field or column; there are name, n"),
        ("x", "the field 'x' of row 0 holds 0.5"),
        ("t.csv", r"say which field the ids are, .*t\.csv:FIELD; there are key, year"),
        ("t.csv:none", "t.csv: no field 'none'; there are key, year"),
        ("a.fbin", "ids are read from .txt, .npy"),
        ("short.txt", "expected 6 lines, found 2"),
        ("floats.npy", "ids are whole numbers"),
    ],
)
def test_bad_ids_are_one_line(folder: Path, monkeypatch, given: str, words: str) -> None:
    monkeypatch.chdir(folder)
    Path("short.txt").write_text("a\nb\n")
    np.save("floats.npy", np.zeros(6))
    for dry_run in (False, True):
        with pytest.raises((pv.InputError, pv.Corrupt), match=words) as caught:
            pv.convert("a.fbin", "b.fbin", ids=given, dry_run=dry_run)
        assert "\n" not in str(caught.value)
    assert not Path("b.fbin").exists()


def test_a_file_that_is_not_there_is_told_as_one(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        pv.convert(folder / "a.fbin", folder / "b.fbin", ids=folder / "gone.txt")
    with pytest.raises(FileNotFoundError, match=r"gone\.jsonl"):
        pv.convert(folder / "a.fbin", folder / "b.fbin", records=folder / "gone.jsonl")


def test_records_of_another_number_are_refused(folder: Path) -> None:
    (folder / "few.jsonl").write_text("{}\n")
    with pytest.raises(pv.InputError, match=r"few\.jsonl: there are 1 records for 6 rows; give one record a row"):
        pv.convert(folder / "a.fbin", folder / "b.fbin", records=folder / "few.jsonl")


def test_the_files_of_ids_and_records_are_inputs_that_no_output_may_be(folder: Path) -> None:
    for option in ({"ids": folder / "ids.npy"}, {"records": folder / "t.json"}):
        target = next(iter(option.values()))
        with pytest.raises(pv.InputError, match="also an input"):
            pv.convert(folder / "a.fbin", target, format="npy", **option)


def test_parts_of_a_resumable_job_have_their_own(folder: Path) -> None:
    with pytest.raises(pv.InputError, match="go without --resume"):
        pv.convert(folder / "a.fbin", folder / "b.fbin", ids="name", resume=True)
    with pytest.raises(pv.InputError, match="go without --resume"):
        pv.merge([folder / "a.fbin"], folder / "b.fbin", records="t.csv", resume=True)


@contextmanager
def pipe(path: Path, text: str) -> Iterator[Path]:
    """A pipe whose bytes come once, from another thread."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,), daemon=True)
    writer.start()
    yield path
    writer.join(10)


def test_ids_come_from_a_pipe(folder: Path) -> None:
    with pipe(folder / "63", "".join(f"{name}\n" for name in NAMES)) as ids:
        pv.convert(folder / "a.fbin", folder / "out.fbin", ids=str(ids))
    assert ids_of(folder / "out.fbin") == NAMES


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv"])
def test_records_and_their_fields_come_from_a_pipe(folder: Path, name: str) -> None:
    text = (folder / name).read_text()
    with pipe(folder / "62", text) as records:
        pv.convert(folder / "a.fbin", folder / "out.fbin", records=records)
    with pv.open(folder / "out.fbin") as found:
        assert [record["key"] for record in found.records] == NAMES
    with pipe(folder / "63", text) as ids:
        pv.convert(folder / "a.fbin", folder / "other.fbin", ids=f"{ids}:key")
    assert ids_of(folder / "other.fbin") == NAMES


def test_a_mark_that_editors_put_before_text_is_no_part_of_the_first_id(folder: Path) -> None:
    (folder / "marked.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8-sig")
    pv.convert(folder / "a.fbin", folder / "out.fbin", ids=folder / "marked.txt")
    assert ids_of(folder / "out.fbin") == NAMES
    pv.write(folder / "own.fbin", ROWS, ids=["\ufeffa", *NAMES[1:]])  # while an id that has it keeps it
    assert ids_of(folder / "own.fbin") == ["\ufeffa", *NAMES[1:]]


def test_a_table_in_latin_1_is_told_with_its_line_and_what_to_do(folder: Path) -> None:
    (folder / "old.csv").write_bytes("key\nfive\ncafé\n".encode("latin1"))
    with pytest.raises(pv.Corrupt, match=r"old\.csv: .*line 3.*iconv -f latin1"):
        pv.convert(folder / "a.fbin", folder / "out.fbin", records=folder / "old.csv")


def test_resume_refuses_ids_and_says_the_way_round(folder: Path) -> None:
    with pytest.raises(pv.InputError, match=r"go without --resume.*join with --resume first, then convert"):
        pv.convert(folder / "a.fbin", folder / "out.fbin", resume=True, ids="name")


def test_a_field_that_a_table_lacks_is_told_with_what_there_is(folder: Path) -> None:
    (folder / "s.csv").write_text("name;year\n" + "".join(f"{name};1\n" for name in NAMES))
    for given, said in (
        ("s.csv:name", r"no field 'name'; there are name;year: ';' seems to separate the columns"),
        ("t.csv:title", r"no field 'title'; there are key, year: choose one of them"),
    ):
        with pytest.raises(pv.InputError, match=said):
            pv.convert(folder / "a.fbin", folder / "out.fbin", ids=f"{folder}/{given}")


def test_a_table_of_records_is_read_with_its_types(tmp_path: Path):
    (tmp_path / "t.csv").write_text("name,year,price,zip\nA,1999,1.5,007\nB,,2,010\n")
    assert read_records(tmp_path / "t.csv")[:] == [
        {"name": "A", "year": 1999, "price": 1.5, "zip": "007"},
        {"name": "B", "year": None, "price": 2.0, "zip": "010"},
    ]
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(pv.Corrupt, match="line 3"):
        read_records(tmp_path / "bad.csv")
    (tmp_path / "nan.csv").write_text("a\nnan\n1\n")
    assert read_records(tmp_path / "nan.csv")[0] == {"a": "nan"}
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(pv.Corrupt, match="list of JSON objects"):
        read_records(tmp_path / "bad.json")
    with pytest.raises(pv.InputError, match="records are read from"):
        read_records(tmp_path / "x.txt")
