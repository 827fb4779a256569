"""Old spellings: read as the new ones with a warning, values that look like flags left alone."""

from __future__ import annotations

import pytest

from polyvec.cli.spellings import RENAMED, known_options, renew
from polyvec.cli.terminal import build


def renewed(line: str) -> tuple[list[str], list[str]]:
    said: list[str] = []
    arguments = line.split()
    return renew(build(arguments), arguments, said.append), said


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("info a.npy --format npy", "info a.npy --from npy"),
        ("info a.npy --format=npy", "info a.npy --from=npy"),
        ("convert a b --format npy", "convert a b --to npy"),
        ("truth a b --no-resume", "truth a b --restart"),
        ("truth a b --resume", "truth a b"),
    ],
)
def test_an_old_flag_is_its_new_name_and_that_is_said(line: str, wanted: str) -> None:
    found, said = renewed(line)
    assert found == wanted.split() and len(said) == 1 and "next release" in said[0]


@pytest.mark.parametrize(
    "line", ["info a.npy --from npy", "info -- --format", "convert a -o out.npy", "formats --format x"]
)
def test_what_is_not_old_stays(line: str) -> None:
    assert renewed(line) == (line.split(), [])


def test_an_option_of_a_format_after_dash_o_is_understood() -> None:
    name = sorted(known_options())[0]
    found, said = renewed(f"convert a b -o {name}=1")
    assert found[-1] == f"--option={name}=1" and "-o is the output now" in said[0]


def test_every_new_name_is_a_flag_of_its_command() -> None:
    for name, flags in RENAMED.items():
        command = build(name.split())
        for part in name.split():
            command = command.commands[part]
        there = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
        assert {new for new in flags.values() if new is not None} <= there, name
        assert not set(flags) & there, f"{name}: an old name is still a flag"
