"""The order of the folders is law: this reads every import of the package and holds it against ARCHITECTURE.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "lazaretto"

GROUND = {"types", "errors", "config", "plugins"}
BED = {"models", "agents", "metrics"}
ALLOWED: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "config": {"types", "errors"},
    "plugins": {"types", "errors", "config"},
    "ledger": GROUND,
    "models": GROUND | {"ledger"},
    "metrics": GROUND,
    "agents": GROUND | {"ledger", "models"},
    "ingest": GROUND | BED | {"ledger"},
    "gates": GROUND | BED | {"ledger"},
    "repair": GROUND | BED | {"ledger"},
    "learn": GROUND | BED | {"ledger", "gates", "repair"},
    "attacks": GROUND | BED,
    "worlds": GROUND | BED | {"ledger", "attacks"},
    "guard": GROUND | BED | {"ledger", "ingest", "gates", "repair", "learn"},
}
ALLOWED["testing"] = ALLOWED["guard"] | {"guard"}
ALLOWED["bench"] = ALLOWED["guard"] | {"guard", "attacks", "worlds"}
ALLOWED["__init__"] = ALLOWED["guard"] | {"guard"}
ALLOWED["api"] = ALLOWED["ui"] = ALLOWED["guard"] | {"guard"}
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}


def imported_rooms(file: Path) -> set[tuple[str, int]]:
    """First-level folders (or modules) of the package that a file imports, with line numbers."""
    rooms: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: write the whole name, not a relative import"
            if node.module == "lazaretto":
                names = [f"lazaretto.{alias.name}" for alias in node.names]
            else:
                names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == "lazaretto":
                rooms.add((parts[1] if len(parts) > 1 else "__init__", node.lineno))
    return rooms


def room_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_follow_the_order_of_the_folders(file: Path) -> None:
    room = room_of(file)
    assert room in ALLOWED, f"{room} has no place in ARCHITECTURE.md; give it one, there and here"
    bad = [
        f"{file.name}:{line} imports {other}"
        for other, line in imported_rooms(file)
        if other not in ALLOWED[room] | {room}
    ]
    assert not bad, f"{room} may import {sorted(ALLOWED[room])} only: {bad}"


def test_every_room_of_the_table_is_in_the_architecture_page() -> None:
    page = (PACKAGE.parent.parent / "ARCHITECTURE.md").read_text()
    missing = [
        room
        for room in sorted({room_of(f) for f in PACKAGE.rglob("*.py")})
        if not room.startswith("__") and room not in page
    ]
    assert not missing, f"ARCHITECTURE.md does not mention {missing}"
