"""Who fills the registry of devices: called when a device is first asked for, and not before.

The package's front door says who they are (`polyvec/__init__.py`), so that nothing here knows of the rooms above.
"""

from __future__ import annotations

from collections.abc import Callable

_waiting: list[Callable[[], object]] = []


def provide(register: Callable[[], object]) -> None:
    """Have ``register`` called before the first device is looked for."""
    _waiting.append(register)


def summon() -> None:
    """Call those who wait, each once."""
    while _waiting:
        _waiting.pop()()
