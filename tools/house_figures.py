"""Figures of the house, before and after: ``python tools/house_figures.py [--commit COMMIT] [--write NAME]``.

Counts one commit (default: the files that git knows here, as they are): lines, files, rooms, public names, tests, words
of the documentation, tracked files, the size of the wheel, and what one ``remember`` runs through. ``--write NAME``
stores them as ``lab/results/house/NAME.json``; ``--table`` prints the stored figures side by side. Test time is
measured apart (``make test`` on a quiet machine) and given with ``--test-minutes``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
RESULTS = HERE / "lab" / "results" / "house"
PUBLIC = """
import inspect, json, lazaretto
from lazaretto import Guard
calls = [name for name in dir(Guard) if not name.startswith("_")]
print(json.dumps({"names at the front door": len(lazaretto.__all__), "public members of Guard": len(calls)}))
"""


def checkout(commit: str, folder: Path) -> str:
    """Write the files of a commit into a folder; an empty commit: tracked files as they are. Returns its name."""
    if commit:
        archive = subprocess.run(["git", "archive", commit], cwd=HERE, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
        return _git("rev-parse", "--short", commit)
    names = _git("ls-files", "-z").rstrip("\0")
    subprocess.run(
        ["tar", "-c", "--null", "-T", "-", "-f", str(folder / "all.tar")], cwd=HERE, input=names.encode(), check=True
    )
    subprocess.run(["tar", "-x", "-f", "all.tar"], cwd=folder, check=True)
    (folder / "all.tar").unlink()
    return _git("rev-parse", "--short", "HEAD") + (" and changes" if _git("status", "--porcelain", "-uno") else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip("\n")


def counted(folder: Path) -> dict[str, int]:
    """Everything that can be counted without running the product."""
    product = folder / "src" / "lazaretto"
    files = sorted(product.rglob("*.py"))
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    types = Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    tests = [*(folder / "tests").rglob("test_*.py"), *(folder / "lab" / "tests").rglob("test_*.py")]
    functions = sum(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
        for file in tests
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    )
    pages = [page.read_text(encoding="utf-8") for page in (folder / "docs").rglob("*.md")]
    return {
        "product lines": sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files),
        "product files": len(files),
        "rooms (folders)": sum((entry / "__init__.py").exists() for entry in product.iterdir()),
        "loose files beside the rooms": len(list(product.glob("*.py"))),
        "longest product file, lines": max(len(file.read_text(encoding="utf-8").splitlines()) for file in files),
        "public type names": len(types),
        "public type names that exist twice or more": sum(count > 1 for count in types.values()),
        "test functions": functions,
        "words in docs": sum(len(page.split()) for page in pages),
        "tracked files": sum(path.is_file() for path in folder.rglob("*")),
    }


def run_through(folder: Path) -> dict[str, int]:
    """Files, threads and sessions of one ``remember``, and the names that a user reaches."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "LAZARETTO_DEEP": str(folder / "no-deep")}
    tool = [sys.executable, str(HERE / "tools" / "files_crossed.py")]
    printed = subprocess.run(tool, capture_output=True, text=True, env=environment, check=True).stdout
    found = {"files one remember crosses": r"(\d+) files in", "its threads": r"(\d+) threads"}
    found |= {part: rf"{part}: (\d+) files" for part in ("the way", "inside the gates", "inside the store")}
    found |= {"ONNX sessions": r"(\d+) ONNX sessions"}
    figures = {name: int(match[1]) for name, where in found.items() if (match := re.search(where, printed))}
    command = [sys.executable, "-W", "ignore", "-c", PUBLIC]
    names = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    return {**figures, **json.loads(names)}


def wheel_bytes(folder: Path) -> int:
    """The size of the product's wheel. The build leaves files in the folder."""
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder / "dist"))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(folder)], cwd=folder, check=True)
    (wheel,) = (folder / "dist").glob("lazaretto-*.whl")
    return wheel.stat().st_size


def table() -> str:
    """The stored figures side by side, as Markdown."""
    columns = {file.stem: json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"), reverse=True)}
    columns = dict(sorted(columns.items(), key=lambda column: column[0] != "before"))
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures["figures"]))
    head = [f"{name} ({figures['commit']})" for name, figures in columns.items()]
    lines = ["| | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for name in names:
        cells = [figures["figures"].get(name) for figures in columns.values()]
        lines.append(f"| {name} | " + " | ".join("" if cell is None else f"{cell:,}" for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Count one commit, or print the table of those that are stored."""
    parser = argparse.ArgumentParser(description="Figures of the house, before and after.")
    parser.add_argument("--commit", default="", help="the commit to count; default: the files as they are")
    parser.add_argument("--write", default="", metavar="NAME", help="store the figures as lab/results/house/NAME.json")
    parser.add_argument("--test-minutes", type=float, help="minutes that make test took, measured apart")
    parser.add_argument("--table", action="store_true", help="print the stored figures and count nothing")
    options = parser.parse_args()
    if options.table:
        print(table())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commit = checkout(options.commit, folder)
        figures: dict[str, float | None] = dict(counted(folder))
        figures |= run_through(folder)
        figures |= {"wheel, bytes": wheel_bytes(folder), "make test, minutes on two cores": options.test_minutes}
    text = json.dumps({"commit": commit, "figures": figures}, indent=1) + "\n"
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{options.write}.json").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
