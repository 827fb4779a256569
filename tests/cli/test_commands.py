"""What every command keeps: an example that runs, help, documentation, one-line errors, exit codes."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from polyvec.cli.terminal import command_names

ROOT = Path(__file__).parents[2]


def load_pages():
    spec = importlib.util.spec_from_file_location("make_cli", ROOT / "docs" / "make_cli.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = load_pages()
LEAVES = {name: command for name, command in PAGES.pages() if not getattr(command, "commands", None)}


def examples():
    for name, command in LEAVES.items():
        for line in re.findall(r"\$ (polyvec .*)", (command.help or "").replace("\\\n", " ")):
            yield pytest.param(name, line.strip(), id=line.strip())


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_every_command_has_an_example(name):
    assert f"$ {name}" in (LEAVES[name].help or ""), f"{name}: its help shows no example"


SERVERS = {"polyvec serve"}


@pytest.mark.parametrize(("name", "line"), list(examples()))
def test_every_example_runs(name, line, cli):
    if name in SERVERS:
        pytest.skip("does not end by itself; tests/web/test_serve.py starts it")
    code, _, err = cli(*shlex.split(line)[1:])
    assert code == 0, err
    assert "Traceback" not in err


def test_the_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text() == PAGES.render(), "run `make docs`"


def test_every_command_is_a_file():
    assert {name.split()[1] for name in LEAVES} == set(command_names())


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_help_exits_with_0(name, cli):
    code, out, err = cli(*name.split()[1:], "--help")
    assert code == 0 and "Example" in out and not err


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv=['polyvec','--help']\n"
        "from polyvec.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "names={'numpy','rich','pyarrow','h5py','torch','onnxruntime','starlette','faiss','numkong'}\n"
        "heavy=names & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "heavy: []" in done.stderr and "convert" in done.stdout


def test_no_arguments_gives_help(cli):
    code, out, _ = cli()
    assert code == 0 and "Commands:" in out


def test_version(process):
    assert process("--version").stdout.startswith(b"polyvec ")


def test_the_overview_names_every_command(process):
    for arguments in ((), ("--help",), ("-h",)):
        out = process(*arguments).stdout.decode()
        for name in command_names():
            assert f"\n  {name} " in out
