"""BERT's WordPiece tokenizer, built from a model's own vocabulary with the `tokenizers` package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from polyvec.core.errors import InputError, MissingExtra
from polyvec.model.loading import Model

MAX_WORD_LETTERS = 100  # a longer word is unknown, by BERT's rule
_LONG_TEXT = 32  # letters a token: of a longer text a beginning nearly always suffices


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of each text, and how many texts were cut."""

    ids: list[list[int]]
    truncated: int

    @property
    def tokens(self) -> int:
        return sum(map(len, self.ids))


class Tokenizer:
    """Text to token ids and back. ``max_length`` counts [CLS] and [SEP]."""

    def __init__(self, model: Model, *, max_length: int) -> None:
        try:
            from tokenizers import Tokenizer as Fast
            from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
        except ImportError:
            raise MissingExtra("tokenizers", extra="embed", purpose="text embeddings") from None
        tokens, specials = model.tokens, model.specials
        named = {name: tokens[number] for name, number in specials.items()}
        vocab = {token: number for number, token in enumerate(tokens)}
        self._fast: Any = Fast(
            models.WordPiece(vocab, unk_token=named["unk_id"], max_input_chars_per_word=MAX_WORD_LETTERS)
        )
        self._fast.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=model.architecture.do_lower_case
        )
        self._fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        cls, sep = named["cls_id"], named["sep_id"]
        # Not a template: those are parsed, and a hostile vocabulary may call its special tokens anything.
        self._fast.post_processor = processors.BertProcessing((sep, specials["sep_id"]), (cls, specials["cls_id"]))
        self._fast.decoder = decoders.WordPiece(prefix="##", cleanup=True)
        self._fast.add_special_tokens(list(dict.fromkeys(named.values())))
        self._fast.enable_truncation(max_length)
        self.max_length = max_length
        self.pad_id = specials["pad_id"]
        self.vocab_size = len(tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, with [CLS] and [SEP], cut at ``max_length``."""
        return self.encode_batch([text]).ids[0]

    def encode_batch(self, texts: Sequence[str]) -> Encoded:
        """The ids of many texts; says how many were cut."""
        check_texts(texts)
        limit = self.max_length * _LONG_TEXT
        heads = [text if len(text) <= limit else _beginning(text, limit) for text in texts]
        found = self._fast.encode_batch_fast(heads)
        for row, (text, head) in enumerate(zip(texts, heads)):
            # A beginning that overflowed gives the same ids as the whole; one that did not must not be trusted.
            if len(head) < len(text) and not found[row].overflowing:
                found[row] = self._fast.encode_batch_fast([text])[0]
        return Encoded([encoding.ids for encoding in found], sum(1 for encoding in found if encoding.overflowing))

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Text from ids; InputError for an id beyond the vocabulary."""
        numbers = [int(number) for number in ids]
        for number in numbers:
            if not 0 <= number < self.vocab_size:
                raise InputError(f"token id {number} lies beyond the vocabulary of {self.vocab_size}")
        text: str = self._fast.decode(numbers, skip_special_tokens=skip_special_tokens)
        return text

    def to_json(self) -> str:
        """The tokenizer as a tokenizer.json, without truncation or padding of its own."""
        from tokenizers import Tokenizer as Fast

        copy: Any = Fast.from_str(self._fast.to_str())
        copy.no_truncation()
        text: str = copy.to_str(pretty=True)
        return text


def _beginning(text: str, limit: int) -> str:
    """The text up to the first space after ``limit`` letters: words are never cut, so their tokens stay the same."""
    stop = text.find(" ", limit)
    return text if stop < 0 else text[:stop]


def check_texts(texts: Sequence[str]) -> None:
    """InputError, with the row, unless every item is text that UTF-8 can hold."""
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {row} is {type(text).__name__}, not text")
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"text {row} holds a lone surrogate (U+{ord(text[error.start]):04X}) at letter {error.start}; "
                    "decode the input with errors='replace'"
                ) from None
