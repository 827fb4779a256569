"""Every path of every cast gives the reference's bits, and the reference gives NumPy's and ml_dtypes'."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyvec import kernels
from polyvec.kernels import reference

SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 1000, 4099]
# Zeros, subnormals, one; ties of both 16-bit formats; the ends of their ranges; infinities, NaNs.
SPECIAL_BITS = """
    00000000 80000000 00000001 807FFFFF 00800000 3F800000 BF800000
    3F801000 3F803000 3F800FFF 3F801001 3F808000 3F818000 3F807FFF 3F808001
    33000000 33000001 32FFFFFF 33C00000 387FC000 387FE000 387FFFFF 38800000
    477FE000 477FEFFF 477FF000 47800000 7F7FFFFF 7F7F7FFF 7F7F8000 FF7FFFFF
    7F800000 FF800000 7FC00000 FFC00000 7F800001 FF800001 7F801FFF 7F802000
    7FBFFFFF FFFFFFFF 7FFFFFFF 7FA00000
"""
SPECIAL = np.array([int(word, 16) for word in SPECIAL_BITS.split()], np.uint32).view(np.float32)


def random_floats(size: int, seed: int = 1) -> np.ndarray:
    """Any bit pattern: all exponents, NaNs and infinities among them, and the special values."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, size, dtype=np.uint32)
    floats = bits.view(np.float32)
    floats[: min(size, SPECIAL.size)] = SPECIAL[:size]
    return floats


def unit_floats(size: int, seed: int = 2) -> np.ndarray:
    """Values as embeddings have them, with some special ones."""
    floats = np.random.default_rng(seed).uniform(-1.2, 1.2, size).astype(np.float32)
    floats[-min(size, SPECIAL.size) :] = SPECIAL[: min(size, SPECIAL.size)]
    return floats


def shifted(array: np.ndarray, by: int) -> np.ndarray:
    """The same array, `by` bytes past a 64-byte boundary."""
    store = np.zeros(array.nbytes + 192, np.uint8)
    start = -store.ctypes.data % 64 + by
    moved = store[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def codes(size: int, dtype: type) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, size, dtype=np.uint8).view(dtype)


def halves(size: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 1 << 16, size, dtype=np.uint16)


def scales(array: np.ndarray) -> np.ndarray:
    """One a row of 16, subnormal, zero and enormous ones among them."""
    rows = np.random.default_rng(5).uniform(1e-4, 0.02, array.size // 16).astype(np.float32)
    special = np.array([0.0, 1e-42, 3e38, np.inf, -0.5], np.float32)
    rows[: min(special.size, rows.size)] = special[: min(special.size, rows.size)]
    return rows


def by_row(array: np.ndarray) -> np.ndarray:
    return array[: array.size // 16 * 16].reshape(-1, 16)


Cast = Callable[..., Any]
CASTS: dict[str, tuple[Callable[[int], np.ndarray], Cast]] = {
    "f16_to_f32": (halves, kernels.f16_to_f32),
    "bf16_to_f32": (halves, kernels.bf16_to_f32),
    "f32_to_f16": (random_floats, kernels.f32_to_f16),
    "f32_to_bf16": (random_floats, kernels.f32_to_bf16),
    "u8_to_f32": (lambda n: codes(n, np.uint8), lambda x, **k: kernels.u8_to_f32(x, -0.3, 0.0047, **k)),
    "f32_to_u8": (unit_floats, lambda x, **k: kernels.f32_to_u8(x, -1.1, 2.2 / 255, **k)),
    "f32_to_u8, any bits": (random_floats, lambda x, **k: kernels.f32_to_u8(x, -1e30, 1e28, **k)),
    "f32_to_u8, scale 0": (unit_floats, lambda x, **k: kernels.f32_to_u8(x, 1.0, 0.0, **k)),
    "i8_to_f32": (lambda n: codes(n, np.int8), kernels.i8_to_f32),
    "i8_to_f32, divisor 0": (
        lambda n: codes(n, np.int8),
        lambda x, **k: kernels.i8_to_f32(x, divisor=0, **k),
    ),
    "f32_to_i8": (unit_floats, kernels.f32_to_i8),
    "f32_to_i8, any bits": (random_floats, lambda x, **k: kernels.f32_to_i8(x, multiplier=1e-30, **k)),
    "i8_to_f32, rows": (
        lambda n: by_row(codes(n, np.int8)),
        lambda x, **k: kernels.i8_to_f32(x, scales=scales(x), **k),
    ),
    "f32_to_i8, rows": (
        lambda n: by_row(unit_floats(n)),
        lambda x, **k: kernels.f32_to_i8(x, scales=scales(x), **k),
    ),
}
COMPILED = [path for path in kernels.available_paths() if path != "numpy"]
every_compiled_path = pytest.mark.parametrize("path", COMPILED or ["none"])
every_path = pytest.mark.parametrize("path", kernels.available_paths())
every_cast = pytest.mark.parametrize("name", CASTS)


def run(path: str, cast: Cast, *args: Any, **options: Any) -> Any:
    if path == "none":
        pytest.skip("the compiled module is not built")
    with kernels.use_path(path):
        return cast(*args, **options)


@every_compiled_path
@every_cast
def test_every_path_equals_the_reference_at_every_size_and_offset(path: str, name: str) -> None:
    make, cast = CASTS[name]
    for size in SIZES:
        source = make(size)
        expected = run("numpy", cast, source)
        assert same_bits(run(path, cast, source), expected)
        for offset in (1, 2, 4, 36):
            out = shifted(np.full_like(expected, 1), 64 - offset)
            assert run(path, cast, shifted(source, offset), out=out) is out
            assert same_bits(out, expected), (size, offset)


@functools.lru_cache(maxsize=1)  # the paths of one cast follow each other
def large(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A source with an output above the 8 MB from which stores are streamed, and the reference's result."""
    make, cast = CASTS[name]
    source = make((8 << 20) // cast(make(16)).itemsize + 8 * 16 + 5)
    return source, run("numpy", cast, source)


@every_cast
@every_compiled_path
def test_streamed_and_threaded_casts_equal_the_reference(path: str, name: str) -> None:
    source, expected = large(name)
    for offset in (0, 1, 8):
        out = shifted(np.zeros_like(expected), offset)
        run(path, CASTS[name][1], source, out=out, num_threads=3)
        assert same_bits(out, expected)


@every_compiled_path
@every_cast
def test_nothing_is_written_beside_out(path: str, name: str) -> None:
    make, cast = CASTS[name]
    source = make(1000)
    shape = run("numpy", cast, source)
    store = np.full(shape.nbytes + 128, 0xAB, np.uint8)
    out = store[61 : 61 + shape.nbytes].view(shape.dtype).reshape(shape.shape)
    run(path, cast, source, out=out)
    assert (store[:61] == 0xAB).all()
    assert (store[61 + shape.nbytes :] == 0xAB).all()


@every_path
def test_all_halves_decode_as_numpy_decodes_them(path: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    decoded = run(path, kernels.f16_to_f32, every.view(np.float16))
    expected = every.view(np.float16).astype(np.float32)
    numbers = ~np.isnan(expected)
    assert same_bits(decoded[numbers], expected[numbers])
    half = every[~numbers].astype(np.uint32)
    kept = (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13
    assert same_bits(decoded[~numbers].view(np.uint32), kept)


@every_path
def test_every_half_survives_the_way_to_float32_and_back(path: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    back = run(path, kernels.f32_to_f16, run(path, kernels.f16_to_f32, every))
    assert back.dtype == np.float16
    assert same_bits(back.view(np.uint16), every)


@every_path
def test_halves_round_as_numpy_rounds_them(path: str) -> None:
    # Around every half: itself, the midpoint to the next, and one unit to either side of both.
    bits = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    middle = ((bits[:-1].view(np.float32).astype(np.float64) + bits[1:].view(np.float32)) / 2).astype(np.float32)
    near = np.concatenate([bits, middle.view(np.uint32)])
    near = np.concatenate([near, near + 1, np.maximum(near, 1) - 1, np.array([0x477FF000], np.uint32)])
    floats = np.concatenate([near, near | 0x80000000]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = floats.astype(np.float16)
    assert same_bits(run(path, kernels.f32_to_f16, floats), expected)


@every_path
def test_bfloat16_equals_ml_dtypes(path: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    typed = every.view(ml_dtypes.bfloat16)
    assert same_bits(run(path, kernels.bf16_to_f32, typed), typed.astype(np.float32))
    floats = random_floats(1 << 18)
    # Exact halfway values, both ways to even.
    floats[1 << 17 :].view(np.uint32)[...] = floats[1 << 17 :].view(np.uint32) & 0xFFFF0000 | 0x8000
    encoded = run(path, kernels.f32_to_bf16, floats)
    assert encoded.dtype == np.uint16
    with np.errstate(all="ignore"):
        assert same_bits(encoded, floats.astype(ml_dtypes.bfloat16).view(np.uint16))
    out = np.empty(floats.shape, ml_dtypes.bfloat16)
    assert run(path, kernels.f32_to_bf16, floats, out) is out
    assert same_bits(out.view(np.uint16), encoded)


@every_path
def test_affine_codes_are_rounded_twice(path: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    fused_differs = 0
    for minimum, scale in [(-0.37, 0.0031), (1e-3, 1 / 3), (-7.1, 0.1), (0.0, 1e-42), (3e38, 1e36)]:
        low, step = np.float32(minimum), np.float32(scale)
        with np.errstate(all="ignore"):
            expected = every.astype(np.float32) * step + low
            fused = (every.astype(np.float64) * np.float64(step) + np.float64(low)).astype(np.float32)
        assert same_bits(run(path, kernels.u8_to_f32, every, minimum, scale), expected)
        fused_differs += int((expected != fused).sum())
    assert fused_differs > 0  # or the claim would hold for a fused kernel too


@every_path
def test_affine_parameters_that_are_not_finite_give_the_same_bits_on_every_path(path: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    for minimum, scale in [(np.nan, 1.0), (0.0, np.inf), (np.nan, -np.nan), (np.inf, -np.inf), (1e60, 1)]:
        expected = run("numpy", kernels.u8_to_f32, every, minimum, scale)
        assert same_bits(run(path, kernels.u8_to_f32, every, minimum, scale), expected)


@every_path
def test_affine_encoding_rounds_ties_to_even_and_clamps(path: str) -> None:
    values = np.array([0.5, 1.5, 2.5, 254.5, 255.5, 300, -0.5, -3, np.inf, -np.inf, np.nan], np.float32)
    encoded = run(path, kernels.f32_to_u8, values, 0.0, 1.0)
    assert encoded.tolist() == [0, 2, 2, 254, 255, 255, 0, 0, 255, 0, 0]


@every_path
def test_every_code_survives_decoding_and_encoding(path: str) -> None:
    unsigned = np.arange(256, dtype=np.uint8)
    decoded = run(path, kernels.u8_to_f32, unsigned, -0.7, 0.0055)
    assert same_bits(run(path, kernels.f32_to_u8, decoded, -0.7, 0.0055), unsigned)
    signed = np.arange(-127, 128, dtype=np.int8)
    assert same_bits(run(path, kernels.f32_to_i8, run(path, kernels.i8_to_f32, signed)), signed)


@every_path
def test_affine_encoding_divides(path: str) -> None:
    values = np.random.default_rng(6).uniform(0, 1, 1 << 20).astype(np.float32)
    scale = np.float32(1 / 255)
    expected = np.rint((values - np.float32(0)) / scale).astype(np.uint8)
    assert same_bits(run(path, kernels.f32_to_u8, values, 0.0, float(scale)), expected)
    ties = np.arange(255, dtype=np.float32) * np.float32(0.1) + np.float32(0.05)
    expected = np.rint(ties / np.float32(0.1)).astype(np.uint8)
    assert (expected != np.rint(ties * (np.float32(1) / np.float32(0.1)))).any()  # a reciprocal would differ
    assert same_bits(run(path, kernels.f32_to_u8, ties, 0.0, 0.1), expected)


@every_path
def test_symmetric_codes_are_divided_not_multiplied(path: str) -> None:
    every = np.arange(-128, 128).astype(np.int8)
    decoded = run(path, kernels.i8_to_f32, every)
    assert same_bits(decoded, every.astype(np.float32) / np.float32(127))
    assert (decoded != every.astype(np.float32) * (np.float32(1) / np.float32(127))).sum() == 16


@every_path
def test_symmetric_encoding_rounds_ties_to_even_and_clamps(path: str) -> None:
    values = np.array([0.5, 1.5, -0.5, -1.5, 126.5, 127.5, 200, -200, np.inf, -np.inf, np.nan], np.float32)
    encoded = run(path, kernels.f32_to_i8, values, multiplier=1.0)
    assert encoded.tolist() == [0, 2, 0, -2, 126, 127, 127, -127, 127, -127, 0]


@every_path
def test_row_scales_apply_to_their_rows(path: str) -> None:
    array = np.arange(-60, 60, dtype=np.int8).reshape(8, 15)
    factors = np.linspace(0.001, 0.7, 8, dtype=np.float32)
    decoded = run(path, kernels.i8_to_f32, array, scales=factors)
    assert same_bits(decoded, array.astype(np.float32) * factors[:, None])
    assert same_bits(run(path, kernels.f32_to_i8, decoded, scales=factors), array)


@every_path
def test_min_max_equal_numpy_at_every_size_and_offset(path: str) -> None:
    for size in [*SIZES[1:], 300_001]:
        floats = np.random.default_rng(size).normal(size=size).astype(np.float32)
        for offset in (0, 1, 4):
            found = run(path, kernels.f32_min_max, shifted(floats, offset), num_threads=2)
            assert found == (float(floats.min()), float(floats.max()), True)


@every_path
@pytest.mark.parametrize("where", [0, 5, 63, 64, 99, 300_000])
def test_min_max_finds_what_is_not_finite(path: str, where: int) -> None:
    floats = np.ones(300_001, np.float32)
    floats[where] = np.nan
    low, high, finite = run(path, kernels.f32_min_max, floats, num_threads=2)
    assert low != low
    assert high != high
    assert finite is False
    floats[where] = -np.inf
    assert run(path, kernels.f32_min_max, floats) == (-np.inf, 1.0, False)
    floats[where] = np.inf
    assert run(path, kernels.f32_min_max, floats) == (1.0, np.inf, False)
    floats[where] = -1
    assert run(path, kernels.f32_min_max, floats) == (-1.0, 1.0, True)


@every_path
def test_min_max_of_nothing_starts_a_running_one_and_zeros_are_positive(path: str) -> None:
    assert run(path, kernels.f32_min_max, np.empty(0, np.float32)) == (np.inf, -np.inf, True)
    low, high, _ = run(path, kernels.f32_min_max, np.array([-0.0, 0.0] * 40, np.float32))
    assert not np.signbit([low, high]).any()


@every_path
def test_read_only_sources_any_shape_and_reused_outputs(path: str) -> None:
    source = np.frombuffer(halves(24).tobytes(), np.float16).reshape(2, 3, 4)
    decoded = run(path, kernels.f16_to_f32, source)
    assert decoded.shape == (2, 3, 4)
    out = np.empty(24, np.float32)
    assert run(path, kernels.f16_to_f32, source, out) is out
    assert same_bits(out, decoded.reshape(-1))


@every_path
def test_arrays_that_do_not_fit_are_named_in_one_line(path: str) -> None:
    half = np.zeros((4, 4), np.float16)

    def fails(kind: type[Exception], message: str, cast: Cast, *args: Any, **options: Any) -> None:
        with pytest.raises(kind, match=message) as caught:
            run(path, cast, *args, **options)
        assert "\n" not in str(caught.value)

    fails(
        TypeError,
        "expected an array of float16 or uint16, found float64",
        kernels.f16_to_f32,
        half.astype("f8"),
    )
    fails(
        TypeError,
        "expected an array of float32, found float32 \\(>f4\\)",
        kernels.f32_to_f16,
        half.astype(">f4"),
    )
    fails(TypeError, "found list", kernels.f16_to_f32, [1.0])
    fails(ValueError, "C-contiguous", kernels.f16_to_f32, half[:, :2])
    fails(ValueError, "out has 3 elements: expected 16", kernels.f16_to_f32, half, np.zeros(3, np.float32))
    fails(TypeError, "expected an array of float32", kernels.f16_to_f32, half, np.zeros(16, np.float64))
    frozen = np.zeros(16, np.float32)
    frozen.flags.writeable = False
    fails(ValueError, "read-only", kernels.f16_to_f32, half, frozen)
    store = np.zeros(64, np.uint8)
    fails(ValueError, "overlaps", kernels.u8_to_f32, store[:16], 0, 1, store.view(np.float32))
    int8 = half.astype(np.int8)
    fails(ValueError, "one a row", kernels.i8_to_f32, int8, scales=np.ones(3, np.float32))
    fails(ValueError, "2-D", kernels.i8_to_f32, int8[0], scales=np.ones(4, np.float32))


def test_the_reference_works_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: run("numpy", cast, make(1000)) for name, (make, cast) in CASTS.items()}
    low_high = run("numpy", kernels.f32_min_max, unit_floats(1000)[:900])
    for size in (7, 16, 100):  # shorter than a row, one row, some rows
        monkeypatch.setattr(reference, "SLICE", size)
        for name, (make, cast) in CASTS.items():
            assert same_bits(run("numpy", cast, make(1000)), whole[name])
        assert run("numpy", kernels.f32_min_max, unit_floats(1000)[:900]) == low_high


def test_the_reference_needs_little_memory() -> None:
    import tracemalloc

    source = np.zeros(1 << 23, np.float32)
    for cast, out in [
        (kernels.f32_to_f16, np.empty(source.size, np.float16)),
        (kernels.f32_to_i8, np.empty(source.size, np.int8)),
        (kernels.f32_to_bf16, np.empty(source.size, np.uint16)),
    ]:
        tracemalloc.start()
        run("numpy", cast, source, out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6 << 20
