"""How buffers are planned and slots are used again: the pipeline in host memory, with nothing to decode."""

from __future__ import annotations

import os

import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs import Raw
from polyvec.core.blocks import Extent
from polyvec.core.columns import FileColumn
from polyvec.core.sources import open_source
from polyvec.gpu import pipeline
from polyvec.gpu.memory import HostMemory
from polyvec.kernels import available_paths, use_path
from polyvec.kernels.checksum import crc32

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")

DIM = 24
WIDTH = DIM * 4


@pytest.fixture(autouse=True)
def one_thread():
    """Small copies on one thread: torch's others would be waited for at each of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def column(tmp_path):
    """5000 rows of float32 in chunks of 700, each with its checksum."""
    data = np.random.default_rng(0).integers(0, 256, 5000 * WIDTH, dtype=np.uint8)
    (tmp_path / "rows").write_bytes(data.tobytes())
    extents = []
    for start in range(0, 5000, 700):
        part = data[start * WIDTH : (start + 700) * WIDTH]
        extents.append(
            Extent(start, len(part) // WIDTH, start * WIDTH, len(part), Raw(np.dtype("<f4")), crc=crc32(part))
        )
    with open_source(tmp_path / "rows") as source:
        yield FileColumn("rows", source, extents, row_shape=(DIM,), encoding="none", dtype=np.dtype(np.float32))


class Recording(HostMemory):
    """Host memory that notes what happens to its slots."""

    def __init__(self):
        super().__init__()
        self.slots, self.events = [], []

    def slot(self, size):
        self.slots.append(super().slot(size))
        return self.slots[-1]

    def number(self, slot):
        return next(n for n, other in enumerate(self.slots) if other is slot)

    def copy(self, slot, size):
        assert size <= len(slot.view)
        self.events.append(("copy", self.number(slot)))
        super().copy(slot, size)

    def mark(self, slot):
        self.events.append(("mark", self.number(slot)))

    def wait(self, slot):
        self.events.append(("wait", self.number(slot)))

    def finish(self):
        self.events.append(("finish", -1))


@pytest.mark.parametrize("capacity", [40_000, 1 << 20])  # planned on the way through the ring; planned before
def test_a_slot_is_filled_again_only_after_it_was_waited_for(column, monkeypatch, capacity):
    monkeypatch.setattr(pipeline, "CAPACITY", capacity)
    memory = Recording()
    found = pipeline.load_codes(column, memory, WIDTH)
    assert found.numpy().tobytes() == column.to_numpy().tobytes()
    copies = [slot for event, slot in memory.events if event == "copy"]
    depth = len(memory.slots)
    assert (depth == pipeline.RING and len(copies) > 2 * depth) if capacity == 40_000 else depth == len(copies) == 1
    for number, slot in enumerate(copies):
        assert slot == number % depth
    for slot in range(depth):
        events = [event for event, other in memory.events if other == slot]
        assert events == (["copy", "mark", "wait"] * len(events))[: len(events)] and events[-1] == "mark"
    assert memory.events[-1] == ("finish", -1)


@pytest.mark.parametrize("left", [0, 200_000, 5000 * WIDTH - 1])  # noticed at once, midway, in the last buffer
def test_a_file_that_is_cut_while_it_is_read_is_truncated_and_its_ring_is_not_kept(column, tmp_path, monkeypatch, left):
    monkeypatch.setattr(pipeline, "CAPACITY", 40_000)
    memory = Recording()
    memory.name = "recording"
    os.truncate(tmp_path / "rows", left)
    with pytest.raises(pv.Truncated, match="shorter"):
        pipeline.load_codes(column, memory, WIDTH)
    assert memory.events[-1] == ("finish", -1)
    assert not [key for key in pipeline._spare if key[0] == "recording"]


def test_the_device_is_waited_for_when_a_launch_fails(column, monkeypatch):
    monkeypatch.setattr(pipeline, "CAPACITY", 40_000)
    memory = Recording()
    memory.name = "recording"

    def fail(*_):
        raise RuntimeError("no launch")

    memory.mark = fail
    with pytest.raises(RuntimeError, match="no launch"):
        pipeline.load_codes(column, memory, WIDTH)
    assert memory.events[-1] == ("finish", -1)
    assert not [key for key in pipeline._spare if key[0] == "recording"]


def test_a_ring_is_kept_for_the_next_load(column, monkeypatch):
    monkeypatch.setattr(pipeline, "CAPACITY", 40_000)
    monkeypatch.setattr(pipeline, "_spare", {})
    memory = Recording()
    memory.name = "recording"
    for _ in range(2):
        pipeline.load_codes(column, memory, WIDTH)
    assert len(memory.slots) == pipeline.RING


@pytest.mark.parametrize("path", ["bytes", *available_paths()])
def test_bytes_in_memory_and_every_kind_of_reader_find_a_flipped_bit(column, tmp_path, monkeypatch, path):
    monkeypatch.setattr(pipeline, "CAPACITY", 40_000)
    content = bytearray((tmp_path / "rows").read_bytes())
    with use_path("numpy" if path == "bytes" else path):
        for flipped in (False, True):
            content[1000 * WIDTH] ^= flipped
            (tmp_path / "rows").write_bytes(content)
            if path == "bytes":
                column.source = open_source(bytes(content))
            if flipped:
                with pytest.raises(pv.Corrupt, match="checksum") as caught:
                    pipeline.load_codes(column, HostMemory(), WIDTH)
                assert caught.value.offset == 700 * WIDTH
            else:
                assert pipeline.load_codes(column, HostMemory(), WIDTH).numpy().tobytes() == content
