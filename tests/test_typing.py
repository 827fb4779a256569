"""What type checkers see of the public names: right calls pass, wrong ones do not."""

from __future__ import annotations

import re

import pytest

api = pytest.importorskip("mypy.api")

RIGHT = """
import numpy as np
import polyvec as pv
from pathlib import Path

def heard(done: int, total: int) -> None: ...

rows = np.zeros((2, 3), np.float32)
reveal_type(pv.write("a.cvc", rows, encoding="int8", layout="versioned", metadata={"a": 1}))
reveal_type(pv.convert("a", Path("b"), encoding="int8", overwrite=False, dim=3, compression=None, progress=True))
reveal_type(pv.merge(["a", Path("b")], "c", resume=True, progress=heard))
reveal_type(pv.split("a", "b", parts=3, seed=1))
reveal_type(pv.sample("a", "b", random=3, seed=1, parts=4, options={"zeal": 1}))
reveal_type(pv.verify("a", progress=heard, dim=3))
reveal_type(pv.describe("a", dataset="x"))
reveal_type(pv.stats(rows, threads=2, progress=True))
reveal_type(pv.search(rows, rows, 1, "ip", threads=2))
reveal_type(pv.Index.build(rows, threads=None))
reveal_type(pv.embed(["a"], model="minilm", engine="numpy", threads=1))
reveal_type(pv.open("a", lossy=True, options={"zeal": 1}))
reveal_type(pv.open("a").vectors)
reveal_type(pv.InputError("x"))
"""
SEEN = [
    "Receipt",
    "Receipt",
    "Receipt",
    "list[polyvec.writing.receipts.Receipt]",
    "Receipt",
    "Report",
    "Description",
    "Stats",
    "Hits",
    "Index",
    "ndarray",
    "Collection",
    "Column",
    "InputError",
]
WRONG = {
    'pv.convert("a", "b", encodng="int8")': "encodng",
    'pv.convert("a", "b", overwrite="yes")': "overwrite",
    'pv.convert("a", "b", progress=3)': "progress",
    'pv.convert("a", "b", zeal=1)': "zeal",
    'pv.convert(None, "b")': "None",
    'pv.write("a.fbin", [[1.0]], chunk_rows="ten")': "chunk_rows",
    'pv.write("a.fbin", [[1.0]], dim=3)': "dim",
    'pv.write("a.fbin", [[1.0]], together=None)': "together",
    'pv.merge(3, "b")': "merge",
    'pv.split("a", "b", rows="two")': "rows",
    'pv.sample("a", "b", head=1, compression=3)': "compression",
    'pv.sample("a", "b", head=1, lenient=1)': "lenient",
    'pv.open("a", dim="x")': "dim",
    'pv.open("a", compression="gzip")': "compression",
    'pv.verify("a", layuot=True)': "layuot",
    'pv.describe("a", lossy="no")': "lossy",
    'pv.search([[1.0]], [[1.0]], k="ten")': "k",
    'pv.stats("a", threads=1.5)': "threads",
    'pv.Index.build("a", progress="bar")': "progress",
    'pv.embed(["a"], model="m", num_threads=2)': "num_threads",
    'pv.embed(["a"], model="m", engine=3)': "engine",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[int, str]]:
    """What mypy reveals, in order, and its errors by line of the wrong calls."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text("import polyvec as pv\n" + "\n".join(WRONG) + "\n")
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n")
    out, err, _ = api.run(
        [
            "--config-file",
            str(settings),
            "--cache-dir",
            str(folder / "cache"),
            str(folder / "right.py"),
            str(folder / "wrong.py"),
        ]
    )
    assert not err, err
    lines = [re.match(r".*?(right|wrong)\.py:(\d+): (\w+): (.*)", line) for line in out.splitlines()]
    found = [m.groups() for m in lines if m]
    errors = [f for f in found if f[0] == "right" and f[2] == "error"]
    assert not errors, errors
    shown = [f[3] for f in found if f[0] == "right" and "Revealed type" in f[3]]
    wrong: dict[int, str] = {}
    for file, line, kind, text in found:
        if file == "wrong" and kind == "error":
            wrong[int(line)] = wrong.get(int(line), "") + text
    return shown, wrong


def test_right_calls_have_the_types_they_should(said: tuple[list[str], dict[int, str]]) -> None:
    shown = said[0]
    assert len(shown) == len(SEEN)
    for text, name in zip(shown, SEEN, strict=True):
        assert name in text, (text, name)


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_an_error(said: tuple[list[str], dict[int, str]], call: str) -> None:
    line = 2 + list(WRONG).index(call)
    assert f'"{WRONG[call]}"' in said[1].get(line, ""), said[1].get(line)
