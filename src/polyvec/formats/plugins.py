"""Finds the formats of installed packages, by their entry points ``polyvec.formats``. Not a format.

What such a format is written with is in `polyvec.plugins`.
A package declares them in its ``pyproject.toml``; the value is a `Format`, or a list of them::

    [project.entry-points."polyvec.formats"]
    vmat = "polyvec_vmat:FORMAT"
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polyvec.core.errors import FormatWarning

GROUP = "polyvec.formats"
METADATA_FOLDERS = (".dist-info", ".egg-info")


def plugged() -> Iterator[tuple[Any, str]]:
    """The formats of installed packages, each with the name of its package; a warning for what cannot be loaded."""
    if not _declared():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: (_package(point), point.name)):
        package = _package(point)
        try:
            found = point.load()
        except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
            complain(package, f"its format {point.name!r} cannot be loaded: {_reason(error)}")
            continue
        for format in found if isinstance(found, (list, tuple)) else [found]:
            yield format, package


def complain(package: str, reason: str) -> None:
    """A warning of one line for a package whose format is left out."""
    warnings.warn(f"the package {package} is left out: {reason}", FormatWarning, stacklevel=2)


def _package(point: Any) -> str:
    return str(point.dist.name) if point.dist is not None else str(point.module)


def _reason(error: BaseException) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__


def _declared() -> bool:
    """Whether any installed package has an entry point of ours.

    `importlib.metadata` takes longer to import than most files to open. It is asked only where a package's list of entry
    points names the group, or where packages lie elsewhere than in folders.
    """
    if any(getattr(finder, "find_distributions", None) for finder in sys.meta_path if not _usual(finder)):
        return True
    for entry in sys.path:
        folder = entry or "."
        try:
            with os.scandir(folder) as found:
                lists = [f"{f.path}/entry_points.txt" for f in found if f.name.endswith(METADATA_FOLDERS)]
        except NotADirectoryError:
            return True  # an archive
        except OSError:
            continue
        if any(_names_group(path) for path in (*lists, f"{folder}/EGG-INFO/entry_points.txt")):
            return True
    return False


def _usual(finder: object) -> bool:
    return getattr(finder, "__module__", "") == "_frozen_importlib_external"


def _names_group(path: str) -> bool:
    try:
        return GROUP.encode() in Path(path).read_bytes()
    except OSError:
        return False
