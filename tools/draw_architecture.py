"""Draws docs/pictures/architecture.svg, the picture of the README: ``python tools/draw_architecture.py``.

Boxes and arrows with their words, and colours for light and for dark; it loads nothing and needs no package.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "architecture.svg"
WIDTH, HEIGHT = 980, 452
STYLE = """
.paper,.gate{fill:#ffffff}.gate{stroke:#7f98a3}.box{fill:#eef4f5;stroke:#0b5f68}.crew{fill:#fdf3e0;stroke:#8a6100}
.keep{fill:#e6ecf7;stroke:#3b4cc0}text{font:14px system-ui,sans-serif;fill:#15222b}.head{font-weight:700}
.small{font-size:12.5px;fill:#43525d}.way{stroke:#43525d;fill:none;stroke-width:1.6}.tip{fill:#43525d}
@media (prefers-color-scheme:dark){
.paper{fill:#10181d}.box{fill:#16323a;stroke:#66cfd3}.crew{fill:#3a2c12;stroke:#f3c06a}
.gate{fill:#10181d;stroke:#5d7785}.keep{fill:#1d2547;stroke:#8ea2ff}text{fill:#e7eef2}.small{fill:#b4c2cb}
.way{stroke:#b4c2cb}.tip{fill:#b4c2cb}}
"""


class Box(NamedTuple):
    """A box with a heading and lines below it."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    head: str
    lines: tuple[str, ...] = ()


BOXES = (
    Box(16, 24, 150, 186, "crew", "your crew",
        ("messages", "pictures", "memories", "documents", "tool results", "tool calls")),
    Box(206, 24, 500, 186, "box", "gates: each answers, or counts as not run"),
    Box(746, 24, 218, 186, "box", "one ruling, with reasons",
        ("allow, warn: agents may use it", "review, quarantine, rewrite:", "held, out of recall", "block: refused",
         "tool calls: may this agent", "do this, by whose wish?")),
    Box(16, 250, 948, 62, "keep", "ledger: append-only, every event chained by hash, in SQLite or PostgreSQL",
        ("who wrote what, made from what, who read it, what was ruled, repaired and decided",)),
    Box(16, 352, 214, 80, "box", "provenance", ("where it came from,", "whom it reached")),
    Box(261, 352, 214, 80, "box", "incidents", ("what belongs together,", "from patient zero on")),
    Box(506, 352, 214, 80, "crew", "people", ("console, command line, HTTP:", "look, decide, teach")),
    Box(751, 352, 213, 80, "box", "repair", ("planned, tried dry, applied,", "undone by its receipt")),
)  # fmt: skip
GATES = (
    ("structure", "disguises"), ("secrets", "keys, passwords"), ("blocklist", "what is known bad"),
    ("memory", "orders, poison, lies"), ("content", "harm, by debate"), ("second reader", "what stays open"),
)  # fmt: skip
ARROWS = (
    (166, 117, 202, 117), (706, 117, 742, 117), (855, 210, 855, 246), (91, 246, 91, 214), (123, 312, 123, 348),
    (230, 392, 257, 392), (475, 392, 502, 392), (720, 392, 747, 392), (613, 352, 613, 316),
    (857, 352, 857, 316), (456, 246, 456, 214),
)  # fmt: skip
NOTES = ((99, 234, "recall: only what is not held"), (464, 234, "what was learnt"))


def words(x: float, y: float, said: str, kind: str) -> str:
    """A line of text."""
    return f"<text x='{x}' y='{y}' class='{kind}'>{escape(said)}</text>"


def drawn(box: Box) -> list[str]:
    """A box."""
    parts = [
        f"<rect x='{box.x}' y='{box.y}' width='{box.width}' height='{box.height}' rx='9' class='{box.kind}'/>",
        words(box.x + 14, box.y + 25, box.head, "head"),
    ]
    return parts + [words(box.x + 14, box.y + 48 + 21 * n, one, "small") for n, one in enumerate(box.lines)]


def picture() -> str:
    """The whole picture."""
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        "aria-label='What agents read and write passes the gates; the ledger keeps it; people trace and repair'>",
        f"<style>{STYLE}</style><rect width='{WIDTH}' height='{HEIGHT}' rx='12' class='paper'/>",
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
        "<path d='M0 0L8 4L0 8z' class='tip'/></marker></defs>",
    ]
    for box in BOXES:
        parts += drawn(box)
    for n, (name, what) in enumerate(GATES):
        x, y = 220 + (n % 3) * 160, 62 + (n // 3) * 74
        parts.append(f"<rect x='{x}' y='{y}' width='152' height='62' rx='7' class='gate'/>")
        parts += [words(x + 10, y + 25, name, "head"), words(x + 10, y + 46, what, "small")]
    parts += [f"<path d='M{a} {b}L{c} {d}' class='way' marker-end='url(#tip)'/>" for a, b, c, d in ARROWS]
    parts += [words(x, y, said, "small") for x, y, said in NOTES]
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
