"""The gates of a policy: made once, asked together, and informed together of the ruling on an item."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lazaretto import kept_texts
from lazaretto.errors import MissingExtra, PolicyError
from lazaretto.gates.engine.decision import decide
from lazaretto.gates.engine.runner import GateSlot, run_stages
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import Corrector, Finder, Gate, GateContext, Indexer, Learner
from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.pictures import drop_picture_workers, retain_picture_workers
from lazaretto.policy import Policy, Stage, plugins
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Correction, Decision, Observation, Ruling, Verdict

log = logging.getLogger("lazaretto")


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate that the policy names."""

    name: str
    channels: tuple[str, ...]
    """Channels on which the policy asks for it."""
    ready: bool
    missing: str
    """Why it does not run, and how to install it; empty where it runs."""


class GateSet:
    """Every gate that a policy names, each with its context."""

    def __init__(
        self, policy: Policy, ledger: Ledger, graph: ProvenanceGraph, ready: Mapping[str, Gate], file: str
    ) -> None:
        """``ready`` are gates made elsewhere, by name; ``file`` is the policy's, for messages."""
        policy.require_gates({*plugins.GATES.names(), *ready}, file)
        self._policy = policy
        self.slots = {name: _make_slot(name, ready, policy, file) for name, _ in policy.gate_names()}
        _say_what_is_missing(self.slots, policy, file)
        moved = Thresholds(ledger, policy.learn)
        self.contexts = {
            name: GateContext(
                ledger,
                graph,
                policy.gates.get(name, {}),
                limits=policy.limits,
                trust=policy.trust,
                thresholds=moved,
            )
            for name in self.slots
        }
        gates: dict[str, object] = {name: slot.gate for name, slot in self.slots.items()}
        self._learners = {name: gate for name, gate in gates.items() if isinstance(gate, Learner)}
        self._indexer = next((gate for gate in gates.values() if isinstance(gate, Indexer)), None)
        self._correctors = {name: gate for name, gate in gates.items() if isinstance(gate, Corrector)}
        self._finder = next((gate for gate in gates.values() if isinstance(gate, Finder)), None)
        retain_picture_workers()
        self._open = True

    async def judge(self, observation: Observation) -> Decision:
        """The decision of the gates of the item's channel."""
        rules = self._policy.channels[observation.channel]
        started = time.perf_counter()
        examined = await run_stages(self.slots, rules, observation, self.contexts)
        return decide(observation.id, examined, rules, (time.perf_counter() - started) * 1000)

    def held_today(self, observation: Observation) -> str:
        """The rule by which the gates would hold an item today; empty where they would not. Blocks."""
        held = [v for v in asyncio.run(self.judge(observation)).active_verdicts if v.ruling > Ruling.WARN]
        return f"{held[0].gate}:{held[0].rule}" if held else ""

    def correction(
        self, poison: str, tainted: Collection[str]
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """A function that corrects texts which repeat a poisoned item; None where no gate can. Blocks."""
        for name, gate in self._correctors.items():
            with kept_texts.reading():
                return gate.correction(poison, tainted, self.contexts[name])
        return None

    def teach(self, observation: Observation, ruling: Ruling, verdicts: tuple[Verdict, ...] = ()) -> None:
        """Pass the ruling on an item to the gates that learn. A gate that fails is logged, no more."""
        for name, gate in self._learners.items():
            try:
                with kept_texts.reading():
                    gate.learn(observation, ruling, replace(self.contexts[name], earlier=verdicts))
            except Exception:
                log.exception("gate %r failed to learn about %s", name, observation.id)

    def claims_of(self, observation: Observation) -> Sequence[ClaimRow]:
        """The claims that a gate read in an item when it judged it, to be kept with it. One that fails keeps none."""
        if self._indexer is None:
            return ()
        try:
            with kept_texts.reading():
                return self._indexer.claims_of(observation)
        except Exception:
            log.exception("the claims of %s are not kept with it", observation.id)
            return ()

    def installed(self, name: str) -> bool:
        """Whether the policy names a gate and it is here."""
        return name in self.slots and self.slots[name].gate is not None

    def finder(self) -> Finder | None:
        """The gate that finds memories by meaning, where one does."""
        if self._finder is None:
            say_once("recall goes by words alone: no gate here finds memories by meaning")
        return self._finder

    def states(self) -> tuple[GateState, ...]:
        """Every gate: on which channels the policy asks for it, and whether it is there."""
        asked: dict[str, dict[str, None]] = {name: {} for name in self.slots}
        for channel in Channel:
            for stage in map(Stage.of, self._policy.channels[channel].stages):
                for name in stage.gates:
                    asked[name][channel.value] = None
        return tuple(
            GateState(name, tuple(asked[name]), slot.gate is not None, slot.absent) for name, slot in self.slots.items()
        )

    def close(self) -> None:
        """Let the gates' threads go, and the processes that open pictures where no other guard needs them."""
        if self._open:
            self._open = False
            drop_picture_workers()
        for slot in self.slots.values():
            slot.close()


def _make_slot(name: str, ready: Mapping[str, Gate], policy: Policy, file: str) -> GateSlot:
    """The gate of that name; one that cannot be made is missing, and the policy's fail mode will say so."""
    if name in ready:
        return GateSlot(name, ready[name])
    try:
        return GateSlot(name, plugins.GATES.factory(name)(policy.gates.get(name, {})))
    except PolicyError as error:
        raise PolicyError(error.key, error.found, error.allowed, file) from None
    except MissingExtra as error:
        return GateSlot(name, None, str(error), installed=False)
    except Exception as error:
        log.warning("gate %r cannot be used: %s", name, error)
        return GateSlot(name, None, f"{type(error).__name__}: {error}")


_warned: set[str] = set()
"""Warnings about gates that this process has already logged."""


def _say_what_is_missing(slots: Mapping[str, GateSlot], policy: Policy, file: str) -> None:
    """A warning, once, for each gate that is not installed and for each table that no stage uses."""
    for slot in slots.values():
        if not slot.installed:
            words = f"the gate {slot.name!r} does not run, and what it would catch passes it: {slot.absent}"
            say_once(words, logging.WARNING)
    for name in policy.unused_tables():
        say_once(f"{file}: [gates.{name}] does nothing: no stage of any channel names {name!r}", logging.WARNING)


def say_once(words: str, level: int = logging.INFO) -> None:
    """Log something that holds for the whole process, the first time only."""
    if words not in _warned:
        _warned.add(words)
        log.log(level, "%s", words)
