"""Plans: every byte travels once, aligned, in buffers that fit; tiles name what they decode."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw, ScaledInt8, SymmetricInt8
from polyvec.codecs.product import Product
from polyvec.core.blocks import Extent, Part
from polyvec.core.columns import FileColumn
from polyvec.core.dtypes import BFLOAT16
from polyvec.core.sources import open_source
from polyvec.gpu import plan

DIM = 24
WIDTH = DIM * 4
F4 = Raw(np.dtype("<f4"))


@pytest.fixture
def column():
    """5000 rows of float32 in chunks of 700."""
    extents = [
        Extent(start, min(700, 5000 - start), start * WIDTH, min(700, 5000 - start) * WIDTH, F4)
        for start in range(0, 5000, 700)
    ]
    with open_source(bytes(5000 * WIDTH)) as source:
        yield FileColumn("rows", source, extents, row_shape=(DIM,), encoding="none", dtype=np.dtype(np.float32))


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


@pytest.mark.parametrize(
    ("codec", "kind", "numbers"),
    [
        (F4, plan.COPY32, (1, 0)),
        (Raw(np.dtype("<f2")), plan.HALF, (1, 0)),
        (Raw(BFLOAT16), plan.BRAIN, (1, 0)),
        (Float16(), plan.HALF, (1, 0)),
        (BFloat16(), plan.BRAIN, (1, 0)),
        (AffineUint8(-3.0, 0.25), plan.AFFINE, (0.25, -3)),
        (SymmetricInt8(127.0), plan.SYMMETRIC, (127, 0)),
        (ScaledInt8(), plan.SCALED, (1, 0)),
        (Raw(np.dtype(">f4")), None, (1, 0)),
        (Raw(np.dtype("<f8")), None, (1, 0)),
        (Raw(np.dtype("<i4")), None, (1, 0)),
        (Product(np.zeros((2, 4, 3), np.float32), None, False), None, (1, 0)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_codec_has_its_kind_and_numbers_or_stays_on_the_cpu(codec, kind, numbers):
    assert plan.kind_of(codec) == kind and plan.parameters(codec) == numbers


def test_the_kinds_and_fields_are_the_numbers_that_kernels_are_written_with():
    assert (plan.COPY32, plan.HALF, plan.BRAIN, plan.AFFINE, plan.SYMMETRIC, plan.SCALED) == (0, 1, 2, 3, 4, 5)
    fields = (plan.SOURCE, plan.TARGET, plan.COUNT, plan.KIND, plan.A, plan.B, plan.WIDTH, plan.EXTRA)
    assert fields == tuple(range(plan.FIELDS)) and plan.HEAD % plan.ALIGN == 0


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -3.0, float("inf"), 1e-45])
def test_a_float_travels_as_its_bits(value):
    assert np.int32(plan.bits(value)).view(np.float32).tobytes() == np.float32(value).tobytes()


def test_columns_whose_rows_do_not_lie_together_do_not_travel_encoded(column):
    assert plan.find_extents(column, 0, 5000, 1 << 20) is not None
    assert [e.rows for e in plan.find_extents(column, 650, 1450, 1 << 20)] == [50, 700, 50]
    for extent in (
        Extent(0, 5000, 0, 5000 * WIDTH, Raw(np.dtype(">f4"))),
        Extent(0, 100, 0, 100 * WIDTH, F4, stride=WIDTH * 2),
    ):
        column._extents = (extent,)
        assert plan.find_extents(column, 0, extent.rows, 1 << 20) is None


def test_no_buffer_has_more_pieces_than_its_table_has_room_for():
    extents = [Extent(row, 1, 100 + row * WIDTH, WIDTH, F4) for row in range(3, plan.MAX_PIECES + 10)]
    buffers = list(plan.fill_buffers(extents, (DIM,), 3, 1 << 20))
    assert [len(buffer.table) for buffer in buffers] == [plan.MAX_PIECES, 7]
    assert all(buffer.table.nbytes <= plan.HEAD for buffer in buffers)
    assert buffers[0].table[0, plan.TARGET] == 0 and buffers[1].table[0, plan.TARGET] == plan.MAX_PIECES * DIM


def test_scales_travel_beside_their_codes_and_checksums_count_codes_alone():
    extent = Extent(0, 1000, 7, 1000 * DIM, ScaledInt8(), crc=5, others=(Part("scale", 50_000),))
    capacity = plan.HEAD + 6000
    buffers = list(plan.fill_buffers([extent], (DIM,), 0, capacity))
    codes, scales = 7, 50_000
    for buffer in buffers:
        assert buffer.chunks == (0, -1) and len(buffer.table) == 1
        (code, scale), record = buffer.loads.tolist(), buffer.table[0]
        rows = int(record[plan.COUNT]) // DIM
        assert code == [codes, rows * DIM, int(record[plan.SOURCE])]
        assert scale == [scales, rows * 4, int(record[plan.EXTRA])] and scale[2] % plan.ALIGN == 0
        assert scale[2] >= code[2] + code[1] and buffer.tiles_at >= scale[2] + scale[1]
        codes, scales = codes + rows * DIM, scales + rows * 4
    assert len(buffers) > 2 and codes == 7 + 1000 * DIM


def test_a_row_that_fits_no_buffer_is_refused():
    with pytest.raises(ValueError, match=r"^a row of 96 bytes does not fit a buffer of 100$"):
        list(plan.fill_buffers([Extent(0, 1, 0, WIDTH, F4)], (DIM,), 0, 100))
