"""polyvec words: what one does with word embeddings beyond converting them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags
from polyvec.cli.receipts import print_receipt, print_values, speaker

app = typer.Typer(
    help="Choose, inspect, test, quantise and reconstruct word embeddings.", rich_markup_mode=None, no_args_is_help=True
)
Source = Annotated[str, typer.Argument(help="Word embeddings of any word format.")]
Target = Annotated[str | None, typer.Argument(help="The output; its suffix names the format.")]


@app.command()
def select(
    source: Source,
    target: Target = None,
    output: flags.Output = None,
    words: Annotated[
        str, typer.Option("--words", "-w", help="A file with one word a line; - is standard input.")
    ] = "-",
    strict: Annotated[bool, flags.strict("a word without a vector, which is left out otherwise")] = False,
    force: flags.Force = False,
    option: flags.Own = None,
    json: flags.Json = False,
) -> None:
    """Keep the words of a list, in its order; unknown words get the vectors of their subwords.

    Of words that stand more than once in the source the first is taken.

    Example:

        $ polyvec words select words.fifu few.fifu --words list.txt
    """
    from polyvec import formats
    from polyvec.cli.terminal import note
    from polyvec.core.errors import InputError, UnknownWord
    from polyvec.verbs.words import select as choose
    from polyvec.writing.options import gather
    from polyvec.writing.road import write_collection

    target = flags.one_output(target, output)
    asked = _lines(words)
    if not asked:
        raise InputError(f"{'standard input' if words == '-' else words}: there are no words in it")
    with formats.open(source) as collection:
        chosen, missing = choose(collection, asked)
        if missing and strict:
            assert collection.vocab is not None
            near = collection.vocab.near(missing[0])
            hint = f"; near spellings: {', '.join(near)}" if near else ""
            others = f", and {len(missing) - 1} more are not" if len(missing) > 1 else ""
            raise UnknownWord(f"{missing[0]!r} is not in the vocabulary{others}{hint}")
        writing = gather({"overwrite": force, "check_space": not force, **flags.own_options(option)})
        receipt = write_collection(target, chosen, writing, inputs=[source])
    if missing:
        shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        note(f"{len(missing)} words have no vector and are left out: {shown}")
    print_receipt(receipt, json=json)


@app.command()
def metadata(
    source: Source,
    target: Annotated[str | None, typer.Argument(help="With --set: the output.")] = None,
    output: flags.Output = None,
    toml: Annotated[
        str | None, typer.Option("--set", help="A TOML file to store as the metadata; - is standard input.")
    ] = None,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Print a file's metadata as TOML, or write the file again with other metadata.

    Example:

        $ polyvec words metadata words.fifu
    """
    import tomllib

    from polyvec import formats
    from polyvec.cli.terminal import print_json
    from polyvec.core.errors import InputError
    from polyvec.formats.finalfusion.toml import dump_toml
    from polyvec.writing.options import gather
    from polyvec.writing.road import write_collection

    if toml is None and (target is not None or output is not None):
        raise InputError(
            f"{target or output} is named as an output, and nothing says what metadata to write; give --set FILE.toml"
        )
    with formats.open(source) as collection:
        if toml is None:
            print_json(collection.metadata) if json else print(dump_toml(collection.metadata), end="")
            return
        target = flags.one_output(target, output)
        try:
            collection.metadata = tomllib.loads("\n".join(_lines(toml, blank=True)))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{toml}: not TOML: {error}") from None
        print_receipt(
            write_collection(
                target, collection, gather({"overwrite": force, "check_space": not force}), inputs=[source]
            ),
            json=json,
        )


@app.command()
def accuracy(
    source: Source,
    questions: Annotated[
        str, typer.Argument(help="Lines 'a b c d' under lines ': section'; - is standard input.")
    ] = "-",
    source_format: flags.SourceFormat = None,
    json: flags.Json = False,
) -> None:
    """Answer analogy questions and count the right answers, section by section.

    Example:

        $ polyvec words accuracy words.fifu questions.txt
    """
    from polyvec.cli.similar import tell
    from polyvec.cli.terminal import print_json, table
    from polyvec.core.errors import InputError
    from polyvec.finalfusion import Section, load
    from polyvec.finalfusion import accuracy as answer

    with load(source, format=source_format, duplicates="first") as model:
        sections = answer(model, _lines(questions))
        tell(model)
    if not sections:
        raise InputError(f"{questions}: there are no questions in it; expected lines 'a b c d' under lines ': section'")
    total = Section(
        "total", sum(s.asked for s in sections), sum(s.skipped for s in sections), sum(s.correct for s in sections)
    )
    if json:
        return print_json({"sections": [_section(s) for s in sections], "total": _section(total)})
    rows = [
        (s.name or "-", s.asked, s.skipped, s.correct, f"{100 * s.accuracy:.2f}%" if s.asked else "-")
        for s in (*sections, total)
    ]
    print(table(("section", "asked", "skipped", "right", "accuracy"), rows, right=(1, 2, 3, 4)))
    return None


@app.command("bucket-to-explicit")
def bucket_to_explicit(
    source: Source,
    target: Target = None,
    output: flags.Output = None,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Spell out the n-grams of the words, and leave behind the buckets that no word uses.

    Example:

        $ polyvec words bucket-to-explicit buckets.fifu explicit.fifu
    """
    from polyvec import formats
    from polyvec.verbs.words import bucket_to_explicit as make_explicit
    from polyvec.writing.options import gather
    from polyvec.writing.road import write_collection

    target = flags.one_output(target, output)
    with formats.open(source) as collection:
        explicit = make_explicit(collection)
        print_receipt(
            write_collection(target, explicit, gather({"overwrite": force, "check_space": not force}), inputs=[source]),
            json=json,
        )


@app.command()
def quantize(
    source: Source,
    target: Target = None,
    output: flags.Output = None,
    quantizer: Annotated[str, typer.Option("--quantizer", help="pq, or opq, which also learns a rotation.")] = "pq",
    parts: Annotated[
        int | None, typer.Option("--subquantizers", "-s", help="Bytes a row; half the dimension by default.")
    ] = None,
    bits: Annotated[int, typer.Option("--bits", "-b", help="Bits of a code: 1 to 8.")] = 8,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Rounds of training.")] = 25,
    seed: Annotated[int, flags.seed("where training starts")] = 42,
    norms: Annotated[bool, typer.Option(help="Keep the rows' lengths apart.")] = True,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Quantise word embeddings to product codes, and report the loss: mean and worst cosine, recall of ten neighbours.

    Example:

        $ polyvec words quantize words.fifu small.fifu --subquantizers 5 --bits 3
    """
    from polyvec.cli.terminal import progress
    from polyvec.verbs.words import quantize as shrink

    receipt, loss = shrink(
        source,
        flags.one_output(target, output),
        quantizer=quantizer,
        parts=parts,
        bits=bits,
        iterations=iterations,
        seed=seed,
        norms=norms,
        overwrite=force,
        check_space=not force,
        progress=progress(json),
    )
    if json:
        return print_values({**receipt.to_dict(), "quantization": loss.to_dict()}, receipt.output)
    print_receipt(receipt, json=False)
    speaker(receipt.output)(
        f"  cosine: mean {loss.mean_cosine:.6f}, worst {loss.worst_cosine:.6f} ({loss.rows:,} rows); "
        f"recall@10 {loss.recall_at_10:.3f} ({loss.queries} words)"
    )
    return None


@app.command()
def reconstruct(
    source: Source,
    target: Target = None,
    output: flags.Output = None,
    force: flags.Force = False,
    json: flags.Json = False,
) -> None:
    """Decode a quantised file's rows back into floats.

    Example:

        $ polyvec words reconstruct quantized.fifu floats.fifu
    """
    from polyvec.cli.terminal import progress
    from polyvec.verbs.words import reconstruct as decode

    target = flags.one_output(target, output)
    print_receipt(decode(source, target, overwrite=force, check_space=not force, progress=progress(json)), json=json)


def _lines(name: str, *, blank: bool = False) -> list[str]:
    """The lines of a file or of standard input; without the blank ones unless asked for."""
    import sys

    from polyvec.core.sources import open_source

    if name == "-":
        data = sys.stdin.buffer.read()
    else:
        with open_source(name) as source:
            data = source.read_at(0, source.size)
    lines = data.decode("utf-8-sig", "replace").splitlines()
    return lines if blank else [line.strip() for line in lines if line.strip()]


def _section(section: Any) -> dict[str, Any]:
    return {**section._asdict(), "accuracy": section.accuracy}
