"""What meta.json holds: a head, and one card a row."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Quantization(msgspec.Struct, forbid_unknown_fields=True):
    """How codes become values."""

    dtype: Literal["int8"]
    scale_factor: Literal[127]
    original_dtype: Literal["float32"]
    note: str = ""


class CardRecord(msgspec.Struct):
    """One row. Further keys are kept as they are."""

    name: str
    set: str
    image_url: str
    card_url: str
    scryfall_id: str | None = None
    face_id: str | int | None = None
    collector_number: str | None = None
    frame: str | None = None
    layout: str | None = None
    lang: str | None = None
    colors: list[str] | None = None
    scryfall_uri: str | None = None


class Meta(msgspec.Struct, forbid_unknown_fields=True):
    """meta.json."""

    version: Literal["1.0"]
    quantization: Quantization
    shape: tuple[int, int]
    records: list[CardRecord]


def meta_schema() -> dict[str, Any]:
    """The JSON Schema of meta.json, which docs/formats/i8bin.schema.json holds."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Meta)}
