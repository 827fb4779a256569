"""polyvec verify: check files to the last byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyvec.cli import flags

if TYPE_CHECKING:
    from polyvec.verbs.verify import Report


def command(
    files: Annotated[list[str], typer.Argument(help="Files or globs of any format.")],
    source_format: flags.SourceFormat = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="SHA256", help="Also compare the SHA-256 of the (one) file.")
    ] = None,
    write_digest: Annotated[
        bool,
        typer.Option(
            "--write-digest",
            help="Keep the SHA-256 of good files and their sidecars in FILE.sha256 (as sha256sum does), for later runs to compare.",
        ),
    ] = False,
    dim: flags.Dim = None,
    option: flags.Own = None,
    json: flags.Json = False,
) -> int:
    """Check files: structure, every size and checksum they have, and every row. Exit code 1 where one is bad.

    Of a file without checksums and without a digest beside it only the structure can be checked, and that is said.

    Example:

        $ polyvec verify vectors.fbin

        $ polyvec verify vectors.fbin --write-digest
    """
    from polyvec.cli.advice import fitted
    from polyvec.cli.terminal import print_json, progress, size
    from polyvec.core.errors import InputError
    from polyvec.core.shards import expand
    from polyvec.verbs.verify import verify_all

    paths = [f if f == "-" else str(p) for f in files for p in (expand(f) if f != "-" else ["-"])]
    if expect is not None and len(paths) > 1:
        raise InputError(f"--expect takes the digest of one file, and these are {len(paths)}; check them one by one")
    reports = verify_all(
        paths,
        format=source_format,
        sha256=expect or False,
        write_digest=write_digest,
        progress=progress(json, unit="bytes"),
        **flags.own_options(option, dim),
    )
    if json:
        print_json([r.to_dict() for r in reports])
    else:
        for report in reports:
            state = "ok" if report.ok else "BAD"
            print(
                f"{state}  {report.path}: {report.format or 'unknown format'}, {size(report.bytes)}{_content(report)}"
            )
            for finding in report.findings:
                print(f"    {finding.severity}: {fitted(finding.message, ['verify'])}")
    return 0 if all(report.ok for report in reports) else 1


def _content(report: Report) -> str:
    """What the content was compared with; of bad files the findings say it."""
    if not report.ok:
        return ""
    if report.digest is not None:
        return f"; digest written to {report.digest}"
    if report.checked == "structure":
        return "; structure only, nothing to compare content with (--write-digest keeps a digest)"
    return f"; content matches {report.against}"
