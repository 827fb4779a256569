"""The corpus of the standard library: the same on every call, of every module, one line each."""

from __future__ import annotations

import pytest

from polyvec.model import stdlib_corpus
from polyvec.model.stdlib_corpus import Entry, list_docstrings, list_entries


@pytest.fixture(scope="module")
def walked() -> list[Entry]:
    """Every entry there is; the library is long and is read once."""
    return list(stdlib_corpus._walk())


@pytest.fixture
def once(walked: list[Entry], monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    monkeypatch.setattr(stdlib_corpus, "_walk", lambda: iter(walked))
    return walked


def test_the_corpus_is_the_same_on_every_call_and_about_3000_long(
    walked: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list_entries()
    monkeypatch.setattr(stdlib_corpus, "_walk", lambda: iter(walked))
    assert entries == list_entries() and 2500 <= len(entries) <= 3000
    assert [entry.name for entry in entries] == sorted({entry.name for entry in entries})
    kinds = {entry.kind for entry in entries}
    assert kinds == {"module", "class", "function", "method"}
    named = {entry.name: entry for entry in entries}
    assert "ZIP" in named["zipfile"].summary and named["math.sqrt"].kind == "function"
    assert named["zipfile"].text == f"zipfile: {named['zipfile'].summary}"
    assert all("\n" not in entry.summary and 20 <= len(entry.summary) <= 202 for entry in entries)


@pytest.mark.usefixtures("once")
def test_private_names_tests_and_poems_are_left_out() -> None:
    names = {entry.name for entry in list_entries(None)}
    assert {"zipfile.ZipFile", "math.sqrt", "json.dumps"} <= names
    assert not any(part.startswith("_") for name in names for part in name.split("."))
    assert not any(name.split(".")[0] in ("antigravity", "this", "test") for name in names)


@pytest.mark.usefixtures("once")
def test_a_limit_takes_of_methods_first_and_then_of_all_evenly() -> None:
    entries = list_entries(None)
    others = [entry for entry in entries if entry.kind != "method"]
    some = list_entries(len(others) + 10)
    assert len(some) == len(others) + 10 and set(others) <= set(some)
    few = list_entries(50)
    assert len(few) == 50 and few == sorted(few, key=lambda entry: entry.name)
    assert few[0].name < "b" and few[-1].name > "u"


def test_long_texts_are_long() -> None:
    texts = list_docstrings(120)
    assert len(texts) > 100 and min(len(text.split()) for text in texts) >= 120
