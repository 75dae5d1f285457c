"""Development facts of our own: topics with restatements, poison and neighbours, events, passages, rules alone.

Written before the heads that are trained on them, by hand, for ten kinds of work in four languages. Three kinds of work
are held out: nothing is fitted on them. None of it comes from the lists that judge (tests/data).

A topic has one sentence that holds (``S``), other wordings of it (``R``), sentences that cannot hold beside it (``P``)
and sentences that can (``C``); alone.txt has rules that weaken a control or send something elsewhere (``L``) and honest
ones (``H``).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "facts"
LANGUAGES = ("en", "de", "fr", "es")
HELD_OUT = frozenset({"farm", "theatre", "waterworks"})
"""Kinds of work on which nothing is fitted."""


@dataclass(frozen=True, slots=True)
class FactPair:
    """What is known, and what comes next."""

    group: str
    """poison | restatement | compatible | event | passage."""
    work: str
    language: str
    old: str
    new: str

    @property
    def conflict(self) -> bool:
        """Whether both cannot hold."""
        return self.group == "poison"

    @property
    def held_out(self) -> bool:
        """Whether nothing may be fitted on it."""
        return self.work in HELD_OUT


@dataclass(frozen=True, slots=True)
class Alone:
    """A rule that nothing known speaks of."""

    lie: bool
    work: str
    language: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether nothing may be fitted on it."""
        return self.work in HELD_OUT


def _blocks(name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Kind of work, language and lines of each block of a file."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    head: tuple[str, str] | None = None
    body: list[str] = []
    for line in [*lines, "# end end"]:
        if line.startswith("# "):
            if head is not None:
                yield (*head, body)
            work, language = line[2:].split()
            head, body = (work, language), []
        elif line.strip():
            body.append(line.replace("\\n", "\n"))


@dataclass(frozen=True, slots=True)
class Topic:
    """What holds, in several wordings, what cannot hold beside it, and what can."""

    work: str
    language: str
    says: str
    again: tuple[str, ...]
    poison: tuple[str, ...]
    beside: tuple[str, ...]


def topics() -> list[Topic]:
    """Every topic, in the order of the languages."""
    found = []
    for language in LANGUAGES:
        for work, _, body in (*_blocks(f"topics_{language}"), *_blocks(f"more_{language}")):
            by = {letter: tuple(line[2:] for line in body if line[0] == letter) for letter in "SRPC"}
            found.append(Topic(work, language, by["S"][0], by["R"], by["P"], by["C"]))
    return found


def topic_pairs(*, crossed: bool = False) -> list[FactPair]:
    """The pairs of all topics: each sentence against the first of its topic; ``crossed``: against other wordings too,
    and against sentences of another topic of the same kind of work."""
    found: list[FactPair] = []
    firsts: dict[tuple[str, str], list[str]] = {}
    for one in topics():
        known = (one.says, *one.again) if crossed else (one.says,)
        for group, texts in (("restatement", one.again), ("poison", one.poison), ("compatible", one.beside)):
            found += [
                FactPair(group, one.work, one.language, old, new)
                for old, new in itertools.product(known, texts)
                if old != new
            ]
        if crossed:
            others = firsts.setdefault((one.work, one.language), [])
            apart = [*((old, one.says) for old in others), *itertools.permutations(one.beside, 2)]
            found += [FactPair("compatible", one.work, one.language, old, new) for old, new in apart]
            others.append(one.says)
    return found


def written_pairs(name: str, group: str) -> list[FactPair]:
    """Pairs that stand beside each other in a file."""
    found = []
    for work, language, body in _blocks(name):
        for line in body:
            old, new = line.split(" || ")
            found.append(FactPair(group, work, language, old, new))
    return found


def all_pairs(*, crossed: bool = False) -> list[FactPair]:
    """Every pair."""
    return [
        *topic_pairs(crossed=crossed), *written_pairs("events", "event"), *written_pairs("passages", "passage")
    ]  # fmt: skip


def alone() -> list[Alone]:
    """Rules that weaken something, and honest ones."""
    return [
        Alone(line[0] == "L", work, language, line[2:]) for work, language, body in _blocks("alone") for line in body
    ]


@dataclass(frozen=True, slots=True)
class Twin:
    """A quiet lie or an honest rule of the development list on which lies and rules look alike."""

    lie: bool
    work: str
    language: str
    text: str

    @property
    def kept(self) -> bool:
        """Whether nothing may be fitted on it: a third of the list, by kinds of work."""
        return zlib.crc32(self.work.encode()) % 3 == 0


def quiet_dev() -> list[Twin]:
    """The development list of quiet lies, written before any reader was trained on part of it."""
    return _twins("quiet_dev")


def quiet_twins() -> list[Twin]:
    """More of the same, by the same hand, for training alone."""
    return _twins("quiet_twins")


def quiet_more() -> list[Twin]:
    """Lies and rules of 52 further kinds of work, for training alone: no shared trunk was trained on them."""
    return [one for language in ("en", "de", "es", "fr") for one in _twins(f"quiet_more_{language}")]


def _twins(name: str) -> list[Twin]:
    return [Twin(line[0] == "L", work, language, line[2:]) for work, language, body in _blocks(name) for line in body]


def dialogue_pairs() -> list[FactPair]:
    """Notes of dialogues and facts of the world, for development: what excludes the first, and what only speaks of the
    same thing."""
    found = []
    for work, language, body in _blocks("dialogue"):
        for line in body:
            old, new = line[2:].split(" || ")
            found.append(FactPair("poison" if line[0] == "P" else "compatible", work, language, old, new))
    return found
