"""Engines: what runs the encoder. NumPy is the oracle and always there; the others must agree with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError, MissingExtra
from polyvec.model.loading import Model

ENGINES = ("native", "onnxruntime", "openvino", "numpy")


class Engine(Protocol):
    """Runs batches. ``workers`` says how many calls of `pool` pay when made at once; ``budget`` is tokens a batch;
    texts of more than ``whole`` tokens are better not padded."""

    name: str
    workers: int
    budget: int
    whole: int | None

    def pool(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        """Pooled vectors [texts, width], not normalised, of padded ids [texts, tokens]. Safe from several threads."""

    def close(self) -> None:
        """Release what the engine holds."""


def count_threads(num_threads: int | None) -> int:
    """The threads to use: as asked, else one a core that this process may use."""
    if num_threads is None:
        return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if not isinstance(num_threads, int) or num_threads < 1:
        raise InputError(f"num_threads must be at least 1, not {num_threads!r}")
    return num_threads


def start_engine(name: str, model: Model, *, num_threads: int | None = None) -> Engine:
    """An engine by name; ``auto`` takes native where the CPU can, else onnxruntime, and NumPy where that is missing."""
    threads = count_threads(num_threads)
    if name == "auto":
        from polyvec.model.engines.native import refuse

        if refuse(model.architecture) is None:
            return _native(model, threads)
        try:
            return _onnxruntime(model, threads)
        except MissingExtra:
            return _numpy(model, threads)
    makers: dict[str, Callable[[Model, int], Engine]] = {
        "native": _native,
        "onnxruntime": _onnxruntime,
        "openvino": _openvino,
        "numpy": _numpy,
    }
    if name not in makers:
        raise InputError(f"unknown engine {name!r}; there are auto, {', '.join(ENGINES)}")
    return makers[name](model, threads)


def _native(model: Model, threads: int) -> Engine:
    from polyvec.model.engines.native import NativeEngine

    return NativeEngine(model, threads)


def _numpy(model: Model, threads: int) -> Engine:
    from polyvec.model.engines.numpy import NumpyEngine

    return NumpyEngine(model)


def _onnxruntime(model: Model, threads: int) -> Engine:
    from polyvec.model.engines.onnxruntime import OnnxruntimeEngine

    return OnnxruntimeEngine(model, threads)


def _openvino(model: Model, threads: int) -> Engine:
    from polyvec.model.engines.openvino import OpenvinoEngine

    return OpenvinoEngine(model, threads)
