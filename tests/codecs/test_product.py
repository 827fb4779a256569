"""Product quantisation: nearest centroids at any scale, what cannot be trained or encoded is told, codes that name none."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from polyvec.codecs.product import Product, _nearest, bring_near, scale_down, train
from polyvec.core.blocks import Block
from polyvec.core.errors import Corrupt, InputError, MissingExtra
from polyvec.kernels import available_paths, use_path
from polyvec.reports.trials import nearest
from polyvec.testing import vectors


@pytest.fixture(params=sorted({*available_paths(), "numpy"}), autouse=True)
def path(request):
    with use_path(request.param), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield request.param


@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-30, 1e-22, 1.0, 1e18, 1e22, 1e30, 1e38])
def test_the_nearest_centroid_is_the_nearest_at_any_scale(scale):
    rng = np.random.default_rng(0)
    books = (rng.uniform(-1, 1, (4, 256, 3)) * scale).astype(np.float32)
    rows = (rng.uniform(-1, 1, (300, 12)) * scale).astype(np.float32)
    rows[7] = rows[7] / np.abs(rows[7]).max() * np.float32(3e38)  # far from every centroid
    for some in (rows, rows[:20]):
        found = _nearest(some, books)
        for part in range(4):
            mine = some[:, 3 * part : 3 * part + 3].astype(np.float64) / scale
            book = books[part].astype(np.float64) / scale
            gaps = ((mine[:, None] - book) ** 2).sum(axis=2)
            chosen = gaps[np.arange(len(some)), found[:, part]]
            assert (chosen <= gaps.min(axis=1) * (1 + 1e-5) + 1e-5).all()
    near = nearest(rows[:50], 3, books[1])
    assert (near == _nearest(rows[:50], books)[:, 1]).mean() > 0.9


def test_rows_that_have_no_nearest_centroid_are_refused():
    books = np.ones((2, 256, 2), np.float32)
    rows = np.ones((9, 4), np.float32)
    rows[3, 2] = np.nan
    with pytest.raises(InputError, match="nan in row 13, column 2 has no nearest centroid"):
        Product(books, None, False).encode(rows, start=10)
    rows[3, 2] = 3e38
    rows[3, 1] = 3e38
    with pytest.raises(InputError, match="row 13 is longer than a float32 norm can hold"):
        Product(books, None, True).encode(rows, start=10)


def test_training_without_its_library_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyvec.codecs import product

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"^training product quantizers needs faiss-cpu.*polyvec\[faiss\]"):
        product._faiss()


BOOKS = vectors(8, 6).reshape(2, 4, 6)


def test_rows_are_their_centroids_turned_back_and_scaled():
    codes, turn = np.uint8([[1, 3], [0, 0]]), np.linalg.qr(vectors(12, 12))[0].astype(np.float32)
    plain = np.concatenate([BOOKS[0][codes[:, 0]], BOOKS[1][codes[:, 1]]], axis=1)
    assert np.array_equal(Product(BOOKS).decode(Block(0, {"codes": codes}, Product(BOOKS), 2)), plain)
    codec = Product(BOOKS, turn, True)
    parts = {"codes": codes, "norms": np.float32([2, 0.5])}
    found = codec.decode(Block(0, parts, codec, 2))
    assert np.allclose(found, plain @ turn.T * [[2], [0.5]], atol=1e-5)


def test_a_code_without_a_centroid_is_corrupt_at_its_byte():
    codec = Product(BOOKS, origin=100)
    with pytest.raises(Corrupt, match="names no centroid") as caught:
        codec.decode(Block(3, {"codes": np.uint8([[0, 1], [2, 4]])}, codec, 2))
    assert caught.value.offset == 100 + 3 * 2 + 3 and caught.value.field == "codes"


def test_codecs_are_equal_by_what_they_decode():
    assert Product(BOOKS) == Product(BOOKS.copy(), origin=7) and hash(Product(BOOKS)) == hash(Product(BOOKS.copy()))
    assert Product(BOOKS) != Product(BOOKS, norms=True) and Product(BOOKS) != Product(BOOKS + 1)
    assert (Product(BOOKS).parts_count, Product(BOOKS).centroids, Product(BOOKS).dim) == (2, 4, 12)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "rq"}, "unknown quantizer 'rq'"),
        ({"parts": 5}, "5 parts do not divide 8 dimensions"),
        ({"parts": 0}, "0 parts do not divide"),
        ({"bits": 9}, "1 to 8 bits"),
        ({"bits": 6}, "6 bits need at least 64 rows"),
    ],
)
def test_what_cannot_be_trained_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        train(vectors(40, 8), **{"bits": 4, **options})
    rows = vectors(40, 8)
    rows[3, 3] = np.inf
    with pytest.raises(InputError, match="NaN or infinity"):
        train(rows, bits=4)


def test_a_scale_is_a_power_of_two_and_one_where_squares_are_sound():
    for most, wanted in ((1.0, 1.0), (2.0**40, 1.0), (2.0**41, 2.0**-42), (0.0, 1.0), (np.inf, 1.0)):
        assert scale_down(np.float32([most, -most / 2 if np.isfinite(most) else 0])) == wanted
    rows, books = vectors(3, 4), vectors(5, 4)
    assert bring_near(rows, books)[0] is rows
