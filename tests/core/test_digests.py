"""Digests beside a file: the lines of coreutils and of BSD, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyvec.core.digests import read_digests, sidecars_of, write_digests
from polyvec.core.errors import Corrupt
from polyvec.core.sources import open_source
from polyvec.testing import MemorySource

ONE, TWO = "0" * 64, "f" * 64


def read(text: str, name: str = "a.npy") -> dict[str, str] | None:
    return read_digests(MemorySource(b"", name, {f"{name}.sha256": text.encode()}))


def test_names_survive_their_escapes(tmp_path: Path) -> None:
    names = ["plain", "back\\slash", "back\\nslash n", "line\nbreak", "both\\\nof", "ünï", "a  b", "*star"]
    for name in names:
        path = tmp_path / name
        path.write_bytes(b"x")
        write_digests(path, {name: "0" * 64, name + ".ids.txt": "f" * 64})
        with open_source(path) as source:
            assert read_digests(source) == {name: "0" * 64, name + ".ids.txt": "f" * 64}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{TWO}\n", {"a.npy": TWO}),
        (f"{TWO.upper()} *a.npy\r\n{ONE}  a.npy.ids.npy", {"a.npy": TWO, "a.npy.ids.npy": ONE}),
        (f"SHA256 (x/y/a.npy) = {ONE}\n", {"a.npy": ONE}),
        (f"# note\n\n\\{ONE}  a\\nb\n", {"a\nb": ONE}),
        (f"\\SHA256 (a\\\\b) = {ONE}", {"a\\b": ONE}),
        ("", {}),
    ],
)
def test_every_spelling_of_a_line_is_read(text: str, wanted: dict[str, str]) -> None:
    assert read(text) == wanted


@pytest.mark.parametrize(
    "line", ["nonsense", f"{ONE[:-1]}  a.npy", f"{ONE}x  a.npy", f"SHA1 (a.npy) = {ONE}", ONE + " "]
)
def test_a_line_that_is_none_is_corrupt_with_its_number(line: str) -> None:
    if line == ONE + " ":
        assert read(line) == {"a.npy": ONE}
        return
    with pytest.raises(Corrupt) as caught:
        read(f"{ONE}  b\n{line}\n")
    assert caught.value.field == "line 2" and "a.npy.sha256" in str(caught.value.path)


def test_without_a_file_of_digests_there_are_none() -> None:
    assert read_digests(MemorySource(b"", "a.npy")) is None


def test_sidecars_are_those_that_lie_there_and_the_digest_is_none() -> None:
    beside = {f"a.npy{ending}": b"" for ending in (".words.txt", ".ids.npy", ".sidecars.json", ".sha256", ".other")}
    assert sidecars_of(MemorySource(b"", "a.npy", beside)) == [
        "a.npy.words.txt",
        "a.npy.ids.npy",
        "a.npy.sidecars.json",
    ]
