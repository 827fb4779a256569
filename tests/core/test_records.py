"""Records: lazy, sliceable, and equal however they are held."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polyvec.core.errors import Corrupt
from polyvec.core.records import (
    LINES_PER_MARK,
    ColumnRecords,
    ConcatRecords,
    LineRecords,
    ListRecords,
    Records,
    RunRecords,
    as_records,
)
from polyvec.core.sources import open_source

PLAIN = [{"n": i // 3, "even": i // 3 % 2 == 0} for i in range(10)]


def lines(records: list[dict[str, object]], end: bytes = b"\n") -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records) + end


def held() -> dict[str, Records]:
    return {
        "list": ListRecords(PLAIN),
        "columns": ColumnRecords({"n": np.arange(10) // 3, "even": [r["even"] for r in PLAIN]}),
        "runs": RunRecords([(s, min(s + 3, 10), PLAIN[s]) for s in range(0, 10, 3)], 10),
        "lines": LineRecords(open_source(lines(PLAIN)), 10),
        "lines without an end": LineRecords(open_source(lines(PLAIN, b""))),
        "concat": ConcatRecords([ListRecords(PLAIN[:4]), ListRecords([]), ListRecords(PLAIN[4:])]),
        "view": ListRecords([{}, *PLAIN, {}]).view(range(1, 11)),
        "chosen": ListRecords(PLAIN[::-1]).view(np.arange(10)[::-1]),
    }


@pytest.mark.parametrize("name", list(held()))
def test_every_holder_gives_the_same_records(name: str) -> None:
    records = held()[name]
    assert len(records) == 10 and list(records) == PLAIN
    assert records[3] == PLAIN[3] and records[-1] == PLAIN[-1]
    assert records[2:7] == PLAIN[2:7] and records[::3] == PLAIN[::3] and records[5:2] == []
    assert records[np.array([4, 0])] == [PLAIN[4], PLAIN[0]]
    assert list(records.runs()) == [(s, min(s + 3, 10), PLAIN[s]) for s in range(0, 10, 3)]
    assert records.fields == ["n", "even"]
    assert type(records[0]["n"]) is int  # what JSON can hold
    for bad in (10, -11):
        with pytest.raises(IndexError):
            records[bad]


@pytest.mark.parametrize(
    "count", [0, 1, LINES_PER_MARK - 1, LINES_PER_MARK, LINES_PER_MARK + 1, 3 * LINES_PER_MARK + 5]
)
@pytest.mark.parametrize("scan", [64, 1 << 20])
def test_lines_are_found_through_the_sparse_index(count: int, scan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.core.records.SCAN_BYTES", scan)
    many = [{"row": i, "pad": "x" * (i % 17)} for i in range(count)]
    records = LineRecords(open_source(lines(many) if count else b""))
    assert len(records) == count and list(records) == many
    for row in {0, count // 2, count - 1, LINES_PER_MARK - 1, LINES_PER_MARK} & set(range(count)):
        assert records[row] == many[row]


def test_a_gap_between_runs_is_an_empty_record() -> None:
    records = RunRecords([(2, 4, {"a": 1})], 6)
    assert list(records) == [{}, {}, {"a": 1}, {"a": 1}, {}, {}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a":1}\n{"a":2}\n{}\n', "expected 2 lines, found 3 lines"),
        (b'{"a":1}\n[1]\n', "not a JSON object"),
        (b'{"a":1}\n{"a":\n', "invalid JSON"),
        (b'{"a":1}\n{"a":1,"a":2}\n', "key 'a' twice"),
        (b'{"a":1}\n{"a":NaN}\n', "NaN"),
        (b'{"a":1}\n{"a":"\xff"}\n', "UTF-8"),
        (b'{"a":1}\n' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"\n", "nests deeper"),
    ],
)
def test_bad_lines_are_corrupt_with_their_place(data: bytes, words: str) -> None:
    records = LineRecords(open_source(data, name="x.records.jsonl"), 2)
    with pytest.raises(Corrupt, match=words) as caught:
        list(records)
    assert caught.value.path == "x.records.jsonl"
    if "lines" not in words:
        assert caught.value.offset is not None and caught.value.offset >= 8


def test_fields_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        as_records({"a": [1], "b": [1, 2]})


@pytest.mark.parametrize("name", list(held()))
def test_every_holder_gives_chosen_records_and_lines_of_json(name: str) -> None:
    records = held()[name]
    rows = np.array([9, 0, 4, 4, 3])
    assert records.take(rows) == [PLAIN[row] for row in rows]
    assert records.view(rows)[1:] == [PLAIN[row] for row in rows[1:]]
    assert records.view(rows).take(np.array([4, 1])) == [PLAIN[3], PLAIN[0]]
    for start, stop in ((0, None), (2, 7), (5, 5), (9, 12)):
        found = b"".join(records.json_lines(start, stop))
        assert [json.loads(line) for line in found.splitlines()] == PLAIN[start:stop]
        assert not found or found.endswith(b"\n")


@pytest.mark.parametrize("scan", [64, 1 << 20])
def test_lines_are_passed_on_as_they_are_but_not_unread(scan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.core.records.SCAN_BYTES", scan)
    data = b"".join(b'{"n":%d,"x":1.50}\n' % row for row in range(1000))
    records = LineRecords(open_source(data))
    assert b"".join(records.json_lines()) == data
    both = ConcatRecords([records, records.view(range(10, 20))])
    assert b"".join(both.json_lines()) == data + b"".join(b'{"n":%d,"x":1.50}\n' % row for row in range(10, 20))
    rows = np.random.default_rng(0).permutation(1000)[:300]
    assert [record["n"] for record in records.take(rows)] == rows.tolist()
    with pytest.raises(Corrupt, match="twice"):
        list(LineRecords(open_source(data + b'{"n":1,"n":2}\n')).json_lines())


def test_a_chosen_record_reads_no_more_than_its_neighbours() -> None:
    data = b"".join(b'{"n":%d}\n' % row for row in range(100_000))
    source = open_source(data)
    records = LineRecords(source)
    assert records[77_777] == {"n": 77_777}
    before = source.bytes_read
    for row in range(0, 100_000, 9973):
        assert records[row] == {"n": row}
    assert source.bytes_read - before < 11 * 16 * LINES_PER_MARK


def test_runs_of_lines_are_found_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"a":1}\n' * 600 + b'{"a": 1}\n' * 3 + b'{"a":2}\n' * 500
    records = LineRecords(open_source(data))
    parsed = []
    monkeypatch.setattr(LineRecords, "_record", lambda self, row, offset, line: parsed.append(line) or json.loads(line))
    assert list(records.runs()) == [(0, 603, {"a": 1}), (603, 1103, {"a": 2})]
    assert len(parsed) == 3
