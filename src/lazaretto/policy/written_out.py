"""Settings written out: rows and tables for the documentation, a policy as a commented file, single changes."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import orjson
from pydantic.fields import FieldInfo

from lazaretto.errors import InputError
from lazaretto.policy.policy import Policy
from lazaretto.types import Channel, Ruling, SourceClass, plain


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of a settings table."""

    key: str
    default: str
    allowed: str
    meaning: str


def rows(model: type, prefix: str = "", settings: Any = None) -> list[SettingRow]:
    """Every setting of a settings dataclass, for documentation and for a commented file.

    ``settings``: an instance whose values stand in for the defaults.
    """
    hints, found = get_type_hints(model, include_extras=True), []
    for item in dataclasses.fields(model):
        kind, name = hints[item.name], f"{prefix}{item.name}"
        if dataclasses.is_dataclass(kind):
            found += rows(cast(type, kind), f"{name}.", None if settings is None else getattr(settings, item.name))
            continue
        default = item.default
        if settings is not None:
            default = getattr(settings, item.name)
        elif item.default_factory is not dataclasses.MISSING:
            default = item.default_factory()
        found.append(SettingRow(name, toml_value(default), _allowed(kind), _described(kind)))
    return found


def _metadata(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is not Annotated:
        return
    for extra in get_args(kind)[1:]:
        if isinstance(extra, FieldInfo):
            yield from extra.metadata
        yield extra
    if get_origin(get_args(kind)[0]) is Annotated:
        yield from _metadata(get_args(kind)[0])


def _described(kind: Any) -> str:
    texts = [m.description for m in _metadata(kind) if isinstance(m, FieldInfo) and m.description]
    return texts[0] if texts else ""


def _allowed(kind: Any) -> str:
    base = kind
    while get_origin(base) is Annotated:
        base = get_args(base)[0]
    if base is Ruling:
        return ", ".join(r.label for r in Ruling)
    if base is SourceClass:
        return ", ".join(SourceClass)
    if get_origin(base) is Literal:
        return ", ".join(get_args(base))
    if get_origin(base) in (Union, UnionType):
        return " or ".join(_allowed(part) for part in get_args(base))
    words = {bool: "true, false", int: "whole number", float: "number", str: "text"}
    word = words.get(base) or (
        "table" if get_origin(base) is Mapping else "list" if get_origin(base) is tuple else str(base)
    )
    signs = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    bounds = [f"{sign} {getattr(m, name):,}" for m in _metadata(kind) for name, sign in signs if hasattr(m, name)]
    return " ".join([word, *dict.fromkeys(b for b in bounds if "None" not in b)])


def toml_value(value: Any) -> str:
    """A default as TOML writes it."""
    ready = plain(value)
    if isinstance(ready, list):
        return "[" + ", ".join(toml_value(v) for v in ready) + "]"
    if isinstance(ready, dict):
        return "{" + ", ".join(f"{k} = {toml_value(v)}" for k, v in ready.items()) + "}"
    if isinstance(ready, int) and not isinstance(ready, bool):
        return f"{ready:_}"
    return orjson.dumps(ready).decode()


def commented_toml(gates: Mapping[str, type], policy: Policy) -> str:
    """A policy written out as a file and explained; ``gates`` maps gate names to settings dataclasses.

    It reads back as ``policy``. Settings of gates that the policy does not set stand there as comments, because a gate
    knows its own defaults.
    """
    lines = ["# Policy of a Lazaretto guard. Every line shows what its preset says: delete what you do not change."]
    table = ""
    for row in sorted(rows(Policy, settings=policy), key=lambda row: row.key.count(".") > 0):
        head, _, name = row.key.rpartition(".")
        if row.key in ("gates", "actions"):
            continue
        if head != table:
            lines += ["", f"[{head}]"]
            table = head
        lines += [f"# {row.meaning} Allowed: {row.allowed}.", f"{name} = {row.default}"]
    for gate, model in gates.items():
        given = policy.gates.get(gate, {})
        lines += ["", f"[gates.{gate}]" if given else f"# [gates.{gate}]"]
        for row in rows(model):
            setting = (
                f"{row.key} = {toml_value(given[row.key])}" if row.key in given else f"# {row.key} = {row.default}"
            )
            lines += [f"# {row.meaning} Allowed: {row.allowed}.", setting]
    return "\n".join(lines) + "\n"


def markdown_table(model: type, prefix: str = "", settings: Any = None) -> str:
    """The settings of a dataclass as a table for the documentation; ``settings`` as for ``rows``.

    Channels with the same default share a row: ``channels.tool, document.optional``, or ``channels.*.gray`` for all.
    """
    shared: dict[tuple[str, ...], list[str]] = {}
    for row in rows(model, prefix, settings):
        channel, _, key = (
            row.key.removeprefix("channels.").rpartition(".") if "channels." in row.key else ("", "", row.key)
        )
        shared.setdefault((key, row.default, row.allowed, row.meaning), []).append(channel)
    lines = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for (key, default, allowed, meaning), channels in shared.items():
        names = "*" if len(channels) == len(Channel) else ", ".join(channels)
        lines.append(f"| `{f'channels.{names}.' if names else ''}{key}` | `{default}` | {allowed} | {meaning} |")
    return "\n".join(lines) + "\n"


# A policy file with single settings changed; the rest stays as it was written, comments too.

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
