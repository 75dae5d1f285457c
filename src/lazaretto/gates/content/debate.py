"""Who speaks when: one hearing, and many at once with back-pressure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lazaretto.errors import InputError, LazarettoError
from lazaretto.gates.content.arbitration import stand_in
from lazaretto.gates.content.panel import DebaterSeat, Table
from lazaretto.gates.content.records import (
    PLACEHOLDER,
    Briefing,
    Charge,
    Exhibit,
    Finding,
    Hearing,
    InputKind,
    Prepared,
    Role,
    Turn,
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
    """Everything that happened in one hearing."""

    table: str
    prepared: Prepared
    briefing: Briefing
    turns: tuple[Turn, ...]
    scores: Mapping[Role, tuple[float, ...]]
    finding: Finding
    rounds: int
    """Rounds that took place."""
    planned: int
    """Rounds asked for."""
    ms: float
    faults: tuple[str, ...] = ()
    """What went wrong on the way, seat by seat; the finding says whether it mattered."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """One bill per seat, rounds added up."""
        sums: dict[tuple[Role, str], Charge] = {}
        for charge in (
            self.prepared.charge,
            self.briefing.charge,
            *(t.charge for t in self.turns),
            self.finding.charge,
        ):
            key = (charge.role, charge.model)
            sums[key] = add_charges(sums[key], charge) if key in sums else charge
        return tuple(c for c in sums.values() if c.calls or c.ms)

    @property
    def cost(self) -> Cost:
        """The whole hearing's cost."""
        bills = self.charges
        tokens = sum(c.prompt_tokens + c.completion_tokens for c in bills)
        return Cost(self.ms, tokens, sum(c.calls for c in bills))


def add_charges(a: Charge, b: Charge) -> Charge:
    """Two bills of one seat as one."""
    return Charge(
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
class _Floor:
    """The debate in progress; the only mutable thing of a hearing."""

    table: Table
    settings: DebateSettings
    faults: list[str] = field(default_factory=list)

    async def run(self, exhibit: Exhibit) -> Transcript:
        started = time.perf_counter()
        prepared = await self._prepare(exhibit)
        briefing = await self._brief(prepared)
        hearing = Hearing(prepared, briefing, rounds=self.settings.rounds)
        took_place = 0
        if self.table.strict or self.table.loose:
            for number in range(1, self.settings.rounds + 1):
                hearing = replace(hearing, round=number)
                for role, seat in ((Role.STRICT, self.table.strict), (Role.LOOSE, self.table.loose)):
                    if seat is not None:
                        hearing = await self._speak(hearing, role, seat)
                took_place = number
                if self.settings.adaptive and is_settled(hearing, self.settings):
                    break
        finding = await self._decide(hearing)
        ms = (time.perf_counter() - started) * 1000.0
        return Transcript(
            self.table.name,
            prepared,
            briefing,
            hearing.turns,
            hearing.scores,
            finding,
            took_place,
            self.settings.rounds,
            ms,
            tuple(self.faults),
        )

    async def _try(self, seat: str, answer: Awaitable[T]) -> T | str:
        try:
            return await answer
        except (InputError, asyncio.CancelledError):
            raise
        except LazarettoError as error:
            return str(error) or type(error).__name__
        except Exception as error:  # a seat is foreign code: its crash is a recorded fault, not ours
            return f"{type(error).__name__}: {error}"

    async def _prepare(self, exhibit: Exhibit) -> Prepared:
        got = await self._try("preprocessor", self.table.preprocessor.prepare(exhibit))
        if isinstance(got, str):
            words = exhibit.description or ("" if exhibit.kind is InputKind.TEXT else PLACEHOLDER)
            got = Prepared(exhibit, words, fault=got)
        self._note("preprocessor", got.fault)
        return got

    async def _brief(self, prepared: Prepared) -> Briefing:
        if self.table.supporter is None:
            return Briefing()
        got = await self._try("supporter", self.table.supporter.brief(prepared))
        if isinstance(got, str):
            got = Briefing(fault=got)
        self._note("supporter", got.fault)
        return got

    async def _speak(self, hearing: Hearing, role: Role, seat: DebaterSeat) -> Hearing:
        got = await self._try(role.value, seat.argue(hearing))
        if isinstance(got, str):
            got = Turn(role, hearing.round, "", None, charge=Charge(role), fault=got)
        self._note(f"{role.value} round {hearing.round}", got.fault)
        before = hearing.scores.get(role, ())
        score = got.score
        if score is None:
            score = before[-1] if before else FIRST_FALLBACK
        scores = {**hearing.scores, role: (*before, score)}
        return replace(hearing, turns=(*hearing.turns, got), scores=scores)

    async def _decide(self, hearing: Hearing) -> Finding:
        got = await self._try("arbiter", self.table.arbiter.decide(hearing))
        if isinstance(got, str):
            got = stand_in(hearing, got, Charge(Role.ARBITER))
        self._note("arbiter", got.undecided)
        return got

    def _note(self, seat: str, fault: str) -> None:
        if fault:
            self.faults.append(f"{seat}: {fault}")


def is_settled(hearing: Hearing, settings: DebateSettings) -> bool:
    """Whether another round could still matter: no, when both sides agree closely or both stand clear of one half on
    the same side.
    """
    strict, loose = hearing.last_score(Role.STRICT), hearing.last_score(Role.LOOSE)
    if strict is None or loose is None or any(turn.fault for turn in hearing.turns if turn.round == hearing.round):
        return False
    same_side = (strict >= 0.5) == (loose >= 0.5)
    close = abs(strict - loose) <= settings.converged
    clear = min(abs(strict - 0.5), abs(loose - 0.5)) >= settings.settled
    return same_side and (close or clear)


async def hear(table: Table, exhibit: Exhibit, settings: DebateSettings = TWO_ROUNDS) -> Transcript:
    """One hearing from start to finding. Raises only for input that is unusable in itself."""
    return await _Floor(table, settings).run(exhibit)


async def hear_all(
    table: Table, exhibits: Iterable[Exhibit], settings: DebateSettings = TWO_ROUNDS, *, at_once: int = 64
) -> AsyncIterator[tuple[Exhibit, Transcript | InputError]]:
    """Many hearings, yielded as they finish. At most ``at_once`` are under way, and none starts while the reader lags
    behind.
    """
    source = iter(exhibits)
    under_way: set[asyncio.Task[tuple[Exhibit, Transcript | InputError]]] = set()

    async def one(exhibit: Exhibit) -> tuple[Exhibit, Transcript | InputError]:
        try:
            return exhibit, await hear(table, exhibit, settings)
        except InputError as error:
            return exhibit, error

    def fill() -> None:
        while len(under_way) < at_once:
            exhibit = next(source, None)
            if exhibit is None:
                return
            under_way.add(asyncio.create_task(one(exhibit)))

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
