"""Ground truth, ranges, sparse matrices and vecs: the rest of the bin family."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.writing.road import resolve_target

RNG = np.random.default_rng(3)
IDS = np.argsort(RNG.random((5, 40)), axis=1)[:, :7].astype(np.int32)
DISTANCES = np.sort(RNG.random((5, 7)).astype(np.float32), axis=1)


def truth_bytes(ids: np.ndarray, distances: np.ndarray | None, wide: bool = False) -> bytes:
    """Ground truth as big-ann's writer lays it out, by hand."""
    head = struct.pack("<QQ" if wide else "<II", *ids.shape)
    return head + ids.tobytes() + (b"" if distances is None else distances.tobytes())


def vecs_bytes(rows: np.ndarray) -> bytes:
    return b"".join(struct.pack("<i", rows.shape[1]) + row.tobytes() for row in rows)


class TestTruth:
    @pytest.mark.parametrize("name", ["gt.truth", "gt.gt", "gt.ibin", "gt.bin", "gt", "gt.fbin", "gt.ibin.crop_nb_5"])
    @pytest.mark.parametrize("wide", [False, True])
    def test_ids_and_distances_are_told_by_the_size_whatever_the_name(
        self, tmp_path: Path, name: str, wide: bool
    ) -> None:
        path = tmp_path / name
        path.write_bytes(truth_bytes(IDS, DISTANCES, wide))
        with pv.open(path) as c:
            assert c.format == "truth" and c.main == "ids" and c.rows == 5 and c.dim == 7
            assert np.array_equal(c["ids"], IDS) and np.array_equal(c["distances"], DISTANCES)

    def test_ids_alone_under_ibin_stay_plain_bins(self, tmp_path: Path) -> None:
        path = tmp_path / "gt.ibin"
        path.write_bytes(truth_bytes(IDS, None))
        with pv.open(path) as c:
            assert c.format == "bins" and np.array_equal(c.vectors, IDS)
        with pv.open(path, format="truth") as c:
            assert list(c.columns) == ["ids"] and np.array_equal(c.vectors, IDS)

    def test_cuvs_keeps_two_plain_files(self, tmp_path: Path) -> None:
        (tmp_path / "groundtruth.neighbors.ibin").write_bytes(truth_bytes(IDS, None))
        (tmp_path / "groundtruth.distances.fbin").write_bytes(
            struct.pack("<II", *DISTANCES.shape) + DISTANCES.tobytes()
        )
        with pv.open(tmp_path / "groundtruth.neighbors.ibin") as c:
            assert c.main == "ids" and np.array_equal(c.vectors, IDS)
        with pv.open(tmp_path / "groundtruth.distances.fbin") as c:
            assert np.array_equal(c.vectors, DISTANCES)

    def test_diskann_ids_are_unsigned(self, tmp_path: Path) -> None:
        path = tmp_path / "gt.bin"
        ids = IDS.astype(np.uint32) + np.uint32(3_000_000_000)
        path.write_bytes(truth_bytes(ids, DISTANCES))
        with pv.open(path, format="diskann") as c:
            assert np.array_equal(c["ids"], ids)
        with pv.open(path, format="diskann") as c:
            pv.write(tmp_path / "copy.truth", c)
        assert (tmp_path / "copy.truth").read_bytes() == path.read_bytes()

    def test_float64_rows_of_the_same_size_are_not_taken_for_truth(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        rows = RNG.standard_normal((5, 7))
        path.write_bytes(struct.pack("<II", 5, 7) + rows.tobytes())
        with pv.open(path) as c:
            assert c.format == "bins" and np.array_equal(c.vectors, rows)

    @pytest.mark.parametrize("distances", [True, False])
    def test_writing_gives_the_reference_bytes(self, tmp_path: Path, distances: bool) -> None:
        columns = {"ids": IDS, "distances": DISTANCES} if distances else {"ids": IDS}
        receipt = pv.write(tmp_path / "gt.truth", columns)
        assert (tmp_path / "gt.truth").read_bytes() == truth_bytes(IDS, DISTANCES if distances else None)
        assert receipt.loss is not None and receipt.loss.exact

    def test_neighbors_by_another_name_are_found(self, tmp_path: Path) -> None:
        pv.write(tmp_path / "gt.truth", {"neighbors": IDS, "distances": DISTANCES})
        assert (tmp_path / "gt.truth").read_bytes() == truth_bytes(IDS, DISTANCES)

    def test_ids_beyond_int32_are_refused_not_wrapped(self, tmp_path: Path) -> None:
        with pytest.raises(pv.InputError, match="does not fit"):
            pv.write(tmp_path / "gt.truth", {"ids": IDS.astype(np.int64) + 2**40})
        assert not (tmp_path / "gt.truth").exists()

    def test_floats_are_no_ids(self, tmp_path: Path) -> None:
        with pytest.raises(pv.InputError, match="whole numbers"):
            pv.write(tmp_path / "gt.truth", DISTANCES)

    def test_every_truncation_is_an_error_that_names_both_sizes(self, tmp_path: Path) -> None:
        data = truth_bytes(IDS, DISTANCES)
        path = tmp_path / "gt.truth"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            if size == 8 + IDS.nbytes:
                continue  # ids alone: a valid file
            with pytest.raises(pv.FormatError):
                pv.open(path)
        path.write_bytes(data[:-1])
        with pytest.raises(pv.Truncated, match="expected 148 or 288 bytes, found 287"):
            pv.open(path)
        with pytest.warns(pv.FormatWarning, match="left out"), pv.open(path, lenient=True) as c:
            assert list(c.columns) == ["ids"] and np.array_equal(c.vectors, IDS)

    def test_verify_says_that_ids_are_missing_neighbours(self, tmp_path: Path) -> None:
        ids = IDS.copy()
        ids[3, -1] = -1
        pv.write(tmp_path / "gt.truth", {"ids": ids, "distances": DISTANCES})
        report = pv.verify(tmp_path / "gt.truth")
        assert report.ok and "row 3" in report.findings[0].message


class TestRanges:
    COUNTS = np.array([2, 0, 3], np.int32)
    FOUND = np.array([5, 6, 1, 2, 3], np.int32)
    NEAR = np.arange(5, dtype=np.float32)

    def data(self, distances: bool = True) -> bytes:
        head = struct.pack("<ii", 3, 5) + self.COUNTS.tobytes() + self.FOUND.tobytes()
        return head + (self.NEAR.tobytes() if distances else b"")

    @pytest.mark.parametrize("name", ["gt.range", "gt.ibin", "gt.bin", "gt"])
    @pytest.mark.parametrize("distances", [True, False])
    def test_the_size_and_the_counts_tell_it(self, tmp_path: Path, name: str, distances: bool) -> None:
        (tmp_path / name).write_bytes(self.data(distances))
        with pv.open(tmp_path / name) as c:
            assert c.format == "ranges" and c.main == "ids"
            assert np.array_equal(c["counts"], self.COUNTS) and np.array_equal(c["ids"], self.FOUND)
            assert ("distances" in c.columns) is distances

    @pytest.mark.parametrize("distances", [True, False])
    def test_a_copy_has_the_same_bytes(self, tmp_path: Path, distances: bool) -> None:
        (tmp_path / "a.range").write_bytes(self.data(distances))
        pv.convert(tmp_path / "a.range", tmp_path / "b.range")
        assert (tmp_path / "b.range").read_bytes() == self.data(distances)

    def test_a_small_ibin_stays_an_ibin(self, tmp_path: Path) -> None:
        pv.write(tmp_path / "x.ibin", np.array([[1, 1], [5, 6]], np.int32))  # also reads as 2 counts and 2 ids
        with pv.open(tmp_path / "x.ibin") as c:
            assert c.format == "bins"

    def test_every_truncation_is_a_format_error(self, tmp_path: Path) -> None:
        data, path = self.data(), tmp_path / "a.range"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            if size != len(self.data(False)):
                with pytest.raises(pv.FormatError):
                    pv.open(path)

    @pytest.mark.parametrize("at, value, message", [(8, 7, "do not sum"), (12, -1, "negative"), (0, -5, "negative")])
    def test_counts_that_contradict_are_corrupt(self, tmp_path: Path, at: int, value: int, message: str) -> None:
        data = bytearray(self.data())
        data[at : at + 4] = struct.pack("<i", value)
        (tmp_path / "a.range").write_bytes(data)
        with pytest.raises(pv.Corrupt, match=message):
            pv.open(tmp_path / "a.range")


class TestSparse:
    DENSE = np.where(RNG.random((6, 11)) < 0.3, RNG.standard_normal((6, 11)), 0).astype(np.float32)

    def data(self) -> bytes:
        rows, columns = np.nonzero(self.DENSE)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=6))]).astype("<i8")
        head = struct.pack("<qqq", 6, 11, len(rows)) + indptr.tobytes()
        return head + columns.astype("<i4").tobytes() + self.DENSE[rows, columns].astype("<f4").tobytes()

    def test_dense_rows_come_on_request(self, tmp_path: Path) -> None:
        (tmp_path / "m.csr").write_bytes(self.data())
        with pv.open(tmp_path / "m.csr") as c:
            assert (c.rows, c.dim) == (6, 11) and list(c.columns) == ["vectors", "indptr", "indices", "data"]
            assert np.array_equal(c.vectors, self.DENSE) and np.array_equal(c.vectors[[4, 1]], self.DENSE[[4, 1]])
            assert [b.rows for b in c.vectors.blocks(4)] == [4, 2]
        with pytest.raises(pv.LossyConversion, match="--column vectors"):
            pv.convert(tmp_path / "m.csr", tmp_path / "m.fbin")
        pv.convert(tmp_path / "m.csr", tmp_path / "m.fbin", column="vectors")
        with pv.open(tmp_path / "m.fbin") as c:
            assert np.array_equal(c.vectors, self.DENSE)

    @pytest.mark.parametrize("suffix", ["csr", "spmat"])
    def test_dense_rows_are_written_as_the_reference_bytes(self, tmp_path: Path, suffix: str) -> None:
        receipt = pv.write(tmp_path / f"m.{suffix}", self.DENSE, chunk_rows=4)
        assert (tmp_path / f"m.{suffix}").read_bytes() == self.data()
        assert receipt.loss is not None and receipt.loss.exact
        pv.convert(tmp_path / f"m.{suffix}", tmp_path / "copy.csr")
        assert (tmp_path / "copy.csr").read_bytes() == self.data()

    def test_negative_zero_keeps_its_sign(self, tmp_path: Path) -> None:
        pv.write(tmp_path / "m.csr", np.array([[0.0, -0.0, 1.0]], np.float32))
        with pv.open(tmp_path / "m.csr") as c:
            assert c["data"].rows == 2

    def test_shards_merge_by_rows(self, tmp_path: Path) -> None:
        for number, rows in enumerate((self.DENSE[:2], self.DENSE[2:])):
            pv.write(tmp_path / f"m-{number}.csr", rows)
        pv.merge(str(tmp_path / "m-*.csr"), tmp_path / "m.csr")
        assert (tmp_path / "m.csr").read_bytes() == self.data()

    def test_every_truncation_is_a_format_error(self, tmp_path: Path) -> None:
        data, path = self.data(), tmp_path / "m.csr"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            with pytest.raises(pv.FormatError):
                pv.open(path)

    @pytest.mark.parametrize(
        "at, code, value, message",
        [
            (0, "<q", -1, "no matrix"),
            (8, "<q", 2**40, "no matrix"),
            (16, "<q", 2**60, "no matrix"),
            (24, "<q", 1, "indptr"),
            (40, "<q", 2**40, "indptr"),
            (24 + 56, "<i", 11, "outside the matrix"),
            (24 + 56, "<i", -1, "outside the matrix"),
        ],
    )
    def test_numbers_that_contradict_are_corrupt(
        self, tmp_path: Path, at: int, code: str, value: int, message: str
    ) -> None:
        data = bytearray(self.data())
        data[at : at + struct.calcsize(code)] = struct.pack(code, value)
        (tmp_path / "m.csr").write_bytes(data)
        report = pv.verify(tmp_path / "m.csr")
        assert not report.ok and message in report.findings[0].message
        with pytest.raises(pv.Corrupt, match=message):
            np.asarray(pv.open(tmp_path / "m.csr").vectors)

    def test_absurdly_wide_rows_are_never_allocated(self, tmp_path: Path) -> None:
        data = struct.pack("<qqq", 1, 2**31 - 1, 1) + struct.pack("<qq", 0, 1) + struct.pack("<if", 9, 1.0)
        (tmp_path / "m.csr").write_bytes(data)
        with pytest.warns(pv.FormatWarning, match="too large"), pv.open(tmp_path / "m.csr") as c:
            assert c.main == "data" and "vectors" not in c.columns


class TestVecs:
    @pytest.mark.parametrize("kind, dtype", [("fvecs", "<f4"), ("ivecs", "<i4"), ("bvecs", "|u1")])
    def test_both_ways_with_the_reference_bytes(self, tmp_path: Path, kind: str, dtype: str) -> None:
        rows = RNG.integers(0, 255, (9, 5)).astype(dtype)
        receipt = pv.write(tmp_path / f"x.{kind}", rows, chunk_rows=4)
        assert (tmp_path / f"x.{kind}").read_bytes() == vecs_bytes(rows)
        assert receipt.loss is not None and receipt.loss.exact
        with pv.open(tmp_path / f"x.{kind}") as c:
            assert c.vectors.dtype == np.dtype(dtype) and np.array_equal(c.vectors, rows)
            assert np.array_equal(c.vectors[[7, 2]], rows[[7, 2]]) and np.array_equal(c.vectors[3:5], rows[3:5])
            extent = next(c.vectors.extents(2, 4))
            assert extent.stride == 4 + rows.itemsize * 5 and extent.offset == 4 + 2 * extent.stride

    def test_fvecs_fed_as_fbin_is_named_in_the_error(self, tmp_path: Path) -> None:
        (tmp_path / "sift.fbin").write_bytes(vecs_bytes(RNG.random((20, 16)).astype(np.float32)))
        with pytest.raises(pv.FormatError, match=r"the bytes look like fvecs .*--from fvecs"):
            pv.open(tmp_path / "sift.fbin")
        with pv.open(tmp_path / "sift.fbin", format="fvecs") as c:
            assert c.vectors.shape == (20, 16)

    def test_a_row_of_another_dimension_is_found_when_it_is_read(self, tmp_path: Path) -> None:
        data = bytearray(vecs_bytes(np.ones((4, 3), np.float32)))
        data[32:36] = struct.pack("<i", 2)
        (tmp_path / "x.fvecs").write_bytes(data)
        with (
            pv.open(tmp_path / "x.fvecs") as c,
            pytest.raises(pv.Corrupt, match="row 2 d at byte 32; expected 3, found 2"),
        ):
            c.vectors.to_numpy()
        assert not pv.verify(tmp_path / "x.fvecs").ok

    def test_every_truncation_is_a_format_error_or_whole_rows(self, tmp_path: Path) -> None:
        rows = np.ones((3, 3), np.float32)
        data, path = vecs_bytes(rows), tmp_path / "x.fvecs"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            if size and size % 16 == 0:
                with pv.open(path) as c:
                    assert c.rows == size // 16
                continue
            with pytest.raises(pv.FormatError):
                pv.open(path)
        path.write_bytes(data[:-1])
        with pytest.warns(pv.FormatWarning, match="2 whole rows"), pv.open(path, lenient=True) as c:
            assert np.array_equal(c.vectors, rows[:2])

    @pytest.mark.parametrize("d", [0, -1, 2**31 - 1])
    def test_absurd_dimensions_are_refused(self, tmp_path: Path, d: int) -> None:
        (tmp_path / "x.fvecs").write_bytes(struct.pack("<i", d) + bytes(12))
        with pytest.raises(pv.FormatError):
            pv.open(tmp_path / "x.fvecs")

    def test_a_file_without_rows_cannot_say_its_dimension(self, tmp_path: Path) -> None:
        with pytest.raises(pv.InputError, match="at least one row"):
            pv.write(tmp_path / "x.fvecs", np.empty((0, 4), np.float32))


def test_a_cropped_download_is_read_by_the_suffix_before_the_mark(tmp_path: Path) -> None:
    rows = RNG.random((10, 4)).astype(np.float32)
    path = tmp_path / "base.1B.fbin.crop_nb_10"
    path.write_bytes(struct.pack("<II", 10, 4) + rows.tobytes())
    with pv.open(path) as c:
        assert c.format == "bins" and np.array_equal(c.vectors, rows)


def test_every_suffix_of_the_family_names_its_format() -> None:
    c = pv.Collection.from_arrays({"ids": IDS})
    for suffix, name in (
        (".truth", "truth"),
        (".gt", "truth"),
        (".range", "ranges"),
        (".csr", "csr"),
        (".fvecs", "vecs"),
    ):
        assert resolve_target(f"x{suffix}", c, None)[0].name == name
