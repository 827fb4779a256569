"""What collections of every format promise those who pass them around: pickles, threads, files that close."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.errors import FormatError, InputError, Replaced
from polyvec.kernels.threads import Crew
from polyvec.testing.contents import assert_same_contents, bits
from polyvec.testing.descriptors import no_descriptors_left
from polyvec.testing.samples import Sample

THREADS = 8


class TravellingSuite:
    """The part of `ReadingSuite` about collections in other hands."""

    def _export(self, sample: Any, folder: Path) -> dict[str, bytes]:
        raise NotImplementedError

    def _name(self, sample: Any) -> str:
        raise NotImplementedError

    def _opener(self, sample: Any, folder: Path) -> Callable[[], Collection]:
        """The files of a sample in a folder, and how to open them."""
        for name, data in self._export(sample, folder / "out").items():
            (folder / name).write_bytes(data)
        return lambda: formats.open(folder / self._name(sample), format=sample.format, **sample.reading)

    def test_a_collection_travels_by_the_name_of_its_file(self, sample: Any, tmp_path: Path) -> None:
        def sent(what: Any) -> Any:
            return pickle.loads(pickle.dumps(what))

        with self._opener(sample, tmp_path)() as collection, no_descriptors_left(collected=True):
            with sent(collection) as found:
                assert (found.format, found.path, found.notes) == (collection.format, collection.path, collection.notes)
                assert_same_contents(found, Sample(sample.name, collection))
                with sent(found) as again:
                    assert_same_contents(again, Sample(sample.name, collection))
            for part in (
                collection[1:3],
                collection.take(np.arange(collection.rows)[::-2]),
                collection.select(collection.main),
            ):
                with sent(part) as found:
                    assert_same_contents(found, Sample(sample.name, part))
            for name, column in collection.columns.items():
                assert bits(sent(column).to_numpy()).tobytes() == bits(column.to_numpy()).tobytes(), name
                assert bits(sent(column)[-1:]).tobytes() == bits(column[-1:]).tobytes(), name
            del found, again, part, column

    def test_a_file_that_changed_is_not_taken_for_the_one_that_was_sent(self, sample: Any, tmp_path: Path) -> None:
        with self._opener(sample, tmp_path)() as collection:
            sent = pickle.dumps(collection), pickle.dumps(collection.vectors)
        path = tmp_path / self._name(sample)
        os.utime(path, ns=(1, 1))
        for pickled in sent:
            with no_descriptors_left(), pytest.raises(Replaced, match="replaced or changed"):
                pickle.loads(pickled)
        path.unlink()
        for pickled in sent:
            with pytest.raises(FileNotFoundError):
                pickle.loads(pickled)

    def test_what_is_in_memory_only_says_why_it_cannot_travel(self, sample: Any, tmp_path: Path) -> None:
        data = self._export(sample, tmp_path / "out")[self._name(sample)]
        with suppress(FormatError), formats.open(data, format=self._name(sample).rpartition(".")[2]) as collection:
            with pytest.raises(InputError, match=r"cannot be pickled; write it to a file"):
                pickle.dumps(collection)
            with pytest.raises(InputError, match=r"cannot be pickled"):
                pickle.dumps(collection.vectors)

    def test_threads_read_what_one_thread_reads(self, sample: Any, tmp_path: Path) -> None:
        opener = self._opener(sample, tmp_path)
        with opener() as alone, opener() as shared:
            whole = {name: column.to_numpy() for name, column in alone.columns.items()}
            words = None if alone.vocab is None else list(alone.vocab)
            records = None if alone.records is None else list(alone.records)

            def work(seed: int) -> None:
                random = np.random.default_rng(seed)
                for _ in range(6):
                    for name, rows in whole.items():
                        start, stop = sorted(random.integers(0, len(rows) + 1, 2).tolist())
                        assert bits(shared[name][start:stop]).tobytes() == bits(rows[start:stop]).tobytes()
                        some = random.integers(0, len(rows), 3 if len(rows) else 0)
                        assert bits(shared[name].take(some)).tobytes() == bits(rows[some]).tobytes()
                    row = int(random.integers(0, max(1, alone.rows)))
                    if words:
                        assert shared.vocab is not None and shared.vocab[row] == words[row]
                        assert shared.vocab.index(words[row]) == words.index(words[row])
                    if records:
                        assert shared.records is not None and shared.records[row] == records[row]

            with Crew(THREADS) as pool:
                list(pool.map(work, range(THREADS)))

    def test_what_nobody_closes_closes_with_its_last_reader(self, sample: Any, tmp_path: Path) -> None:
        opener = self._opener(sample, tmp_path)

        def use() -> None:
            collection = opener()
            for column in collection.columns.values():
                for rows in (column.blocks(1), column.batches(1), iter(column)):
                    next(rows, None)  # and no more
            if collection.records is not None:
                next(iter(collection.records), None)
            vectors = opener().vectors  # the collection is gone, the column is not
            vectors[:1]

        use()  # what libraries open once and keep is open after this
        with no_descriptors_left(collected=True):
            use()
