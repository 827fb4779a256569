"""The compiled search kernels, or None where they are missing or switched off (POLYVEC_NO_NATIVE=1)."""

from __future__ import annotations

import os
from typing import Any

native: Any = None
if os.environ.get("POLYVEC_NO_NATIVE", "") in ("", "0"):
    try:
        from polyvec import _native

        native = _native if hasattr(_native, "Sieve") else None
    except ImportError:
        native = None


def matrix_units() -> bool:
    """Whether numkong multiplies int8 matrices on tiles (AMX, SME) and POLYVEC_CPU does not forbid it."""
    if os.environ.get("POLYVEC_CPU", "").lower() in ("avx2", "portable", "neon"):
        return False
    import numkong

    found = numkong.get_capabilities()
    return any(found.get(name, False) for name in ("sapphireamx", "graniteamx", "diamond", "sme"))
