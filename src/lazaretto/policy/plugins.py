"""Parts by name: tables of ``"module:factory"`` for parts that ship here, plus entry points for parts of others.

Nothing is imported until its name is asked for, so a heavy part costs nothing where it is not used. A package adds its
own parts with an entry point, for example in its ``pyproject.toml``::

    [project.entry-points."lazaretto.gates"]
    mine = "my_package.gate:make"
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lazaretto.errors import InputError, MissingExtra


@dataclass(frozen=True)
class PluginTable:
    """One kind of part."""

    kind: str
    """The kind of an entry, for error messages: ``gate``."""
    group: str
    """The entry point group others use."""
    built_in: Mapping[str, str]
    """Name -> ``module:factory``. A built-in name cannot be taken over by an entry point."""

    def names(self) -> tuple[str, ...]:
        """Every name that can be asked for."""
        return tuple(sorted({*self.built_in, *(point.name for point in installed_points(self.group))}))

    def factory(self, name: str) -> Callable[..., Any]:
        """The factory of the part. ``InputError``: unknown name; ``ImportError``: an optional part is absent."""
        place = self.built_in.get(name)
        if place is None:
            found = [point for point in installed_points(self.group) if point.name == name]
            if not found:
                names = self.names()
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"Did you mean {near[0]!r}? " if near else ""
                raise InputError(self.kind, f"{name!r} is unknown", f"{hint}Use one of {', '.join(names)}")
            return _load(found[0])
        module, _, attribute = place.partition(":")
        return _load(EntryPoint(name, f"{module}:{attribute}", self.group))


def installed_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of one group. A package that is installed later is found by the next process."""
    return _read_points(group, tuple(sys.path))


@functools.lru_cache(maxsize=16)
def _read_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Read once: the files of 200 packages take 14 ms, and every guard that is opened asks."""
    return tuple(entry_points(group=group))


def require(what: str, extra: str, *modules: str) -> None:
    """``MissingExtra`` where one of the modules is not installed. None of them is imported: it takes no time."""
    if any(importlib.util.find_spec(module) is None for module in modules):
        raise MissingExtra(what, extra)


def _load(point: EntryPoint) -> Callable[..., Any]:
    module = importlib.import_module(point.module)
    factory: Callable[..., Any] = getattr(module, point.attr)
    return factory


ALLOW = "LAZARETTO_ALLOW_PLUGINS"
"""Names modules, with commas between them, whose functions a policy file may name."""


def allowed(module: str) -> bool:
    """Whether the operator lets policy files name this module."""
    return module in {name.strip() for name in os.environ.get(ALLOW, "").split(",")} - {""}


GATES = PluginTable(
    "gate",
    "lazaretto.gates",
    {
        "structure": "lazaretto.gates.structure:make",
        "blocklist": "lazaretto.gates.blocklist:make",
        "protected": "lazaretto.gates.protected:make",
        "secrets": "lazaretto.gates.secrets:make",
        "personal": "lazaretto.gates.personal:make",
        "content": "lazaretto.gates.content.gate:make",
        "memory": "lazaretto.gates.memory.gate:make",
        "second_reader": "lazaretto.gates.second_reader:make",
    },
)
REPAIRS = PluginTable(
    "repair",
    "lazaretto.repairs",
    {
        "isolate": "lazaretto.repair.short_repairs:Isolate",
        "contain": "lazaretto.repair.contain:Contain",
        "rewrite": "lazaretto.repair.contain:Rewrite",
        "release": "lazaretto.repair.short_repairs:Release",
        "rollback": "lazaretto.repair.short_repairs:Rollback",
        "remove": "lazaretto.repair.short_repairs:Remove",
        "sweep": "lazaretto.repair.short_repairs:Sweep",
    },
)
EMBEDDERS = PluginTable("embedder", "lazaretto.embedders", {})
