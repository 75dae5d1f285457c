"""Who guards the shared notes: the guard as installed, the same without one of its parts, or a detector to compare
with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import RepairRefused
from lazaretto.gates.memory.claims.judge import ClaimJudge
from lazaretto.gates.memory.claims.relation import Related, RelationModel
from lazaretto.gates.memory.gate import MemoryGate, MemorySettings
from lazaretto.guard import Guard
from lazaretto.guard.sync_guard import SyncGuard
from lazaretto.policy import Policy
from lazaretto.types import SourceClass
from lazaretto_lab.worlds.shared_notes.world import Undefended, Written

PARTS = ("credibility", "conflict", "relation model", "provenance", "claims", "taint", "repair")
"""What an ablation may leave out."""
Score = Callable[[str], float]


class GuardDefence:
    """Every note through ``remember``, every read through ``recall``, every outcome through ``report``; a lie that is
    found is labelled and contained."""

    def __init__(self, folder: Path, without: str = "") -> None:
        """``without``: one of ``PARTS``; empty for the guard as installed."""
        for old in folder.glob("notes.db*"):  # what an interrupted run left
            old.unlink()
        self._repairs = without != "repair"
        gates = {"memory": weakened(without)} if without in ("credibility", "conflict", "relation model") else None
        store = f"sqlite:///{folder / 'notes.db'}"
        self.guard = SyncGuard(Guard.open(store, Policy.read(policy_without(without)), gates=gates))

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        """Remembered, and held where it is not allowed."""
        decision = self.guard.remember(text, agent=agent, source=source, parents=list(parents))
        return Written(decision.item, not decision.allowed, decision.risk, decision.ruling.label)

    def usable(self, agent: str, items: Sequence[str]) -> list[str]:
        """What recall gives."""
        return [one.id for one in self.guard.recall(agent=agent, items=list(items))] if items else []

    def decided(self, agent: str, success: bool, rests_on: Sequence[str]) -> None:
        """Reported."""
        self.guard.report("acted on a note", agent=agent, success=success, rests_on=list(rests_on))

    def found(self, item: str) -> list[tuple[str, str, str]]:
        """Labelled harmful, and contained."""
        self.guard.label(item, "harmful", by="desk")
        if not self._repairs:
            return []
        try:
            plan = self.guard.repairs.plan(item, "contain", reason="a decision went wrong")
            self.guard.repairs.apply(plan)
        except RepairRefused:
            return []
        new = [(step.item, step.detail["replacement"]) for step in plan.steps if step.action == "replace"]
        return [(item, made["id"], made["text"]) for item, made in new]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.guard.close()


def policy_without(part: str) -> dict[str, Any]:
    """The default policy, less one part."""
    if part == "provenance":  # every source is worth the same
        return {"trust": {source.value: 0.5 for source in SourceClass}}
    if part == "claims":
        return {"gates": {"memory": {"unknown_language": "warn", "claims": {"compare": False}}}}
    if part == "taint":
        return {"taint": {"ruling": "allow"}}
    return {}


def weakened(part: str) -> MemoryGate:
    """The memory gate whose comparison of claims lacks a part: credibility or the model's word in the risk, or the
    model, for which a comparison of values stands."""
    gate = MemoryGate(MemorySettings(unknown_language=Policy.recommended().channels.memory.fail_mode))
    model = ValuesAlone() if part == "relation model" else RelationModel()
    if part != "relation model":
        model.calibration = replace(model.calibration, alpha=0.0 if part == "credibility" else 1.0)
    settings = gate.settings.claims
    gate.claims = ClaimJudge(settings.rule(), settings.little_trust, model)
    return gate


class ValuesAlone(RelationModel):
    """Two claims contradict each other where both give a value of one kind, differently; nothing else is asked."""

    def compare(
        self,
        pairs: Sequence[tuple[Any, Any, float]],
        bars: Sequence[Sequence[float]] | None = None,
        *,
        at_once: bool = False,
        rough: bool = False,
    ) -> list[Related]:
        """Sure of what it sees."""
        from lazaretto.gates.memory.claims.comparison import differences

        return [Related(0.0, 1.0, 0.0, 0.0) if differences(o, n) else Related(0.0, 0.0, 0.0, 1.0) for o, n, _ in pairs]


class ScoreDefence(Undefended):
    """Holds what a detector scores at a threshold or above; it knows neither sources nor repairs."""

    def __init__(self, score: Score, threshold: float) -> None:
        super().__init__()
        self._score, self._threshold = score, threshold
        self._held: set[str] = set()

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        """Kept or held, by its score."""
        value = self._score(text)
        kept = super().write(agent, text, source, parents)
        held = value >= self._threshold
        if held:
            self._held.add(kept.item)
        return replace(kept, held=held, risk=value, ruling="quarantine" if held else "allow")

    def usable(self, agent: str, items: Sequence[str]) -> list[str]:
        """What is not held."""
        return [item for item in items if item not in self._held]


def embedded(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors of texts, as the claims index has them."""
    from lazaretto.models.minilm import shared_minilm

    return np.asarray(shared_minilm().embed_texts(list(texts)), np.float32)
