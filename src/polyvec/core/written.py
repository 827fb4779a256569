"""What a sink holds, as a source: a file is read back under its coming name before it replaces anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polyvec.core.places import Place
from polyvec.core.sources import LocalSource, Source

if TYPE_CHECKING:
    from polyvec.core.sinks import Sink


class WrittenSource(LocalSource):
    """The bytes of a sink before its commit. Its siblings are those of the sink; what lies in the folder is not seen."""

    def __init__(self, temp: Path | None, fd: int, *, name: str, label: str, siblings: Sequence[Sink] = ()) -> None:
        if temp is not None:
            super().__init__(temp.open("rb", buffering=0), name, place=Place.of(temp), at=temp)
        else:  # a spool without a name, on its way to standard output
            super().__init__(os.fdopen(os.dup(fd), "rb", buffering=0), name)
        self.label = label  # errors name the target, not the temporary file
        self._siblings = siblings

    def beside(self, names: Sequence[str]) -> Sequence[str]:
        return names  # the new ones lie under other names as yet

    def sibling(self, name: str) -> Source | None:
        for sink in self._siblings:
            if sink.name == name:
                return sink.source()
        return None
