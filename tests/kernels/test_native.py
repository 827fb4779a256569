"""The compiled module itself: it checks sizes before it touches memory, and its stub tells the truth."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import polyvec

native = pytest.importorskip("polyvec._native", reason="the compiled module is not built")


def test_sizes_that_do_not_fit_are_refused() -> None:
    half, floats = np.zeros(8, np.uint16), np.zeros(8, np.float32)
    scales = np.ones(3, np.float32)
    for call, args in [
        (native.f16_to_f32, (half, floats[:7], 1)),
        (native.f32_to_f16, (floats[:7], half, 1)),
        (native.f16_to_f32, (b"abc", floats, 1)),
        (native.u8_to_f32, (np.zeros(9, np.uint8), floats, 0.0, 1.0, 1)),
        (native.i8_to_f32_rows, (np.zeros(8, np.int8), floats, scales, 1)),
        (native.i8_to_f32_rows, (np.zeros(8, np.int8), floats, scales[:0], 1)),
        (native.f32_min_max, (b"abcde", 1)),
    ]:
        with pytest.raises(ValueError, match=r"src is not|out does not|scales does not"):
            call(*args)
    assert not floats.any()


def test_read_only_outputs_are_refused() -> None:
    with pytest.raises((BufferError, ValueError, TypeError)):
        native.f16_to_f32(np.zeros(2, np.uint16), bytes(8), 1)


def test_the_stub_names_what_the_module_has() -> None:
    stub = ast.parse((Path(polyvec.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named |= {
        node.target.id for node in stub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert named == {name for name in dir(native) if not name.startswith("_")}
