"""Faults of texts that are meant to instruct agents: rule files, descriptions of tools.

Orders are the purpose of such texts, so the screener for foreign orders does not fit. Poison shows in the orders:
to keep something from the user, drop other instructions, read keys, send along data the tool does not need, or change
other work. Honest descriptions may say one of these; ``tool_faults`` refuses a description in which two meet.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InstructionFault:
    """One thing that instructions must not say."""

    rule: str
    words: str
    """The fault in words, for a person."""
    start: int
    end: int


_PERSON = r"(?:user|users|human|humans|operator|developer|owner|customer)"
_SECRECY = (
    rf"\b(?:do not|don['’]t|never|must not|without)\s+(?:\w+\s+){{0,2}}?(?:tell|telling|inform|informing|mention|"
    rf"mentioning|reveal|revealing|alert|alerting|notify|notifying)\b(?:\s+\w+){{0,6}}?\s+(?:to\s+)?(?:the\s+|your\s+)?"
    rf"{_PERSON}\b",
    rf"\b(?:keep|hide)\s+(?:this|it|that)\s+(?:\w+\s+){{0,3}}?(?:from|secret)\b(?:\s+(?:the\s+)?{_PERSON})?",
    r"\b(?:silently|secretly|covertly)\s+(?:\w+\s+){0,2}?(?:send|upload|forward|copy|post|read|include|append|collect)\b",
)
_CAST_OFF = (
    r"\b(?:ignore|disregard|forget|override)\b(?:\s+\w+){0,3}?\s+(?:previous|prior|earlier|above|preceding|system|other)\s+"
    r"(?:instructions?|rules|prompts?|directions|guidelines|tools?)\b",
)
_KEYS = (
    r"(?:read|open|load|fetch|include|access|cat|content[s]? of|pass|upload|send)\b[^.\n]{0,80}?(?:~?/?\.ssh\b|id_rsa|"
    r"id_ed25519|\.aws/credentials|\.netrc|/etc/(?:passwd|shadow)|\.cursor/mcp\.json|mcp\.json|\.env\b|"
    r"credentials\.json|environment variables|private key|api keys?|access tokens?|passwords?)[^.\n]{0,120}?"
    r"\b(?:as|in|into|to|with)\b[^.\n]{0,40}?"
    r"(?:parameter|argument|field|sidenote|note|context|request|url|https?://|address|server|this tool)",
)
_FIRST = (
    r"\b(?:before|whenever|after)\s+(?:\w+\s+){0,3}?(?:any|every|all|each)\s+(?:other\s+)?(?:tools?|requests?|calls?|"
    r"messages?|emails?|transactions?)\b[^.\n]{0,160}?\b(?:must|always|first|also|bcc|forward|send|instead)\b",
    r"\b(?:otherwise|or)\s+(?:the\s+|this\s+)?(?:tool|server|it)\s+(?:will\s+not|won['’]t)\s+work\b",
)
_NEVER = (
    ("secret_from_user", "Instructs agents to keep something from the user", _SECRECY),
    ("casts_off_instructions", "Instructs agents to cast off other instructions", _CAST_OFF),
    ("asks_for_keys", "Asks agents to read what holds keys, and to pass it on", _KEYS),
    ("changes_other_work", "Instructs agents about work that is not its own", _FIRST),
)

_RULES = tuple(
    (rule, words, tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)) for rule, words, patterns in _NEVER
)
_TOO_LONG = "Is longer than any description that people read"
_LEARNT = "Says what a description of a tool need not say"
_MOST, _OVERLAP = 100_000, 2_000
"""Characters that are searched at once, and of these twice."""
_REFUSED = 2


def instruction_faults(text: str) -> list[InstructionFault]:
    """The faults of a text that instructs agents; at most one of each rule."""
    found = []
    for rule, words, patterns in _RULES:
        match = next((m for pattern in patterns if (m := _search(pattern, text))), None)
        if match is not None:
            found.append(InstructionFault(rule, words, *match.span()))
    return found


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match in a text of any length, in pieces: a long beginning hides nothing."""
    starts = range(0, max(1, len(text) - _OVERLAP), _MOST - _OVERLAP)
    return next((m for start in starts if (m := pattern.search(text, start, start + _MOST))), None)


@cache
def _tool_rules() -> tuple[tuple[str, str, re.Pattern[str], int], ...]:
    """Rule, words, pattern and weight of content that a tool's description does not need; rule files may have it."""
    table = tomllib.loads(Path(__file__).with_name("tool_rules.toml").read_text(encoding="utf-8"))
    return tuple(
        (row["rule"], row["words"], re.compile("|".join(f"(?:{p})" for p in row["patterns"]), re.I), row["weight"])
        for row in table["rules"]
    )


def tool_faults(text: str, order: Callable[[str], int] | None = None) -> list[InstructionFault]:
    """The faults of a tool's description: those of ``instruction_faults``, or two different things it does not need.

    ``order``: a learnt reader's weight for a text: 1 counts like one more of these things, 2 is enough by itself.
    """
    if len(text) > _MOST:
        return [InstructionFault("too_long", _TOO_LONG, 0, 0)]
    found = instruction_faults(text)
    if found:
        return found
    faults: dict[str, tuple[int, InstructionFault]] = {}
    for rule, words, pattern, weight in _tool_rules():
        match = pattern.search(text)
        if match is not None:
            before = faults[rule][0] if rule in faults else 0
            faults[rule] = max(before, weight), InstructionFault(rule, words, *match.span())
    weight = sum(part for part, _ in faults.values())
    if weight < _REFUSED and order is not None:
        weight += order(text)
    if weight < _REFUSED:
        return []
    return [fault for _, fault in faults.values()] or [InstructionFault("reads_like_poison", _LEARNT, 0, len(text))]
