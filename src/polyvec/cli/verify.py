"""polyvec verify: check files to the last byte."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    files: Annotated[list[str], typer.Argument(help="Files or globs of any format.")],
    source_format: flags.SourceFormat = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="SHA256", help="Also compare the SHA-256 of the (one) file.")
    ] = None,
    dim: flags.Dim = None,
    option: flags.Own = None,
    json: flags.Json = False,
) -> int:
    """Check files: structure, every size and checksum they have, and every row. Exit code 1 where one is bad.

    Example:

        $ polyvec verify vectors.fbin
    """
    from polyvec.cli.terminal import print_json, progress, size
    from polyvec.core.errors import InputError
    from polyvec.core.shards import expand
    from polyvec.verbs.verify import verify_all

    paths = [f if f == "-" else str(p) for f in files for p in (expand(f) if f != "-" else ["-"])]
    if expect is not None and len(paths) > 1:
        raise InputError(f"--expect takes the digest of one file, and these are {len(paths)}; check them one by one")
    reports = verify_all(
        paths, format=source_format, sha256=expect or False, progress=progress(json, unit="bytes"),
        **flags.own_options(option, dim),
    )  # fmt: skip
    if json:
        print_json([r.to_dict() for r in reports])
    else:
        for report in reports:
            state = "ok" if report.ok else "BAD"
            print(f"{state}  {report.path}: {report.format or 'unknown format'}, {size(report.bytes)}")
            for finding in report.findings:
                print(f"    {finding.severity}: {finding.message}")
    return 0 if all(report.ok for report in reports) else 1
