"""The plain values of a call's arguments, each with its place and the names it goes by.

A value may be named by the object around it (``{"to": {"name": "ops"}}``), by its neighbour (``{"name": "to", "value":
"ops"}``, ``["to", "ops"]``), or be a name itself (``{"payees": {"Ann": 20}}``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lazaretto.actions.classes import word_set, words_of
from lazaretto.errors import InputError

MOST_DEPTH = 32
DESTINATIONS = word_set(
    "to recipient recipients receiver receivers cc bcc email emails mail address addresses user users username channel "
    "channels participant participants attendee attendees account iban wallet url uri link host domain webhook "
    "hostname endpoint phone contact contacts member members invitee invitees chat room group team payee beneficiary "
    "bic handle destination server bucket remote forward where behalf payees beneficiaries accounts ibans wallets"
)
AMOUNTS = word_set("amount price total sum cost fee budget amounts prices totals sums costs fees budgets")
_SEVERAL = word_set(
    "recipients receivers payees beneficiaries accounts ibans wallets participants attendees members contacts users "
    "invitees"
)
"""Names of objects whose keys are receivers, where all values are numbers."""
_NEUTRAL = word_set("name id value slug display")
"""Names that say nothing of what a value is: then the name of the object around it does."""
_NAMES = ("name", "key", "field", "param", "parameter")
_EACH = word_set("price cost fee rate amount")
_TIMES = word_set("quantity qty units pieces shares copies occurrences installments instalments repetitions repeats")
_OF_PAIR = 2
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class PlainValue(NamedTuple):
    """One plain value of a call."""

    place: str
    key: str
    """The name it goes by."""
    value: Any
    above: str = ""
    """The name of the object around it, where its own says nothing of what it is."""
    around: str = ""
    """All names of objects around it."""
    is_key: bool = False
    """Whether it is the name of a field: what it says counts, and not what stands there."""


def leaves(value: Any, name: str) -> Iterator[PlainValue]:
    """Every plain value of an argument."""
    yield from _leaves(value, PlainValue(name, name, None), 0)


def _leaves(value: Any, at: PlainValue, depth: int) -> Iterator[PlainValue]:
    if depth > MOST_DEPTH:
        raise InputError("arguments", f"{at.place} is nested deeper than {MOST_DEPTH}", "Send flatter arguments")
    if isinstance(value, dict):
        yield from _of_object(value, at, depth)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            place = f"{at.place}[{number}]"
            yield from _leaves(part, at._replace(place=place), depth + 1)
            if _is_pair(part):  # ["to", "ops"]
                yield from _leaves(part[1], PlainValue(f"{place}.{part[0]}", part[0], None), depth + 1)
    else:
        yield at._replace(value=value)


def _of_object(value: dict[str, Any], at: PlainValue, depth: int) -> Iterator[PlainValue]:
    if value and {*words_of(at.key)} & _SEVERAL and all(map(_is_number, value.values())):
        for receiver, amount in value.items():
            yield PlainValue(f"{at.place}[{receiver}]", at.key, receiver)
            yield PlainValue(f"{at.place}[{receiver}]", "amount", amount)
        return
    around = f"{at.around} {at.key}".strip()
    names_where = any(part and {*words_of(inner)} & DESTINATIONS for inner, part in value.items())
    for inner, part in value.items():
        place = f"{at.place}.{inner}"
        yield PlainValue(place, "text", inner, is_key=True)
        above = at.key if not names_where and {*words_of(inner)} <= _NEUTRAL else ""
        yield from _leaves(part, PlainValue(place, inner, None, above, around), depth + 1)
    if named := next((value[by] for by in _NAMES if isinstance(value.get(by), str) and "value" in value), ""):
        yield from _leaves(value["value"], PlainValue(f"{at.place}.{named}", named, None), depth + 1)


def _is_pair(part: Any) -> bool:
    """Whether a list is the name of a receiver or a sum, and its value."""
    if not (isinstance(part, list) and len(part) == _OF_PAIR and isinstance(part[0], str)):
        return False
    return bool({*words_of(part[0])} & (DESTINATIONS | AMOUNTS))


def products(value: Any, depth: int = 0) -> Iterator[float]:
    """For each object the highest price in it, times the highest number of pieces beside it."""
    if depth > MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        named = [({*words_of(key)}, number_of(part)) for key, part in value.items()]
        numbers = [(words, abs(number)) for words, number in named if number is not None]
        prices, pieces = ([number for words, number in numbers if words & meant] for meant in (_EACH, _TIMES))
        if prices and pieces:
            yield max(prices) * max(pieces)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in parts:
        yield from products(part, depth + 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_of(leaf: Any) -> float | None:
    """The number that a value is, or writes out; None for anything else, and for what has no end."""
    if isinstance(leaf, bool) or not isinstance(leaf, (int, float, str)):
        return None
    if isinstance(leaf, str):
        cleaned = leaf.strip().lstrip("€$£").replace(",", "")
        leaf = cleaned if _NUMBER.fullmatch(cleaned) else "nan"
    number = float(leaf)
    return number if math.isfinite(number) else None
