"""polyvec similar: the words nearest to a word."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    file: Annotated[str, typer.Argument(help="Word embeddings of any word format: .fifu, .bin, .txt, .vec, .floret.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(callback=flags.text_of, help="Words; - or none reads one a line from standard input."),
    ] = None,
    k: Annotated[int, flags.neighbours(min=1)] = 10,
    metric: Annotated[str, flags.metrics("cosine or angular")] = "cosine",
    source_format: flags.SourceFormat = None,
    json: flags.Json = False,
) -> None:
    """Find the words most similar to each word; unknown words are looked up through their subwords.

    Examples:

        $ polyvec similar words.fifu Berlin --k 3

        $ polyvec similar words.fifu Berlin Zürich --json
    """
    from polyvec.cli.terminal import print_json
    from polyvec.finalfusion import load

    asked = given_words(words)
    with load(file, format=source_format, duplicates="first") as model:
        require_words(model, file)
        for word in asked:
            require(model, word)
        found = model.similar_many(asked, k, metric=metric)
        tell(model)
        if json:
            return print_json(
                [
                    {"query": word, "metric": metric, "hits": [hit._asdict() for hit in hits]}
                    for word, hits in zip(asked, found)
                ]
            )
        for word, hits in zip(asked, found):
            if len(asked) > 1:
                print(f"{word}:")
            print_hits(hits)
    return None


def given_words(words: list[str] | None) -> list[str]:
    """Words from the arguments, or one a line from standard input."""
    import sys

    from polyvec.core.errors import InputError

    if words and words != ["-"]:
        return words
    read = [
        line.strip() for line in sys.stdin.buffer.read().decode("utf-8-sig", "replace").splitlines() if line.strip()
    ]
    if not read:
        raise InputError("no words were given, and standard input has none")
    return read


def require(model: Any, word: str) -> None:
    """`UnknownWord` with near spellings where a word has no vector."""
    from polyvec.core.errors import UnknownWord

    try:
        model.embedding(word)
    except UnknownWord as error:
        raise UnknownWord(f"{error}{near_spellings(model.vocab, word)}") from None


def near_spellings(vocab: Any, word: str) -> str:
    """The end of a message about a word that is not there: ``; near spellings: king, kin``, or nothing."""
    near = vocab.near(word)
    return f"; near spellings: {', '.join(near)}" if near else ""


def require_words(model: Any, file: str) -> None:
    """`InputError` where there is no word to be found."""
    from polyvec.core.errors import InputError

    if not len(model):
        raise InputError(
            f"{file} holds {'subwords' if model.vocab.subwords is not None else 'no words'} only, so no word can be found "
            "in it; polyvec words select gives the vectors of words"
        )


def tell(model: Any) -> None:
    """What is odd about the file, on standard error."""
    from polyvec.cli.terminal import note

    for line in model.notes:
        note(line)


def print_hits(hits: list[Any]) -> None:
    """Words and scores in two columns."""
    for hit in hits:
        print(f"{hit.similarity:.6f}  {hit.word}")
