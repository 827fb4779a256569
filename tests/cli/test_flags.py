"""Flags: one meaning each in all commands, and what they were called before."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli.spellings import RENAMED, known_options, renew
from polyvec.cli.terminal import build


def leaves(command, name=""):
    children = getattr(command, "commands", {})
    if not children:
        yield name.strip(), command
    for child, below in children.items():
        yield from leaves(below, f"{name} {child}")


LEAVES = dict(leaves(build()))
OPTIONS = [(name, p) for name, command in LEAVES.items() for p in command.params if p.param_type_name == "option"]


def meaning(param):
    """What a flag says it does (its first clause), its spellings, and whether it takes a value."""
    clause = re.split(r"[:;.,(]", param.help or "")[0].strip()
    return clause, frozenset(param.opts), frozenset(param.secondary_opts), param.is_flag


def test_every_flag_and_short_form_has_one_meaning():
    found = defaultdict(lambda: defaultdict(list))
    for name, param in OPTIONS:
        for flag in (*param.opts, *param.secondary_opts):
            found[flag][meaning(param)].append(name)
    several = {flag: dict(meanings) for flag, meanings in found.items() if len(meanings) > 1}
    assert not several


def test_every_idea_has_one_flag():
    """The same first clause is the same flag: no second name for what another command already calls something."""
    found = defaultdict(set)
    for _, param in OPTIONS:
        found[meaning(param)[0]].add(frozenset(param.opts))
    assert {clause: flags for clause, flags in found.items() if len(flags) > 1} == {}


def test_every_flag_has_a_help_text():
    assert [f"{name} {param.opts[0]}" for name, param in OPTIONS if not param.help] == []


def test_output_input_formats_and_options_are_spelt_alike():
    spelt = {flag: {tuple(p.opts) for _, p in OPTIONS if flag in p.opts} for flag in ("--output", "--option")}
    assert spelt == {"--output": {("--output", "-o")}, "--option": {("--option",)}}
    assert not [name for name, p in OPTIONS if "--format" in p.opts or "-O" in p.opts]


def test_every_command_that_writes_takes_output(cli, folder):
    writing = {name for name, p in OPTIONS if "--force" in p.opts}
    assert writing <= {name for name, p in OPTIONS if "--output" in p.opts}
    assert cli("convert", "vectors.fbin", "-o", "a.npy")[0] == 0
    assert cli("sample", "vectors.fbin", "--output", "b.npy", "--head", "2")[0] == 0
    assert cli("merge", "shard-*.fbin", "-o", "c.npy")[0] == 0
    assert [np.load(name).shape for name in ("a.npy", "b.npy", "c.npy")] == [(300, 16), (2, 16), (300, 16)]
    code, _, err = cli("convert", "vectors.fbin", "d.npy", "-o", "e.npy")
    assert code == 2 and "two outputs are named, d.npy and e.npy" in err
    code, _, err = cli("convert", "vectors.fbin")
    assert code == 2 and "no output is named" in err


OLD = [
    (["merge", "shard-*.fbin", "-O", "o.fbin"], "-O is --output now", "o.fbin"),
    (["merge", "shard-*.fbin", "-Oo.fbin"], "-O is --output now", "o.fbin"),
    (["truth", "vectors.fbin", "queries.fbin", "-O", "o.ibin", "--no-resume", "-m", "l2"], "-O is --output", "o.ibin"),
    (["convert", "vectors.fbin", "o", "--format", "npy"], "--format is --to now", "o"),
    (["convert", "vectors.fbin", "o", "--format=npy"], "--format is --to now", "o"),
    (["convert", "vectors.fbin", "o.h5", "-o", "compression=gzip"], "-o is the output now", "o.h5"),
    (["convert", "vectors.fbin", "o.h5", "-ocompression=gzip"], "--option compression=gzip", "o.h5"),
    (["sample", "vectors.fbin", "-o", "compression=gzip", "-o", "o.h5", "--head", "2"], "--option compr", "o.h5"),
    (["info", "vectors.fbin", "--format", "fbin"], "--format is --from now", None),
    (["verify", "vectors.fbin", "--format", "fbin"], "--format is --from now", None),
    (["search", "vectors.fbin", "--query", "queries.fbin"], "--query is --queries now", None),
    (["stats", "vectors.fbin", "--html", "o.html"], "--html is --report now", "o.html"),
    (["quality", "vectors.fbin", "--encodings", "int8", "-k", "3"], "--encodings is --encoding now", None),
    (["embed", "texts.jsonl", "o.npy", "-m", "minilm.weights", "--input", "jsonl"], "-m is --model now", "o.npy"),
]


@pytest.mark.parametrize(("arguments", "warning", "output"), OLD, ids=lambda value: None)
def test_an_old_name_still_works_and_warns_in_one_line(cli, folder, arguments, warning, output):
    code, _, err = cli(*arguments)
    lines = [line for line in err.splitlines() if warning in line]
    assert code == 0 and len(lines) == 1 and lines[0].startswith("polyvec: warning: "), err
    assert output is None or (folder / output).exists()


def test_an_old_option_is_the_option_it_was(cli):
    code, _, err = cli("convert", "vectors.fbin", "o.parquet", "-o", "layout=vectordbbench", "--no-sidecar", "-f")
    assert code == 0, err
    with pv.open("o.parquet") as collection:
        assert "emb" in collection.columns


def test_what_is_no_known_option_is_an_output(cli, folder):
    code, _, err = cli("convert", "vectors.fbin", "-o", "run=1.npy")
    assert code == 0 and "warning" not in err and (folder / "run=1.npy").exists()


def test_values_and_what_follows_two_dashes_are_left_alone():
    program, said = build(), []
    for arguments in (
        ["publish", "a.fbin", "-o", "site", "--title", "--format"],
        ["similar", "a.fifu", "--", "--format"],
        ["sample", "a.fbin", "b.npy", "--head", "-1"],
    ):
        assert renew(program, arguments, said.append) == arguments
    assert said == []


def test_every_old_name_leads_to_a_flag_of_its_command():
    for name, renamed in RENAMED.items():
        there = {flag for p in LEAVES[name].params for flag in (*p.opts, *p.secondary_opts)}
        for old, new in renamed.items():
            assert new is None or new in there, f"{name} {new}"
            assert old not in there, f"{name} {old} is both old and new"


def test_known_options_are_those_of_the_formats():
    assert {"compression", "layout", "normalize", "subwords"} <= known_options()


@pytest.mark.parametrize("name", ["r.pdf", "r", "none/r.html", "."])
@pytest.mark.parametrize(
    "command", [["convert", "vectors.fbin", "o.npy"], ["quality", "vectors.fbin"], ["stats", "vectors.fbin"]]
)
def test_a_report_of_an_unknown_kind_is_refused_before_any_work(cli, folder, command, name):
    before = sorted(path.name for path in folder.iterdir())
    code, out, err = cli(*command, "--report", name)
    assert code == 2 and out == "" and len(err.splitlines()) == 1
    assert name in err and (".html, .json, .txt" in err or "does not exist" in err)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
@pytest.mark.parametrize("command", ["quality", "stats"])
def test_a_report_is_what_its_suffix_says(cli, folder, command, suffix):
    rest = ["-e", "int8", "-k", "3"] if command == "quality" else []
    code, out, err = cli(command, "vectors.fbin", *rest, "--report", f"r{suffix}")
    assert code == 0, err
    text = (folder / f"r{suffix}").read_text()
    if suffix == ".json":
        assert json.loads(text)["source"].endswith("vectors.fbin")
    elif suffix == ".html":
        assert text.lstrip().lower().startswith("<!doctype html>")
    else:
        assert text == out


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("compression=zip", "unknown compression 'zip'; there are none, snappy, gzip, brotli, lz4, zstd"),
        ("group_rows=many", "group_rows is a whole number, not 'many'"),
        ("group_rows=2.5", "group_rows is a whole number, not '2.5'"),
        ("normalize=true", "parquet has no option normalize"),
        ("chunk_rows=few", "chunk_rows is a whole number, not 'few'"),
    ],
)
def test_a_value_is_read_by_the_kind_of_the_formats_option(cli, folder, option, words):
    code, _, err = cli("convert", "vectors.fbin", "o.parquet", "--option", option)
    assert code == 2 and words in err and len(err.splitlines()) == 1
    assert not (folder / "o.parquet").exists()


def test_text_that_looks_like_a_number_stays_text_where_text_is_meant(cli, folder):
    pv.write(folder / "spaced.fifu", pv.Collection.from_arrays(np.eye(2, dtype=np.float32), vocab=["a b", "c"]))
    assert cli("convert", "spaced.fifu", "o.w2v", "--option", "spaces=1")[0] == 0
    with pv.open(folder / "o.w2v") as found:
        assert list(found.vocab) == ["a1b", "c"]


def test_formats_shows_the_options_of_reading_and_writing(cli):
    rows = {row["name"]: row for row in json.loads(cli("formats", "--json")[1])}
    assert [option["name"] for option in rows["hdf5"]["reading"]] == ["dataset"]
    assert rows["i8bin"]["reading"][0] == {
        "name": "dim",
        "kind": "int",
        "help": "Values in a row, which the file does not say.",
        "choices": [],
        "default": None,
    }
    assert {option["name"]: option["choices"] for option in rows["parquet"]["options"]}["layout"] == [
        "polyvec",
        "vectordbbench",
    ]
    assert rows["vecs"]["dtypes"] == ["float32", "int32", "uint8"] and rows["vecs"]["casts"]
    assert rows["vecs"]["aliases"] == {"fvecs": "fvecs", "ivecs": "ivecs", "bvecs": "bvecs"}
    (line,) = [line for line in cli("formats")[1].splitlines() if line.startswith("hdf5") and ".h5" in line]
    assert "ann-benchmarks" in line.split(".h5", 1)[1]
    shown = cli("formats")[1]
    for row in rows.values():
        for option in (*row["reading"], *row["options"]):
            assert option["help"] in shown
    assert "~ float32 int32 uint8" in cli("formats", "--matrix")[1]
