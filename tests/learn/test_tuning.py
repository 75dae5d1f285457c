"""Rates tried on what was judged: counted from stored numbers, never worse for what people called harmful."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.scored_gate import Rate, Scored

from lazaretto import Guard, Policy
from lazaretto.errors import InputError
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import Gate
from lazaretto.learn.tuning import JudgedItem, Replay, Tuner, draw, judged_items, set_to
from lazaretto.ledger import Ledger
from lazaretto.policy.written_out import edited

STAGES = {"stages": [["one", "two"]]}
POLICY = Policy.read({"preset": "minimal", "mode": "observe", "channels": {"message": STAGES}})


def make(name: str, table: Mapping[str, Any]) -> Gate | None:
    return Scored(name, Rate(**table)) if name in ("one", "two") else None


async def history(store: str, texts: Mapping[str, str]) -> None:
    """Texts judged in mode observe, with the label of each; an empty one is nobody's word."""
    async with Guard.open(store, POLICY, gates={name: Scored(name, Rate()) for name in ("one", "two")}) as guard:
        for text, label in texts.items():
            item = (await guard.check(text, agent="ada", channel="message")).item
            if label:
                await guard.label(item, label, by="dan")  # type: ignore[arg-type]


def tuner(ledger: Ledger) -> tuple[Tuner, tuple[JudgedItem, ...]]:
    items = judged_items(ledger)
    return Tuner(items, POLICY, Thresholds(ledger, POLICY.learn), make), items


async def test_the_nearest_rates_within_the_target_are_advised_and_lose_no_finding(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/t.db"
    texts = {f"plain {n} one=0.1 two=0.2": "" for n in range(90)}
    texts |= {f"loud {n} one=0.97 two=0.1": "benign" for n in range(8)}  # held by one at 0.05, not at 0.02
    texts |= {f"ill {n} one=0.3 two=0.96": "harmful" for n in range(3)}  # held by two at 0.05 alone
    await history(store, texts)
    with Ledger.open(store) as ledger:
        found = tuner(ledger)[0].tune(0.01)
    assert (found.honest, found.findings, found.differing) == (98, 3, 0)
    assert (found.now.honest, found.now.findings) == (8, 3)
    assert found.advice.changes == {("one", "rate"): 0.02} and found.advice.reached
    assert (found.advice.counts.honest, found.advice.counts.findings, found.advice.counts.unsure) == (0, 3, 0)
    by_value = {(row.gate, row.value): row.counts for row in found.rows}
    assert by_value["two", 0.02].findings == 0 and by_value["one", 0.05].honest == 8
    picture = draw(found, 0.01)
    assert picture.startswith("<svg") and picture.count("<polyline") == 2 and "advised: 0.00% honest" in picture


async def test_where_a_finding_would_be_lost_nothing_within_the_target_is_advised(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/t.db"
    texts = {f"plain {n} one=0.1": "" for n in range(20)}
    texts |= {f"loud {n} one=0.97": "benign" for n in range(2)} | {"ill one=0.96": "harmful"}
    await history(store, texts)
    with Ledger.open(store) as ledger:
        found = tuner(ledger)[0].tune(0.01)
    assert not found.advice.reached and not found.advice.changes and found.advice.counts == found.now
    assert found.without_rate == ()


async def test_counts_are_those_of_judging_again(tmp_path: Path) -> None:
    """Random traffic: what is folded and replayed agrees with the gates themselves, under every joint setting."""
    chance, store = random.Random(7), f"sqlite:///{tmp_path}/t.db"
    texts = {
        f"n{n} one={chance.choice((0.2, 0.93, 0.96, 0.985, 0.995))} two={chance.random():.4f}": chance.choice(
            ("", "", "benign", "harmful")
        )
        for n in range(60)
    }
    await history(store, texts)
    with Ledger.open(store) as ledger:
        made, items = tuner(ledger)
        for one, two in itertools.product((0.01, 0.02, 0.05, 0.1), repeat=2):
            changes = {("one", "rate"): one, ("two", "rate"): two}
            counts = made.counted(changes)
            truth = [0, 0]
            for item in items:
                numbers = dict(part.split("=") for part in item.observation.text.split() if "=" in part)
                held = float(numbers["one"]) > 1 - one or float(numbers["two"]) > 1 - two
                truth[bool(item.harmful)] += held
            assert [counts.honest, counts.findings] == truth


async def test_what_keeps_no_numbers_is_counted_as_not_sure(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/t.db"
    await history(store, {"a one=0.5": ""})
    with Ledger.open(store) as ledger:
        (item,) = judged_items(ledger)
        bare = tuple(replace(v, evidence=()) for v in item.decision.verdicts)
        old = replace(item, decision=replace(item.decision, verdicts=bare))
        policy = set_to(POLICY, {("one", "rate"): 0.1})
        replay = Replay(policy, {"one": Scored("one", Rate(0.1))}, Thresholds(ledger, POLICY.learn))
        assert replay.ruled(old).sure and not replay.ruled(old, {"one"}).sure and replay.ruled(item, {"one"}).sure
        counting = Tuner([old], POLICY, Thresholds(ledger, POLICY.learn), make)
        assert counting.counted({("one", "rate"): 0.1}).unsure == 1
        assert counting.counted({("one", "rate"): Rate().rate}) == counting.counted({}), "as it is set is no change"


async def test_the_last_word_of_people_counts_and_the_machines_does_not(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/t.db"
    await history(store, {"a one=0.99": "harmful", "b one=0.99": ""})
    async with Guard.open(store, POLICY, gates={n: Scored(n, Rate()) for n in ("one", "two")}) as guard:
        first = next(one for one in judged_items(guard.ledger) if one.observation.text.startswith("a "))
        await guard.label(first.observation.id, "benign", by="eve")
        words = {one.observation.text[0]: one.harmful for one in judged_items(guard.ledger)}
    assert words == {"a": False, "b": None}


def test_a_policy_file_keeps_what_it_says_elsewhere() -> None:
    text = (
        '# mine\npreset = "strict"\n\n[gates.memory]\nreview_rate = 0.02  # by me\n\n[gates.content]\ngray = "warn"\n'
    )
    changed = edited(text, {("gates.memory", "review_rate"): 0.01, ("gates.content", "misses"): 0.3})
    assert changed == text.replace("0.02  #", "0.01  #") + "misses = 0.3\n"
    assert edited("", {("gates.memory", "review_rate"): 0.01}) == "[gates.memory]\nreview_rate = 0.01\n"
    with pytest.raises(InputError, match="cannot be set in this file"):
        edited("[gates]\nmemory = { review_rate = 0.02 }\n", {("gates.memory", "review_rate"): 0.01})
