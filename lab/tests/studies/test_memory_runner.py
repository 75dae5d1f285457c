"""The memory experiments: a defence that holds, repairs and releases, a threshold chosen while it works, a ledger."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("mpe2", reason="needs the worlds extra")
pytest.importorskip("torch", reason="needs the models extra")

from lazaretto.errors import InputError
from lazaretto.gates.memory.record_model import RecordModel, shared_model
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import EventKind
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.memory.defence import MemoryDefence
from lazaretto_lab.studies.memory.evidence import collect_evidence, split_teams
from lazaretto_lab.studies.memory.ledger import write_ledger
from lazaretto_lab.studies.memory.runner import _judge_baseline, fit, run, scenario_from
from lazaretto_lab.studies.memory.threshold import choose_hold_threshold, replay_defence
from lazaretto_lab.training.records.training import TrainingSettings, nt_xent
from lazaretto_lab.worlds.shared_memory import Log, Scenario, simulate
from lazaretto_lab.worlds.shared_memory.scenario import ACTION
from lazaretto_lab.worlds.shared_memory.world import MendResult, Rewriting, Writes

SMALL = Scenario(seed=31, rounds=60, per_domain=3, poison=None, ratio=0.1, quiet_rounds=25)


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(SMALL)


@pytest.fixture(scope="module")
def model() -> RecordModel:
    return shared_model()


def test_every_team_size_is_in_every_part() -> None:
    main = Scenario()
    split, sizes = split_teams(main), np.array(main.team_sizes())
    assert set(sizes[split.train]) == set(sizes[split.test]) == {4, 5, 6, 7, 8}
    assert len(split.train) == 24 and len(split.validate) == 6 and len(split.test) == 30
    assert len(np.unique(np.concatenate([split.train, split.validate, split.test]))) == main.teams
    assert all(set(part // main.per_domain) == set(range(6)) for part in (split.train, split.validate, split.test))


@pytest.mark.slow
def test_the_defence_holds_poison_and_stops_it_from_spreading(log: Log, model: RecordModel) -> None:
    defence = MemoryDefence(model, SMALL, model.fusion.hold)
    after = simulate(SMALL, defence)
    late = after.round >= SMALL.quiet_rounds
    held = after.held[late & after.poisoned].mean()
    assert held > 0.5 and held > 10 * after.held[late & after.honest].mean()
    assert (after.hops[after.kind == 0] > 0).sum() < 0.4 * (log.hops[log.kind == 0] > 0).sum()
    assert defence.done["held"] >= after.held.sum() - defence.done["isolated"]


@pytest.mark.slow
def test_a_replayed_defence_is_one_that_reads_what_was_written(log: Log, model: RecordModel) -> None:
    teams = split_teams(SMALL).validate
    careful = replay_defence(MemoryDefence(model, SMALL, 0.95), log, SMALL, teams)
    watchful = replay_defence(MemoryDefence(model, SMALL, 0.3), log, SMALL, teams)
    assert not watchful[~np.isin(log.team, teams)].any()
    assert careful.sum() < watchful.sum()
    chosen = choose_hold_threshold(model, log, SMALL, teams).fusion
    assert chosen.hold in [threshold for _, threshold in model.fusion.by_rate]
    assert chosen.threshold_at(0.01) >= chosen.hold  # a policy that names one per cent gets at least this


class RewritesAll:
    """Holds nothing; gives every memory of one team the action of the team's first memory."""

    def __init__(self, team: int) -> None:
        self.team, self.first = team, -1
        self.action = np.zeros(ACTION, np.float32)
        self.due = np.zeros(0, dtype=np.int64)

    def admit(self, writes: Writes) -> np.ndarray:
        mine = writes.team == self.team
        self.due = writes.ids[mine]
        if self.first < 0:
            self.first = int(self.due[0])
            self.action = writes.memories.action[mine][0]
        return np.zeros(len(writes.ids), dtype=bool)

    def mend(self, round_index: int) -> MendResult | None:
        none, count = np.zeros(0, dtype=np.int64), len(self.due)
        sources = np.full((count, ACTION), self.first)
        return MendResult(none, none, Rewriting(self.due, np.tile(self.action, (count, 1)), sources))


def test_rewritten_memories_say_what_they_were_given() -> None:
    peace = dataclasses.replace(SMALL, poison=0, rounds=40)
    team = 17  # knowledge: what is retrieved decides
    plain, rewritten = simulate(peace), simulate(peace, RewritesAll(team))
    mine = (plain.team == team) & (plain.round >= 30)
    assert rewritten.rewritten[rewritten.team == team].all() and not rewritten.rewritten[rewritten.team != team].any()
    assert rewritten.deviation()[mine].mean() > plain.deviation()[mine].mean() + 0.2
    other = (plain.team == 16) & (plain.round >= 30)
    np.testing.assert_array_equal(rewritten.action[other], plain.action[other])


def test_a_run_becomes_a_ledger_that_tools_open(tmp_path, log: Log) -> None:
    held = dataclasses.replace(log, held=log.poisoned.copy())
    teams = split_teams(SMALL).test
    path = tmp_path / "ledger.db"
    count = write_ledger(path, held, SMALL, teams, {"settings": 1})
    again = write_ledger(path, held, SMALL, teams, {"settings": 1})  # what an interrupted run left is replaced
    with Ledger.open(f"sqlite:///{path}") as ledger:
        assert ledger.verify().ok
        seen = list(ledger.events(kinds=(EventKind.SEEN,)))
        ruled = list(ledger.events(kinds=(EventKind.RULED,)))
        about = next(iter(ledger.events(kinds=(EventKind.NOTED,)))).body
        poisoned = about["poisoned"]
        assert len(seen) == count == again and len(about["teams"]) == 6
        assert {event.subject for event in ruled} == set(poisoned)
        reached = ProvenanceGraph(ledger).blast_radius(poisoned[0])
        children = {f"m{row}" for row in np.flatnonzero((log.parents == int(poisoned[0][1:])).any(1)).tolist()}
        assert children <= {one.id for one in reached.items}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ours", "statistical residual"])
def test_a_unit_measures_before_and_after(tmp_path, monkeypatch, method: str) -> None:
    monkeypatch.setenv("LAZARETTO_WORLDS", str(tmp_path / "worlds"))
    settings = {
        "rounds": 40,
        "quiet_rounds": 15,
        "per_domain": 3,
        "ratio": 0.08,
        "method": method,
        "steps": 20,
        "adaptive": 2,
        "compare_peace": True,
    }
    found = run(settings, 5, RunContext(tmp_path))
    assert 0.4 < found["auc"] <= 1 and found["auc_low"] <= found["auc"] <= found["auc_high"]
    assert len(found["roc"]) == 101 and all(np.diff(found["roc"]) >= 0)
    assert found["misbehaviour_after"] <= found["misbehaviour_before"] + 0.02
    assert len(found["agents_before"]) == len(found["agents_after"])
    assert found["in_ledger"] > 0 and (tmp_path / "ledger.db").exists()
    assert ("queries_per_poison" in found) == ("harm_share" in found) == (method == "ours")
    if method == "ours":
        assert 1 <= found["queries_needed"] <= 2 and 0 < found["can_pass"] <= 1 and found["misbehaviour_calm"] < 0.2


def test_noise_reaches_the_baselines_as_well(log: Log) -> None:
    calm, same, shaken = (_judge_baseline("statistical residual", log, SMALL, noise)[0] for noise in (0.0, 0.0, 0.5))
    assert calm == same and shaken["auc"] < calm["auc"]


def test_unknown_settings_are_named() -> None:
    with pytest.raises(InputError, match="colour"):
        scenario_from({"colour": 3}, 0)


def test_nt_xent_is_the_mean_over_positives_of_a_log_softmax() -> None:
    import torch

    torch.manual_seed(0)
    h = torch.nn.functional.normalize(torch.randn(40, 8), dim=1)
    kind = (torch.rand(40) < 0.4).float()
    likeness = (h @ h.T / 0.1).fill_diagonal_(-1e9)
    chance = torch.log_softmax(likeness, dim=1)
    rows = [chance[i][(kind == kind[i]) & (torch.arange(40) != i)].mean() for i in range(40)]
    assert nt_xent(torch, h, kind).item() == pytest.approx(-torch.stack(rows).mean().item(), rel=1e-4)


@pytest.mark.slow
def test_training_tells_poison_from_honest_memories(log: Log) -> None:
    split = split_teams(SMALL)
    evidences = (collect_evidence(log, SMALL), collect_evidence(log, SMALL, screened=True))
    assert set(log.team[evidences[1].rows]) == set(split.train)
    model = fit(log, evidences, split, TrainingSettings(seed=1, steps=30))
    use = np.isin(log.team, split.test) & (log.round >= 30)
    fused = model.score(evidences[0].looked).fused
    assert fused[use & log.poisoned].mean() > fused[use & log.honest].mean() + 0.2
    assert model.fusion.by_rate[0][1] >= model.fusion.by_rate[-1][1]
