"""Descriptions of tools and parameters, read out of packages of MCP servers; nothing of them runs."""

from __future__ import annotations

import ast
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

_JS = re.compile(r"description:\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)")


def described_in(package: Path) -> list[str]:
    """The descriptions in one package, of four words or more."""
    found: list[str] = []
    if package.suffix == ".tgz":
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith((".js", ".mjs", ".cjs")) and member.size < 8_000_000:
                    source = archive.extractfile(member)
                    found += _in_javascript(source.read().decode(errors="replace") if source else "")
    elif package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                if name.endswith(".py"):
                    found += _in_python(archive.read(name).decode(errors="replace"))
    return [text for text in dict.fromkeys(found) if len(text.split()) >= 4]


def _in_javascript(source: str) -> Iterator[str]:
    for match in _JS.finditer(source):
        yield match[1][1:-1].replace("\\n", "\n").replace("\\", "")


def _in_python(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any("tool" in ast.unparse(one) for one in node.decorator_list) and (text := ast.get_docstring(node)):
                yield text
        elif isinstance(node, ast.keyword) and node.arg == "description":
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            if isinstance(value, str):
                yield value
