"""The picture of a tuning: honest items and findings that each setting would have held. One SVG, no library."""

from __future__ import annotations

from html import escape

from lazaretto.learn.tuning import Counts, SettingCounts, Tuning

_WIDE, _HIGH, _EDGE, _LEGEND = 820, 420, 56, 250
_COLOURS = ("#2563eb", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490")


def draw(tuning: Tuning, target: float) -> str:
    """The picture as SVG."""
    lines: dict[tuple[str, str], list[SettingCounts]] = {}
    for row in tuning.rows:
        lines.setdefault((row.gate, row.setting), []).append(row)
    widest = max([target, *(tuning.rate(row.counts) for row in tuning.rows), tuning.rate(tuning.now)]) * 1.1 or 0.01
    parts = [*_frame(tuning, widest, target)]
    for number, ((gate, setting), rows) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [_place(tuning, row.counts, widest) for row in rows]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" opacity="0.6"/>')
        for row, (x, y) in zip(rows, places, strict=True):
            words = f"{gate} {setting} {row.value:g}: {_summary(tuning, row.counts)}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{escape(words)}</title></circle>'
            )
        y = _EDGE + 22 * (number + 2)
        parts.append(f'<circle cx="{_WIDE - _LEGEND + 14}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(_text(_WIDE - _LEGEND + 26, y, f"{gate} {setting}"))
    parts += _marked(tuning, tuning.now, widest, "now", "#111827", _EDGE)
    if tuning.advice.changes:
        parts += _marked(tuning, tuning.advice.counts, widest, "advised", "#dc2626", _EDGE + 22)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif" '
        f'font-size="13">\n<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _place(tuning: Tuning, counts: Counts, widest: float) -> tuple[float, float]:
    right, low = _WIDE - _LEGEND, _HIGH - _EDGE
    share = counts.findings / tuning.findings if tuning.findings else 0.0
    return _EDGE + (right - _EDGE) * tuning.rate(counts) / widest, low - (low - _EDGE) * share


def _frame(tuning: Tuning, widest: float, target: float) -> list[str]:
    right, low = _WIDE - _LEGEND, _HIGH - _EDGE
    at = _EDGE + (right - _EDGE) * target / widest
    grid = 'stroke="#9ca3af" stroke-width="1"'
    return [
        _text(_EDGE, 24, f"{tuning.honest:,} honest items, {tuning.findings:,} findings: what would have been held"),
        f'<path d="M{_EDGE},{_EDGE} V{low} H{right}" fill="none" {grid}/>',
        f'<path d="M{at:.1f},{_EDGE} V{low}" {grid} stroke-dasharray="4 4"/>',
        _text(at + 4, _EDGE + 12, f"{target:.2%} asked for"),
        *(_text(_EDGE + (right - _EDGE) * part - 12, low + 18, f"{widest * part:.1%}") for part in (0.0, 0.5, 1.0)),
        *(_text(8, low - (low - _EDGE) * part + 4, f"{part:.0%}") for part in (0.0, 0.5, 1.0)),
        _text(_EDGE, low + 38, "share of honest items held (left is better); upwards: share of findings held"),
    ]


def _marked(tuning: Tuning, counts: Counts, widest: float, name: str, colour: str, legend_y: int) -> list[str]:
    x, y = _place(tuning, counts, widest)
    ring = f'r="8" fill="none" stroke="{colour}" stroke-width="2"'
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" {ring}><title>{name}: {_summary(tuning, counts)}</title></circle>',
        f'<circle cx="{_WIDE - _LEGEND + 14}" cy="{legend_y - 4}" {ring}/>',
        _text(_WIDE - _LEGEND + 28, legend_y, f"{name}: {_summary(tuning, counts)}"),
    ]


def _summary(tuning: Tuning, counts: Counts) -> str:
    return f"{tuning.rate(counts):.2%} honest, {counts.findings} of {tuning.findings}"


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#111827">{escape(words)}</text>'
