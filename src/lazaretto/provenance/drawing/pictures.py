"""A part of the graph written down as JSON, DOT, Mermaid, SVG or PNG; an outbreak drawn with one lane per agent.

Ids and texts come from agents and may be hostile: each format gets names that this file makes up (``n0``, ``n1`` ...)
and quotes the rest so that nothing can break out of its label.
"""

from __future__ import annotations

import math
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError, MissingExtra
from lazaretto.provenance.drawing.labels import label_lines, showable
from lazaretto.provenance.drawing.subgraph import Link, Node, Subgraph
from lazaretto.reports import encodable
from lazaretto.types import EdgeKind, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_LENGTH = 60


def to_json(subgraph: Subgraph) -> str:
    """Every node and link with all that is known of it; ids as they are."""
    data = {"lazaretto": "scene", "version": 1, **plain(subgraph)}
    return orjson.dumps(encodable(data), option=orjson.OPT_INDENT_2).decode() + "\n"


def _label(node: Node) -> str:
    name = showable(node.id, LABEL_LENGTH)
    return f"{name}: {showable(node.text, LABEL_LENGTH)}" if node.text else name


def _names(subgraph: Subgraph) -> dict[tuple[bool, str], str]:
    """Made-up names; an agent and an item may share an id, so the key says which it is."""
    return {(node.kind == "agent", node.id): f"n{place}" for place, node in enumerate(subgraph.nodes)}


def _ends(subgraph: Subgraph) -> list[tuple[str, str, EdgeKind]]:
    """Links between made-up names, each pair and kind once."""
    names = _names(subgraph)
    to_agent = (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)
    ends = ((names[False, k.source], names[k.kind in to_agent, k.target], k.kind) for k in subgraph.links)
    return list(dict.fromkeys(ends))


def _dot_quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_dot(subgraph: Subgraph) -> str:
    """The graph for Graphviz; labels are quoted strings, never HTML."""
    names, shapes = _names(subgraph), {"agent": "box", "decision": "diamond", "item": "ellipse"}
    lines = ["digraph lazaretto {", '  rankdir="LR"; node [style="filled,rounded" fontname="Helvetica" fontsize=10];']
    for node in subgraph.nodes:
        marks = " peripheries=2" if node.kind != "agent" and node.id == subgraph.patient_zero else ""
        lines.append(
            f"  {names[node.kind == 'agent', node.id]} [label={_dot_quoted(_label(node))} shape={shapes[node.kind]} "
            f'fillcolor="{FILL[node.state]}" color="{RIM[node.state]}"{marks}];'
        )
    lines += [f'  {source} -> {target} [label="{kind.value}"];' for source, target, kind in _ends(subgraph)]
    return "\n".join([*lines, "}"]) + "\n"


def _mermaid_quoted(text: str) -> str:
    """Letters, digits and a few harmless marks stay; the rest becomes Mermaid's ``#code;``."""
    return '"' + "".join(c if c.isalnum() or c in " ._-:,…" else f"#{ord(c)};" for c in text) + '"'


def to_mermaid(subgraph: Subgraph) -> str:
    """The graph for Markdown pages that render Mermaid."""
    names = _names(subgraph)
    brackets = {"agent": ("[", "]"), "decision": ("{", "}"), "item": ("(", ")")}
    lines = ["flowchart LR"]
    for node in subgraph.nodes:
        left, right = brackets[node.kind]
        label = _label(node) + (" - patient zero" if node.kind != "agent" and node.id == subgraph.patient_zero else "")
        lines.append(f"  {names[node.kind == 'agent', node.id]}{left}{_mermaid_quoted(label)}{right}:::{node.state}")
    lines += [f"  {source} -->|{kind.value}| {target}" for source, target, kind in _ends(subgraph)]
    lines += [f"  classDef {state} fill:{FILL[state]},stroke:{RIM[state]}" for state in FILL]
    return "\n".join(lines) + "\n"


def to_svg(subgraph: Subgraph, title: str = "") -> str:
    """The picture, self-contained; needs the ``plot`` extra."""
    return outbreak_svg(subgraph, title)


def to_png(subgraph: Subgraph, title: str = "") -> bytes:
    """The same picture as pixels; needs the ``plot`` extra."""
    return outbreak_png(subgraph, title)


FORMATS: Mapping[str, Callable[[Subgraph], str]] = {
    "json": to_json,
    "dot": to_dot,
    "mermaid": to_mermaid,
    "svg": to_svg,
}
"""The formats that are text."""


def draw(subgraph: Subgraph, style: str) -> str:
    """The subgraph in one of ``FORMATS``."""
    if style not in FORMATS:
        raise InputError("format", f"{style!r} is not known", f"Use one of {', '.join(FORMATS)}")
    return FORMATS[style](subgraph)


# An outbreak as a picture: one lane per agent, time from left to right, patient zero ringed, arrows where a note
# was made from another, and a lane that turns red from the moment the infection reached its agent.
#
# Drawn with matplotlib, in points, y downwards.

INK, FAINT, PAPER, LINE = "#1f2933", "#7b8794", "#ffffff", "#cbd2d9"
FILL = {"clean": "#dfe5ec", "infected": "#e5484d", "isolated": "#d6e6ff", "superseded": "#f3f4f6"}
RIM = {"clean": "#7b8794", "infected": "#a61b1b", "isolated": "#2563eb", "superseded": "#9aa5b1"}

LEFT, TOP, LANE, RADIUS = 170.0, 96.0, 84.0, 11.0
NOTE_STEP, READ_STEP = 84.0, 30.0
WIDEST, TALLEST, LOWEST_LANE = 1500.0, 1200.0, 26.0
"""Past this size, steps and lanes shrink; labels go when there is no room for them."""
READABLE_LANE, READABLE_ROOM, WIDEST_LABEL = 60.0, 48.0, 150.0
LETTER = 0.6
"""About how wide a letter is, as a share of its size."""
TICK_GAP = 80.0
TO_AGENT = (EdgeKind.WRITTEN_BY, EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))

_SVG = "http://www.w3.org/2000/svg"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lazaretto",
}  # text stays text; the same picture, the same bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of lanes, nodes and labels."""

    lanes: dict[str, float]
    columns: dict[tuple[str, str, float], float]
    """(item, reader or "", time) -> x."""
    lane: float
    width: float
    height: float

    def at(self, node: Node) -> tuple[float, float]:
        """The middle of an item or decision."""
        return self.columns[node.id, "", 0.0], self.lanes[node.agent]

    def rooms(self, things: list[Node]) -> dict[str, float]:
        """The width of each label, so that it meets neither its neighbours in the lane nor the lane's name."""
        found: dict[str, float] = {}
        for agent in self.lanes:
            stops = sorted((self.at(node)[0], node.id) for node in things if node.agent == agent)
            xs = [2 * LEFT - stops[0][0] - 20, *(x for x, _ in stops), 2 * self.width - stops[-1][0]] if stops else []
            for place, (x, name) in enumerate(stops, 1):
                found[name] = min(x - xs[place - 1], xs[place + 1] - x, WIDEST_LABEL)
        return found


def _is_read(link: Link) -> bool:
    return link.kind in (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)


def lay_out(subgraph: Subgraph) -> Layout:
    """Give every agent a lane and every moment a column."""
    things = [node for node in subgraph.nodes if node.kind != "agent"]
    lanes = [node.id for node in subgraph.nodes if node.kind == "agent"]
    if any(not node.agent for node in things):
        lanes.append("")  # the ledger does not know who wrote these
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
    return Layout(heights, columns, lane, max(x + 40, 760.0), TOP + lane * len(lanes) + 96)


def outbreak_svg(subgraph: Subgraph, title: str = "") -> str:
    """The picture as one SVG document: text as text, no script, no link, no outside font."""
    painter, page = _painted(subgraph, title), BytesIO()
    _save(painter.figure, page, "svg")
    return _with_hints(page.getvalue(), painter.title, painter.hints)


def outbreak_png(subgraph: Subgraph, title: str = "", scale: float = 2.0) -> bytes:
    """The same picture as pixels, ``scale`` of them to a point."""
    page = BytesIO()
    _save(_painted(subgraph, title).figure, page, "png", dpi=72 * scale)
    return page.getvalue()


def _painted(subgraph: Subgraph, title: str) -> _Painter:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("drawing pictures", "plot") from None
    painter = _Painter(subgraph, title or f"Outbreak around {showable(subgraph.focus, 40)}")
    painter.paint()
    return painter


def _save(figure: Figure, page: BytesIO, style: str, **more: Any) -> None:
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # texts of agents may be in a script that the font lacks; a box in its place is all that can be done
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(page, format=style, metadata={"Date": None} if style == "svg" else None, **more)


def _with_hints(svg: bytes, title: str, hints: dict[str, str]) -> str:
    """The document with a title, a hint for each shape under the pointer, and nothing about the drawing program."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    for described in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(described)
    root.set("role", "img")
    shapes = [(group, hints[name]) for group in root.iter(f"{{{_SVG}}}g") if (name := group.get("id", "")) in hints]
    for element, words in ((root, title), *shapes):
        hint = ElementTree.Element(f"{{{_SVG}}}title")
        hint.text = showable(words)
        element.insert(0, hint)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


class _Painter:
    """Puts a laid-out subgraph on a figure, from the back to the front."""

    def __init__(self, subgraph: Subgraph, title: str) -> None:
        from matplotlib.figure import Figure

        self.subgraph, self.layout = subgraph, lay_out(subgraph)
        self.things = [node for node in subgraph.nodes if node.kind != "agent"]
        self.title = showable(title, int(self.layout.width / (20 * LETTER)) - 4)
        self.hints: dict[str, str] = {}
        self.figure = Figure(figsize=(self.layout.width / 72, self.layout.height / 72), dpi=72, facecolor=PAPER)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, self.layout.width), ylim=(self.layout.height, 0))
        self.axes.axis("off")

    def paint(self) -> None:
        """Everything."""
        self._headline()
        self._lanes()
        self._derivations()
        self._readings()
        rooms = self.layout.rooms(self.things) if self.layout.lane >= READABLE_LANE else {}
        for node in self.things:
            self._thing(node, rooms.get(node.id, 0.0))
        self._time_axis()
        self._legend()

    # shapes: each lies over those before it

    def _add(self, patch: Any, hint: str = "") -> None:
        patch.set(zorder=2 + len(self.axes.patches) / 1e6, clip_on=False)
        if hint:
            patch.set_gid(f"hint-{len(self.hints)}")
            self.hints[patch.get_gid()] = hint
        self.axes.add_patch(patch)

    def _path(self, *points: tuple[float, float], arrow: bool = False, **look: Any) -> None:
        """A straight line through two points, or a cubic curve from the first to the last of four."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        if arrow and "ls" in look:  # the head would be dashed too: a short solid piece carries it
            self._path(*points, **look)
            (x1, y1), (x2, y2) = points[-2:]
            share = 10 / math.dist(*points[-2:])
            points, look["ls"] = ((x2 - (x2 - x1) * share, y2 - (y2 - y1) * share), (x2, y2)), "solid"
        codes = [Path.MOVETO, *[Path.CURVE4 if len(points) == 4 else Path.LINETO] * (len(points) - 1)]
        head = "-|>,head_length=7,head_width=3.2" if arrow else "-"
        self._add(FancyArrowPatch(path=Path(points, codes), arrowstyle=head, mutation_scale=1, **look))

    def _disc(self, x: float, y: float, radius: float, hint: str = "", **look: Any) -> None:
        from matplotlib.patches import Circle

        self._add(Circle((x, y), radius, **look), hint)

    def _words(self, x: float, y: float, text: str, size: float, color: str = INK, **look: Any) -> None:
        self.axes.text(x, y, text, size=size, color=color, parse_math=False, zorder=3, **look)

    # parts of the picture

    def _headline(self) -> None:
        self._words(24, 40, self.title, 20, weight="bold")
        nodes = self.subgraph.nodes
        count = {state: sum(n.state == state and n.kind == "item" for n in nodes) for state in FILL}
        parts = [f"items: {', '.join(f'{number} {state}' for state, number in count.items() if number)}"]
        parts.append(f"agents affected: {sum(n.kind == 'agent' and n.state == 'infected' for n in nodes)}")
        if decisions := sum(node.kind == "decision" for node in nodes):
            parts.append(f"decisions touched: {decisions}")
        if self.subgraph.left_out:
            parts.append(f"not shown: {self.subgraph.left_out} more distant")
        self._words(24, 63, "  ·  ".join(parts), 13, FAINT)

    def _turning_points(self) -> dict[str, float]:
        """Agent -> where its lane turns red: at the moment the infection reached it."""
        reached = {node.id: node.time for node in self.subgraph.nodes if node.kind == "agent" and node.time is not None}
        turns: dict[str, float] = {}
        for link in self.subgraph.links:
            if link.kind in TO_AGENT and reached.get(link.target) == link.time:
                key = (link.source, link.target, link.time) if _is_read(link) else (link.source, "", 0.0)
                turns[link.target] = min(self.layout.columns[key], turns.get(link.target, self.layout.width))
        return turns

    def _lanes(self) -> None:
        from matplotlib.patches import FancyBboxPatch

        turns, end, half = self._turning_points(), self.layout.width - 28, self.layout.lane / 2
        for place, (agent, y) in enumerate(self.layout.lanes.items()):
            if place % 2 == 0:
                corners = "round,pad=0,rounding_size=10"
                self._add(FancyBboxPatch((12, y - half), end + 4, 2 * half, corners, fc="#f7f9fb", ec="none"))
            self._path((LEFT, y), (end, y), color=LINE, lw=1.5)
            if agent in turns:
                self._path((turns[agent], y), (end, y), color="#f29b9d", lw=3)
            self._disc(36, y, 6, fc=FILL["infected" if agent in turns else "clean"], ec=PAPER, lw=1.5)
            self._words(50, y + 4.5, " ".join(label_lines(agent or "unknown", 13, most=1)), 12.5, weight="bold")

    def _derivations(self) -> None:
        nodes = {node.id: node for node in self.things}
        for link in self.subgraph.links:
            if link.kind not in (EdgeKind.DERIVED_FROM, EdgeKind.INFLUENCED):
                continue
            made_from = link.kind is EdgeKind.DERIVED_FROM
            parent, child = (nodes[end] for end in (link.source, link.target)[:: -1 if made_from else 1])
            (x1, y1), (x2, y2) = self.layout.at(parent), self.layout.at(child)
            ill = parent.state != "clean" and child.state != "clean"
            look: dict[str, Any] = {"color": "#c8464a" if ill else "#9aa5b1", "lw": 1.8 if ill else 1.3, "alpha": 0.9}
            look |= {} if made_from else {"ls": (0, (1.5, 2.5))}
            reach = (x2 - x1) / 2
            if y1 == y2:  # in one lane: a bow over the nodes between
                points = (x1, y1 - RADIUS), (x1 + reach, y1 - 34), (x2 - 14, y2 - 34), (x2, y2 - RADIUS - 2)
            else:
                points = (x1, y1), (x1 + reach, y1), (x2 - reach, y2), (x2 - RADIUS - 2, y2)
            self._path(*points, arrow=True, **look)

    def _readings(self) -> None:
        nodes = {node.id: node for node in self.things}
        for link in filter(_is_read, self.subgraph.links):
            node = nodes[link.source]
            x, y = self.layout.columns[link.source, link.target, link.time], self.layout.lanes[link.target]
            x0, y0 = self.layout.at(node)
            color = RIM["infected"] if node.state != "clean" else FAINT
            end = (x, y - 5 if y > y0 else y + 5)
            self._path((x0, y0), (x, y0), (x, y0), end, color=color, lw=1.1, ls=(0, (4, 3)), alpha=0.65)
            self._disc(x, y, 4, f"{link.target} read {link.source}", fc=PAPER, ec=color, lw=1.6)

    def _thing(self, node: Node, room: float) -> None:
        (x, y), zero = self.layout.at(node), node.id == self.subgraph.patient_zero
        hint = f"{node.id} by {node.agent or 'unknown'} ({node.state})"
        paper = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
        if zero:
            self._disc(x, y, RADIUS + 6, fc=PAPER, ec=RIM["infected"], lw=2.2)
            self._words(x, y - RADIUS - 12, "patient zero", 11, RIM["infected"], weight="bold", ha="center", bbox=paper)
        self._mark(node.kind, node.state, x, y, hint + (f": {showable(node.text, 300)}" if node.text else ""))
        if room >= READABLE_ROOM:
            for place, label in enumerate(label_lines(node.text or node.id, int(room / (10 * LETTER)))):
                self._words(x, y + RADIUS + (17 if zero else 13) + 12 * place, label, 10, ha="center", bbox=paper)

    def _mark(self, kind: str, state: str, x: float, y: float, hint: str = "") -> None:
        from matplotlib.patches import RegularPolygon

        dashes = (0, (1.5, 1)) if state == "isolated" else "solid"
        look: dict[str, Any] = {"fc": FILL[state], "ec": RIM[state], "lw": 2, "ls": dashes}
        if kind == "decision":
            self._add(RegularPolygon((x, y), 4, radius=RADIUS + 2, **look), hint)
        else:
            self._disc(x, y, RADIUS, hint, **look)
        if state == "superseded":
            self._path((x - 7, y + 7), (x + 7, y - 7), color=RIM[state], lw=2)

    def _time_axis(self) -> None:
        y, last_x, last_label = self.layout.height - 74, -TICK_GAP, ""
        self._path((LEFT, y), (self.layout.width - 28, y), color=LINE, lw=1)
        self._words(36, y + 4, "time", 11, FAINT)
        moments = sorted((self.layout.at(node)[0], node.time or 0.0) for node in self.things)
        begin, span = min(t for _, t in moments), max(t for _, t in moments) - min(t for _, t in moments)
        for x, time in moments:
            label = elapsed(time - begin, span)
            if x - last_x >= TICK_GAP and label != last_label:
                self._path((x, y), (x, y + 5), color="#9aa5b1", lw=1)
                self._words(x, y + 18, label, 10.5, FAINT, ha="center")
                last_x, last_label = x, label

    def _legend(self) -> None:
        y, x = self.layout.height - 24, 36.0
        for kind, label in (*(("item", state) for state in ("infected", "isolated", "superseded", "clean")),
                            ("decision", "decision")):  # fmt: skip
            self._mark(kind, label if kind == "item" else "infected", x, y)
            self._words(x + 18, y + 4, label, 11.5)
            x += 44 + 7 * len(label)
        self._path((x, y), (x + 26, y), color="#c8464a", lw=1.8, arrow=True)
        self._words(x + 34, y + 4, "made from", 11.5)
        self._path((x + 116, y), (x + 136, y), color=RIM["infected"], lw=1.1, ls=(0, (4, 3)), alpha=0.65)
        self._disc(x + 140, y, 4, fc=PAPER, ec=RIM["infected"], lw=1.6)
        self._words(x + 150, y + 4, "read", 11.5)


def elapsed(seconds: float, span: float) -> str:
    """A time since the beginning, in the unit that tells the moments of a stretch of ``span`` seconds apart."""
    size, unit = next((scale for scale in UNITS if span >= 2 * scale[0]), UNITS[-1])
    return f"+{seconds / size:.{0 if span >= 10 * size else 1}f} {unit}"
