"""What errors advise exists: every flag, format and option that a text of the library names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import browser, formats
from polyvec.cli.advice import FLAG, fitted, flags_of, leaves
from polyvec.cli.spellings import known_options
from polyvec.cli.terminal import SHARED, build

SOURCE = Path(pv.__file__).parent
LEAVES = dict(leaves(build()))
KNOWN = set().union(*map(flags_of, LEAVES.values())) | {"--help", "--version"}
OTHER_PROGRAMS = {"pip": {"--no-deps"}, "c++17": {"--std"}}  # a word of the text: flags that are not ours


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings; the parts of an f-string together."""
    tree = ast.parse(path.read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docs = {id(node.body[0].value) for node in nodes if node.body and isinstance(node.body[0], ast.Expr)}
    inner = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | inner:
            yield node.lineno, node.value


TEXTS = [
    (path.relative_to(SOURCE), line, text)
    for path in sorted(SOURCE.rglob("*.py"))
    for line, text in strings(path)
    if "--" in text and ":root" not in text
]


def browser_flags() -> set[str]:
    text = (SOURCE / "browser" / "command.py").read_text()
    return set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', text))


def foreign_flags(text: str) -> set[str]:
    return set().union(*(flags for word, flags in OTHER_PROGRAMS.items() if word in text))


def test_every_flag_that_a_text_names_exists():
    assert len(TEXTS) > 60 and {"--any-dim", "--normalize"} <= browser_flags()
    wrong = []
    for path, line, text in TEXTS:
        if path.parts[:2] == ("cli", "spellings.py"):
            continue  # holds the names of old
        known = (
            KNOWN
            | foreign_flags(text)
            | (browser_flags() if path.parent.name == "browser" or path.name == "levels.py" else set())
        )
        wrong += [f"{path}:{line}: {flag}" for flag in FLAG.findall(text) if flag not in known]
    assert wrong == []


def test_every_flag_that_a_command_names_is_its_own_or_says_whose_it_is():
    wrong = []
    for path, line, text in TEXTS:
        name = path.stem if path.name != "__init__.py" else path.parent.name
        if path.parts[0] != "cli" or name in (*SHARED, "cli") or " " not in text:
            continue  # a flag alone is a declaration, or an argument of a program that is shown
        own = set().union(*(flags_of(leaf) for words, leaf in LEAVES.items() if words.split()[0] == name))
        others = [words for words in LEAVES if f"polyvec {words}" in text]
        named = set().union(*(flags_of(LEAVES[words]) for words in others)) | foreign_flags(text)
        wrong += [f"{path}:{line}: {flag}" for flag in FLAG.findall(text) if flag not in own | named | {"--help"}]
    assert wrong == []


def test_every_format_and_option_that_a_text_names_exists():
    for path, line, text in TEXTS:
        for flag, name in re.findall(r"--(from|to) ([a-z][a-z0-9]+)\b", text):
            if name not in ("and", "name", "names", "is", "are", "or"):
                assert formats.find_format(name), f"{path}:{line}: --{flag} {name}"
        for name in re.findall(r"--option ([a-z_]+)=", text):
            assert name in known_options(), f"{path}:{line}: --option {name}"


def test_a_flag_of_another_command_is_said_to_be_one(cli, folder):
    data = (folder / "vectors.fbin").read_bytes()
    (folder / "cut.fbin").write_bytes(data[:-7])
    code, _, err = cli("stats", "cut.fbin")
    assert code == 1 and "--lenient is a flag of polyvec convert, info, merge, sample and others" in err
    code, _, err = cli("convert", "cut.fbin", "o.npy")
    assert code == 1 and "--lenient" in err and "is a flag of" not in err
    np.savez("two.npz", a=np.ones((3, 2)), b=np.ones((3, 4)))
    code, _, err = cli("sample", "two.npz", "o.fbin", "--head", "1")
    assert code == 2 and "--column is a flag of polyvec convert" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("message", "arguments", "more"),
    [
        ("use --force", ["convert", "a", "b"], ""),
        ("use --port", ["convert", "a"], " (--port is a flag of polyvec serve)"),
        ("use --dtype", ["words", "select"], " (--dtype is a flag of polyvec model import)"),
        ("use --nonsense", ["convert"], ""),
        ("no flag at all", ["convert"], ""),
        ("use --lenient", ["nonsense"], ""),
    ],
)
def test_advice_fits_the_command(message, arguments, more):
    assert fitted(message, arguments) == message + more


def test_the_browser_export_advises_its_own_flag(tmp_path):
    with pytest.raises(pv.InputError, match="or use --normalize"):
        browser.export_for_browser(
            2 * np.ones((1, 512), np.float32),
            tmp_path / "o",
            records=[{"name": "a", "set": "b", "image_url": "c", "card_url": "d"}],
        )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["convrt", "vectors.fbin", "o.npy"], "Did you mean 'convert'?"),
        (["words", "selct"], "Did you mean 'select'?"),
        (["convert", "vectors.fbin", "o.npy", "--encodng", "int8"], "--encoding"),
        (["convert", "vectors.fbin", "o.npy", "--encoding", "flaot16"], "did you mean float16"),
        (["convert", "vectors.fbin", "o.npy", "--to", "nppy"], "did you mean npy"),
        (["convert", "vectors.fbin", "o.h5", "--option", "comression=gzip"], "did you mean compression?"),
        (["convert", "vectors.fbin", "o.h5", "--option", "encoding=float16"], "of the command: --encoding"),
        (["merge", "vectors.fbin", "-o", "o.h5", "--option", "encoding=float16"], "of the command: --encoding"),
        (["convert", "vectors.fbin", "queries.fbin", "--option", "overwrite=true"], "of the command: --force"),
        (
            ["sample", "vectors.fbin", "o.npy", "--head", "1", "--option", "working=true"],
            "no format has an option 'working'",
        ),
        (["search", "vectors.fbin", "--row", "1", "-m", "cosin"], "did you mean cosine?"),
        (["quality", "vectors.fbin", "-e", "flaot16"], "did you mean float16"),
    ],
)
def test_a_slip_of_the_pen_is_met_with_what_was_meant(cli, folder, arguments, expected):
    before = sorted(path.name for path in folder.iterdir())
    code, _, err = cli(*arguments)
    assert code == 2 and expected in err and len(err.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ["convert"],
        ["stats"],
        ["search", "--row", "1"],
        ["sample", "--head", "1"],
        ["publish", "-o", "site"],
        ["quality"],
        ["split", "--parts", "2"],
    ],
)
def test_a_pattern_that_the_shell_took_apart_gets_a_hint(cli, folder, command):
    shards = sorted(path.name for path in folder.glob("shard-*.fbin"))
    code, _, err = cli(command[0], *shards, "out.npy", *command[1:])
    assert code == 2 and len(err.splitlines()) == 1
    assert "'shard-0000*-of-00003.fbin'" in err and "in quotes" in err and "polyvec merge" in err
    code, _, err = cli("stats", "vectors.fbin", "one", "two")
    assert code == 2 and "unexpected extra argument" in err and "quotes" not in err


def test_a_capital_letter_for_a_flag_is_told(cli):
    code, _, err = cli("convert", "vectors.fbin", "-O", "y.npy")
    assert code == 2 and "No such option: -O; did you mean -o, the output?" in err
    assert "did you mean" not in cli("convert", "vectors.fbin", "-X", "y.npy")[2]
