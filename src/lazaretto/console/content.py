"""Texts of agents, prepared for showing: as data, with hidden characters visible and evidence marked."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.provenance.drawing.labels import showable
from lazaretto.types import Observation

SHOWN = 4_000
"""Characters of one content that a page holds; the rest is one click away, as plain text."""
_KEPT = frozenset("\n\t")
_ODD = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a content."""

    text: str
    kind: str = ""
    """``mark``: evidence quotes it; ``odd``: a character that does not show, spelled out; empty: plain."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A content, ready for a page."""

    pieces: tuple[Piece, ...]
    left: int
    """Characters that were not shown."""


def prepared(text: str, spans: Iterable[tuple[int, int]] = (), limit: int = SHOWN) -> Shown:
    """A content in pieces: marked where a span says so, hidden characters spelled out, cut at ``limit``."""
    cut, pieces = text[:limit], []
    at = 0
    for start, end in _joined(spans, len(cut)):
        pieces += _pieces(cut[at:start], "")
        pieces += _pieces(cut[start:end], "mark")
        at = end
    pieces += _pieces(cut[at:], "")
    return Shown(tuple(pieces), len(text) - len(cut))


def line(text: str, limit: int = 120) -> str:
    """A content on one line, for lists."""
    return showable(text[: 8 * limit], limit)


def quoted_spans(seen: Observation, verdicts: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """The places in an item's text that the evidence of recorded verdicts quotes."""
    found = []
    for evidence in evidence_of(verdicts):
        data = evidence.get("data") or {}
        quotes = [data.get("quote")] if evidence.get("kind") == "span" else []
        for speech in speeches_of(evidence):
            quotes += list(speech.get("quotes") or ())
        placed = [(seen.text.find(q), len(q)) for q in quotes if isinstance(q, str) and len(q) > 2]
        found += [(at, at + size) for at, size in placed if at >= 0]
        start, end = data.get("start"), data.get("end")
        plainly = data.get("view", "plain") == "plain" and not data.get("quote")
        if evidence.get("kind") == "span" and plainly and isinstance(start, int) and isinstance(end, int):
            found.append((start, end))
    return found


def evidence_of(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every piece of evidence of recorded verdicts."""
    for verdict in verdicts:
        yield from verdict.get("evidence") or ()


def speeches_of(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The speeches, if a piece of evidence is a debate."""
    transcript = (evidence.get("data") or {}).get("transcript") if evidence.get("kind") == "debate" else ()
    return [speech for speech in transcript or () if isinstance(speech, Mapping)]


def _joined(spans: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Spans in order, inside the text, none overlapping another."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(0, s), min(e, length)) for s, e in spans):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _pieces(text: str, kind: str) -> list[Piece]:
    pieces, plain = [], ""
    for letter in text:
        if letter in _KEPT or unicodedata.category(letter) not in _ODD:
            plain += letter
            continue
        if plain:
            pieces.append(Piece(plain, kind))
            plain = ""
        pieces.append(Piece(f"U+{ord(letter):04X}", "odd"))
    return [*pieces, Piece(plain, kind)] if plain else pieces
