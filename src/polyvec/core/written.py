"""What a sink holds, as a source: a file is read back under its coming name before it replaces anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polyvec.core.files import Source

if TYPE_CHECKING:
    from polyvec.core.sinks import Sink


class WrittenSource(Source):
    """The bytes of a sink before its commit. Its siblings are those of the sink; what lies in the folder is not seen."""

    def __init__(self, temp: Path | None, fd: int, *, name: str, label: str, siblings: Sequence[Sink] = ()) -> None:
        if temp is not None:
            super().__init__(temp, name=name)
        else:  # a spool without a name, on its way to standard output
            super().__init__(None, data=b"", name=name)
            self._data = None
            self._file = os.fdopen(os.dup(fd), "rb", buffering=0)
            self.size = os.fstat(fd).st_size
        self.label = label  # errors name the target, not the temporary file
        self._siblings = siblings

    def sibling(self, name: str) -> Source | None:
        for sink in self._siblings:
            if sink.name == name:
                return sink.source()
        return None
