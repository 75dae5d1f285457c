"""The jury's Supporter: precedents from the case library, with why they apply and where they differ, by extraction."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace

from lazaretto.cases.library import FLOOR, Precedents
from lazaretto.cases.records import Label, Precedent
from lazaretto.gates.content.jury.views import clean
from lazaretto.gates.content.records import Briefing, PreparedContent, Role, RoleCost
from lazaretto.processor_time import in_thread

_CUES = 6
_NEAR = 0.6
"""Cosine from which on a case is one even when it shares no content word."""
_BEARS, _SHARED, _SAME = 0.5, 2, 0.75
"""Cosine and shared words from which on a case is cited, and the cosine from which on any words do. Of 47
cases that were brought to texts and read by hand, 20 bore on them; of the 21 that this rule cites, 15 do."""
_WORD = re.compile(r"[a-z][a-z'-]{2,}")
_COMMON_WORDS = (
    "a able about above after again against all almost along already also although always am among an and another any "
    "anyone anything appear appears are around as ask asked asking at away back background be became because become "
    "been before behind being below best better between both but by can cannot come could depict depicts did "
    "different do does doing don't done down during each either else enough even ever every everyone everything "
    "explain far feel few find first following for foreground from full get give given go goes going good got had has "
    "have having he help her here hers him himself his how however i'm if image in including indicate indicates "
    "instead into is it it's its itself just keep kind know known last least less let like likely list little long "
    "look looking made main make makes making many may maybe me mean might more most much must my myself near need "
    "needs never new next no none nor not nothing now of off often old on once one only onto or other others our out "
    "over own part people perhaps person picture place please possible provide put quite rather really right said "
    "same say scene see seem seems several shall she should show showing shown shows side since so some someone "
    "something sometimes soon still such suggest suggesting suggests take tell text than that that's the their them "
    "then there these they thing things think this those though three through time times to together too top toward "
    "two under until up upon us use used using various very view visible want wants was way ways we well went were "
    "what what's when where whether which while who whole whom whose why will with within without work would write "
    "yes yet you you're your yours "
)
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that say nothing of what a text is about."""


@dataclass(frozen=True, slots=True)
class JurySupporter:
    """Grounds the debate in precedents; with no library it only sums up the content."""

    library: Precedents | None = None
    precedents: int = 3

    async def brief(self, prepared: PreparedContent) -> Briefing:
        """The briefing: precedents of similar content."""
        started = time.perf_counter()
        near: tuple[Precedent, ...] = ()
        if self.library is not None:
            near = await in_thread(self.library.nearest, prepared.words, prepared.kind, self.precedents)
        words = _words(prepared.words)
        weighed = tuple(made for p in near if (made := _compared(p, words)) is not None)
        cited = tuple(p for p in weighed if p.bears)
        cues = tuple(dict.fromkeys(c for p in cited for c in p.case.cues))[:_CUES]
        role_cost = RoleCost(Role.SUPPORTER, "embedded", calls=1, ms=(time.perf_counter() - started) * 1000.0)
        differences = tuple(p.differs for p in cited if p.differs)
        return Briefing(_summary(prepared), weighed, cues, differences, _patterns(cited), role_cost)


def _words(text: str) -> dict[str, None]:
    found = (w.removesuffix("'s") for w in _WORD.findall(clean(text[:20_000]).lower()))
    return dict.fromkeys(w for w in found if w not in _COMMON)


def _compared(precedent: Precedent, words: dict[str, None]) -> Precedent | None:
    """The precedent with the words it shares with the content and those each has alone; None when it is too far off.

    Shared words are named longest first: long words are rarer, and say more.
    """
    theirs = _words(precedent.case.words)
    shared = sorted((w for w in words if w in theirs), key=lambda w: -len(w))[:4]
    if precedent.similarity < FLOOR or (not shared and precedent.similarity < _NEAR):
        return None
    alone, ours = [w for w in theirs if w not in words][:5], [w for w in words if w not in theirs][:5]
    why = f"Both speak of {', '.join(shared)}." if shared else f"Near in meaning (cosine {precedent.similarity:.2f})."
    differs = (
        f"Only the precedent has {', '.join(alone)}; only the content has {', '.join(ours)}." if alone and ours else ""
    )
    near = precedent.similarity >= _BEARS and len(shared) >= _SHARED
    return replace(precedent, why=why, differs=differs, bears=near or precedent.similarity >= _SAME)


def _patterns(near: tuple[Precedent, ...]) -> tuple[str, ...]:
    """How the precedents were ruled."""
    if not near:
        return ()
    unsafe = sum(p.case.label is Label.UNSAFE for p in near)
    return (f"{unsafe} of {len(near)} precedents were ruled unsafe.",)


def _summary(prepared: PreparedContent) -> str:
    """One line on the content under audit."""
    parts = []
    if prepared.content.text.strip():
        parts.append(f"a text of {len(prepared.content.text):,} characters")
    if prepared.description:
        parts.append("a picture")
    if prepared.read_text:
        parts.append(f"{len(prepared.read_text.split())} words on the picture")
    return f"Under audit: {', '.join(parts) or 'nothing'}."
