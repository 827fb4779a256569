"""FormatSuite: every promise that a format makes, as tests that a new format inherits."""

from __future__ import annotations

import os
import pickle
import resource
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.errors import AmbiguousFormat, Cancelled, FormatError, InputError, UnknownFormat
from polyvec.core.format import Confidence, Format
from polyvec.core.sources import MemorySource
from polyvec.testing import atomicity, hostile
from polyvec.testing.contents import assert_same_contents, bits, consume, examine
from polyvec.testing.limits import HEADROOM, Clock, TooSlow, bounded, limited
from polyvec.testing.samples import Sample
from polyvec.verbs.convert import convert
from polyvec.verbs.describe import describe
from polyvec.verbs.verify import verify
from polyvec.writing.road import ENCODINGS
from polyvec.writing.write import write

Export = dict[str, bytes]  # the files that one write makes; the main one is named "sample" + suffix


class FormatSuite:
    """Subclass it as ``TestX``, set ``format``, implement `samples`.

    `hostile_files` adds attacks that only the format's author can think of; `seal` recomputes checksums after a
    mutation, so that hostile counts get past them.
    """

    format: ClassVar[Format]
    headroom: ClassVar[int] = HEADROOM  # bytes that reading a hostile file may take

    def samples(self) -> Iterable[Sample]:
        """Collections and how to write them. Small, and with the corners: no rows, one row, every encoding."""
        raise NotImplementedError

    def hostile_files(self, data: bytes) -> Iterable[tuple[str, bytes]]:
        """Further hostile versions of a good file, each with a name."""
        return ()

    def seal(self, data: bytes) -> bytes:
        """A mutated file with its checksums made right again."""
        return data

    def protected(self, sample: Sample, data: bytes) -> list[range]:
        """Bytes of which every flip must be told. The default: extents that carry a CRC."""
        with self._open(sample, data) as collection:
            return [
                range(extent.offset, extent.offset + extent.size)
                for column in collection.columns.values()
                for extent in column.extents()
                if extent.crc is not None
            ]

    # -- what the tests stand on

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test a sample."""
        if "sample" in metafunc.fixturenames:
            samples = list(self.samples())
            metafunc.parametrize("sample", samples, ids=[sample.name for sample in samples])

    @pytest.fixture(autouse=True)
    def _known(self) -> Iterator[None]:
        with ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.format not in formats.all_formats():
                stack.enter_context(formats.registered(self.format))
            yield

    def _name(self, sample: Sample) -> str:
        return "sample" + (sample.suffix or self.format.suffixes[0])

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

    def _source(self, sample: Sample, data: bytes, beside: Export | None = None) -> MemorySource:
        return MemorySource(data, self._name(sample), beside)

    def _variant(self, sample: Sample, export: Export) -> str:
        source = self._source(sample, export[self._name(sample)], export)
        return formats.detect(source, sample.format).match.variant

    def _open(self, sample: Sample, data: bytes, beside: Export | None = None) -> Collection:
        export = {**(beside or {}), self._name(sample): data}
        return self.format.open(self._source(sample, data, export), variant=self._variant(sample, export))

    def _examine_all(
        self,
        sample: Sample,
        export: Export,
        files: Callable[[bytes], Iterable[tuple[Any, ...]]],
        *,
        lenient: tuple[bool, ...] = (False,),
        must_tell: Callable[[str, int], bool] | None = None,
    ) -> None:
        main, variant = self._name(sample), self._variant(sample, export)
        consume(self._open(sample, export[main], export))  # what is imported lazily is there before the limits are
        with bounded(self.headroom) as clock:
            for name, data in export.items():
                for what, bad, *place in files(data):
                    beside = {**export, name: bad}
                    for leniency in lenient:
                        told = self._examine(f"{name}: {what}", beside[main], sample, variant, beside, leniency, clock)
                        if must_tell is not None and place and must_tell(name, place[0]):
                            assert told, f"{name}: {what}: the checksum did not tell"

    def _examine(
        self, what: str, data: bytes, sample: Sample, variant: str, beside: Export, lenient: bool, clock: Clock
    ) -> bool:
        clock.restart()
        try:
            return examine(self.format, self._source(sample, data, beside), variant=variant, lenient=lenient)
        except (Exception, TooSlow) as error:
            kind = type(error).__name__
            raise AssertionError(
                f"{what}: expected a FormatError or a consistent result, got {kind}: {error}"
            ) from error

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

    def test_an_encoding_that_is_not_declared_is_refused(self, tmp_path: Path) -> None:
        sample = self._one()
        for encoding in set(ENCODINGS) - set(self.format.holds.encodings):
            for dry_run in (False, True):
                with pytest.raises(InputError, match=f"no {encoding} encoding"):
                    self._write(sample, tmp_path / self._name(sample), encoding=encoding, dry_run=dry_run)
        assert not list(tmp_path.iterdir())

    def test_a_dry_run_takes_what_the_run_takes(self, sample: Sample, tmp_path: Path) -> None:
        self._write(sample, tmp_path / self._name(sample), dry_run=True)
        assert not list(tmp_path.iterdir())

    def test_the_same_collection_gives_the_same_bytes(self, sample: Sample, tmp_path: Path) -> None:
        assert self._export(sample, tmp_path / "one") == self._export(sample, tmp_path / "two")

    def test_streaming_gives_the_same_as_reading_it_whole(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        with self._open(sample, export[self._name(sample)], export) as collection:
            for column in collection.columns.values():
                whole = column.to_numpy()
                for rows in (1, 3, 7, max(1, column.rows - 1), column.rows + 1):
                    at = 0
                    for block in column.blocks(rows, reuse=True):
                        assert block.start == at and 1 <= block.rows <= rows
                        assert bits(block.decode()).tobytes() == bits(whole[at : at + block.rows]).tobytes()
                        at += block.rows
                    assert at == column.rows
                pieces = [bits(piece).tobytes() for piece in column.batches(3)]
                assert b"".join(pieces) == bits(whole).tobytes()
                some = np.random.default_rng(0).integers(0, column.rows, 5 if column.rows else 0)
                assert bits(column[some]).tobytes() == bits(whole[some]).tobytes()
                assert bits(column[1::2]).tobytes() == bits(whole[1::2]).tobytes()
                extents = list(column.extents())
                assert pickle.loads(pickle.dumps(extents)) == extents

    def test_rows_beyond_the_end_are_cut_or_refused(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        with self._open(sample, export[self._name(sample)], export) as collection:
            for column in collection.columns.values():
                whole, rows = column.to_numpy(), column.rows
                for start, stop in (
                    (0, rows + 5),
                    (rows - 1, rows + 1),
                    (rows, rows + 9),
                    (rows + 3, rows + 4),
                    (-2, None),
                ):
                    pieces = [bits(block.decode()).tobytes() for block in column.blocks(start=start, stop=stop)]
                    assert b"".join(pieces) == bits(whole[start:stop]).tobytes()
                    assert bits(column[start:stop]).tobytes() == bits(whole[start:stop]).tobytes()
                    assert collection.slice(start, stop).rows == len(range(collection.rows)[start:stop])
                for bad in ([rows], [-rows - 1], np.array([0.5])):
                    with pytest.raises(IndexError):
                        column.take(bad)
            if collection.records is not None:
                many = len(collection.records)
                assert len(list(collection.records.iterate(many - 1, many + 5))) == min(1, many)

    def test_how_the_rows_arrive_does_not_change_the_bytes(self, sample: Sample, tmp_path: Path) -> None:
        whole = self._export(sample, tmp_path / "whole")
        for rows in (1, 3):
            dripping = atomicity.with_columns(
                sample.collection,
                lambda column, rows=rows: atomicity.DrippingColumn(column, rows),  # type: ignore[misc]
            )
            assert self._export(sample, tmp_path / f"by{rows}", dripping) == whole

    # -- damaged files

    def test_every_truncation_is_a_format_error_or_consistent(self, sample: Sample, tmp_path: Path) -> None:
        self._examine_all(sample, self._export(sample, tmp_path / "out"), hostile.truncations, lenient=(False, True))

    def test_every_bit_flip_is_a_format_error_or_consistent(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        main = self._name(sample)
        guarded = self.protected(sample, export[main]) if len(export) == 1 else []
        self._examine_all(
            sample,
            export,
            hostile.bit_flips,
            must_tell=lambda name, byte: name == main and any(byte in place for place in guarded),
        )

    def test_hostile_counts_allocate_nothing(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        sealed = type(self).seal is not FormatSuite.seal

        def files(data: bytes) -> Iterator[tuple[str, bytes]]:
            for what, bad in chain(hostile.hostile_counts(data), self.hostile_files(data)):
                yield what, bad
                if sealed:
                    yield f"{what}, sealed", self.seal(bad)

        self._examine_all(sample, export, files)

    # -- recognition

    def test_with_its_suffix_no_other_format_claims_the_file(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        source = self._source(sample, export[self._name(sample)], export)
        sure = [(f.name, m.variant) for f, m in formats.readings(source) if m.confidence >= Confidence.NAMED]
        assert {name for name, _ in sure} == {self.format.name}
        assert len(sure) == 1
        assert formats.detect(source).format is self.format

    def test_without_a_suffix_an_ambiguous_layout_is_named(self, sample: Sample, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        source = MemorySource(export[self._name(sample)], "sample", export)
        readings = formats.readings(source)
        own = [m for f, m in readings if f is self.format]
        try:
            found = formats.detect(source)
        except AmbiguousFormat as error:
            assert all((m.variant or self.format.name) in str(error) for m in own)
        except UnknownFormat:
            assert not readings
        else:
            assert found.format is self.format or not own or readings[0][1].confidence == Confidence.MAGIC

    def test_a_magic_outweighs_a_wrong_suffix(self, sample: Sample, tmp_path: Path) -> None:
        data = self._export(sample, tmp_path / "out")[self._name(sample)]
        if any(m.confidence == Confidence.MAGIC for m in self.format.sniff(data[:4096], len(data), "")):
            for suffix in (".fbin", ".npy", ".bin", ""):
                assert formats.detect(MemorySource(data, "sample" + suffix)).format is self.format

    # -- atomic writes

    def _one(self) -> Sample:
        """The sample that the tests of writing use: the one with most rows."""
        return max(self.samples(), key=lambda sample: sample.collection.rows)

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

    def test_an_empty_file_and_noise_are_format_errors(self) -> None:
        suffix = self.format.suffixes[0] if self.format.suffixes else ""
        noise = np.random.default_rng(7).bytes(300)
        for data in (b"", b"\0", b"\0" * 7, b"\x89PNG\r\n\x1a\n" + noise, noise):
            with pytest.raises(FormatError):
                consume(formats.open(MemorySource(data, f"noise{suffix}")))
