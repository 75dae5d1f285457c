"""Lists what the product defines and does not use itself: ``python tools/used_nowhere.py``.

A row says how often the laboratory, tests and examples use the name. Names are compared as words, so a name that stands
for two things counts as used. Decorated functions (commands, routes, hooks) and adapters are called by others and are
left out. The last line has the sizes of the tree.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PRODUCT = REPOSITORY / "src" / "lazaretto"
FOLDERS = ("src", "lab", "tests", "examples", "tools")
_PLAIN = ("property", "dataclass", "staticmethod", "classmethod")


class Words(ast.NodeVisitor):
    """Every name that a file reads: variables, attributes, keywords, and words of short strings."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def visit_Name(self, node: ast.Name) -> None:
        self.found[node.id] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.found[node.attr] += 1
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.found[node.arg or ""] += 1
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value) < 200:
            self.found.update(re.findall(r"[A-Za-z_]\w+", node.value))


def defined(file: Path) -> Iterator[tuple[str, int]]:
    """The names a file defines, each with how often its definition itself counts as a use."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            marks = [ast.unparse(one) for one in node.decorator_list]
            if not marks or any(word in one for one in marks for word in _PLAIN):
                yield node.name, 0
        elif isinstance(node, ast.Assign) and node.col_offset == 0:
            yield from ((one.id, 1) for one in node.targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, 1


def uses() -> dict[str, Counter[str]]:
    """How often each folder uses each name."""
    counted: dict[str, Counter[str]] = {}
    for folder in FOLDERS:
        words = Words()
        for file in (REPOSITORY / folder).rglob("*.py"):
            words.visit(ast.parse(file.read_text(encoding="utf-8")))
        counted[folder] = words.found
    pages = " ".join(file.read_text(encoding="utf-8") for file in PRODUCT.rglob("*.html"))
    counted["src"].update(re.findall(r"\w+", pages))
    return counted


def main() -> None:
    """Print the list and the sizes."""
    counted, files = uses(), sorted(PRODUCT.rglob("*.py"))
    for file in files:
        place = file.relative_to(PRODUCT).as_posix()
        for name, own in () if place.startswith("adapters/") else defined(file):
            if not name.startswith("__") and counted["src"][name] <= own:
                print(f"{place} {name}:", ", ".join(f"{where} {counted[where][name]}" for where in FOLDERS[1:]))
    tracked = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    rooms = sum(one.is_dir() and one.name != "__pycache__" for one in PRODUCT.iterdir())
    print(f"{lines:,} lines, {len(files)} files, {rooms} rooms; {len(tracked.stdout.splitlines()):,} tracked files")


if __name__ == "__main__":
    main()
