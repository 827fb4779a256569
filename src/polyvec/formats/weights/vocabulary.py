"""The vocabulary section: length-prefixed tokens and the ids of the special ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt
from polyvec.core.layout import Cursor
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings
from polyvec.formats.weights.records import SPECIALS, VOCAB_HEADER, Contents
from polyvec.kernels.strings import walk_strings


def read_vocabulary(source: Source, contents: Contents) -> None:
    """Put the tokens and special ids of a file into its contents."""
    start, size = contents.header["vocab_offset"], contents.header["vocab_size"]
    cursor = Cursor(source, start, start + size)
    values = cursor.read(VOCAB_HEADER)
    cursor.require(values["total_size"], "vocabulary.total_size")
    if values["token_count"] * 2 > values["total_size"]:
        raise Corrupt(
            "the vocabulary cannot hold that many tokens",
            offset=start,
            field="vocabulary.token_count",
            expected=f"at most {values['total_size'] // 2}",
            found=values["token_count"],
        )
    data = np.frombuffer(cursor.take(values["total_size"], "tokens"), np.uint8)
    contents.tokens = read_tokens(data, values["token_count"], cursor.offset - values["total_size"], 2, source.label)
    # The document does not say what the offset counts from: absolute where that falls inside, else relative.
    place = values["special_tokens"]
    if not start + VOCAB_HEADER.size <= place <= start + size - SPECIALS.size:
        place += start
    if not start + VOCAB_HEADER.size <= place <= start + size - SPECIALS.size:
        raise Corrupt(
            "the special token indices lie outside the vocabulary section",
            offset=start + VOCAB_HEADER.offset("special_tokens"),
            field="vocabulary.special_tokens",
            expected=f"{start + VOCAB_HEADER.size}..{start + size - SPECIALS.size}",
            found=values["special_tokens"],
        )
    contents.specials_offset = place
    contents.specials = SPECIALS.read(source, place)
    for name, number in contents.specials.items():
        if number >= values["token_count"]:
            raise Corrupt(
                f"{name} lies beyond the vocabulary",
                offset=place + SPECIALS.offset(name),
                field=name,
                expected=f"less than {values['token_count']}",
                found=number,
            )


def read_tokens(data: Any, count: int, place: int, width: int, label: str) -> Strings:
    """Length-prefixed tokens as strings over one buffer, every one valid UTF-8; ``place`` is where they lie."""
    starts, stops = walk_strings(data, count, width)
    if len(starts) < count:
        at = int(stops[-1]) if len(stops) else 0
        raise Corrupt(
            f"token {len(starts)} reaches past the vocabulary",
            offset=place + at,
            field="token_length",
            expected=f"{count} tokens in {len(data)} bytes",
        )
    end = int(stops[-1]) if count else 0
    if width == 2 and end != len(data):
        raise Corrupt(
            "the vocabulary's sizes disagree",
            offset=place + end,
            field="vocabulary.total_size",
            expected=end,
            found=len(data),
        )
    strings = Strings(data, starts, stops, label=label)
    # All tokens joined are valid and none starts inside a character: so each of them is valid.
    some = starts[stops > starts]
    content = np.ones(end, bool)
    for step in range(width):
        content[starts - width + step] = False
    try:
        data[:end][content].tobytes().decode("utf-8")
        broken = some[(data[some] & 0xC0) == 0x80]
    except UnicodeDecodeError:
        broken = some[:1]
    if len(broken):
        for row in range(count):
            try:
                strings.raw(row).decode("utf-8")
            except UnicodeDecodeError as error:
                raise Corrupt(
                    f"token {row} is not valid UTF-8",
                    offset=place + int(starts[row]) + error.start,
                    field=f"token {row}",
                    expected="UTF-8",
                ) from None
    return strings
