"""The order of speeches: one debate, and many at once with back-pressure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lazaretto.errors import InputError, LazarettoError
from lazaretto.gates.content.arbitration import undecided_finding
from lazaretto.gates.content.panel import Debater, Panel
from lazaretto.gates.content.records import (
    PLACEHOLDER,
    ArbiterFinding,
    Briefing,
    Content,
    DebateState,
    InputKind,
    PreparedContent,
    Role,
    RoleCost,
    Speech,
)
from lazaretto.types import Cost

FIRST_FALLBACK = 0.5
"""A debater's score in round 1 when none could be read; later its previous one stands."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DebateSettings:
    """How long a debate lasts."""

    rounds: int = 2
    """1 to 3."""
    adaptive: bool = False
    """Stop when positions have converged or the outcome can no longer change."""
    converged: float = 0.15
    """Adaptive: debaters this close to each other, on one side of one half, have converged."""
    settled: float = 0.2
    """Adaptive: both debaters this far or further from one half, on the same side, can no longer change the outcome."""

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= 3:
            raise InputError("rounds", f"{self.rounds} rounds asked for", "Use 1, 2 or 3")


TWO_ROUNDS = DebateSettings()
"""The paper's debate: two rounds, never cut short."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything that happened in one debate."""

    panel: str
    """Name of the panel."""
    prepared: PreparedContent
    briefing: Briefing
    speeches: tuple[Speech, ...]
    scores: Mapping[Role, tuple[float, ...]]
    finding: ArbiterFinding
    rounds: int
    """Rounds that took place."""
    planned: int
    """Rounds asked for."""
    ms: float
    faults: tuple[str, ...] = ()
    """Faults on the way, role by role; the finding says whether they mattered."""

    @property
    def role_costs(self) -> tuple[RoleCost, ...]:
        """One bill per role, rounds added up."""
        sums: dict[tuple[Role, str], RoleCost] = {}
        for role_cost in (
            self.prepared.role_cost,
            self.briefing.role_cost,
            *(t.role_cost for t in self.speeches),
            self.finding.role_cost,
        ):
            key = (role_cost.role, role_cost.model)
            sums[key] = add_role_costs(sums[key], role_cost) if key in sums else role_cost
        return tuple(c for c in sums.values() if c.calls or c.ms)

    @property
    def cost(self) -> Cost:
        """The whole debate's cost."""
        bills = self.role_costs
        tokens = sum(c.prompt_tokens + c.completion_tokens for c in bills)
        return Cost(self.ms, tokens, sum(c.calls for c in bills))


def add_role_costs(a: RoleCost, b: RoleCost) -> RoleCost:
    """Two bills of one role as one."""
    return RoleCost(
        a.role,
        a.model,
        a.calls + b.calls,
        a.prompt_tokens + b.prompt_tokens,
        a.completion_tokens + b.completion_tokens,
        a.cached_tokens + b.cached_tokens,
        a.prompt_chars + b.prompt_chars,
        a.ms + b.ms,
        a.dollars + b.dollars,
    )


@dataclass(slots=True)
class _DebateRun:
    """The debate in progress; the only mutable thing of a debate."""

    panel: Panel
    settings: DebateSettings
    faults: list[str] = field(default_factory=list)

    async def run(self, content: Content) -> Transcript:
        started = time.perf_counter()
        prepared = await self._prepare(content)
        settled = await self._glance(prepared)
        if settled is not None:
            ms = (time.perf_counter() - started) * 1000.0
            planned = self.settings.rounds
            return Transcript(
                self.panel.name, prepared, Briefing(), (), {}, settled, 0, planned, ms, tuple(self.faults)
            )
        briefing = await self._brief(prepared)
        debate = DebateState(prepared, briefing, rounds=self.settings.rounds)
        took_place = 0
        if self.panel.strict or self.panel.loose:
            for number in range(1, self.settings.rounds + 1):
                debate = replace(debate, round=number)
                for role, debater in ((Role.STRICT, self.panel.strict), (Role.LOOSE, self.panel.loose)):
                    if debater is not None:
                        debate = await self._speak(debate, role, debater)
                took_place = number
                if self.settings.adaptive and is_settled(debate, self.settings):
                    break
        finding = await self._decide(debate)
        ms = (time.perf_counter() - started) * 1000.0
        return Transcript(
            self.panel.name,
            prepared,
            briefing,
            debate.speeches,
            debate.scores,
            finding,
            took_place,
            self.settings.rounds,
            ms,
            tuple(self.faults),
        )

    async def _try(self, answer: Awaitable[T]) -> T | str:
        try:
            return await answer
        except (InputError, asyncio.CancelledError):
            raise
        except LazarettoError as error:
            return str(error) or type(error).__name__
        except Exception as error:  # a role may be foreign code: its crash is a recorded fault, not ours
            return f"{type(error).__name__}: {error}"

    async def _prepare(self, content: Content) -> PreparedContent:
        got = await self._try(self.panel.preprocessor.prepare(content))
        if isinstance(got, str):
            words = content.description or ("" if content.kind is InputKind.TEXT else PLACEHOLDER)
            got = PreparedContent(content, words, fault=got)
        self._note("preprocessor", got.fault)
        return got

    async def _glance(self, prepared: PreparedContent) -> ArbiterFinding | None:
        if self.panel.glance is None:
            return None
        got = await self._try(self.panel.glance.settle(prepared))
        if isinstance(got, str):
            self._note("glance", got)  # the debate decides
            return None
        return got

    async def _brief(self, prepared: PreparedContent) -> Briefing:
        if self.panel.supporter is None:
            return Briefing()
        got = await self._try(self.panel.supporter.brief(prepared))
        if isinstance(got, str):
            got = Briefing(fault=got)
        self._note("supporter", got.fault)
        return got

    async def _speak(self, debate: DebateState, role: Role, debater: Debater) -> DebateState:
        got = await self._try(debater.argue(debate))
        if isinstance(got, str):
            got = Speech(role, debate.round, "", None, role_cost=RoleCost(role), fault=got)
        self._note(f"{role.value} round {debate.round}", got.fault)
        before = debate.scores.get(role, ())
        score = got.score
        if score is None:
            score = before[-1] if before else FIRST_FALLBACK
        scores = {**debate.scores, role: (*before, score)}
        return replace(debate, speeches=(*debate.speeches, got), scores=scores)

    async def _decide(self, debate: DebateState) -> ArbiterFinding:
        got = await self._try(self.panel.arbiter.decide(debate))
        if isinstance(got, str):
            got = undecided_finding(debate, got, RoleCost(Role.ARBITER))
        self._note("arbiter", got.undecided)
        return got

    def _note(self, role: str, fault: str) -> None:
        if fault:
            self.faults.append(f"{role}: {fault}")


def is_settled(debate: DebateState, settings: DebateSettings) -> bool:
    """Whether another round could still matter: no, when both sides agree closely or both stand clear of one half on
    the same side.
    """
    strict, loose = debate.last_score(Role.STRICT), debate.last_score(Role.LOOSE)
    if strict is None or loose is None or any(s.fault for s in debate.speeches if s.round == debate.round):
        return False
    same_side = (strict >= 0.5) == (loose >= 0.5)
    close = abs(strict - loose) <= settings.converged
    clear = min(abs(strict - 0.5), abs(loose - 0.5)) >= settings.settled
    return same_side and (close or clear)


async def hold_debate(panel: Panel, content: Content, settings: DebateSettings = TWO_ROUNDS) -> Transcript:
    """One debate from start to finding. Raises only for input that is unusable in itself."""
    return await _DebateRun(panel, settings).run(content)


async def hold_debates(
    panel: Panel, contents: Iterable[Content], settings: DebateSettings = TWO_ROUNDS, *, at_once: int = 64
) -> AsyncIterator[tuple[Content, Transcript | InputError]]:
    """Many debates, yielded as they finish. At most ``at_once`` are under way, and none starts while the reader lags
    behind.
    """
    source = iter(contents)
    under_way: set[asyncio.Task[tuple[Content, Transcript | InputError]]] = set()

    async def debate_on(content: Content) -> tuple[Content, Transcript | InputError]:
        try:
            return content, await hold_debate(panel, content, settings)
        except InputError as error:
            return content, error

    def fill() -> None:
        while len(under_way) < at_once:
            content = next(source, None)
            if content is None:
                return
            under_way.add(asyncio.create_task(debate_on(content)))

    try:
        fill()
        while under_way:
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            under_way.difference_update(done)
            fill()
            for task in done:
                yield task.result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
