"""assemble: base, queries and ground truth into one file, as ann-benchmarks keeps them; take_apart: the way back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import Corrupt, InputError
from polyvec.formats.truth import truth_columns
from polyvec.verbs.convert import Receipt, gather, resolve_target, write_collection

Path = str | os.PathLike[str]

# What the field calls the four datasets; the first name is the one written.
ROLES: Mapping[str, tuple[str, ...]] = {
    "base": ("train", "base", "vectors", "x"),
    "queries": ("test", "query", "queries", "q"),
    "truth": ("neighbors", "neighbors_id", "neigh", "gt", "knn", "ids"),
    "distances": ("distances", "dists"),
}
METRICS = {"l2": "euclidean", "cosine": "angular", "cos": "angular"}  # ours -> ann-benchmarks'


def assemble(
    base: Path, target: Path, *, queries: Path, truth: Path | None = None, distances: Path | None = None,
    metric: str | None = None, source_format: str | None = None, lenient: bool = False, **options: Any,
) -> Receipt:  # fmt: skip
    """Put base, queries and ground truth into one file with the columns train, test, neighbors and distances.

    ``truth`` holds ids, or ids and distances; ``distances`` names a file of its own for them. Queries must have the
    base's dimension, the truth one row a query, and its ids must be rows of the base. ``metric`` becomes the
    attribute ``distance``. Takes the options of `convert`.
    """
    inputs = [path for path in (base, queries, truth, distances) if path is not None]
    opened: list[Collection] = []
    try:
        opened.append(formats.open(base, format=source_format, lenient=lenient))
        opened.append(formats.open(queries, lenient=lenient))
        train, test = opened[0].vectors, opened[1].vectors
        if train.row_shape != test.row_shape:
            raise InputError(f"{os.fspath(queries)}: queries of dimension {opened[1].dim} do not belong to a base of "
                             f"dimension {opened[0].dim} ({os.fspath(base)})")  # fmt: skip
        columns: dict[str, Column] = {"train": train, "test": test}
        if truth is not None:
            opened.append(formats.open(truth, lenient=lenient))
            ids, near = truth_columns(opened[-1])
            columns["neighbors"] = ids
            if distances is not None:
                opened.append(formats.open(distances, lenient=lenient))
                near = opened[-1].vectors
            if near is not None:
                columns["distances"] = near
            _check_truth(columns, os.fspath(truth))
        elif distances is not None:
            raise InputError("distances belong to a truth; name its ids with --truth (truth=)")
        first = opened[0]
        metadata = {
            **first.metadata,
            "type": "dense",
            "dimension": first.dim,
            "point_type": "float" if train.dtype.kind in "fV" else "bit" if train.dtype.kind == "b" else "int",
        }
        if metric is not None:
            metadata["distance"] = METRICS.get(metric, metric)
        whole = Collection(columns, main="train", vocab=first.vocab, records=first.records, ids=first.ids,
                           metadata=metadata, notes=[note for c in opened for note in c.notes])  # fmt: skip
        format, _ = resolve_target(target, whole, options.get("format"))
        if not format.holds.many_columns:
            raise InputError(f"{format.name} files hold one column, not base, queries and truth together; "
                             "name the output .hdf5")  # fmt: skip
        return write_collection(target, whole, gather(options), inputs=inputs)
    finally:
        for collection in opened:
            collection.close()


def take_apart(
    source: Path, target: Path, *, queries: Path | None = None, truth: Path | None = None,
    distances: Path | None = None, source_format: str | None = None, lenient: bool = False, **options: Any,
) -> list[Receipt]:  # fmt: skip
    """Write base, queries and ground truth of one file to files of their own; the base comes last.

    The truth's file also takes the distances, in the layout of big-ann, unless ``distances`` names another.
    Takes the options of `convert`, which hold for every file.
    """
    with formats.open(source, format=source_format, lenient=lenient) as whole:
        roles = roles_of(whole)
        wanted = {"queries": queries, "truth": truth, "distances": distances, "base": target}
        missing = [role for role, path in wanted.items() if path is not None and role not in roles]
        if missing:
            raise InputError(f"{os.fspath(source)}: there is no {' or '.join(missing)} in it; "
                             f"it has {', '.join(whole.columns)}")  # fmt: skip
        _refuse_twice([path for path in wanted.values() if path is not None])
        receipts = []
        for role, path in wanted.items():
            if path is None:
                continue
            writing = gather(options)
            part = whole.select(roles[role])
            if role != "base":
                part.metadata = {}
                writing = replace(writing, encoding=None)
            if role == "truth":
                # Its name may be .ibin: with distances behind the ids the size tells what it is.
                part = Collection({"ids": whole[roles["truth"]]}, main="ids")
                if distances is None and "distances" in roles:
                    part.columns["distances"] = whole[roles["distances"]]
                    format, _ = resolve_target(path, part, None)
                    writing = writing if format.holds.many_columns else replace(writing, format="truth")
            receipts.append(write_collection(path, part, writing, inputs=[source]))
        return receipts


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
    **options: Any,
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


def _check_truth(columns: Mapping[str, Column], path: str) -> None:
    """`InputError` or `Corrupt` unless there is a row a query and every id is a row of the base."""
    ids, base = columns["neighbors"], columns["train"].rows
    if ids.rows != columns["test"].rows:
        raise InputError(f"{path}: the truth of {ids.rows} queries does not belong to {columns['test'].rows} queries")
    near = columns.get("distances")
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
