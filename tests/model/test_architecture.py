"""What metadata says of an encoder: sizes are checked against each other, tensors against the sizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polyvec.core.errors import Corrupt
from polyvec.model.architecture import Architecture, decode_tensor, load_parameters
from polyvec.testing.models import tiny_metadata, tiny_tensors

METADATA = tiny_metadata()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "0"),
        ("hidden_size", "-32"),
        ("hidden_size", "32.0"),
        ("hidden_size", "٣٢"),
        ("num_layers", "9" * 11),
        ("num_layers", "4097"),
        ("num_attention_heads", "5"),
        ("embedding_dim", "16"),
        ("max_seq_length", "65"),
        ("max_seq_length", "2"),
        ("hidden_act", "swish"),
        ("pooling", "sum"),
        ("normalize", "yes"),
        ("layer_norm_eps", "nan"),
        ("layer_norm_eps", "0"),
        ("layer_norm_eps", "tiny"),
    ],
)
def test_a_size_or_a_switch_that_cannot_be_is_corrupt_with_its_key(key: str, value: str) -> None:
    with pytest.raises(Corrupt) as caught:
        Architecture.from_metadata(tiny_metadata(**{key: value}), path="m.weights")
    assert caught.value.field == key and caught.value.path == "m.weights"


def test_a_missing_key_is_named_and_optional_ones_have_defaults() -> None:
    for key in ("vocab_size", "num_layers", "model_name"):
        with pytest.raises(Corrupt, match=f"required metadata key '{key}' is missing"):
            Architecture.from_metadata({k: v for k, v in METADATA.items() if k != key})
    bare = {k: v for k, v in tiny_metadata(max_position_emb="512").items() if k != "max_seq_length"}
    sizes = Architecture.from_metadata(bare)
    assert (sizes.max_seq_length, sizes.pooling, sizes.hidden_act) == (256, "mean", "gelu")
    assert sizes.normalize and sizes.do_lower_case and sizes.head_dim == 8


def test_the_tensors_of_a_layer_are_sixteen_and_their_shapes_follow_the_sizes() -> None:
    sizes = Architecture.from_metadata(METADATA)
    shapes = dict(sizes.required_tensors())
    assert len(shapes) == 5 + 16 * sizes.num_layers
    assert shapes["encoder.layer.1.intermediate.dense.weight"] == (64, 32)
    assert shapes["encoder.layer.1.output.dense.weight"] == (32, 64)


def test_a_tensor_that_is_missing_or_of_another_shape_is_named() -> None:
    sizes, tensors = Architecture.from_metadata(METADATA), tiny_tensors(METADATA)
    name = "encoder.layer.0.output.dense.weight"
    with pytest.raises(Corrupt, match=f"'{name}' is missing"):
        sizes.check_tensors({k: v for k, v in tensors.items() if k != name})
    with pytest.raises(Corrupt, match=r"is \[64, 32\], but the metadata demands \[32, 64\]"):
        sizes.check_tensors({**tensors, name: tensors[name].T})
    sizes.check_tensors({**tensors, "pooler.dense.weight": tensors[name]})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_named_with_their_element(bad: float) -> None:
    sizes, tensors = Architecture.from_metadata(METADATA), tiny_tensors(METADATA)
    name = "encoder.layer.1.attention.self.key.weight"
    tensors[name].flat[7] = bad
    with pytest.raises(Corrupt, match="at element 7") as caught:
        load_parameters(sizes, tensors)
    assert caught.value.field == name


def test_weights_whose_sum_overflows_are_fine() -> None:
    sizes, tensors = Architecture.from_metadata(METADATA), tiny_tensors(METADATA)
    tensors["embeddings.LayerNorm.bias"][:] = 3e38
    assert load_parameters(sizes, tensors)["embeddings.LayerNorm.bias"].max() == np.float32(3e38)


def test_every_stored_kind_decodes_to_float32() -> None:
    rows = np.float32([[0.5, -1], [2, 0.25]])
    assert decode_tensor("w", {"w": rows}) is rows
    for kind in (np.float16, np.float64, ml_dtypes.bfloat16):
        found = decode_tensor("w", {"w": rows.astype(kind)})
        assert found.dtype == np.float32 and np.array_equal(found, rows)
    codes, scale = np.int8([[1, -2], [3, 4]]), np.float32([0.5, 10])
    assert decode_tensor("w", {"w": codes, "w.scale": scale}).tolist() == [[0.5, -1], [30, 40]]


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"w": np.int8([[1]])}, "'w.scale' are missing"),
        ({"w": np.int8([[1]]), "w.scale": np.float32([1, 2])}, r"must be FLOAT32 of shape \[1\]"),
        ({"w": np.int8([[1]]), "w.scale": np.float64([1])}, "found float64"),
        ({"w": np.int32([[1]])}, "'w' is int32"),
    ],
)
def test_a_kind_that_is_no_weight_is_corrupt(tensors, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        decode_tensor("w", tensors)
