"""How buffers are planned and slots are used again: the pipeline in host memory, with nothing to decode."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs import Raw, ScaledInt8
from polyvec.core.blocks import Extent, Part
from polyvec.core.columns import FileColumn
from polyvec.core.sources import open_source
from polyvec.gpu import backends, pipeline, plan
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


@pytest.mark.parametrize("capacity", [34_000, 60_000, 1 << 20])
def test_buffers_bring_every_byte_once(column, capacity):
    extents = plan.find_extents(column, 0, 5000, capacity)
    buffers = list(plan.fill_buffers(extents, (DIM,), 0, capacity))
    found = np.zeros(5000 * WIDTH, int)
    targets = []
    for buffer in buffers:
        assert buffer.total <= plan.most_bytes(capacity)
        for offset, size, at in buffer.loads.tolist():
            assert at % plan.ALIGN == 0 and plan.HEAD <= at <= at + size <= buffer.tiles_at
            found[offset : offset + size] += 1
        targets += [(int(r[plan.TARGET]), int(r[plan.COUNT])) for r in buffer.table]
    assert (found == 1).all()
    ends = np.cumsum([count for _, count in targets])
    assert [start for start, _ in targets] == [0, *ends[:-1]] and ends[-1] == 5000 * DIM


def test_the_first_buffers_are_small_and_planned_when_they_are_asked_for():
    def extents():
        for number in range(3):
            yield Extent(number << 16, 1 << 16, 0, 1 << 26, Raw(np.dtype("<f4")))
        raise AssertionError("planned too far ahead")

    buffers = plan.fill_buffers(extents(), (256,), 0, 16 << 20)
    sizes = [next(buffers).total for _ in range(6)]
    assert [round(size / (1 << 20)) for size in sizes] == [1, 2, 4, 8, 16, 16]


def test_wide_rows_skip_the_small_buffers_and_too_wide_ones_do_not_travel_encoded(tmp_path):
    dim = 3 << 20
    (tmp_path / "wide").write_bytes(bytes(2 * dim + 8))
    extent = Extent(0, 2, 0, 2 * dim, ScaledInt8(), others=(Part("scale", 2 * dim),))
    with open_source(tmp_path / "wide") as source:
        column = FileColumn("rows", source, [extent], row_shape=(dim,), encoding="int8", dtype=np.dtype(np.float32))
        needed = plan.HEAD + dim + 4 + 2 * plan.ALIGN
        assert plan.find_extents(column, 0, 2, needed - 1) is None
        extents = plan.find_extents(column, 0, 2, needed)
        assert [len(b.table) for b in plan.fill_buffers(extents, (dim,), 0, needed)] == [1, 1]


def test_tiles_name_their_record_and_first_element():
    table = np.zeros((4, plan.FIELDS), np.int64)
    table[:, plan.COUNT] = [1, plan.TILE, plan.TILE + 1, 3 * plan.TILE - 1]
    starts = [0, 0, 0, plan.TILE, 0, plan.TILE, 2 * plan.TILE]
    expected = list(zip([0, 1, 2, 2, 3, 3, 3], starts))
    assert [tuple(tile) for tile in plan.tiles_of(table).tolist()] == expected


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


def test_packages_are_looked_for_once_and_a_missing_device_again(monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: asked.append(name) or object())
    monkeypatch.setattr(backends, "_driven", set())
    answers = iter([0, 0, 1])
    monkeypatch.setattr(backends, "_devices", lambda framework: next(answers))
    backends.installed.cache_clear()
    try:
        assert ["nvidia-smi" in str(backends.errors()) for _ in range(5)] == [True, True, False, False, False]
        assert len(asked) == len(set(asked))
    finally:
        backends.installed.cache_clear()
