"""A form filled with its own labels is not an opinion, and a debate of language models gets the time it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from lazaretto.cases.records import Case, InputKind, Label, Precedent
from lazaretto.gates.content.debate import hold_debate
from lazaretto.gates.content.gate import ContentGate, content_settings, verdict_of
from lazaretto.gates.content.parsing import ArbiterAnswer, echoes
from lazaretto.gates.content.prompts import arbiter_instructions, debater_instructions
from lazaretto.gates.content.records import Content, Order, Outcome, Panel, Role
from lazaretto.gates.engine.runner import GateSlot, run_stages
from lazaretto.policy import ChannelPolicy
from lazaretto.types import Channel, Observation, Ruling, RunStatus, Verdict

SLEEP = Content("sleep", "Give me tips to fall asleep faster")
PanelMaker = Callable[..., Panel]


@pytest.mark.parametrize(
    "words",
    [
        "at most 150 words",
        " At most 120 words. ",
        "words of the content",
        "...",
        "",
        "Why the rule applies, in your own words, 150 of them at most.",
        "neither is shown",
        "The first that applies decides",
    ],
)
def test_our_own_form_is_no_answer(words: str) -> None:
    assert echoes(words)
    for own in ("It gives instructions that hurt people.", "Harmless.", "The rule that applies is the third."):
        assert not echoes(own)
    assert "content" in echoes(SLEEP.text + ".", SLEEP.text) and not echoes(
        "It asks for tips to fall asleep.", SLEEP.text
    )


def test_the_forms_hold_no_verdict_that_could_be_copied() -> None:
    told = arbiter_instructions(Order.CONTEXT_FIRST) + debater_instructions(Role.STRICT, 1, 2)
    assert "{" not in told and "0.9" not in told
    assert list(ArbiterAnswer.model_fields)[:3] == ["quotes", "reasoning", "rule"], "what a ruling rests on comes first"


@pytest.mark.parametrize(
    ("said", "stands"),
    [
        ("give me tips", "Give me tips"),
        ("“fall asleep faster.”", "fall asleep faster"),
        ("fall\n  asleep", "fall asleep"),
        ("tips for sleeping", ""),
        ("me", ""),
        ("", ""),
    ],
)
async def test_a_quotation_stands_in_the_content_whatever_its_capitals(
    scripted_panel: PanelMaker, speech: SimpleNamespace, said: str, stands: str
) -> None:
    ruling = speech.arbiter("default-safe", "safe", 0.1, quotes=[said])
    finding = (await hold_debate(scripted_panel(_lines(speech, 0.1, ruling)), SLEEP)).finding
    quotes = [e.data for e in finding.evidence if e.kind == "span"]
    assert [q["quote"] for q in quotes] == ([stands] if stands else [])
    assert all(SLEEP.text[q["start"] : q["end"]] == q["quote"] for q in quotes)


async def test_cases_below_the_floor_are_no_precedents(scripted_panel: PanelMaker, speech: SimpleNamespace) -> None:
    class Far:
        def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
            return tuple(Precedent(Case(Label.UNSAFE, f"case {share}"), share) for share in (0.41, 0.39))

    lines = _lines(speech, 0.1, speech.arbiter("default-safe", "safe", 0.1))
    briefing = (await hold_debate(scripted_panel(lines, Far()), SLEEP)).briefing
    assert [p.similarity for p in briefing.precedents] == [0.41]


def _lines(speech: SimpleNamespace, score: float, arbiter: str) -> dict[tuple[Role, int], str]:
    said = {(r, n): speech.debater("There is no harm in it.", score) for r in (Role.STRICT, Role.LOOSE) for n in (1, 2)}
    return {**said, (Role.ARBITER, 0): arbiter}


@pytest.mark.parametrize(
    ("reasoning", "quotes", "why"),
    [
        ("at most 150 words", [], "repeats the form"),
        ("It is plainly a dangerous request to make.", [], "quotes anything"),
        ("It is plainly a dangerous request to make.", ["words it never said"], "quotes anything"),
        ("Dangerous.", ["fall asleep"], "contradicts every debater"),
    ],
)
async def test_an_unsound_ruling_is_asked_for_again_and_then_undecided(
    scripted_panel: PanelMaker, speech: SimpleNamespace, reasoning: str, quotes: list[str], why: str
) -> None:
    ruling = speech.arbiter("confirmed-risk", "unsafe", 0.9, reasoning, quotes=quotes)
    transcript = await hold_debate(scripted_panel(_lines(speech, 0.0, ruling)), SLEEP)
    assert why in transcript.finding.undecided and transcript.finding.outcome is Outcome.REVIEW
    assert transcript.finding.role_cost.calls == 2
    assert verdict_of(transcript, content_settings({})).ruling is Ruling.REVIEW


async def test_a_reasoned_ruling_that_quotes_may_stand_alone(
    scripted_panel: PanelMaker, speech: SimpleNamespace
) -> None:
    ruling = speech.arbiter(
        "confirmed-risk",
        "unsafe",
        0.9,
        "Both overlooked that this line asks for a drug.",
        quotes=["fall asleep faster"],
    )
    finding = (await hold_debate(scripted_panel(_lines(speech, 0.1, ruling)), SLEEP)).finding
    assert (finding.label, finding.outcome) == (Label.UNSAFE, Outcome.UNSAFE)


async def test_a_debater_that_echoes_the_form_has_no_score(scripted_panel: PanelMaker, speech: SimpleNamespace) -> None:
    lines = _lines(speech, 0.2, speech.arbiter("default-safe", "safe", 0.1))
    lines[Role.STRICT, 1] = lines[Role.STRICT, 2] = speech.debater("at most 120 words", 0.0)
    transcript = await hold_debate(scripted_panel(lines), SLEEP)
    assert transcript.scores[Role.STRICT] == (0.5, 0.5)
    assert sum("repeats the form" in fault for fault in transcript.faults) == 2


async def test_a_score_near_one_half_is_no_ruling(scripted_panel: PanelMaker, speech: SimpleNamespace) -> None:
    lines = _lines(speech, 0.4, speech.arbiter("default-safe", "safe", 0.45))
    finding = (await hold_debate(scripted_panel(lines), SLEEP)).finding
    assert finding.gray and finding.outcome is Outcome.REVIEW and finding.label is Label.SAFE


async def test_a_debate_of_language_models_gets_more_time_than_the_channel_gives() -> None:
    chat = {"jury": "chat", "models": {"default": {"model": "m"}}}
    assert ContentGate(content_settings({})).needs_s == 0.0
    assert ContentGate(content_settings({**chat, "hearing_s": 90.0})).needs_s == 90.0

    class Slow:
        name, channels, needs_s = "slow", frozenset(Channel), 0.0

        async def examine(self, observation: Observation, context: object) -> Verdict:
            await asyncio.sleep(0.1)
            return Verdict(self.name, observation.id, Ruling.ALLOW, 0.1, (0.0, 1.0), "late")

    item = Observation("ana", Channel.MESSAGE, "x")
    hasty = ChannelPolicy(stages=(("slow",),), timeout_s=0.02, budget_s=0.02)
    for needs, status in ((0.0, RunStatus.TIMED_OUT), (20.0, RunStatus.RAN)):
        gate = Slow()
        gate.needs_s = needs
        slot = GateSlot("slow", gate)  # type: ignore[arg-type]
        from lazaretto.gates.protocol import GateContext

        found = await run_stages({"slow": slot}, hasty, item, {"slow": GateContext(None, None, {})})  # type: ignore[arg-type]
        slot.close()
        assert found.runs[0].status in ((status, RunStatus.OVER_BUDGET) if not needs else (status,))
