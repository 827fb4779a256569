"""similar, analogy and words on the command line."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

import polyvec as pv

GOLDEN = Path(__file__).parents[1] / "golden" / "finalfusion"


@pytest.fixture
def type_in(monkeypatch):
    """Puts text on standard input."""

    def type_text(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))

    return type_text


def test_similar_prints_scores_and_words(cli):
    code, out, _ = cli("similar", "words.fifu", "Berlin", "-k", "2")
    assert code == 0
    assert out.splitlines() == ["0.684362  New York", "0.645002  a"]


def test_similar_takes_words_from_standard_input(cli, type_in):
    type_in("Berlin\nhello\n")
    code, out, _ = cli("similar", "words.fifu", "-", "-k", "1", "--json")
    assert code == 0
    found = json.loads(out)
    assert [entry["query"] for entry in found] == ["Berlin", "hello"]
    assert found[0]["hits"][0]["word"] == "New York"


def test_an_unknown_word_is_one_line_with_near_spellings(cli):
    code, out, err = cli("similar", "words.fifu", "Berlinn")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "'Berlinn' is not in the vocabulary; near spellings: Berlin" in err


def test_unknown_words_go_through_subwords(cli):
    assert cli("similar", "buckets.fifu", "Berlinn", "-k", "1")[0] == 0


def test_codes_are_searched_without_decoding(cli):
    code, out, _ = cli("similar", "quantized.fifu", "word1", "-k", "1")
    assert code == 0 and out.split()[1] == "word19"


def test_analogy_answers_and_includes(cli, type_in):
    code, out, _ = cli("analogy", "words.fifu", "Berlin", "Tübingen", "Zürich", "-k", "1")
    assert code == 0 and out.split()[1] == "Daniël"
    code, out, _ = cli("analogy", "words.fifu", "Berlin", "Tübingen", "Zürich", "-k", "12", "--include", "c")
    assert "Zürich" in out and "Berlin" not in out
    type_in("Berlin Tübingen Zürich\nhello hallo a\n")
    code, out, _ = cli("analogy", "words.fifu", "--json", "-k", "2")
    assert code == 0 and [len(entry["hits"]) for entry in json.loads(out)] == [2, 2]


@pytest.mark.parametrize("arguments", [("Berlin",), ("a", "a", "a", "--include", "d"), ("a", "a", "a", "-m", "l2")])
def test_a_wrong_analogy_is_a_usage_error(cli, arguments):
    assert cli("analogy", "words.fifu", *arguments)[0] == 2


def test_select_keeps_the_order_of_the_list(cli, type_in):
    type_in("hello\nNew York\nnowhere\nBerlin\n")
    code, _, err = cli("words", "select", "words.fifu", "few.fifu")
    assert code == 0 and "1 words have no vector" in err
    with pv.open("few.fifu") as collection:
        assert list(collection.vocab) == ["hello", "New York", "Berlin"]
    type_in("hello\nBerlinn\n")
    code, _, err = cli("words", "select", "words.fifu", "strict.fifu", "--strict")
    assert code == 1 and "near spellings: Berlin" in err


def test_metadata_is_printed_and_set(cli, folder):
    code, out, _ = cli("words", "metadata", "words.fifu")
    assert code == 0 and out.startswith('description = "golden"\n')
    (folder / "new.toml").write_text('description = "other"\n')
    assert cli("words", "metadata", "words.fifu", "new.fifu", "--set", "new.toml")[0] == 0
    assert json.loads(cli("words", "metadata", "new.fifu", "--json")[1]) == {"description": "other"}
    (folder / "bad.toml").write_text("a = = 1\n")
    assert cli("words", "metadata", "words.fifu", "x.fifu", "--set", "bad.toml")[0] == 2


def test_accuracy_prints_each_section(cli):
    code, out, _ = cli("words", "accuracy", "words.fifu", "questions.txt", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["sections"] == [{"name": "cities", "asked": 1, "skipped": 1, "correct": 1, "accuracy": 1.0}]


def test_buckets_become_explicit(cli):
    assert cli("words", "bucket-to-explicit", "buckets.fifu", "explicit.fifu")[0] == 0
    assert cli("words", "bucket-to-explicit", "words.fifu", "explicit2.fifu")[0] == 2


def test_quantize_reports_and_reconstruct_decodes(cli):
    pytest.importorskip("faiss")
    pv.convert("vectors.fbin", "many.fifu", sidecar=False)
    code, out, _ = cli(
        "words", "quantize", "many.fifu", "q.fifu", "--subquantizers", "4", "--bits", "4", "-n", "3", "--json"
    )
    assert code == 0
    loss = json.loads(out)["quantization"]
    assert 0 < loss["worst_cosine"] <= loss["mean_cosine"] <= 1 and 0 <= loss["recall_at_10"] <= 1
    code, out, _ = cli(
        "words",
        "quantize",
        "many.fifu",
        "q2.fifu",
        "--subquantizers",
        "4",
        "--bits",
        "4",
        "-n",
        "3",
        "--quantizer",
        "opq",
    )
    assert code == 0 and "recall@10" in out
    assert cli("words", "reconstruct", "q.fifu", "r.fifu")[0] == 0
    assert cli("words", "quantize", "many.fifu", "q3.fifu", "--subquantizers", "5")[0] == 2


def test_metadata_names_no_output_that_it_does_not_write(cli, folder):
    code, out, err = cli("words", "metadata", "words.fifu", "new.fifu")
    assert (code, out) == (2, "") and "--set" in err and not (folder / "new.fifu").exists()
    assert cli("words", "metadata", "words.fifu", "-o", "new.fifu")[0] == 2


def test_repeated_words_are_settled_by_a_flag(cli, folder):
    (folder / "d.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    code, _, err = cli("convert", "d.txt", "d.fifu")
    assert code == 2 and err.count("\n") == 1 and "'a' stands in rows 0 and 2" in err
    code, out, _ = cli("convert", "d.txt", "d.fifu", "--duplicates", "first")
    assert code == 0 and "1 rows of repeated words" in out
    code, _, err = cli("similar", "d.txt", "a")
    assert code == 0 and "look-ups give the first" in err
    code, _, err = cli("search", "d.txt", "--word", "a", "-k", "1")
    assert code == 0 and "its first row, 0, is the query" in err
    code, out, _ = cli("merge", "d.txt", "d.txt", "--output", "m.vec", "--duplicates", "rename")
    assert code == 0
    with pv.open("m.vec") as merged:
        assert list(merged.vocab) == ["a", "b", "a_2", "a_3", "b_2", "a_4"]


def test_selected_words_take_the_options_of_their_format(cli, type_in, folder):
    (folder / "d.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    type_in("b\na\n")
    code, out, _ = cli("words", "select", "d.txt", "few.fifu", "--option", "normalize=false")
    assert code == 0 and "the first row is taken: a" in out
    with pv.open("few.fifu") as few:
        assert few.vectors.to_numpy().tolist() == [[3, 4], [1, 2]]


def test_a_table_of_subwords_has_no_words_to_find(cli, folder):
    shutil.copy(GOLDEN.parent / "floret" / "table.floret", folder / "t.floret")
    for arguments in (("similar", "t.floret", "Berlin"), ("analogy", "t.floret", "a", "b", "c")):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "") and "subwords only" in err


def test_accuracy_of_no_questions_is_no_number(cli, folder):
    (folder / "none.txt").write_text("\n")
    code, _, err = cli("words", "accuracy", "words.fifu", "none.txt")
    assert code == 2 and "there are no questions in it" in err
    (folder / "unknown.txt").write_text(": nowhere\nx1 x2 x3 x4\n")
    code, out, _ = cli("words", "accuracy", "words.fifu", "unknown.txt", "--json")
    assert code == 0 and json.loads(out)["total"]["accuracy"] is None
    code, out, _ = cli("words", "accuracy", "words.fifu", "unknown.txt")
    assert code == 0 and "%" not in out


def test_select_strictly_counts_no_others_where_there_are_none(cli, type_in):
    type_in("Berlin\nNowhereville\n")
    code, _, err = cli("words", "select", "words.fifu", "few.fifu", "--strict")
    assert code == 1 and "'Nowhereville' is not in the vocabulary" in err and "0 more" not in err


def test_a_mark_that_editors_put_before_a_list_is_no_part_of_its_first_word(cli, type_in):
    type_in("\ufeffBerlin\n")
    code, _, err = cli("words", "select", "words.fifu", "few.fifu", "--strict")
    assert code == 0, err
    type_in("\ufeffBerlin\n")
    assert cli("similar", "words.fifu", "-k", "1")[0] == 0
