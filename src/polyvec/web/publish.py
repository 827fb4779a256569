"""publish: a collection as a static site, or as one HTML file that opens from disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.levels import Codes, bad_rows, quantize_rows
from polyvec.core.arguments import check_flags, check_mapping, check_targets, check_texts, shown
from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.folders import FolderSink, is_leftover, recover
from polyvec.core.format import Progress
from polyvec.core.plain import as_text
from polyvec.core.progress import check_progress, telling
from polyvec.core.targets import check_target, open_sink
from polyvec.formats.i8bin import CODEC
from polyvec.web.assets import asset_files, read_asset, single_html, site_html
from polyvec.web.fields import survey
from polyvec.web.projection import project
from polyvec.web.site import Entries, Roles

PER_SHARD = 256  # records a file: what a page of results fetches stays small
MOST_BYTES = 2**31 - 2**20  # what a browser's kernel can address
MOST_SINGLE = 64 << 20
INDEX, SITE, EMBEDDINGS, NAMES, IDS = "index.html", "site.json", "embeddings.i8bin", "names.txt", "ids.json"
DROP = "remove it, or leave such rows out with --drop-invalid (drop_invalid=True)"
_DATA = re.compile(rf"data/({SITE}|{EMBEDDINGS}|{NAMES}|{IDS}|map\.bin|field-\d+\.bin|records/\d+\.json)")


@dataclass(frozen=True, slots=True)
class Published:
    """What was published: the page to open, its shape and size."""

    page: Path
    rows: int
    dim: int
    bytes: int
    note: str
    dropped: int = 0


class Shelf(Protocol):
    """Where data files go."""

    def put(self, name: str, pieces: Iterable[bytes]) -> None: ...


class _Memory:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        self.files[name] = b"".join(pieces)


def publish(
    collection: Collection,
    output: str | os.PathLike[str],
    *,
    title: str | None = None,
    projection: str = "pca",
    roles: Mapping[str, str | None] | None = None,
    drop_invalid: bool = False,
    overwrite: bool = True,
    progress: Progress | bool | None = None,
) -> Published:
    """Write a folder that any web server can serve: the page and the collection, searchable in the browser.

    Rows are brought to length one (search is by cosine) and rounded to int8. ``projection`` lays out the map (pca or
    tsne); ``roles`` names the record fields for name, image, link and text; ``drop_invalid`` leaves rows without a
    direction out instead of refusing them. An existing folder is replaced, whole and at once, when it holds a published
    site, unless ``overwrite=False`` is given; files of yours in it stay, and nothing else is ever touched.
    """
    _check_arguments(collection, title, projection, roles, drop_invalid, overwrite, progress)
    check_targets(output=output)
    target = Path(output)
    recover(target)
    _refuse_folder(target, overwrite)
    collection, dropped = _searchable(collection, drop_invalid)
    with (
        FolderSink(target, ours=is_of_a_site, last=f"data/{SITE}") as folder,
        telling(progress, collection.rows) as tell,
    ):
        shelf = _Below(folder, "data")
        site = write_data(
            collection, shelf, title=_titled(collection, title), projection=projection, roles=roles, progress=tell
        )
        for name in asset_files():
            folder.put(name, [read_asset(name)])
        folder.put(INDEX, [site_html(site["title"]).encode()])
    return Published(target / INDEX, site["rows"], site["dim"], folder.size, site["map"]["note"], dropped)


def publish_single_file(
    collection: Collection,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    projection: str = "pca",
    roles: Mapping[str, str | None] | None = None,
    drop_invalid: bool = False,
    overwrite: bool = True,
    progress: Progress | bool | None = None,
) -> Published:
    """Write one HTML file with everything in it; it opens from disk, without a server. Options as in `publish`."""
    _check_arguments(collection, title, projection, roles, drop_invalid, overwrite, progress)
    check_targets(path=path)
    collection, dropped = _searchable(collection, drop_invalid)
    if collection.rows * collection.dim > MOST_SINGLE:
        raise InputError(
            f"{collection.rows:,} x {collection.dim} is too much for a single file (at most {MOST_SINGLE >> 20} MB of "
            "vectors); publish a folder, or a sample (polyvec sample)"
        )
    shelf = _Memory()
    check_target(path, overwrite=overwrite)
    with telling(progress, collection.rows) as tell:
        site = write_data(
            collection, shelf, title=_titled(collection, title), projection=projection, roles=roles, progress=tell
        )
    with open_sink(path, overwrite=overwrite) as sink:
        sink.write(single_html(site["title"], shelf.files).encode())
    return Published(Path(path), site["rows"], site["dim"], sink.size, site["map"]["note"], dropped)


def _check_arguments(
    collection: Any, title: Any, projection: Any, roles: Any, drop_invalid: Any, overwrite: Any, progress: Any
) -> None:
    if not isinstance(collection, Collection):
        raise InputError(f"collection must be a Collection, as pv.open gives, not {shown(collection)}")
    check_texts(title=title, projection=projection)
    check_mapping(roles=roles)
    check_flags(drop_invalid=drop_invalid, overwrite=overwrite)
    check_progress(progress)


def write_data(
    collection: Collection,
    shelf: Shelf,
    *,
    title: str,
    projection: str,
    roles: Mapping[str, str | None] | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """The files under data/, site.json last; returns what site.json says."""
    entries = Entries(collection, Roles(collection, roles))
    rows = collection.rows
    digest = hashlib.sha256()
    shelf.put(EMBEDDINGS, _codes(collection, digest, progress))
    plane = project(collection.vectors, method=projection)
    shelf.put("map.bin", [plane.points.astype("<u2").tobytes()])
    names: list[str] = []
    ids: list[str] = []
    for start in range(0, rows, PER_SHARD):
        shard = list(entries.read(start, min(start + PER_SHARD, rows)))
        names.extend(entry.name for entry in shard)
        ids.extend(as_text(entry.id) for entry in shard)
        shelf.put(f"records/{start // PER_SHARD}.json", [_json([entry.record for entry in shard])])
    shelf.put(NAMES, [_text("\n".join(names)), b"\n"])
    held = None
    if collection.ids is not None:
        held = NAMES if ids == names else IDS  # the page reads them once where names are ids
        if held == IDS:
            shelf.put(IDS, [_json(ids)])
    fields = []
    for number, field in enumerate(survey(entries)):
        file = f"field-{number}.bin"
        shelf.put(file, [field.packed()])
        fields.append(field.about(file))
    site = {
        "version": 1,
        "title": title,
        "source": "static",
        "rows": rows,
        "dim": collection.dim,
        "roles": entries.roles,
        "ids": held,
        "fields": fields,
        "map": {"file": "map.bin", "points": rows, "note": plane.note},
        "records": {"per": PER_SHARD, "folder": "records"},
        "embeddings": {"file": EMBEDDINGS, "sha256": digest.hexdigest()},
    }
    shelf.put(SITE, [_json(site)])
    return site


def _codes(collection: Collection, digest: Any, progress: Progress | None) -> Iterator[bytes]:
    for block in collection.vectors.blocks(reuse=True):
        codes: Codes
        if block.codec == CODEC and next(bad_rows(block.parts["codes"], start=block.start), None) is None:
            codes = block.parts["codes"]  # levels that keep the rules stay what they are
        else:
            codes = quantize_rows(
                _in_reach(block.decode()), start=block.start, normalize=True, reach=True, drop=DROP
            ).codes
        data = np.ascontiguousarray(codes).tobytes()
        digest.update(data)
        yield data
        if progress:
            progress(block.start + block.rows, collection.rows)


def _searchable(collection: Collection, drop: bool) -> tuple[Collection, int]:
    """The collection, checked for what a page can hold; without rows that have no direction where those are dropped."""
    column = collection.vectors
    if len(column.shape) != 2 or column.dtype.kind not in "fiuV" or not column.rows:
        raise InputError(f"a page needs rows of numbers, and {collection.main!r} is {column.shape} of {column.dtype}")
    if drop:
        good = []
        for block in column.blocks(reuse=True):
            x = np.asarray(_in_reach(block.decode())).astype(np.float32)
            norms = np.einsum("ij,ij->i", x, x, dtype=np.float64)
            good.append(block.start + np.flatnonzero(np.isfinite(norms) & (norms > 0)))
        kept = np.concatenate(good)
        if len(kept) < column.rows:
            dropped = column.rows - len(kept)
            if not len(kept):
                raise InputError("no row has a direction: there is nothing to publish")
            return collection.take(kept), dropped
    if column.rows * column.shape[1] > MOST_BYTES:
        raise InputError(
            f"{column.rows:,} x {column.shape[1]} is more than a browser can hold (2 GB of int8); publish a sample "
            "(polyvec sample), or serve the file (polyvec serve)"
        )
    return collection, 0


def _in_reach(rows: NDArray[Any]) -> NDArray[Any]:
    """float64 rows at a scale that float32 has: only their direction counts. NaN and infinity stay what they are."""
    if rows.dtype != np.float64:
        return rows
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    out: NDArray[Any] = rows.copy()
    np.divide(rows, largest, out=out, where=(largest > 0) & np.isfinite(largest))
    return out


def is_of_a_site(name: str) -> bool:
    """Whether a file of a site's folder is one that `publish` writes; any other is its owner's, and stays."""
    return name == INDEX or name in asset_files() or _DATA.fullmatch(name) is not None


def _titled(collection: Collection, title: str | None) -> str:
    return title or (collection.place.stem if collection.place else collection.path or "Collection")


class _Below:
    def __init__(self, shelf: Shelf, folder: str) -> None:
        self.shelf, self.folder = shelf, folder

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        self.shelf.put(f"{self.folder}/{name}", pieces)


def _json(value: Any) -> bytes:
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a surrogate pair, which JSON can spell, is no text


def _refuse_folder(target: Path, overwrite: bool) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target}: the output must be a folder")
    if target.is_dir() and any(not is_leftover(path) for path in target.iterdir()):
        if not (target / "data" / SITE).is_file():
            raise InputError(f"{target}: the folder holds something other than a published site; choose another")
        if not overwrite:
            raise InputError(f"{target}: a site is published there; use --force (overwrite=True) to replace it")
