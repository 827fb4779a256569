"""polyvec publish: a collection as a page that searches in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    source: Annotated[str, typer.Argument(metavar="COLLECTION", help="A file of any format, or a glob of shards.")],
    output: Annotated[str, flags.output("a folder, or a file with --single-file")],
    single_file: Annotated[bool, typer.Option("--single-file", help="One HTML file that opens from disk.")] = False,
    title: flags.Title = None,
    records: flags.Records = None,
    projection: Annotated[str, typer.Option(help="The map's layout: pca, or tsne with polyvec[map].")] = "pca",
    name: Annotated[str | None, typer.Option("--name-field", help="The record field that names a row.")] = None,
    image: Annotated[str | None, typer.Option("--image-field", help="The field with a picture's address.")] = None,
    link: Annotated[str | None, typer.Option("--link-field", help="The field with a page's address.")] = None,
    text: Annotated[str | None, typer.Option("--text-field", help="The field with a description.")] = None,
    column: flags.ColumnName = None,
    source_format: flags.SourceFormat = None,
    drop_invalid: Annotated[bool, typer.Option("--drop-invalid", help="Leave rows of zeros or NaN out.")] = False,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Publish a collection as a static page: type-ahead, neighbours, a map, filters, all in the browser.

    Example:

        $ polyvec publish cards.cvc -o site/ --title "All cards"
    """
    from polyvec import formats
    from polyvec.cli.terminal import print_json, progress, size
    from polyvec.core.errors import InputError
    from polyvec.core.targets import refuse_inputs
    from polyvec.verbs.records import attach_records
    from polyvec.web.publish import publish, publish_single_file
    from polyvec.writing.inputs import inputs_of

    refuse_inputs(output, [*inputs_of(source), *([records] if records else [])])
    with formats.open(source, format=source_format) as opened:
        if column is not None and column not in opened.columns:
            raise InputError(f"{source}: no column {column!r}; there are {', '.join(opened.columns)}")
        collection = opened.select(column) if column else opened
        if records:
            collection = attach_records(collection, records)
        write = publish_single_file if single_file else publish
        roles = {"name": name, "image": image, "link": link, "text": text}
        done = write(
            collection,
            output,
            title=title,
            projection=projection,
            roles=roles,
            drop_invalid=drop_invalid,
            overwrite=force,
            progress=progress(json),
        )
    if json:
        return print_json(
            {
                "page": str(done.page),
                "rows": done.rows,
                "dim": done.dim,
                "bytes": done.bytes,
                "note": done.note,
                "dropped": done.dropped,
            }
        )
    print(f"published {done.page}: {done.rows:,} x {done.dim:,}, {size(done.bytes)} ({done.note})")
    if done.dropped:
        print(f"  left out: {done.dropped:,} rows without a direction")
    hint = "open it in a browser" if single_file else f"try it: python -m http.server -b 127.0.0.1 -d {output}"
    print(f"  {hint}")
    return None
