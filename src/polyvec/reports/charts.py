"""Plots as inline SVG: bars, lines and points, no scripts, no outside assets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby, pairwise
from math import isfinite

from polyvec.reports.axes import Axis, axis

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 48
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#475569", "#b45309")

Mark = tuple[str, float, float]  # name, x, y


def points(
    title: str,
    marks: Sequence[Mark],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    low: float | None = None,
    high: float | None = None,
    intervals: Sequence[tuple[float, float]] | None = None,
) -> str:
    """Named points; `marks` are (name, x, y), `intervals` the ends of each one's whisker."""
    ends = list(intervals) if intervals is not None else [(m[2], m[2]) for m in marks]
    drawn = [(mark, end) for mark, end in zip(marks, ends) if isfinite(mark[2]) and _drawable(mark[1], log_x)]
    if not drawn:
        return ""
    xs, ys = [mark[1] for mark, _ in drawn], [value for mark, end in drawn for value in (mark[2], *end)]
    bottom = min(ys) if low is None else low
    top = max(ys) if high is None else high
    if high is not None and bottom >= high:
        bottom = high - 0.1 * (abs(high) or 1)  # what cannot be exceeded stays the top of the axis
    across = axis(min(xs), max(xs), LEFT + 20, WIDTH - RIGHT - 60, log=log_x)
    up = axis(bottom, top, HEIGHT - BOTTOM, TOP)
    body = []
    labels: list[tuple[float, float]] = []
    for i, ((name, x_value, value), (least, most)) in enumerate(drawn):
        px, py = across.place(x_value), up.place(value)
        colour = COLOURS[i % len(COLOURS)]
        if least < most:
            body.append(_whisker(px, up.place(max(least, bottom)), up.place(min(most, top)), colour))
        body.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{colour}">'
            f"<title>{escape(name)}: {value:.4g}{_span((least, most))}</title></circle>"
        )
        at = _free_height(px, py, labels)
        labels.append((px, at))
        body.append(f'<text x="{px:.1f}" y="{at:.1f}" text-anchor="middle" class="mark">{escape(name)}</text>')
    return _frame(title, x, y, across, up, body)


def _drawable(value: float, log: bool) -> bool:
    return isfinite(value) and (value > 0 or not log)


def _whisker(px: float, least: float, most: float, colour: str) -> str:
    return (
        f'<path d="M{px:.1f} {least:.1f}V{most:.1f}M{px - 4:.1f} {least:.1f}h8M{px - 4:.1f} {most:.1f}h8" '
        f'class="whisker" stroke="{colour}" fill="none"/>'
    )


def _free_height(px: float, py: float, labels: Sequence[tuple[float, float]]) -> float:
    """How high a point's label goes so that it covers no other one: above the point, else further up or below."""
    at = py - 9
    while any(abs(at - b) < 11 and abs(px - a) < 62 for a, b in labels):
        at += 11 if at > py or py < TOP + 60 else -11
        at = py + 17 if py - 10 < at < py + 16 else at
    return at


def _span(ends: tuple[float, float]) -> str:
    return f" ({ends[0]:.4g} to {ends[1]:.4g})" if ends[0] < ends[1] else ""


def bars(
    title: str,
    edges: Sequence[float],
    counts: Sequence[float],
    *,
    x: str,
    y: str = "rows",
    log_x: bool = False,
    whole_x: bool = False,
    colour: str = COLOURS[0],
) -> str:
    """A histogram; `edges` has one entry more than `counts`. With `whole_x` ticks are at whole numbers only."""
    counts = [c if isfinite(c) else 0 for c in counts]
    pairs = [(a, b, c) for a, b, c in zip(edges, edges[1:], counts) if _drawable(a, log_x) and isfinite(b)]
    used = [i for i, p in enumerate(pairs) if p[2]]
    if not used:
        return ""
    if log_x:
        pairs = pairs[max(0, used[0] - 1) : used[-1] + 2]
    across = axis(pairs[0][0], pairs[-1][1], LEFT, WIDTH - RIGHT, log=log_x, whole=whole_x)
    whole_y = all(float(p[2]).is_integer() for p in pairs)
    up = axis(0, max(p[2] for p in pairs), HEIGHT - BOTTOM, TOP, whole=whole_y)
    zero = up.place(0)
    body = []
    for a, b, count in pairs:
        left, right, top = across.place(a), across.place(b), up.place(count)
        body.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.5, right - left - 1):.1f}" height="{zero - top:.1f}" '
            f'fill="{colour}"><title>{_bin(a, b, whole_x)}: {count:,.6g}</title></rect>'
        )
    return _frame(title, x, y, across, up, body)


def _bin(low: float, high: float, whole: bool) -> str:
    return f"{(low + high) / 2:.0f}" if whole else f"{low:.4g} to {high:.4g}"


def lines(
    title: str,
    edges: Sequence[float],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    whole_x: bool = False,
    from_zero: bool = True,
) -> str:
    """Several series over the same edges, as outlines with a legend.

    Counts start `from_zero`, and bins beyond the first and last that hold some are cut off; values do neither, and one that
    is not finite leaves a gap.
    """
    spans = [(i, a, b) for i, (a, b) in enumerate(pairwise(edges)) if _drawable(a, log_x) and isfinite(b)]

    def shown(value: float) -> bool:
        return isfinite(value) and (value != 0 or not from_zero)

    used = [s for s in spans if any(shown(values[s[0]]) for _, values in series)]
    if not used:
        return ""
    spans = [s for s in spans if used[0][0] <= s[0] <= used[-1][0]]
    drawn = [values[i] for _, values in series for i, _, _ in spans if isfinite(values[i])]
    across = axis(spans[0][1], spans[-1][2], LEFT, WIDTH - RIGHT - 110, log=log_x, whole=whole_x)
    up = axis(0 if from_zero else min(drawn), max(drawn), HEIGHT - BOTTOM, TOP)
    body: list[str] = []
    for n, (name, values) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        body += _outline([(a, b, values[i]) for i, a, b in spans], across, up, colour)
        at = TOP + 6 + 17 * n
        body.append(f'<rect x="{WIDTH - 112}" y="{at}" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{WIDTH - 98}" y="{at + 9}" class="mark">{escape(name)}</text>')
    return _frame(title, x, y, across, up, body)


def _outline(steps: Sequence[tuple[float, float, float]], across: Axis, up: Axis, colour: str) -> Iterator[str]:
    """A line over steps (from, to, value), broken where a value is not finite."""
    for known, some in groupby(steps, key=lambda step: isfinite(step[2])):
        if known:
            path = " ".join(f"{across.place(e):.1f},{up.place(v):.1f}" for a, b, v in some for e in (a, b))
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _frame(title: str, x: str, y: str, across: Axis, up: Axis, body: list[str]) -> str:
    """The axes with their titles around what is drawn."""
    base = HEIGHT - BOTTOM
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">',
        f'<text x="{LEFT}" y="18" class="title">{escape(title)}</text>',
    ]
    for value, label in up.ticks:
        at = up.place(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" class="tick">{escape(label)}</text>')
    for value, label in across.ticks:
        at = across.place(value)
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
