"""What would have been held, day by day, and the step from watching to holding."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lazaretto import Guard, Policy, Ruling
from lazaretto.cli import build
from lazaretto.incidents.observed import FEWEST, ObservedLog
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Verdict

FILE = '# ours\nmode = "observe"  # for a week\npreset = "minimal"\n[channels.message]\nstages = [["loud"]]\n'


def loud() -> ScriptedGate:
    """Holds what says LOUD."""

    def script(one: Observation) -> Verdict:
        held = "LOUD" in one.text
        return Verdict("loud", one.id, Ruling.QUARANTINE if held else Ruling.ALLOW, 0.7, (0.5, 0.9), "shouts")

    return ScriptedGate(script, "loud")


async def crew(guard: Guard, quiet: int, noisy: int) -> list[str]:
    for number in range(quiet):
        await guard.check(f"line {number}", agent="ada", channel="message")
    return [(await guard.check(f"LOUD {n}", agent="ada", channel="message")).item for n in range(noisy)]


@pytest.fixture
def observing(open_guard: Callable[..., Guard], tmp_path: Path) -> Guard:
    stages = {"message": {"stages": [["loud"]]}}
    policy = Policy.read({"preset": "minimal", "mode": "observe", "channels": stages})
    return open_guard(policy, gates={"loud": loud()})


async def test_what_would_be_held_is_listed_until_somebody_gives_it_a_word(observing: Guard) -> None:
    first, second = await crew(observing, 3, 2)
    log = ObservedLog(observing.ledger)
    assert [one.id for one in log.would()] == [second, first]
    assert log.would(1)[0].ruling == "quarantine" and log.would(1)[0].rule == "loud:shouts"
    assert await observing.held() == (), "nothing is held"
    await observing.label(first, "benign", by="dan")
    await observing.label(second, "harmful", by="dan")
    assert log.would() == ()
    (day,) = log.days()
    assert (day.judged, day.flagged, day.harmful, day.benign, day.waiting) == (5, 2, 1, 1, 0)


async def test_quiet_means_enough_items_a_word_on_each_and_few_false_alarms(observing: Guard) -> None:
    log = ObservedLog(observing.ledger)
    assert "only 0 items" in log.quiet().why
    items = await crew(observing, FEWEST - 2, 2)
    assert "2 items without a word" in log.quiet().why
    await observing.label(items[0], "harmful", by="dan")
    await observing.label(items[1], "benign", by="dan")
    assert "1 honest items would be held, 1.0%" in log.quiet().why  # 1 of 99
    await crew(observing, 2, 0)
    assert log.quiet().quiet and log.quiet(time.time() + 30 * 86_400).why.startswith("only 0 items")


async def test_erased_and_machine_released_items_are_nobodys_word(observing: Guard) -> None:
    (item,) = await crew(observing, 0, 1)
    log = ObservedLog(observing.ledger)
    assert len(log.would()) == 1
    observing.ledger.erase(item, reason="asked")
    assert log.would() == () and log.days()[0].flagged == 0


def test_enforce_changes_one_line_of_the_file_and_only_when_it_is_quiet(tmp_path: Path) -> None:
    from lazaretto import SyncGuard

    policy, store = tmp_path / "policy.toml", f"sqlite:///{tmp_path}/crew.db"
    policy.write_text(FILE)
    with SyncGuard.open(store, policy, gates={"loud": loud()}) as guard:
        for number in range(FEWEST):
            guard.check(f"line {number}", agent="ada", channel="message")
        item = guard.check("LOUD", agent="ada", channel="message").item

    def run(*words: str) -> Any:
        return CliRunner().invoke(build(words[0]), [*words, "--store", store, "--policy", str(policy)])

    shown = run("held", "--would")
    assert shown.exit_code == 0 and f"lazaretto label {item} benign --by YOU" in " ".join(shown.output.split())
    refused = run("enforce")
    assert refused.exit_code == 1 and "without a word" in refused.output and policy.read_text() == FILE
    with SyncGuard.open(store, policy, gates={"loud": loud()}) as guard:
        guard.label(item, "benign", by="dan")
    assert "quiet: let it hold with" in run("observed").output
    assert run("enforce").exit_code == 0
    assert policy.read_text() == FILE.replace('mode = "observe"', 'mode = "enforce"')
    assert "enforces already" in run("enforce").output
