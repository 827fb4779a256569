"""Reports by suffix: a page, JSON or text; refused before any work where they cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyvec.cli.reports import check_report, write_report
from polyvec.core.errors import InputError


@pytest.mark.parametrize(
    ("name", "wanted"), [("r.html", "<p>"), ("r.HTM", "<p>"), ("r.txt", "text\n"), ("r.md", "text\n"), ("r.json", None)]
)
def test_the_suffix_names_the_form(tmp_path: Path, name: str, wanted: str | None) -> None:
    check_report(str(tmp_path / name))
    write_report(str(tmp_path / name), page=lambda: "<p>", text=lambda: "text", values={"a": [1]})
    found = (tmp_path / name).read_text()
    assert found == wanted if wanted is not None else json.loads(found) == {"a": [1]}


def test_a_report_that_cannot_be_is_refused(tmp_path: Path) -> None:
    check_report(None)
    (tmp_path / "a.html").touch()
    for path, inputs, says in (
        ("r.pdf", (), r"not \.pdf"),
        ("r", (), "not no suffix"),
        ("a.html", ("a.html",), "also an input or the output"),
        ("later.html", ("later.html",), "also an input or the output"),
        ("none/r.html", (), "none"),
    ):
        with pytest.raises((InputError, OSError), match=says):
            check_report(str(tmp_path / path), *(str(tmp_path / name) for name in inputs))
