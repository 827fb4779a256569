"""``--report FILE``: what a command measured, as a page, as JSON or as text. Not a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUFFIXES = (".html", ".json", ".txt")
_SAME = {".htm": ".html", ".md": ".txt"}


def check_report(path: str | None, *inputs: str | None) -> None:
    """`InputError` where a report cannot be written there, or is an input; called before any work, which may take hours."""
    from polyvec.core.errors import InputError
    from polyvec.core.targets import check_target
    from polyvec.writing.inputs import inputs_of

    if path is None:
        return
    if _suffix(path) not in SUFFIXES:
        found = Path(path).suffix or "no suffix"
        raise InputError(f"{path}: a report is written as {', '.join(SUFFIXES)}, not {found}")
    named = [name for name in inputs if name is not None]
    if Path(path).resolve() in [Path(name).resolve() for name in named]:  # an output may not be there yet
        raise InputError(f"{path}: the report is also an input or the output; choose another name for it")
    check_target(path, inputs=[file for name in named for file in inputs_of(name)])


def write_report(path: str, *, page: Callable[[], str], text: Callable[[], str], values: Any) -> None:
    """Write the form that the suffix names, atomically."""
    from polyvec.core.targets import open_sink

    suffix = _suffix(path)
    if suffix == ".json":
        content = json.dumps(values, indent=2) + "\n"
    else:
        content = page() if suffix == ".html" else text() + "\n"
    with open_sink(path) as sink:
        sink.write(content.encode())


def _suffix(path: str) -> str:
    suffix = Path(path).suffix.lower()
    return _SAME.get(suffix, suffix)
