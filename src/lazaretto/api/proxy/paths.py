"""The paths that the proxy knows. A request is sent on under the name in this table, never under its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote

GUARDED = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
PASSED: Mapping[str, str] = MappingProxyType(
    {"/v1/models": "GET", "/v1/embeddings": "POST", "/v1/messages/count_tokens": "POST"}
)
"""Calls whose answers give an agent nothing to act on: only parts that cannot carry text are passed on."""
_ONE_MODEL = re.compile(r"/v1/models/[A-Za-z0-9][A-Za-z0-9._\-]*(?:[/:][A-Za-z0-9][A-Za-z0-9._\-]*){0,2}")
_MOST_DECODED = 5


def normal(path: str) -> str:
    """The path with escapes, dots and doubled slashes resolved; empty where that comes to no end."""
    for _ in range(_MOST_DECODED):
        plain = unquote(path).replace("\\", "/")
        if plain == path:
            made = posixpath.normpath("/" + re.sub(r"/+", "/", path).strip("/"))
            return made if made.isprintable() else ""
        path = plain
    return ""


def guarded(path: str, method: str) -> str:
    """The guarded path that is meant; empty where there is none."""
    meant = normal(path)
    return meant if method == "POST" and meant in GUARDED else ""


def passed(path: str, method: str) -> str:
    """The path that is meant and passed without judging; empty where there is none."""
    meant = normal(path)
    one_model = method == "GET" and _ONE_MODEL.fullmatch(meant)
    return meant if PASSED.get(meant) == method or one_model else ""


def known_paths() -> str:
    """All paths, for an error message."""
    return ", ".join((*(f"POST {path}" for path in GUARDED), *(f"{method} {path}" for path, method in PASSED.items())))
