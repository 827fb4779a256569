"""ReadingSuite: every promise of a format that is read, as tests that it inherits."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import FileColumn
from polyvec.core.errors import AmbiguousFormat, FormatError, InputError, UnknownFormat
from polyvec.core.format import Confidence, Format, Peek
from polyvec.core.sources import MemorySource
from polyvec.testing import hostile
from polyvec.testing.contents import assert_same_contents, bits, consume, examine, stored_places
from polyvec.testing.distant import DistantSource
from polyvec.testing.limits import HEADROOM, Clock, TooSlow, bounded
from polyvec.testing.samples import Sample, SampleFile
from polyvec.testing.travelling import TravellingSuite
from polyvec.verbs.describe import describe
from polyvec.verbs.verify import verify

Export = dict[str, bytes]  # the files of one sample; the main one is named "sample" + suffix


def bytes_of_row(column: FileColumn, row: int) -> int:
    """The bytes that hold a row: its codes and what lies apart from them, or its extent where that cannot be cut."""
    extent = next(extent for extent in column.extents() if extent.start <= row < extent.start + extent.rows)
    codes = extent.codec.row_bytes(column.row_shape)
    if codes is None:
        return extent.size
    types = extent.codec.parts(column.row_shape)
    apart = (types[part.name] for part in extent.others)
    return (extent.stride or codes) + sum(dtype.itemsize * prod(shape) for dtype, shape in apart)


class ReadingSuite(TravellingSuite):
    """For formats that are only read: subclass it as ``TestX``, set ``format``, implement `samples`.

    `hostile_files` adds attacks that only the format's author can think of; `seal` recomputes checksums after a
    mutation, so that hostile counts get past them.
    """

    format: ClassVar[Format]
    headroom: ClassVar[int] = HEADROOM  # bytes that reading a hostile file may take

    def samples(self) -> Iterable[SampleFile | Sample]:
        """Files, and what they hold. Small, and with the corners: no rows, one row, every encoding."""
        raise NotImplementedError

    def hostile_files(self, data: bytes) -> Iterable[tuple[str, bytes]]:
        """Further hostile versions of a good file, each with a name."""
        return ()

    def seal(self, data: bytes) -> bytes:
        """A mutated file with its checksums made right again."""
        return data

    def protected(self, sample: Any, data: bytes) -> list[range]:
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
            samples = self._samples()
            metafunc.parametrize("sample", samples, ids=[sample.name for sample in samples])

    def _samples(self) -> list[Any]:
        """All samples; a suite without any would pass whatever the format does."""
        samples = list(self.samples())
        assert samples, f"{type(self).__name__}.samples() gives nothing: give at least one sample, with rows"
        return samples

    @pytest.fixture(autouse=True)
    def _known(self) -> Iterator[None]:
        with ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.format not in formats.all_formats():
                stack.enter_context(formats.registered(self.format))
            yield

    def _name(self, sample: Sample) -> str:
        return "sample" + (sample.suffix or self.format.suffixes[0])

    def _export(self, sample: Any, folder: Path) -> Export:
        """The files of a sample, main file first."""
        return {self._name(sample): sample.data, **sample.beside}

    def _source(self, sample: Any, data: bytes, beside: Export | None = None) -> MemorySource:
        return MemorySource(data, self._name(sample), beside)

    def _variant(self, sample: Any, export: Export) -> str:
        source = self._source(sample, export[self._name(sample)], export)
        return formats.detect(source, sample.format).match.variant

    def _open(self, sample: Any, data: bytes, beside: Export | None = None) -> Collection:
        export = {**(beside or {}), self._name(sample): data}
        return self.format.open(
            self._source(sample, data, export), variant=self._variant(sample, export), **sample.reading
        )

    def _examine_all(
        self,
        sample: Any,
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
        self, what: str, data: bytes, sample: Any, variant: str, beside: Export, lenient: bool, clock: Clock
    ) -> bool:
        clock.restart()
        try:
            return examine(
                self.format, self._source(sample, data, beside), variant=variant, lenient=lenient, own=sample.reading
            )
        except (Exception, TooSlow) as error:
            kind = type(error).__name__
            raise AssertionError(
                f"{what}: expected a FormatError or a consistent result, got {kind}: {error}"
            ) from error

    # -- what is read

    def test_the_file_reads_as_it_should(self, sample: Any, tmp_path: Path) -> None:
        for name, data in self._export(sample, tmp_path / "out").items():
            (tmp_path / name).write_bytes(data)
        path = tmp_path / self._name(sample)
        with formats.open(path, format=sample.format, **sample.reading) as collection:
            assert collection.format == self.format.name
            consume(collection)
            if isinstance(sample, SampleFile) and sample.expected is not None:
                assert_same_contents(collection, sample)
            rows = collection.rows
        assert verify(path, format=sample.format, **sample.reading).ok
        described = describe(path, format=sample.format, layout=True, **sample.reading)
        assert described.rows == rows
        for span in described.layout or ():
            assert 0 <= span.offset <= span.offset + span.size <= described.bytes

    def test_streaming_gives_the_same_as_reading_it_whole(self, sample: Any, tmp_path: Path) -> None:
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

    def test_bytes_without_a_descriptor_or_a_mapping_read_the_same(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        main, variant = self._name(sample), self._variant(sample, export)
        here, afar = self._source(sample, export[main], export), DistantSource(export[main], main, export)
        assert formats.detect(afar, sample.format).match.variant == variant
        near = self._open(sample, export[main], export)
        with near, self.format.open(afar, variant=variant, **sample.reading) as found:
            assert_same_contents(found, Sample(sample.name, near))
            consume(found)
            for name, column in near.columns.items():
                some = np.random.default_rng(0).permutation(column.rows)[::2]
                assert bits(found[name].take(some)).tobytes() == bits(column.take(some)).tobytes()
        told = self.format.told(sample.reading)
        assert list(told.check(afar, variant=variant)) == list(told.check(here, variant=variant))
        assert list(told.layout(afar, variant=variant)) == list(told.layout(here, variant=variant))

    def test_one_row_reads_only_the_bytes_that_hold_it(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        main = self._name(sample)
        source = DistantSource(export[main], main, export)
        with self.format.open(source, variant=self._variant(sample, export), **sample.reading) as collection:
            for name, column in collection.columns.items():
                if not isinstance(column, FileColumn) or column.source is not source:
                    continue
                for row in {0, column.rows // 2, column.rows - 1} & set(range(column.rows)):
                    held = bytes_of_row(column, row)
                    for read in (
                        lambda: column[row],  # noqa: B023
                        lambda: column.take([row]),  # noqa: B023
                        lambda: list(column.blocks(1, start=row, stop=row + 1)),  # noqa: B023
                    ):
                        before = source.bytes_read
                        read()
                        taken = source.bytes_read - before
                        assert taken <= held, f"{name}, row {row}: {taken} bytes were read, and {held} hold it"

    def test_rows_beyond_the_end_are_cut_or_refused(self, sample: Any, tmp_path: Path) -> None:
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

    def test_files_are_closed_again(self, sample: Any, tmp_path: Path) -> None:
        for name, data in self._export(sample, tmp_path / "out").items():
            (tmp_path / name).write_bytes(data)
        path = tmp_path / self._name(sample)

        def use() -> None:
            with formats.open(path, format=sample.format, **sample.reading) as collection:
                consume(collection)
            path.write_bytes(data[: len(data) // 2])
            with suppress(FormatError), formats.open(path, format=sample.format, **sample.reading) as collection:
                consume(collection)
            path.write_bytes(data)

        data = path.read_bytes()
        use()  # what libraries open once and keep is open after this
        before = len(list(Path("/dev/fd").iterdir()))
        for _ in range(3):
            use()
        assert len(list(Path("/dev/fd").iterdir())) <= before, "reading a file leaves descriptors open"

    def test_an_option_of_reading_that_is_not_declared_is_refused(self, tmp_path: Path) -> None:
        sample = self._samples()[0]
        export = self._export(sample, tmp_path / "out")
        undeclared = {"no_such_option", *(option.name for option in self.format.options)}
        for name in undeclared - {option.name for option in self.format.reading}:
            source = self._source(sample, export[self._name(sample)], export)
            given: dict[str, Any] = {name: 1}
            with pytest.raises(InputError, match=name):
                formats.open(source, format=sample.format, **given)
        for option in self.format.reading:
            source = self._source(sample, export[self._name(sample)], export)
            given = {option.name: object()}
            with pytest.raises(InputError, match=option.name):
                formats.open(source, format=sample.format, **given)

    # -- damaged files

    def test_every_truncation_is_a_format_error_or_consistent(self, sample: Any, tmp_path: Path) -> None:
        self._examine_all(sample, self._export(sample, tmp_path / "out"), hostile.truncations, lenient=(False, True))

    def test_every_bit_flip_is_a_format_error_or_consistent(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        main = self._name(sample)
        guarded = self.protected(sample, export[main]) if len(export) == 1 else []
        self._examine_all(
            sample,
            export,
            hostile.bit_flips,
            must_tell=lambda name, byte: name == main and any(byte in place for place in guarded),
        )

    def test_a_flipped_bit_of_the_rows_is_told_where_the_file_is_guarded(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        main, variant = self._name(sample), self._variant(sample, export)
        format = self.format.told(sample.reading)
        if not format.guarded(self._source(sample, export[main], export), variant=variant):
            return
        with self._open(sample, export[main], export) as collection:
            places = [place for column in collection.columns.values() for place in stored_places(column, main)]
        for file, byte in places:
            bad = {**export, file: hostile.flipped(export[file], byte)}
            source = self._source(sample, bad[main], bad)
            try:
                told = any(finding.severity == "error" for finding in format.check(source, variant=variant))
            except FormatError:
                told = True
            assert told, f"{file}: the file is guarded, and check does not tell a flipped bit of byte {byte}"

    def test_hostile_counts_allocate_nothing(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        sealed = type(self).seal is not ReadingSuite.seal

        def files(data: bytes) -> Iterator[tuple[str, bytes]]:
            for what, bad in chain(hostile.hostile_counts(data), self.hostile_files(data)):
                yield what, bad
                if sealed:
                    yield f"{what}, sealed", self.seal(bad)

        self._examine_all(sample, export, files)

    # -- recognition

    def test_with_its_suffix_no_other_format_claims_the_file(self, sample: Any, tmp_path: Path) -> None:
        export = self._export(sample, tmp_path / "out")
        source = self._source(sample, export[self._name(sample)], export)
        sure = [(f.name, m.variant) for f, m in formats.readings(source) if m.confidence >= Confidence.NAMED]
        assert {name for name, _ in sure} == {self.format.name}
        assert len(sure) == 1
        assert formats.detect(source).format is self.format

    def test_without_a_suffix_an_ambiguous_layout_is_named(self, sample: Any, tmp_path: Path) -> None:
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

    def test_a_magic_outweighs_a_wrong_suffix(self, sample: Any, tmp_path: Path) -> None:
        data = self._export(sample, tmp_path / "out")[self._name(sample)]
        if any(m.confidence == Confidence.MAGIC for m in self.format.sniff(Peek(MemorySource(data, "sample")))):
            for suffix in (".fbin", ".npy", ".bin", ""):
                assert formats.detect(MemorySource(data, "sample" + suffix)).format is self.format

    def test_an_empty_file_and_noise_are_format_errors(self) -> None:
        suffix = self.format.suffixes[0] if self.format.suffixes else ""
        noise = np.random.default_rng(7).bytes(300)
        for data in (b"", b"\0", b"\0" * 7, b"\x89PNG\r\n\x1a\n" + noise, noise):
            with pytest.raises(FormatError):
                consume(formats.open(MemorySource(data, f"noise{suffix}")))
