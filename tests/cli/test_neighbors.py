"""search, truth, recall on the command line."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import polyvec as pv


def test_search_finds_a_row_itself(cli):
    code, out, _ = cli("search", "vectors.fbin", "--row", "17", "--k", "2", "--json")
    found = json.loads(out)
    assert code == 0 and found["rows"][0][0] == 17 and found["queries"] == ["row 17"]
    assert found["scores"][0][0] == pytest.approx(1.0)


def test_search_carries_its_metric(cli):
    found = json.loads(cli("search", "vectors.fbin", "--row", "1", "--k", "1", "--json")[1])
    assert (found["metric"], found["metric_from"]) == ("cosine", "default")
    pv.write("stated.npy", np.eye(4, dtype=np.float32), metadata={"distance": "euclidean"})
    code, out, err = cli("search", "stated.npy", "--row", "1", "--k", "1")
    assert code == 0 and "squared l2" in out and err == "metric: l2, stated by stated.npy (distance=euclidean)\n"
    code, out, err = cli("search", "stated.npy", "--row", "1", "--k", "1", "-m", "ip")
    assert "inner product" in out and err.startswith("note: ranked by ip as asked; stated.npy (distance=euclidean)")
    many = json.loads(cli("search", "vectors.fbin", "--row", "1", "--row", "2", "--json")[1])
    assert set(many) == set(found) and len(many["rows"]) == 2 and len(found["rows"]) == 1


def test_word_answers_carry_their_metric(cli):
    for command in (("similar", "words.fifu", "Berlin"), ("analogy", "words.fifu", "Berlin", "Tübingen", "Zürich")):
        assert {e["metric"] for e in json.loads(cli(*command, "--k", "2", "--json")[1])} == {"cosine"}
        found = json.loads(cli(*command, "--k", "2", "-m", "angular", "--json")[1])
        assert {e["metric"] for e in found} == {"angular"}


def test_search_filters_by_record(cli):
    _, out, _ = cli("search", "vectors.fbin", "--queries", "queries.fbin", "--where", "kind=b", "--k", "4", "--json")
    assert all(row % 2 == 1 for rows in json.loads(out)["rows"] for row in rows)


@pytest.mark.parametrize(
    ("pair", "rows"),
    [
        ("price=2", {1, 2}),
        ("ok=true", {0, 2}),
        ("price=null", {3}),
        ("price=", {3}),
        ("name=b", {1}),
        ("price=9", set()),
    ],
)
def test_where_compares_values_not_spellings(cli, pair, rows):
    table = {"price": [1.5, 2.0, 2.0, None], "ok": [True, False, True, False], "name": ["a", "b", "c", "d"]}
    pv.write("priced.npy", np.eye(4, dtype=np.float32), records=[dict(zip(table, row)) for row in zip(*table.values())])
    code, out, err = cli("search", "priced.npy", "--row", "0", "--where", pair, "--json")
    found = json.loads(out)
    assert code == 0 and {row for row in found["rows"][0] if row >= 0} == rows and not err
    said = f"only {len(rows)} of the 4 rows asked for passed the filter {pair}" if rows else f"no record has {pair}"
    assert found["notes"] == ["k is 4, as many as there are rows; it is 10 unless given", said]
    code, out, err = cli("search", "priced.npy", "--row", "0", "--where", pair, "-k", "4")
    assert code == 0 and "-1" not in out and err == f"note: {said}\n" and ("no rows" in out) is not bool(rows)


def test_where_takes_no_ranges(cli):
    code, _, err = cli("search", "vectors.fbin", "--row", "0", "--where", "n>=2000")
    assert code == 2 and "takes only FIELD=VALUE, not 'n>=2000'" in err


def test_a_truth_of_fewer_rows_than_the_usual_k_lists_them_all(cli):
    pv.write("small.npy", np.eye(4, dtype=np.float32))
    code, out, err = cli("truth", "small.npy", "small.npy", "-o", "all.ibin", "-m", "l2")
    assert code == 0 and "4 queries x 4 of 4 rows" in out and "k is 4, as many as there are rows; it is 100" in err
    code, _, err = cli("truth", "small.npy", "small.npy", "-o", "many.ibin", "-m", "l2", "-k", "5")
    assert code == 2 and "the base has only 4 rows" in err


def test_search_prints_records_and_words(cli):
    _, out, _ = cli("search", "vectors.fbin", "--row", "3", "--k", "1")
    assert "name=item 3" in out
    pv.write("words.npy", np.eye(3, dtype=np.float32), vocab=["king", "queen", "rook"])
    code, out, _ = cli("search", "words.npy", "--word", "queen", "--k", "1")
    assert code == 0 and out.splitlines()[0] == "queen" and out.strip().endswith("queen")


def test_search_keeps_its_index_beside_the_file(cli, folder):
    plain = cli("search", "vectors.fbin", "--queries", "queries.fbin", "--json")[1]
    code, out, err = cli("search", "vectors.fbin", "--queries", "queries.fbin", "--json", "--index")
    assert code == 0 and out == plain and (folder / "vectors.fbin.pvindex").exists() and "wrote" in err
    code, out, err = cli("search", "vectors.fbin", "--queries", "queries.fbin", "--json", "--index")
    assert code == 0 and out == plain and not err
    pv.write("vectors.fbin", np.ones((300, 16), np.float32))
    code, _, err = cli("search", "vectors.fbin", "--queries", "queries.fbin", "--index")
    assert code == 2 and "the index is of other rows" in err


def test_truth_then_recall(cli, folder):
    assert cli("truth", "vectors.fbin", "queries.fbin", "-o", "gt.truth", "--k", "20", "-m", "ip")[0] == 0
    code, out, _ = cli("truth", "vectors.fbin", "queries.fbin", "--check", "gt.truth", "-m", "ip")
    assert code == 0 and "is of this base" in out
    code, out, _ = cli("recall", "gt.truth", "gt.truth", "--k", "1,20", "--json")
    assert [one["recall"] for one in json.loads(out)["recalls"]] == [1.0, 1.0] and json.loads(out)["metric"] == "ip"
    code, out, _ = cli("recall", "result.ibin", "truth.ibin", "--k", "10")
    assert code == 0 and "recall@10" in out and "0.9000" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["search", "vectors.fbin"], "give one of --queries, --row, --word and --text, not none"),
        (["search", "vectors.fbin", "--row", "1", "--word", "a"], "not --row and --word"),
        (["search", "vectors.fbin", "--row", "300"], "row 300 does not exist; the base has rows 0 to 299"),
        (["search", "vectors.fbin", "--word", "king"], "needs a vocabulary"),
        (["search", "vectors.fbin", "--text", "hello"], "needs a model"),
        (["search", "vectors.fbin", "--row", "1", "--k", "0"], "k is 0"),
        (["search", "vectors.fbin", "--row", "1", "--k", "301"], "only 300 rows"),
        (["search", "vectors.fbin", "--row", "1", "-m", "x"], "metric 'x' is unknown"),
        (["search", "vectors.fbin", "--row", "1", "--where", "kind"], "FIELD=VALUE"),
        (["search", "vectors.fbin", "--row", "1", "--where", "colour=red"], "no field 'colour'"),
        (["search", "truth.ibin", "--row", "1"], "int32 whole numbers, such as ids"),
        (["search", "shard-*.fbin", "--row", "1", "--index"], "merge shards first"),
        (["truth", "vectors.fbin", "queries.fbin"], "either --output"),
        (["truth", "vectors.fbin", "queries.fbin", "-o", "vectors.fbin", "-f"], "also an input"),
        (["truth", "vectors.fbin", "queries.fbin", "-o", "truth.ibin"], "use --force"),
        (["truth", "vectors.fbin", "queries.fbin", "--check", "result.ibin", "-m", "l2"], "not of this base under l2"),
        (["recall", "result.ibin", "truth.ibin", "--k", "a"], "whole numbers by commas"),
        (["recall", "result.ibin", "truth.ibin", "--k", "21"], "20 neighbours a query"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(cli, arguments, says):
    code, _, err = cli(*arguments)
    assert code == 2 and says in err and len(err.strip().splitlines()) == 1


def test_quality_reports_in_text_json_and_html(cli, folder):
    code, out, _ = cli("quality", "vectors.fbin", "--suggest", "--recall", "0.5", "--k", "5", "--report", "r.html")
    assert (
        code == 0
        and "Smallest encoding that holds recall@5 of 0.5 and can be written: int8-chunk" in out
        and "int8-row" in out
    )
    assert "<svg" in (folder / "r.html").read_text()
    code, out, _ = cli("quality", "vectors.fbin", "-e", "float16", "--k", "5", "--json")
    assert json.loads(out)["entries"][0]["name"] == "float16"


@pytest.mark.parametrize("recall", ["0.2", "0.9999"])
@pytest.mark.parametrize("file", ["vectors.fbin", "cards.cvc", "shard-*.fbin", "two.npz", "a name.npy"])
def test_the_suggested_command_does_what_was_measured(cli, folder, file, recall):
    with pv.open("vectors.fbin") as c:
        rows = c.vectors.to_numpy()
    pv.write("two.npz", {"main": rows, "other": rows[:3]})
    pv.write("a name.npy", rows)
    found = json.loads(cli("quality", file, "--suggest", "--recall", recall, "--k", "5", "--json")[1])
    assert found["suggestion"] in ("int8-chunk", "float16", "raw")
    if found["suggestion"] == "raw":
        assert found["command"] is None
        return
    words = shlex.split(found["command"])
    assert words[:2] == ["polyvec", "convert"] and cli(*words[1:])[0] == 0
    compared = json.loads(cli("quality", file, words[3], "--k", "5", "--json")[1])["entries"][0]
    tried = next(e for e in found["entries"] if e["name"] == found["suggestion"])
    assert (compared["recalls"], compared["max_error"]) == (tried["recalls"], tried["max_error"])


@pytest.mark.parametrize("name", ["r.html", "r.json", "r.txt"])
def test_convert_reports_what_was_lost(cli, folder, name):
    code, _, err = cli("convert", "vectors.fbin", "o.f16bin", "-e", "float16", "--report", name, "--no-sidecar")
    assert code == 0, err
    assert "o.f16bin" in (folder / name).read_text()


def test_stats_prints_and_writes(cli, folder):
    code, out, _ = cli("stats", "vectors.fbin", "--report", "s.html")
    assert code == 0 and ": normalised" in out and "intrinsic dimension" in out and (folder / "s.html").exists()
    found = json.loads(cli("stats", "vectors.fbin", "--json")[1])
    assert found["rows"] == 300 and len(found["dimensions"]["mean"]) == 16


def test_an_unknown_word_gives_near_spellings(cli):
    code, _, err = cli("search", "words.fifu", "--word", "Berln")
    assert code == 2 and "near spellings: Berlin" in err


@pytest.mark.parametrize(
    ("made_with", "told"),
    [
        ({}, "name its weights with --model"),
        ({"model": "all-MiniLM-L6-v2"}, "add --model minilm"),
        ({"model": "sentence-transformers/all-MiniLM-L6-v2"}, "add --model minilm"),
        ({"model_name": "BAAI/bge-small"}, "the base is of BAAI/bge-small: add --model bge-small"),
    ],
)
def test_a_text_without_a_model_is_told_which_made_the_base(cli, made_with, told):
    pv.write("embedded.npy", np.eye(4, dtype=np.float32), metadata=made_with)
    code, _, err = cli("search", "embedded.npy", "--text", "cat")
    assert code == 2 and told in err


def test_a_result_of_another_metric_than_the_truth_is_told(cli):
    for metric in ("l2", "cosine"):
        cli("truth", "vectors.fbin", "queries.fbin", "-o", f"{metric}.ibin", "-m", metric, "-k", "10")
    code, _, err = cli("recall", "l2.ibin", "cosine.ibin", "-k", "10")
    assert code == 2 and "of different metrics" in err and "l2.ibin states l2 and cosine.ibin cosine" in err
    assert "--metric" not in err
    code, _, err = cli("recall", "l2.ibin", "l2.ibin", "-k", "10", "-m", "ip")
    assert code == 2 and "states l2 and ip was asked for; leave --metric" in err


def test_truth_names_what_it_wrote_beside_its_output(cli, folder):
    _, out, _ = cli("truth", "vectors.fbin", "queries.fbin", "-o", "gt.ibin", "-m", "l2")
    assert "beside it: gt.ibin.metadata.json" in out and (folder / "gt.ibin.metadata.json").is_file()
    _, out, _ = cli("truth", "vectors.fbin", "queries.fbin", "-o", "two.ibin", "--style", "cuvs", "-m", "l2", "--json")
    assert json.loads(out)["sidecars"] == ["two.ibin.metadata.json", "two.distances.fbin.metadata.json"]


def test_shards_are_called_by_their_pattern(cli):
    for command in (("quality", "shard*.fbin", "--encoding", "float16", "--k", "1"), ("stats", "shard*.fbin")):
        _, out, _ = cli(*command)
        assert "*" in out.splitlines()[0] and "(3 files)" in out.splitlines()[0]
