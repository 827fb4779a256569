"""assemble: base, queries and ground truth into one file, as ann-benchmarks keeps them; take_apart: the way back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from polyvec import formats
from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.targets import Together
from polyvec.formats.truth import DISTANCE_NAMES, ID_NAMES, QUERY_NAMES, truth_columns
from polyvec.neighbors.distances import KEY, LABELS, TABLE, Convention, fitting, from_scores, parse_convention, recast
from polyvec.neighbors.listed import BY_ID, look_up, out_of_order, score_listed, spread
from polyvec.neighbors.metric import KEYS, OTHERS, Metric, choose_metric, parse_metric, stated_metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.truth import benchmark_metadata
from polyvec.writing.options import ConvertingOptions, gather, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import resolve_target, write_collection

Path = str | os.PathLike[str]

# What the field calls the four datasets.
ROLES: Mapping[str, tuple[str, ...]] = {
    "base": ("train", "base", "vectors", "x"),
    "queries": QUERY_NAMES,
    "truth": ID_NAMES,
    "distances": DISTANCE_NAMES,
}
WIDER = 1000  # times the rounding of float32: what rows lose that were compressed after the truth was made
SAMPLED = 64  # queries whose distances are compared with the rows
COPIED = "the distances are copied as they are"


@shows_options(ConvertingOptions)
def assemble(
    base: Path,
    target: Path,
    *,
    queries: Path,
    truth: Path | None = None,
    distances: Path | None = None,
    metric: str | None = None,
    source_format: str | None = None,
    lenient: bool = False,
    **options: Unpack[ConvertingOptions],
) -> Receipt:
    """Put base, queries and ground truth into one file with the columns train, test, neighbors and distances.

    ``truth`` holds ids, or ids and distances; ``distances`` names a file of its own for them. Queries must have the
    base's dimension, the truth one row a query, and its ids must be rows of the base. Distances are written as
    ann-benchmarks holds them: what the given ones are is found by comparing some with base and queries, and where
    there are none they are computed. ``metric`` becomes the attribute ``distance``; it may be left out where a file
    states it or its distances tell. Takes the options of `convert`.
    """
    inputs = [path for path in (base, queries, truth, distances) if path is not None]
    opened: list[Collection] = []
    try:
        opened.append(formats.open(base, format=source_format, lenient=lenient))
        opened.append(formats.open(queries, lenient=lenient))
        train, test = opened[0].vectors, opened[1].vectors
        if train.row_shape != test.row_shape:
            raise InputError(
                f"{os.fspath(queries)}: queries of dimension {opened[1].dim} do not belong to a base of "
                f"dimension {opened[0].dim} ({os.fspath(base)})"
            )
        columns: dict[str, Column] = {"train": train, "test": test}
        notes: list[str] = []
        label = _label_of(metric)
        if truth is not None:
            opened.append(formats.open(truth, lenient=lenient))
            ids, near = truth_columns(opened[-1])
            own = opened[0].ids
            if ids.name.lower() == BY_ID and isinstance(own, Column):
                ids = _looked_up(ids, own, os.fspath(truth))
            columns["neighbors"] = ids
            if distances is not None:
                opened.append(formats.open(distances, lenient=lenient))
                near = opened[-1].vectors
            _check_truth(columns, near, os.fspath(truth))
            if label in OTHERS:
                notes.append(f"polyvec has no {label}: " + ("the truth has no distances" if near is None else COPIED))
            else:
                known, _, said = settle_distances(columns, near, metric, [*opened[2:], *opened[:2]], "ann-benchmarks")
                label, notes = LABELS[known], said
                near = columns["distances"]
            if near is not None:
                columns["distances"] = near
        elif distances is not None:
            raise InputError("distances belong to a truth; name its ids with --truth (truth=)")
        first = opened[0]
        about = {key: value for key, value in first.metadata.items() if key != KEY}
        metadata = {**about, **benchmark_metadata(train, None)}
        if label is not None:
            metadata = {key: value for key, value in metadata.items() if key not in KEYS} | {"distance": label}
        whole = Collection(
            columns,
            main="train",
            vocab=first.vocab,
            records=first.records,
            ids=first.ids,
            metadata=metadata,
            notes=[*(note for c in opened for note in c.notes), *notes],
        )
        format, _ = resolve_target(target, whole, options.get("format"))
        if not format.holds.many_columns:
            raise InputError(
                f"{format.name} files hold one column, not base, queries and truth together; name the output .hdf5"
            )
        return write_collection(target, whole, gather(options), inputs=inputs)
    finally:
        for collection in opened:
            collection.close()


@shows_options(ConvertingOptions)
def take_apart(
    source: Path,
    target: Path,
    *,
    queries: Path | None = None,
    truth: Path | None = None,
    distances: Path | None = None,
    source_format: str | None = None,
    lenient: bool = False,
    **options: Unpack[ConvertingOptions],
) -> list[Receipt]:
    """Write base, queries and ground truth of one file to files of their own, which appear at one moment.

    The truth's file also takes the distances, in the layout of big-ann, unless ``distances`` names another, as cuVS
    does. They are written as that layout holds them, whatever the source has, and its metadata says so.
    Takes the options of `convert`, which hold for every file.
    """
    with formats.open(source, format=source_format, lenient=lenient) as whole, Together() as files:
        roles = roles_of(whole)
        wanted = {"queries": queries, "truth": truth, "distances": distances, "base": target}
        missing = [role for role, path in wanted.items() if path is not None and role not in roles]
        if missing:
            raise InputError(
                f"{os.fspath(source)}: there is no {' or '.join(missing)} in it; it has {', '.join(whole.columns)}"
            )
        _refuse_twice([path for path in wanted.values() if path is not None])
        near, about, notes = _own_distances(whole, roles, "big-ann" if distances is None else "cuvs")
        receipts = []
        for role, path in wanted.items():
            if path is None:
                continue
            writing = replace(gather(options), together=files)
            part = whole.select(roles[role])
            if role != "base":
                part.metadata = {}
                writing = replace(writing, encoding=None)
            if role == "truth":
                # Its name may be .ibin: with distances behind the ids the size tells what it is.
                stated = {key: value for key, value in about.items() if key != KEY or near is not None}
                part = Collection({"ids": whole[roles["truth"]]}, main="ids", metadata=stated, notes=notes)
                if distances is None and near is not None:
                    part.columns["distances"] = near
                    format, _ = resolve_target(path, part, None)
                    writing = writing if format.holds.many_columns else replace(writing, format="truth")
            if role == "distances":
                assert near is not None
                part = Collection({near.name: near}, metadata=about, notes=notes)
            receipts.append(write_collection(path, part, writing, inputs=[source]))
        return receipts


def _own_distances(
    whole: Collection, roles: Mapping[str, str], container: str
) -> tuple[Column | None, dict[str, Any], list[str]]:
    """The distances of a benchmark's file as another container holds them, what its metadata is to say, and notes."""
    if not {"truth", "distances", "queries"} <= set(roles):
        statement = stated_metric(whole)
        known = None if statement is None else statement.metric
        near = whole[roles["distances"]] if "distances" in roles else None
        return near, {} if known is None else {"metric": known.word}, [] if near is None else [COPIED]
    near = whole[roles["distances"]]
    columns = {"train": whole[roles["base"]], "test": whole[roles["queries"]], "neighbors": whole[roles["truth"]]}
    try:
        metric, before, notes = settle_distances(columns, near, None, [whole], container)
    except InputError as error:
        return near, {}, [f"{COPIED}: {error}"]
    said = parse_convention(whole.metadata.get(KEY)) or TABLE["ann-benchmarks"][metric]
    if before is not said and stated_metric(whole) is not None:
        notes.insert(0, f"the source's distances are {before}, where it should hold {said} ones")
    return columns["distances"], {"metric": metric.word, KEY: TABLE[container][metric].value}, notes


def settle_distances(
    columns: dict[str, Column], near: Column | None, metric: str | None, sources: Sequence[Collection], container: str
) -> tuple[Metric, Convention | None, list[str]]:
    """Put distances into `columns` as a container holds them: computed where there are none, else brought there.

    The metric is the given one, else the first that a source states, else that of the distances. What the given
    distances are is found by comparing some with base and queries; an InputError where they are of neither.
    """
    base, queries, ids = columns["train"], columns["test"], columns["neighbors"]
    some = spread(ids.rows, SAMPLED)
    asked = scorable(queries.take(some))
    listed = ids.take(some).astype(np.int64)
    told = None if near is None else near.take(some)
    try:
        tried = [choose_metric(metric, sources).metric]
    except InputError:
        if metric is not None or told is None or any(stated_metric(source) is not None for source in sources):
            raise
        tried = [Metric.L2, Metric.IP, Metric.COSINE]
    found, notes = _fit(base, asked, listed, told, tried)
    chosen = found[0][0]
    goal = TABLE[container][chosen]
    before = next((convention for _, convention in found if convention is goal), found[0][1])
    if len(tried) > 1:
        notes.append(f"metric {chosen.word}: found by comparing the truth's distances with the rows")
    if near is None or before is None:
        notes.append(f"distances ({goal}) were computed from base and queries; the truth has none")

        def compute(start: int, stop: int) -> Array:
            scored = score_listed(base, scorable(queries[start:stop]), ids[start:stop].astype(np.int64), chosen)
            return from_scores(scored.plain()[0], goal)

        columns["distances"] = ReaderColumn("distances", ids.shape, np.dtype("<f4"), compute)
        return chosen, None, notes
    given, kind = near, before
    if kind is not goal:
        notes.append(f"distances were {kind} and are now {goal}")
        columns["distances"] = ReaderColumn(
            "distances", near.shape, np.dtype("<f4"), lambda start, stop: recast(given[start:stop], kind, goal)
        )
    else:
        columns["distances"] = near
    return chosen, kind, notes


def _fit(
    base: Column, asked: Array, listed: Array, told: Array | None, tried: Sequence[Metric]
) -> tuple[list[tuple[Metric, Convention | None]], list[str]]:
    """What the listed neighbours and their distances, where there are some, can be: each of one metric."""
    found: list[tuple[Metric, Convention | None]] = []
    notes: list[str] = []
    for wider in (1, WIDER):
        if found:
            break
        for one in tried:
            found += _readings(base, asked, listed, told, one, wider)
        if found and wider > 1:
            notes.append("the truth was made of slightly other rows than this base, a compressed copy perhaps")
    if not found:
        what = "the truth lists neighbours" if told is None else "the truth holds distances"
        raise InputError(
            f"{what} that are not those of base and queries under {' or '.join(m.word for m in tried)}; name "
            "the metric it was made with (--metric, metric=), or the right base"
        )
    if len({one for one, _ in found}) > 1:
        names = ", ".join(sorted({one.word for one, _ in found}))
        raise InputError(f"the truth's distances fit {names} alike; name the metric with --metric (metric=)")
    return found, notes


def _readings(
    base: Column, asked: Array, listed: Array, told: Array | None, metric: Metric, wider: int
) -> list[tuple[Metric, Convention | None]]:
    """The conventions of a metric that fit, within so many times the usual slack; none where the order is another."""
    scored = score_listed(base, asked, listed, metric)
    if out_of_order(scored, metric, wider).any():
        return []
    if told is None:
        return [(metric, None)]
    scores, slack = scored.plain()
    return [(metric, convention) for convention in fitting(told, scores, wider * slack, metric)]


def _label_of(metric: str | None) -> str | None:
    """What ann-benchmarks calls a metric: ours by its name there, others it has as they are."""
    if metric is None or metric.lower() in OTHERS:
        return metric if metric is None else metric.lower()
    return LABELS[parse_metric(metric)]


def _looked_up(ids: Column, own: Column, path: str) -> Column:
    """Ids of the base, as VectorDBBench lists them, as row numbers."""
    known = own.to_numpy().astype(np.int64)
    return ReaderColumn(
        "neighbors", ids.shape, np.dtype("<i8"), lambda start, stop: look_up(ids[start:stop], known, path)
    )


@shows_options(ConvertingOptions)
def convert_bundle(
    source: Path,
    target: Path,
    *,
    queries: Path | None = None,
    truth: Path | None = None,
    distances: Path | None = None,
    metric: str | None = None,
    source_format: str | None = None,
    lenient: bool = False,
    **options: Unpack[ConvertingOptions],
) -> list[Receipt]:
    """`take_apart` where the source holds base and queries already, else `assemble`."""
    with formats.open(source, format=source_format, lenient=lenient) as found:
        apart = is_bundle(found)
    named: dict[str, Any] = {"truth": truth, "distances": distances, "source_format": source_format, "lenient": lenient}
    if apart:
        if metric is not None:
            raise InputError(f"{os.fspath(source)} holds a benchmark already; its metric is in it")
        return take_apart(source, target, queries=queries, **named, **options)
    if queries is None:
        raise InputError(f"{os.fspath(source)} holds no queries; name them with --queries (queries=)")
    return [assemble(source, target, queries=queries, metric=metric, **named, **options)]


def roles_of(collection: Collection) -> dict[str, str]:
    """Which column of a file is the base, which the queries, the truth and the distances."""
    names = {name.lower(): name for name in collection.columns}
    return {
        role: next(names[n] for n in many if n in names)
        for role, many in ROLES.items()
        if any(n in names for n in many)
    }


def is_bundle(collection: Collection) -> bool:
    """Whether a collection has at least a base and queries."""
    return {"base", "queries"} <= set(roles_of(collection))


def _check_truth(columns: Mapping[str, Column], near: Column | None, path: str) -> None:
    """`InputError` or `Corrupt` unless there is a row a query and every id is a row of the base."""
    ids, base = columns["neighbors"], columns["train"].rows
    if ids.rows != columns["test"].rows:
        raise InputError(f"{path}: the truth of {ids.rows} queries does not belong to {columns['test'].rows} queries")
    if near is not None and near.shape != ids.shape:
        raise InputError(f"{path}: distances of shape {near.shape} do not belong to ids of shape {ids.shape}")
    for block in ids.blocks(reuse=True):
        rows = block.decode()
        if not rows.size or (rows.min() >= 0 and rows.max() < base):
            continue
        row, place = map(int, np.argwhere((rows < 0) | (rows >= base))[0])
        raise Corrupt(
            "a ground-truth id is outside the base",
            path=path,
            field=f"query {block.start + row}, neighbour {place}",
            expected=f"0 to {base - 1}",
            found=int(rows[row, place]),
            remedy="name the base this truth was made for",
        )


def _refuse_twice(paths: list[Path]) -> None:
    names = [os.path.realpath(path) for path in paths]
    for path, name in zip(paths, names):
        if names.count(name) > 1:
            raise InputError(f"{os.fspath(path)}: two outputs have this name")
