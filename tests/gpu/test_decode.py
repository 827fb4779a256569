"""Decode kernels and pipeline against the NumPy reference: Triton's interpreter here, the same suite on a GPU there."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="triton is not installed: no GPU tests")

import polyvec as pv  # noqa: E402
from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw, ScaledInt8, SymmetricInt8  # noqa: E402
from polyvec.core.blocks import Extent, Part  # noqa: E402
from polyvec.core.columns import FileColumn  # noqa: E402
from polyvec.core.sources import open_source  # noqa: E402
from polyvec.gpu import pipeline  # noqa: E402
from polyvec.kernels.checksum import crc32, crc32_combine  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "host"
BACKENDS = ["triton", "cuda"] if torch.cuda.is_available() else ["triton"]


def column_of(pieces, dim, tmp_path, checked=True):
    """A file with the pieces back to back, each after an odd number of bytes, and a column over it."""
    content, extents, start = b"", [], 0
    for rows, codec in pieces:
        parts = codec.encode(rows)
        content += b"x" * (1 + len(extents) % 3)
        offset = len(content)
        content += parts["codes"].tobytes()
        crc = crc32(np.frombuffer(content, np.uint8)[offset:]) if checked else None
        others = ()
        size = len(content) - offset
        if "scale" in parts:
            others = (Part("scale", len(content)),)
            content += parts["scale"].tobytes()
        extents.append(Extent(start, len(rows), offset, size, codec, crc=crc, others=others))
        start += len(rows)
    path = tmp_path / "pieces.bin"
    path.write_bytes(content)
    return FileColumn(
        "vectors", open_source(path), extents, row_shape=(dim,), encoding="mixed", dtype=np.dtype(np.float32)
    )


def rows_of(count, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


CODECS = [Raw(np.dtype("<f4")), Float16(), BFloat16(), AffineUint8(-3.0, 0.0234567), SymmetricInt8(127.0), ScaledInt8()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
@pytest.mark.parametrize("dim", [1, 3, 16, 129])
def test_every_codec_equals_the_cpu_bit_for_bit(codec, dim, backend, tmp_path):
    column = column_of([(rows_of(97, dim), codec)], dim, tmp_path)
    found = pipeline.load_column(column, device=DEVICE, backend=backend).cpu().numpy()
    np.testing.assert_array_equal(found.view(np.uint32), column.to_numpy().view(np.uint32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_chunks_in_one_launch(backend, tmp_path):
    pieces = [(rows_of(10 + n, 24, n), codec) for n, codec in enumerate(CODECS)]
    column = column_of(pieces, 24, tmp_path)
    found = pipeline.load_column(column, device=DEVICE, backend=backend).cpu().numpy()
    np.testing.assert_array_equal(found, column.to_numpy())


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_halves_and_all_codes(backend, tmp_path):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(512, 128)
    path = tmp_path / "h.f16bin"
    pv.write(path, halves)
    with pv.open(path) as c:
        c.vectors.dtype = np.dtype(np.float32)  # as a float16-encoded column
        c.vectors._extents = tuple(Extent(e.start, e.rows, e.offset, e.size, Float16()) for e in c.vectors._extents)
        found = pipeline.load_column(c.vectors, device=DEVICE, backend=backend).cpu().numpy()
        np.testing.assert_array_equal(found.view(np.uint32), c.vectors.to_numpy().view(np.uint32))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_outputs(backend, dtype, tmp_path):
    column = column_of([(rows_of(50, 32), AffineUint8(-3.0, 0.0234567))], 32, tmp_path)
    found = pipeline.load_column(column, device=DEVICE, backend=backend, dtype=dtype)
    expected = torch.from_numpy(column.to_numpy()).to(getattr(torch, dtype))
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_small_buffers_ranges_and_out(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "CAPACITY", 40_000)
    column = column_of([(rows_of(333, 17, n), codec) for n, codec in enumerate(CODECS)], 17, tmp_path)
    whole = column.to_numpy()
    out = torch.empty((700, 17), device="cpu" if DEVICE == "host" else DEVICE)
    found = pipeline.load_column(column, device=DEVICE, backend=backend, start=100, stop=800, out=out)
    assert found is out
    np.testing.assert_array_equal(found.cpu().numpy(), whole[100:800])
    batches = list(pipeline.load_batches(column, 450, device=DEVICE, backend=backend))
    np.testing.assert_array_equal(torch.cat(batches).cpu().numpy(), whole)


def test_a_flipped_bit_is_a_corrupt_chunk(tmp_path):
    column = column_of([(rows_of(100, 16), Float16())], 16, tmp_path)
    content = bytearray((tmp_path / "pieces.bin").read_bytes())
    content[50] ^= 4
    (tmp_path / "pieces.bin").write_bytes(content)
    with pytest.raises(pv.Corrupt, match="checksum"):
        pipeline.load_column(column, device=DEVICE)
    pipeline.load_column(column, device=DEVICE, check=False)


def test_columns_without_codes_go_by_blocks(tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(rows_of(20, 5)))
    with pytest.warns(pv.FormatWarning), pv.open(tmp_path / "f.npy") as c:
        found = pipeline.load_column(c.vectors, device=DEVICE).cpu().numpy()
        np.testing.assert_array_equal(found, c.vectors.to_numpy())


def test_integer_columns_keep_their_type(tmp_path):
    pv.write(tmp_path / "i.ibin", np.arange(12, dtype=np.int32).reshape(3, 4))
    with pv.open(tmp_path / "i.ibin") as c:
        found = pipeline.load_column(c.vectors, device=DEVICE)
        assert found.dtype == torch.int32 and found.cpu().numpy()[2, 3] == 11


def test_crc_of_joined_pieces():
    data = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    for cut in (0, 1, 7, 4096, 5000):
        assert crc32_combine(crc32(data[:cut]), crc32(data[cut:]), 5000 - cut) == crc32(data)


def test_product_codes_are_put_together_on_the_device(tmp_path):
    from polyvec.codecs.product import Product

    rng = np.random.default_rng(2)
    for norms in (False, True):
        codec = Product(rng.standard_normal((6, 200, 3)).astype(np.float32), None, norms)
        codes, lengths = rng.integers(0, 200, (50, 6), dtype=np.uint8), rng.random(50).astype(np.float32)
        path = tmp_path / f"pq{norms}"
        path.write_bytes(codes.tobytes() + lengths.tobytes())
        others = (Part("norms", codes.nbytes),) if norms else ()
        extent = Extent(0, 50, 0, codes.nbytes, codec, others=others)
        column = FileColumn("vectors", open_source(path), [extent], row_shape=(18,), encoding="pq")
        found = pipeline.load_column(column, device=DEVICE).cpu().numpy()
        np.testing.assert_array_equal(found, column.to_numpy())


def test_ranges_of_a_file_and_their_sums(tmp_path):
    from polyvec.kernels import available_paths, use_path
    from polyvec.kernels.fileio import Filler

    data = np.random.default_rng(4).integers(0, 256, 1_000_003, dtype=np.uint8)
    (tmp_path / "f").write_bytes(data.tobytes())
    loads = np.array(
        [[0, 1, 0], [1, 600_001, 16], [600_002, 399_999, 700_000], [5, 0, 9], [77, 63, 1_200_000], [9, 200, 1_200_100]]
    )
    for path in available_paths():
        with use_path(path), open_source(tmp_path / "f") as source, Filler(source.fd, 3) as filler:
            outs = [np.zeros(1_300_000, np.uint8) for _ in range(4)]
            tickets = [filler.submit(loads, out, check=True) for out in outs]
            for ticket, out in zip(tickets, outs):
                for (offset, size, at), crc in zip(loads.tolist(), filler.wait(ticket)):
                    np.testing.assert_array_equal(out[at : at + size], data[offset : offset + size])
                    assert crc == crc32(data[offset : offset + size]), (path, size)
            with pytest.raises(EOFError):
                filler.wait(filler.submit(np.array([[1_000_000, 4, 0]]), outs[0], check=False))
