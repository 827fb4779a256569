"""FormatSuite: every promise that a format makes, as tests that a new format inherits."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.dtypes import FLOATS, NUMBERS, is_held
from polyvec.core.errors import Cancelled, InputError, LossyConversion
from polyvec.core.options import check_options
from polyvec.testing import atomicity
from polyvec.testing.contents import assert_same_contents, assert_same_extras, consume
from polyvec.testing.limits import limited
from polyvec.testing.memory import MemorySink
from polyvec.testing.reading import Export, ReadingSuite
from polyvec.testing.samples import Sample, made_parts, with_dtype
from polyvec.verbs.convert import convert
from polyvec.verbs.describe import describe
from polyvec.verbs.verify import verify
from polyvec.writing import road
from polyvec.writing.options import COMMON, ENCODINGS, gather
from polyvec.writing.write import write


class FormatSuite(ReadingSuite):
    """For formats that are written too: what is read is what was written. Subclass it as ``TestX``, set ``format``,
    implement `samples`, which are collections and how to write them.
    """

    def samples(self) -> Iterable[Sample]:
        """Collections and how to write them. Small, and with the corners: no rows, one row, every encoding."""
        raise NotImplementedError

    def _write(self, sample: Sample, path: Path, collection: Collection | None = None, **more: Any) -> None:
        chosen: dict[str, Any] = {
            "encoding": sample.encoding,
            "format": sample.format,
            "measure": False,
            "durable": False,
            **sample.options,
            **more,
        }
        write(path, sample.collection if collection is None else collection, **chosen)

    def _export(self, sample: Sample, folder: Path, collection: Collection | None = None, **more: Any) -> Export:
        """The files that writing the sample makes, without sidecars, main file first."""
        folder.mkdir(exist_ok=True)
        self._write(sample, folder / self._name(sample), collection, sidecar=False, **more)
        found = atomicity.contents(folder)
        return {self._name(sample): found.pop(self._name(sample)), **found}

    # -- what is written is what is read

    def test_what_was_written_reads_back(self, sample: Sample, tmp_path: Path) -> None:
        path = tmp_path / self._name(sample)
        self._write(sample, path)
        with formats.open(path, format=sample.format) as collection:
            assert collection.format == self.format.name
            assert_same_contents(collection, sample)
            consume(collection)
        assert verify(path, format=sample.format).ok
        described = describe(path, format=sample.format, layout=True)
        assert described.rows == (sample.expected or sample.collection).rows
        for span in described.layout or ():
            assert 0 <= span.offset <= span.offset + span.size <= described.bytes

    def test_the_file_alone_holds_what_the_format_says_it_holds(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "alone")
        wanted = sample.expected or sample.collection
        holds = self.format.holds
        with self._open(sample, export[self._name(sample)], export) as found:
            assert holds.many_columns or len(wanted.columns) == 1
            only = Collection(
                wanted.columns,
                main=wanted.main,
                vocab=wanted.vocab if holds.vocab else None,
                records=wanted.records if holds.records else None,
                ids=wanted.ids if holds.ids else None,
                metadata=wanted.metadata if holds.metadata else None,
            )
            held = Sample(sample.name, only, tolerance=sample.tolerance)
            assert_same_contents(found, held)

    def test_words_records_ids_and_metadata_that_are_declared_are_in_the_file(self, tmp_path: Path) -> None:
        sample = self._one()
        parts = {name: part for name, part in made_parts(sample.collection).items() if getattr(self.format.holds, name)}
        for number, names in enumerate([*({name} for name in parts), {*parts}]):
            given = sample.collection.with_parts(**{name: parts[name] for name in names})
            asked = {"encoding": sample.encoding, "format": sample.format, **sample.options}
            try:
                fitted = road.fit(tmp_path / self._name(sample), given, gather(asked))
            except (InputError, LossyConversion):
                continue  # what the format cannot take together it says
            kept = {road.NAMES.get(what, what) for what in fitted.parts} & names
            try:
                export = self._export(sample, tmp_path / str(number), given)
            except LossyConversion as error:
                raise AssertionError(f"the format says that it holds {', '.join(sorted(names))}: {error}") from None
            with self._open(sample, export[self._name(sample)], export) as found:
                wanted = {name: parts[name] for name in kept}
                assert_same_extras(found, Collection(given.columns, main=given.main, **wanted))

    def test_an_encoding_that_is_declared_is_used(self, tmp_path: Path) -> None:
        tried = set(self.format.holds.encodings) - {"raw"} if "raw" in self.format.holds.encodings else set()
        for encoding in sorted(tried):
            same = [self._encoded_alike(sample, encoding, tmp_path / f"{encoding}{n}") for n, sample in self._floats()]
            assert False in same, (
                f"{encoding} is declared, and what is written is the same as raw"
                if True in same
                else f"{encoding} is declared, and no sample can be written so; give one"
            )

    def _floats(self) -> list[tuple[int, Sample]]:
        """The samples with rows, those of the main column as float32 where they are not: encodings round those."""
        kept = [sample for sample in self._samples() if sample.collection.rows]
        plain = np.dtype(np.float32)
        if is_held(plain, self.format.holds.dtypes):
            kept = [replace(sample, collection=with_dtype(sample.collection, plain)) for sample in kept]
        return list(enumerate(kept))

    def _encoded_alike(self, sample: Sample, encoding: str, folder: Path) -> bool | None:
        """Whether a sample is the same file in an encoding and raw; None where it cannot be written in both."""
        folder.mkdir()
        try:
            encoded = self._export(sample, folder / "encoded", encoding=encoding)
            plain = sample if sample.encoding in (None, "raw") else replace(sample, options={})  # those of the encoding
            raw = self._export(plain, folder / "raw", encoding="raw")
            with self._open(sample, raw[self._name(sample)], raw) as found:
                kind = found.vectors.dtype.name
            return raw == encoded and kind != encoding  # files of some kinds hold no other rows
        except (InputError, LossyConversion):
            return None

    def test_an_encoding_that_is_not_declared_is_refused(self, tmp_path: Path) -> None:
        sample = self._one()
        for encoding in set(ENCODINGS) - set(self.format.holds.encodings):
            for dry_run in (False, True):
                with pytest.raises(InputError, match=f"no {encoding} encoding"):
                    self._write(sample, tmp_path / self._name(sample), encoding=encoding, dry_run=dry_run)
        assert not list(tmp_path.iterdir())

    def test_a_dtype_that_is_not_declared_is_refused_and_those_that_are_fit(self, tmp_path: Path) -> None:
        sample, held = self._one(), self.format.holds.dtypes
        path = tmp_path / self._name(sample)
        for dtype in dict.fromkeys((*NUMBERS, *FLOATS)):
            given = with_dtype(sample.collection, dtype)
            prepared, _ = self.format.prepare(given, sample.options)
            if is_held(dtype, held):
                road.fit(path, given, gather({"format": sample.format, **sample.options}))
            elif not self.format.holds.casts and prepared.vectors.dtype == dtype:
                for dry_run in (False, True):
                    with pytest.raises(
                        InputError, match=f"is {dtype.name}, which {self.format.name} files cannot hold"
                    ):
                        self._write(sample, path, given, encoding=None, dry_run=dry_run)
        assert not list(tmp_path.iterdir())

    def test_an_option_that_is_not_declared_or_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        sample, declared = self._one(), {option.name for option in self.format.options}
        undeclared = {"no_such_option", *(option.name for option in self.format.reading)} - declared
        for name in (*undeclared, *declared):
            for dry_run in (False, True):
                more: dict[str, Any] = {name: object(), "dry_run": dry_run}
                with pytest.raises(InputError, match=name):
                    self._write(sample, tmp_path / self._name(sample), **more)
        assert not list(tmp_path.iterdir())
        for option in self.format.options:
            assert option.help and option.name not in COMMON
            for value in option.choices or {bool: (True, False), int: (1,), float: (0.5,), str: ("x",)}[option.kind]:
                own = check_options(self.format.name, self.format.options, {option.name: value}, reading=False)
                assert own == {option.name: value}

    def test_a_dry_run_takes_what_the_run_takes(self, sample: Sample, tmp_path: Path) -> None:
        self._write(sample, tmp_path / self._name(sample), dry_run=True)
        assert not list(tmp_path.iterdir())

    def test_the_same_collection_gives_the_same_bytes(self, sample: Sample, tmp_path: Path) -> None:
        assert self._export(sample, tmp_path / "one") == self._export(sample, tmp_path / "two")

    def test_a_sink_of_any_kind_gets_the_same_bytes(self, sample: Sample, tmp_path: Path) -> None:
        whole = self._export(sample, tmp_path / "file")
        sink = MemorySink(self._name(sample))
        with mock.patch.object(road, "open_sink", lambda target, **options: sink):
            self._write(sample, tmp_path / self._name(sample), sidecar=False)
        assert sink.committed == whole
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_how_the_rows_arrive_does_not_change_the_bytes(self, sample: Sample, tmp_path: Path) -> None:
        whole = self._export(sample, tmp_path / "whole")
        for rows in (1, 3):
            dripping = atomicity.with_columns(
                sample.collection,
                lambda column, rows=rows: atomicity.DrippingColumn(column, rows),  # type: ignore[misc]
            )
            assert self._export(sample, tmp_path / f"by{rows}", dripping) == whole

    # -- atomic writes

    def _one(self) -> Sample:
        """The sample that the tests of writing use: the one with most rows.

        One that must be trained for is the last choice: those tests fork, and libraries' own threads do not survive that.
        """
        found: Sample = max(self._samples(), key=lambda sample: (sample.encoding != "pq", sample.collection.rows))
        return found

    def test_a_kill_while_writing_leaves_the_old_file_or_nothing(self, tmp_path: Path) -> None:
        sample = self._one()
        whole = self._export(sample, tmp_path / "whole")
        writes = atomicity.count_calls("pwrite", lambda: self._export(sample, tmp_path / "count"))
        moments = [("pwrite", call) for call in sorted({1, writes // 2 + 1, writes}) if writes] + [("replace", 1)]
        for before in (None, b"the old file"):
            for name, call in moments:
                folder = tmp_path / f"{name}{call}{before is None}"
                folder.mkdir()
                target = folder / self._name(sample)
                if before is not None:
                    target.write_bytes(before)
                assert atomicity.killed_at(name, call, lambda: self._export(sample, folder))  # noqa: B023
                assert (target.read_bytes() if target.exists() else None) == before
                left = atomicity.leftovers(folder)
                assert left, "the kill came before anything was written"
                for path in left:
                    atomicity.assert_recognisable(path, set(whole))
                assert self._export(sample, folder) == whole, "the next write did not sweep what the kill left"

    def test_a_full_disk_leaves_the_old_file_and_no_trace(self, tmp_path: Path) -> None:
        sample = self._one()
        whole = self._export(sample, tmp_path / "whole")[self._name(sample)]
        folder = tmp_path / "full"
        folder.mkdir()
        target = folder / self._name(sample)
        target.write_bytes(b"the old file")
        for size in sorted({1, len(whole) // 2, len(whole) - 1}):
            with limited(resource.RLIMIT_FSIZE, 0, size), pytest.raises(OSError):
                self._export(sample, folder)
            assert atomicity.contents(folder) == {target.name: b"the old file"}

    def test_a_cancelled_write_leaves_the_old_file_and_no_trace(self, tmp_path: Path) -> None:
        sample = self._one()
        target = tmp_path / self._name(sample)
        target.write_bytes(b"the old file")
        stopped = atomicity.with_columns(sample.collection, atomicity.StoppedColumn)
        with pytest.raises(Cancelled):
            self._write(sample, target, stopped)
        assert atomicity.contents(tmp_path) == {target.name: b"the old file"}

    def test_an_input_is_never_the_target(self, tmp_path: Path) -> None:
        sample = self._one()
        target = tmp_path / self._name(sample)
        self._write(sample, target)
        before = atomicity.contents(tmp_path)
        link, twin = tmp_path / f"link{target.suffix}", tmp_path / f"twin{target.suffix}"
        link.symlink_to(target)
        os.link(target, twin)
        for name in (target, link, twin):
            with pytest.raises(InputError, match="input"):
                convert(target, name, source_format=sample.format, format=sample.format)
        link.unlink()
        twin.unlink()
        assert atomicity.contents(tmp_path) == before

    def test_a_symlink_stays_and_what_it_points_at_is_replaced(self, tmp_path: Path) -> None:
        sample = self._one()
        whole = self._export(sample, tmp_path / "whole")[self._name(sample)]
        real, link = tmp_path / "far" / self._name(sample), tmp_path / self._name(sample)
        real.parent.mkdir()
        real.write_bytes(b"the old file")
        link.symlink_to(real)
        self._write(sample, link, sidecar=False)
        assert link.is_symlink() and real.read_bytes() == whole
        assert not atomicity.leftovers(tmp_path) and not atomicity.leftovers(real.parent)

    def test_a_read_only_folder_is_an_os_error_without_a_trace(self, tmp_path: Path) -> None:
        sample = self._one()
        self._export(sample, tmp_path / "warm")  # imports happen before privileges go
        with atomicity.forbidden_folder() as folder:
            if folder is None:
                pytest.skip("running as root and unable to give up its rights: a read-only folder cannot be had")
            with pytest.raises(OSError):
                self._write(sample, folder / self._name(sample))
            assert not list(folder.iterdir())
