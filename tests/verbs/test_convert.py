"""convert and write: what is kept, what goes beside, what is refused, and what the receipt says."""

from __future__ import annotations

import hashlib
import resource
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.sidecars import ENDINGS
from polyvec.testing import vectors
from polyvec.testing.atomicity import contents, killed_at
from polyvec.testing.limits import limited

ROWS = vectors(9, 4)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_full() -> pv.Collection:
    return pv.Collection.from_arrays(
        ROWS,
        vocab=[f"word {i}" for i in range(9)],
        records=[{"i": i, "ü": None} for i in range(9)],
        ids=np.arange(9) + 2**40,
        metadata={"model": "ü", "nested": {"a": [1]}},
    )


def test_fbin_to_npy_and_back_is_exact_and_the_receipt_says_so(tmp_path: Path) -> None:
    first = pv.write(tmp_path / "a.fbin", ROWS)
    second = pv.convert(tmp_path / "a.fbin", tmp_path / "b.npy", sha256=True)
    pv.convert(tmp_path / "b.npy", tmp_path / "c.fbin")
    assert np.array_equal(np.load(tmp_path / "b.npy"), ROWS)
    assert (tmp_path / "a.fbin").read_bytes() == (tmp_path / "c.fbin").read_bytes()
    assert (first.format, first.rows, first.dim, first.bytes) == ("bins", 9, 4, 8 + 9 * 4 * 4)
    assert first.loss is not None and first.loss.exact and first.loss.rows == 9
    assert second.codec == "raw float32 -> raw float32"
    assert second.sha256 == hashlib.sha256((tmp_path / "b.npy").read_bytes()).hexdigest()
    assert second.to_dict()["loss"]["exact"] is True
    assert names(tmp_path) == ["a.fbin", "b.npy", "c.fbin"]


def test_what_a_target_cannot_hold_goes_beside_it_and_is_found_again(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.fbin", make_full())
    beside = [".ids.npy", ".metadata.json", ".records.jsonl", ".words.txt"]
    assert sorted(receipt.sidecars) == [f"a.fbin{ending}" for ending in beside]
    pv.convert(tmp_path / "a.fbin", tmp_path / "b.npy")
    expected = make_full()
    with pv.open(tmp_path / "b.npy") as found:
        assert list(found.vocab) == list(expected.vocab) and found.vocab.index("word 3") == 3
        assert [dict(r) for r in found.records] == [dict(r) for r in expected.records]
        assert found.ids[:].tolist() == expected.ids[:].tolist()
        assert found.metadata == expected.metadata
        assert sorted(found.sidecars) == [f"b.npy{ending}" for ending in beside]
    with pv.open(tmp_path / "b.npy", sidecars=False) as alone:
        assert alone.vocab is None and alone.records is None and alone.ids is None and not alone.metadata


def test_sidecars_can_be_dropped_and_the_receipt_says_so(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.fbin", make_full(), sidecar=False)
    assert receipt.sidecars == () and sorted(receipt.dropped) == ["ids", "metadata", "records", "words"]
    assert names(tmp_path) == ["a.fbin"]


def test_sidecars_of_an_earlier_target_do_not_outlive_it(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", make_full())
    for ending in ENDINGS:
        (tmp_path / f"a.fbin{ending}").touch()
    pv.write(tmp_path / "a.fbin", ROWS[:2])
    assert names(tmp_path) == ["a.fbin"]
    with pv.open(tmp_path / "a.fbin") as found:
        assert found.rows == 2 and found.vocab is None


def test_a_sidecar_that_is_the_input_is_not_removed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.fbin.ids.npy", np.arange(6, dtype=np.int64).reshape(2, 3))
    before = contents(tmp_path)
    with pytest.raises(pv.InputError, match="input"):
        pv.convert(tmp_path / "a.fbin.ids.npy", tmp_path / "a.fbin")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("ending", "data", "words"),
    [
        (".words.txt", b"one\ntwo\n", "expected 9 lines, found 2 lines"),
        (".words.jsonl", b'"a"\n' * 8 + b"5\n", "not a JSON string"),
        (".words.jsonl", b'"a"\n' * 8 + b'"a\n', "invalid JSON"),
        (".ids.txt", b"", "expected 9 lines, found 0"),
        (".ids.npy", b"\x93NUMPY", "ids do not match the rows"),
        (".ids.npy", bytes(80), "ids do not match the rows"),
        (".metadata.json", b"[]", "not a JSON object"),
        (".metadata.json", b'{"a": 1', "invalid JSON"),
    ],
)
def test_a_damaged_sidecar_is_a_format_error_that_names_it(
    tmp_path: Path, ending: str, data: bytes, words: str
) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    (tmp_path / f"a.fbin{ending}").write_bytes(data)
    with pytest.raises(pv.FormatError, match=words) as caught:
        pv.open(tmp_path / "a.fbin")
    assert ending in str(caught.value)
    report = pv.verify(tmp_path / "a.fbin")
    assert not report.ok and words in report.findings[0].message


def test_damaged_records_are_told_when_they_are_read_and_by_verify(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    (tmp_path / "a.fbin.records.jsonl").write_bytes(b"{}\n" * 8 + b"{\n")
    with pv.open(tmp_path / "a.fbin") as collection, pytest.raises(pv.Corrupt, match="invalid JSON"):
        list(collection.records)
    assert not pv.verify(tmp_path / "a.fbin").ok


def test_an_encoding_is_lossy_only_where_asked_and_measured(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.f16bin", ROWS)
    assert receipt.loss is not None and not receipt.loss.exact
    with pv.open(tmp_path / "a.f16bin") as found:
        error = np.abs(found.vectors[:].astype(np.float64) - ROWS)
    assert receipt.loss.max_error == error.max() and receipt.loss.min_cosine > 0.999999
    bf16 = pv.write(tmp_path / "a.npy", ROWS, encoding="bfloat16")
    assert bf16.codec == "raw float32 -> bfloat16" and bf16.loss is not None and 0 < bf16.loss.max_error < 0.02
    with pv.open(tmp_path / "a.npy") as found:
        assert found.vectors.dtype == ml_dtypes.bfloat16


def test_floats_are_not_cut_to_integers(tmp_path: Path) -> None:
    with pytest.raises(pv.LossyConversion, match="cut to int32"):
        pv.write(tmp_path / "a.ibin", ROWS)
    assert names(tmp_path) == []


def test_several_columns_are_a_choice_that_is_not_ours(tmp_path: Path) -> None:
    two = {"train": ROWS, "test": vectors(2, 4)}
    with pytest.raises(pv.LossyConversion, match=r"train \(9x4\), test \(2x4\).*--column train"):
        pv.write(tmp_path / "a.fbin", two)
    receipt = pv.write(tmp_path / "a.fbin", two, column="test")
    assert receipt.rows == 2 and receipt.dropped == ("train",)
    with pytest.raises(pv.InputError, match="no column 'x'; there are train, test"):
        pv.write(tmp_path / "a.fbin", two, column="x")


def test_a_dry_run_writes_nothing_and_refuses_what_the_run_would(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    receipt = pv.convert(tmp_path / "a.fbin", tmp_path / "b.npy", dry_run=True)
    assert receipt.dry_run and receipt.rows == 9 and names(tmp_path) == ["a.fbin"]
    with pytest.raises(pv.InputError):
        pv.convert(tmp_path / "a.fbin", tmp_path / "a.fbin", dry_run=True)


@pytest.mark.parametrize("suffix", [".npy", ".f16bin"])
def test_progress_counts_rows_in_chunks(tmp_path: Path, suffix: str) -> None:
    pv.write(tmp_path / "a.fbin", vectors(100, 2))
    calls: list[tuple[int, int]] = []
    pv.convert(
        tmp_path / "a.fbin",
        tmp_path / f"b{suffix}",
        chunk_rows=25,
        progress=lambda current, total: calls.append((current, total)),
    )
    assert calls == [(25, 100), (50, 100), (75, 100), (100, 100)]


def test_a_cancelled_conversion_leaves_nothing(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(100, 2))

    def cancel(current: int, total: int) -> None:
        raise pv.Cancelled("enough")

    with pytest.raises(pv.Cancelled):
        pv.convert(tmp_path / "a.fbin", tmp_path / "b.npy", chunk_rows=10, progress=cancel)
    assert names(tmp_path) == ["a.fbin"]


def test_the_format_can_be_named_where_the_suffix_does_not(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.bin", ROWS, format="fbin")
    with pytest.raises(pv.AmbiguousFormat, match="fbin"):
        pv.open(tmp_path / "a.bin")
    with pv.open(tmp_path / "a.bin", format="fbin") as found:
        assert np.array_equal(found.vectors[:], ROWS)
    pv.convert(tmp_path / "a.bin", tmp_path / "b.npy", source_format="fbin")
    assert np.array_equal(np.load(tmp_path / "b.npy"), ROWS)


def test_ids_keep_their_kind(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.ibin", np.array([[1, 2], [3, 2**31 - 1]], np.int64))
    assert (tmp_path / "a.ibin").read_bytes() == struct.pack("<II4i", 2, 2, 1, 2, 3, 2**31 - 1)
    with pv.open(tmp_path / "a.ibin") as found:
        assert found.main == "ids"


def test_string_ids_and_words_with_line_breaks_come_back(tmp_path: Path) -> None:
    ids = ["a", "b\r\nc", "", "Σ", "e", "f", "g", "h", "i"]
    receipt = pv.write(tmp_path / "a.fbin", ROWS, ids=ids, vocab=ids[::-1])
    assert sorted(receipt.sidecars) == ["a.fbin.ids.jsonl", "a.fbin.words.jsonl"]
    with pv.open(tmp_path / "a.fbin") as found:
        assert list(found.ids) == ids and list(found.vocab) == ids[::-1]


@pytest.mark.parametrize("suffix", [".npy", ".f16bin"])
def test_a_full_disk_leaves_the_target_as_it_was(tmp_path: Path, suffix: str) -> None:
    pv.write(tmp_path / "a.fbin", vectors(1000, 8), vocab=["w"] * 1000)
    pv.write(tmp_path / f"b{suffix}", ROWS, vocab=[f"w{i}" for i in range(9)])
    before = contents(tmp_path)
    for size in (1, 3000, 15_000):
        with limited(resource.RLIMIT_FSIZE, 0, size), pytest.raises(OSError):
            pv.convert(tmp_path / "a.fbin", tmp_path / f"b{suffix}")
        assert contents(tmp_path) == before


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5])
def test_a_kill_in_any_rename_leaves_the_old_file_with_its_words_or_the_new_with_its_own(
    tmp_path: Path, call: int
) -> None:
    old, new = [f"old {i}" for i in range(9)], [f"new {i}" for i in range(9)]
    target = tmp_path / "a.fbin"
    pv.write(target, ROWS, vocab=old, ids=range(9))
    assert killed_at("replace", call, lambda: pv.write(target, ROWS + 1, vocab=new, ids=range(9)))
    with pv.open(target) as found:
        committed = call > 1  # the first rename is that of the journal
        assert np.array_equal(found.vectors[:], ROWS + committed)
        assert list(found.vocab) == (new if committed else old)
    pv.write(target, ROWS + 1, vocab=new, ids=range(9))
    assert names(tmp_path) == ["a.fbin", "a.fbin.ids.npy", "a.fbin.sidecars.json", "a.fbin.words.txt"]
