"""Product quantisation (PQ, OPQ): a row as one byte a part, each naming a centroid of that part.

Decode: the centroids side by side, times the transposed projection where there is one, times the row's norm where norms
are kept. Encode: divide by the norm, multiply by the projection, take the nearest centroid of each part. faiss trains
and encodes (the extra ``faiss``); decoding and search need nothing but polyvec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.affine import refuse_first
from polyvec.core.blocks import Array, Block, Codec, PartTypes
from polyvec.core.errors import Corrupt, InputError, MissingExtra
from polyvec.kernels.product import decode_product, rotate_rows
from polyvec.kernels.rows import row_norms, scale_rows

Floats = NDArray[np.float32]
TRAIN_ROWS = 65536  # rows the trainer sees: 256 a centroid, faiss's own advice
METHODS = ("pq", "opq")


@dataclass(frozen=True, slots=True, eq=False)
class Product(Codec):
    """Codebooks (parts, centroids, width), an optional projection (dim, dim), and whether norms are kept apart."""

    name: ClassVar[str] = "pq"
    fit_scope: ClassVar[str] = "column"
    books: Floats
    projection: Floats | None = None
    norms: bool = False
    origin: int | None = None  # where the column's codes begin in their file, for messages alone
    _key: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        digest = hashlib.sha256(repr((self.books.shape, self.norms)).encode())
        digest.update(np.ascontiguousarray(self.books).tobytes())
        digest.update(b"" if self.projection is None else np.ascontiguousarray(self.projection).tobytes())
        object.__setattr__(self, "_key", digest.hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def parts_count(self) -> int:
        """How many bytes a row has."""
        return int(self.books.shape[0])

    @property
    def centroids(self) -> int:
        """How many centroids a part has: 256 at most."""
        return int(self.books.shape[1])

    @property
    def dim(self) -> int:
        """Values in a decoded row."""
        return int(self.books.shape[0] * self.books.shape[2])

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        types: dict[str, Any] = {"codes": (np.dtype(np.uint8), (self.parts_count,))}
        if self.norms:
            types["norms"] = (np.dtype("<f4"), ())
        return types

    def decoded_shape(self, block: Block) -> tuple[int, ...]:
        return (len(block.parts["codes"]), self.dim)

    def decode(self, block: Block, out: Array | None = None) -> Array:
        codes = np.ascontiguousarray(block.parts["codes"])
        norms = np.ascontiguousarray(block.parts["norms"]) if self.norms else None
        try:
            if self.projection is None:
                return decode_product(codes, self.books, weights=norms, out=out)
            rotated = decode_product(codes, self.books)
        except IndexError as error:
            message, place = error.args
            known = self.origin is not None and block.start >= 0
            offset = (self.origin or 0) + block.start * self.parts_count + place if known else None
            raise Corrupt(
                f"a code names no centroid: {message}",
                offset=offset,
                field="codes",
                remedy="restore the file from its source",
            ) from None
        rows = rotate_rows(rotated, np.ascontiguousarray(self.projection.T), out=out)
        if norms is not None:
            scale_rows(rows, norms)
        return rows

    def encode(self, rows: Array, start: int = 0) -> dict[str, Array]:
        rows = np.array(rows, np.float32, order="C")
        refuse_first(rows, ~np.isfinite(rows), start, "has no nearest centroid; remove it, or choose float16 or raw")
        parts: dict[str, Array] = {}
        if self.norms:
            parts["norms"] = _stored_norms(rows, start)
            scale_rows(rows, parts["norms"], inverse=True)
        if self.projection is not None:
            rows = rows @ self.projection
        return {"codes": _nearest(rows, self.books), **parts}

    @classmethod
    def fit(cls, rows: Iterable[Array]) -> Self:
        """Half as many parts as dimensions, 256 centroids, norms kept: what finalfusion's tools choose."""
        sample = np.concatenate([np.asarray(piece, np.float32) for piece in rows])
        return cls._trained(sample)

    @classmethod
    def _trained(cls, sample: Floats, **options: Any) -> Self:
        trained = train(sample, **options)
        return cls(trained.books, trained.projection, trained.norms)


def train(
    sample: Floats,
    *,
    parts: int | None = None,
    bits: int = 8,
    method: str = "pq",
    norms: bool = True,
    iterations: int = 25,
    seed: int = 42,
) -> Product:
    """A codec fitted to sample rows (n, dim). `method` is pq, or opq, which also learns a rotation."""
    count, dim = sample.shape
    parts = max(1, dim // 2) if parts is None else parts
    if method not in METHODS:
        raise InputError(f"unknown quantizer {method!r}; there are {', '.join(METHODS)}")
    if parts < 1 or dim % parts:
        raise InputError(f"{parts} parts do not divide {dim} dimensions; choose a divisor")
    if not 1 <= bits <= 8:
        raise InputError(f"a code has 1 to 8 bits, not {bits}")
    if count < 1 << bits:
        raise InputError(
            f"{bits} bits need at least {1 << bits} rows to train on, and there are {count}; use fewer bits"
        )
    rows = np.array(sample, np.float32, order="C")
    if not np.isfinite(rows).all():
        raise InputError("rows with NaN or infinity cannot be quantised; remove them")
    if norms:
        scale_rows(rows, _stored_norms(rows), inverse=True)
    by = scale_down(rows)
    rows *= np.float32(by)
    faiss = _faiss()
    quantizer = faiss.ProductQuantizer(dim, parts, bits)
    quantizer.cp.niter = max(1, iterations)
    quantizer.cp.seed = seed
    quantizer.cp.min_points_per_centroid = 1  # else faiss writes warnings to the terminal
    projection = None
    if method == "opq":
        projection = _rotation(rows, quantizer, faiss, iterations)
        rows = rows @ projection
    quantizer.train(rows)
    books = faiss.vector_to_array(quantizer.centroids).reshape(parts, 1 << bits, dim // parts)
    return Product(np.ascontiguousarray(books / np.float32(by), np.float32), projection, norms)


def _rotation(rows: Floats, quantizer: Any, faiss: Any, rounds: int) -> Floats:
    """The rotation that loses least: quantise, then turn the rows towards what came back, and again."""
    rotation = np.eye(rows.shape[1], dtype=np.float32)
    steps = quantizer.cp.niter
    quantizer.cp.niter = 4
    for _ in range(max(1, rounds)):
        turned = np.ascontiguousarray(rows @ rotation)
        quantizer.train(turned)
        back = quantizer.decode(quantizer.compute_codes(turned))
        left, _, right = np.linalg.svd(rows.T @ back)
        rotation = np.ascontiguousarray(left @ right, np.float32)
        quantizer.train_type = faiss.ProductQuantizer.Train_hot_start
        quantizer.cp.niter = 1
    quantizer.cp.niter = steps
    return rotation


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtra("faiss-cpu", extra="faiss", purpose="training product quantizers", one=True) from None
    return faiss


def _stored_norms(rows: Floats, start: int = 0) -> Floats:
    with np.errstate(over="ignore"):
        norms = row_norms(rows)
    beyond = np.flatnonzero(~np.isfinite(norms))
    if len(beyond):
        raise InputError(
            f"row {start + int(beyond[0])} is longer than a float32 norm can hold; scale the rows down, or choose raw"
        )
    return norms


def scale_down(values: Floats) -> float:
    """A power of two that brings the largest value near 1; 1 where float32 squares of these values are sound as they are."""
    most = float(np.abs(values).max(initial=0.0))
    if most == 0 or not np.isfinite(most) or 2.0**-40 <= most <= 2.0**40:
        return 1.0
    return float(2.0 ** np.clip(-np.frexp(most)[1], -126, 126))


def bring_near(rows: Floats, books: Floats) -> tuple[Floats, Floats]:
    """Rows and centroids times one power of two, so that float32 holds their squares; as they are where it does.

    Rows that are far from every centroid keep their direction alone, which decides.
    """
    by = scale_down(books)
    if by == 1 and float(np.abs(rows).max(initial=0.0)) <= 2.0**60:
        return rows, books
    wide = rows.astype(np.float64) * by
    most = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    near = wide * np.where(most > 2.0**40, 2.0**40 / np.where(most > 0, most, 1.0), 1.0)
    return near.astype(np.float32), books * np.float32(by)


def _nearest(rows: Floats, books: Floats) -> NDArray[np.uint8]:
    """The nearest centroid of each part; by faiss where it is there, since NumPy takes some fifty times as long."""
    parts, size, width = books.shape
    rows, books = bring_near(np.ascontiguousarray(rows, np.float32), books)
    bits = size.bit_length() - 1
    if len(rows) > 256 and size == 1 << bits and bits == 8:
        try:
            import faiss
        except ImportError:
            pass
        else:
            quantizer = faiss.ProductQuantizer(parts * width, parts, bits)
            faiss.copy_array_to_vector(np.ascontiguousarray(books).reshape(-1), quantizer.centroids)
            codes: NDArray[np.uint8] = quantizer.compute_codes(rows)
            return codes
    found = np.empty((len(rows), parts), np.uint8)
    squares = np.einsum("pcw,pcw->pc", books, books) / 2
    for part in range(parts):
        products = rows[:, part * width : (part + 1) * width] @ books[part].T
        found[:, part] = np.argmin(squares[part] - products, axis=1)
    return found
