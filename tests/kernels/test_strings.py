"""String tables: the compiled walk, index and text parser against their Python references."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.kernels import available_paths, strings, use_path
from polyvec.kernels.paths import native

WORDS = ["Berlin", "Tübingen", "New York", "实验", "emoji😀x", "", "a", "überspringen"]


@pytest.fixture(params=sorted({available_paths()[0], "numpy"}))
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param not in available_paths():
        pytest.skip(f"no {request.param} path here")
    with use_path(request.param):
        yield request.param


def table(words: list[str], gap: int = 0) -> np.ndarray:
    parts = [len(w.encode()).to_bytes(4, "little") + w.encode() + bytes(gap) for w in words]
    return np.frombuffer(b"".join(parts), np.uint8)


def test_a_table_walks_to_its_words(path: str) -> None:
    for gap in (0, 8):
        data = table(WORDS, gap)
        walk = strings.walk(data, start=0, stop=len(data), count=len(WORDS), gap=gap)
        assert walk.end == len(data)
        assert strings.decode(walk.strings) == WORDS


def test_every_truncation_ends_the_walk_before_the_word(path: str) -> None:
    data = table(WORDS)
    for stop in range(len(data)):
        walk = strings.walk(data, start=0, stop=stop, count=len(WORDS))
        assert len(walk.strings) < len(WORDS)
        assert walk.end <= stop
        assert strings.decode(walk.strings) == WORDS[: len(walk.strings)]


@pytest.mark.parametrize("count", [2**31, 2**63, 2**64 - 1])
def test_a_count_beyond_the_bytes_allocates_nothing_for_it(path: str, count: int) -> None:
    data = table(WORDS)
    assert len(strings.walk(data, start=0, stop=len(data), count=count).strings) == len(WORDS)


def test_a_word_of_four_gigabytes_ends_the_walk(path: str) -> None:
    data = np.frombuffer(b"\xff\xff\xff\xffabc", np.uint8)
    walk = strings.walk(data, start=0, stop=7, count=1)
    assert (len(walk.strings), walk.end) == (0, 0)


@pytest.mark.parametrize(
    "bad",
    [
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xff",
        b"abcdefgh\xc3",
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
    ],
)
def test_bytes_that_are_not_utf8_are_found_and_replaced(path: str, bad: bytes) -> None:
    packed = strings.pack(["ok", bad, "é" * 9, bad])
    rows = strings.find_invalid(packed)
    assert rows.tolist() == [1, 3]
    fixed = strings.decode(strings.replace_invalid(packed, rows))
    assert fixed == ["ok", bad.decode(errors="replace"), "é" * 9, bad.decode(errors="replace")]


@given(st.lists(st.binary(max_size=12), max_size=20))
@settings(max_examples=60, deadline=None)
def test_utf8_is_what_python_says_it_is(words: list[bytes]) -> None:
    def valid(word: bytes) -> bool:
        try:
            word.decode()
        except UnicodeDecodeError:
            return False
        return True

    expected = [row for row, word in enumerate(words) if not valid(word)]
    assert strings.find_invalid(strings.pack(words)).tolist() == expected


def test_the_first_of_equal_words_wins_and_the_others_are_reported(path: str) -> None:
    index = strings.build_index(strings.pack(["a", "b", "a", "c", "b", "a"]))
    assert index.duplicates.tolist() == [2, 4, 5]
    assert [index.find(word) for word in ("a", "b", "c", "d", "\ud800")] == [0, 1, 3, -1, -1]


@given(st.lists(st.text(max_size=20), max_size=60), st.lists(st.text(max_size=20), max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_index_agrees_with_a_dict(words: list[str], others: list[str]) -> None:
    packed = strings.pack(words)
    index, reference = strings.build_index(packed), strings.DictIndex(packed)
    assert index.duplicates.tolist() == reference.duplicates.tolist()
    asked = words + others
    assert index.find_many(asked).tolist() == reference.find_many(asked).tolist()
    queries = strings.pack(asked)
    found = index.find_table(queries.data, queries.starts, queries.stops)
    assert found.tolist() == [reference.find(word) for word in asked]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_large_index_is_the_same_on_any_number_of_threads(threads: int) -> None:
    module = native()
    if module is None:
        pytest.skip("the compiled module is missing")
    # Just under the load that doubles the table: words reach beyond their half of it, and around its end.
    words = [b"%d" % number for number in [*range(80_000), *range(0, 73_810, 10)]]
    table, asked = strings.pack(words), strings.pack([b"%d" % number for number in range(80_500)])
    expected = [*range(80_000), *[-1] * 500]
    for seed in range(8):
        index = module.WordIndex(table.data, table.starts, table.stops, seed, threads)
        assert index.duplicates.tolist() == list(range(80_000, len(words)))
        assert index.find_table(asked.data, asked.starts, asked.stops).tolist() == expected


def test_word2vec_words_end_at_their_space_and_skip_newlines(path: str) -> None:
    data = np.frombuffer(b"ab 1234\ncd 5678ef 9012", np.uint8)
    walk = strings.scan(data, start=0, stop=len(data), count=9, delimiter=32, gap=4, newlines=True)
    assert strings.decode(walk.strings) == ["ab", "cd", "ef"]
    cut = strings.scan(data, start=0, stop=len(data) - 1, count=9, delimiter=32, gap=4, newlines=True)
    assert strings.decode(cut.strings) == ["ab", "cd"]


def test_a_text_line_is_split_from_the_right(path: str) -> None:
    text = b"New York 1 2.5\r\n. . . -3e-2 +4\n\n  5 6 7 \nx\t8\t9"
    data = np.frombuffer(text, np.uint8)
    lines = strings.scan_text(data, start=0, stop=len(data), count=100, dim=2)
    assert strings.decode(lines.strings) == ["New York", ". . .", "  5", "x"]
    out = np.empty((4, 2), np.float32)
    assert strings.parse_rows(data, stop=len(data), numbers=lines.numbers, out=out) == -1
    assert out.tolist() == np.array([[1, 2.5], [-0.03, 4], [6, 7], [8, 9]], np.float32).tolist()
    short = strings.scan_text(np.frombuffer(b"a 1 2\nb 1\n", np.uint8), start=0, stop=10, count=9, dim=2)
    assert (len(short.strings), short.end, short.fields) == (1, 6, 2)


@pytest.mark.parametrize("number", [b"1_0", b"0x10", b"1e", b"--1", b"+-1", b"abc", b"1,5", b"1.5f", b"nanx"])
def test_what_is_not_a_number_is_named(path: str, number: bytes) -> None:
    data = np.frombuffer(b"w 1 " + number, np.uint8)
    out = np.empty((1, 2), np.float32)
    assert strings.parse_rows(data, stop=len(data), numbers=np.array([2]), out=out) == 1


def test_numbers_round_once_to_float32(path: str) -> None:
    # Just above the middle of two float32s, so close that a float64 between them lies on it.
    tie = b"1.00000005960464477539062500000001"
    data = np.frombuffer(b"w " + tie + b" 1e60 -1e-60 inf 3.4028236e38 1e-45", np.uint8)
    out = np.empty((1, 6), np.float32)
    assert strings.parse_rows(data, stop=len(data), numbers=np.array([2]), out=out) == -1
    assert out[0, 0] == np.nextafter(np.float32(1), np.float32(2))
    assert out[0, 1:].tolist() == [np.inf, -0.0, np.inf, np.inf, np.float32(1e-45)]


def test_formatted_rows_read_back_to_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    special = np.array([0, -0.0, 1e5, 123456, 16777216, 3e38, 1e-45, 1e22, 1e-5, 0.0001, np.inf], np.float32)
    rows = np.concatenate([bits[~np.isnan(bits)], special])[None]
    packed = strings.pack(["New York"])
    text = np.frombuffer(strings.format_rows(packed, rows), np.uint8)
    lines = strings.scan_text(text, start=0, stop=len(text), count=1, dim=rows.shape[1])
    out = np.empty_like(rows)
    assert strings.parse_rows(text, stop=len(text), numbers=lines.numbers, out=out) == -1
    assert np.array_equal(out.view(np.uint32), rows.view(np.uint32))


def test_both_paths_write_the_same_text() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2**32, (3, 300), dtype=np.uint32).view(np.float32)
    rows[np.isnan(rows)] = 1
    packed = strings.pack(["a", "b c", "d"])
    fast = strings.format_rows(packed, rows)
    with use_path("numpy"):
        assert strings.format_rows(packed, rows) == fast
