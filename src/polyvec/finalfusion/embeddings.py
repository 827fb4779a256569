"""Embeddings: the words of a model and their vectors, looked up, made of subwords, and searched."""

from __future__ import annotations

import os
from collections.abc import Collection as Words
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt, InputError, UnknownWord
from polyvec.core.remarks import unremarked
from polyvec.core.subwords import Composed, compose
from polyvec.core.vocab import Vocab
from polyvec.formats.finalfusion import FinalfusionCollection
from polyvec.formats.words import unit_columns
from polyvec.kernels import strings as tables
from polyvec.kernels.threads import Crew, default_threads
from polyvec.words.nearest import Hit, NearestWords, combined
from polyvec.words.storage import Storage
from polyvec.writing.options import WritingOptions, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.write import write as write_collection

Floats = NDArray[np.float32]
PLAIN_FORMATS = ("word2vec", "wordtext", "fasttext")  # rows of any length: made unit on loading, as its tools do
LARGE_VOCAB = 1 << 16  # words: below, a thread costs more than the index
DEFAULT = object()


def load(
    path: str | os.PathLike[str] | bytes,
    *,
    mmap: bool = True,
    format: str | None = None,
    lossy: bool = False,
    duplicates: str | None = None,
) -> Embeddings:
    """Load word embeddings of any word format: finalfusion, word2vec, text, fastText, floret.

    ``mmap`` leaves the matrix in the file; ``lossy`` replaces invalid UTF-8. ``duplicates`` is ``"first"`` (look-ups
    give the first of equal words) or ``"error"``, which a finalfusion file gets by default, since its tools allow none.
    """
    if duplicates not in (None, "first", "error"):
        raise InputError(f"duplicates is 'first' or 'error', not {duplicates!r}")
    own: dict[str, Any] = {"lossy": True} if lossy else {}
    with unremarked():  # all is in `notes`
        collection = formats.open(path, format=format, **own)
    if collection.vocab is None:
        found = collection.format
        collection.close()
        raise InputError(f"{os.fspath(path)!s}: {found} files hold no words; search them with polyvec search")
    strict = collection.format == "finalfusion" if duplicates is None else duplicates == "error"
    try:
        model = Embeddings(collection, mmap=mmap, unique=strict)
    except BaseException:
        collection.close()
        raise
    if not mmap:
        collection.close()
    return model


class Embeddings:
    """Words and their vectors. Unknown words get vectors from their subwords where the model has them.

    ``vocab``, ``storage`` (word rows), ``subword_storage``, ``metadata`` and ``notes`` are the parts of the model.
    """

    def __init__(self, collection: Collection, *, mmap: bool = True, unique: bool = False) -> None:
        if collection.vocab is None:
            raise InputError("a collection without words is no word embeddings")
        if collection.format in PLAIN_FORMATS and "norms" not in collection.columns:
            collection = _kept_open(unit_columns(collection), collection)
        assert collection.vocab is not None
        self._collection = collection
        self._unique, self._checked = unique, False
        self.vocab: Vocab = collection.vocab
        self.metadata: dict[str, Any] = dict(collection.metadata)
        self.notes: list[str] = list(collection.notes)
        # A full load has its index, made while the rows are read; a mapped one builds it on the first look-up.
        large = not mmap and len(self.vocab) >= LARGE_VOCAB and default_threads() > 1
        with Crew(1) as beside:
            indexed = beside.submit(lambda: self.vocab.duplicates) if large else None
            self.storage = Storage(collection.vectors, mmap=mmap)
            subwords = collection.columns.get("subwords")
            self.subword_storage = Storage(subwords, mmap=mmap) if subwords is not None else None
            norms = collection.columns.get("norms")
            self._norms: Floats | None = None if norms is None else norms.to_numpy()
        if indexed is not None:
            indexed.result()
        if not mmap:
            self._collection = self._in_memory(collection)
            self.vocab.duplicates  # noqa: B018  (made by now, or here)
            self._check_unique()
        self._nearest = NearestWords(self.vocab, self.storage)

    def _in_memory(self, collection: Collection) -> Collection:
        """The collection over the arrays just loaded, so that the file can be closed."""
        columns = {collection.main: self.storage.column(collection.main)}
        if self.subword_storage is not None:
            columns["subwords"] = self.subword_storage.column("subwords")
        if self._norms is not None:
            columns["norms"] = ArrayColumn("norms", self._norms)
            columns["norms"].lengths = True
        held = type(collection)(
            columns,
            vocab=self.vocab,
            metadata=self.metadata,
            notes=self.notes,
            format=collection.format,
            path=collection.path,
        )
        if isinstance(held, FinalfusionCollection) and isinstance(collection, FinalfusionCollection):
            held.kept = collection.kept
        return held

    # -- the parts

    @property
    def dims(self) -> int:
        """Values in a vector."""
        return self.storage.shape[1]

    @property
    def norms(self) -> Floats | None:
        """The lengths that the words' vectors had before they were made unit, as a copy; None where there are none."""
        return None if self._norms is None else self._norms.copy()

    @property
    def format(self) -> str:
        """The format of the file."""
        return self._collection.format

    def __len__(self) -> int:
        return len(self.vocab)

    def __contains__(self, word: object) -> bool:
        return word in self.vocab

    def __iter__(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for start in range(0, len(self), 4096):
            yield from zip(self.vocab[start : start + 4096], self.storage[start : start + 4096])

    def close(self) -> None:
        """Release the file; arrays given out stay valid."""
        self._collection.close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = self.vocab.subwords.kind if self.vocab.subwords is not None else "no"
        return f"<Embeddings {len(self):,} words x {self.dims}, {self.storage.encoding}, {kind} subwords>"

    # -- looking up

    def _row(self, word: str) -> int:
        if not self._checked:
            self._check_unique()
        row = self.vocab.get(word)
        return -1 if row is None else row

    def _check_unique(self) -> None:
        """A finalfusion file says each word once; the first look-up builds the index, which can tell.

        Where repeated words are allowed a note says that the first is meant.
        """
        again = self.vocab.duplicates
        self._checked = not (len(again) and self._unique)  # refused again where it was refused once
        if len(again):
            row = int(again[0])
            word = self.vocab[row]
            if not self._unique:
                first = self.vocab.index(word)
                self.notes.append(
                    f"{len(again)} rows repeat a word, such as {word!r} in rows {first} and {row}; "
                    "look-ups give the first"
                )
                return
            raise Corrupt(
                f"the word {word!r} stands twice",
                path=self._collection.path,
                field=f"word {row}",
                offset=int(self.vocab.words.starts[row]),
                expected=f"once, in row {self.vocab.index(word)}",
                found=f"again in row {row}",
                remedy="load with duplicates='first' to use the first",
            )

    def embedding(self, word: str, *, default: Any = DEFAULT) -> Any:
        """A word's vector, or that of its subwords; `UnknownWord` (a KeyError) or ``default`` where it has neither."""
        row = self._row(word)
        if row >= 0:
            return self.storage[row]
        made = self._from_subwords([word])
        if made.found[0]:
            return made.vectors[0]
        if default is DEFAULT:
            raise UnknownWord(self._unknown(word))
        return default

    __getitem__ = embedding

    def embeddings(self, words: Sequence[str], *, default: Any = DEFAULT) -> NDArray[Any]:
        """The vectors of many words as a new array (words, dims); ``default`` fills the rows of unknown ones."""
        words = list(words)
        if not self._checked:
            self._check_unique()
        rows = self.vocab.indices(words)
        missing = np.flatnonzero(rows < 0)
        if not len(missing):
            return self.storage.take(rows)
        if len(missing) == len(words):
            result = np.empty((len(words), self.dims), np.float32)
        else:
            rows[missing] = rows[rows >= 0][0]  # any row: it is overwritten below
            result = self.storage.take(rows)
        made = self._from_subwords([words[i] for i in missing])
        vectors, found = made.vectors, made.found
        if not found.all():
            if default is DEFAULT:
                raise UnknownWord(self._unknown(words[int(missing[np.argmin(found)])]))
            vectors[~found] = default
        result[missing] = vectors
        return result

    def norm(self, word: str) -> float:
        """The length a known word's vector had before it was made unit, or that of an unknown one's subword sum.

        The sum is what finalfusion's own tools tell; `polyvec words select` keeps the length of the mean, as fastText.
        """
        row = self._row(word)
        if row >= 0:
            if self._norms is None:
                raise InputError("the file holds no norms")
            return float(self._norms[row])
        made = self._from_subwords([word])
        if not made.found[0]:
            raise UnknownWord(self._unknown(word))
        return float(made.lengths[0])

    def _unknown(self, word: str) -> str:
        if self.vocab.subwords is None:
            return f"{word!r} is not in the vocabulary"
        return f"{word!r} is not in the vocabulary, and none of its n-grams is known"

    def _from_subwords(self, words: list[str]) -> Composed:
        """What subwords give to the words."""
        try:
            table = tables.pack(words)
        except ValueError:  # a lone surrogate: no file can hold such a word
            table = tables.pack([word.encode("utf-8", "replace").decode() for word in words])
        storage = self.subword_storage
        if storage is None:
            return compose(None, table, self.dims)
        if storage.matrix is not None:
            return compose(self.vocab.subwords, table, self.dims, matrix=storage.floats())
        return compose(self.vocab.subwords, table, self.dims, take=storage.take)

    # -- searching

    def similar(
        self, query: str | Any, k: int = 10, *, skip: Words[str] | None = None, metric: str = "cosine"
    ) -> list[Hit]:
        """The ``k`` words nearest to a word or a vector by cosine, best first, equal ones in the order of their names.

        The query word itself is left out (``skip=()`` leaves it in). ``metric="angular"`` gives 1 - angle / pi.
        """
        return self.similar_many([query], k, skip=None if skip is None else [skip], metric=metric)[0]

    def similar_many(
        self, queries: Sequence[Any], k: int = 10, *, skip: Sequence[Words[str]] | None = None, metric: str = "cosine"
    ) -> list[list[Hit]]:
        """`similar` for many words or vectors at once: one pass over the rows for all of them."""
        left_out = [{q} if isinstance(q, str) else set() for q in queries] if skip is None else [set(s) for s in skip]
        vectors = [self.embedding(query) if isinstance(query, str) else query for query in queries]
        return self._nearest.find(vectors, k, left_out, metric)

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, *, include: Words[str] = (), metric: str = "cosine"
    ) -> list[Hit]:
        """Words d such that a is to b as c is to d: nearest to normalise(b - a + c), without a, b and c.

        ``include`` names those of the three that may be answers.
        """
        va, vb, vc = (np.asarray(self.embedding(word), np.float32) for word in (a, b, c))
        return self.similar(combined(va, vb, vc), k, skip={a, b, c} - set(include), metric=metric)

    # -- writing

    @shows_options(WritingOptions)
    def write(self, path: str | os.PathLike[str], **options: Unpack[WritingOptions]) -> Receipt:
        """Write the model; the suffix (or ``format=``) names the format. The options are those of `polyvec.write`."""
        self._collection.metadata = dict(self.metadata)
        return write_collection(path, self._collection, **options)


def _kept_open(derived: Collection, original: Collection) -> Collection:
    derived.on_close(original.close)
    return derived
