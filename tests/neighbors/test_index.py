"""An index gives what a search without it gives, and refuses rows it was not made of."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import Corrupt, InputError, Truncated, Unsupported
from polyvec.neighbors.index import Index, sidecar_path
from polyvec.neighbors.metric import NAMES
from polyvec.neighbors.search import search
from polyvec.testing.descriptors import no_descriptors_left

from .datasets import CASES
from .test_scan import brute_force


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("name", CASES)
def test_an_index_is_exact(name, metric):
    rows, queries = CASES[name](np.random.default_rng(4), 500, 40, 70)
    index = Index.build(rows)
    for some in (queries[:1], queries[:4], queries):
        ids, scores = brute_force(rows, some, 6, metric)
        hits = index.search(some, 6, metric)
        np.testing.assert_array_equal(hits.rows, ids)
        np.testing.assert_array_equal(hits.scores, scores)


@pytest.fixture
def base(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "base.fbin"
    pv.write(path, rng.standard_normal((300, 24)).astype(np.float32))
    return path


def test_a_sidecar_serves_a_file(base):
    index = Index.build(base)
    index.save(sidecar_path(base))
    again = Index.open(sidecar_path(base), base)
    queries = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)
    for metric in NAMES:
        want = search(base, queries, 7, metric)
        for use in (index, again):
            hits = use.search(queries, 7, metric)
            np.testing.assert_array_equal(hits.rows, want.rows)
            np.testing.assert_array_equal(hits.scores, want.scores)


def test_a_touched_file_is_hashed_again_and_accepted(base):
    Index.build(base).save(sidecar_path(base))
    base.write_bytes(base.read_bytes())
    assert Index.open(sidecar_path(base), base).rows == 300


def test_the_sidecar_of_another_file_is_refused(base, tmp_path):
    Index.build(base).save(sidecar_path(base))
    with pytest.raises(InputError, match="300 x 24 rows and the base has 10 x 24"):
        Index.open(sidecar_path(base), np.zeros((10, 24), np.float32))
    rows = pv.open(base).vectors.to_numpy()
    rows[150] += 1
    rows[0] *= 1  # the looked-at rows stay: only the hash can tell
    other = tmp_path / "other.fbin"
    pv.write(other, rows)
    with pytest.raises(InputError, match=r"of another file: the rows' hash differs|of other rows"):
        Index.open(sidecar_path(base), other)
    with pytest.raises(InputError, match="of other rows: row 0 differs"):
        search(rows + 1, rows[:1], 1, index=Index.build(base))


def refused(path, base, queries):
    """Whether opening or the first search refuses the file."""
    try:
        Index.open(path, base).search(queries, 3, "l2")
    except (Corrupt, Truncated):
        return True
    return False


@pytest.mark.parametrize("shift", [0, 50])
def test_every_truncation_and_every_flip_is_refused(tmp_path, shift):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((9, 5)) + shift).astype(np.float32)  # shifted rows are kept from their center on
    path = tmp_path / "a.pvindex"
    Index.build(rows).save(path)
    data = path.read_bytes()
    assert not refused(path, rows, rows)
    bad = tmp_path / "bad.pvindex"
    for size in [*range(0, len(data), 13), len(data) - 1]:
        bad.write_bytes(data[:size])
        assert refused(bad, rows, rows), f"cut at {size}"
    bad.write_bytes(data + bytes(64))
    assert refused(bad, rows, rows)
    for at in range(len(data)):  # magic, lengths, checksums, header, every array and the zeros between them
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        bad.write_bytes(flipped)
        assert refused(bad, rows, rows), f"bit flipped at {at}"


def test_zeroed_pages_of_codes_are_told_by_the_first_search_that_comes_to_them(tmp_path, monkeypatch):
    monkeypatch.setattr("polyvec.neighbors.sidecar.STRETCH", 4096)
    monkeypatch.setattr("polyvec.neighbors.index.STRETCH", 4096)
    rows = np.random.default_rng(0).standard_normal((4000, 24)).astype(np.float32)
    path = tmp_path / "a.pvindex"
    Index.build(rows).save(path)
    data = bytearray(path.read_bytes())
    start = len(data) // 3 // 4096 * 4096
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)
    index = Index.open(path, rows)
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"array codes is damaged: .*checksum.*delete it and build it again"):
            index.search(rows[:2], 1, "ip")
    with pytest.raises(Corrupt, match="array codes is damaged"):
        index.save(tmp_path / "copy.pvindex")


def test_codes_are_checked_once_and_searched_in_stretches_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr("polyvec.neighbors.sidecar.STRETCH", 1000)
    monkeypatch.setattr("polyvec.neighbors.index.STRETCH", 1000)
    rows = np.random.default_rng(0).standard_normal((777, 24)).astype(np.float32)
    Index.build(rows).save(tmp_path / "a.pvindex")
    index = Index.open(tmp_path / "a.pvindex", rows)
    ids, scores = brute_force(rows, rows[:5], 9, "l2")
    for _ in range(2):
        hits = index.search(rows[:5], 9, "l2")
        np.testing.assert_array_equal(hits.rows, ids)
        np.testing.assert_array_equal(hits.scores, scores)
        assert not index._unchecked.pending


def test_an_index_without_checksums_is_refused_by_name(base, tmp_path):
    old = tmp_path / "old.pvindex"
    old.write_bytes(b"PVINDEX1" + (2).to_bytes(4, "little") + b"{}" + bytes(64))
    with pytest.raises(Unsupported, match="earlier polyvec, without checksums; delete it and build it again"):
        Index.open(old, base)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_an_index_holds_its_mapping_alone_and_lets_go_of_it(base):
    Index.build(base).save(sidecar_path(base))

    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    kept = [Index.open(sidecar_path(base), base) for _ in range(10)]
    assert count() <= before + 10  # Python's mapping keeps a descriptor of its own
    for index in kept:
        index.search(np.ones((1, 24), np.float32), 1)
    del kept, index
    for _ in range(3):
        with pytest.raises(InputError):
            Index.open(sidecar_path(base), np.zeros((3, 3), np.float32))
    assert count() == before


def change_a_row(path, row):
    """Change one row in place and give the file its old time back."""
    was = path.stat()
    with path.open("r+b") as file:
        file.seek(8 + row * 24 * 4)
        file.write(np.full(24, 7, np.float32).tobytes())
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def test_a_base_changed_in_one_row_is_refused_whatever_its_time_says(base):
    Index.build(base).save(sidecar_path(base))
    change_a_row(base, 151)
    with pytest.raises(InputError, match="of other rows: their hash differs; build it again"):
        Index.open(sidecar_path(base), base)


def test_a_base_changed_between_two_searches_is_refused(base):
    index = Index.build(base)
    queries = np.ones((1, 24), np.float32)
    index.search(queries, 1)
    change_a_row(base, 151)
    with pytest.raises(InputError, match="of other rows: their hash differs"):
        index.search(queries, 1)


def test_another_array_of_equal_lengths_is_refused(base):
    rows = np.random.default_rng(0).standard_normal((300, 24)).astype(np.float32)
    index = Index.build(rows)
    assert search(rows, rows[:1], 1, index=index).rows.tolist() == [[0]]
    assert search(rows.copy(), rows[:1], 1, index=index).rows.tolist() == [[0]]
    for other in (-rows, rows[:, ::-1].copy(), np.where(np.arange(300)[:, None] == 151, 0, rows)):
        with pytest.raises(InputError, match="the index is of other rows"):
            search(other.astype(np.float32), rows[:1], 1, index=index)


def test_a_second_shard_that_changed_is_refused(tmp_path):
    rows = np.random.default_rng(0).standard_normal((60, 24)).astype(np.float32)
    shards = [tmp_path / "a.fbin", tmp_path / "b.fbin"]
    for shard, part in zip(shards, (rows[:30], rows[30:])):
        pv.write(shard, part)
    names = [str(shard) for shard in shards]
    Index.build(names).save(tmp_path / "both.pvindex")
    assert Index.open(tmp_path / "both.pvindex", names).search(rows[40], 1).rows.tolist() == [[40]]
    change_a_row(shards[1], 1)
    with pytest.raises(InputError, match="of other rows"):
        Index.open(tmp_path / "both.pvindex", names)


def test_a_base_changed_while_it_is_indexed_is_refused(base):
    with pytest.raises(InputError, match="changed while it was indexed"):
        Index.build(base, progress=lambda done, total: change_a_row(base, 3))


def test_an_index_of_nothing_is_refused():
    with pytest.raises(InputError, match="the base is empty"):
        Index.build(np.empty((0, 3), np.float32))
    with pytest.raises(InputError, match="whole numbers, such as ids"):
        Index.build(np.ones((3, 3), np.int32))


def test_a_bad_sidecar_leaves_no_file_open(base, tmp_path):
    sidecar = Index.build(base).save(tmp_path / "i")
    whole = sidecar.read_bytes()
    Index.open(sidecar, base)
    kept = []
    with no_descriptors_left(collected=True):
        for data in (b"", whole[:10], whole[:300], whole[:-64], whole[:200] + b"x" + whole[201:], whole + bytes(64)):
            sidecar.write_bytes(data)
            with pytest.raises(pv.FormatError) as told:
                Index.open(sidecar, base)
            kept.append(told.type)
        sidecar.write_bytes(whole)
        with pytest.raises(InputError):
            Index.open(sidecar, base, column="none")
        with pytest.raises(FileNotFoundError):
            Index.open(sidecar, tmp_path / "none.fbin")
        del told
    assert len(kept) == 6


def test_an_index_of_a_sidecar_travels_by_its_place_and_one_in_memory_by_value(base, tmp_path, monkeypatch):
    built = Index.build(base)
    sidecar = built.save(tmp_path / "i")
    with pv.open(base) as collection:
        rows = collection.vectors[:]
        wanted = built.search(rows[:3], k=4)
        (tmp_path / "far").mkdir()
        monkeypatch.chdir(tmp_path)
        opened = {"path": Index.open("i", base.name), "collection": Index.open("i", collection), "built": built}
        Index.open("i", base.name).search(rows[:3], k=4)
        sent = {name: pickle.dumps(index) for name, index in opened.items()}
        searched = opened["path"].search(rows[:3], k=4)
        sent["searched"] = pickle.dumps(opened["path"])
        sent["sent again"] = pickle.dumps(pickle.loads(sent["path"]))
    assert (searched.rows == wanted.rows).all()
    monkeypatch.chdir(tmp_path / "far")
    codes = built.shadow.codes.nbytes
    assert {name for name, data in sent.items() if len(data) > codes} == {"built"}
    with no_descriptors_left(collected=True):
        for name, data in sent.items():
            index = pickle.loads(data)
            hits = index.search(rows[:3], k=4)
            assert (hits.rows == wanted.rows).all() and (hits.scores == wanted.scores).all(), name
            assert name == "collection" or not index.rehashed, name
        del index
    os.utime(sidecar, ns=(1, 1))
    with no_descriptors_left(), pytest.raises(pv.FormatError, match="replaced or changed"):
        pickle.loads(sent["path"])
    sidecar.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(sent["path"])
    assert pickle.loads(sent["built"]).search(rows[:3], k=4).rows.tolist() == wanted.rows.tolist()


def test_the_codes_of_an_index_that_travelled_are_checked_too(base, tmp_path):
    sidecar = Index.build(base).save(tmp_path / "i")
    index = Index.open(sidecar, base)
    data, found = bytearray(sidecar.read_bytes()), sidecar.stat()
    at = bytes(data).find(index.shadow.codes.tobytes())
    data[at + 100] ^= 1
    sent = pickle.dumps(index)
    with sidecar.open("r+b") as file:  # in place, and as old as it was
        file.write(data)
    os.utime(sidecar, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(Corrupt, match="array codes is damaged"):
        pickle.loads(sent).search(np.ones((1, 24)), k=1)
