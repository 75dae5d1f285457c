"""A policy file with single settings changed; the rest stays as it was written, comments too."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

from lazaretto.errors import InputError
from lazaretto.policy.written_out import toml_value

_HEAD = re.compile(r"^\s*\[([^\[\]]+)\]\s*(#.*)?$")


def edited(text: str, changes: Mapping[tuple[str, str], float | str]) -> str:
    """The text of a TOML file with settings changed: (table, key) -> value. ``InputError`` where that cannot be done
    line by line, for example in an inline table."""
    for (table, key), value in changes.items():
        text = _edited(text, table, key, toml_value(value))
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = {}
    for (table, key), value in changes.items():
        at = found
        for part in filter(None, table.split(".")):
            at = at.get(part, {})
        if at.get(key) != value:
            raise InputError("write", f"[{table}] {key} cannot be set in this file", "Write it in a table of its own")
    return text


def _edited(text: str, table: str, key: str, value: str) -> str:
    lines, inside, last = text.splitlines(), table == "", -1
    for number, line in enumerate(lines):
        head = _HEAD.match(line)
        if head:
            inside = head[1].strip() == table
            last = number if inside else last
        elif inside:
            match = re.match(rf"^(\s*{re.escape(key)}\s*=\s*)([^#]*?)(\s*#.*)?$", line)
            if match:
                lines[number] = f"{match[1]}{value}{match[3] or ''}"
                return "\n".join(lines) + "\n"
            last = number if line.strip() else last
    if not table:  # before the first table, behind the lines that belong to none
        lines.insert(last + 1, f"{key} = {value}")
    elif last < 0:
        lines += [*([""] if lines else []), f"[{table}]", f"{key} = {value}"]
    else:
        lines.insert(last + 1, f"{key} = {value}")
    return "\n".join(lines) + "\n"
