"""The JSON schema of a tool's arguments, wherever a framework keeps it: the last gate reads fixed words from it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints


def schema_of(tool: Any) -> Mapping[str, Any] | None:
    """The JSON schema of the arguments of a framework's tool or a plain function; None where it has none."""
    if isinstance(tool, (types.FunctionType, types.MethodType)):
        return _of_function(tool)
    given = getattr(tool, "params_json_schema", None) or getattr(tool, "parameters", None)
    shape = getattr(getattr(tool, "args_schema", None), "model_json_schema", None)
    try:
        found = given() if callable(given) else given or (shape() if callable(shape) else None)
    except Exception:  # a framework that cannot describe its own tool: the arguments of the call are enough
        return None
    if isinstance(found, Mapping):
        return found
    return _of_function(tool.func) if callable(getattr(tool, "func", None)) else None


def _of_function(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    try:
        names, hints = inspect.signature(function).parameters, get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return None
    return {"properties": {name: _of_hint(hints.get(name)) for name in names}}


def _of_hint(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    return {"type": "boolean"} if hint is bool else {}
