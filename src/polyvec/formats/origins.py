"""Files that collections came from, as another process opens them again. Not a format."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError, Replaced
from polyvec.core.format import Format
from polyvec.core.places import Identity, Place
from polyvec.core.remarks import remark, unremarked
from polyvec.core.shards import permit_files
from polyvec.core.sidecars import attach_sidecars
from polyvec.core.sources import Source, reopen
from polyvec.formats.discovery import find_format

MORE_FILES = 1024  # asked for where the limit is met, as of many shards in one pickle


class FileOrigin:
    """A file by place and identity, and how it was opened. Opened again when the first part of it is asked for."""

    def __init__(
        self,
        place: Place | None,
        identity: Identity | None,
        beside: Mapping[str, Identity | None],
        format: str,
        variant: str,
        lenient: bool,
        sidecars: bool,
        own: Mapping[str, Any],
        label: str,
    ) -> None:
        self.place = place
        self.identity = identity
        self.beside = beside  # the files beside it that were opened with it
        self.format, self.variant = format, variant
        self.lenient, self.sidecars, self.own = lenient, sidecars, own
        self.label = label
        self._opened: Collection | None = None

    def __reduce__(self) -> Any:
        if self.place is None or self.identity is None:
            raise InputError(
                f"{self.label}: what was read from bytes, a pipe or standard input is in this process only and cannot be "
                "pickled; write it to a file and open that, or send its rows: Collection.from_arrays(c.vectors[:])"
            )
        return FileOrigin, (
            self.place.absolute(),  # the other process may stand in another folder
            self.identity,
            self.beside,
            self.format,
            self.variant,
            self.lenient,
            self.sidecars,
            self.own,
            self.label,
        )

    def part(self, kind: str, name: str) -> Any:
        if self._opened is None:
            try:
                self._opened = self._open()
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                permit_files(MORE_FILES)
                self._opened = self._open()
        return self._opened.columns[name] if kind == "columns" else getattr(self._opened, kind)

    def _open(self) -> Collection:
        assert self.place is not None
        source = reopen(self.place, self.identity)
        try:
            with unremarked():  # it was said where the file was opened first
                collection = open_as(
                    source, find_format(self.format)[0], self.variant, self.lenient, self.sidecars, self.own
                )
            collection.on_close(source.close)
        except BaseException:
            source.close()
            raise
        for name, identity in self.beside.items():
            found = source.companions.get(name)
            if identity is not None and not identity.same(found):
                collection.close()
                raise Replaced(
                    f"{name} beside the file was replaced or changed since it was opened",
                    path=source.label,
                    remedy="open it again",
                )
        return collection

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def open_as(
    source: Source, format: Format, variant: str, lenient: bool, sidecars: bool, own: Mapping[str, Any]
) -> Collection:
    """What a source holds as a format, with what lies beside it; every part knows where it came from."""
    collection = format.open(source, variant=variant, lenient=lenient, **own)
    try:
        for note in collection.notes:
            remark(f"{source.label}: {note}", stacklevel=5)
        if sidecars and source.place is not None:
            attach_sidecars(collection, source)
    except BaseException:
        collection.close()
        raise
    origin = FileOrigin(
        source.place,
        source.identity(),
        dict(source.companions),
        format.name,
        variant,
        lenient,
        sidecars,
        own,
        source.label,
    )
    collection.origins = (origin,)
    for name, column in collection.columns.items():
        column.origin = (origin, "columns", name)
    if collection.vocab is not None:
        collection.vocab.origin = (origin, "vocab", "")
    if collection.records is not None:
        collection.records.origin = (origin, "records", "")
    if collection.ids is not None and collection.ids.origin is None:
        collection.ids.origin = (origin, "ids", "")
    return collection
