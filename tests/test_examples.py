"""The example of a format from outside: built as a wheel, installed beside polyvec, and its own tests run there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "polyvec-vmat"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine where the package is installed: its wheel in a folder of its own on the path."""
    folder = tmp_path_factory.mktemp("site")
    copy = tmp_path_factory.mktemp("build") / EXAMPLE.name
    subprocess.run(["cp", "-r", str(EXAMPLE), str(copy)], check=True)  # building leaves nothing in the repository
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(copy)]
    subprocess.run(wheel, check=True)
    [built] = folder.glob("polyvec_vmat-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(environment: dict[str, str], *words: str, cwd: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, cwd=cwd)


def test_the_packages_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "t"), "tests")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "failed" not in done.stdout


def test_mypy_finds_nothing_in_it(installed: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for part in (EXAMPLE / "src" / "polyvec_vmat", EXAMPLE / "tests"):
        done = run(installed, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(part))
        assert done.returncode == 0, done.stdout


def test_it_uses_nothing_but_the_names_that_are_kept_stable() -> None:
    lines = [
        line.split()[1]
        for path in EXAMPLE.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith(("import polyvec", "from polyvec"))
    ]
    assert {line for line in lines if not line.startswith("polyvec_vmat")} == {
        "polyvec",
        "polyvec.plugins",
        "polyvec.testing",
    }


def test_without_the_package_the_format_is_not_there(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    assert "vmat" not in run(environment, "-m", "polyvec", "formats", cwd=tmp_path).stdout
