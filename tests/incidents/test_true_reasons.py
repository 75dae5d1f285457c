"""What is held is shown with the reason of the verdict that decided, and nothing that is held is missing from the
queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazaretto import Guard
from lazaretto.errors import RepairRefused
from lazaretto.gates.engine.decision import ruling_body
from lazaretto.testing import ScriptedGate
from lazaretto.types import Decision, Draft, EventKind, Evidence, Observation, Ruling, Verdict

NOTHING, THREAT = "Nothing in it reads like an order.", "It threatens a person: \u201churt him\u201d."
POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["orders", "content"]]}}}


def _said(gate: str, ruling: Ruling, words: str) -> Callable[[Observation], Verdict]:
    def script(one: Observation) -> Verdict:
        held = "hurt" in one.text
        said = (Evidence("measure", words),) if words else ()
        return Verdict(gate, one.id, ruling if held else Ruling.ALLOW, 0.9, (0.0, 1.0), f"{gate}_rule", said)

    return script


@pytest.fixture
def crew(open_guard: Callable[..., Guard], store_url: str) -> Guard:
    orders = ScriptedGate(_said("orders", Ruling.ALLOW, NOTHING), "orders")
    content = ScriptedGate(_said("content", Ruling.BLOCK, THREAT), "content")
    return open_guard(POLICY, store=store_url, gates={"orders": orders, "content": content})


async def test_the_reason_is_that_of_the_verdict_that_decided(crew: Guard) -> None:
    decision = await crew.remember("we will hurt him", agent="ada")
    assert (decision.rule, decision.reasons) == ("content:content_rule", (THREAT,))
    (held,) = await crew.held()
    assert (held.rule, held.reasons) == (decision.rule, (THREAT,))
    told = (await crew.incidents.one(decision.item)).timeline[0].says
    assert THREAT in told and NOTHING not in told
    fine = await crew.remember("we will help him", agent="ada")
    assert NOTHING in fine.reasons, "what is allowed may be explained by what cleared it"


async def test_a_verdict_without_words_is_not_explained_by_another(open_guard: Callable[..., Guard]) -> None:
    orders = ScriptedGate(_said("orders", Ruling.ALLOW, NOTHING), "orders")
    content = ScriptedGate(_said("content", Ruling.QUARANTINE, ""), "content")
    crew = open_guard(POLICY, gates={"orders": orders, "content": content})
    await crew.remember("we will hurt him", agent="ada")
    (held,) = await crew.held()
    assert held.reasons == ("It was ruled quarantine by content:content_rule, which gave no reason.",)


async def test_a_gate_that_failed_is_named_as_the_reason(open_guard: Callable[..., Guard]) -> None:
    def broken(_: Observation) -> Verdict:
        raise RuntimeError("no weights")

    rules = {"preset": "minimal", "channels": {"memory": {"stages": [["orders", "content"]], "fail_mode": "review"}}}
    orders = ScriptedGate(_said("orders", Ruling.ALLOW, NOTHING), "orders")
    crew = open_guard(rules, gates={"orders": orders, "content": ScriptedGate(broken, "content")})
    decision = await crew.remember("good morning", agent="ada")
    (held,) = await crew.held()
    assert held.rule == decision.rule == "fail:content:failed"
    assert "content did not answer (failed)" in held.reasons[0] and "no weights" in held.reasons[0]
    assert NOTHING not in held.reasons


async def test_the_newest_ruling_is_the_one_that_is_shown(crew: Guard) -> None:
    held = await crew.remember("we will hurt him", agent="ada")
    await crew.appeal(held.item, "a quotation", by="ada")
    later = Verdict(
        "orders", held.item, Ruling.REVIEW, 0.5, (0.0, 1.0), "later", (Evidence("measure", "Looked again."),)
    )
    ruled = Decision(held.item, Ruling.REVIEW, 0.5, (0.0, 1.0), "orders:later", (later,))
    crew.ledger.append([Draft(EventKind.RULED, held.item, body=ruling_body(ruled))])
    (shown,) = await crew.held()
    assert (shown.rule, shown.reasons, shown.appealed) == ("orders:later", ("Looked again.",), True)


async def test_what_is_held_inside_an_undone_repair_is_listed(crew: Guard) -> None:
    held = await crew.remember("we will hurt him", agent="ada")
    receipt = await crew.repairs.apply(await crew.repairs.plan(held.item, "isolate"))
    assert await crew.held() == (), "a repair took it out"
    await crew.repairs.undo(receipt.id)
    assert crew.ledger.state(held.item).held
    (again,) = await crew.held()
    assert (again.id, again.rule, again.reasons) == (held.item, held.rule, (THREAT,))
    released = await crew.release(held.item)
    assert await crew.held() == ()
    await crew.repairs.undo(released.id)
    assert [one.id for one in await crew.held()] == [held.item], "held again, and waiting again"
    await crew.label(held.item, "harmful", by="dan")
    assert await crew.held() == ()
    with pytest.raises(RepairRefused):
        await crew.repairs.undo(released.id)


def _weighed(one: Observation) -> Verdict:
    """An allowing verdict as the content gate gives it: how it weighed the item, and its debate."""
    said = (
        Evidence("measure", "Rule 3: safe by default. Risk 0.06 by one look of one model.", {"scores": {}}),
        Evidence("span", "“help him” speaks for a benign reading.", {"quote": "help him", "part": "text"}),
        Evidence("measure", "The picture's codes were not read.", {}),
        Evidence("debate", "No debate was held.", {"transcript": []}),
    )
    return Verdict("content", one.id, Ruling.ALLOW, 0.1, (0.0, 0.3), "default-safe", said)


async def test_what_passes_says_so_in_one_plain_line(open_guard: Callable[..., Guard], store_url: str) -> None:
    orders = ScriptedGate(_said("orders", Ruling.ALLOW, NOTHING), "orders")
    crew = open_guard(POLICY, store=store_url, gates={"orders": orders, "content": ScriptedGate(_weighed, "content")})
    fine = await crew.remember("we will help him", agent="ada")
    assert fine.reasons == (
        "Passed: orders and content found nothing to hold it for.", NOTHING, "The picture's codes were not read.",
    ), "in the first line who looked; then what a reader has to know"  # fmt: skip
    ruled = next(iter(crew.ledger.events(subject=fine.item, kinds=(EventKind.RULED,))))
    assert "Rule 3" in str(ruled.body) and "Rule 3" in str(fine.verdicts), "the long form is kept for auditors"


def test_what_others_cleared_says_who_and_what() -> None:
    doubt = Verdict("memory", "it_1", Ruling.REVIEW, 0.5, (0.0, 1.0), "gray", (Evidence("span", "Looks odd."),))
    clear = Verdict("reader", "it_1", Ruling.ALLOW, 0.1, (0.0, 0.3), "settled", (Evidence("measure", "Not harmful."),))
    made = Decision(
        "it_1", Ruling.ALLOW, 0.1, (0.0, 0.3), "reader:settled", (doubt, clear), settled=("memory:gray",)
    )  # fmt: skip
    assert made.reasons == (
        "Not harmful.",
        "Passed: memory and reader looked at it, and the findings of memory were cleared.",
    )
    assert Decision("it_1", Ruling.ALLOW, 0.5, (0.0, 1.0), "policy:no_gates").reasons == (
        "Passed: no gate looked at it.",
    )
