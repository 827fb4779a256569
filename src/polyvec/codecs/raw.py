"""Raw: rows as they are. The codec itself lives with the model, because every other decodes to it."""

from polyvec.core.blocks import Raw

__all__ = ["Raw"]
