"""What the documents point at exists: tests that keep a clause, links, files named in the text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFORMANCE = sorted((ROOT / "docs" / "conformance").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

TEST = re.compile(r"(?:(?P<file>(?:tests|benchmarks)/[\w./-]+\.\w+))?(?:::)?(?P<parts>(?:\w+::)?test_\w+)?")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def names_in(path: Path) -> set[str]:
    """Names of the test functions of a file, its classes' own and those of the suite they inherit included."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


SUITE = set().union(*(names_in(ROOT / f"src/polyvec/testing/{name}.py") for name in ("suite", "reading")))
EVERY_TEST = {path: names_in(path) for path in (ROOT / "tests").rglob("*.py")}


def cited(text: str) -> list[tuple[str | None, str | None]]:
    """(file, test) of every citation in backticks, ``file::test``, ``::test`` (of the file before it) or ``test``."""
    found: list[tuple[str | None, str | None]] = []
    for line in text.splitlines():
        last = None
        for token in re.findall(r"`([^`]+)`", line):
            match = TEST.fullmatch(re.sub(r"\[.*\]$", "", token))
            if match is None or not token or (match["file"] is None and match["parts"] is None):
                continue
            last = match["file"] or (last if token.startswith("::") else None)
            found.append((last, match["parts"].split("::")[-1] if match["parts"] else None))
    return found


@pytest.mark.parametrize("page", CONFORMANCE, ids=lambda page: page.stem)
def test_a_clause_names_tests_that_exist(page: Path) -> None:
    citations = cited(page.read_text())
    assert citations
    for file, name in citations:
        if file is not None:
            assert (ROOT / file).is_file(), f"{file} does not exist"
        if name is None:
            continue
        known = EVERY_TEST.get(ROOT / file, set()) if file else set().union(*EVERY_TEST.values())
        assert name in known | SUITE or name in {path.stem for path in EVERY_TEST}, f"{file or ''}::{name}"


def test_a_wrong_citation_is_seen() -> None:
    assert cited("| a | `tests/a.py::test_b`, `::test_c[x-1]`; `test_d`, `tests/e.py`, `other` |") == [
        ("tests/a.py", "test_b"),
        ("tests/a.py", "test_c"),
        (None, "test_d"),
        ("tests/e.py", None),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


def test_every_conformance_page_is_in_the_index() -> None:
    for folder in ("conformance", "errata"):
        index = (ROOT / "docs" / f"{folder}.md").read_text()
        for page in (ROOT / "docs" / folder).glob("*.md"):
            assert f"{folder}/{page.name}" in index, f"docs/{folder}.md does not list {page.name}"
