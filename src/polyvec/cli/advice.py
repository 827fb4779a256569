"""Advice in errors, fitted to the command that failed. Not a command.

The library's errors name flags (`--lenient`, `--column`) that some commands have and others have not. Where the command
at hand has not, one clause more says whose flag it is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
SHOWN = 4  # commands that are named; "and others" stands for the rest


def fitted(message: str, arguments: list[str]) -> str:
    """The message, and whose flags it names, where the command of these arguments does not have them."""
    named = list(dict.fromkeys(FLAG.findall(message)))
    if not named:
        return message
    from polyvec.cli.terminal import build

    command, name = _asked(arguments)
    own = flags_of(command)
    if not name or own.issuperset(named):
        return message
    owners = {flag: sorted(other for other, leaf in leaves(build()) if flag in flags_of(leaf)) for flag in named}
    said = [f"{flag} is a flag of {_listed(owners[flag])}" for flag in named if flag not in own and owners[flag]]
    return f"{message} ({'; '.join(said)})" if said else message


def about_usage(message: str, arguments: list[str]) -> str:
    """A usage error's message, and more where a flag is a capital letter's slip, or where the shell seems to have put
    files in the place of a pattern."""
    capital = re.search(r"No such option: (-[A-Z])", message)
    if capital is not None and (meant := capital[1].lower()) in (own := flags_of(_asked(arguments)[0])):
        output = ", the output" if meant == "-o" and "--output" in own else ""
        return f"{message.rstrip('.')}; did you mean {meant}{output}?"
    from polyvec.core.places import Place
    from polyvec.core.shards import pattern_of

    files = [word for word in arguments if not word.startswith("-") and "://" not in word and Place.of(word).is_file()]
    if "unexpected extra argument" not in message or len(files) < 2:
        return message
    kinds = Counter(Place.of(word).suffix for word in files)
    alike = [word for word in files if Place.of(word).suffix == kinds.most_common(1)[0][0]]
    pattern = f"'{pattern_of(alike)}'" if len(alike) > 1 else "'shard-*.fbin'"
    return (
        f"too many files: {', '.join(files[:3])}{' and others' if len(files) > 3 else ''}; a pattern of shards is one "
        f"argument when it is in quotes ({pattern}), and polyvec merge takes many files: polyvec merge {pattern} -o OUTPUT"
    )


def _asked(arguments: list[str]) -> tuple[Any, str]:
    """The command that the arguments name, and its words."""
    from polyvec.cli.terminal import build

    command, name = build(arguments[:1]), ""
    for word in arguments:
        if word not in getattr(command, "commands", {}):
            break
        command, name = command.commands[word], f"{name} {word}".strip()
    return command, name


def flags_of(command: Any) -> set[str]:
    """The flags of a command."""
    return {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}


def leaves(command: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every command that is not a group, by its words."""
    children = getattr(command, "commands", {})
    if not children:
        return [(name, command)]
    return [leaf for word, child in children.items() for leaf in leaves(child, f"{name} {word}".strip())]


def _listed(names: list[str]) -> str:
    shown = [f"polyvec {name}" if not number else name for number, name in enumerate(names[:SHOWN])]
    if len(names) > SHOWN:
        return f"{', '.join(shown)} and others"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
