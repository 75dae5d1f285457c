"""Reads the tables of a policy: strictly, into frozen dataclasses, with errors that name the key.

A gate describes its settings as such a dataclass and calls ``read_settings``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from lazaretto.errors import PolicyError
from lazaretto.types import Ruling

Settings = TypeVar("Settings")
CLOSED = ConfigDict(extra="forbid")
"""Put this into a settings dataclass as ``__pydantic_config__``, so that unknown keys are errors."""


def _ruling(value: Any) -> Any:
    return Ruling.from_label(value) if isinstance(value, str) else value


RulingWord = Annotated[Ruling, BeforeValidator(_ruling)]
"""A ruling that a file writes as a word, for example ``"review"``."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1."""


def _ordered(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] > band[1]:
        raise ValueError("two numbers from 0 to 1, the smaller one first")
    return band


Band = Annotated[tuple[Share, Share], AfterValidator(_ordered)]
"""A range of two numbers, both from 0 to 1."""

TABLE, PLAIN = "(table)", "(plain)"
"""Pydantic's marks for the form of a setting it read; never part of a key that people see."""


def setting_form(value: Any) -> str:
    """The form of a setting that may be a table or a plain value."""
    return TABLE if isinstance(value, Mapping) or dataclasses.is_dataclass(value) else PLAIN


def read_settings(model: type[Settings], table: Mapping[str, Any], *, key: str = "", file: str = "policy") -> Settings:
    """A frozen dataclass from a table of a policy; ``key`` is where the table stands, for example ``gates.memory``."""
    try:
        # JSON's strict mode fits TOML: lists may become tuples, but "5" never becomes 5.
        data = orjson.dumps(table, default=str, option=orjson.OPT_NON_STR_KEYS)
        settings: Settings = _adapter(cast(Any, model)).validate_json(data, strict=True)
        return settings
    except ValidationError as error:
        raise _policy_error(model, table, error, key, file) from None
    except (TypeError, orjson.JSONEncodeError) as error:
        raise PolicyError(key or "(file)", str(error), "plain TOML values", file) from None


@functools.cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _policy_error(model: type, table: Mapping[str, Any], error: ValidationError, key: str, file: str) -> PolicyError:
    first = error.errors(include_url=False)[0]
    path, found = tuple(part for part in first["loc"] if part not in (TABLE, PLAIN)), first["input"]
    dotted = ".".join([key] * bool(key) + [str(part) for part in path]).replace(".[", "[")
    if first["type"] == "unexpected_keyword_argument":
        names = [f.name for f in dataclasses.fields(_owner(model, path[:-1]))]
        return PolicyError(dotted, str(path[-1]), f"{suggestion(str(path[-1]), names)}one of {', '.join(names)}", file)
    original = _at(table, path, found)
    allowed = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if first["type"] == "dataclass_type":
        allowed = f"a table with {', '.join(f.name for f in dataclasses.fields(_owner(model, path)))}"
    return PolicyError(dotted or "(file)", original, allowed, file)


def _owner(model: Any, path: tuple[int | str, ...]) -> Any:
    """The dataclass that a path leads to."""
    for part in path:
        model = get_type_hints(model)[part] if isinstance(part, str) else get_args(model)[0]
        if get_origin(model) in (Union, UnionType):  # of the forms a setting may have, the table has keys
            model = next(form for form in get_args(model) if dataclasses.is_dataclass(form))
    return model


def _at(table: Any, path: tuple[int | str, ...], otherwise: Any) -> Any:
    for part in path:
        try:
            table = table[part]
        except (KeyError, IndexError, TypeError):
            return otherwise
    return table


def suggestion(word: str, names: Iterable[str]) -> str:
    """Words that name the nearest of ``names``, where one is near."""
    near = difflib.get_close_matches(word, list(names), n=1)
    return f"did you mean {near[0]!r}? " if near else ""
