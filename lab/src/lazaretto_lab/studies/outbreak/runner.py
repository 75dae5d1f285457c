"""An outbreak in the album-chat world as an experiment: one unit is one run, with its benign twin for comparison."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lazaretto.agents.model import AgentModel
from lazaretto.ledger import Ledger
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.metrics.infection import infection_summary
from lazaretto_lab.studies.outbreak.attack import bank_rows
from lazaretto_lab.studies.outbreak.components import Components, make_components
from lazaretto_lab.studies.outbreak.models import remembering
from lazaretto_lab.studies.outbreak.settings import OutbreakSettings, cache_folder, read_settings
from lazaretto_lab.worlds.album_chat.measures import Curve, Diversity, Spread, mean, measure_diversity, measure_spread
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.trace import NO_DEFENCE, RoundTrace
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

TWIN_SHARE = 0.4
"""What the benign twin is of a run's progress."""


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One run: what the infection did, what became of diversity, and what it cost."""
    wanted = read_settings(settings)
    context.progress(0.0, "models and attack")
    measures = run_with(make_components(wanted, seed, context.workdir), wanted, seed, context)
    if wanted.infected and wanted.attack.bank:
        met = bank_rows(wanted, seed)
        measures |= {"virus": ", ".join(row["name"] for row in met), "virus_beta": mean([row["beta"] for row in met])}
    return measures | ({"arrivals": wanted.chance()} if wanted.arrivals == "settled" else {})


def run_with(parts: Components, settings: OutbreakSettings, seed: int, context: RunContext) -> dict[str, Any]:
    """``run`` with the parts already made: models, pool, viruses and defence."""
    scenario = settings.scenario(seed)
    twin = benign_twin(parts, scenario, context) if settings.diversity else None
    if twin is not None and settings.defence == "none" and not settings.infected and not settings.ledger:
        return _measured(parts, settings, twin, twin)  # it is its own twin
    agent_model = AgentModel(remembering(parts.chat, context.workdir), EmbeddingCache(parts.embedder, context.workdir))
    ledger = Ledger.open(f"sqlite:///{context.workdir / 'ledger.db'}") if settings.ledger else None
    try:
        world = AlbumChat(
            scenario, agent_model, parts.pool, parts.viruses if settings.infected else (),
            defence=parts.defence, ledger=ledger, folder=context.workdir / "world",
        )  # fmt: skip
        begin = TWIN_SHARE if twin else 0.0
        outcome = asyncio.run(world.run(_say(context, scenario.rounds, 1.0 - begin, begin)))
    finally:
        if ledger is not None:
            ledger.close()
    return _measured(parts, settings, outcome, twin)


def _measured(parts: Components, settings: OutbreakSettings, outcome: Outcome, twin: Outcome | None) -> dict[str, Any]:
    keys = [virus.album_item.key for virus in parts.viruses]
    spread = measure_spread(outcome, keys)
    measures = {**_infection(spread, settings), **_costs(outcome), **_changes(outcome, keys)}
    measures["recall_before_shown"] = _recall(outcome, keys, settings)
    if twin:
        measures |= _diversity(measure_diversity(outcome, twin, parts.semantics))
    return measures


def benign_twin(parts: Components, scenario: Scenario, context: RunContext) -> Outcome:
    """The same world without virus and defence, run once for all rows that share it; others wait for it."""
    benign = scenario.benign()
    nameless = AlbumChat(benign, AgentModel(parts.chat, EmbeddingCache(parts.embedder)), parts.pool)
    place = cache_folder() / "benign" / nameless.fingerprint[:24]
    with file_lock(place):
        agent_model = AgentModel(remembering(parts.chat, place), EmbeddingCache(parts.embedder, place))
        world = AlbumChat(benign, agent_model, parts.pool, folder=place / "world")
        return asyncio.run(world.run(_say(context, benign.rounds, TWIN_SHARE)))


def _say(context: RunContext, rounds: int, share: float, start: float = 0.0) -> Any:
    def report(trace: RoundTrace) -> None:
        done = (trace.round_index + 1) / max(1, rounds)
        context.progress(start + share * done, f"round {trace.round_index + 1} of {rounds}")

    return report


def _infection(spread: Spread, settings: OutbreakSettings) -> dict[str, Any]:
    if not spread.current:
        return {"cumulative": [], "current": []}
    return {
        **infection_summary(spread.cumulative, spread.current),
        "beta": mean(spread.activation),
        "alpha_question": mean(spread.asked),
        "alpha_answer": mean(spread.answered),
        "carrying_end": 100.0 * spread.carrying / settings.agents,
        "cumulative": list(spread.cumulative),
        "current": list(spread.current),
        "activation": list(spread.activation),
        "entropy": list(spread.entropy),
    }


def _diversity(diversity: Diversity) -> dict[str, Any]:
    spread, benign = mean(diversity.dispersion), mean(diversity.benign_dispersion)
    return {
        "cer": 100.0 * diversity.entropy_retention,
        "sdd": mean(diversity.drift),
        "sdi": spread,
        "sdi_benign": benign,
        "narrowed": _narrowed(diversity.dispersion),
        "sdi_squared": mean(diversity.squared),
        "narrowed_squared": _narrowed(diversity.squared),
        "narrowed_benign": _narrowed(diversity.benign_dispersion),
        "sdi_ratio": spread / benign if spread is not None and benign else None,
        "drift": list(diversity.drift),
        "dispersion": list(diversity.dispersion),
        **{f"cloud_{i}": [[round(x, 3), round(y, 3)] for x, y in c] for i, c in enumerate(diversity.clouds)},
    }


def _narrowed(dispersion: Curve) -> float | None:
    """What is left of the first round's dispersion in the last, each taken over four rounds: one round is noise."""
    known = [value for value in dispersion if value is not None]
    return mean(tuple(known[-4:])) / mean(tuple(known[:4])) if len(known) >= 8 else None  # type: ignore[operator]


def _costs(outcome: Outcome) -> dict[str, Any]:
    rounds = outcome.rounds
    calls = sum(trace.spent.calls for trace in rounds)
    defence = sum(trace.spent_by_defence.calls for trace in rounds)
    return {
        "calls": calls,
        "calls_by_defence": defence,
        "calls_ratio": (calls + defence) / calls if calls else None,
        "prompt_tokens": sum(t.spent.prompt_tokens + t.spent_by_defence.prompt_tokens for t in rounds),
        "completion_tokens": sum(t.spent.completion_tokens + t.spent_by_defence.completion_tokens for t in rounds),
        "faults": sum(bool(turn.fault) for trace in rounds for turn in trace.turns),
        "pictures_encoded": outcome.pictures_encoded,
        "pictures_met": outcome.contents_met,
    }


def _changes(outcome: Outcome, viruses: list[str]) -> dict[str, Any]:
    made = [change for trace in outcome.rounds for change in trace.changes if change.reason not in NO_DEFENCE]
    removed = Counter(key for change in made for key in change.removed)
    added = sum(len(change.added) for change in made)
    bad = sum(removed[key] for key in set(viruses))  # one picture may stand for several sentences
    return {"virus_removed": bad, "benign_removed": removed.total() - bad, "added": added}


def _recall(outcome: Outcome, viruses: list[str], settings: OutbreakSettings) -> float | None:
    """Of the viruses that were there at the beginning, the percentage that a defence took out before any was shown."""
    if settings.defence == "none" or not settings.infected or settings.arrives:
        return None
    shown = [any(turn.virus >= 0 for turn in trace.turns) for trace in outcome.rounds]
    before = outcome.rounds[: shown.index(True) + 1] if True in shown else outcome.rounds
    changes = [change for trace in before for change in trace.changes if change.reason not in NO_DEFENCE]
    return 100.0 * sum(key in viruses for change in changes for key in change.removed) / settings.infected
