"""Axes: ticks inside, apart and told apart by their labels; values between the pixels of the ends."""

from __future__ import annotations

from math import log10

import pytest

from polyvec.reports.axes import axis


def number(label: str) -> float:
    return float(label.replace(",", ""))


def check_ticks(ticks: list[tuple[float, float]], low: float, high: float, *, log: bool = False) -> None:
    """Ticks (label, pixel) are told apart, lie between two pixels, and are where the first and the last say."""
    labels = [label for label, _ in ticks]
    assert len(ticks) >= 2 and len(set(labels)) == len(labels) and labels == sorted(labels)
    assert all(min(low, high) - 1 <= pixel <= max(low, high) + 1 for _, pixel in ticks), "a tick is outside the plot"
    (a, pa), (b, pb) = ticks[0], ticks[-1]
    scale = log10 if log else float
    for label, pixel in ticks:
        assert abs(pa + (scale(label) - scale(a)) / (scale(b) - scale(a)) * (pb - pa) - pixel) < 3


SPANS = [
    (0, 1),
    (-1, 1),
    (0, 7),
    (-3.7, 12.2),
    (1e6, 1e6 + 3),
    (1000.001, 1000.002),
    (-1e-12, 3e-12),
    (0, 1e-20),
    (2e9, 7e9),
    (-8e307, 7e307),
    (1e-300, 5e-300),
    (0.1, 0.10001),
    (0, 0),
    (5, 5),
    (-2, -2),
    (1e300, 1e300),
]


@pytest.mark.parametrize(("low", "high"), SPANS)
def test_ticks_lie_inside_the_axis_and_tell_apart(low: float, high: float):
    found = axis(low, high, 64, 624)
    check_ticks([(number(label), found.place(value)) for value, label in found.ticks], 64, 624)
    assert 2 <= len(found.ticks) <= 12 and 63 <= found.place(low) <= found.place(high) <= 625


@pytest.mark.parametrize(
    ("low", "high"), [(1, 10), (3, 4), (0.02, 700), (1, 1e9), (1e-30, 1e30), (1e-300, 1e300), (8, 8), (1.5e6, 1.6e6)]
)
def test_ticks_of_a_logarithmic_axis_lie_inside_and_tell_apart(low: float, high: float) -> None:
    found = axis(low, high, 64, 624, log=True)
    check_ticks([(number(label), found.place(value)) for value, label in found.ticks], 64, 624, log=True)
    assert 2 <= len(found.ticks) <= 16 and 63 <= found.place(low) <= found.place(high) <= 625


def test_the_ends_of_the_axis_are_its_pixels_and_it_may_run_upwards() -> None:
    for log in (False, True):
        up = axis(1, 100, 292, 34, log=log)
        assert (up.place(1), up.place(100)) == (292, 34)
        assert up.place(10) == pytest.approx(163 if log else 292 - 258 / 11)


def test_whole_ticks_are_at_whole_numbers_however_short_the_axis() -> None:
    assert axis(0, 3, 0, 100, whole=True).ticks == [(0, "0"), (1, "1"), (2, "2"), (3, "3")]
    assert [value for value, _ in axis(-0.5, 0.5, 0, 100, whole=True).ticks] == [0]
    assert [value for value, _ in axis(0, 1, 0, 100, whole=True).ticks] == [0, 1]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 5000, ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
        (0, 1e9, ["0", "2e8", "4e8", "6e8", "8e8", "1.0e9"]),
        (0, 1e-8, ["0", "2e-9", "4e-9", "6e-9", "8e-9", "1.0e-8"]),
        (0, 1e20, ["0", "2e19", "4e19", "6e19", "8e19", "1.0e20"]),
    ],
)
def test_labels_have_as_many_digits_as_tell_them_apart(low: float, high: float, labels: list[str]) -> None:
    assert [label for _, label in axis(low, high, 0, 100).ticks] == labels
