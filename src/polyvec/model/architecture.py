"""What a BERT encoder looks like: its sizes, read from metadata, and the tensors those sizes demand.

The sizes come from the file's own metadata, so any BERT encoder (other depth, width, heads) is accepted by
what it says of itself; all-MiniLM-L6-v2 is the instance with 6 layers of 384. Linear weights are [out, in],
the way the document and PyTorch keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from polyvec.core.errors import Corrupt
from polyvec.formats.weights.records import REQUIRED_KEYS

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
POOLINGS = ("mean", "cls", "max")

# A size in the metadata is a string someone wrote: anything longer than this is no size of any model.
_MAX_DIGITS = 10
_MAX_LAYERS = 4096


class Shaped(Protocol):
    """Anything with a shape: an array, or a tensor not read yet."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Architecture:
    """The sizes and switches of one BERT encoder, as its metadata states them."""

    vocab_size: int
    num_layers: int
    num_attention_heads: int
    hidden_size: int
    intermediate_size: int
    max_position_emb: int
    embedding_dim: int
    max_seq_length: int
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    pooling: str = "mean"
    normalize: bool = True
    do_lower_case: bool = True

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], *, path: str | None = None) -> Architecture:
        """Read the sizes from a `.weights` file's metadata.

        Raises Corrupt naming the key when a required key is missing, is no positive integer, or when two
        keys contradict one another.
        """
        for key in REQUIRED_KEYS:
            if key not in metadata:
                raise Corrupt(
                    f"required metadata key {key!r} is missing", path=path, field=key, expected=key, found="nothing"
                )

        def size(key: str, default: int | None = None) -> int:
            text = metadata.get(key, "" if default is None else str(default))
            if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) > 0):
                raise Corrupt(
                    f"metadata {key} is no size",
                    path=path,
                    field=key,
                    expected="a positive integer",
                    found=repr(text[:40]),
                )
            return int(text)

        def word(key: str, default: str, allowed: tuple[str, ...]) -> str:
            text = metadata.get(key, default)
            if text not in allowed:
                raise Corrupt(
                    f"metadata {key} is not known",
                    path=path,
                    field=key,
                    expected=" or ".join(allowed),
                    found=repr(text[:40]),
                )
            return text

        eps_text = metadata.get("layer_norm_eps", "1e-12")
        try:
            eps = float(eps_text)
        except ValueError:
            eps = -1.0
        if not 0.0 < eps < 1.0:
            raise Corrupt(
                "metadata layer_norm_eps is out of range",
                path=path,
                field="layer_norm_eps",
                expected="a number between 0 and 1",
                found=repr(eps_text[:40]),
            )
        positions = size("max_position_emb")
        made = cls(
            vocab_size=size("vocab_size"),
            num_layers=size("num_layers"),
            num_attention_heads=size("num_attention_heads"),
            hidden_size=size("hidden_size"),
            intermediate_size=size("intermediate_size"),
            max_position_emb=positions,
            embedding_dim=size("embedding_dim"),
            max_seq_length=size("max_seq_length", min(256, positions)),
            hidden_act=word("hidden_act", "gelu", ACTIVATIONS),
            layer_norm_eps=eps,
            pooling=word("pooling", "mean", POOLINGS),
            normalize=word("normalize", "true", ("true", "false")) == "true",
            do_lower_case=word("do_lower_case", "true", ("true", "false")) == "true",
        )
        made._check_sizes(path)
        return made

    def _check_sizes(self, path: str | None) -> None:
        def clash(field: str, message: str, expected: object, found: object) -> Corrupt:
            return Corrupt(message, path=path, field=field, expected=expected, found=found)

        if self.hidden_size % self.num_attention_heads:
            raise clash(
                "num_attention_heads",
                f"{self.num_attention_heads} heads do not divide the width {self.hidden_size}",
                f"a divisor of {self.hidden_size}",
                self.num_attention_heads,
            )
        if self.embedding_dim != self.hidden_size:
            raise clash(
                "embedding_dim",
                f"embedding_dim {self.embedding_dim} is not hidden_size {self.hidden_size}, "
                "and a pooled encoder yields hidden_size",
                self.hidden_size,
                self.embedding_dim,
            )
        if self.max_seq_length > self.max_position_emb or self.max_seq_length < 3:
            raise clash(
                "max_seq_length",
                f"max_seq_length {self.max_seq_length} must lie in 3..{self.max_position_emb} (max_position_emb)",
                f"3..{self.max_position_emb}",
                self.max_seq_length,
            )
        if self.num_layers > _MAX_LAYERS:
            raise clash(
                "num_layers",
                f"{self.num_layers} layers are more than any model has ({_MAX_LAYERS})",
                f"at most {_MAX_LAYERS}",
                self.num_layers,
            )

    def required_tensors(self) -> Iterator[tuple[str, tuple[int | None, ...]]]:
        """Every tensor the encoder needs, as (name, shape); None stands for a size the metadata leaves open."""
        hidden, inner = self.hidden_size, self.intermediate_size
        yield WORDS, (self.vocab_size, hidden)
        yield POSITIONS, (self.max_position_emb, hidden)
        yield TYPES, (None, hidden)
        yield "embeddings.LayerNorm.weight", (hidden,)
        yield "embeddings.LayerNorm.bias", (hidden,)
        for number in range(self.num_layers):
            layer = f"encoder.layer.{number}"
            for part in ("self.query", "self.key", "self.value", "output.dense"):
                yield f"{layer}.attention.{part}.weight", (hidden, hidden)
                yield f"{layer}.attention.{part}.bias", (hidden,)
            yield f"{layer}.attention.output.LayerNorm.weight", (hidden,)
            yield f"{layer}.attention.output.LayerNorm.bias", (hidden,)
            yield f"{layer}.intermediate.dense.weight", (inner, hidden)
            yield f"{layer}.intermediate.dense.bias", (inner,)
            yield f"{layer}.output.dense.weight", (hidden, inner)
            yield f"{layer}.output.dense.bias", (hidden,)
            yield f"{layer}.output.LayerNorm.weight", (hidden,)
            yield f"{layer}.output.LayerNorm.bias", (hidden,)

    def check_tensors(self, tensors: Mapping[str, Shaped], *, path: str | None = None) -> None:
        """Raise Corrupt, naming the tensor, when one is missing or its shape disagrees with the metadata."""
        for name, shape in self.required_tensors():
            if name not in tensors:
                raise Corrupt(
                    f"required tensor {name!r} is missing", path=path, field=name, expected=name, found="nothing"
                )
            found = tuple(tensors[name].shape)
            same = len(found) == len(shape) and all(want is None or want == have for want, have in zip(shape, found))
            if not same:
                wanted = "[" + ", ".join("any" if want is None else str(want) for want in shape) + "]"
                raise Corrupt(
                    f"tensor {name!r} is {list(found)}, but the metadata demands {wanted}",
                    path=path,
                    field=name,
                    expected=wanted,
                    found=list(found),
                )


def load_parameters(
    architecture: Architecture, tensors: Mapping[str, npt.NDArray[Any]], *, path: str | None = None
) -> dict[str, npt.NDArray[np.float32]]:
    """The encoder's tensors as float32: views where they are stored so, else converted.

    int8 tensors are multiplied by their sibling `<name>.scale` (one factor a row). Raises Corrupt on NaN or
    infinite weights, naming the tensor.
    """
    architecture.check_tensors(tensors, path=path)
    parameters: dict[str, npt.NDArray[np.float32]] = {}
    for name, _ in architecture.required_tensors():
        parameter = decode_tensor(name, tensors, path=path)
        # One pass at memory speed: a sum is finite only where every weight is.
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.add.reduce(parameter, axis=None))
        if not np.isfinite(total):
            _refuse_bad_values(name, parameter, path)
        parameters[name] = parameter
    return parameters


def _refuse_bad_values(name: str, parameter: npt.NDArray[np.float32], path: str | None) -> None:
    flat = parameter.reshape(-1)
    bad = np.flatnonzero(~np.isfinite(flat))
    if len(bad):
        raise Corrupt(
            f"tensor {name!r} holds {flat[bad[0]]} at element {int(bad[0])}",
            path=path,
            field=name,
            expected="finite weights",
            found=str(flat[bad[0]]),
        )


def decode_tensor(
    name: str, tensors: Mapping[str, npt.NDArray[Any]], *, path: str | None = None
) -> npt.NDArray[np.float32]:
    """One tensor as float32, with its row scales applied when it is int8."""
    tensor = tensors[name]
    if tensor.dtype == np.float32:
        return tensor
    if tensor.dtype == np.int8:
        scale = tensors.get(f"{name}.scale")
        if scale is None:
            raise Corrupt(
                f"tensor {name!r} is INT8 and its row scales {name + '.scale'!r} are missing",
                path=path,
                field=name,
                expected=f"{name}.scale",
                found="nothing",
            )
        if scale.dtype != np.float32 or scale.shape != tensor.shape[:1]:
            raise Corrupt(
                f"tensor {name + '.scale'!r} must be FLOAT32 of shape {list(tensor.shape[:1])}, "
                f"found {scale.dtype} {list(scale.shape)}",
                path=path,
                field=f"{name}.scale",
                expected=f"float32 {list(tensor.shape[:1])}",
                found=f"{scale.dtype} {list(scale.shape)}",
            )
        factors = scale.reshape((-1,) + (1,) * (tensor.ndim - 1))
        return np.asarray(np.multiply(tensor, factors, dtype=np.float32))
    if tensor.dtype.kind == "f" or tensor.dtype.name == "bfloat16":
        return tensor.astype(np.float32)
    raise Corrupt(
        f"tensor {name!r} is {tensor.dtype.name}, and weights are float32, float16, bfloat16 or int8",
        path=path,
        field=name,
        expected="floats",
        found=tensor.dtype.name,
    )
