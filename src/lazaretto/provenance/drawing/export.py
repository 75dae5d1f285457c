"""A part of the graph written down: JSON, DOT, Mermaid, SVG or PNG.

Ids and texts come from agents and may be hostile: each format gets names that this file makes up (``n0``, ``n1`` ...)
and quotes the rest so that nothing can break out of its label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson

from lazaretto.errors import InputError
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.drawing.outbreak_picture import FILL, RIM, outbreak_png, outbreak_svg
from lazaretto.provenance.drawing.subgraph import Node, Subgraph
from lazaretto.reports.encoding import encodable
from lazaretto.types import EdgeKind, plain

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
