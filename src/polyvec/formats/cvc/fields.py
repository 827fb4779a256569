"""Fields of a CVC header, one by one: each is there and of its kind, or an error names it and where it stands."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt, Unsupported
from polyvec.formats.cvc.structure import COMPRESSIONS, DTYPES, Json

SINGLE = struct.Struct("<f")


@dataclass(frozen=True, slots=True)
class Fields:
    """Reads fields of the JSON at offset ``at``, which errors name unless they know a nearer one."""

    at: int

    def fail(self, message: str, name: str, expected: Any, found: Any, offset: int | None = None) -> Corrupt:
        """The error for a field."""
        shown = found if isinstance(found, (int, float)) else str(found)[:100]
        return Corrupt(
            message, offset=self.at if offset is None else offset, field=name, expected=expected, found=shown
        )

    def count(self, json: Json, key: str, path: str = "", most: int | None = None) -> int:
        """A whole number that is there and not negative."""
        value = json.get(key)
        name = f"{path}{key}"
        if type(value) is not int or value < 0:
            found = "nothing" if key not in json else value
            raise self.fail(f"{name} is not a count", name, "a whole number of at least 0", found)
        if most is not None and value > most:
            raise self.fail(f"{name} is too large", name, f"at most {most}", value)
        return value

    def number(self, json: Json, key: str, path: str) -> float:
        """A finite number that float32 can hold."""
        value = json.get(key)
        name = f"{path}{key}"
        if type(value) not in (int, float):
            raise self.fail(
                f"{name} is missing or no number", name, "a finite number", "nothing" if key not in json else value
            )
        try:
            [single] = SINGLE.unpack(SINGLE.pack(float(value)))  # type: ignore[arg-type]
        except OverflowError:
            single = math.inf
        if not math.isfinite(single):
            raise self.fail(f"{name} is not finite", name, "a finite number", str(value)[:40])
        return float(single)

    def compression(self, value: Any, name: str) -> str:
        """One of those there are."""
        if value not in COMPRESSIONS:
            raise Unsupported(
                "unknown compression",
                offset=self.at,
                field=name,
                expected=" or ".join(COMPRESSIONS),
                found=str(value)[:40],
            )
        return str(value)

    def dtype(self, value: Any, name: str) -> np.dtype[Any]:
        """One of those there are, little endian."""
        if value not in DTYPES:
            raise Unsupported(
                "unknown dtype", offset=self.at, field=name, expected=" or ".join(DTYPES), found=str(value)[:40]
            )
        stored: np.dtype[Any] = np.dtype(str(value)).newbyteorder("<")
        return stored

    def checksum(self, entry: Json, path: str) -> int | None:
        """A CRC-32, where one is stated."""
        return self.count(entry, "crc32", path, 2**32 - 1) if "crc32" in entry else None
