"""info, verify, convert, merge, split, sample, and formats: what they print and write."""

from __future__ import annotations

import hashlib
import json

import numpy as np

import polyvec as pv


def test_info_says_what_and_why(cli):
    code, out, _ = cli("info", "vectors.fbin", "--layout")
    assert code == 0
    for expected in (
        "bins",
        "size = 8 + 300 x 16 x 4",
        "300 x 16 float32",
        "norms 1 to 1",
        "name, kind",
        "header.n",
        "values",
    ):
        assert expected in out


def test_info_of_several_files_and_globs(cli):
    code, out, _ = cli("info", "shard-*.fbin", "queries.fbin")
    assert code == 0 and out.count("recognised by") == 4
    found = json.loads(cli("info", "shard-*.fbin", "--json")[1])
    assert [one["rows"] for one in found] == [100, 100, 100]
    assert cli("info", "none-*.fbin")[0] == 2


def test_info_as_json(cli):
    [found] = json.loads(cli("info", "vectors.fbin", "--json", "--layout")[1])
    assert found["format"] == "bins" and found["rows"] == 300 and found["dim"] == 16
    assert found["columns"][0]["norm_max"] > 0.99 and found["layout"][0]["size"] == 4
    assert sum(span["size"] for span in found["layout"]) == found["bytes"]


def test_info_lists_every_layout_that_fits(cli, folder):
    (folder / "plain").write_bytes((folder / "queries.fbin").read_bytes())
    code, _, err = cli("info", "plain")
    assert code == 1 and "fbin" in err and "ibin" in err and "u32bin" in err and "--from" in err
    code, out, _ = cli("info", "plain", "--from", "fbin")
    assert code == 0 and "asked for as fbin" in out


def test_info_suspects_ids_under_a_float_suffix(cli, folder):
    pv.write("ids.ibin", np.arange(40, dtype=np.int32).reshape(4, 10))
    (folder / "gt.fbin").write_bytes((folder / "ids.ibin").read_bytes())
    assert "ibin" in cli("info", "gt.fbin")[1]


def test_convert_prints_a_receipt(cli, folder):
    code, out, _ = cli("convert", "vectors.fbin", "o.f16bin", "--sha256")
    assert (
        code == 0 and "raw float32 -> raw float16" in out and "worst cosine" in out and "o.f16bin.records.jsonl" in out
    )
    assert hashlib.sha256((folder / "o.f16bin").read_bytes()).hexdigest() in out
    receipt = json.loads(cli("convert", "vectors.fbin", "p.npy", "--json", "--no-sidecar")[1])
    assert receipt["loss"]["exact"] and receipt["dropped"] == ["records"] and receipt["rows"] == 300


def test_convert_through_a_pipe(process, folder):
    first = process("convert", "vectors.fbin", "-", "--to", "npy")
    assert first.returncode == 0 and first.stdout.startswith(b"\x93NUMPY")
    second = process("convert", "-", "back.fbin", input=first.stdout)
    assert second.returncode == 0, second.stderr
    assert (folder / "back.fbin").read_bytes() == (folder / "vectors.fbin").read_bytes()


def test_a_glob_is_one_collection(cli, folder):
    assert cli("convert", "shard-*.fbin", "whole.fbin")[0] == 0
    assert (folder / "whole.fbin").read_bytes() == (folder / "vectors.fbin").read_bytes()


def test_dry_run_writes_nothing(cli, folder):
    before = sorted(p.name for p in folder.iterdir())
    for arguments in (
        ["convert", "vectors.fbin", "o.npy"],
        ["merge", "shard-*.fbin", "-o", "o.fbin"],
        ["split", "vectors.fbin", "o.fbin", "--parts", "2"],
        ["sample", "vectors.fbin", "o.fbin", "--head", "2"],
    ):
        code, out, _ = cli(*arguments, "--dry-run")
        assert code == 0 and "would write" in out
    assert sorted(p.name for p in folder.iterdir()) == before


def test_samples(cli):
    vectors = np.asarray(pv.open("vectors.fbin").vectors)
    for name, option, rows in (
        ("a", ["--head", "5"], range(5)),
        ("b", ["--range", "10:20"], range(10, 20)),
        ("c", ["--range", "290:"], range(290, 300)),
        ("d", ["--stride", "7"], range(0, 300, 7)),
        ("e", ["--stride", "7", "--limit", "3"], range(0, 21, 7)),
    ):
        assert cli("sample", "vectors.fbin", f"{name}.npy", *option)[0] == 0
        np.testing.assert_array_equal(np.load(f"{name}.npy"), vectors[list(rows)])
        assert pv.open(f"{name}.npy").records[0]["name"] == f"item {rows[0]}"
    for name in ("r1", "r2"):
        cli("sample", "vectors.fbin", f"{name}.npy", "--random", "20", "--seed", "9")
    np.testing.assert_array_equal(np.load("r1.npy"), np.load("r2.npy"))
    assert len(np.unique(np.load("r1.npy"), axis=0)) == 20


def test_verify_compares_a_digest(cli, folder):
    digest = hashlib.sha256((folder / "vectors.fbin").read_bytes()).hexdigest()
    assert cli("verify", "vectors.fbin", "--expect", digest)[0] == 0
    code, out, _ = cli("verify", "vectors.fbin", "--expect", "0" * 64)
    assert code == 1 and digest in out


def test_formats_and_matrix(cli):
    assert "bins" in cli("formats")[1]
    pairs = json.loads(cli("formats", "--matrix", "--json")[1])
    assert pairs["bins"]["npy"] == "exact" and set(pairs) == set(pairs["npy"])


def test_ids_and_records_come_from_fields_and_files(cli, folder):
    (folder / "keys.txt").write_text("".join(f"k{i}\n" for i in range(300)))
    (folder / "cards.csv").write_text("title\n" + "".join(f"t{i}\n" for i in range(300)))
    assert cli("convert", "vectors.fbin", "named.fbin", "--ids", "name")[0] == 0
    assert cli("merge", "vectors.fbin", "-o", "keyed.fbin", "--ids", "keys.txt", "--records", "cards.csv")[0] == 0
    with pv.open("named.fbin") as named, pv.open("keyed.fbin") as keyed:
        assert named.ids[7] == "item 7" and keyed.ids[7] == "k7" and keyed.records[7] == {"title": "t7"}
    (folder / "few.txt").write_text("a\n")
    for ids, words in (("few.txt", "expected 300 lines, found 1"), ("nobody", "there are name, kind")):
        code, _, error = cli("convert", "vectors.fbin", "bad.fbin", "--ids", ids)
        assert code in (1, 2) and words in error and error.count("\n") == 1
    assert not (folder / "bad.fbin").exists()
