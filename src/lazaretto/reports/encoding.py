"""JSON data that any encoding can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def encodable(data: Any) -> Any:
    """The same data without lone surrogates."""
    if isinstance(data, str):
        return data.encode("utf-8", "replace").decode()
    if isinstance(data, Mapping):
        return {key: encodable(value) for key, value in data.items()}
    return [encodable(value) for value in data] if isinstance(data, list) else data
