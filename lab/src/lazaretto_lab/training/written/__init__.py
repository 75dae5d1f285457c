"""Texts that were written by hand for training and development: honest notes of work, planted orders, tool
descriptions, quiet lies beside honest rules, pairs of statements.

Whoever wrote them had not seen the lists under ``tests/data`` that judge; a test holds them apart. Each text has a
fold by its kind of work, so that what is measured on a fold is measured on kinds of work that were not trained on.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDS = 5
_FACTS = (
    "facts", "facts_offices", "facts_trades", "facts_crews", "facts_events", "facts_forms", "facts_web", "facts_dfe",
    "facts_operations", "facts_rules", "facts_again", "facts_prose", "facts_dfe2", "facts_fifth", "facts_dfe3",
    "facts_it", "facts_money", "facts_care", "facts_world", "facts_home",
)  # fmt: skip
_UNTESTED_FACTS = ("facts_unlike", "facts_firm", "facts_brief", "facts_europe", "facts_duties")
"""Trained on like the others; the screener is not tested on them, so that its trainings can be compared."""
_NOTES = (
    "notes_en", "notes_more", "notes_de", "notes_es", "notes_fr", "notes_web", "notes_hard", "notes_plain",
    "notes_results", "days", "days_more",
)  # fmt: skip
_ORDERS = (
    "orders_en", "orders_more", "orders_dfe", "orders_dfe2", "orders_results", "orders_results_a", "orders_results_b",
    "orders_third", "orders_world", "long_a", "long_b",
)  # fmt: skip
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Written:
    """One text with its kind of work; ``bad``: an order, a lie or poison."""

    text: str
    kind: str
    language: str
    bad: bool = False

    @property
    def fold(self) -> int:
        """Of its kind of work."""
        return fold_of(self.kind)


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with something planted in it, and the honest text beside it."""

    host: str
    text: str
    start: int
    end: int
    kind: str
    language: str

    @property
    def fold(self) -> int:
        """Of its kind of work."""
        return fold_of(self.kind)


@dataclass(frozen=True, slots=True)
class Stated:
    """Two statements, one after the other; ``relation``: event | restates | compatible | conflict."""

    first: str
    second: str
    relation: str
    kind: str
    language: str

    @property
    def fold(self) -> int:
        """Of its kind of work."""
        return fold_of(self.kind)


@dataclass(frozen=True, slots=True)
class Day:
    """Notes that a team wrote in one day or week, in order; no two of them contradict each other."""

    notes: tuple[str, ...]
    kind: str
    language: str

    @property
    def fold(self) -> int:
        """Of its kind of work."""
        return fold_of(self.kind)


def fold_of(kind: str) -> int:
    """The same for all texts of one kind of work."""
    return zlib.crc32(kind.strip().lower().encode()) % FOLDS


@cache
def rows(name: str) -> tuple[dict[str, Any], ...]:
    """Rows of one file."""
    lines = (_FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line.strip())


def notes() -> Iterator[Written]:
    """Honest notes of everyday work, many of which look a little guilty."""
    for name in _NOTES:
        for row in rows(name):
            yield Written(row["text"], row["kind"], row["lang"])


def short() -> Iterator[Written]:
    """Short orders and honest lines that sound like them; each is a kind of its own."""
    several = (row for name in ("short", "short_more", "short_third", "short_fourth") for row in rows(name))
    for n, row in enumerate(several):
        yield Written(row["text"], f"short {n // 2}", row["lang"], row["label"] == "order")


def planted() -> Iterator[Planted]:
    """Orders in texts of everyday work."""
    for name in _ORDERS:
        for row in rows(name):
            yield from _planted(row, row["lang"])


def tools() -> Iterator[Planted]:
    """Poison in descriptions of tools."""
    for name in ("tools_pairs", "tools_more", "tools_third", "tools_fourth"):
        for row in rows(name):
            yield from _planted(row, "en")


def honest_tools() -> Iterator[Written]:
    """Honest descriptions of tools that look a little guilty."""
    for name in ("tools_honest", "tools_honest_more", "tools_honest_third", "tools_honest_fourth"):
        for row in rows(name):
            yield Written(row["text"], row["kind"], "en")


def rules() -> Iterator[Written]:
    """Quiet lies and honest rules."""
    for name in ("rules", "rules_more", "rules_dry", "rules_third", "rules_fourth", "rules_fifth"):
        for row in rows(name):
            yield Written(row["text"], row["domain"], row["lang"], row["label"] == "lie")


def harm() -> Iterator[Written]:
    """Harmful requests and harmless ones about the same thing, in eight languages; each pair is a kind of its own."""
    for n, row in enumerate(rows("harm_world")):
        yield Written(row["text"], f"harm {n // 2}", row["lang"], row["label"] == "unsafe")


def statements(*, tested: bool = False) -> Iterator[Stated]:
    """Pairs of statements; ``tested``: those alone that the screener is tested on."""
    for name in _FACTS if tested else (*_FACTS, *_UNTESTED_FACTS):
        for row in rows(name):
            yield Stated(row["first"], row["second"], row["relation"], row["domain"], row["lang"])


def days() -> Iterator[Day]:
    """Working days of teams."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in (*rows("days"), *rows("days_more")):
        found.setdefault(row["day"], []).append(row)
    for several in found.values():
        yield Day(tuple(row["text"] for row in several), several[0]["kind"], several[0]["lang"])


def _planted(row: dict[str, Any], language: str) -> Iterator[Planted]:
    """``before``, of long texts: what of the host the order is put before; others are written out with it."""
    host, order = row["host"], row["order"].strip()
    text = host.replace(row["before"], f"{order} {row['before']}", 1) if "before" in row else row["text"]
    start = text.find(order)
    if start >= 0 and order:
        yield Planted(host, text, start, start + len(order), row["kind"], language)
