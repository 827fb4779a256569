"""Receipts: what a write did, what was kept, what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from polyvec.writing.loss import Loss


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a conversion did. ``column_losses`` has the other columns that changed; ``loss`` is the main one's."""

    output: str
    format: str
    rows: int
    dim: int
    bytes: int
    seconds: float
    codec: str  # "raw float32 -> int8"
    loss: Loss | None
    sidecars: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    dry_run: bool = False
    column_losses: Mapping[str, Loss] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
