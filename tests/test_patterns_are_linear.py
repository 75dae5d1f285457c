"""No regular expression of the product takes more than linear time: what it reads, strangers wrote.

Every pattern is found by looking into all modules, and reads repeated characters and words, those of the pattern among
them, at two sizes. Processor time of both is compared: four times the text may take nine times as long, not sixteen.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lazaretto

SHORT, LONG, FACTOR = 750, 3_000, 9.0
LEAST_S = 1.5e-4
"""Shorter times say nothing: a quadratic pattern takes longer for 750 characters."""
ROUNDS = 4
BOUNDED = {"lazaretto.gates.secrets._formats"}
"""Patterns of a library, which read pieces of a thousand characters; see tests/gates/test_told_secrets.py."""
UNITS = (
    *"aA0 \n\t.,-_/:([{<>\"'`*#=|\\!?@&é\u200b", "a ", "a.", "0 ", "0.", "a-", "a/", "a@", "a:", "://", "a=", "<a",
    "[a](", " \n", "a\n", "- ", "a, ", "A a ", "\"a\":",
)  # fmt: skip


def names_used(source: Path) -> dict[str, set[str]]:
    """Of every name of a module: the methods that are called on it, and ``""`` where it is used in any other way."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    methods = {id(one.value): one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
    used = defaultdict(set)
    for one in ast.walk(tree):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            used[one.id].add(methods.get(id(one), ""))
    return used


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Every pattern of texts inside a value."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth < 3 and isinstance(value, dict | list | tuple | set | frozenset):
        for one in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
            yield from patterns_in(one, depth + 1)
    elif depth < 3 and hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from patterns_in(getattr(value, name, None), depth + 1)


def all_patterns() -> dict[tuple[str, int], tuple[str, re.Pattern[str], bool]]:
    """Pattern and flags -> where it stands, the pattern, whether it is only ever matched from a given place."""
    found: dict[tuple[str, int], tuple[str, re.Pattern[str], bool]] = {}
    for one in pkgutil.walk_packages(lazaretto.__path__, "lazaretto."):
        if one.name.endswith("__main__"):
            continue  # it would run
        try:
            module = importlib.import_module(one.name)
        except ImportError:
            continue  # an extra that is not installed
        if module.__file__ is None:
            continue
        used = names_used(Path(module.__file__))
        for name, value in vars(module).items():
            place = f"{one.name}.{name}"
            if hasattr(value, "cache_info") and "re.Pattern" in str(
                getattr(value, "__annotations__", {}).get("return")
            ):
                try:
                    value = value()
                except TypeError:
                    continue  # it wants arguments
            anchored = isinstance(value, re.Pattern) and used[name] <= {"match", "fullmatch"}
            for pattern in patterns_in(value):
                known = found.get(key := (pattern.pattern, pattern.flags))
                found[key] = (place, pattern, anchored and (known is None or known[2]))
    return {key: row for key, row in found.items() if row[0] not in BOUNDED}


def reading(pattern: re.Pattern[str], anchored: bool) -> Callable[[str], None]:
    """How a pattern is used: found anywhere, or matched from the beginning."""

    def anywhere(text: str) -> None:
        for _ in pattern.finditer(text):
            pass

    def from_the_beginning(text: str) -> None:
        pattern.match(text)
        pattern.fullmatch(text)

    return from_the_beginning if anchored else anywhere


def taken(read: Callable[[str], None], unit: str, size: int, rounds: int) -> float:
    """The least processor time of some rounds."""
    text, least = unit * (size // len(unit)), 1e9
    for _ in range(rounds):
        began = time.process_time()
        read(text)
        least = min(least, time.process_time() - began)
    return least


def grows(pattern: re.Pattern[str], anchored: bool = False) -> str:
    """The unit of which four times as much takes far more than four times as long; empty where there is none."""
    read = reading(pattern, anchored)
    words = list(dict.fromkeys(re.findall(r"[A-Za-z]{2,}", pattern.pattern)))[:6]
    signs = list(dict.fromkeys(re.findall(r"[^\w\s\\]", pattern.pattern)))[:8]
    units: dict[str, None] = dict.fromkeys((*UNITS, *(f"{one} " for one in words), *(f"{one}a" for one in signs)))
    for unit in units:
        if taken(read, unit, SHORT, 1) < LEAST_S or (short := taken(read, unit, SHORT, 2)) < LEAST_S:
            continue
        if taken(read, unit, LONG, 1) <= FACTOR * short:
            continue
        short = taken(read, unit, SHORT, ROUNDS)  # once more, and more often: the first time may have been disturbed
        if short >= LEAST_S and taken(read, unit, LONG, ROUNDS) > FACTOR * short:
            return unit
    return ""


@pytest.mark.slow
def test_no_pattern_takes_more_than_linear_time() -> None:
    found = all_patterns()
    assert len(found) > 300
    slow = {place: unit for place, pattern, anchored in found.values() if (unit := grows(pattern, anchored))}
    assert slow == {}


@pytest.mark.parametrize(
    "pattern",
    [r"[\w.+-]+@\w+", r"^\s*end", r"\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+com"],
)
def test_the_check_knows_a_slow_pattern(pattern: str) -> None:
    assert grows(re.compile(pattern, re.I | re.M))


def test_a_pattern_that_is_slow_anywhere_may_be_used_from_a_given_place() -> None:
    assert grows(re.compile(r"\s*x")) and not grows(re.compile(r"\s*x"), anchored=True)
