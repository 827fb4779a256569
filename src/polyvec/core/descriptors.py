"""Descriptors that outlive `close` while somebody reads: the number of a closed file may be another file's at once."""

from __future__ import annotations

from typing import BinaryIO


class Descriptor:
    """The descriptor of an open file. It closes when the last of those who hold it lets go.

    A reader keeps it in a variable of its own, so that a file that another thread closes meanwhile is read to the end,
    and never the file that got its number.
    """

    __slots__ = ("_file", "number")

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = file.fileno()

    def __del__(self) -> None:
        self._file.close()
