"""Formats of installed packages: found by their entry points, and never able to break anything else."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyvec as pv
from polyvec import formats
from polyvec.formats import discovery
from polyvec.testing import vectors

GOOD = """
from polyvec.core.format import Confidence, Match
from polyvec.core.options import Option
from polyvec.formats.npy import FORMAT as NPY

class Guest(type(NPY)):
    name, title, suffixes, aliases = "guest", "A guest", (".guest",), {}

    def sniff(self, peek):
        return [Match(Confidence.MAGIC, "a guest")] if peek.suffix == ".guest" else []

class Second(Guest):
    name, title, suffixes = "second", "Another", (".second",)

    def sniff(self, peek):
        raise ZeroDivisionError("cannot look")

FORMAT, BOTH = Guest(), [Guest(), Second()]
CLASS = Guest
LEVEL = Option("level", int, "How hard.")
TWICE = type("Twice", (Guest,), {"options": (LEVEL, LEVEL)})()
TAKEN = type("Taken", (Guest,), {"name": "npy"})()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch) -> Iterator:
    """Puts a package with a module and entry points where Python looks for packages."""
    site = tmp_path / "site"
    site.mkdir()

    def put(*points: str, package: str = "guest-formats", code: str = GOOD) -> None:
        module = package.replace("-", "_")
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{number} = {module}:{point}" for number, point in enumerate(points)]
        (info / "entry_points.txt").write_text("\n".join(["[polyvec.formats]", *lines, ""]))

    before = set(sys.modules)
    monkeypatch.syspath_prepend(site)
    discovery._discovered.cache_clear()
    put.site = site  # type: ignore[attr-defined]
    yield put
    discovery._discovered.cache_clear()
    for name in set(sys.modules) - before:
        if name.endswith("_formats"):
            del sys.modules[name]


def found() -> tuple[list[str], list[str]]:
    """The names of all formats that are not ours, and the warnings of finding them."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        names = [made.name for made in formats.all_formats() if not discovery.is_own(made)]
        formats.all_formats()
    assert all(issubclass(warning.category, pv.FormatWarning) for warning in told)
    return names, [str(warning.message) for warning in told]


def test_the_formats_of_a_package_are_found_by_its_entry_point(install, tmp_path: Path) -> None:
    install("FORMAT")
    assert found() == (["guest"], [])
    pv.write(tmp_path / "a.guest", vectors(3, 2), format="guest")
    with pv.open(tmp_path / "a.guest", format="guest") as collection:
        assert collection.format == "guest" and collection.rows == 3


def test_an_entry_point_may_name_several_formats(install) -> None:
    install("BOTH")
    assert found() == (["guest", "second"], [])


@pytest.mark.parametrize(
    ("point", "code", "reason"),
    [
        ("FORMAT", "import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("FORMAT", "raise RuntimeError('broken\\nin two lines')\n", "RuntimeError: broken"),
        ("FORMAT", "import sys\nsys.exit('no licence')\n", "SystemExit: no licence"),
        ("FORMAT", "raise SystemExit\n", "SystemExit"),
        ("MISSING", GOOD, "AttributeError"),
        ("TWICE", GOOD, "the option 'level' stands twice in the options of the format guest"),
        ("CLASS", GOOD, "not the class Guest"),
        ("TAKEN", GOOD, "the name 'npy' of the format npy is taken by the format npy"),
    ],
)
def test_a_broken_package_is_one_warning_that_names_it(install, point: str, code: str, reason: str) -> None:
    ours = [made.name for made in formats.all_formats()]
    discovery._discovered.cache_clear()
    install(point, package="broken-formats", code=code)
    names, told = found()
    assert names == [] and [made.name for made in formats.all_formats()] == ours
    (line,) = told
    assert "the package broken-formats is left out" in line and reason in line and "\n" not in line


def test_ctrl_c_while_a_package_is_imported_passes(install) -> None:
    install("FORMAT", package="broken-formats", code="raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        found()


def test_of_two_packages_with_one_name_the_second_is_left_out(install) -> None:
    install("FORMAT", package="a-formats")
    install("FORMAT", package="b-formats")
    names, told = found()
    assert names == ["guest"] and len(told) == 1
    assert "the package b-formats is left out" in told[0] and "taken by the format guest" in told[0]


def test_a_package_that_cannot_look_at_a_file_closes_no_other(install, tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(3, 2))
    discovery._discovered.cache_clear()
    install("BOTH")
    found()
    with pytest.warns(
        pv.FormatWarning, match="second is left out: it cannot look at a.fbin .ZeroDivisionError: cannot look"
    ):
        collection = pv.open(tmp_path / "a.fbin")
    with collection:
        assert collection.format == "bins"


def run(install, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(install.site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_no_package_and_a_broken_one_is_one_line(install) -> None:
    install("FORMAT", package="broken-formats", code="raise RuntimeError('broken')\n")
    shown = run(install, "-m", "polyvec", "--help")
    assert shown.returncode == 0 and not shown.stderr
    listed = run(install, "-m", "polyvec", "formats", "--matrix")
    assert listed.returncode == 0 and "npy" in listed.stdout
    (line,) = listed.stderr.splitlines()
    assert "broken-formats is left out" in line and "RuntimeError: broken" in line


def test_where_no_package_has_formats_none_is_looked_for(install) -> None:
    asked = "import sys, polyvec.formats as f; f.all_formats(); print('importlib.metadata' in sys.modules)"
    assert run(install, "-c", asked).stdout.strip() == "False"
    install("FORMAT")
    assert run(install, "-c", asked).stdout.strip() == "True"
