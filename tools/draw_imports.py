"""Draws which room imports which, from the code: ``python tools/draw_imports.py`` writes docs/pictures/imports.svg.

A room stands above everything it imports, so every arrow points down. Arrows that others imply are left out (who
imports ``guard`` need not show that it imports ``gates``), and so is the ground that everything may stand on.
The picture carries its list of arrows as its description; a test compares it with the code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURE = REPOSITORY / "docs" / "pictures" / "imports.svg"
PACKAGES = {
    "lazaretto": REPOSITORY / "src" / "lazaretto",
    "lazaretto_lab": REPOSITORY / "lab" / "src" / "lazaretto_lab",
}
GROUND = (
    "reasons",
    "types",
    "errors",
    "installed",
    "files",
    "names",
    "identity",
    "kept_texts",
    "reports",
    "processor_time",
    "policy",
    "plugins",
    "old_modules",
    "pictures",
    "picture_worker",
)
LEFT_OUT = {("lazaretto", "__main__"), ("lazaretto_lab", "__init__"), *(("lazaretto", room) for room in GROUND)}

Room = tuple[str, str]
"""Package and first-level folder or module."""

COLUMNS: dict[Room, float] = {
    ("lazaretto", "ledger"): 0.5,
    ("lazaretto", "models"): 2.5,
    ("lazaretto", "external_stores"): 0.0,
    ("lazaretto", "ingest"): -0.2,
    ("lazaretto", "provenance"): 1.25,
    ("lazaretto", "reading"): 3.0,
    ("lazaretto", "cases"): 2.9,
    ("lazaretto", "agents"): 2.5,
    ("lazaretto", "incidents"): 0.5,
    ("lazaretto", "repair"): 1.25,
    ("lazaretto", "gates"): 2.25,
    ("lazaretto", "learn"): 3.18,
    ("lazaretto", "testing"): -0.45,
    ("lazaretto", "actions"): 1.7,
    ("lazaretto", "guard"): 1.0,
    ("lazaretto", "__init__"): 0.75,
    ("lazaretto", "adapters"): -0.1,
    ("lazaretto", "console"): 1.6,
    ("lazaretto", "api"): 1.6,
    ("lazaretto", "scan"): 2.72,
    ("lazaretto", "mcp"): 2.25,
    ("lazaretto", "cli"): 1.6,
    ("lazaretto_lab", "metrics"): 5.0,
    ("lazaretto_lab", "models"): 3.9,
    ("lazaretto_lab", "pocket"): 5.9,
    ("lazaretto_lab", "harness"): 4.4,
    ("lazaretto_lab", "attacks"): 5.9,
    ("lazaretto_lab", "worlds"): 5.5,
    ("lazaretto_lab", "training"): 5.7,
    ("lazaretto_lab", "studies"): 4.9,
    ("lazaretto_lab", "cli"): 4.9,
}
"""Where a room stands from left to right; how high follows from its imports."""


def rooms() -> dict[Room, list[Path]]:
    """The files of every room of both packages."""
    found: dict[Room, list[Path]] = {}
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            found.setdefault((package, file.relative_to(folder).with_suffix("").parts[0]), []).append(file)
    return found


def imported(file: Path, known: Mapping[Room, Any]) -> Iterator[Room]:
    """The rooms a file imports from; what is no room of its own comes from the package's front door."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, room, *_ in ((*name.split("."), "__init__") for name in names):
            if package in PACKAGES:
                yield (package, room) if (package, room) in known else (package, "__init__")


def arrows() -> list[tuple[Room, Room]]:
    """Who imports whom, without the ground, without what other arrows imply."""
    known = rooms()
    direct = {
        room: {other for file in files for other in imported(file, known)} - {room} - LEFT_OUT
        for room, files in known.items()
        if room not in LEFT_OUT
    }

    def below(room: Room) -> set[Room]:
        return set().union(*({other} | below(other) for other in direct[room]))

    return sorted(
        (room, other)
        for room, others in direct.items()
        for other in others
        if not any(other in below(between) for between in others)
    )


def heights(drawn: list[tuple[Room, Room]]) -> dict[Room, int]:
    """How many rooms stand below each: 0 for those that import none."""
    below: dict[Room, list[Room]] = {room: [] for room in rooms() if room not in LEFT_OUT}
    for room, other in drawn:
        below[room].append(other)

    def height(room: Room) -> int:
        return 1 + max((height(other) for other in below[room]), default=-1)

    return {room: height(room) for room in below}


def description(drawn: list[tuple[Room, Room]]) -> str:
    """The arrows as text; it travels in the picture."""
    return "; ".join(f"{'.'.join(room)} > {'.'.join(other)}" for room, other in drawn)


def draw(path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "imports", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot

    drawn = arrows()
    height = heights(drawn)
    if homeless := sorted(set(height) - set(COLUMNS)):
        raise SystemExit(f"no column for {homeless}: give it one in COLUMNS")
    figure, axes = pyplot.subplots(figsize=(9.5, 6.6))
    axes.set(xlim=(-0.7, 6.8), ylim=(-1.35, max(height.values()) + 0.85))
    axes.axis("off")
    _areas(axes, max(height.values()))
    for room, other in drawn:
        _arrow(axes, (COLUMNS[room], height[room]), (COLUMNS[other], height[other]), across=room[0] != other[0])
    for room, level in height.items():
        _box(axes, (COLUMNS[room], level), room)
    metadata = {"Date": None, "Title": "Which room imports which", "Description": description(drawn)}
    figure.savefig(path, format="svg", metadata=metadata, bbox_inches="tight", pad_inches=0.05)


HALF_BOX = 0.26
"""Half the height of a box; one level is 1 high."""
COLOURS = {"lazaretto": "#0072b2", "lazaretto_lab": "#b35900"}


def _areas(axes: Any, top: int) -> None:
    for left, right, title, colour in (
        (-0.6, 3.4, "product: src/lazaretto", COLOURS["lazaretto"]),
        (3.5, 6.7, "laboratory: lab/src/lazaretto_lab", COLOURS["lazaretto_lab"]),
    ):
        axes.axvspan(left, right, ymin=0.11, color=colour, alpha=0.05, linewidth=0)
        axes.text((left + right) / 2, top + 0.6, title, ha="center", va="center", color=colour, fontsize=10)
    ground = "the ground, which any room may import: " + ", ".join(GROUND)
    axes.text(3.05, -1.0, ground, ha="center", va="center", fontsize=9, color="#444444",
              bbox={"boxstyle": "round,pad=0.5", "facecolor": "#eeeeee", "edgecolor": "#999999"})  # fmt: skip


def _box(axes: Any, place: tuple[float, float], room: Room) -> None:
    box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": COLOURS[room[0]], "linewidth": 1.2}
    name = "lazaretto" if room[1] == "__init__" else room[1]
    axes.text(*place, name, ha="center", va="center", fontsize=10, bbox=box, zorder=2)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], across: bool) -> None:
    """From the foot of a box to the head of another; dashed where it leaves the laboratory."""
    style = {"arrowstyle": "-|>", "color": "#b35900" if across else "#555555", "linewidth": 0.9, "shrinkA": 0,
             "shrinkB": 0, "linestyle": "--" if across else "-"}  # fmt: skip
    foot, head = (start[0], start[1] - HALF_BOX), (end[0], end[1] + HALF_BOX)
    axes.annotate("", xy=head, xytext=foot, arrowprops=style, zorder=1)


if __name__ == "__main__":
    draw(PICTURE)
    sys.stdout.write(f"{PICTURE.relative_to(REPOSITORY)}: {len(arrows())} arrows\n")
