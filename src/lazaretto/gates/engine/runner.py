"""Runs the gates of a policy over one item, stage by stage, and keeps the guard alive when a gate crashes or hangs.

Each gate has an event loop and a thread of its own, so a gate that hangs blocks no other: past its time it gets a fresh
thread. A gate with too many hanging threads is refused until one of them comes back.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import orjson

from lazaretto import kept_texts
from lazaretto.errors import MissingExtra
from lazaretto.gates.engine.decision import Examination, settles, why_not_needed
from lazaretto.gates.protocol import Budget, Gate, GateContext, WarmUp
from lazaretto.models.freed_memory import give_back_memory
from lazaretto.policy import ChannelPolicy, Stage
from lazaretto.processor_time import given, time_for
from lazaretto.types import Channel, Cost, Evidence, GateRun, Observation, Ruling, RunStatus, Verdict, plain

MAX_STUCK_THREADS = 4
MAX_VERDICT_BYTES = 1_000_000
LOADING_S = 180.0
"""Longest time a gate may take to load, before the first item."""
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
        if not self.loop.is_closed():
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
    slots: Mapping[str, GateSlot], policy: ChannelPolicy, observation: Observation, contexts: Mapping[str, GateContext]
) -> Examination:
    """Every stage in order, the gates of one stage at once. A block ends it, unless the policy says ``run_all``."""
    await _warm_up(slots[name] for stage in policy.stages for name in Stage.of(stage).gates)
    with kept_texts.reading():
        return await _stages(slots, policy, observation, contexts)


async def _stages(
    slots: Mapping[str, GateSlot], policy: ChannelPolicy, observation: Observation, contexts: Mapping[str, GateContext]
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
        answers = await asyncio.gather(
            *(
                _run_gate(
                    slots[name],
                    observation,
                    replace(contexts[name], earlier=earlier, budget=Budget(deadline, tokens, processor)),
                    policy,
                )
                for name in stage.gates
            )
        )
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


async def _run_gate(
    slot: GateSlot, observation: Observation, context: GateContext, policy: ChannelPolicy
) -> tuple[Verdict | None, GateRun]:
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
        answer = await _within(slot, worker, _safely(gate, observation, context), allowed_s)
        verdict = checked(answer, gate.name, observation.id)
        if context.thresholds is not None and context.thresholds.about(gate.name):
            verdict = await asyncio.to_thread(context.thresholds.moved, verdict)
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
