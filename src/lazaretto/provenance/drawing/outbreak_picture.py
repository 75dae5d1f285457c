"""An outbreak as a picture: one lane per agent, time from left to right, patient zero ringed, arrows where a note
was made from another, and a lane that turns red from the moment the infection reached its agent.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from lazaretto.provenance.drawing.canvas import Box, Circle, Curve, Page, Polygon, Shape, Style, Words, line, showable
from lazaretto.provenance.drawing.subgraph import Link, Node, Subgraph
from lazaretto.types import EdgeKind

INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
FILL = {"clean": "#dfe5ec", "infected": "#e5484d", "isolated": "#d6e6ff", "superseded": "#f3f4f6"}
RIM = {"clean": "#7b8794", "infected": "#a61b1b", "isolated": "#2563eb", "superseded": "#9aa5b1"}
WORD = {"clean": "clean", "infected": "infected", "isolated": "isolated", "superseded": "superseded"}

LEFT, TOP, LANE, RADIUS = 150.0, 96.0, 84.0, 11.0
NOTE_STEP, READ_STEP = 74.0, 30.0
WIDEST, TALLEST, LOWEST_LANE = 1500.0, 1200.0, 26.0
"""Past this size, steps and lanes shrink; labels go when there is no room for them."""
READABLE_STEP, READABLE_LANE = 44.0, 60.0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where things stand."""

    lanes: dict[str, float]
    columns: dict[tuple[str, str, float], float]
    """(item, reader or "", time) -> x."""
    step: float
    lane: float
    width: float
    height: float

    def at(self, node: Node) -> tuple[float, float]:
        return self.columns[node.id, "", 0.0], self.lanes[node.agent]


TO_AGENT = (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)


def _is_read(link: Link) -> bool:
    return link.kind in (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)


def _plan(subgraph: Subgraph) -> _Plan:
    things = [node for node in subgraph.nodes if node.kind != "agent"]
    lanes = [node.id for node in subgraph.nodes if node.kind == "agent"]
    if any(not node.agent for node in things):
        lanes.append("")  # whoever wrote these, the ledger never saw it
    moments = [(node.time or 0.0, 0, node.id, "", 0.0) for node in things]
    moments += [(link.time, 1, link.source, link.target, link.time) for link in subgraph.links if _is_read(link)]
    wanted = sum(READ_STEP if reading else NOTE_STEP for _, reading, *_ in moments)
    scale = min(1.0, WIDEST / wanted)
    columns, x = {}, LEFT
    for _, reading, item, reader, when in sorted(moments):
        step = (READ_STEP if reading else NOTE_STEP) * scale
        columns[item, reader, when] = x + step / 2
        x += step
    lane = min(LANE, max(LOWEST_LANE, TALLEST / len(lanes)))
    heights = {name: TOP + lane * (place + 0.5) for place, name in enumerate(lanes)}
    return _Plan(heights, columns, NOTE_STEP * scale, lane, max(x + 40, 760.0), TOP + lane * len(lanes) + 96)


def outbreak_page(subgraph: Subgraph, title: str = "") -> Page:
    """Lay the scene out."""
    plan = _plan(subgraph)
    title = title or f"Outbreak around {showable(subgraph.focus, 40)}"
    shapes: list[Shape] = [Box(0, 0, plan.width, plan.height, Style(fill=PAPER))]
    shapes += _headline(subgraph, title)
    shapes += _lanes(subgraph, plan)
    shapes += _derivations(subgraph, plan)
    shapes += _readings(subgraph, plan)
    for node in subgraph.nodes:
        if node.kind != "agent":
            shapes += _thing(subgraph, plan, node)
    shapes += _time_axis(subgraph, plan)
    shapes += _legend(plan)
    return Page(plan.width, plan.height, title, tuple(shapes))


def _headline(subgraph: Subgraph, title: str) -> Iterator[Shape]:
    yield Words(24, 40, title, 20, INK, bold=True)
    count = {state: sum(n.state == state and n.kind == "item" for n in subgraph.nodes) for state in FILL}
    parts = [f"{number} {WORD[state]}" for state, number in count.items() if number]
    exposed = sum(node.kind == "agent" and node.state == "infected" for node in subgraph.nodes)
    decisions = sum(node.kind == "decision" for node in subgraph.nodes)
    line_two = f"items: {', '.join(parts)}  ·  agents affected: {exposed}"
    line_two += f"  ·  decisions touched: {decisions}" if decisions else ""
    line_two += f"  ·  not shown: {subgraph.left_out} more distant" if subgraph.left_out else ""
    yield Words(24, 63, line_two, 13, FAINT)


def _turning_points(subgraph: Subgraph, plan: _Plan) -> dict[str, float]:
    """Agent -> where its lane turns red: at the moment the scene says that the infection reached it."""
    reached = {node.id: node.time for node in subgraph.nodes if node.kind == "agent" and node.time is not None}
    turns: dict[str, float] = {}
    for link in subgraph.links:
        if link.kind in TO_AGENT and reached.get(link.target) == link.time:
            key = (link.source, link.target, link.time) if _is_read(link) else (link.source, "", 0.0)
            turns[link.target] = min(plan.columns[key], turns.get(link.target, plan.width))
    return turns


def _lanes(subgraph: Subgraph, plan: _Plan) -> Iterator[Shape]:
    first_red = _turning_points(subgraph, plan)
    for place, (agent, y) in enumerate(plan.lanes.items()):
        if place % 2 == 0:
            yield Box(12, y - plan.lane / 2, plan.width - 24, plan.lane, Style(fill="#f7f9fb"), 10)
        yield line(LEFT, y, plan.width - 28, y, Style(stroke="#cbd2d9", width=1.5))
        reached = agent in first_red
        if reached:
            yield line(first_red[agent], y, plan.width - 28, y, Style(stroke="#f29b9d", width=3))
        yield Circle(36, y, 6, Style(fill=FILL["infected" if reached else "clean"], stroke=PAPER, width=1.5))
        yield Words(50, y + 4.5, showable(agent or "unknown", 14), 13, INK, bold=True)


def _derivations(subgraph: Subgraph, plan: _Plan) -> Iterator[Shape]:
    nodes = {node.id: node for node in subgraph.nodes if node.kind != "agent"}
    for link in subgraph.links:
        if link.kind not in (EdgeKind.DERIVED_FROM, EdgeKind.INFLUENCED):
            continue
        ends = (link.target, link.source) if link.kind is EdgeKind.DERIVED_FROM else (link.source, link.target)
        parent, child = nodes[ends[0]], nodes[ends[1]]
        (x1, y1), (x2, y2) = plan.at(parent), plan.at(child)
        ill = parent.state != "clean" and child.state != "clean"
        style = Style(
            stroke="#c8464a" if ill else "#9aa5b1",
            width=1.8 if ill else 1.3,
            dash=() if link.kind is EdgeKind.DERIVED_FROM else (2, 4),
            opacity=0.9,
        )
        reach = (x2 - x1) / 2
        bow = 34.0 if y1 == y2 else 0.0
        landing = (x2, y2 - RADIUS - 2) if bow else (x2 - RADIUS - 2, y2)
        first, second = (x1 + reach, y1 - bow), (x2 - reach if not bow else x2 - 14, y2 - bow)
        yield Curve((x1, y1 - (RADIUS if bow else 0)), first, second, landing, style, arrow=True)


def _readings(subgraph: Subgraph, plan: _Plan) -> Iterator[Shape]:
    nodes = {node.id: node for node in subgraph.nodes if node.kind != "agent"}
    for link in subgraph.links:
        if not _is_read(link):
            continue
        node = nodes[link.source]
        x, y = plan.columns[link.source, link.target, link.time], plan.lanes[link.target]
        x0, y0 = plan.at(node)
        colour = RIM["infected"] if node.state != "clean" else FAINT
        style = Style(stroke=colour, width=1.1, dash=(4, 3), opacity=0.65)
        yield Curve((x0, y0), (x, y0), (x, y0), (x, y - 5 if y > y0 else y + 5), style)
        yield Circle(x, y, 4, Style(fill=PAPER, stroke=colour, width=1.6), f"{link.target} read {link.source}")


def _thing(subgraph: Subgraph, plan: _Plan, node: Node) -> Iterator[Shape]:
    x, y = plan.at(node)
    zero = node.id == subgraph.patient_zero
    hint = f"{node.id} by {node.agent or 'unknown'} ({node.state})" + (
        f": {showable(node.text, 300)}" if node.text else ""
    )
    if zero:
        yield Circle(x, y, RADIUS + 6, Style(fill=PAPER, stroke=RIM["infected"], width=2.2))
        yield Words(x, y - RADIUS - 12, "patient zero", 11, RIM["infected"], "middle", True, True)
    yield from _mark(node.kind, node.state, x, y, hint)
    if plan.step >= READABLE_STEP and plan.lane >= READABLE_LANE:
        for place, label in enumerate(_two_lines(node.text or node.id, int(plan.step * 1.4 / 5.5))):
            yield Words(x, y + RADIUS + (19 if zero else 14) + 12 * place, label, 10.5, INK, "middle", halo=True)


def _two_lines(text: str, room: int) -> list[str]:
    """A label broken between words where it can be, cut where it must be."""
    whole = showable(text)
    lines = textwrap.wrap(whole, room, max_lines=2, placeholder="…")
    return lines or [showable(whole, room)]


def _mark(kind: str, state: str, x: float, y: float, hint: str = "") -> Iterator[Shape]:
    style = Style(fill=FILL[state], stroke=RIM[state], width=2, dash=(3, 2) if state == "isolated" else ())
    if kind == "decision":
        r = RADIUS + 2
        yield Polygon(((x, y - r), (x + r, y), (x, y + r), (x - r, y)), style, hint)
    else:
        yield Circle(x, y, RADIUS, style, hint)
    if state == "superseded":
        yield line(x - 7, y + 7, x + 7, y - 7, Style(stroke=RIM[state], width=2))


def _lasting(seconds: float) -> str:
    """A stretch of time in words: ``+90 s``, ``+12 min``."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"+{seconds / size:.0f} {unit}"
    return f"+{seconds:.0f} s" if seconds >= 10 or seconds == 0 else f"+{seconds:.1f} s"


def _time_axis(subgraph: Subgraph, plan: _Plan) -> Iterator[Shape]:
    y = plan.height - 74
    yield line(LEFT, y, plan.width - 28, y, Style(stroke="#cbd2d9", width=1))
    times = {(node.id, "", 0.0): node.time or 0.0 for node in subgraph.nodes if node.kind != "agent"}
    begin, last_x = min(times.values()), -1e9
    for key, time in sorted(times.items(), key=lambda pair: plan.columns[pair[0]]):
        x = plan.columns[key]
        if x - last_x >= 80:
            yield line(x, y, x, y + 5, Style(stroke="#9aa5b1", width=1))
            yield Words(x, y + 18, _lasting(time - begin), 10.5, FAINT, "middle")
            last_x = x
    yield Words(36, y + 4, "time", 11, FAINT)


def _legend(plan: _Plan) -> Iterator[Shape]:
    y, x = plan.height - 24, 36.0
    for kind, state, label in (
        ("item", "infected", "infected"),
        ("item", "isolated", "isolated"),
        ("item", "superseded", "superseded"),
        ("item", "clean", "clean"),
        ("decision", "infected", "decision"),
    ):
        yield from _mark(kind, state, x, y)
        yield Words(x + 18, y + 4, label, 11.5, INK)
        x += 44 + 7 * len(label)
    red = RIM["infected"]
    yield Curve((x, y), (x, y), (x + 26, y), (x + 26, y), Style(stroke="#c8464a", width=1.8), arrow=True)
    yield Words(x + 34, y + 4, "made from", 11.5, INK)
    x += 112
    yield line(x, y, x + 20, y, Style(stroke=red, width=1.1, dash=(4, 3), opacity=0.65))
    yield Circle(x + 24, y, 4, Style(fill=PAPER, stroke=red, width=1.6))
    yield Words(x + 34, y + 4, "read", 11.5, INK)
