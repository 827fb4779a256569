"""Options that the word formats share, for reading and for writing. Not a format."""

from __future__ import annotations

from polyvec.core.options import Option

LOSSY = Option(
    "lossy", bool, "Words that are not UTF-8 are read with marks in place of the bytes; --lenient says it too."
)

DUPLICATES = Option(
    "duplicates",
    str,
    "What becomes of words that stand twice: an error, the first or the last is kept, or they are renamed.",
    ("error", "first", "last", "rename"),
    "error",
)
LENGTHS = Option(
    "lengths", str, "The column of the lengths that the rows were divided by, where the source does not say."
)
SPACES = Option("spaces", str, "What stands for bytes of a word that the format cannot spell, such as _.")
SUBWORDS = Option("subwords", str, "drop leaves out the subword rows, which the format has no place for.", ("drop",))
UNNORMALIZE = Option(
    "unnormalize", bool, "Rows are multiplied by their lengths where those are kept apart; false drops them.", (), True
)

PLAIN_OPTIONS = (UNNORMALIZE, SUBWORDS, SPACES, DUPLICATES, LENGTHS)  # of formats of one row a word
