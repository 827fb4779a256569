"""The demo's table: a line for each format and encoding, true figures, no file left, what is missing told."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec import formats
from polyvec.cli.demo import table as table_module
from polyvec.cli.demo.table import print_table
from polyvec.core.errors import InputError, MissingExtra

ROWS = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)


@pytest.fixture
def some(monkeypatch):
    """Only the formats named."""

    def choose(*names):
        found = [formats.find_format(name)[0] for name in names]
        monkeypatch.setattr(formats, "all_formats", lambda: found)

    return choose


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_each_encoding_has_a_line_with_true_bytes_and_no_file_stays(some, tmp_path, capsys):
    some("bins", "npy")
    print_table(ROWS, tmp_path)
    printed = lines(capsys)
    assert not list(tmp_path.iterdir())
    cells = {line.split()[0]: line.split() for line in printed[1:] if "%" in line}
    assert list(cells) == ["fbin", "f16bin", "npy"]
    assert cells["fbin"][3:][:5] == [f"{8 + ROWS.nbytes}", "101%", "exact", "1", "100.0%"]
    assert f"{8 + ROWS.nbytes // 2}" in cells["f16bin"] and "51%" in cells["f16bin"]
    assert "exact" not in cells["f16bin"]
    assert "the 10 nearest of 30 rows" in printed[-1]


def test_a_format_that_is_missing_or_refuses_is_one_line_and_the_others_stay(some, tmp_path, capsys, monkeypatch):
    some("cvc", "npz", "npy")

    def refuse(error):
        def write(*_, **__):
            raise error

        return write

    cvc, npz = (type(formats.find_format(name)[0]) for name in ("cvc", "npz"))
    monkeypatch.setattr(cvc, "write", refuse(MissingExtra("zlib", extra="cvc", purpose="chunks")))
    monkeypatch.setattr(npz, "write", refuse(InputError("not today")))
    print_table(ROWS, tmp_path)
    printed = [line.strip() for line in lines(capsys)]
    assert len([line for line in printed if line.startswith("cvc: not here; ")]) == 1
    assert "npz raw: left out; not today" in printed
    assert [line for line in printed if line.startswith("npy ")] and not list(tmp_path.iterdir())


def test_without_compiled_kernels_text_is_left_out_and_said(some, tmp_path, capsys, monkeypatch):
    some("wordtext", "npy")
    monkeypatch.setattr(table_module, "NATIVE", False)
    print_table(ROWS, tmp_path)
    assert "   wordtext: left out; it takes long without compiled kernels" in lines(capsys)


def test_recall_counts_the_neighbours_that_are_still_found_and_not_the_row_itself(tmp_path):
    trial = table_module._Trial(ROWS, tmp_path)
    assert trial._recall(ROWS) == 1 and trial.truth.shape == (30, 10)
    assert not (trial.truth == trial.asked[:, None]).any()
    assert trial._recall(ROWS * np.float32(3)) == 1  # the same directions
    assert trial._recall(np.random.default_rng(1).standard_normal(ROWS.shape)) < 0.9
    assert len(trial.known) == 3
