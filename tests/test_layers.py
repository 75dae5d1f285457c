"""The order of the rooms is law: this reads every import of both packages and holds it against ARCHITECTURE.md."""

from __future__ import annotations

import ast
import functools
import runpy
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PRODUCT = REPOSITORY / "src" / "lazaretto"
LABORATORY = REPOSITORY / "lab" / "src" / "lazaretto_lab"

GROUND = set(runpy.run_path(str(REPOSITORY / "tools" / "draw_imports.py"))["GROUND"])
BED = {"models", "agents"}
RECORD = {"ledger", "provenance"}
ALLOWED: dict[str, set[str]] = {
    "reasons": set(),
    "types": {"reasons"},
    "errors": set(),
    "files": set(),
    "installed": set(),
    "names": {"errors"},
    "identity": {"types", "errors", "names"},
    "kept_texts": set(),
    "reports": set(),
    "processor_time": {"types"},
    "policy": {"types", "errors", "names"},
    "plugins": {"policy", "names"},
    "old_modules": {"names"},
    "picture_worker": set(),
    "pictures": {"types", "errors", "policy", "picture_worker", "kept_texts"},
    "ledger": GROUND,
    "provenance": GROUND | {"ledger"},
    "incidents": GROUND | {"ledger", "provenance"},
    "models": GROUND,
    "agents": GROUND | {"models"},
    "external_stores": GROUND | {"ledger"},
    "ingest": GROUND | BED | {"ledger", "external_stores"},
    "reading": GROUND | BED,
    "cases": GROUND | {"models", "ledger", "reading"},
    "gates": GROUND | BED | RECORD | {"reading", "cases"},
    "repair": GROUND | BED | RECORD,
    "learn": GROUND | BED | RECORD | {"cases", "gates", "repair"},
    "actions": GROUND | RECORD | {"reading", "gates"},
}
PARTS = {
    "reading",
    "cases",
    "external_stores",
    "ingest",
    "gates",
    "repair",
    "learn",
    "incidents",
    "actions",
}
ALLOWED["guard"] = GROUND | BED | RECORD | PARTS
ALLOWED["scan"] = GROUND | BED | RECORD | {"gates"}
ALLOWED["testing"] = ALLOWED["console"] = ALLOWED["mcp"] = ALLOWED["guard"] | {"guard"}
ALLOWED["adapters"] = ALLOWED["guard"] | {"guard"}
ALLOWED["__init__"] = ALLOWED["adapters"] | {"old_modules"}
ALLOWED["api"] = ALLOWED["console"] | {"console", "mcp"}
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}

BENCH = {"metrics", "models", "pocket"}
LAB_ALLOWED: dict[str, set[str]] = {
    "metrics": set(),
    "models": set(),
    "pocket": {"models"},
    "attacks": BENCH,
    "worlds": BENCH | {"attacks"},
    "harness": {"metrics"},
    "training": BENCH | {"worlds", "attacks"},
}
LAB_ALLOWED["studies"] = set(LAB_ALLOWED)
LAB_ALLOWED["cli"] = set(LAB_ALLOWED)
LAB_ALLOWED["__init__"] = set()

DEFENCES = {"gates", "repair", "guard", "learn"}
KNOWS_THE_GATE = {"attacks/adaptive/search.py"}
"""An attacker with the shipped files in hand: it reads the foresight gate's probe, which everybody can."""


@functools.cache
def imports_of(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import of a file, wherever it stands."""
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(file: Path, package: str) -> set[tuple[str, int]]:
    """First-level rooms (or modules) of a package that a file imports, with line numbers."""
    rooms: set[tuple[str, int]] = set()
    for node in imports_of(file):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{file}:{node.lineno}: write the whole name, not a relative import"
            if node.module == package:
                names = [f"{package}.{alias.name}" for alias in node.names]
            else:
                names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == package:
                rooms.add((parts[1] if len(parts) > 1 else "__init__", node.lineno))
    return rooms


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def room_of(file: Path, folder: Path) -> str:
    return file.relative_to(folder).with_suffix("").parts[0]


def rooms_of(folder: Path) -> list[str]:
    return sorted({room_of(file, folder) for file in files_of(folder)})


def check(room: str, folder: Path, allowed: dict[str, set[str]]) -> list[Path]:
    """Hold every import of a room against what it may import; the room's files."""
    assert room in allowed, f"{room} has no place in ARCHITECTURE.md; give it one, there and here"
    files = [file for file in files_of(folder) if room_of(file, folder) == room]
    bad = [
        f"{file.relative_to(folder)}:{line} imports {other}"
        for file in files
        for other, line in imported(file, folder.name)
        if other not in allowed[room] | {room}
    ]
    assert not bad, f"{room} may import {sorted(allowed[room])} only: {bad}"
    return files


@pytest.mark.parametrize("room", rooms_of(PRODUCT))
def test_the_product_follows_the_order_of_its_rooms(room: str) -> None:
    files = check(room, PRODUCT, ALLOWED)
    bad = [file for file in files if imported(file, LABORATORY.name)]
    assert not bad, f"the product never imports the laboratory, but these do: {bad}"


@pytest.mark.parametrize("room", rooms_of(LABORATORY))
def test_the_laboratory_follows_the_order_of_its_rooms(room: str) -> None:
    for file in check(room, LABORATORY, LAB_ALLOWED):
        if room == "attacks" and file.relative_to(LABORATORY).as_posix() not in KNOWS_THE_GATE:
            known = {room for room, _ in imported(file, PRODUCT.name)} & DEFENCES
            assert not known, f"attacks never import defences, but {file.name} imports {known}"


@pytest.mark.parametrize("folder", [PRODUCT, LABORATORY], ids=lambda f: f.name)
def test_every_room_is_in_the_architecture_page(folder: Path) -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    missing = [room for room in rooms_of(folder) if not room.startswith("__") and room not in page]
    assert not missing, f"ARCHITECTURE.md does not mention {missing}"


def loaded_with(file: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file imports at its top, those for types alone included."""
    found: set[str] = set()
    for statement in ast.parse(file.read_text()).body:
        for node in statement.body if isinstance(statement, ast.If) else [statement]:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                found.update(inside & modules.keys() or {str(node.module)})
    return found & modules.keys()


@pytest.mark.parametrize("folder", [PRODUCT, LABORATORY], ids=lambda f: f.name)
def test_no_files_import_each_other_in_a_ring(folder: Path) -> None:
    names = {file: ".".join(file.relative_to(folder.parent).with_suffix("").parts) for file in files_of(folder)}
    modules = {name.removesuffix(".__init__"): file for file, name in names.items()}
    graph = {name: loaded_with(file, modules) - {name} for name, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a reader of one has to read all of these at once: {' <- '.join(error.args[1])}")
