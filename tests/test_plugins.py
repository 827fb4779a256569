"""What a format from outside is written with: all of it is there, and says what it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import polyvec as pv
from polyvec import plugins
from polyvec.plugins import Block, Codec, Extent, FileColumn, Holds, Part


@dataclass(frozen=True, slots=True)
class Scaled(Codec):
    """Bytes, and a scale a row in an array of its own."""

    name = "scaled"

    def parts(self, row_shape: tuple[int, ...]) -> dict[str, Any]:
        return {"codes": (np.dtype(np.int8), row_shape), "scales": (np.dtype("<f4"), ())}

    def encode(self, rows: Any, start: int = 0) -> dict[str, Any]:
        scales = np.abs(rows).max(axis=1) / 127
        return {"codes": np.rint(rows / scales[:, None]).astype(np.int8), "scales": scales.astype("<f4")}

    def decode(self, block: Block, out: Any = None) -> Any:
        rows = block.parts["codes"] * block.parts["scales"][:, None]
        if out is None:
            return rows
        out[:] = rows
        return out


def test_a_codec_with_a_second_stored_array_is_read_by_its_parts() -> None:
    scales, codes = np.array([1, 2, 3], "<f4"), np.arange(6, dtype=np.int8)
    source = pv.open_source(scales.tobytes() + codes.tobytes())
    extent = Extent(0, 3, 12, 6, Scaled(), others=(Part("scales", 0),))
    column = FileColumn("vectors", source, [extent], row_shape=(2,), encoding="scaled")
    wanted = codes.reshape(3, 2) * scales[:, None]
    np.testing.assert_array_equal(column[:], wanted)
    np.testing.assert_array_equal(column[1:], wanted[1:])


def test_every_name_is_there() -> None:
    assert all(getattr(plugins, name) is not None for name in plugins.__all__)
    assert plugins.__all__ == sorted(plugins.__all__) and "Part" in plugins.__all__
    assert "Replaced" in pv.__all__ and issubclass(pv.Replaced, pv.FormatError)


def test_what_a_format_holds_is_told_field_by_field() -> None:
    for field in fields(Holds):
        assert f"- ``{field.name}``: " in str(Holds.__doc__), field.name
