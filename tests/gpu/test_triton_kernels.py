"""The Triton kernel, launched by hand: values, roundings and the elements it must not touch."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="triton is not installed: no GPU tests")

from polyvec.gpu import plan, triton_kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNTOUCHED = -77.0


def decode(pieces, size, dtype="float32"):
    """Launch once over pieces (codes, kind, a, b, target, width, scales); what a flat output holds then."""
    content, records = bytearray(), []
    for codes, kind, a, b, target, width, scales in pieces:
        source = len(content)
        content += codes.tobytes()
        content += bytes(-len(content) % 16)
        extra = len(content)
        content += b"" if scales is None else scales.tobytes()
        content += bytes(-len(content) % 16)
        records.append((source, target, codes.size, kind, plan.bits(a), plan.bits(b), width, extra))
    table = np.array(records, np.int64)
    tiles = plan.tiles_of(table)
    out = torch.full((size,), UNTOUCHED, dtype=getattr(torch, dtype), device=DEVICE)
    triton_kernels.launch(
        torch.from_numpy(np.frombuffer(bytes(content), np.uint8).copy()).to(DEVICE),
        torch.from_numpy(table).to(DEVICE),
        torch.from_numpy(tiles).to(DEVICE),
        out,
        widths={piece[0].itemsize for piece in pieces},
        aligned=all(piece[4] % 16 == 0 for piece in pieces),
        count=len(tiles),
    )
    return out.cpu()


def singles(count, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, plan.TILE, plan.TILE + 5])
@pytest.mark.parametrize("target", [0, 3, 16])
def test_nothing_is_written_beside_a_piece(count, target):
    values = singles(count)
    found = decode([(values.view(np.uint32), plan.COPY32, 1, 0, target, 1, None)], target + count + 7).numpy()
    assert (found[:target] == UNTOUCHED).all() and (found[target + count :] == UNTOUCHED).all()
    assert found[target : target + count].tobytes() == values.tobytes()


def test_pieces_of_all_widths_are_decoded_by_one_call():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, 60, dtype=np.uint8)
    halves, wide, scales = singles(50, 2).astype(np.float16), singles(40, 3), singles(20, 4)
    found = decode(
        [
            (wide.view(np.uint32), plan.COPY32, 1, 0, 200, 1, None),
            (halves.view(np.uint16), plan.HALF, 1, 0, 100, 1, None),
            (codes, plan.AFFINE, 0.0234567, -3, 0, 1, None),
            (codes, plan.SYMMETRIC, 126.5, 0, 240, 1, None),
            (codes, plan.SCALED, 1, 0, 300, 3, scales),
        ],
        360,
    ).numpy()
    signed = codes.view(np.int8).astype(np.float32)
    scale, least = np.float32(0.0234567), np.float32(-3)
    np.testing.assert_array_equal(found[:60], codes.astype(np.float32) * scale + least)
    np.testing.assert_array_equal(found[100:150], halves.astype(np.float32))
    np.testing.assert_array_equal(found[200:240], wide)
    np.testing.assert_array_equal(found[240:300], signed / np.float32(126.5))
    np.testing.assert_array_equal(found[300:360], signed * scales.repeat(3))


@pytest.mark.filterwarnings("ignore:.*encountered in cast")  # the interpreter's own casts
def test_broken_numbers_of_halves_keep_their_payload():
    halves = np.array([0x7C00, 0xFC00, 0x7C01, 0xFE12, 0x7FFF, 0x0001, 0x8000], np.uint16)
    found = decode([(halves, plan.HALF, 1, 0, 0, 1, None)], len(halves)).numpy().view(np.uint32)
    wanted = [0x7F800000, 0xFF800000, 0x7F802000, 0xFFC24000, 0x7FFFE000, 0x33800000, 0x80000000]
    assert found.tolist() == wanted


def test_bfloat16_is_rounded_to_the_nearest_even_and_a_nan_stays_one():
    bits = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0xFFC00001], np.uint32)
    found = decode([(bits, plan.COPY32, 1, 0, 0, 1, None)], len(bits), "bfloat16").view(torch.int16).numpy()
    assert found.view(np.uint16).tolist() == [0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FC0, 0xFFC0]


@pytest.mark.filterwarnings("ignore:.*encountered in cast")  # the interpreter's own casts
def test_float16_outputs_are_rounded_as_numpy_rounds():
    values = np.concatenate([singles(200), np.float32([65504, 65519.9, 65520, -1e9, 1e-8, 6e-8])])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    found = decode([(values.view(np.uint32), plan.COPY32, 1, 0, 0, 1, None)], len(values), "float16").numpy()
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))
