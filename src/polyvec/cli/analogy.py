"""polyvec analogy: a is to b as c is to what?"""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    file: Annotated[str, typer.Argument(help="Word embeddings of any word format.")],
    words: Annotated[
        list[str] | None, typer.Argument(callback=flags.text_of, help="a b c; none or - reads three words a line.")
    ] = None,
    k: Annotated[int, flags.neighbours(min=1)] = 10,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help="a, b or c: this query word may be an answer; may be repeated."),
    ] = None,
    metric: Annotated[str, flags.metrics("cosine or angular")] = "cosine",
    source_format: flags.SourceFormat = None,
    json: flags.Json = False,
) -> None:
    """Find the words d for which a is to b as c is to d: nearest to b - a + c.

    Example:

        $ polyvec analogy words.fifu Berlin Tübingen Zürich --k 3
    """
    from polyvec.cli.similar import given_words, print_hits, require, require_words, tell
    from polyvec.cli.terminal import print_json
    from polyvec.core.errors import InputError
    from polyvec.finalfusion import load

    from_arguments = bool(words) and words != ["-"]
    triples = [list(words or [])] if from_arguments else [line.split() for line in given_words(words)]
    for triple in triples:
        if len(triple) != 3:
            raise InputError(f"an analogy has three words, not {len(triple)}: {' '.join(triple)}")
    letters = set(include or [])
    if not letters <= {"a", "b", "c"}:
        raise InputError(f"--include takes a, b or c, not {', '.join(sorted(letters - {'a', 'b', 'c'}))}")
    with load(file, format=source_format, duplicates="first") as model:
        require_words(model, file)
        found = []
        for triple in triples:
            for word in triple:
                require(model, word)
            a, b, c = triple
            kept = {word for letter, word in zip("abc", triple) if letter in letters}
            found.append(model.analogy(a, b, c, k, include=kept, metric=metric))
        tell(model)
        if json:
            return print_json(
                [
                    {"query": t, "metric": metric, "hits": [hit._asdict() for hit in hits]}
                    for t, hits in zip(triples, found)
                ]
            )
        for triple, hits in zip(triples, found):
            if len(triples) > 1:
                print(f"{' '.join(triple)}:")
            print_hits(hits)
    return None
