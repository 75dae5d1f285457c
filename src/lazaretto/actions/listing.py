"""The single values in a directory's answer: ids, addresses, names, each whole.

A value counts as the crew's own only where it is a whole value of the answer: a part of a longer text (the name of a
channel, the description of an event) may have been written by a stranger.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lazaretto.actions.values import (
    account_form,
    accounts_in,
    addresses_in,
    only_addresses,
    plain_form,
    stands_in,
    value_form,
)
from lazaretto.reading.normalization import fold
from lazaretto.types import plain

MOST_CHARACTERS = 50_000
"""Longest answer, in characters, that is taken apart; nothing of a longer one is believed."""
MOST_LISTED = 5_000
_MOST_DEPTH = 16
_SINGLE_WORDS = 4
"""A text of more words could say something."""
_LONGEST = 200
_LABEL = re.compile(r"[^:\n]{1,40}:\s+")
_CELLS = re.compile(r"[,;|\t]")
_SMALL_NUMBER = re.compile(r"\d{1,4}")
_ENDING = re.compile(r"\.[A-Za-z]\w{0,4}$")
_PARSING = threading.Lock()
"""Python 3.11 counts the depth of a parsed text for all threads together."""
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of a directory."""

    values: tuple[str, ...] = ()
    """Every whole value, each once."""
    speaks: bool = True
    """Whether a value is long enough to say something: then the answer as a whole counts as a stranger's."""
    spoken_of: tuple[str, ...] = ()
    """The values that a longer text of the same answer speaks of."""


def listing_of(answer: Any) -> Listing:
    """The single values of an answer: of plain data, of JSON, YAML or a Python literal as text, or of short lines."""
    found: dict[str, None] = {}
    longer_parts: list[str] = []
    for leaf in _leaves(_opened(answer), 0):
        text = leaf.strip()
        if not _is_single(text):
            longer_parts.append(text)
        if text and len(text) <= _LONGEST and "\n" not in text:
            found[text] = None
            parts = addresses_in(text)
            if len(parts) > 1 and only_addresses(text, parts):
                found |= dict.fromkeys(parts)
        if len(found) > MOST_LISTED:
            return Listing()
    longer = plain_form("\n".join(longer_parts))
    spoken = tuple(value for value in found if longer_parts and value not in longer_parts and speaks_of(longer, value))
    return Listing(tuple(found), bool(longer_parts), spoken)


def answer_digest(answer: Any) -> str:
    """A digest by which the same answer is known again."""
    made = hashlib.sha256()
    for leaf in [answer] if isinstance(answer, str) else _leaves(plain(answer), 0):
        data = leaf.encode("utf-8", "surrogatepass")
        made.update(len(data).to_bytes(8, "big") + data)
    return made.hexdigest()


def longer_texts(answer: str) -> str:
    """The parts of an answer besides single values: texts that could say something, to be searched. A line of
    several words that is no data says something however short it is."""
    line = answer.strip()
    if "\n" not in line and len(line.split()) > 1 and len(line) <= _LONGEST and _written(line) is None:
        return plain_form(line)
    return plain_form("\n".join(leaf for leaf in _leaves(_opened(answer), 0) if not _is_single(leaf.strip())))


def beside(answer: str) -> dict[str, tuple[str, ...]]:
    """Other names for each thing in an answer: for every single value, in the form in which values are looked
    for, the names that stand beside it in the same object and in no other. A file's name counts without its ending
    too."""
    objects = [dict.fromkeys(_singles(found_object)) for found_object in _objects(_opened(answer), 0)]
    seen = Counter(value for found_object in objects for value in found_object)
    found: dict[str, tuple[str, ...]] = {}
    for found_object in objects:
        own = [value for value in found_object if seen[value] == 1]
        names = [name for value in own for name in dict.fromkeys((value, _ENDING.sub("", value)))]
        names = [name for name in names if len(fold(name).split()) > 1 and not account_form(name)]
        found |= {value_form(value): tuple(name for name in names if name != value) for value in own}
    return found


def speaks_of(text: str, value: str) -> bool:
    """Whether a text, in the form in which values are looked for, speaks of a value. A small number stands in every
    other text: it has to be quoted there, or called a number or id."""
    if account := account_form(value):
        return account in accounts_in(text)
    form = value_form(value)
    if _SMALL_NUMBER.fullmatch(form):
        return (
            re.search(rf"(?:[\"'`(\[]|(?:\bid|\bnumber|\bno\.?|\bnr\.?|#)[ :=]*){form}(?![\w.,]*\d)", text) is not None
        )
    return bool(form) and stands_in(form, text)


def _opened(answer: Any) -> Any:
    """An answer as data: a text that is written data is read as such."""
    if not isinstance(answer, str):
        return plain(answer)
    text = answer.strip()
    if len(text) > MOST_CHARACTERS:
        return {"": text}
    data = _written(text)
    return _lines(text) if data is None else data


def _written(text: str) -> Any:
    """The data that a text writes down; None where it does not."""
    for read in (_json, _literal, _yaml):
        data = read(text)
        if isinstance(data, (dict, list, tuple)):
            return data
    return None


def _json(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _literal(text: str) -> Any:
    if not text.startswith(("{", "[", "(")):
        return None
    try:
        with _PARSING:
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    except SystemError:  # Python 3.11's parser, in several threads at once: an unread text is not believed
        return {"": text}


def _yaml(text: str) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        return None
    if "&" in text and re.search(r"(?:^|[\s:-])&\w", text):  # anchors make small texts huge
        return None
    try:
        return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def _lines(text: str) -> Any:
    """A list of short lines, perhaps with labels; any other text is one value."""
    lines = [_BULLET.sub("", line).strip() for line in text.splitlines() if line.strip()]
    parts = [part.strip() for line in lines for part in _parts(line)]
    return parts if all(_is_single(part) for part in parts) else [text]


def _parts(line: str) -> list[str]:
    label = _LABEL.match(line)
    rest = line if label is None else line[label.end() :]
    return [*([] if label is None else [label[0].strip().removesuffix(":")]), *_CELLS.split(rest)]


def _objects(value: Any, depth: int) -> Iterator[Mapping[Any, Any]]:
    if depth > _MOST_DEPTH or isinstance(value, str):
        return
    if isinstance(value, Mapping):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    for part in inner:
        yield from _objects(part, depth + 1)


def _singles(found_object: Mapping[Any, Any]) -> Iterator[str]:
    """The single values that stand in an object itself."""
    for value in found_object.values():
        text = str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
        if text and _is_single(text):
            yield text


def _is_single(text: str) -> bool:
    """Whether a text is too short to say anything, or an account or address in its usual groups."""
    return len(text) <= _LONGEST // 2 and (len(text.split()) <= _SINGLE_WORDS or bool(account_form(text)))


def _leaves(value: Any, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        yield "too deep to be a list of single values"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _leaves(inner, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _leaves(inner, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else str(value)
