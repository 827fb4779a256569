"""What a column becomes in a CVC file: the compression that keeps it, chunks that fit, sections in their chunks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw, ScaledInt8, SymmetricInt8
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.formats.cvc import encoding
from polyvec.formats.cvc.encoding import (
    CHUNK_ROWS,
    LOSSLESS_BYTES,
    Sections,
    check_compression,
    choose,
    compression_of,
    default_rows,
    most_rows,
    partition,
)

FLOAT = np.dtype("<f4")


def column(dtype: object = np.float32, shape: tuple[int, ...] = (4, 3)) -> ArrayColumn:
    return ArrayColumn("v", np.zeros(shape, dtype))


@pytest.mark.parametrize(
    ("codec", "raw", "wanted"),
    [
        (Float16(), False, "fp16"),
        (Raw(np.dtype("<f2")), False, "fp16"),
        (BFloat16(), False, "bfloat16"),
        (AffineUint8(0, 1), False, "int8"),
        (SymmetricInt8(127.0), False, "int8"),
        (SymmetricInt8(100.0), False, None),
        (ScaledInt8(), False, None),
        (BytePlanes((3,)), False, "lossless"),
        (Raw(FLOAT), False, "lossless"),
        (Raw(FLOAT), True, "none"),
        (Raw(np.dtype("<i4")), False, "none"),
    ],
)
def test_codes_have_the_name_under_which_they_stay(codec, raw: bool, wanted: str | None) -> None:
    assert compression_of(codec, raw) == wanted


def test_a_column_keeps_its_values_unless_asked() -> None:
    assert choose(column(), None, columnar=False).compression == "lossless"
    assert choose(column(), None, columnar=True).compression == "none"
    assert choose(column(np.int32), None, columnar=True).spec.dtype == np.dtype("<i4")
    assert choose(column(np.float16), None, columnar=False).spec.compression == "fp16"
    assert choose(column(ml_dtypes.bfloat16), None, columnar=False).spec.compression == "bfloat16"
    assert choose(column(), "int8", columnar=False).compression == "int8"


@pytest.mark.parametrize(
    ("made", "asked", "says"),
    [
        (column(shape=(2, 2, 2)), None, "rows of numbers, not shape"),
        (column(shape=(2, 0)), None, "dimension 0"),
        (column(np.int32), "fp16", "only 'none' keeps whole numbers"),
        (column(), "zip", "unknown compression 'zip'"),
    ],
)
def test_what_cannot_be_stored_is_refused(made: ArrayColumn, asked: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        choose(made, asked, columnar=True)


def test_chunks_hold_the_rows_asked_for_and_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    big = column(shape=(10, 4))
    target = choose(big, "none", columnar=False)
    assert partition({"v": big}, [target], 4, False) == [range(4), range(4, 8), range(8, 10)]
    assert partition({"v": big}, [target], None, False) == [range(10)]
    monkeypatch.setattr(encoding, "MAX_CHUNK_BYTES", 2048 + 48)
    assert partition({"v": big}, [target], None, False) == [range(3), range(3, 6), range(6, 9), range(9, 10)]
    monkeypatch.setattr(encoding, "MAX_CHUNK_BYTES", 2048 + 15)
    with pytest.raises(InputError, match="does not fit a chunk"):
        most_rows([target])


def test_lossless_chunks_are_what_memory_holds_easily() -> None:
    wide = choose(column(shape=(1, 2**20)), "lossless", columnar=False)
    assert default_rows([wide]) == LOSSLESS_BYTES // 2**22
    assert default_rows([choose(column(), "fp16", columnar=False)]) == CHUNK_ROWS
    assert check_compression("fp16") == "fp16"


def test_sections_are_cut_to_the_chunks_they_lie_in() -> None:
    sections = Sections([(0, 3, {"k": 1}), (5, 9, {"k": 2})])
    assert [s["num_vectors"] for s in sections.header()] == [3, 4]
    assert [(s["metadata"]["k"], s["start_in_chunk"], s["end_in_chunk"]) for s in sections.inside(range(2, 6))] == [
        (1, 0, 1),
        (2, 3, 4),
    ]
    assert sections.inside(range(3, 5)) == [] and sections.inside(range(9, 20)) == []
