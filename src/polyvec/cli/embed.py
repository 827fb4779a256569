"""polyvec embed: texts into vectors, in any format."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    source: Annotated[str, typer.Argument(help="Texts: lines, .jsonl, .csv, .tsv, .parquet, or - for standard input.")],
    model: Annotated[str, flags.model_file("a .weights file, or minilm for the installed one")],
    target: Annotated[str | None, typer.Argument(help="The output; its suffix names the format.")] = None,
    output: flags.Output = None,
    field: Annotated[
        str | None, typer.Option(help="The field that holds the text (JSONL, CSV, Parquet); text by default.")
    ] = None,
    kind: Annotated[str | None, flags.read_as("lines, jsonl, csv, tsv or parquet")] = None,
    encoding: flags.Encoding = None,
    to: flags.TargetFormat = None,
    engine: Annotated[str, typer.Option(help="auto, native, onnxruntime, openvino or numpy.")] = "auto",
    prompt: Annotated[
        str | None, typer.Option(callback=flags.text_of, help="Put before every text, as in 'query: '.")
    ] = None,
    truncate_dim: Annotated[int | None, typer.Option(min=1, help="Keep the first values of each vector only.")] = None,
    max_seq_length: Annotated[int, typer.Option(help="Tokens read of each text.")] = 256,
    normalize: Annotated[bool, typer.Option(help="Make vectors unit length.")] = True,
    threads: flags.Threads = None,
    ids: flags.Ids = None,
    records: flags.Records = None,
    no_records: Annotated[
        bool, typer.Option("--no-records", help="Leave out the records that texts come with (JSONL, CSV, Parquet).")
    ] = False,
    restart: flags.Restart = False,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Embed texts into a file of any format, records beside the vectors. A stopped run goes on when repeated.

    Example:

        $ polyvec embed texts.jsonl texts.cvc --model minilm.weights --field text
    """
    from polyvec.cli.receipts import print_receipt, print_values, speaker
    from polyvec.cli.terminal import note
    from polyvec.core.commits import changed_outputs
    from polyvec.core.errors import InputError
    from polyvec.model.encoder import Embedder
    from polyvec.verbs.embed import embed_corpus

    target = flags.one_output(target, output)
    if records is not None and no_records:
        raise InputError("--records brings records and --no-records leaves them out; give one of them")
    with Embedder(
        model, max_seq_length=max_seq_length, normalize_embeddings=normalize, num_threads=threads, engine=engine
    ) as embedder:
        try:
            done = embed_corpus(
                source,
                target,
                model=embedder,
                kind=kind,
                field=field,
                prompt=prompt,
                truncate_dim=truncate_dim,
                resume=not restart,
                records=records if records is not None else not no_records,
                ids=ids,
                watch=_progress(json),
                encoding=encoding,
                format=to,
                overwrite=force,
                check_space=not force,
            )
        except KeyboardInterrupt:
            if changed_outputs():
                raise
            note(f"\nstopped; what is done is kept in {target}.embedding, and the same command goes on from there")
            raise typer.Exit(130) from None
    if json:
        return print_values(done.to_dict(), target)
    resumed = f" ({done.resumed:,} of them by an earlier run)" if done.resumed else ""
    speaker(target)(
        f"embedded {done.texts:,} texts{resumed} in {done.seconds:.1f} s: "
        f"{done.texts_per_second:,.0f} texts/s by {done.engine}; "
        f"{done.truncated:,} were longer than {max_seq_length} tokens and were cut"
    )
    print_receipt(done.receipt, json=False)
    return None


def _progress(quiet: bool) -> Any:
    if quiet or not sys.stderr.isatty():
        return None

    def show(step: Any) -> None:
        share = f"{min(1.0, step.bytes_read / step.bytes_total):4.0%}  " if step.bytes_total and step.bytes_read else ""
        rate = step.texts_now / max(step.seconds, 1e-9)
        sys.stderr.write(f"\r{share}{step.texts:,} texts  {rate:,.0f} texts/s  {step.truncated:,} cut \x1b[K")
        sys.stderr.flush()

    return show
