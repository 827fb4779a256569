"""How flags were called before, for one more release: each is read as its new name, with one line of warning. Not a command.

The words are replaced before the command line is parsed, so no command knows of them and no help shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

WRITERS = ("convert", "merge", "sample", "split")
RENAMED: dict[str, dict[str, str | None]] = {  # command: old flag: new flag, or None where it said nothing
    **{name: {"--format": "--from"} for name in ("analogy", "info", "publish", "serve", "similar", "words accuracy")},
    **{name: {"--format": "--to", "--no-lenient": None} for name in WRITERS},
    "demo": {"--keep": "--output"},
    "embed": {"--format": "--to", "--input": "--from", "-m": "--model"},
    "quality": {"--html": "--report", "--encodings": "--encoding"},
    "search": {"--format": "--from", "--query": "--queries"},
    "stats": {"--html": "--report"},
    "truth": {"-O": "--output", "--resume": None, "--no-resume": "--restart"},
    "verify": {"--format": "--from", "--sha256": "--expect"},
    "words quantize": {"--parts": "--subquantizers", "-q": "--quantizer"},
}
RENAMED["merge"]["-O"] = "--output"
RENAMED["merge"]["--no-strict"] = None
RENAMED["info"]["--no-lenient"] = None


def renew(program: Any, arguments: Sequence[str], warn: Callable[[str], None]) -> list[str]:
    """The arguments with today's flags; ``warn`` gets a line for each old one."""
    command, depth = program, 0
    while depth < len(arguments) and arguments[depth] in getattr(command, "commands", {}):
        command = command.commands[arguments[depth]]
        depth += 1
    name = " ".join(arguments[:depth])
    renamed = RENAMED.get(name, {})
    if not renamed:
        return list(arguments)
    valued = {flag for p in command.params if _takes_value(p) for flag in (*p.opts, *p.secondary_opts)}
    return [*arguments[:depth], *_renew(name, renamed, valued, arguments[depth:], warn)]


def _takes_value(param: Any) -> bool:
    return param.param_type_name == "option" and not param.is_flag and not getattr(param, "count", False)


def _renew(
    name: str, renamed: dict[str, str | None], valued: set[str], words: Sequence[str], warn: Callable[[str], None]
) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            yield word
            yield from waiting
            return
        flag, value = _parts(word)
        if flag in renamed:
            new = renamed[flag]
            warn(
                f"{flag} is {new} now; the old name goes with the next release"
                if new is not None
                else f"{flag} says nothing and goes with the next release"
            )
            if new is None:
                continue
            flag, word = new, new if value is None else f"{new}={value}"
        if flag not in valued or value is not None:
            if flag == "-o" and value is not None and name in WRITERS and _is_option(value):
                word = _as_option(value, warn)
            yield word
            continue
        following = next(waiting, None)
        if following is None:
            yield word
        elif flag == "-o" and name in WRITERS and _is_option(following):
            yield _as_option(following, warn)
        else:
            yield word
            yield following


def _parts(word: str) -> tuple[str, str | None]:
    """A flag and the value written in the same word: ``--to=npy``, ``-oout.npy``."""
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        return flag, value if equals else None
    if word.startswith("-") and len(word) > 2:
        return word[:2], word[2:]
    return word, None


def _as_option(pair: str, warn: Callable[[str], None]) -> str:
    warn(f"-o is the output now; a format's option is --option {pair}, and -o {pair} goes with the next release")
    return f"--option={pair}"


def _is_option(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.replace("-", "_") in known_options()


def known_options() -> set[str]:
    """The names that ``--option`` takes, of all formats together."""
    from polyvec import formats

    declared = (option for format in formats.all_formats() for option in (*format.options, *format.reading))
    return {"chunk_rows", *(option.name for option in declared)}
