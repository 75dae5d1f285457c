"""The texts in a value of a caller's store, and how a new text gets back into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from lazaretto.errors import InputError, TooLarge

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+|\n|$)\s*|[.!?\n]+\s*")


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value, keys of several words too: a model reads them all."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str) and len(key.split()) > 1:
                yield key
            if isinstance(inner, (str, Mapping, list, tuple)):
                yield from texts_in(inner)
            elif inner is not None and not isinstance(inner, bool):
                yield f"{key}: {inner}"
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def text_of(value: Any) -> str:
    """The text by which a value is judged."""
    if isinstance(value, str):
        return value
    return "\n".join(text for text in texts_in(value) if text.strip())


def with_text(value: Any, text: str) -> Any:
    """A value with ``text`` in place of its own texts: each of these keeps the sentences that are left of it.

    One that says something which was nowhere in the value becomes ``{"text": ...}``.
    """
    if value is None or isinstance(value, str):
        return text
    left = _mapped(value, lambda old: "".join(s for s in _SENTENCE.findall(old) if s.strip() in text).strip())
    if _letters(text_of(left)) == _letters(text):
        return left
    facts = set(texts_in(_mapped(value, lambda _: "")))
    kept = "\n".join(line for line in text.split("\n") if line not in facts)
    return _mapped(value, lambda _: kept) if len(set(texts_in(value)) - facts) == 1 else {"text": kept}


def _letters(text: str) -> str:
    return "".join(text.split())


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(inner, change) for inner in value]
    return value


def check_value(value: Any, limit: int) -> Any:
    """A value as plain JSON data inside the limit."""
    try:
        raw = orjson.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "value", f"is not plain JSON data: {error}", "Give text, numbers, lists and mappings"
        ) from None
    if len(raw) > limit:
        raise TooLarge("value", len(raw), limit)
    return orjson.loads(raw)
