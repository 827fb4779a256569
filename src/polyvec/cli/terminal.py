"""What commands share: building the program, one-line errors, tables, JSON, sizes in words."""

from __future__ import annotations

import json
import math
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import typer

from polyvec.cli.streams import fit, say

SHARED = (
    "advice",
    "flags",
    "receipts",
    "reports",
    "spellings",
    "streams",
    "terminal",
)  # what commands share: no commands themselves
HELP = "Open, check, convert, shrink and search any embedding file, and know exactly what you lost."


def command_names() -> list[str]:
    """The commands, by the names of their files."""
    folder = str(Path(__file__).parent)
    return sorted(m.name for m in pkgutil.iter_modules([folder]) if m.name not in SHARED)


def build(arguments: Sequence[str] = ()) -> Any:
    """The program as a click command. Only the named command's module is loaded, where one is named."""
    app = typer.Typer(
        help=HELP,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    names = command_names()
    named = [a for a in arguments[:1] if a in names]
    for name in named or names:
        module = import_module(f"polyvec.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    program = typer.main.get_command(app)
    _fit_help(program)
    return program


def _fit_help(command: Any) -> None:
    """Help as the terminal can show it: click writes UTF-8 where it takes a terminal for misconfigured."""
    plain = command.get_help
    command.get_help = lambda context: fit(plain(context))
    for child in getattr(command, "commands", {}).values():
        _fit_help(child)


def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from polyvec import __version__

        typer.echo(f"polyvec {__version__}")
        raise typer.Exit


def fail(message: str, code: int) -> int:
    """Print one line on standard error; returns the exit code. In an ``except`` block, the traceback where asked for."""
    if os.environ.get("POLYVEC_DEBUG") and sys.exc_info()[0] is not None:
        import traceback

        say(traceback.format_exc())
    said = re.sub(r"\.([^/\s]+)\.[0-9a-f]{8}\.polyvec-tmp\b", r"\1", " ".join(message.split()))
    say(f"polyvec: {said}")  # nobody knows the temporary file of a target
    return code


@contextmanager
def warnings_in_lines() -> Iterator[None]:
    """What Python warns of about files as one line each on standard error, and nothing else; as before afterwards."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message))

    from polyvec.core.errors import FormatWarning

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FormatWarning)
        yield


def warn(message: str) -> None:
    """One line of warning on standard error."""
    say(f"polyvec: warning: {' '.join(message.split())}")


def note(message: str) -> None:
    """One line for the person, on standard error, so that standard output stays for data."""
    say(message)


def print_json(value: Any, *, file: TextIO | None = None) -> None:
    """A value as JSON on standard output; numbers that JSON has not (NaN, infinity) are null.

    Characters that the terminal's encoding has not are escaped, so that it is JSON wherever it goes.
    """
    file = sys.stdout if file is None else file
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        value = _finite(json.loads(json.dumps(value, default=_plain)))
        text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(file.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    print(text, file=file)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "item"):
        return value.item()
    return str(value)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()) -> str:
    """A plain table; columns in ``right`` are aligned to the right."""
    cells = [[str(h) for h in headings], *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = []
    for number, row in enumerate(cells):
        parts = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(parts).rstrip())
        if number == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines)


def size(count: float) -> str:
    """Bytes in words: 1,234 B, 12.3 MB."""
    if count < 10_000:
        return f"{int(count):,} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 1000 or unit == "TB":
            return f"{count:.1f} {unit}"
    return ""


def progress(quiet: bool = False, unit: str = "rows") -> Any:
    """The callback a command hands to a verb: a bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return None
    from polyvec.core.progress import bar

    return bar(unit=unit)
