"""The one name of a request to a model: equal names, equal answers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from lazaretto.models.protocol import Request


def request_key(model: str, request: Request) -> str:
    """A digest of everything that decides the answer: the model, and every field of the request."""
    # orjson writes all fields of a dataclass, so a field that is added later is part of the key from its first day
    return hashlib.sha256(orjson.dumps([model, request], default=_plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a request")
