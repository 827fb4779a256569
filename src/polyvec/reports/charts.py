"""Plots as inline SVG: bars, lines and points, no scripts, no outside assets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby, pairwise
from math import ceil, floor, isfinite, log10

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 48
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#475569", "#b45309")

Scale = Callable[[float], float]


def points(
    title: str,
    marks: Sequence[tuple[str, float, float]],
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
    if high is not None and bottom >= high:
        bottom = high - 0.1 * (abs(high) or 1)  # what cannot be exceeded stays the top of the axis
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
    pairs = [
        (a, b, c) for a, b, c in zip(edges, edges[1:], counts) if isfinite(a) and isfinite(b) and (a > 0 or not log_x)
    ]
    used = [i for i, p in enumerate(pairs) if p[2]]
    if not used:
        return ""
    if log_x:
        pairs = pairs[max(0, used[0] - 1) : used[-1] + 2]
    place_x, ticks_x = _axis(pairs[0][0], pairs[-1][1], LEFT, WIDTH - RIGHT, log_x, whole=whole_x)
    whole_y = all(float(p[2]).is_integer() for p in pairs)
    place_y, ticks_y = _axis(0, max(p[2] for p in pairs), HEIGHT - BOTTOM, TOP, False, whole=whole_y)
    zero = place_y(0)
    body = []
    for a, b, count in pairs:
        left, right, top = place_x(a), place_x(b), place_y(count)
        body.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.5, right - left - 1):.1f}" height="{zero - top:.1f}" '
            f'fill="{colour}"><title>{_bin(a, b, whole_x)}: {count:,.6g}</title></rect>'
        )
    return _frame(title, x, y, place_x, ticks_x, place_y, ticks_y, body)


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
    spans = [
        (i, a, b) for i, (a, b) in enumerate(pairwise(edges)) if isfinite(a) and isfinite(b) and (a > 0 or not log_x)
    ]

    def shown(value: float) -> bool:
        return isfinite(value) and (value != 0 or not from_zero)

    used = [s for s in spans if any(shown(values[s[0]]) for _, values in series)]
    if not used:
        return ""
    spans = [s for s in spans if used[0][0] <= s[0] <= used[-1][0]]
    drawn = [values[i] for _, values in series for i, _, _ in spans if isfinite(values[i])]
    place_x, ticks_x = _axis(spans[0][1], spans[-1][2], LEFT, WIDTH - RIGHT - 110, log_x, whole=whole_x)
    place_y, ticks_y = _axis(0 if from_zero else min(drawn), max(drawn), HEIGHT - BOTTOM, TOP, False)
    body = []
    for n, (name, values) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        held = [(isfinite(values[i]), (a, values[i]), (b, values[i])) for i, a, b in spans]
        for known, some in groupby(held, key=lambda place: place[0]):
            if known:
                path = " ".join(f"{place_x(e):.1f},{place_y(v):.1f}" for _, *ends in some for e, v in ends)
                body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        at = TOP + 6 + 17 * n
        body.append(f'<rect x="{WIDTH - 112}" y="{at}" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{WIDTH - 98}" y="{at + 9}" class="mark">{escape(name)}</text>')
    return _frame(title, x, y, place_x, ticks_x, place_y, ticks_y, body)


def _axis(
    low: float, high: float, start: float, end: float, logarithmic: bool, *, whole: bool = False
) -> tuple[Scale, list[tuple[float, str]]]:
    """Where a value goes between two pixels, and the ticks to show: inside the axis, each with a label of its own."""
    if logarithmic:
        if high <= low:
            low, high = low / 2, low * 2
        a, b = log10(low), log10(high)
        decades = [d for d in range(floor(a), floor(b) + 2) if a - 1e-9 <= d <= b + 1e-9]
        step = max(1, len(decades) // 8)
        ticks = [(10.0**d, f"1e{d}" if abs(d) > 3 else f"{10.0**d:,.4g}") for d in decades[::step]]
        if len(ticks) < 3:
            fine = [m * 10.0**d for d in range(floor(a), floor(b) + 1) for m in (1, 2, 5)]
            inside = [v for v in fine if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
            ticks = [(v, f"{v:,.4g}") for v in (inside if len(inside) > 1 else (low, high))]
        return lambda v: start + (log10(v) - a) / (b - a) * (end - start), ticks
    half = high / 2 - low / 2  # of the axis; halves, because the whole may be more than a float holds
    if half < max(1e-300, 1e-14 * abs(low)):
        low, high = low - 0.1 * (abs(low) or 1), high + 0.1 * (abs(low) or 1)
        half = high / 2 - low / 2
    raw = half / 2.5
    size = 10.0 ** floor(log10(raw))
    gap = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))
    gap = max(1.0, gap) if whole else gap
    first = ceil(low / gap - 1e-6)
    values = [n * gap for n in range(first, first + 9) if n * gap <= high + 1e-6 * gap]
    return lambda v: start + (v / 2 - low / 2) / half * (end - start), [(v, _label(v, gap)) for v in values]


def _label(value: float, gap: float) -> str:
    """A tick's label, with as many digits as tell it from the next one, which is `gap` away."""
    if abs(value) < gap / 2:
        return "0"
    exponent, finest = floor(log10(abs(value)) + 1e-9), floor(log10(gap) + 1e-9)
    if exponent >= 7 or finest < -5:
        return f"{value:.{max(0, exponent - finest)}e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:,.{max(0, -finest)}f}"


def _frame(
    title: str,
    x: str,
    y: str,
    place_x: Scale,
    ticks_x: list[tuple[float, str]],
    place_y: Scale,
    ticks_y: list[tuple[float, str]],
    body: list[str],
) -> str:
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
