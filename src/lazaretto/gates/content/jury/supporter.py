"""The jury's Supporter: precedents from the case library, with why they apply and where they differ, by extraction."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazaretto.gates.content.jury.windows import clean
from lazaretto.gates.content.records import Briefing, Label, Precedent, PreparedContent, Role, RoleCost

if TYPE_CHECKING:
    from lazaretto.gates.content.library import CaseLibrary

_CUES = 6
_WORD = re.compile(r"[a-z][a-z'-]{3,}")
_COMMON_WORDS = (
    "this that these those with from have has image picture shows show depicts appears person people what how which "
    "their there they into about would could should some other while various several background foreground text also "
    "been being were "
    "your more than when where does visible scene suggesting such like"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class JurySupporter:
    """Grounds the debate in precedents; with no library it only sums up what is there."""

    library: CaseLibrary | None = None
    precedents: int = 3

    async def brief(self, prepared: PreparedContent) -> Briefing:
        """What is known about content like this."""
        started = time.perf_counter()
        near: tuple[Precedent, ...] = ()
        if self.library is not None:
            near = await asyncio.to_thread(self.library.nearest, prepared.words, prepared.kind, self.precedents)
        words = _words(prepared.words)
        weighed = tuple(_compared(p, words) for p in near)
        cues = tuple(dict.fromkeys(c for p in weighed for c in p.case.cues))[:_CUES]
        role_cost = RoleCost(Role.SUPPORTER, "embedded", calls=1, ms=(time.perf_counter() - started) * 1000.0)
        differences = tuple(p.differs for p in weighed if p.differs)
        return Briefing(_summary(prepared), weighed, cues, differences, _patterns(weighed), role_cost)


def _words(text: str) -> dict[str, None]:
    return dict.fromkeys(w for w in _WORD.findall(clean(text[:20_000]).lower()) if w not in _COMMON)


def _compared(precedent: Precedent, words: dict[str, None]) -> Precedent:
    """The precedent with what it shares with the content, and what each has alone."""
    theirs = _words(precedent.case.words)
    shared, alone, ours = (
        list(x)[:6]
        for x in (
            (w for w in words if w in theirs),
            (w for w in theirs if w not in words),
            (w for w in words if w not in theirs),
        )
    )
    why = f"Both speak of {', '.join(shared)}." if shared else f"Near in meaning (cosine {precedent.similarity:.2f})."
    differs = (
        f"Only the precedent has {', '.join(alone)}; only the content has {', '.join(ours)}." if alone and ours else ""
    )
    return replace(precedent, why=why, differs=differs)


def _patterns(near: tuple[Precedent, ...]) -> tuple[str, ...]:
    """How the precedents were ruled."""
    if not near:
        return ()
    unsafe = sum(p.case.label is Label.UNSAFE for p in near)
    return (f"{unsafe} of {len(near)} precedents were ruled unsafe.",)


def _summary(prepared: PreparedContent) -> str:
    """One line on what is under audit."""
    parts = []
    if prepared.content.text.strip():
        parts.append(f"a text of {len(prepared.content.text):,} characters")
    if prepared.description:
        parts.append("a picture")
    if prepared.read_text:
        parts.append(f"{len(prepared.read_text.split())} words on the picture")
    return f"Under audit: {', '.join(parts) or 'nothing'}."
