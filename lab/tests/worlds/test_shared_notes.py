"""Crews that act on shared notes: lies live on in what is made of them, and every note goes by whoever guards."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from lazaretto.errors import InputError
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import ScriptedChatModel
from lazaretto_lab.studies.notes.runner import attack, outcomes, reader
from lazaretto_lab.worlds.shared_notes.facts import Fact
from lazaretto_lab.worlds.shared_notes.scenario import Scenario
from lazaretto_lab.worlds.shared_notes.world import Log, Undefended, World, Written


class KnowsTheTruth(Undefended):
    """Holds every note that gives a wrong value, and repairs what it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.hidden: set[str] = set()
        self.told: list[str] = []
        self.holds = True

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        kept = super().write(agent, text, source, parents)
        world = self.world
        assert world is not None
        about = [fact for fact in world.facts if fact.subject in text]
        right = all(fact.value_in(text) in (None, world.truth[fact.number]) for fact in about)
        if right or not self.holds:
            return kept
        self.hidden.add(kept.item)
        return Written(kept.item, held=True, risk=1.0, ruling="quarantine")

    def usable(self, agent: str, items: Sequence[str]) -> list[str]:
        return [item for item in items if item not in self.hidden]

    def found(self, item: str) -> list[tuple[str, str, str]]:
        self.told.append(item)
        self.hidden.add(item)
        return []


def guarded(scenario: Scenario, *, holds: bool = True) -> tuple[Log, KnowsTheTruth]:
    defence = KnowsTheTruth()
    defence.world, defence.holds = World(scenario, defence), holds
    return defence.world.run(), defence


def test_without_an_attack_every_decision_is_right_and_a_run_repeats_itself() -> None:
    quiet = World(Scenario(seed=3, attacks=0), Undefended()).run()
    assert quiet.decisions and all(one.right for one in quiet.decisions)
    one, other = (World(Scenario(seed=3), Undefended()).run() for _ in range(2))
    assert one.notes == other.notes and one.decisions == other.decisions


def test_lies_live_on_for_at_least_four_hops() -> None:
    logs = [World(Scenario(seed=seed), Undefended()).run() for seed in range(200, 205)]
    told = [outcomes(log, Scenario()) for log in logs]
    assert statistics.fmean(one["hops"] or 0.0 for one in told) >= 4
    assert statistics.fmean(one["hops_of_notes"] or 0.0 for one in told) >= 4
    assert all((one["misbehaviour"] or 0.0) > 0.05 for one in told)
    kinds = {note.kind for log in logs for note in log.notes}
    assert kinds == {"", "I", "II", "III"}


def test_a_defence_that_knows_the_truth_keeps_every_decision_right() -> None:
    log, _ = guarded(Scenario(seed=201))
    assert all(one.right for one in log.decisions)
    assert attack(log)["goals_passed"] == 0


def test_an_adaptive_attacker_tries_until_it_passes_or_gives_up() -> None:
    scenario = Scenario(seed=201, tries=24, attacks=3, kinds=("II",))
    assert set(guarded(scenario)[0].tries.values()) == {24}
    assert set(World(scenario, Undefended()).run().tries.values()) == {1}


def test_a_lie_that_did_harm_is_found_out_later() -> None:
    log, defence = guarded(Scenario(seed=202), holds=False)
    lies = {note.item for note in log.notes if note.kind}
    assert defence.told and set(defence.told) <= lies


def test_notes_can_be_read_by_a_model() -> None:
    def script(request: Request) -> str:
        return request.messages[0].text.split('"')[1]

    model = ScriptedChatModel(script)
    scenario = Scenario(seed=203, rounds=4, crews=2)
    read = reader({}, model)
    assert World(scenario, Undefended(), read).run().decisions == World(scenario, Undefended()).run().decisions
    assert model.batches and reader({}) is Fact.value_in


def test_a_scenario_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="quiet_rounds"):
        Scenario(rounds=2)
    with pytest.raises(InputError, match="kinds"):
        Scenario(kinds=("IV",))
