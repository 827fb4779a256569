"""The embedder itself: tokenizer, batches, engine and outputs put together. `polyvec.embedder` is its public face."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import shown
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.progress import telling
from polyvec.kernels.threads import Crew
from polyvec.model.architecture import Architecture
from polyvec.model.batching import make_batch, plan_batches
from polyvec.model.engines import Engine, start_engine
from polyvec.model.loading import load_model
from polyvec.model.places import find_weights
from polyvec.model.pooling import OUTPUTS, finish, output_shape
from polyvec.model.tokenizer import Tokenizer

DEFAULT_TOKENS = 256
CHUNK_TEXTS = 16_384  # texts tokenized at a time: a corpus of any length stays within bounded memory


class EmbedderOptions(TypedDict, total=False):
    """What an embedder is made with, besides its threads."""

    max_seq_length: int
    normalize_embeddings: bool
    engine: str
    vocabulary: str | os.PathLike[str] | Sequence[str] | None
    verify: bool


class EmbeddingOptions(TypedDict, total=False):
    """How texts are embedded."""

    batch_size: int | None
    show_progress: bool | Progress
    prompt: str | None
    truncate_dim: int | None
    output: str


class Embedder:
    """Embeds texts with the model of a `.weights` file, or of a name (``minilm``; see `polyvec.model.places`).

    A context manager; safe from several threads.

    ``max_seq_length`` tokens are read of each text, and never more than the model has positions; the default gives way
    to a lower limit of the model's own. `truncated` counts the texts that were longer. ``engine`` is auto, native,
    onnxruntime, openvino or numpy. ``vocabulary`` is needed where the file embeds none; ``verify`` compares the checksums first.
    """

    def __init__(
        self,
        weights_path: str | os.PathLike[str],
        *,
        max_seq_length: int = DEFAULT_TOKENS,
        normalize_embeddings: bool = True,
        num_threads: int | None = None,
        engine: str = "auto",
        vocabulary: str | os.PathLike[str] | Sequence[str] | None = None,
        verify: bool = False,
    ) -> None:
        if not isinstance(max_seq_length, int) or max_seq_length < 3:
            raise InputError(f"max_seq_length must be at least 3 ([CLS], one token, [SEP]), not {max_seq_length!r}")
        self._model = load_model(find_weights(weights_path), vocabulary=vocabulary, verify=verify)
        try:
            limit = limit_tokens(max_seq_length, self._model.architecture)
            self.tokenizer = Tokenizer(self._model, max_length=limit)
            self._engine: Engine | None = start_engine(engine, self._model, num_threads=num_threads)
        except BaseException:
            self._model.close()
            raise
        self.max_seq_length = limit
        self.normalize_embeddings = normalize_embeddings
        self.truncated = 0
        workers = self._engine.workers
        self._pool = Crew(workers, "polyvec-embed") if workers > 1 else None

    @property
    def embedding_dim(self) -> int:
        """Values in a vector."""
        return self._model.architecture.embedding_dim

    @property
    def metadata(self) -> dict[str, str]:
        """What the file says of the model."""
        return dict(self._model.metadata)

    @property
    def path(self) -> str | None:
        """The file of the weights."""
        return None if self._model.source is None else self._model.source.label

    @property
    def engine(self) -> str:
        """The engine in use."""
        return self._running().name

    @property
    def fingerprint(self) -> str:
        """What tells one file's weights from another's: its size and the checksums it ends with."""
        return self._model.fingerprint

    @property
    def notes(self) -> list[str]:
        """What was odd about the file."""
        return list(self._model.notes)

    def embed(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        show_progress: bool | Progress = False,
        prompt: str | None = None,
        truncate_dim: int | None = None,
        output: str = "float32",
    ) -> NDArray[Any]:
        """One vector a text: [texts, dim] float32, ``int8`` (unit vectors times 127) or ``binary`` (packed sign bits).

        ``prompt`` is put before every text; ``truncate_dim`` keeps the first values and makes them unit length again;
        ``batch_size`` bounds the texts of a batch (by default a token budget does). Empty texts are embedded as
        [CLS] [SEP]. Raises InputError for what is no text.
        """
        rows = as_texts(texts)
        out: NDArray[Any] = np.empty(output_shape(len(rows), self.embedding_dim, truncate_dim, output), OUTPUTS[output])
        self.embed_into(
            rows,
            out,
            batch_size=batch_size,
            show_progress=show_progress,
            prompt=prompt,
            truncate_dim=truncate_dim,
            output=output,
        )
        return out

    def embed_single(self, text: str, **options: Unpack[EmbeddingOptions]) -> NDArray[Any]:
        """The vector of one text, [dim]. Takes the options of `embed`."""
        if not isinstance(text, str):
            raise InputError(f"embed_single takes one text, not {type(text).__name__}")
        vector: NDArray[Any] = self.embed([text], **options)[0]
        return vector

    def embed_batch(self, texts: Sequence[str], **options: Unpack[EmbeddingOptions]) -> NDArray[Any]:
        """The same as `embed`, under the name some programs know."""
        return self.embed(texts, **options)

    def embed_into(
        self,
        texts: Sequence[str],
        out: NDArray[Any],
        *,
        batch_size: int | None = None,
        show_progress: bool | Progress = False,
        prompt: str | None = None,
        truncate_dim: int | None = None,
        output: str = "float32",
    ) -> int:
        """Write the vectors into ``out``, row by row; returns how many texts were cut."""
        rows = as_texts(texts)
        shape = output_shape(len(rows), self.embedding_dim, truncate_dim, output)
        if out.shape != shape or (output != "float32" and out.dtype != OUTPUTS[output]) or out.dtype.kind not in "fiuV":
            raise InputError(f"out must be {list(shape)} {OUTPUTS[output]}, not {list(out.shape)} {out.dtype}")
        if output == "float32" and out.dtype.kind not in "fV":
            raise InputError(f"out must hold floats, not {out.dtype}")
        if output == "int8" and not self.normalize_embeddings:
            raise InputError("int8 output needs normalize_embeddings=True: only unit vectors fit -127..127")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise InputError(f"batch_size must be at least 1, not {batch_size!r}")
        if prompt is not None and not isinstance(prompt, str):
            raise InputError(f"prompt must be text, not {type(prompt).__name__}")
        cut = done = 0
        with telling(show_progress, len(rows), "texts") as tell:
            for start in range(0, len(rows), CHUNK_TEXTS):
                chunk = rows[start : start + CHUNK_TEXTS]
                cut += self._embed_chunk(
                    chunk,
                    out[start : start + len(chunk)],
                    batch_size,
                    prompt,
                    truncate_dim,
                    output,
                    tell,
                    done,
                    len(rows),
                )
                done += len(chunk)
        self.truncated += cut
        return cut

    def _embed_chunk(
        self,
        texts: Sequence[str],
        out: NDArray[Any],
        batch_size: int | None,
        prompt: str | None,
        truncate_dim: int | None,
        output: str,
        progress: Progress | None,
        before: int,
        total: int,
    ) -> int:
        encoded = self.tokenizer.encode_batch([prompt + text for text in texts] if prompt else texts)

        def keep(rows: NDArray[np.int64], pooled: NDArray[np.float32]) -> None:
            out[rows] = finish(pooled, normalized=self.normalize_embeddings, truncate_dim=truncate_dim, output=output)

        for count in self._pool_ids(encoded.ids, batch_size, keep):
            before += count
            if progress is not None:
                progress(before, total)
        return encoded.truncated

    def _pool_ids(
        self,
        ids: Sequence[Sequence[int]],
        batch_size: int | None,
        keep: Callable[[NDArray[np.int64], NDArray[np.float32]], None],
    ) -> Iterator[int]:
        """Run batches of like length; ``keep`` gets each one's rows and pooled vectors. Yields texts done."""
        engine = self._running()
        lengths = [len(row) for row in ids]
        # Few tokens are split among the workers rather than left to one of them.
        budget = max(128, min(engine.budget, -(-sum(lengths) // engine.workers)))
        batches = plan_batches(lengths, budget=budget, batch_size=batch_size, whole=engine.whole)

        def run(rows: NDArray[np.int64]) -> int:
            batch = make_batch(rows, ids, self.tokenizer.pad_id)
            keep(rows, engine.pool(batch.ids, batch.lengths))
            return len(rows)

        many = self._pool is not None and len(batches) > 1
        yield from self._pool.map(run, batches) if many and self._pool else map(run, batches)

    def embed_ids(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Pooled vectors of token ids, before `finish`: for services that tokenize on their own."""
        out = np.empty((len(ids), self.embedding_dim), np.float32)
        for _ in self._pool_ids(ids, None, lambda rows, pooled: out.__setitem__(rows, pooled)):
            pass
        return out

    def finish(
        self, pooled: NDArray[np.float32], *, truncate_dim: int | None = None, output: str = "float32"
    ) -> NDArray[Any]:
        """Pooled vectors as `embed` gives them."""
        return finish(pooled, normalized=self.normalize_embeddings, truncate_dim=truncate_dim, output=output)

    def count_tokens(self, texts: Sequence[str]) -> int:
        """How many tokens `embed` would read of these texts."""
        return self.tokenizer.encode_batch(as_texts(texts)).tokens

    def close(self) -> None:
        """Release the model."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._model.close()

    def _running(self) -> Engine:
        if self._engine is None:
            raise ValueError("the embedder is closed")
        return self._engine

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_parameters = inspect.signature(Embedder).parameters
DEFAULTS = {name: _parameters[name].default for name in EmbedderOptions.__annotations__}


def limit_tokens(asked: int, sizes: Architecture) -> int:
    """How many tokens of a text are read."""
    own = sizes.max_seq_length if asked == DEFAULT_TOKENS else sizes.max_position_emb
    return min(asked, own)


def as_texts(texts: Sequence[str]) -> Sequence[str]:
    """The texts as a list; one text alone is none."""
    if isinstance(texts, (str, bytes)):
        raise InputError("texts must be a list of texts; for one text use embed_single")
    if not isinstance(texts, Iterable):
        raise InputError(f"texts must be a list of texts, not {shown(texts)}")
    return texts if isinstance(texts, (list, tuple)) else list(texts)
