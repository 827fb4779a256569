"""polyvec serve: the page over a file, embeddings over a model, or both."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    file: Annotated[str | None, typer.Argument(help="A file of any format, or a glob of shards.")] = None,
    model: Annotated[
        str | None,
        flags.model_file("a .weights file, or minilm for the installed one; answers texts, and /v1/embeddings"),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name that requests may use.")] = None,
    title: flags.Title = None,
    records: flags.Records = None,
    column: flags.ColumnName = None,
    source_format: flags.SourceFormat = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve the page over a file of any format, on this machine only; with a model also search by meaning.

    Example:

        $ polyvec serve glove.fifu --model minilm.weights
    """
    from polyvec.cli.terminal import note
    from polyvec.core.errors import InputError
    from polyvec.web.guard import LOCAL
    from polyvec.web.run import open_served, run_app

    if file is None and model is None:
        raise InputError("name a file to serve, a --model, or both")
    hosts = [*LOCAL, *([] if host in ("0.0.0.0", "::") else [host]), *(allow_host or [])]
    if host not in LOCAL:
        note(f"polyvec: warning: {host} can be reached from other machines; requests may name {', '.join(hosts)}")
    if file is not None:
        note(f"preparing {file}: names, fields and the map")
    with open_served(file, model=model, title=title, records=records, column=column, format=source_format) as (
        served,
        extra,
    ):

        def ready(address: str) -> None:
            what = served.title if served is not None else "embeddings"
            print(f"serving {what} at {address} (Ctrl+C stops)", flush=True)
            if served is None:
                print(f"  POST {address}v1/embeddings", flush=True)
            if browse:
                _open_browser(address)

        run_app(served, extra=extra, host=host, port=port, hosts=hosts, ready=ready)


def _open_browser(address: str) -> Any:
    import webbrowser

    return webbrowser.open(address)
