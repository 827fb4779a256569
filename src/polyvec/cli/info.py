"""polyvec info: what a file is, how we know, and how its values look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyvec.cli import flags

if TYPE_CHECKING:
    from polyvec.verbs.describe import Description


def command(
    files: Annotated[list[str], typer.Argument(help="Files or globs of any format, or - for standard input.")],
    source_format: flags.SourceFormat = None,
    layout: Annotated[bool, typer.Option("--layout", help="Add a byte map of the file.")] = False,
    lenient: flags.Lenient = False,
    dim: flags.Dim = None,
    option: flags.Own = None,
    json: flags.Json = False,
) -> None:
    """Say what a file is: format and why, shape, dtype, encoding, size, norms and value range from a bounded sample.

    Example:

        $ polyvec info vectors.fbin --layout
    """
    from polyvec.cli.terminal import print_json
    from polyvec.core.shards import expand
    from polyvec.verbs.describe import describe

    paths = [str(path) for file in files for path in (expand(file) if file != "-" else ["-"])]
    own = flags.own_options(option, dim)
    found = [describe(path, format=source_format, layout=layout, lenient=lenient, **own) for path in paths]
    if json:
        return print_json([one.to_dict() for one in found])
    for one in found:
        _show(one)
    return None


def _show(found: Description) -> None:
    from polyvec.cli.terminal import size, table

    print(f"{found.path}: {found.format}, {size(found.bytes)}")
    print(f"  recognised by  {found.reason}")
    for other in found.also_fits:
        print(f"  also fits      {other}")
    for c in found.columns:
        print(
            f"  column         {c.name}: {' x '.join(f'{n:,}' for n in c.shape)} {c.dtype}, {c.encoding}, "
            f"{size(c.decoded_bytes)} decoded"
        )
        if c.sampled:
            print(
                f"                 values {c.minimum:.6g} to {c.maximum:.6g}, mean {c.mean:.4g}; "
                f"norms {c.norm_min:.4g} to {c.norm_max:.4g}, mean {c.norm_mean:.4g} "
                f"({c.sampled:,} rows sampled)"
            )
    if found.vocab is not None:
        print(f"  words          {found.vocab:,}")
    if found.ids is not None:
        print(f"  ids            {found.ids}")
    if found.records is not None:
        print(f"  records        {', '.join(found.records)}")
    for key, value in found.metadata.items():
        print(f"  metadata       {key}: {str(value)[:100]}")
    for name in found.sidecars:
        print(f"  beside         {name}")
    for warning in found.warnings:
        print(f"  warning        {warning}")
    if found.layout is not None:
        print()
        rows = [(f"{s.offset:,}", f"{s.size:,}", s.name, s.note) for s in found.layout]
        print(table(("offset", "bytes", "what", "value"), rows, right=(0, 1)))
