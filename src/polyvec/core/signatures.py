"""Signatures that name every option of a function that takes them as ``**options``: for `help` and for notebooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _FormatsOwn:
    """Stands for the default of an option that each format has its own for."""

    def __repr__(self) -> str:
        return "<the format's own>"


def shows_options(kind: type[Any], defaults: Mapping[str, Any] | None = None) -> Callable[[Function], Function]:
    """Put the options of a typed dictionary in place of ``**options`` in the signature that `inspect` gives."""
    known = defaults or {}

    def showing(function: Function) -> Function:
        plain = inspect.signature(function)
        kept = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = [p.name for p in kept]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=known[name] if name in known else _FormatsOwn(),
                annotation=getattr(note, "__forward_arg__", note),
            )
            for name, note in kind.__annotations__.items()
            if name not in named
        ]
        function.__signature__ = plain.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
        return function

    return showing
