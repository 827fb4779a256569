"""The flags that commands share: one idea has one flag, one short form and one first clause of help. Not a command.

A flag of one command alone stays in its file; one that two commands take comes from here. ``tests/cli/test_flags.py``
walks all commands and holds them to it. What a flag was called before is in `spellings`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

# What is a flag of its own, and not one of a format's options.
FLAGS = {
    "encoding": "--encoding",
    "format": "--to",
    "column": "--column",
    "sidecar": "--no-sidecar",
    "overwrite": "--force",
    "sha256": "--sha256",
    "dry_run": "--dry-run",
    "progress": "it is shown on terminals",
    "resume": "--resume",
    "source_format": "--from",
    "lenient": "--lenient",
    "ids": "--ids",
    "records": "--records",
    "output": "--output",
}
MANY = "several by commas"


def text_of(value: Any) -> Any:
    """The callback of what takes words and texts: `InputError` where an argument's bytes are no text.

    Paths may be any bytes, so each argument has to say what it is."""
    from polyvec.core.errors import InputError

    for one in [value] if isinstance(value, str) else value or ():
        try:
            one.encode()
        except UnicodeEncodeError as error:
            given = one.encode("utf-8", "surrogateescape")
            raise InputError(
                f"the argument '{str(given)[2:-1]}' is not UTF-8: byte 0x{given[len(one[: error.start].encode())]:02x} is no "
                "part of a character; convert it to UTF-8, with iconv or in the terminal's settings"
            ) from None
    return value


def output(what: str) -> Any:
    """``-o/--output``, with what is written: a file, a folder."""
    return typer.Option("--output", "-o", help=f"The output: {what}.")


def read_as(formats: str) -> Any:
    """``--from``, with some of the names it takes."""
    return typer.Option("--from", help=f"Read the input as this format: {formats}.")


def encodings(names: str) -> Any:
    """``-e/--encoding``, with the names it takes."""
    return typer.Option("--encoding", "-e", help=f"The encoding: {names}.")


def metrics(names: str) -> Any:
    """``-m/--metric``, with the names it takes."""
    return typer.Option("--metric", "-m", help=f"How rows are compared: {names}.")


def neighbours(more: str = "", **limits: Any) -> Any:
    """``-k/--k``."""
    return typer.Option("--k", "-k", help=f"How many neighbours{more and '; '}{more}.", **limits)


def query_file(more: str = "") -> Any:
    """``-q/--queries``, with what they are for."""
    return typer.Option("--queries", "-q", help=f"A file of queries{more and ': '}{more}.")


def model_file(more: str = "") -> Any:
    """``--model``, with what it is for."""
    return typer.Option("--model", help=f"The model{more and ': '}{more}.")


def row_count(what: str, **limits: Any) -> Any:
    """``--rows``, with what they are rows of."""
    return typer.Option("--rows", help=f"Rows at most: {what}.", **limits)


def seed(what: str) -> Any:
    """``--seed``, with what it decides."""
    return typer.Option("--seed", help=f"The seed of chance: {what}.")


def strict(what: str) -> Any:
    """``--strict``, with what is refused."""
    return typer.Option("--strict", help=f"Fail where something is missing: {what}.")


SourceFormat = Annotated[str | None, read_as("fbin, npy, cvc and so on")]
TargetFormat = Annotated[str | None, typer.Option("--to", help="Write this format, whatever the suffix says.")]
Encoding = Annotated[str | None, encodings("raw, float16, bfloat16, int8, pq or lossless; kept as it is by default")]
ColumnName = Annotated[str | None, typer.Option("--column", help="Take this column of several.")]
Output = Annotated[str | None, output("in place of the second argument")]
Ids = Annotated[
    str | None,
    typer.Option(
        "--ids",
        metavar="FILE|COLUMN",
        help="Ids: lines (.txt), .npy, a table's field (FILE:FIELD), or a field or column of the input.",
    ),
]
Records = Annotated[
    str | None,
    typer.Option("--records", metavar="FILE", help="Records, one a row: .jsonl, .json, .csv, .tsv or .parquet."),
]
Sidecar = Annotated[bool, typer.Option(help="Keep beside the output what it cannot hold (words, records, ids).")]
Lenient = Annotated[bool, typer.Option("--lenient", help="Take the whole rows of a file whose end is missing.")]
Force = Annotated[
    bool, typer.Option("--force", "-f", help="Replace the output if it exists; go on where the disk looks too small.")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Keep finished parts beside the output until all are done; run again to continue."),
]
Restart = Annotated[bool, typer.Option("--restart", help="Start over where a stopped run could go on.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")]
Sha256 = Annotated[bool, typer.Option("--sha256", help="Print the output's SHA-256.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; one a core by default.")]
Report = Annotated[
    str | None, typer.Option("--report", help="Write a report to this file: .html with plots, .json or .txt.")
]
Title = Annotated[
    str | None, typer.Option("--title", callback=text_of, help="The page's title; the file's name unless told.")
]
Duplicates = Annotated[
    str | None,
    typer.Option("--duplicates", help="Words that stand twice, in word formats: keep the first or last, or rename."),
]
Own = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of a format, such as layout=versioned or orientation=out_in."
    ),
]
Dim = Annotated[
    int | None, typer.Option("--dim", min=1, help="Values in a row, where the input does not say (headerless .i8bin).")
]


def one_output(target: str | None, output: str | None) -> str:
    """The output, which is an argument or ``--output``."""
    from polyvec.core.errors import InputError

    if target is not None and output is not None:
        raise InputError(
            f"two outputs are named, {target} and {output}; name one (a format's option is --option NAME=VALUE, "
            "a pattern of shards is put in quotes)"
        )
    if target is None and output is None:
        raise InputError("no output is named; name it after the input, or with --output")
    return str(target if output is None else output)


def own_options(pairs: list[str] | None, dim: int | None = None) -> dict[str, Any]:
    """``--option name=value`` pairs , and ``--dim``, which is one of them. What a value means, the kind of the format's option says."""
    from polyvec.core.errors import InputError
    from polyvec.core.options import CHUNK_ROWS, Text

    found: dict[str, Any] = {} if dim is None else {"dim": dim}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--option takes NAME=VALUE, not {pair!r}")
        name = name.replace("-", "_")
        _check_name(name)
        found[name] = CHUNK_ROWS.value(Text(value)) if name == CHUNK_ROWS.name else Text(value)
    return found


def _check_name(name: str) -> None:
    """`InputError` for a flag of the command, for what is the library's own, and for a slip of the pen.

    Which options a format has, the library knows and says."""
    from polyvec.cli.spellings import known_options
    from polyvec.core.errors import InputError
    from polyvec.formats import near
    from polyvec.writing.options import Writing

    known = known_options()
    if name in known:
        return
    if name in FLAGS:
        raise InputError(f"{name} is no option of a format, but of the command: {FLAGS[name]}")
    meant = near(name, known)
    if meant or name in Writing.__dataclass_fields__:
        raise InputError(f"no format has an option {name!r}{meant}")
