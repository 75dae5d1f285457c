"""Rivals of the memory gate: same evidence, labels and second looks; types left out; a gate that comes late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mpe2", reason="needs the worlds extra")
pytest.importorskip("torch", reason="needs the models extra")

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.studies.memory import late, rivals
from lazaretto_lab.studies.memory.defence import MemoryDefence, Options
from lazaretto_lab.studies.memory.runner import stored_log
from lazaretto_lab.training.records.rivals import Agreement, Boosting, GraphAttention, rival
from lazaretto_lab.worlds.shared_memory import Log, Scenario, simulate

SMALL = Scenario(seed=31, rounds=60, per_domain=3, poison=None, ratio=0.1, quiet_rounds=25)


def quiet(share: float, note: str = "") -> None:
    """No progress is shown."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Path]:
    place = tmp_path_factory.mktemp("worlds") / "unit"
    return stored_log(SMALL, place, quiet), place


@pytest.fixture(scope="module")
def parts(world: tuple[Log, Path]) -> Any:
    return rivals._parts(world[0], SMALL, [], world[1])


def test_agreement_ranks_without_training(parts: Any) -> None:
    evidence, truth = parts.checked
    assert auc(truth, Agreement(0, False).probability(evidence)) > 0.8


@pytest.mark.slow
def test_boosting_and_attention_learn_and_can_screen_at_work(parts: Any) -> None:
    evidence, truth = parts.checked
    trees = Boosting(wide=False).fit(*parts.learned, seed=1)
    assert auc(truth, trees.probability(evidence)) > 0.85
    size = SMALL.honest_memories + SMALL.poison_count
    net = GraphAttention(size, seed=1)
    blind = auc(truth, net.probability(evidence))
    net.fit(parts.base, parts.learned, seed=1, steps=25)
    assert auc(truth, net.probability(evidence)) > max(0.75, blind)
    before = net.first[:50].clone()
    short = Scenario(seed=32, rounds=12, per_domain=1, poison=0)
    simulate(short, MemoryDefence(net, short, hold=0.9, options=Options(repair=False)))
    assert not bool((net.first[:50] == before).all()), "what the first layer made of new memories is kept"


def test_a_type_that_is_left_out_is_in_neither_training_nor_validation(world: tuple[Log, Path]) -> None:
    log, place = world
    whole, less = (rivals._parts(log, SMALL, left, place) for left in ([], [1]))
    assert less.learned[1].sum() < whole.learned[1].sum() and less.checked[1].sum() < whole.checked[1].sum()
    assert (~less.checked[1]).sum() == (~whole.checked[1]).sum()
    found = rivals._judged(Agreement(0, False).with_fusion(whole_fusion(less)), less, log, SMALL, [1])
    assert found["auc_I"] is not None and found["auc_II"] is None and found["recall_honest_II"] is None


def whole_fusion(parts: Any) -> Any:
    from lazaretto_lab.training.records.training import TrainingSettings, fit_fusion

    return fit_fusion(Agreement(0, False), *parts.checked, TrainingSettings(alphas=(0.0,)))


def test_unknown_methods_and_gates_are_named(parts: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'magic' is unknown"):
        rival("magic", parts.base, parts.learned, parts.checked, 10, 0)
    with pytest.raises(InputError, match="'magic' is unknown"):
        late.run({"gate": "magic"}, 0, RunContext(tmp_path, quiet))


def test_a_gate_that_comes_late_holds_nothing_before(tmp_path: Path) -> None:
    settings = {"rounds": 60, "per_domain": 1, "attack_rounds": 15, "quiet_rounds": 25, "begins": 45, "window": 30,
                "retrieved": 1, "reliance": 0.95, "ratio": 0.05}  # fmt: skip
    runs = {gate: late.run(settings | {"gate": gate}, 3, RunContext(tmp_path, quiet)) for gate in ("none", "no repair")}
    assert runs["none"]["poison_held"] == 0.0 and runs["none"]["honest_kept"] == 1.0
    assert runs["no repair"]["poison_held"] == 0.0, "all poison came before the gate"
    repaired = late.run(settings | {"gate": "by descent"}, 3, RunContext(tmp_path, quiet))
    assert repaired["poison_held"] > 0 and repaired["coverage"] <= runs["none"]["coverage"]
