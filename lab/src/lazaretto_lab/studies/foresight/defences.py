"""The modes of foresight as defences that can be handed to the album-chat world: thin adapters over the product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import Persona
from lazaretto.agents.turn import AgentState, Turn
from lazaretto.gates.foresight.adapter import AgentModelBackend, RehearsalBackend
from lazaretto.gates.foresight.community import Mode, MonitorMode, Streams
from lazaretto.gates.foresight.flp import FlpMode, FlpSettings, FlpThresholds, Purification, Purified, published_search
from lazaretto.gates.foresight.monitor import MemoryMonitor
from lazaretto_lab.models.request_batching import RequestBatcher
from lazaretto_lab.studies.foresight.rollbacks import remove_all, remove_newer_half
from lazaretto_lab.worlds.album_chat.defence import Change, View
from lazaretto_lab.worlds.streams import stream

BLUNT: dict[str, Callable[[AgentState], AgentState]] = {"naive": remove_all, "tail": remove_newer_half}
"""Baselines: diagnosis as published, purification without looking."""


class ModeDefence:
    """A mode of foresight over the world's own agents."""

    def __init__(self, mode: Mode, name: str) -> None:
        self.mode, self.name = mode, name

    def speaking(self, view: View) -> list[str]:
        """Who shows something in this round."""
        return [view.agents[q].id for q, _ in view.pairs]

    async def before_round(self, view: View) -> Sequence[Change]:
        """Whatever the mode says must change."""
        backend = AgentModelBackend(view.agent_model)
        done = await self.mode.before_turns(view.agents, self.speaking(view), backend, streams_of(view))
        return [Change(done.changed[one], reason) for one, reason in done.reasons.items()]

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        """Listen, and note who met whom."""
        self.mode.listen(talk_by_item(turns), [(t.questioner, t.answerer) for t in turns if not t.void])
        return ()

    def snapshot(self) -> Mapping[str, Any]:
        """The mode's own."""
        return self.mode.snapshot()

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        """Go on with it."""
        self.mode.restore(snapshot, album_items)


class MonitorDefence(ModeDefence):
    """Foresight as we run it: whoever is about to show something is diagnosed; what is found goes everywhere."""

    def __init__(self, monitor: MemoryMonitor, source: str = "") -> None:
        """``source`` names the calibration, so that runs with another one are other runs."""
        self.monitor = monitor
        super().__init__(MonitorMode(monitor), f"lazaretto {monitor.settings} {monitor.scales} {source}")


class FlpDefence(ModeDefence):
    """The defence as published: every agent rehearses, whoever collapses is rolled back or bisected."""

    def __init__(
        self,
        thresholds: FlpThresholds,
        personas: Sequence[Persona],
        settings: FlpSettings | None = None,
        *,
        rounds: int = 0,
        purify: str = "flp",
        smallest: int = 2,
    ) -> None:
        """``rounds``: how many rounds from the first it runs (0: all of them; the authors' program: 4)."""
        search = partial(published_search, smallest=smallest)
        kind = FlpMode if purify == "flp" else partial(BluntMode, BLUNT[purify], purify)
        mode = kind(thresholds, personas, settings, search=search, together=in_step)
        self.thresholds, self.personas, self.settings, self.rounds = thresholds, mode.personas, mode.settings, rounds
        super().__init__(
            mode,
            f"flp {self.settings} {thresholds} rounds={rounds or 'all'} purify={purify} smallest={smallest}",
        )

    def speaking(self, view: View) -> list[str]:
        """Everybody rehearses, as published."""
        return [agent.id for agent in view.agents]

    async def before_round(self, view: View) -> Sequence[Change]:
        """In the rounds it runs in."""
        return () if self.rounds and view.round_index >= self.rounds else await super().before_round(view)


class BluntMode(FlpMode):
    """Diagnosis as published, purification without looking."""

    def __init__(self, clean: Callable[[AgentState], AgentState], how: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clean, self._how = clean, how

    async def purified(
        self, agent: AgentState, drift: float | None, backend: RehearsalBackend, *, streams: Streams
    ) -> Purified:
        """The same for everybody."""
        return self._clean(agent), self._how


async def in_step(backend: RehearsalBackend, searches: Sequence[Purification]) -> list[Purified]:
    """All searches side by side: what they ask at the same time is one batch."""
    if not isinstance(backend, AgentModelBackend):
        raise TypeError("searches are batched over an agent model")
    world = backend.agent_model
    chorus = RequestBatcher(world.chat)
    singing = AgentModel(chorus, world.embedder, world.max_tokens)
    batched = AgentModelBackend(singing)
    pure = await chorus.run_together([partial(search, batched) for search in searches])
    world.spent += singing.spent
    return pure


def streams_of(view: View) -> Streams:
    """The chance of one round."""
    return lambda name: stream(view.seed, name, view.round_index)


def talk_by_item(turns: Iterable[Turn]) -> list[tuple[str, dict[str, str]]]:
    """What was said about what, of the turns that came to their end."""
    return [
        (turn.retrieval.album_item.key, {turn.questioner: turn.question, turn.answerer: turn.answer})
        for turn in turns
        if not turn.void and turn.retrieval.album_item is not None
    ]
