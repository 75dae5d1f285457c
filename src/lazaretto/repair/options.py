"""Reading a repair's own choices, so that a misspelt one is an error and not a wider repair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazaretto.errors import InputError


def read_options(given: Mapping[str, Any], allowed: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The options that were given, each known and of the right type."""
    for name, value in given.items():
        if name not in allowed:
            raise InputError(name, "is not an option of this repair", f"Use {', '.join(allowed) or 'none'}")
        kinds = allowed[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is int):
            raise InputError(name, f"is {value!r}", f"Give {getattr(kinds, '__name__', kinds)}")
    return dict(given)
