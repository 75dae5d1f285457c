"""The guard: the one object users hold. It introduces the parts to each other; read it first.

An item comes in (``ingest``), the gates that the policy names look at it (``gates``), the decision and everything that
belongs to it is recorded in one transaction (``ledger``), and what was held or should be held is changed by repairs
(``repair``). Nothing is acknowledged before it is recorded: when the store is away, every call raises
``StoreUnavailable``, and goes on working once it is back.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lazaretto import plugins
from lazaretto.errors import (
    GuardClosed,
    InputError,
    MissingExtra,
    PolicyError,
    RepairRefused,
    StaleState,
    StoreUnavailable,
    UnknownItem,
)
from lazaretto.gates.decision import decide, with_taint
from lazaretto.gates.memory.claims import consequences
from lazaretto.gates.memory.claims.conflicts import settling
from lazaretto.gates.protocol import Finder, Gate, GateContext, Learner
from lazaretto.gates.runner import GateSlot, Worker, run_stages
from lazaretto.gates.thresholds import Thresholds
from lazaretto.incidents.incidents import Incidents
from lazaretto.incidents.records import Held, Incident, State
from lazaretto.ingest.raw_input import RawInput, read_observation, read_text
from lazaretto.ingest.reading_log import InMind, ReadingLog, is_reading
from lazaretto.learn.lessons import LABELS, SCREENED, ContactQueue, Lessons
from lazaretto.ledger import Ledger
from lazaretto.names import check_ids, check_name
from lazaretto.policy import Policy
from lazaretto.provenance import taint
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.suspects import Suspect, suspects
from lazaretto.repair import engine
from lazaretto.repair.options import make_repair
from lazaretto.repair.protocol import Repair, RepairRequest, RepairView
from lazaretto.tending import Tended, Tending
from lazaretto.types import (
    MACHINE,
    BeforeRound,
    BeforeTurn,
    Channel,
    Decision,
    Draft,
    Event,
    EventKind,
    MemoryFields,
    Observation,
    Receipt,
    RepairPlan,
    Ruling,
    SourceClass,
    Verdict,
    new_id,
    plain,
)

if TYPE_CHECKING:
    from lazaretto.agents.persona import Persona
    from lazaretto.gates.foresight.adapter import ForesightAgent
    from lazaretto.gates.foresight.foresight import Foresight
    from lazaretto.learn.foresight_setup import Calibration
    from lazaretto.models.protocol import ChatModel, TextEmbedder

log = logging.getLogger("lazaretto")
T = TypeVar("T")
BY_PERSON = "person:"
"""How the rule of a ruling begins that a person made."""
MAX_REASON = 10_000
_TRIES = 10
"""How often the sources of an item may change while it is recorded."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory that an agent may use."""

    id: str
    text: str
    image: str | None
    """Content address of a picture; ``guard.ledger.blob`` has the bytes."""
    agent: str
    """Who wrote it."""
    source: SourceClass
    time: float
    trust: float
    """From 0 to 1: no more than that of the least trusted thing it was made from."""
    score: float | None
    """How well it fits the query; higher is better, None without a query."""
    conflicts: tuple[str, ...] = ()
    """Items that contradict it, held ones too, until somebody settles it: do not rely on it unchecked."""


class Guard:
    """Watches what agents read, keep and say. Async throughout; ``SyncGuard`` is the same for synchronous code.

    What a call is about comes first, who acts is named: ``remember(text, agent=...)``, ``label(item, "harmful",
    by=...)``. One guard may be used by many tasks, threads and event loops at once.
    """

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
        file: str = "policy",
    ) -> None:
        """``gates`` adds ready-made gates under names that the policy may use; ``file`` is for error messages."""
        self.ledger = ledger
        self.foresight: Foresight | None = None
        """What ``before_turn`` rehearses with; ``rehearse_with`` sets it."""
        self.policy = policy or Policy.recommended()
        self.graph = ProvenanceGraph(ledger, self.policy.trust.table())
        ready = dict(gates or {})
        self.policy.require_gates({*plugins.GATES.names(), *ready}, file)
        self._slots = {name: _make_slot(name, ready, self.policy, file) for name, _ in self.policy.gate_names()}
        _say_what_is_missing(self._slots, self.policy, file)
        moved = Thresholds(ledger, self.policy.learn)
        self._contexts = {
            name: GateContext(
                ledger,
                self.graph,
                self.policy.gates.get(name, {}),
                limits=self.policy.limits,
                trust=self.policy.trust,
                thresholds=moved,
            )
            for name in self._slots
        }
        gates_by_name: dict[str, object] = {name: slot.gate for name, slot in self._slots.items()}
        self._learners = {name: gate for name, gate in gates_by_name.items() if isinstance(gate, Learner)}
        self._lessons = Lessons(ledger, self._tell_learners)
        self._contacts = ContactQueue(ledger, self.graph)
        self._incidents = Incidents(ledger, self.graph)
        view = RepairView(ledger, self.graph, judge=self._held_today)
        self._tending = Tending(view, self.policy, (self._slots, self._contexts), self._tell_learners)
        self._tends = threading.Lock()
        self._reading_log = ReadingLog(
            ledger, messages=self.policy.influence.messages, window_s=self.policy.influence.window_s
        )
        self._store_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="lazaretto-store")
        self._sync_worker: Worker | None = None
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        store: str | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        namespace: str | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
    ) -> Guard:
        """A guard over the store at a URL (default: the policy's, else one SQLite file in the user's data folder).

        ``policy`` is a ``Policy``, a mapping with the same keys as the file, or the path of a TOML file.
        """
        file = str(policy) if isinstance(policy, (str, Path)) else "policy"
        rules = Policy.read(policy)
        ledger = Ledger.open(store or rules.store or None, namespace or rules.namespace)
        try:
            ledger.prove_as(rules.record)
            return cls(ledger, rules, gates=gates, file=file)
        except BaseException:
            ledger.close()
            raise

    # what agents do

    async def check(
        self,
        text: str | bytes = "",
        *,
        agent: str,
        channel: Channel | str | None = None,
        image: bytes | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] = (),
    ) -> Decision:
        """Judge something an agent is about to read or say, and record both.

        A page, tool result or picture that is allowed counts as read by the agent.
        """

        def read(observation: Observation, decision: Decision) -> list[Draft]:
            reads = decision.allowed and is_reading(observation)
            return [Draft(EventKind.RETRIEVED, observation.id, observation.agent)] if reads else []

        raw = RawInput(agent, channel or _channel_for(text, image), text, image, None, parents, source)
        return await self._judge_and_record(raw, read)

    async def remember(
        self,
        text: str | bytes = "",
        *,
        agent: str,
        image: bytes | None = None,
        fields: MemoryFields | Mapping[str, Any] | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] | None = None,
        key: str | None = None,
    ) -> Decision:
        """Judge and keep a memory. What the agent read lately counts as influence beside the ``parents`` it names.

        ``parents=[...]`` says that nothing else was used; that is believed of sources the policy trusts enough
        (``influence.believe_from``). ``key`` is the name under which a store of your own keeps it; the policy says who
        may write protected ones.
        """
        raw = RawInput(agent, Channel.MEMORY, text, image, fields, parents or (), source, key=key)
        return await self._judge_and_record(raw, writes=True, stated=parents is not None)

    async def recall(
        self,
        query: str | None = None,
        *,
        agent: str,
        items: Sequence[str] | None = None,
        limit: int = 5,
        min_trust: float = 0.0,
    ) -> tuple[Recalled, ...]:
        """Memories the agent may use, and a record that it read them.

        By ``query`` (best first), by ``items`` (all those ids of your own store that may be used, in your order), or
        the newest ones. Whatever is held, superseded or erased stays out, and whatever is trusted less than
        ``min_trust`` (which is at most the trust of the least trusted thing it was made from).
        """
        reader = check_name(agent, "agent", printable=True)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= self.policy.limits.max_results:
            raise InputError("limit", f"is {limit!r}", f"Give 1 to {self.policy.limits.max_results}")
        if isinstance(min_trust, bool) or not isinstance(min_trust, (int, float)) or not 0 <= min_trust <= 1:
            raise InputError("min_trust", f"is {min_trust!r}", "Give a number from 0 to 1")
        return await self._in_store_thread(self._recall, reader, query, items, limit, float(min_trust))

    async def exchange(
        self,
        text: str | bytes = "",
        *,
        sender: str,
        receiver: str,
        image: bytes | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] | None = None,
    ) -> Decision:
        """Judge a message or picture from one agent to another; it counts as delivered only when it is allowed.

        What the sender read lately counts as influence, as in ``remember``.
        """
        to = check_name(receiver, "receiver", printable=True)

        def sent(observation: Observation, decision: Decision) -> list[Draft]:
            return [Draft(EventKind.SENT, observation.id, sender, {"to": to})] if decision.allowed else []

        raw = RawInput(sender, _channel_for(text, image), text, image, None, parents or (), source)
        return await self._judge_and_record(raw, sent, writes=True, stated=parents is not None)

    async def report(
        self, what: str, *, agent: str, success: bool | None = None, rests_on: Sequence[str] | None = None
    ) -> str:
        """Record a decision of an agent and how it went; returns the decision's id.

        Without ``rests_on``, what the agent read since its last decision counts.
        """
        name = check_name(agent, "agent", printable=True)
        if not isinstance(what, str) or len(what) > self.policy.limits.max_text_bytes:
            raise InputError("what", "is not text, or past limits.max_text_bytes", "Say in a sentence what was decided")
        if success is not None and not isinstance(success, bool):
            raise InputError("success", f"is {success!r}", "Give True, False or None")
        if rests_on is None:
            limit = self.policy.influence.max_sources
            items = await self._in_store_thread(self._reading_log.before_decision, name, limit)
        else:
            items = check_ids(rests_on, "rests_on", self.policy.limits.max_results)
        decision = new_id("de")
        body = {"what": what, "success": success, "rests_on": list(items)}
        await self._in_store_thread(self.ledger.append, [Draft(EventKind.REPORTED, decision, name, body)])
        return decision

    def rehearse_with(
        self,
        calibration: Calibration | str | Path,
        embedder: TextEmbedder,
        personas: Sequence[Persona] | None = None,
        *,
        chat: ChatModel | None = None,
    ) -> None:
        """Set up ``before_turn``: a calibration (or its file), an embedder, and whom rehearsals play.

        With ``chat``, agents may be given by name: they are rehearsed with that model, on what the ledger knows of
        them. Mode, budget and evidence are those of the policy's table ``[gates.foresight]``.
        """
        from lazaretto.learn.foresight_setup import set_up

        table = self.policy.gates.get("foresight", {})
        self.foresight = set_up(self.ledger, table, calibration, embedder, self._in_store_thread, personas, chat)

    async def before_turn(
        self, agent: ForesightAgent | str, *, others: Sequence[ForesightAgent | str] = ()
    ) -> BeforeTurn:
        """Rehearse what the agent would say; remove what would speak through it, here and in every other memory.

        The agent's item ids must be known to the ledger. ``others`` are agents within reach that do not speak now:
        they are told what to forget in the same call (``before_round``), else when their own turn comes.
        """
        done = await self.before_round([agent], others=others)
        return replace(done.turns[0], receipts=done.receipts, calls=done.calls)

    async def before_round(
        self, speaking: Sequence[ForesightAgent | str], *, others: Sequence[ForesightAgent | str] = ()
    ) -> BeforeRound:
        """``before_turn`` for several agents at once, which share budget and batches."""
        self._require_open()
        if self.foresight is None:
            raise InputError("foresight", "is not set up", "Call guard.rehearse_with first; see docs/foresight.md")
        remove = None if self.policy.mode == "observe" else self._repair_unless_hidden
        done = await self.foresight.before_round(speaking, others, remove)
        read = {turn.agent for turn in done.turns[: len(speaking)] if not turn.unread}
        await self.note_screened([agent for agent in await self.contacts_to_screen() if agent in read])
        return done

    # what people do

    async def label(self, item: str, label: Literal["harmful", "benign"], *, by: str) -> Event:
        """Record what an item truly is, as a person says. Harmful items are held at once, benign ones released."""
        if label not in LABELS:
            raise InputError("label", f"is {label!r}", f"Use {' or '.join(LABELS)}")
        return await self._in_store_thread(self._label, item, label, check_name(by, "by", printable=True))

    async def settle(self, keep: str, *, over: str, by: str) -> None:
        """Decide between two items that contradict each other: ``keep`` holds, ``over`` is replaced by it.

        Called the other way round, it takes the decision back.
        """
        person = check_name(by, "by", printable=True)
        await self._in_store_thread(self._settle, keep, over, person)

    async def appeal(self, item: str, reason: str, *, by: str) -> Event:
        """Record that somebody disputes the ruling on an item; it holds until a person labels or releases the item."""
        body = {"by": check_name(by, "by", printable=True), "reason": read_text(reason, MAX_REASON)}

        def record() -> Event:
            event = self.ledger.append([Draft(EventKind.APPEALED, item, body=body)])[0]
            self._tell_learners(self.ledger.item(item), Ruling.REVIEW)
            return event

        return await self._in_store_thread(record)

    # repairs

    async def plan(self, /, item: str, repair: str | Repair, *, reason: str = "", **options: Any) -> RepairPlan:
        """What a repair would do and cost; nothing is changed. ``RepairRefused`` when it is past a limit.

        By name with its options as keywords, or as an object: ``plan(item, "isolate", descendants=True)`` is
        ``plan(item, Isolate(descendants=True))``.
        """
        made = make_repair(repair, options)
        request = RepairRequest(check_name(item, "item", printable=True), reason)
        view = RepairView(self.ledger, self.graph, judge=self._held_today)
        return await self._in_store_thread(engine.prepare, made, request, view, self.policy.repair)

    async def dry_run(self, plan: RepairPlan) -> tuple[engine.Preview, ...]:
        """Every item the plan touches, as it is and as it would be; nothing is changed."""
        return await self._in_store_thread(engine.preview, plan, self.ledger)

    async def apply(self, plan: RepairPlan) -> Receipt:
        """Do what a plan says, as a whole, if nothing it rests on has changed. New texts pass the gates."""
        await self._judge_replacements(plan)

        def work() -> Receipt:
            receipt = engine.apply(plan, self.ledger, self.policy.repair)
            self._lessons.catch_up()
            shown = [step.item for step in plan.steps if step.action == "show"]
            self._free_what_came_from(shown)
            return receipt

        return await self._in_store_thread(work)

    def _held_today(self, observation: Observation) -> str:
        """The rule by which the gates would hold an item today; empty where they would not."""
        rules = self.policy.channels[observation.channel]
        examined = asyncio.run(run_stages(self._slots, rules, observation, self._contexts))
        held = [v for v in decide(observation.id, examined, rules, 0.0).standing if v.ruling > Ruling.WARN]
        return f"{held[0].gate}:{held[0].rule}" if held else ""

    async def _judge_replacements(self, plan: RepairPlan) -> None:
        """``RepairRefused`` for a plan that would bring in a text which no agent could have brought in."""
        await self._in_store_thread(engine.check_plan, plan, self.ledger)
        for step in plan.steps:
            if step.action != "replace":
                continue
            old, new = await self._in_store_thread(self.ledger.item, step.item), step.detail["replacement"]
            raw = RawInput(old.agent, old.channel, new["text"], None, new.get("fields", old.fields), (), old.source)
            observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
            rules = self.policy.channels[observation.channel]
            examined = await run_stages(self._slots, rules, observation, self._contexts)
            decision = decide(observation.id, examined, rules, 0.0)
            if not decision.allowed:
                raise RepairRefused(
                    f"the new text for {step.item} is itself ruled {decision.ruling.label} ({decision.rule})"
                )

    async def undo(self, receipt_id: str) -> Receipt:
        """Put everything back as it was before a repair."""

        def work() -> Receipt:
            receipt = engine.undo(check_name(receipt_id, "receipt", printable=True), self.ledger)
            self._lessons.catch_up()
            states = self.ledger.states(receipt.after)
            self._free_what_came_from([item for item, state in states.items() if not state.held])
            return receipt

        return await self._in_store_thread(work)

    async def release(self, item: str, *, reason: str = "", descendants: bool = False) -> Receipt:
        """Bring a held item back: plan and apply in one call."""
        return await self.apply(await self.plan(item, "release", reason=reason, descendants=descendants))

    async def receipts(self) -> tuple[Receipt, ...]:
        """Every repair of this namespace, oldest first."""
        return await self._in_store_thread(engine.receipts, self.ledger)

    # looking again

    async def tend(self, *, limit: int | None = None, news: int = 1) -> Tended:
        """Judge memories again, up to ``limit`` of them (default: the policy's): release what proves clean, hold what
        slipped through and repair what was made from it. Call again while ``left`` is above 0.

        Nothing is looked at until there were ``news`` (memories, outcomes, labels) since the last pass. A person's word
        is never overturned.
        """
        most = self.policy.review.limit if limit is None else limit
        for field, number in (("limit", most), ("news", news)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(field, f"is {number!r}", "Give 1 or more")
        self._require_open()
        await self._in_store_thread(self._tends.acquire)
        try:
            tended = await self._tending.run(most, news, self._in_store_thread)
            await self._in_store_thread(self._hold_what_came_from, tended.held)
            await self._in_store_thread(self._free_what_came_from, tended.released)
            return tended
        finally:
            self._tends.release()

    async def suspects(self, *, limit: int = 10) -> tuple[Suspect, ...]:
        """What stands behind decisions that failed more often than chance lets it, the strongest suspicion first."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= self.policy.limits.max_results:
            raise InputError("limit", f"is {limit!r}", f"Give 1 to {self.policy.limits.max_results}")
        return await self._in_store_thread(suspects, self.ledger, self.graph, limit)

    # what happened, and what to look at

    async def incidents(self, state: State | None = None, *, limit: int | None = None) -> tuple[Incident, ...]:
        """What was found, as incidents: what belongs together is one. The newest first; ``state`` keeps some."""
        return await self._in_store_thread(functools.partial(self._incidents.all, state, limit=limit))

    async def incident(self, name: str) -> Incident:
        """One incident by its id, or by the id of an item that was found in it."""
        return await self._in_store_thread(self._incidents.one, check_name(name, "incident", printable=True))

    async def held(self, *, limit: int | None = None) -> tuple[Held, ...]:
        """What waits for a person, disputed rulings first; ``release`` and ``label`` settle it."""
        return await self._in_store_thread(functools.partial(self._incidents.held, limit=limit))

    async def contacts_to_screen(self) -> tuple[str, ...]:
        """Agents that held or read what was found since they were last screened: holders first, the newest first."""
        return await self._in_store_thread(self._contacts.due)

    async def note_screened(self, agents: Sequence[str]) -> None:
        """Record that agents were looked at: they leave the queue until they meet something that is found."""
        names = [check_name(agent, "agents", printable=True) for agent in agents]
        if names:
            body = {"what": SCREENED, "agents": names}
            await self._in_store_thread(self.ledger.append, [Draft(EventKind.NOTED, SCREENED, body=body)])

    # waiting for a call, and closing

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of one of the calls above, on an event loop of the guard's own: what ``SyncGuard`` is made of.

        Works inside a running event loop too, which then stands still meanwhile.
        """
        with self._lock:
            if self._closed:
                coroutine.close()
                raise GuardClosed
            if self._sync_worker is None:
                self._sync_worker = Worker("sync")
            worker = self._sync_worker
        if threading.current_thread() is worker.thread:
            coroutine.close()
            raise InputError("run", "was called from inside a call that is itself being run", "Use await there")
        future = worker.submit(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise GuardClosed from None  # only closing the guard cancels what runs on its own loop
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Let threads and store go; what is under way in other threads ends with ``GuardClosed``."""
        with self._lock:
            self._closed = True
            worker, self._sync_worker = self._sync_worker, None
        for slot in self._slots.values():
            slot.close()
        if worker is not None:
            worker.stop()
        self._store_threads.shutdown(wait=True)
        self.ledger.close()

    async def __aenter__(self) -> Guard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)  # it waits for the store's threads

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # how it is done

    async def _repair_unless_hidden(
        self, item: str, repair: str, reason: str, options: Mapping[str, Any]
    ) -> Receipt | None:
        """Plan and apply; None where the item was hidden a moment ago, as a copy of another."""
        if (await self._in_store_thread(self.ledger.state, item)).hidden and not options:
            return None
        try:
            return await self.apply(await self.plan(item, repair, reason=reason, **options))
        except RepairRefused:
            if not (await self._in_store_thread(self.ledger.state, item)).hidden:
                raise
            return None

    def _require_open(self) -> None:
        if self._closed:
            raise GuardClosed

    async def _in_store_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Store calls block; the caller's event loop must not."""
        loop = asyncio.get_running_loop()
        try:
            waiting = loop.run_in_executor(self._store_threads, functools.partial(work, *arguments))
        except RuntimeError:  # the threads were let go
            raise GuardClosed from None
        return await waiting

    async def _judge_and_record(
        self,
        raw: RawInput,
        follow_ups: Callable[[Observation, Decision], list[Draft]] = lambda _observation, _decision: [],
        *,
        writes: bool = False,
        stated: bool = False,
    ) -> Decision:
        """The way of every item: read, examine, decide, record, learn.

        ``follow_ups`` says which events belong to the item besides its ruling; they are recorded with it or not at all.
        ``writes``: the agent made it itself, so what it read lately counts; ``stated``: it says what it made it from.
        """
        self._require_open()  # before the gates are troubled
        observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
        if not self._lessons.current:
            await self._in_store_thread(self._lessons.catch_up)
        if observation.parents:
            await self._in_store_thread(self._require_known, observation.parents, "parents")
        if raw.image is not None:
            digest = await self._in_store_thread(self.ledger.put_blob, raw.image)
            observation = replace(observation, image=digest)
        rules = self.policy.channels[observation.channel]
        started = time.perf_counter()
        examined = await run_stages(self._slots, rules, observation, self._contexts)
        decided = decide(observation.id, examined, rules, (time.perf_counter() - started) * 1000)

        def work() -> Decision:
            mind = self._in_mind(observation, stated) if writes else InMind()
            return self._record(observation, decided, mind, follow_ups)

        return await self._in_store_thread(work)

    def _record(
        self,
        observation: Observation,
        decided: Decision,
        mind: InMind,
        follow_ups: Callable[[Observation, Decision], list[Draft]],
    ) -> Decision:
        """Record an item with its ruling, on which the state of its sources at that moment has a say."""
        for _ in range(_TRIES):
            tainted, seen = taint.on_writing(observation, mind.read, self.ledger, self.policy.taint.ruling)
            states = {item: state for item, state in seen.items() if item in observation.parents or item in mind.links}
            decision = with_taint(decided, tainted)
            if self.policy.mode == "observe":
                decision = replace(decision, ruling=Ruling.ALLOW, would=decision.ruling)
            extra = [Draft(EventKind.RULED, observation.id, body=plain(decision))]
            if mind.links:
                body = {"sources": list(mind.links)}
                extra.append(Draft(EventKind.INFLUENCED, observation.id, observation.agent, body))
            try:
                more = [*follow_ups(observation, decision), *consequences.follow_ups(decision)]
                self.ledger.observe(observation, [*extra, *more], states=states)
            except StaleState:
                continue  # a source was held or released in between
            verdicts = decision.standing
            if verdicts:  # a ruling that only stands for a broken gate teaches nothing about the item
                self._tell_learners(observation, max(v.ruling for v in verdicts), verdicts)
            return decision
        raise StoreUnavailable(f"the sources of {observation.id} keep changing; nothing was recorded, try again")

    def _in_mind(self, observation: Observation, stated: bool) -> InMind:
        """What the writer read lately and did not name; nothing where its word is enough that it names everything."""
        rules, trust = self.policy.influence, self.policy.trust.table()
        if not rules.infer or (stated and trust[observation.source] >= rules.believe_from):
            return InMind()
        mind = self._reading_log.lately(observation.agent)
        links = tuple(item for item in mind.links if item not in observation.parents)
        if len(links) > rules.max_sources:
            found = self.ledger.items(ids=links, hidden=True, limit=None)
            links = taint.most_telling(observation, found, trust, rules.max_sources)
        return InMind(tuple(item for item in mind.read if item not in observation.parents), links)

    def _require_known(self, items: Sequence[str], field: str) -> None:
        """``UnknownItem`` for the first id that this namespace does not know."""
        for item in self.ledger.unknown(items):
            raise UnknownItem(item, self.ledger.namespace, field)

    def _recall(
        self, reader: str, query: str | None, items: Sequence[str] | None, limit: int, min_trust: float
    ) -> tuple[Recalled, ...]:
        most = self.policy.limits.max_results
        recalled: list[Recalled] = []
        asked = limit
        while True:
            found = self._usable(query, items, asked)
            recalled = [one for one in map(self._recalled, found) if one.trust >= min_trust]
            if items is not None or len(recalled) >= limit or len(found) < asked or asked >= most:
                break
            asked = min(most, asked * 4)  # some were trusted too little: look further down
        if items is None:
            del recalled[limit:]
        conflicts = consequences.conflicts_of(self.ledger, [one.id for one in recalled])
        recalled = [replace(one, conflicts=conflicts[one.id]) for one in recalled]
        self.ledger.append([Draft(EventKind.RETRIEVED, one.id, reader) for one in recalled])
        return tuple(recalled)

    def _recalled(self, found: tuple[Observation, float | None]) -> Recalled:
        o, score = found
        trust = self.graph.trust(o.id, self.policy.trust.table()).value
        return Recalled(o.id, o.text, o.image, o.agent, o.source, o.time, trust, score)

    def _usable(
        self, query: str | None, items: Sequence[str] | None, limit: int
    ) -> list[tuple[Observation, float | None]]:
        """What a recall asks for, without what would be held today: that is held now, and others move up."""
        found = self._find(query, items, limit)
        held = self._tending.recheck([o for o, _ in found])
        if held:
            self._hold_what_came_from(held)
            found = self._find(query, items, limit)
            gone = self._tending.recheck([o for o, _ in found])
            found = [(o, score) for o, score in found if o.id not in gone]
        return found

    def _find(
        self, query: str | None, items: Sequence[str] | None, limit: int
    ) -> list[tuple[Observation, float | None]]:
        if items is not None:
            ids = check_ids(items, "items", self.policy.limits.max_results)
            self._require_known(ids, "items")
            return [(o, None) for o in self.ledger.items(ids=ids, limit=None)]
        if query is not None:
            return list(self._search(query, limit))
        return [(o, None) for o in self.ledger.items(channel=Channel.MEMORY, limit=limit)]

    def _search(self, query: str, limit: int) -> Sequence[tuple[Observation, float]]:
        """Memories by words, and by meaning where a gate knows it; what both find comes first."""
        gates: list[object] = [slot.gate for slot in self._slots.values()]
        finders = [gate for gate in gates if isinstance(gate, Finder)]
        if not finders:
            _say_once("recall goes by words alone: no gate here finds memories by meaning")
            return self.ledger.search(query, limit=limit)
        by_meaning = finders[0].find(query, self.ledger, 4 * limit)
        return fuse(self.ledger.search(query, limit=4 * limit), self.ledger.items(ids=by_meaning, limit=None))[:limit]

    def _settle(self, keep: str, over: str, by: str) -> None:
        ours, theirs = self.ledger.item(keep), self.ledger.item(over)
        if by in (ours.agent, theirs.agent):
            raise InputError("by", f"{by!r} wrote one of the two", "Let somebody else decide")
        self.ledger.append(settling(self.ledger, ours, theirs, by))
        self._lessons.catch_up()

    def _label(self, item: str, label: str, by: str) -> Event:
        ruling, state = LABELS[label], self.ledger.state(check_name(item, "item", printable=True))
        if ruling is Ruling.ALLOW and by == self.ledger.item(item).agent:
            raise InputError("by", f"{by!r} wrote {item} and cannot clear it", "Let somebody else look at it")
        drafts = [Draft(EventKind.LABELLED, item, body={"label": label, "by": by})]
        if ruling is Ruling.BLOCK:
            decision = Decision(item, ruling, 1.0, (1.0, 1.0), f"{BY_PERSON}harmful")
            drafts.append(Draft(EventKind.RULED, item, body=plain(decision)))
        elif not (state.visible or state.erased or state.superseded_by):
            drafts.append(Draft(EventKind.RELEASED, item, body={"by": by}))
            drafts += self._freed([item])
        tainted = self._tainted_by([item]) if ruling is Ruling.BLOCK else []
        event = self.ledger.append([*drafts, *tainted])[0]
        self._lessons.catch_up()
        self._tell_of_taint(tainted)
        self._hold_what_came_from([item])
        return event

    def _hold_what_came_from(self, items: Sequence[str]) -> tuple[str, ...]:
        """Hold what was made from items that are held by now, or repeats them; returns what was not held before.

        Blocks; whoever rules on an item afterwards calls it, and it may be called again after an interruption.
        """
        held: list[str] = []
        origins = [item for item, state in self.ledger.states(items).items() if state.held]
        while drafts := self._tainted_by(origins):
            self.ledger.append(drafts)
            self._tell_of_taint(drafts)
            held += [draft.subject for draft in drafts]
        return tuple(held)

    def _tell_of_taint(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self._tell_learners(self.ledger.item(draft.subject), self.policy.taint.ruling)

    def _tainted_by(self, items: Sequence[str]) -> list[Draft]:
        """The rulings on what came from held items, as many as one repair may touch."""
        ruling = self.policy.taint.ruling
        if ruling <= Ruling.WARN or self.policy.mode == "observe" or not items:
            return []
        found = list(taint.spread_of(items, self.ledger, self.graph, ruling).tainted.values())
        decisions = [taint.taint_decision(verdict) for verdict in found[: self.policy.repair.max_items]]
        return [Draft(EventKind.RULED, one.item, body=plain(one)) for one in decisions]

    def _free_what_came_from(self, items: Sequence[str]) -> None:
        self.ledger.append(self._freed(items))

    def _freed(self, items: Sequence[str]) -> list[Draft]:
        """The release of what is held only because these items were."""
        freed = taint.freed_by(items, self.ledger, self.graph)
        return [Draft(EventKind.RELEASED, item, body={"by": MACHINE, taint.BECAUSE: list(items)}) for item in freed]

    def _tell_learners(self, observation: Observation, ruling: Ruling, verdicts: tuple[Verdict, ...] = ()) -> None:
        """Tell the gates that learn what became of an item. One that fails at it is logged, no more."""
        for name, gate in self._learners.items():
            try:
                gate.learn(observation, ruling, replace(self._contexts[name], earlier=verdicts))
            except Exception:
                log.exception("gate %r failed to learn about %s", name, observation.id)


_RANKS = 60.0
"""How little the first ranks stand out when two rankings are joined (reciprocal rank fusion)."""


def fuse(
    by_words: Sequence[tuple[Observation, float]], by_meaning: Sequence[Observation]
) -> list[tuple[Observation, float]]:
    """Two rankings as one: each gives an item 1 / (60 + its rank)."""
    found = {o.id: o for o in (*(o for o, _ in by_words), *by_meaning)}
    score = dict.fromkeys(found, 0.0)
    for ranking in ([o for o, _ in by_words], by_meaning):
        for rank, one in enumerate(ranking, 1):
            score[one.id] += 1 / (_RANKS + rank)
    return sorted(((found[item], value) for item, value in score.items()), key=lambda pair: -pair[1])


def _channel_for(text: str | bytes, image: bytes | None) -> Channel:
    return Channel.IMAGE if image is not None and not text else Channel.MESSAGE


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


_said: set[str] = set()
"""What this process has already been told about its gates."""


def _say_what_is_missing(slots: Mapping[str, GateSlot], policy: Policy, file: str) -> None:
    """A warning, once, for each gate that is not installed and for each table that no stage uses."""
    for slot in slots.values():
        if not slot.installed:
            _warn_once(f"the gate {slot.name!r} does not run, and what it would catch passes it: {slot.absent}")
    for name in policy.unused_tables():
        _warn_once(f"{file}: [gates.{name}] does nothing: no stage of any channel names {name!r}")


def _warn_once(words: str) -> None:
    _say_once(words, logging.WARNING)


def _say_once(words: str, level: int = logging.INFO) -> None:
    if words not in _said:
        _said.add(words)
        log.log(level, "%s", words)
