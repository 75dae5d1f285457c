"""The gates of a policy: made once, run over an item stage by stage; the guard survives those that crash or hang."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import orjson

from lazaretto import kept_texts
from lazaretto.errors import MissingExtra, PolicyError
from lazaretto.gates.engine.decision import Examination, decide, settles, why_not_needed
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import Budget, Corrector, Finder, Gate, GateContext, Indexer, Learner, WarmUp
from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.models.weight_files import give_back_memory
from lazaretto.pictures import drop_picture_workers, retain_picture_workers
from lazaretto.policy import ChannelPolicy, Policy, Stage, plugins
from lazaretto.processor_time import given, time_for
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import (
    Channel,
    Correction,
    Cost,
    Decision,
    Evidence,
    GateRun,
    Observation,
    Ruling,
    RunStatus,
    Verdict,
    plain,
)

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
        self._shared = GateSlot("brief", None)
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
        examined = await run_stages(self.slots, rules, observation, self.contexts, self._shared)
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
        for slot in (*self.slots.values(), self._shared):
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


# Runs the gates of a policy over one item, stage by stage, and keeps the guard alive when a gate crashes or hangs.
#
# Each gate has an event loop and a thread of its own, so a gate that hangs blocks no other: past its time it gets a
# fresh thread. A gate with too many hanging threads is refused until one of them comes back. Brief gates of one stage
# share a thread while they are quick, because handing a text over and back takes longer than they do (decision 0164).

MAX_STUCK_THREADS = 4
MAX_VERDICT_BYTES = 1_000_000
LOADING_S = 180.0
"""Longest time a gate may take to load, before the first item."""
BRIEF_CHARACTERS, BRIEF_S = 4_000, 2.0
"""Longest text that brief gates look at on a shared thread, and how long they have there, together."""
_GRACE_S = 0.05
_DETAIL = 300
T = TypeVar("T")


class GateCrash(Exception):
    """A gate raised something, or answered something that is not a verdict."""


class NotInstalled(GateCrash):
    """A gate lacks packages for the item."""


class Worker:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name=f"lazaretto-{name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on this loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self) -> None:
        """End the loop once it is idle; a blocked thread is left behind."""
        with suppress(RuntimeError):  # it is closed already
            self.loop.call_soon_threadsafe(self._wind_down)

    def _wind_down(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        finished = asyncio.gather(*tasks, return_exceptions=True)
        finished.add_done_callback(lambda _: self.loop.stop())


@dataclass
class GateSlot:
    """The slot of one gate: the gate, or why there is none, and the thread it runs on."""

    name: str
    gate: Gate | None
    absent: str = ""
    installed: bool = True
    """False: the gate is absent because its packages are; ``absent`` says which command brings them."""
    _loading: Future[None] | None = None
    _loaded: bool = False
    _worker: Worker | None = None
    _stuck: list[Worker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def worker(self) -> Worker:
        """The gate's thread; ``GateCrash`` when too many of its threads hang."""
        with self._lock:
            self._stuck = [w for w in self._stuck if w.thread.is_alive()]
            if len(self._stuck) >= MAX_STUCK_THREADS:
                raise GateCrash(f"{len(self._stuck)} earlier calls still hang")
            if self._worker is None:
                self._worker = Worker(self.name)
            return self._worker

    def abandon(self, worker: Worker) -> None:
        """Leave a thread that does not answer behind; it ends by itself once the gate returns."""
        with self._lock:
            if self._worker is worker:
                self._worker = None
                self._stuck.append(worker)
        worker.stop()

    def loading(self) -> Future[None] | None:
        """The gate's warming up, begun with the first call; None where there is nothing to load any more."""
        if self._loaded:
            return None
        if not isinstance(self.gate, WarmUp):
            self._loaded = True
            return None
        with self._lock:
            done = self._loading is not None and self._loading.done()
            if done and self._loading is not None and self._loading.exception() is None:
                self._loaded = True
                return None
            if self._loading is None or done:  # one that failed is tried again with the next item
                self._loading = Future()
                load = (self._loading, self.gate.warm_up)
                threading.Thread(target=_load, args=load, name=f"lazaretto-load-{self.name}", daemon=True).start()
            return self._loading

    def close(self) -> None:
        """Let the thread go."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()


def _load(outcome: Future[None], warm_up: Callable[[], None]) -> None:
    outcome.set_running_or_notify_cancel()  # from here on it cannot be cancelled
    try:
        warm_up()
    except BaseException as error:
        outcome.set_exception(error)
    else:
        outcome.set_result(None)


async def run_stages(
    slots: Mapping[str, GateSlot],
    policy: ChannelPolicy,
    observation: Observation,
    contexts: Mapping[str, GateContext],
    shared: GateSlot | None = None,
) -> Examination:
    """Every stage in order, the gates of one stage at once. A block ends it, unless the policy says ``run_all``.

    ``shared`` has the thread that brief gates of a stage share.
    """
    await _warm_up(slots[name] for stage in policy.stages for name in Stage.of(stage).gates)
    with kept_texts.reading():
        return await _stages(slots, policy, observation, contexts, shared)


async def _stages(
    slots: Mapping[str, GateSlot],
    policy: ChannelPolicy,
    observation: Observation,
    contexts: Mapping[str, GateContext],
    shared: GateSlot | None,
) -> Examination:
    deadline = time.monotonic() + policy.budget_s
    processor = time_for(observation, policy.processor_s)
    verdicts: list[Verdict] = []
    runs: list[GateRun] = []
    settling: set[str] = set()
    for stage in map(Stage.of, policy.stages):
        spent = sum(v.cost.tokens for v in verdicts)
        tokens = policy.budget_tokens - spent if policy.budget_tokens else None
        spared = why_not_needed(stage, policy, observation, verdicts, runs)
        if spared:
            runs += [GateRun(name, RunStatus.SKIPPED, detail=spared) for name in stage.gates]
            continue
        if settles(stage):
            settling.update(stage.gates)
        if time.monotonic() >= deadline or (tokens is not None and tokens <= 0):
            spent_up = "the decision's budget is spent"
            runs += [GateRun(name, RunStatus.OVER_BUDGET, detail=spent_up) for name in stage.gates]
            continue
        earlier = tuple(verdicts)
        budget = Budget(deadline, tokens, processor)
        turns = [(slots[name], replace(contexts[name], earlier=earlier, budget=budget)) for name in stage.gates]
        answers = await _run_stage(turns, observation, policy, shared)
        verdicts += [verdict for verdict, _ in answers if verdict is not None]
        runs += [run for _, run in answers]
    return Examination(tuple(verdicts), tuple(runs), frozenset(settling))


async def _warm_up(slots: Iterable[GateSlot]) -> None:
    """Wait until the gates have loaded. A gate that cannot load reports it when it is asked."""
    loading = [asyncio.wrap_future(outcome) for slot in slots if (outcome := slot.loading()) is not None]
    if loading:
        await asyncio.wait(loading, timeout=LOADING_S)
        await asyncio.to_thread(give_back_memory)
        for loaded in loading:
            if loaded.done() and not loaded.cancelled():
                loaded.exception()  # the gate itself tries again, and reports it


_Turn = tuple[GateSlot, GateContext]
_Ran = tuple[Verdict | None, GateRun]


async def _run_stage(
    turns: Sequence[_Turn], observation: Observation, policy: ChannelPolicy, shared: GateSlot | None
) -> list[_Ran]:
    """The gates of a stage at once; where all of them are brief, one after the other on the shared thread.

    A brief gate without a good answer there is asked again as every other gate is, on its own thread: one that hangs
    keeps no other from answering.
    """
    found: dict[str, _Ran] = {}
    if shared is not None and len(turns) > 1 and all(_is_brief(slot, observation) for slot, _ in turns):
        seconds = min(BRIEF_S, policy.timeout_s / 2, turns[0][1].budget.seconds_left / 2)
        with suppress(TimeoutError, GateCrash):
            await _within(shared, shared.worker(), _run_in_turn(turns, observation, found), seconds)
        found = dict(found)  # a late answer is none
    late = [turn for turn in turns if turn[0].name not in found]
    if late:
        ran = await asyncio.gather(*(_run_gate(slot, observation, context, policy) for slot, context in late))
        found.update(zip([slot.name for slot, _ in late], ran, strict=True))
    return [found[slot.name] for slot, _ in turns]


def _is_brief(slot: GateSlot, observation: Observation) -> bool:
    """Whether a gate says that it takes a moment (``brief``), for a text that is short enough."""
    if observation.image is not None or len(observation.text) > BRIEF_CHARACTERS or slot.gate is None:
        return False
    brief = getattr(slot.gate, "brief", False) is True
    return brief and _understands(slot.gate, observation.channel) and not _needed(slot.gate)


async def _run_in_turn(turns: Sequence[_Turn], observation: Observation, found: dict[str, _Ran]) -> None:
    for slot, context in turns:
        started = time.perf_counter()
        with suppress(GateCrash):
            verdict = await _verdict_of(cast(Gate, slot.gate), observation, context)
            found[slot.name] = verdict, GateRun(slot.name, RunStatus.RAN, _ms(started))


async def _verdict_of(gate: Gate, observation: Observation, context: GateContext) -> Verdict:
    """The gate's verdict, if it is sound, as people's labels moved it; else ``GateCrash``."""
    verdict = checked(await _safely(gate, observation, context), gate.name, observation.id)
    if context.thresholds is not None and context.thresholds.about(gate.name):
        verdict = await asyncio.to_thread(context.thresholds.moved, verdict)
    return verdict


async def _run_gate(slot: GateSlot, observation: Observation, context: GateContext, policy: ChannelPolicy) -> _Ran:
    gate, timeout_s = slot.gate, policy.timeout_s
    lacking = RunStatus.NOT_INSTALLED if slot.name in policy.optional else RunStatus.MISSING
    if gate is None:
        status = RunStatus.MISSING if slot.installed else lacking
        return None, GateRun(slot.name, status, detail=slot.absent[:_DETAIL])
    if not _understands(gate, observation.channel):
        return None, GateRun(slot.name, RunStatus.MISSING, detail=f"does not understand {observation.channel.value}")
    needed = _needed(gate)
    timeout_s = max(timeout_s, needed)
    allowed_s = max(min(timeout_s, context.budget.seconds_left), needed)
    whole = allowed_s >= timeout_s
    started = time.perf_counter()
    context = replace(context, budget=replace(context.budget, deadline=time.monotonic() + allowed_s))
    try:
        worker = slot.worker()
        verdict = await _within(slot, worker, _verdict_of(gate, observation, context), allowed_s)
    except TimeoutError:
        status = RunStatus.TIMED_OUT if whole else RunStatus.OVER_BUDGET
        return None, GateRun(slot.name, status, _ms(started), f"no answer within {allowed_s:.3g} s")
    except NotInstalled as missing:
        return None, GateRun(slot.name, lacking, _ms(started), str(missing)[:_DETAIL])
    except GateCrash as crash:
        return None, GateRun(slot.name, RunStatus.FAILED, _ms(started), str(crash)[:_DETAIL])
    return verdict, GateRun(slot.name, RunStatus.RAN, _ms(started))


def _needed(gate: Gate) -> float:
    """The time a gate's own settings ask for (``needs_s``), past the channel's timeout; most ask for none."""
    try:
        return float(getattr(gate, "needs_s", 0.0))
    except Exception:  # a gate's setting that is no time
        return 0.0


def _understands(gate: Gate, channel: Channel) -> bool:
    try:
        return channel in gate.channels
    except Exception:  # a gate's setting that does not name this channel
        return False


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


async def _safely(gate: Gate, observation: Observation, context: GateContext) -> Any:
    """The gate's answer; every exception becomes a ``GateCrash``, so that none can end the loop it runs on."""
    task = asyncio.current_task()
    try:
        with given(context.budget.processor):
            return await gate.examine(observation, context)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise (NotInstalled if isinstance(error, MissingExtra) else GateCrash)(_described(error)) from None


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an error that cannot even be printed
        return type(error).__name__


async def _within(slot: GateSlot, worker: Worker, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
    """The answer, or ``TimeoutError``. A thread that does not even react to cancelling is left behind."""
    try:
        future = worker.submit(coroutine)
    except RuntimeError:  # the loop was closed under our hands
        coroutine.close()
        raise GateCrash("its thread was ended") from None
    waiter = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait((waiter,), timeout=seconds)
        if done:
            return waiter.result()
        future.cancel()
        if not await _answers(worker):
            slot.abandon(worker)
        raise TimeoutError
    except asyncio.CancelledError:
        future.cancel()
        if waiter.cancelled() and not _being_cancelled():
            raise GateCrash("its thread was ended") from None
        raise


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _answers(worker: Worker) -> bool:
    """Whether a thread's loop still turns."""
    pulse: Future[None] = Future()
    with suppress(RuntimeError):  # the loop was closed: it answers nobody
        worker.loop.call_soon_threadsafe(pulse.set_result, None)
    done, _ = await asyncio.wait((asyncio.wrap_future(pulse),), timeout=_GRACE_S)
    return bool(done)


def checked(answer: Any, gate: str, subject: str) -> Verdict:
    """``answer`` if it is a sound verdict of this gate about this item; a broken gate is not an opinion."""
    if not isinstance(answer, Verdict):
        raise GateCrash(f"answered {type(answer).__name__}, not a Verdict")
    try:
        problem = _problem(answer, gate, subject)
        size = _size(answer)
    except Exception as error:  # fields of any type at all may stand in the record
        raise GateCrash(f"its verdict cannot be read: {_described(error)}") from None
    if problem:
        raise GateCrash(problem)
    if size > MAX_VERDICT_BYTES:
        raise GateCrash(f"its verdict takes {size:,} bytes; at most {MAX_VERDICT_BYTES:,} are recorded")
    return answer


def _size(verdict: Verdict) -> int:
    """Bytes of a verdict as JSON."""
    try:
        return len(orjson.dumps(verdict))
    except TypeError:  # mappings, sets and named tuples of other kinds
        return len(orjson.dumps(plain(verdict)))


def _problem(verdict: Verdict, gate: str, subject: str) -> str:
    low, high = verdict.interval
    if (verdict.gate, verdict.subject) != (gate, subject):
        return f"answered as {verdict.gate!r} about {verdict.subject!r}, not as {gate!r} about {subject!r}"
    if not isinstance(verdict.ruling, Ruling):
        return f"its ruling is {verdict.ruling!r}, not a Ruling"
    if not (_is_share(verdict.risk) and _is_share(low) and _is_share(high) and low <= high):
        return f"risk {verdict.risk!r} and interval {verdict.interval!r} are not numbers from 0 to 1, in order"
    if not isinstance(verdict.cost, Cost) or not all(
        map(_is_amount, (verdict.cost.ms, verdict.cost.tokens, verdict.cost.calls))
    ):
        return f"its cost is {verdict.cost!r}"
    if not isinstance(verdict.rule, str) or not all(isinstance(e, Evidence) for e in verdict.evidence):
        return "its rule is not text, or its evidence is not Evidence"
    return ""


def _is_share(number: Any) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number <= 1


def _is_amount(number: Any) -> bool:
    return isinstance(number, (int, float)) and math.isfinite(number) and number >= 0
