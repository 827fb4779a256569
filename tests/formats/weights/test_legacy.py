"""The older layout: known by its structure alone, and its matrices by their shapes."""

from __future__ import annotations

import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.core.errors import FormatError, FormatWarning
from polyvec.core.vocab import Strings
from polyvec.formats.weights.legacy import (
    Legacy,
    LegacyTensor,
    legacy_layout,
    legacy_metadata,
    orient,
    read_legacy,
)
from polyvec.testing import MemorySource, vectors

sys.path.insert(0, str(Path(__file__).parent))
from embd import WORDS, opened


def legacy_bytes() -> bytes:
    """The layout that the document's own program reads, by hand."""
    out = b"EMBD" + struct.pack("<II", 1, 2)
    for name, array in ((WORDS, vectors(2, 3)), ("encoder.layer.0.output.dense.weight", vectors(4, 3, seed=1))):
        out += struct.pack("<I", len(name)) + name.encode() + struct.pack("<III", 2, *array.shape) + array.tobytes()
    return out + struct.pack("<II", 2, 1) + b"a" + struct.pack("<I", 2) + "é".encode()


def test_the_legacy_layout_is_read_and_said(tmp_path: Path) -> None:
    path = tmp_path / "old.weights"
    path.write_bytes(legacy_bytes())
    with pytest.warns(FormatWarning, match="legacy"), pv.open(path) as c:
        assert np.array_equal(c.vectors.to_numpy(), vectors(2, 3)) and list(c.vocab or ()) == ["a", "é"]
        turned = c["encoder.layer.0.output.dense.weight"]
        assert np.array_equal(turned.to_numpy(), vectors(4, 3, seed=1).T)
        assert np.array_equal(turned[1:], vectors(4, 3, seed=1).T[1:])
    report = pv.verify(path)
    assert report.ok and any("legacy" in finding.message for finding in report.findings)
    assert any("legacy" in warning for warning in pv.describe(path, layout=True).warnings)


MATRICES = {  # a model's, by name: [out, in]
    "encoder.layer.0.attention.self.query.weight": (4, 4),
    "encoder.layer.0.intermediate.dense.weight": (6, 4),
    "encoder.layer.0.output.dense.weight": (4, 6),
}


def legacy_model(orientation: str, shapes: dict[str, tuple[int, int]], *, biases: bool = True) -> tuple[bytes, dict]:
    """A legacy file whose matrices are stored either way, and its tensors as [out, in]."""
    tensors = {WORDS: vectors(2, 4)}
    for seed, (name, shape) in enumerate(shapes.items(), 1):
        tensors[name] = vectors(*shape, seed=seed)
        if biases:
            tensors[name.removesuffix("weight") + "bias"] = vectors(1, shape[0], seed=seed + 50)[0]
    out = b"EMBD" + struct.pack("<II", 1, len(tensors))
    for name, array in tensors.items():
        turned = array.T if name in shapes and orientation == "in_out" else array
        out += (
            struct.pack("<I", len(name)) + name.encode() + struct.pack(f"<I{turned.ndim}I", turned.ndim, *turned.shape)
        )
        out += np.ascontiguousarray(turned).tobytes()
    return out + struct.pack("<II", 2, 1) + b"a" + struct.pack("<I", 1) + b"b", tensors


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("orientation", ["out_in", "in_out"])
def test_matrices_of_a_legacy_file_come_out_in_whichever_way_they_lie(
    tmp_path: Path, orientation: str, biases: bool
) -> None:
    data, tensors = legacy_model(orientation, MATRICES, biases=biases)
    (tmp_path / "old.weights").write_bytes(data)
    said = {"out_in": r"stored \[out, in\]", "in_out": r"stored \[in, out\]"}[orientation]
    with pytest.warns(FormatWarning, match=said), pv.open(tmp_path / "old.weights") as c:
        for name, array in tensors.items():
            assert np.array_equal(c[name].to_numpy(), array), name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        receipt = pv.convert(tmp_path / "old.weights", tmp_path / "new.weights")
    assert receipt.loss is not None and receipt.loss.exact
    with pv.open(tmp_path / "new.weights") as c:
        for name, array in tensors.items():
            assert np.array_equal(c[name].to_numpy(), array), name
    spans = pv.describe(tmp_path / "old.weights", layout=True).layout or ()
    assert any(orientation in span.note for span in spans)
    other = {"out_in": "in_out", "in_out": "out_in"}[orientation]
    with pytest.raises(pv.InputError, match=f"orientation={other} contradicts the file"):
        pv.open(tmp_path / "old.weights", orientation=other)


def test_square_matrices_leave_the_orientation_open_and_are_not_guessed(tmp_path: Path) -> None:
    square = dict.fromkeys(MATRICES, (4, 4))
    path = tmp_path / "old.weights"
    for orientation in ("out_in", "in_out"):
        (tmp_path / "n.weights").unlink(missing_ok=True)
        data, tensors = legacy_model(orientation, square)
        path.write_bytes(data)
        for read in (pv.open, pv.describe, lambda p: pv.convert(p, tmp_path / "n.weights")):
            with pytest.raises(pv.AmbiguousFormat, match=r"shapes leave it open.*--option orientation=out_in"):
                read(path)
        assert not pv.verify(path).ok and not (tmp_path / "n.weights").exists()
        assert pv.verify(path, orientation=orientation).ok
        assert pv.describe(path, orientation=orientation, layout=True).rows == 2

        assert (
            run(["convert", str(path), str(tmp_path / "n.weights"), "-f", "--option", f"orientation={orientation}"])
            == 0
        )
        with pv.open(tmp_path / "n.weights") as c:
            assert all(np.array_equal(c[name].to_numpy(), array) for name, array in tensors.items())
    with pytest.raises(pv.InputError, match="unknown orientation"):
        pv.open(path, orientation="sideways")
    with pytest.raises(pv.InputError, match="legacy layout"):
        pv.open(tmp_path / "n.weights", orientation="in_out")


def test_matrices_that_contradict_each_other_are_corrupt() -> None:
    one, two = "a.dense.weight", "b.dense.weight"
    data, _ = legacy_model("out_in", {one: (3, 4), two: (4, 3)})
    turned = data.replace(struct.pack("<III", 2, 4, 3), struct.pack("<III", 2, 3, 4))
    with pytest.raises(pv.Corrupt, match=r"some matrices are stored \[out, in\]"):
        opened(turned)
    data, _ = legacy_model("out_in", {one: (3, 4)})
    with pytest.raises(pv.Corrupt, match="bias does not belong"):
        opened(data.replace(struct.pack("<III", 2, 3, 4), struct.pack("<III", 2, 2, 6)))


def test_every_truncation_of_a_legacy_file_is_a_format_error() -> None:
    data = legacy_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            opened(data[:size])
    with pytest.raises(FormatError):
        opened(data + b"\0")
    with pytest.raises(FormatError):
        opened(data[:8] + b"\xff\xff\xff\xff" + data[12:])


def stored(name: str, *shape: int) -> LegacyTensor:
    return LegacyTensor(name, shape, 0, 0, 0)


def legacy_of(*tensors: LegacyTensor) -> Legacy:
    return Legacy(tensors, Strings.from_words(["a"]), 0)


@pytest.mark.parametrize(
    ("name", "shape", "linear"),
    [
        ("a.dense.weight", (2, 3), True),
        ("a.dense.bias", (2, 3), False),
        ("a.LayerNorm.weight", (2,), False),
        (WORDS, (2, 3), False),
    ],
)
def test_a_linear_weight_is_a_matrix_that_is_no_table_of_words(name: str, shape: tuple, linear: bool) -> None:
    assert stored(name, *shape).linear is linear


@pytest.mark.parametrize(
    ("witness", "size", "told"),
    [
        ("a.dense.bias", 3, "out_in"),
        ("a.dense.bias", 4, "in_out"),
        ("a.LayerNorm.bias", 4, "in_out"),
        ("a.LayerNorm.weight", 3, "out_in"),
    ],
)
def test_the_neighbour_that_tells_is_named(witness: str, size: int, told: str) -> None:
    found = orient(legacy_of(stored("a.dense.weight", 3, 4), stored(witness, size)))
    assert (found.orientation, found.told_by) == (told, witness)
    assert found.note.endswith(f"as {witness} tells")


def test_a_file_without_matrices_has_no_orientation_to_tell() -> None:
    legacy = legacy_of(stored(WORDS, 3, 4))
    assert orient(legacy) is legacy and legacy.note == ""
    said = orient(legacy_of(stored("a.dense.weight", 4, 4)), "in_out")
    assert said.note == "linear weights are stored [in, out], as was said"


def test_another_file_is_no_legacy_one_whatever_it_holds() -> None:
    data = legacy_bytes()
    assert read_legacy(MemorySource(data, "x.weights")) is not None
    for other in (b"EMBX" + data[4:], data[:4] + b"\2" + data[5:], data + b"\0", data[:-1], b"EMBD\1\0\0\0", b""):
        assert read_legacy(MemorySource(other, "x.weights")) is None
    twice = data.replace(struct.pack("<I", 2), struct.pack("<I", 1), 1)  # one tensor is said, and two are there
    assert read_legacy(MemorySource(twice, "x.weights")) is None


def test_the_sizes_of_a_model_are_those_of_its_shapes() -> None:
    legacy = legacy_of(
        stored(WORDS, 100, 384),
        stored("embeddings.position_embeddings.weight", 512, 384),
        stored("encoder.layer.0.intermediate.dense.bias", 1536),
        stored("encoder.layer.1.output.dense.bias", 384),
    )
    told = legacy_metadata(legacy)
    assert {key: told[key] for key in ("vocab_size", "hidden_size", "num_layers", "intermediate_size")} == {
        "vocab_size": "100",
        "hidden_size": "384",
        "num_layers": "2",
        "intermediate_size": "1536",
    }
    assert (told["num_attention_heads"], told["max_position_emb"]) == ("12", "512")
    assert legacy_metadata(legacy_of(stored("other", 2, 3))) == {}


def test_the_byte_map_of_a_legacy_file_has_every_byte() -> None:
    source = MemorySource(legacy_bytes(), "x.weights")
    legacy = read_legacy(source)
    assert legacy is not None
    at = 0
    for span in legacy_layout(source, orient(legacy)):
        assert span.offset == at
        at += span.size
    assert at == source.size
