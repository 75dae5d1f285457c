"""Making a repair from its name and options, read strictly: a misspelt option is an error and not a wider repair."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from lazaretto.errors import InputError
from lazaretto.policy import plugins
from lazaretto.repair.protocol import Repair


def make_repair(repair: str | Repair, options: Mapping[str, Any] | None = None) -> Repair:
    """The repair of a name with its options, or one that was made in Python, checked alike."""
    if isinstance(repair, str):
        return _read(plugins.REPAIRS.factory(repair), options or {})
    if options:
        raise InputError(next(iter(options)), "is given beside a repair", f"Give it to {type(repair).__name__}(...)")
    return _read(type(repair), {name: getattr(repair, name) for name in _names(type(repair))})


def _read(kind: Any, options: Mapping[str, Any]) -> Repair:
    known = _names(kind)
    for name in options:
        if name not in known:
            raise InputError(name, f"is not an option of {kind.name}", f"Use {', '.join(known) or 'none'}")
    try:
        # JSON's strict mode: lists may become tuples, but "5" never becomes 5
        made: Repair = _adapter(kind).validate_json(orjson.dumps(dict(options)), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if name not in options:
            raise InputError(name, "is missing", "Give it") from None
        wanted = first["msg"].removeprefix("Input should be ")
        raise InputError(name, f"is {options[name]!r}", f"It should be {wanted}") from None
    except TypeError as error:
        raise InputError("options", str(error), "Give text, numbers, truth values and lists of them") from None
    return made


def _names(kind: Any) -> list[str]:
    if not is_dataclass(kind):
        raise InputError("repair", f"{kind!r} is not a dataclass", "Make its options its fields; see docs/repair.md")
    return [field.name for field in fields(kind)]


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
