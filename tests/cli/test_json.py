"""JSON: every command that prints it, one shape for one and for many, and nothing that is not JSON."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli.terminal import build, print_json

# For each command: a call about one thing, and one about several.
CALLS = {
    "analogy": (["words.fifu", "Berlin", "Tübingen", "Zürich"], ["words.fifu", "Zürich", "Berlin", "Tübingen", "-k2"]),
    "convert": (["vectors.fbin", "a.npy"], ["bench.hdf5", "b.fbin", "--queries", "q.fbin", "--truth", "t.ibin"]),
    "embed": (["one.txt", "a.npy", "--model", "minilm.weights"], ["texts.jsonl", "b.npy", "--model", "minilm.weights"]),
    "formats": ([], []),
    "info": (["vectors.fbin"], ["shard-*.fbin", "cards.cvc"]),
    "merge": (["vectors.fbin", "-o", "a.fbin"], ["shard-*.fbin", "-o", "b.npy", "--sha256"]),
    "model export": (["minilm.weights", "-o", "a"], ["minilm.weights", "-o", "b"]),
    "model import": (["all-MiniLM-L6-v2", "-o", "a.weights"], ["all-MiniLM-L6-v2", "-o", "b.weights"]),
    "model info": (["minilm.weights"], ["minilm.weights"]),
    "model list": (["."], ["many"]),
    "publish": (["vectors.fbin", "-o", "a"], ["shard-*.fbin", "-o", "b.html", "--single-file"]),
    "quality": (["vectors.fbin", "-e", "int8", "-k", "1"], ["vectors.fbin", "-e", "int8,float16", "-k", "1,3"]),
    "recall": (["result.ibin", "truth.ibin", "-k", "1"], ["result.ibin", "truth.ibin", "-k", "1,10"]),
    "sample": (["vectors.fbin", "a.npy", "--head", "1"], ["shard-*.fbin", "b.npy", "--random", "9", "--sha256"]),
    "search": (["vectors.fbin", "--row", "1"], ["vectors.fbin", "--queries", "queries.fbin"]),
    "similar": (["words.fifu", "Berlin"], ["words.fifu", "Berlin", "Zürich"]),
    "split": (["vectors.fbin", "a.fbin", "--parts", "1"], ["vectors.fbin", "b.fbin", "--parts", "3"]),
    "stats": (["vectors.fbin"], ["shard-*.fbin"]),
    "truth": (
        ["vectors.fbin", "queries.fbin", "-o", "a.ibin", "-k", "1", "-m", "l2"],
        ["shard-*.fbin", "queries.fbin", "-o", "b.hdf5", "-k", "5", "-m", "l2"],
    ),
    "verify": (["vectors.fbin"], ["vectors.fbin", "missing.fbin", "bad.fbin"]),
    "words accuracy": (["words.fifu", "questions.txt"], ["words.fifu", "questions.txt"]),
    "words bucket-to-explicit": (["buckets.fifu", "a.fifu"], ["buckets.fifu", "b.fifu"]),
    "words quantize": (["words.fifu", "a.fifu", "-s", "5", "-b", "3"], ["words.fifu", "b.fifu", "-s", "2", "-b", "2"]),
    "words reconstruct": (["quantized.fifu", "a.fifu"], ["quantized.fifu", "b.fifu"]),
    "words select": (["words.fifu", "a.fifu", "-w", "one.txt"], ["words.fifu", "b.fifu", "-w", "list.txt"]),
}
FREE = {"words metadata"}  # prints what a file says, whatever that is
LISTS = {"analogy", "formats", "info", "model list", "similar", "split", "verify"}


def leaves(command, name=""):
    if not getattr(command, "commands", None):
        yield name.strip(), command
    for child, below in getattr(command, "commands", {}).items():
        yield from leaves(below, f"{name} {child}")


def strict(text):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_every_command_with_json_is_tried_here():
    there = {name for name, command in leaves(build()) for p in command.params if "--json" in p.opts}
    assert there == set(CALLS) | FREE


@pytest.mark.parametrize("name", sorted(CALLS))
def test_one_and_many_have_the_same_shape(cli, folder, name):
    (folder / "one.txt").write_text("hello\n")
    (folder / "bad.fbin").write_bytes(b"1234567")
    (folder / "many").mkdir()
    for copy in ("a.weights", "b.weights"):
        shutil.copy("minilm.weights", folder / "many" / copy)
    assert (
        cli("convert", "vectors.fbin", "bench.hdf5", "-q", "queries.fbin", "--truth", "truth.ibin", "-m", "l2")[0] == 0
    )
    found = []
    for arguments in CALLS[name]:
        code, out, err = cli(*name.split(), *arguments, "--json")
        assert code == (1 if "missing.fbin" in arguments else 0), err
        found.append(strict(out))
    one, many = found
    assert isinstance(one, list) == isinstance(many, list) == (name in LISTS)
    if name in LISTS:
        assert one and many and len({tuple(entry) for entry in (*one, *many)}) == 1
    else:
        assert list(one) == list(many)


def test_what_json_has_not_is_null(capsys):
    print_json({"a": [1.5, float("nan")], "b": {"c": np.float32("inf")}, "d": np.int64(3)})
    assert strict(capsys.readouterr().out) == {"a": [1.5, None], "b": {"c": None}, "d": 3}


def test_rows_that_are_not_numbers_make_json_all_the_same(cli):
    rows = np.full((20, 4), np.nan, np.float32)
    pv.write("nan.fbin", rows)
    for arguments in (["info", "nan.fbin"], ["convert", "nan.fbin", "o.f16bin"], ["stats", "nan.fbin"]):
        code, out, err = cli(*arguments, "--json")
        assert code == 0 and strict(out), err


def test_data_and_receipt_do_not_share_a_stream(process, folder):
    done = process("convert", "vectors.fbin", "-", "--to", "npy", "--json")
    assert done.returncode == 0 and done.stdout.startswith(b"\x93NUMPY")
    assert json.loads(done.stderr)["rows"] == 300
    (folder / "back.npy").write_bytes(done.stdout)
    assert np.load("back.npy").shape == (300, 16)
