"""polyvec verify: check files to the last byte."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    files: Annotated[list[str], typer.Argument(help="Files or globs of any format.")],
    format: Annotated[str | None, typer.Option("--format", help="Read them as this format.")] = None,
    sha256: Annotated[str | None, typer.Option(help="Also compare the SHA-256 of the (one) file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    if sha256 is not None and len(paths) > 1:
        raise InputError(f"--sha256 is the digest of one file, and these are {len(paths)}; check them one by one")
    reports = verify_all(paths, format=format, sha256=sha256 or False, progress=progress(json, unit="bytes"))
    if json:
        print_json([r.to_dict() for r in reports] if len(reports) > 1 else reports[0].to_dict())
    else:
        for report in reports:
            state = "ok" if report.ok else "BAD"
            print(f"{state}  {report.path}: {report.format or 'unknown format'}, {size(report.bytes)}")
            for finding in report.findings:
                print(f"    {finding.severity}: {finding.message}")
    return 0 if all(report.ok for report in reports) else 1
