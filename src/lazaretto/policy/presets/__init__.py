"""Presets: whole policies by name, one TOML file each, that other policies start from.

``minimal`` needs no model, ``recommended`` is the default, ``strict`` holds items that ``recommended`` warns about.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

DEFAULT = "recommended"
"""The preset of a policy file or mapping that names none."""
NAMES = ("minimal", DEFAULT, "strict")


def on_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's table, laid over the preset it names.

    A policy's own stages replace the preset's list of optional gates: a gate that is named is wanted.
    """
    name = given.get("preset", DEFAULT)
    laid = _merged(_table(name) if name in NAMES else {}, given)
    channels = given.get("channels")
    for channel, table in channels.items() if isinstance(channels, Mapping) else ():
        if isinstance(table, Mapping) and "stages" in table and "optional" not in table:
            laid["channels"][channel].pop("optional", None)
    return {**laid, "preset": name}


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` on ``base``: tables are joined key by key, other values are replaced. Shares no table with either."""
    joined = {key: _merged(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        if isinstance(value, Mapping):
            known = joined.get(key)
            joined[key] = _merged(known if isinstance(known, Mapping) else {}, value)
        else:
            joined[key] = value
    return joined
