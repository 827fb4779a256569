"""Plots as inline SVG: bars and points, no scripts, no outside assets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from math import floor, isfinite, log10

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 48
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#475569", "#b45309")

Scale = Callable[[float], float]


def points(
    title: str, marks: Sequence[tuple[str, float, float]], *, x: str, y: str, log_x: bool = False,
    low: float | None = None, high: float | None = None, intervals: Sequence[tuple[float, float]] | None = None,
) -> str:  # fmt: skip
    """Named points; `marks` are (name, x, y), `intervals` the ends of each one's whisker."""
    ends = list(intervals) if intervals is not None else [(m[2], m[2]) for m in marks]
    drawn = [
        (mark, end)
        for mark, end in zip(marks, ends)
        if isfinite(mark[1]) and isfinite(mark[2]) and (mark[1] > 0 or not log_x)
    ]
    if not drawn:
        return ""
    marks, ends = [mark for mark, _ in drawn], [end for _, end in drawn]
    xs, ys = [m[1] for m in marks], [value for m, end in drawn for value in (m[2], *end)]
    bottom = min(ys) if low is None else low
    top = max(ys) if high is None else high
    place_x, ticks_x = _axis(min(xs), max(xs), LEFT + 20, WIDTH - RIGHT - 60, log_x)
    place_y, ticks_y = _axis(bottom, top, HEIGHT - BOTTOM, TOP, False)
    body = []
    labels: list[tuple[float, float]] = []
    for i, (name, x_value, value) in enumerate(marks):
        px, py = place_x(x_value), place_y(value)
        colour = COLOURS[i % len(COLOURS)]
        if ends[i][0] < ends[i][1]:
            least, most = place_y(max(ends[i][0], bottom)), place_y(min(ends[i][1], top))
            body.append(
                f'<path d="M{px:.1f} {least:.1f}V{most:.1f}M{px - 4:.1f} {least:.1f}h8M{px - 4:.1f} {most:.1f}h8" '
                f'class="whisker" stroke="{colour}" fill="none"/>'
            )
        body.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{colour}">'
            f"<title>{escape(name)}: {value:.4g}{_span(ends[i])}</title></circle>"
        )
        at = py - 9
        while any(abs(at - b) < 11 and abs(px - a) < 62 for a, b in labels):
            at += 11 if at > py or py < TOP + 60 else -11
            at = py + 17 if py - 10 < at < py + 16 else at
        labels.append((px, at))
        body.append(f'<text x="{px:.1f}" y="{at:.1f}" text-anchor="middle" class="mark">{escape(name)}</text>')
    return _frame(title, x, y, place_x, ticks_x, place_y, ticks_y, body)


def _span(ends: tuple[float, float]) -> str:
    return f" ({ends[0]:.4g} to {ends[1]:.4g})" if ends[0] < ends[1] else ""


def bars(
    title: str, edges: Sequence[float], counts: Sequence[float], *, x: str, y: str = "rows", log_x: bool = False,
    colour: str = COLOURS[0],
) -> str:  # fmt: skip
    """A histogram; `edges` has one entry more than `counts`."""
    counts = [c if isfinite(c) else 0 for c in counts]
    pairs = [
        (a, b, c) for a, b, c in zip(edges, edges[1:], counts) if isfinite(a) and isfinite(b) and (a > 0 or not log_x)
    ]
    used = [i for i, p in enumerate(pairs) if p[2]]
    if not used:
        return ""
    if log_x:
        pairs = pairs[max(0, used[0] - 1) : used[-1] + 2]
    place_x, ticks_x = _axis(pairs[0][0], pairs[-1][1], LEFT, WIDTH - RIGHT, log_x)
    place_y, ticks_y = _axis(0, max(p[2] for p in pairs), HEIGHT - BOTTOM, TOP, False)
    zero = place_y(0)
    body = []
    for a, b, count in pairs:
        left, right, top = place_x(a), place_x(b), place_y(count)
        body.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.5, right - left - 1):.1f}" height="{zero - top:.1f}" '
            f'fill="{colour}"><title>{a:.4g} to {b:.4g}: {count:,}</title></rect>'
        )
    return _frame(title, x, y, place_x, ticks_x, place_y, ticks_y, body)


def lines(
    title: str,
    edges: Sequence[float],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    x: str,
    y: str,
    log_x: bool = False,
) -> str:
    """Several histograms over the same edges, as outlines with a legend."""
    series = [(name, [v if isfinite(v) else 0 for v in values]) for name, values in series]
    spans = [
        (i, a, b) for i, (a, b) in enumerate(pairwise(edges)) if isfinite(a) and isfinite(b) and (a > 0 or not log_x)
    ]
    used = [s for s in spans if any(values[s[0]] for _, values in series)]
    if not used:
        return ""
    spans = [s for s in spans if used[0][0] <= s[0] <= used[-1][0]]
    place_x, ticks_x = _axis(spans[0][1], spans[-1][2], LEFT, WIDTH - RIGHT - 110, log_x)
    place_y, ticks_y = _axis(0, max(max(v[i] for i, _, _ in spans) for _, v in series), HEIGHT - BOTTOM, TOP, False)
    body = []
    for n, (name, values) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{place_x(e):.1f},{place_y(values[i]):.1f}" for i, a, b in spans for e in (a, b))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        at = TOP + 6 + 17 * n
        body.append(f'<rect x="{WIDTH - 112}" y="{at}" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{WIDTH - 98}" y="{at + 9}" class="mark">{escape(name)}</text>')
    return _frame(title, x, y, place_x, ticks_x, place_y, ticks_y, body)


def _axis(
    low: float, high: float, start: float, end: float, logarithmic: bool
) -> tuple[Scale, list[tuple[float, str]]]:
    """Where a value goes between two pixels, and the ticks to show."""
    if high <= low:
        low, high = (low / 2, low * 2) if logarithmic else (low - abs(low) * 0.1 - 1e-9, low + abs(low) * 0.1 + 1e-9)
    if logarithmic:
        a, b = log10(low), log10(high)
        decades = [d for d in range(floor(a), floor(b) + 2) if a - 1e-9 <= d <= b + 1e-9]
        step = max(1, len(decades) // 8)
        ticks = [(10.0**d, f"1e{d}" if abs(d) > 3 else f"{10.0**d:,.4g}") for d in decades[::step]]
        if len(ticks) < 2:
            ticks = [(v, f"{v:,.4g}") for v in (low, 10 ** ((a + b) / 2), high)]
        return lambda v: start + (log10(v) - a) / (b - a) * (end - start), ticks
    raw = (high - low) / 5
    size = 10.0 ** floor(log10(raw))
    step_size = next(m * size for m in (1, 2, 5, 10) if m * size >= raw)
    first = floor(low / step_size) * step_size
    values = [first + i * step_size for i in range(9) if low - 1e-9 <= first + i * step_size <= high + step_size * 0.01]
    return lambda v: start + (v - low) / (high - low) * (end - start), [(v, f"{v:,.6g}") for v in values]


def _frame(
    title: str, x: str, y: str, place_x: Scale, ticks_x: list[tuple[float, str]], place_y: Scale,
    ticks_y: list[tuple[float, str]], body: list[str],
) -> str:  # fmt: skip
    base = HEIGHT - BOTTOM
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">',
        f'<text x="{LEFT}" y="18" class="title">{escape(title)}</text>',
    ]
    for value, label in ticks_y:
        at = place_y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" class="tick">{escape(label)}</text>')
    for value, label in ticks_x:
        at = place_x(value)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{base}" y2="{base + 4}" class="axis"/>')
        parts.append(f'<text x="{at:.1f}" y="{base + 17}" text-anchor="middle" class="tick">{escape(label)}</text>')
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" class="axis"/>')
    parts += body
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle" class="tick">{escape(x)}</text>'
    )
    middle = (TOP + base) / 2
    parts.append(
        f'<text x="14" y="{middle:.0f}" text-anchor="middle" class="tick" transform="rotate(-90 14 {middle:.0f})">'
        f"{escape(y)}</text>"
    )
    return "".join(parts) + "</svg>"
