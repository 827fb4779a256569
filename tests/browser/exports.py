"""What exports are made of: unit rows and cards."""

from __future__ import annotations

import numpy as np

WHEN = "2025-10-16T00:00:00+00:00"


def unit(rows: int, dim: int = 512, *, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cards(rows: int) -> list[dict]:
    base = {"set": "lea", "image_url": "https://img.example/1.png", "card_url": "https://card.example/1"}
    return [{"name": f"Card {i} «ü»", **base, "colors": ["W", "U"], "power": i} for i in range(rows)]
