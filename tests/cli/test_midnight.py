"""Wrong input at midnight: one clear line before any work, the right exit code, inputs untouched, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv


def state(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture
def lines(folder):
    (folder / "lines.txt").write_text("hello\nworld\n")
    (folder / "nothing.txt").write_text("")
    pv.write("numbers.txt", np.eye(3, dtype=np.float32), format="wordtext", vocab=["a", "b", "c"])
    pv.write("none.fbin", np.zeros((0, 16), np.float32))
    return folder


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # an output that is an input: the data would be gone
        (["publish", "vectors.fbin", "-o", "vectors.fbin", "--single-file", "-f"], "the output is also an input"),
        (["stats", "numbers.txt", "--report", "numbers.txt"], "the report is also an input or the output"),
        (
            ["quality", "vectors.fbin", "numbers.txt", "--report", "numbers.txt"],
            "the report is also an input or the output",
        ),
        (["convert", "vectors.fbin", "o.txt", "--report", "o.txt"], "the report is also an input or the output"),
        (["embed", "lines.txt", "lines.txt", "--model", "minilm.weights", "-f"], "the output is also an input"),
        (["embed", "lines.txt", "minilm.weights", "--model", "minilm.weights", "-f"], "the output is also an input"),
        (["truth", "vectors.fbin", "queries.fbin", "-o", "queries.fbin", "-f", "-m", "l2", "-k", "3"], "also an input"),
        # numbers that cannot be
        (["search", "vectors.fbin", "--row", "1", "--threads", "0"], "--threads"),
        (["stats", "vectors.fbin", "--threads", "-2"], "--threads"),
        (["embed", "lines.txt", "o.npy", "--model", "minilm.weights", "--truncate-dim", "-3"], "--truncate-dim"),
        (["similar", "words.fifu", "Berlin", "-k", "0"], "-k"),
        (["analogy", "words.fifu", "Berlin", "Berlin", "Berlin", "-k", "0"], "-k"),
        (["words", "quantize", "words.fifu", "o.fifu", "-n", "-1"], "--iterations"),
        (["sample", "vectors.fbin", "o.npy", "--range", "900:1000"], "beyond the end; there are 300 rows"),
        # names that are not there
        (["publish", "vectors.fbin", "-o", "site", "--column", "nope"], "no column 'nope'; there are vectors"),
        (["serve", "vectors.fbin", "--column", "nope"], "no column 'nope'; there are vectors"),
        (["model", "list", "nowhere"], "no such folder"),
        (["words", "select", "words.fifu", "o.fifu", "-w", "nothing.txt"], "there are no words"),
        (["search", "vectors.fbin", "--row", "1", "--index", "--where", "kind=a"], "leave one of them out"),
        (["embed", "lines.txt", "nowhere/o.npy", "--model", "minilm.weights"], "does not exist"),
        (["embed", "lines.txt", ".", "--model", "minilm.weights", "--to", "npy", "-f"], "the output is a directory"),
        (["stats", "none.fbin"], "is empty"),
    ],
)
def test_wrong_input_is_one_clear_line_and_changes_nothing(cli, lines, arguments, expected):
    before = state(lines)
    code, _, err = cli(*arguments)
    told = [line for line in err.splitlines() if line.startswith("polyvec: ")]
    assert code == 2 and len(told) == 1, err
    assert expected in told[0] and "unexpected" not in told[0]
    assert state(lines) == before
