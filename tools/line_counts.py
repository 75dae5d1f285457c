"""Counts the product's lines by room and kind, and finds code that is there twice: ``python tools/line_counts.py``.

Two functions are *alike* when they are the same with other names, constants and types; so are runs of three statements
over at least six lines in two files. Bodies that are only a docstring do not count.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

PRODUCT = Path(__file__).resolve().parent.parent / "src" / "lazaretto"
KINDS = ("code", "import", "docstring", "comment", "blank")
LEAST_LINES = 6


class Nameless(ast.NodeTransformer):
    """Takes names, constants and types out of a tree."""

    def visit_Name(self, _node: ast.Name) -> ast.Name:
        return ast.Name("name", ast.Load())

    def visit_Constant(self, _node: ast.Constant) -> ast.Constant:
        return ast.Constant("constant")

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg, node.annotation = "name", None
        return node


def kinds(source: str, tree: ast.Module) -> Counter[str]:
    """How many lines of a file are of each kind."""
    lines = [line.strip() for line in source.splitlines()]
    found = ["blank" if not line else "comment" if line.startswith("#") else "code" for line in lines]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kind = "import"
        elif is_docstring(node):
            kind = "docstring"
        else:
            continue
        found[node.lineno - 1 : node.end_lineno] = [kind] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return Counter(found)


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a text by itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def runs(tree: ast.Module) -> Iterator[Sequence[ast.stmt]]:
    """The bodies of all functions, and every three statements that follow each other in one."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = [one for one in node.body if not is_docstring(one)]
            yield body
            yield from (body[place : place + 3] for place in range(len(body) - 2) if len(body) > 3)


def main() -> None:
    """Print the counts by room, and what is alike."""
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(PRODUCT.rglob("*.py")):
        place, source = file.relative_to(PRODUCT), file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        rooms[place.parts[0] if len(place.parts) > 1 else "(ground)"] += kinds(source, tree)
        for body in runs(tree):
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= LEAST_LINES:
                plain = ast.Module([Nameless().visit(copy.deepcopy(one)) for one in body], [])
                alike[ast.dump(plain)].append(f"{place.as_posix()}:{body[0].lineno}")
    print("room", "lines", *KINDS, sep="\t")
    for room, counted in sorted(rooms.items(), key=lambda one: -one[1].total()):
        print(room, counted.total(), *(counted[kind] for kind in KINDS), sep="\t")
    whole = sum(rooms.values(), Counter[str]())
    print("all", whole.total(), *(whole[kind] for kind in KINDS), sep="\t")
    for places in alike.values():
        if len({place.split(":")[0] for place in places}) > 1 or len(places) > 2:
            print("alike:", ", ".join(places))


if __name__ == "__main__":
    main()
