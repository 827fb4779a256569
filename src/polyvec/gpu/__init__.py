"""Devices: from file to GPU memory at the bus's speed, and search there without decompressing.

Nothing of torch, triton or cupy is imported until a device is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyvec.core import devices
from polyvec.core.columns import Column


def _load(column: Column, **options: Any) -> Any:
    from polyvec.gpu.pipeline import load_column

    return load_column(column, **options)


def _errors() -> Mapping[str, str]:
    from polyvec.gpu.backends import errors

    return errors()


devices.register(devices.Device("cuda", _load, ("cuda", "triton"), _errors))
