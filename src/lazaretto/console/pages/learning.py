"""Learning: decisions of people, lessons from them, changes of thresholds, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lazaretto.cases.casebook import STARTER, Casebook
from lazaretto.cases.records import Label
from lazaretto.console.item_view import ItemRow, rows
from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, LazarettoError
from lazaretto.gates.engine.thresholds import Cut, Thresholds, ThresholdVersion
from lazaretto.guard import Guard
from lazaretto.learn.curate import FailedCase, reviewed
from lazaretto.learn.tuning import calibrate
from lazaretto.learn.withdrawals import LabelDecision, Withdrawal
from lazaretto.ledger.reader import standing_events
from lazaretto.types import EventKind

STEPS = 20
"""Steps of rechecking, at most, when a person asks for it; each makes a few cases."""
LISTED = 40
SHOWN_CASES = 12


async def learning(visit: Visit) -> Response:
    """The present state of the case library and the thresholds."""
    return visit.page("learning.html", here="learning", **await asyncio.to_thread(_facts, visit.guard))


def _facts(guard: Guard) -> dict[str, Any]:
    book = Casebook(guard.ledger)
    bounds = guard.policy.learn
    versions = Thresholds(guard.ledger, bounds).versions()
    shipped = {case.id for case in book.cases(STARTER)}
    cases = [case for case in book.cases() if case.id not in shipped]
    lessons = to_learn(guard, book)
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
        "reader": any(gate.name == "memory" and gate.ready for gate in guard.gates()),
    }


def to_learn(guard: Guard, book: Casebook) -> list[FailedCase]:
    """Labels of people since cases were last made: overturned rulings, or confirmed as harmful."""
    news = {event.subject for event in standing_events(guard.ledger, (EventKind.LABELLED,), after=book.read)}
    cases = [case for case in reviewed(guard.ledger) if case.content.id in news] if news else []
    return [case for case in cases if case.ruled != case.truth or case.truth is Label.UNSAFE]


def _moves(versions: Sequence[ThresholdVersion]) -> list[tuple[ThresholdVersion, list[tuple[str, Cut, Cut]]]]:
    """Each version with its changes against the one before it."""
    return [(now, _changes(before.cuts, now.cuts)) for before, now in pairwise(versions)]


def _changes(before: Any, after: Any) -> list[tuple[str, Cut, Cut]]:
    gates = sorted({*before, *after})
    rows = [(gate, before.get(gate, Cut()), after.get(gate, Cut())) for gate in gates]
    return [(gate, old, new) for gate, old, new in rows if old != new]


async def learn_now(visit: Visit) -> Response:
    """Make cases of people's decisions, as the server does by itself in a while; each passes the memory gate."""
    made = 0
    for _ in range(STEPS):
        rechecked = await visit.guard.recheck()
        made += len(rechecked.cases)
        if not rechecked.cases:
            break
    return visit.to("/learning", texts()["learning"]["made"].format(made))


async def use_cases(visit: Visit) -> Response:
    """Use a version of the library from now on, an earlier one too."""
    version = visit.field("version")

    def work() -> None:
        Casebook(visit.guard.ledger).go_live(version, by=visit.session.name)

    await asyncio.to_thread(work)
    return visit.to("/learning", texts()["learning"]["live_now"].format(version))


async def move_thresholds(visit: Visit) -> Response:
    """Put the thresholds that people's labels ask for in force."""

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


# Decisions of people, the newest first; chosen ones are taken back, after a confirmation.

CHOSEN = "decision:"
"""Prefix of the name of a ticked box; the decision's number follows."""


async def decisions(visit: Visit) -> Response:
    """The list; those that the address names are ticked."""
    asked = set(visit.query("chosen").split("-"))
    found = await visit.guard.labels()
    known = await _rows(visit, found)
    lines = [(label, known[label.item], str(label.decision) in asked) for label in found if label.item in known]
    return visit.page("decisions.html", here="many", lines=lines)


async def take_back(visit: Visit) -> Response:
    """First the list of decisions to take back, then, confirmed, each of them, the newest first."""
    numbers = _numbers(visit)
    if visit.form.get("sure") != "yes":
        found = [label for label in await visit.guard.labels() if label.decision in numbers and not label.taken_back]
        known = await _rows(visit, found)
        lines = [(label, known[label.item]) for label in found if label.item in known]
        return visit.page("decisions_look.html", here="many", lines=lines)
    done, refused = list[Withdrawal](), list[tuple[int, LazarettoError]]()
    for number in numbers:
        try:
            done.append(await visit.guard.unlabel(number, by=visit.session.name, caller=visit.session.identity))
        except LazarettoError as error:
            refused.append((number, error))
    if not done:
        raise refused[0][1]
    words = texts()["decisions"]
    message = words["done"].format(number=len(done), items=sum(len(result.restored) for result in done))
    left = [f"{item}: {why}" for result in done for item, why in result.left.items()]
    left += [note for result in done for note in result.notes]
    if left:
        message += " " + words["left"].format(number=len(left), first=left[0])
    if refused:
        message += " " + words["refused"].format(number=len(refused), first=f"{refused[0][0]}: {refused[0][1]}")
    return visit.to("/decisions", message)


def _numbers(visit: Visit) -> list[int]:
    """The chosen decisions, the newest first."""
    chosen = [name.removeprefix(CHOSEN) for name in visit.form if name.startswith(CHOSEN)]
    if not chosen:
        raise InputError("decision", "nothing is chosen", "Tick at least one")
    if not all(number.isascii() and number.isdigit() and len(number) < 16 for number in chosen):
        raise InputError("decision", "is not a number", "Go back and send it again")
    return sorted(map(int, chosen), reverse=True)


async def _rows(visit: Visit, found: Sequence[LabelDecision]) -> dict[str, ItemRow]:
    items = [label.item for label in found]
    return {row.seen.id: row for row in await asyncio.to_thread(rows, visit.guard, items)}
