"""Learning: what people's decisions taught, what moved the thresholds, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError
from lazaretto.gates.content.casebook import Casebook, Intake
from lazaretto.gates.content.records import Case, Label
from lazaretto.gates.thresholds import Cut, Thresholds, ThresholdVersion
from lazaretto.guard import Guard
from lazaretto.learn.curate import FailedCase, curate
from lazaretto.learn.reviews import reviewed
from lazaretto.learn.thresholds import calibrate
from lazaretto.types import Ruling, RunStatus, SourceClass

CURATOR = "case-curator"
READS_FORM = frozenset({"structure", "blocklist", "protected", "secrets", "personal"})
"""Gates that do not read what a text means: their silence lets no advice in."""
LISTED = 40
SHOWN_CASES = 12


async def learning(visit: Visit) -> Response:
    """Where the case library and the thresholds stand."""
    return visit.page("learning.html", here="learning", **await asyncio.to_thread(_facts, visit.guard))


def _facts(guard: Guard) -> dict[str, Any]:
    book = Casebook(guard.ledger)
    bounds = guard.policy.learn
    versions = Thresholds(guard.ledger, bounds).versions()
    cases = [case for case in book.cases() if case.source != "starter"]
    known = {case.words for case in book.cases()}
    lessons = [one for one in to_learn(guard) if _words(one) not in known]
    proposed = calibrate(guard.ledger, bounds)
    return {
        "book": book,
        "versions": list(reversed(book.versions())),
        "cases": list(reversed(cases))[:SHOWN_CASES],
        "lessons": lessons[:LISTED],
        "thresholds": list(reversed(_moves(versions))),
        "proposed": _changes(versions[-1].cuts, proposed),
        "differs": proposed != dict(versions[-1].cuts),
        "bounds": bounds,
    }


def to_learn(guard: Guard) -> list[FailedCase]:
    """What people overturned, or confirmed as harmful."""
    return [one for one in reviewed(guard.ledger) if one.ruled != one.truth or one.truth is Label.UNSAFE]


def _words(lesson: FailedCase) -> str:
    return Case(lesson.truth, lesson.content.text, lesson.content.description).words


def _moves(versions: Sequence[ThresholdVersion]) -> list[tuple[ThresholdVersion, list[tuple[str, Cut, Cut]]]]:
    """Each version with what it moved against the one before it."""
    return [(now, _changes(before.cuts, now.cuts)) for before, now in pairwise(versions)]


def _changes(before: Any, after: Any) -> list[tuple[str, Cut, Cut]]:
    gates = sorted({*before, *after})
    rows = [(gate, before.get(gate, Cut()), after.get(gate, Cut())) for gate in gates]
    return [(gate, old, new) for gate, old, new in rows if old != new]


async def make_cases(visit: Visit) -> Response:
    """Write a case for each lesson into a new version of the library; it is not used until somebody says so."""
    lessons = await asyncio.to_thread(to_learn, visit.guard)
    if not lessons:
        raise InputError("lessons", "there is nothing to learn", "Decide something in the review queue first")
    cases = await curate(lessons)
    reason = f"{len(lessons)} decisions of people, by {visit.session.name}"
    took = await asyncio.to_thread(_offer, visit.guard, cases, reason)
    words = texts()["learning"]["made"]
    said = words.format(added=len(took.added), merged=len(took.merged), refused=len(took.refused), version=took.version)
    if took.refused:
        said += " " + took.refused[0].reason
    return visit.to("/learning", said)


def _offer(guard: Guard, cases: Sequence[Case], reason: str) -> Intake:
    return Casebook(guard.ledger).offer(cases, reason, lambda case: _refusal(guard, case))


def _refusal(guard: Guard, case: Case) -> str:
    """Why the crew's own gates would not have a case's advice as a memory; empty: they would.

    Judges read summary and cues as guidance, so those are screened as a stranger's memory; the content gate is left
    out, for advice about harm speaks of harm.
    """
    advice = "\n".join((case.summary, *case.cues)).strip()
    if not advice:
        return ""
    decision = guard.run(guard.screen(advice, agent=CURATOR, source=SourceClass.UNTRUSTED_DOCUMENT))
    for verdict in decision.verdicts:
        if verdict.gate != "content" and verdict.ruling >= Ruling.QUARANTINE:
            return f"{verdict.ruling.label} by {verdict.gate}:{verdict.rule}"
    ran = {run.gate for run in decision.runs if run.status is RunStatus.RAN}
    return "" if ran - READS_FORM - {"content"} else texts()["learning"]["unread"]


async def use_cases(visit: Visit) -> Response:
    """Use a version of the library from now on, an earlier one too."""
    version = visit.field("version")

    def work() -> None:
        Casebook(visit.guard.ledger).go_live(version, by=visit.session.name)

    await asyncio.to_thread(work)
    return visit.to("/learning", texts()["learning"]["live_now"].format(version))


async def move_thresholds(visit: Visit) -> Response:
    """Put what people's labels ask for in force."""

    def work() -> int:
        bounds = visit.guard.policy.learn
        cuts = calibrate(visit.guard.ledger, bounds)
        return Thresholds(visit.guard.ledger, bounds).set(cuts, by=visit.session.name).number

    return visit.to("/learning", texts()["learning"]["in_force_now"].format(await asyncio.to_thread(work)))


async def revert_thresholds(visit: Visit) -> Response:
    """Go back to an earlier version's thresholds."""
    asked = visit.field("to")
    if not asked.isdigit():
        raise InputError("to", f"is {asked!r}", "Give the number of a version")

    def work() -> int:
        book = Thresholds(visit.guard.ledger, visit.guard.policy.learn)
        return book.revert(int(asked), by=visit.session.name).number

    return visit.to("/learning", texts()["learning"]["in_force_now"].format(await asyncio.to_thread(work)))
