"""``--report FILE``: what a command measured, as a page, as JSON or as text. Not a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUFFIXES = (".html", ".json", ".txt")
_SAME = {".htm": ".html", ".md": ".txt"}


def check_report(path: str | None) -> None:
    """`InputError` where a report cannot be written there; called before any work, which may take hours."""
    from polyvec.core.errors import InputError

    if path is None:
        return
    if _suffix(path) not in SUFFIXES:
        found = Path(path).suffix or "no suffix"
        raise InputError(f"{path}: a report is written as {', '.join(SUFFIXES)}, not {found}")
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist; make it first")
    if Path(path).is_dir():
        raise InputError(f"{path}: is a directory; a report is a file")


def write_report(path: str, *, page: Callable[[], str], text: Callable[[], str], values: Any) -> None:
    """Write the form that the suffix names, atomically."""
    from polyvec.core.sinks import Sink

    suffix = _suffix(path)
    if suffix == ".json":
        content = json.dumps(values, indent=2) + "\n"
    else:
        content = page() if suffix == ".html" else text() + "\n"
    with Sink(path) as sink:
        sink.write(content.encode())


def _suffix(path: str) -> str:
    suffix = Path(path).suffix.lower()
    return _SAME.get(suffix, suffix)
