"""polyvec search: the nearest rows of any file, exactly."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags

SCORES = {"ip": "inner product", "cosine": "cosine", "l2": "squared l2"}  # what a score is called in the table


def command(
    file: Annotated[str, typer.Argument(help="The base: a file of any format, or a glob of shards.")],
    queries: Annotated[str | None, flags.query_file()] = None,
    row: Annotated[
        list[int] | None, typer.Option("--row", help="A row of the base as the query; may be repeated.")
    ] = None,
    word: Annotated[
        list[str] | None,
        typer.Option("--word", callback=flags.text_of, help="A word of the base's vocabulary as the query."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", callback=flags.text_of, help="A text to embed as the query; needs --model."),
    ] = None,
    model: Annotated[
        str | None, flags.model_file("a .weights file, or minilm for the installed one; it embeds --text")
    ] = None,
    k: Annotated[int | None, flags.neighbours("10 by default, or all rows of fewer")] = None,
    metric: Annotated[str | None, flags.metrics("ip, cosine or l2; the file's own by default, else cosine")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            callback=flags.text_of,
            metavar="FIELD=VALUE",
            help="Only rows whose record has this value (2 is 2.0; null or nothing: a missing one); may be repeated.",
        ),
    ] = None,
    column: flags.ColumnName = None,
    index: Annotated[
        bool,
        typer.Option("--index", help="Use the index beside the file (FILE.pvindex); build it where there is none."),
    ] = False,
    source_format: flags.SourceFormat = None,
    threads: flags.Threads = None,
    json: flags.Json = False,
) -> None:
    """Find the rows nearest to each query: the rows and scores of a float64 brute force, ties by lowest row.

    Examples:

        $ polyvec search vectors.fbin --queries queries.fbin --k 3

        $ polyvec search vectors.fbin --row 17 --metric l2 --where kind=a --json
    """
    from polyvec import formats
    from polyvec.cli.terminal import note, print_json, progress
    from polyvec.core.errors import InputError
    from polyvec.neighbors.search import search

    asked = [
        name for name, value in (("--queries", queries), ("--row", row), ("--word", word), ("--text", text)) if value
    ]
    if len(asked) != 1:
        raise InputError(f"give one of --queries, --row, --word and --text, not {' and '.join(asked) or 'none'}")
    if index and where:
        raise InputError("--index searches all rows, and --where some; leave one of them out")
    with formats.open(file, format=source_format) as base:
        asked_rows, labels = _queries(base, queries, row, word, text, model, column)
        hits = search(
            base,
            asked_rows,
            k,
            metric,
            where=_fields(where),
            column=column,
            threads=threads,
            index=_index(file, base, column) if index else None,
            progress=progress(json),
        )
        if json:
            shown = hits.to_dict()
            shown["queries"] = labels or list(range(len(hits)))
            print_json(shown)
        else:
            if hits.metric_from.startswith("stated"):
                note(f"metric: {hits.metric}, {hits.metric_from}")
            _print(base, hits, labels)
            if not len(hits):
                note(f"{queries} holds no queries: there is nothing to answer")
        for line in () if json else hits.notes:
            note(f"note: {line}")


def _queries(
    base: Any,
    query: str | None,
    rows: list[int] | None,
    words: list[str] | None,
    texts: list[str] | None,
    model: str | None,
    column: str | None,
) -> tuple[Any, list[Any]]:
    """The queries, as a path or as rows, and what to call each."""
    from polyvec.cli.terminal import note
    from polyvec.core.errors import InputError
    from polyvec.neighbors.inputs import pick_column

    if query is not None:
        return query, []
    if texts:
        if model is None:
            raise InputError(f"--text needs a model to embed it with; {_model_of(base)}")
        from importlib import import_module

        with import_module("polyvec.embedder").Embedder(model) as embedder:
            return embedder.embed(texts), list(texts)
    vectors = pick_column(base, column)
    if words:
        if base.vocab is None:
            raise InputError("--word needs a vocabulary, and the base has none; use --row or --queries")
        from polyvec.cli.similar import near_spellings

        rows = []
        for word in words:
            found = base.vocab.get(word)
            if found is None:
                raise InputError(
                    f"the word {word!r} is not in the vocabulary of {len(base.vocab)} words"
                    f"{near_spellings(base.vocab, word)}"
                )
            rows.append(found)
        again = set(base.vocab.words[base.vocab.duplicates]) & set(words)
        for word in sorted(again):
            note(f"the word {word!r} stands more than once; its first row, {base.vocab.index(word)}, is the query")
        return vectors[rows], list(words)
    assert rows
    for row in rows:
        if not 0 <= row < vectors.rows:
            raise InputError(f"row {row} does not exist; the base has rows 0 to {vectors.rows - 1}")
    return vectors[rows], [f"row {row}" for row in rows]


def _model_of(base: Any) -> str:
    """What to give as --model, where the base says what made it."""
    from polyvec.model.places import INSTALLED

    named = next((v for v in map(base.metadata.get, ("model", "model_name")) if isinstance(v, str) and v), None)
    if named is None:
        return "name its weights with --model"
    short = named.rstrip("/").rsplit("/", 1)[-1]
    return f"the base is of {named}: add --model {'minilm' if short.lower() in INSTALLED else short}"


def _fields(pairs: list[str] | None) -> dict[str, Any] | None:
    from polyvec.core.errors import InputError
    from polyvec.neighbors.filters import Spelled

    if not pairs:
        return None
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name.endswith(("<", ">", "!", "~")):
            raise InputError(
                f"--where takes only FIELD=VALUE, not {pair!r}; in Python where= takes any test of a record"
            )
        found.setdefault(name, []).append(Spelled(value))
    return found


def _index(file: str, base: Any, column: str | None) -> Any:
    from polyvec.cli.terminal import note
    from polyvec.core.errors import InputError
    from polyvec.core.places import Place
    from polyvec.neighbors.index import Index, sidecar_path

    if not Place.of(file).is_file():
        raise InputError(f"{file}: an index lies beside one file; merge shards first, or search without --index")
    path = sidecar_path(file)
    if path.exists():
        index = Index.open(path, base, column=column)
        if index.rehashed:  # the next search need not read all rows again
            index.save(path)
            note(f"{file} has new times and the same rows: recorded in {path}")
        return index
    index = Index.build(base, column=column)
    index.save(path)
    note(f"wrote {path}")
    return index


def _print(base: Any, hits: Any, labels: list[Any]) -> None:
    from polyvec.cli.terminal import table

    for number, (rows, ids, scores) in enumerate(zip(hits.rows, hits.ids, hits.scores)):
        print(f"{labels[number] if labels else f'query {number}'}")
        lines = []
        for place, (row, name, score) in enumerate(zip(rows, ids, scores)):
            if row < 0:
                break
            lines.append((place + 1, int(row), name if name != row else "", f"{score:.6g}", _about(base, int(row))))
        plain = all(line[2] == "" for line in lines)
        shown = [(a, b, d, e) if plain else (a, b, c, d, e) for a, b, c, d, e in lines]
        score = SCORES[hits.metric]
        headings = ("", "row", score, "") if plain else ("", "row", "id", score, "")
        print(table(headings, shown, right=(0, 1, 2) if plain else (0, 1, 3)) if lines else "  no rows")
        if number + 1 < len(hits):
            print()


def _about(base: Any, row: int) -> str:
    """A word or the start of a record, where the base has one for the row."""
    if base.vocab is not None and row < len(base.vocab):
        return str(base.vocab[row])
    if base.records is not None and row < len(base.records):
        return ", ".join(f"{k}={v}" for k, v in list(base.records[row].items())[:4])[:80]
    return ""
