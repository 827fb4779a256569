"""Axes of plots: where a value goes between two pixels, and the ticks to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Axis:
    """Ticks lie inside the axis, each with a label of its own."""

    place: Callable[[float], float]  # value -> pixel
    ticks: list[tuple[float, str]]


def axis(low: float, high: float, start: float, end: float, *, log: bool = False, whole: bool = False) -> Axis:
    """The axis from `low` at pixel `start` to `high` at pixel `end`; with `whole` ticks are at whole numbers only."""
    return _logarithmic(low, high, start, end) if log else _linear(low, high, start, end, whole)


def _logarithmic(low: float, high: float, start: float, end: float) -> Axis:
    if high <= low:
        low, high = low / 2, low * 2
    first, last = log10(low), log10(high)
    ticks = _decades(first, last)
    if len(ticks) < 3:
        fine = [m * 10.0**d for d in range(floor(first), floor(last) + 1) for m in (1, 2, 5)]
        inside = [v for v in fine if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        ticks = [(v, f"{v:,.4g}") for v in (inside if len(inside) > 1 else (low, high))]
    return Axis(lambda v: start + (log10(v) - first) / (last - first) * (end - start), ticks)


def _decades(first: float, last: float) -> list[tuple[float, str]]:
    """Powers of ten between two logarithms, about eight at the most."""
    inside = [d for d in range(floor(first), floor(last) + 2) if first - 1e-9 <= d <= last + 1e-9]
    step = max(1, len(inside) // 8)
    return [(10.0**d, f"1e{d}" if abs(d) > 3 else f"{10.0**d:,.4g}") for d in inside[::step]]


def _linear(low: float, high: float, start: float, end: float, whole: bool) -> Axis:
    half = high / 2 - low / 2  # of the axis; halves, because the whole may be more than a float holds
    if half < max(1e-300, 1e-14 * abs(low)):
        low, high = low - 0.1 * (abs(low) or 1), high + 0.1 * (abs(low) or 1)
        half = high / 2 - low / 2
    gap = _gap(half / 2.5, whole)
    first = ceil(low / gap - 1e-6)
    values = [n * gap for n in range(first, first + 9) if n * gap <= high + 1e-6 * gap]
    return Axis(lambda v: start + (v / 2 - low / 2) / half * (end - start), [(v, _label(v, gap)) for v in values])


def _gap(least: float, whole: bool) -> float:
    """The round number between two ticks, at least `least`."""
    size = 10.0 ** floor(log10(least))
    gap = next(m * size for m in (1, 2, 5, 10) if m * size >= least * (1 - 1e-9))
    return max(1.0, gap) if whole else gap


def _label(value: float, gap: float) -> str:
    """A tick's label, with as many digits as tell it from the next one, which is `gap` away."""
    if abs(value) < gap / 2:
        return "0"
    exponent, finest = floor(log10(abs(value)) + 1e-9), floor(log10(gap) + 1e-9)
    if exponent >= 7 or finest < -5:
        return f"{value:.{max(0, exponent - finest)}e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:,.{max(0, -finest)}f}"
