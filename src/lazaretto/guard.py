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
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lazaretto.actions.authority import Authority
from lazaretto.actions.classes import Tool
from lazaretto.actions.records import Asked, Authorization
from lazaretto.errors import GuardClosed, InputError, RepairRefused
from lazaretto.foreign.imports import Importer
from lazaretto.foreign.outbox import Outbox, stored_anyway, stored_when_allowed
from lazaretto.foreign.records import DueWrite, Entry, ForeignRecord, ForeignStore, Imported, Reconciled
from lazaretto.gates.one_at_a_time import OneAtATime
from lazaretto.gates.policy_gates import GateState, PolicyGates
from lazaretto.gates.protocol import Gate
from lazaretto.gates.record_owners import RecordOwners
from lazaretto.gates.runner import Worker
from lazaretto.identity import Identity, require_not_own
from lazaretto.incidents.incidents import Incidents
from lazaretto.incidents.records import Held, Incident, State
from lazaretto.ingest.raw_input import RawInput, check_own_fields, read_observation, read_text
from lazaretto.ingest.reading_log import InMind, is_reading, met_by, reader_body
from lazaretto.learn.labels import Labels
from lazaretto.learn.lessons import SCREENED, ContactQueue, Lessons
from lazaretto.learn.loop_cases import LoopCases
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import check_ref
from lazaretto.names import check_ids, check_name, check_principal
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.suspects import Suspect, suspects
from lazaretto.provenance.taint_rulings import TaintRulings, acts, log_acts
from lazaretto.recall import Memories, Recall, require_known
from lazaretto.recorder import FollowUps, Recorder
from lazaretto.repair import engine, proposals
from lazaretto.repair.options import make_repair
from lazaretto.repair.proposals import Proposal, ProposedRepair
from lazaretto.repair.protocol import Repair, RepairRequest, RepairView
from lazaretto.repair.taking_back import TakenBack, taking_back
from lazaretto.tending import Tended, Tending
from lazaretto.types import (
    PROCESS,
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
    Ref,
    RepairPlan,
    SourceClass,
    WrittenBack,
    new_id,
    principal_of,
)
from lazaretto.watchers import Tracing, Watchers, now

if TYPE_CHECKING:
    from lazaretto.agents.persona import Persona
    from lazaretto.gates.foresight.adapter import ForesightAgent
    from lazaretto.gates.foresight.foresight import Foresight
    from lazaretto.learn.foresight_setup import Calibration
    from lazaretto.models.protocol import ChatModel, TextEmbedder

log = logging.getLogger("lazaretto")
T = TypeVar("T")
MAX_REASON = 10_000


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
        """What ``before_turn`` rehearses with; the policy's ``[gates.foresight]`` or ``rehearse_with`` sets it."""
        self.policy = policy or Policy.recommended()
        self.graph = ProvenanceGraph(ledger, self.policy.trust.table())
        self._gates = PolicyGates(self.policy, ledger, self.graph, gates or {}, file)
        tell = self._gates.tell_learners
        self._recorder = Recorder(ledger, self.policy, tell, self._gates.claims_of)
        self._lessons = Lessons(ledger, tell)
        self._taints = TaintRulings(ledger, self.graph, self.policy, tell)
        self._labels = Labels(ledger, self._taints, self._lessons, tell, observes=self.policy.mode == "observe")
        self._contacts = ContactQueue(ledger, self.graph)
        self._incidents = Incidents(ledger, self.graph)
        self._view = RepairView(ledger, self.graph, judge=self._gates.held_today, correction=self._gates.correction)
        self._tending = Tending(
            self._view, self.policy, (self._gates.slots, self._gates.contexts), tell, self._taints.hold_what_came_from
        )
        self._cases = LoopCases(ledger, self.policy, self._gates, dict(gates or {}))
        self._recall = Recall(ledger, self.graph, self.policy, self._gates, self._hold_again)
        self._outbox = Outbox(ledger)
        self.actions = Authority(ledger, self.graph, self.policy, file)
        """The last gate: see ``authorize``."""
        self._owners = RecordOwners(ledger, self.graph, self.policy)
        self._tends = OneAtATime("tend")
        self.watchers = Watchers(Tracing())
        """Who is told of every decision, recall and repair."""
        self._store_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="lazaretto-store")
        self._sync_worker: Worker | None = None
        self._closed = False
        self._lock = threading.Lock()
        if foresight := self.policy.gates.get("foresight"):
            from lazaretto.learn.foresight_setup import configured

            self.foresight = configured(ledger, foresight, self._in_store_thread, file)

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
        once: str | None = None,
        principal: str | None = None,
        tool: str | None = None,
        answer: Any = None,
    ) -> Decision:
        """Judge something an agent is about to read or say, and record both.

        A page, tool result or picture that is allowed counts as read by the agent. ``once`` is a name of your own for
        this call: repeated with it, after an answer that never came, it records nothing new and answers the same.
        ``principal`` is who proved to be behind the call, for example ``key:scout``; without it, your own process
        vouches for the agent's name (``process:<agent>``).

        ``tool`` is the tool that answered with it. Where the policy names that as a directory, the whole values in its
        answer count as the crew's own before another tool is called (docs/actions.md); ``answer`` is the answer as
        data, where ``text`` has only its words.
        """
        listing = None
        if tool is not None:
            name = check_name(tool, "tool", printable=True)
            listing = self.actions.listing(name, text if answer is None else answer)
            source = source or (SourceClass.TOOL_OUTPUT_INTERNAL if listing and not listing.speaks else None)

        def read(observation: Observation, decision: Decision) -> list[Draft]:
            if not (decision.allowed and is_reading(observation)):
                return []
            body = reader_body(observation.principal)
            known = [] if listing is None else [self.actions.listed_draft(observation.id, observation.agent, listing)]
            return [Draft(EventKind.RETRIEVED, observation.id, observation.agent, body), *known]

        raw = RawInput(
            agent, channel or _channel_for(text, image), text, image, None, parents, source, once=once,
            principal=principal,
        )  # fmt: skip
        decision = await self._judge_and_record(raw, read)
        if self.actions.follows(agent):
            await self._in_store_thread(self.actions.take_in, agent)
        return decision

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
        once: str | None = None,
        ref: Ref | Sequence[str] | None = None,
        value: Any = None,
        principal: str | None = None,
    ) -> Decision:
        """Judge and keep a memory. What the agent read lately counts as influence beside the ``parents`` it names.

        ``parents=[...]`` says that nothing else was used; that is believed of sources the policy trusts enough
        (``influence.believe_from``). ``key`` is the name under which a store of your own keeps it; the policy says who
        may write protected ones. ``once``, ``principal``: as in ``check``.

        ``ref`` says where that store keeps it: (system, namespace, key). Write it there when it is allowed; repairs
        follow it there (``join``). ``value`` is what is kept there, as JSON data, and takes the place of ``text``.
        """
        check_own_fields(fields)
        raw = RawInput(
            agent, Channel.MEMORY, text, image, fields, parents or (), source, key=key, once=once, ref=ref, value=value,
            principal=principal,
        )  # fmt: skip
        return await self._judge_and_record(raw, stored_when_allowed, writes=True, stated=parents is not None)

    async def recall(
        self,
        query: str | None = None,
        *,
        agent: str,
        items: Sequence[str | Ref] | None = None,
        limit: int = 5,
        min_trust: float = 0.0,
        principal: str | None = None,
    ) -> Memories:
        """Memories the agent may use, and a record that it read them. ``principal``: as in ``check``.

        By ``query`` (best first), by ``items`` (those of some ids, or refs into stores of your own, that may be used,
        in your order; refs that nobody recorded are in the answer's ``unknown``), or the newest ones. Whatever is
        held, superseded or erased stays out, and whatever is trusted less than ``min_trust`` (which is at most the
        trust of the least trusted thing it was made from).
        """
        reader = check_name(agent, "agent", printable=True)
        self._recall.check(limit, min_trust)
        began = now()
        body = reader_body(None if principal is None else check_principal(principal))
        found = await self._in_store_thread(self._recall.recall, reader, query, items, limit, float(min_trust), body)
        self.watchers.tell("recalled", self.ledger.namespace, reader, [one.id for one in found], began)
        return found

    async def search(self, query: str, *, limit: int = 20) -> tuple[Observation, ...]:
        """Memories that may be used, by words and by meaning, best first: for people. Nothing is recorded as read."""
        self._recall.check(limit, 0.0)
        found = await self._in_store_thread(self._recall.search, query, limit)
        return tuple(one for one, _ in found)

    async def exchange(
        self,
        text: str | bytes = "",
        *,
        sender: str,
        receiver: str,
        image: bytes | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] | None = None,
        once: str | None = None,
        principal: str | None = None,
    ) -> Decision:
        """Judge a message or picture from one agent to another; it counts as delivered only when it is allowed.

        What the sender read lately counts as influence, as in ``remember``. ``once``, ``principal``: as in ``check``.
        """
        to = check_name(receiver, "receiver", printable=True)

        def sent(observation: Observation, decision: Decision) -> list[Draft]:
            body = {"to": to, **reader_body(observation.principal)}
            return [Draft(EventKind.SENT, observation.id, sender, body)] if decision.allowed else []

        raw = RawInput(
            sender, _channel_for(text, image), text, image, None, parents or (), source, once=once, principal=principal
        )
        return await self._judge_and_record(raw, sent, writes=True, stated=parents is not None)

    async def screen(
        self,
        text: str | bytes = "",
        *,
        agent: str = "unknown",
        channel: Channel | str = Channel.MEMORY,
        image: bytes | None = None,
        fields: MemoryFields | Mapping[str, Any] | None = None,
        source: SourceClass | str | None = None,
        key: str | None = None,
        principal: str | None = None,
    ) -> Decision:
        """What the gates say of something. Nothing is recorded: it can neither be recalled nor traced nor disputed."""
        self._require_open()
        began = now()
        raw = RawInput(agent, channel, text, image, fields, (), source, key=key, principal=principal)
        observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
        if not self._lessons.current:
            await self._in_store_thread(self._lessons.catch_up)
        if raw.image is None:
            decision = await self._gates.judge(observation)
        else:  # the gates read it as from the store, which never has it
            with self.ledger.lent_blob(raw.image) as digest:
                observation = replace(observation, image=digest)
                decision = await self._gates.judge(observation)
        self.watchers.tell("decided", observation, decision, began)
        return decision

    # before a tool is called

    async def begin_task(
        self,
        text: str,
        *,
        agent: str,
        tools: Sequence[str] = (),
        source: SourceClass | str = SourceClass.DIRECT_USER,
        principal: str | None = None,
    ) -> Decision:
        """Tell an agent what to do: from here on only this, and what it reads from now on, is in its mind.

        The words of a task carry the calls they ask for (``authorize``). ``tools``, names or patterns, says which tools
        the task may need; then no other call is carried. A task that the gates hold is not begun.
        """
        if isinstance(tools, str) or not all(isinstance(one, str) for one in tools):
            raise InputError("tools", "is no list of names", "Give names or patterns, for example ['search_*']")
        if source not in (SourceClass.DIRECT_USER, SourceClass.SYSTEM):
            raise InputError("source", f"{source} begins no task", "Use direct_user or system; pass on others' wishes")

        def begun(observation: Observation, decision: Decision) -> list[Draft]:
            if not decision.allowed:
                return []
            return self.actions.task_drafts(observation.id, observation.agent, tuple(tools))

        raw = RawInput(agent, Channel.MESSAGE, text, None, None, (), source, principal=principal)
        return await self._judge_and_record(raw, begun)

    async def authorize(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        agent: str,
        description: str = "",
        schema: Mapping[str, Any] | None = None,
        task: str | None = None,
        principal: str | None = None,
    ) -> Authorization:
        """May this agent call this tool now? allow, ask (a person, see ``answer_action``) or block, with the reasons.

        Two questions decide: who wanted it, and where each value comes from (docs/actions.md). ``description`` and
        ``schema`` (JSON schema of the arguments) help to guess what a tool does that the policy does not name. ``task``
        is the id of an earlier task than the agent's last. No model is asked, and the answer is recorded first.
        """
        self._require_open()
        name, who = check_name(tool, "tool", printable=True), check_name(agent, "agent", printable=True)
        known = Tool.of(name, description, schema)
        proven = f"process:{who}" if principal is None else check_principal(principal)
        return await self._in_store_thread(self.actions.authorize, known, arguments, who, task, proven)

    async def answer_action(self, token: str, agree: bool, *, by: str, caller: Identity | None = None) -> Asked:
        """A person's word on a call that waits: yes lets exactly this call through once, no blocks it for a day.

        Nobody agrees to a call of their own: ``NotYours``. ``caller`` is who proved to be behind a request.
        """
        name, person = check_name(token, "token", printable=True), check_name(by, "by", printable=True)
        if not isinstance(agree, bool):
            raise InputError("agree", f"is {agree!r}", "Give True or False")
        return await self._in_store_thread(self.actions.answer, name, agree, person, caller)

    async def waiting_actions(self) -> tuple[Asked, ...]:
        """Calls that wait for a person, the newest first."""
        return await self._in_store_thread(self.actions.waiting)

    async def endorse(self, value: str, *, purpose: str, by: str, caller: Identity | None = None) -> str:
        """Raise the trust of a value for one purpose (a tool or a class of actions); returns the receipt's id.

        ``by`` is a person, or ``tool:NAME`` of a tool that the policy names under ``actions.verifiers``. Nobody
        endorses a value that they brought in: ``NotYours``. ``caller`` is who proved to be behind a request.
        """
        person = check_name(by, "by", printable=True)
        return await self._in_store_thread(self.actions.endorse, value, purpose, person, caller)

    def gates(self) -> tuple[GateState, ...]:
        """Every gate that the policy names: on which channels it is asked, and whether it is there."""
        return self._gates.states()

    async def report(
        self,
        what: str,
        *,
        agent: str,
        success: bool | None = None,
        rests_on: Sequence[str] | None = None,
        principal: str | None = None,
    ) -> str:
        """Record a decision of an agent and how it went; returns the decision's id.

        Without ``rests_on``, what the agent read since its last decision counts. ``principal``: as in ``check``; of an
        agent that your own process does not vouch for, what it neither read nor wrote is recorded as claimed, and
        counts for nothing.
        """
        name = check_name(agent, "agent", printable=True)
        if not isinstance(what, str) or len(what) > self.policy.limits.max_text_bytes:
            raise InputError("what", "is not text, or past limits.max_text_bytes", "Say in a sentence what was decided")
        if success is not None and not isinstance(success, bool):
            raise InputError("success", f"is {success!r}", "Give True, False or None")
        if rests_on is None:
            items = await self._in_store_thread(self._recorder.before_decision, name)
        else:
            items = check_ids(rests_on, "rests_on", self.policy.limits.max_results)
        claimed: tuple[str, ...] = ()
        if principal is not None and rests_on is not None:
            await self._in_store_thread(require_known, self.ledger, items, "rests_on")
            met = await self._in_store_thread(met_by, check_principal(principal), name, items, self.ledger)
            items, claimed = met, tuple(item for item in items if item not in met)
        decision = new_id("de")
        body = {"what": what, "success": success, "rests_on": list(items)}
        body |= {"claimed": list(claimed)} if claimed else {}
        body |= {} if principal is None else {"principal": principal}
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
            fix = "Name a calibration in [gates.foresight], or call guard.rehearse_with first; see docs/foresight.md"
            raise InputError("foresight", "is not set up", fix)
        remove = None if self.policy.mode == "observe" else self._repair_unless_hidden
        done = await self.foresight.before_round(speaking, others, remove)
        read = {turn.agent for turn in done.turns[: len(speaking)] if not turn.unread}
        await self.note_screened([agent for agent in await self.contacts_to_screen() if agent in read])
        return done

    # what people do

    async def label(
        self, item: str, label: Literal["harmful", "benign"], *, by: str, caller: Identity | None = None
    ) -> Event:
        """Record what an item truly is, as a person says. Harmful items are held at once, benign ones released.

        What was made from a harmful item is held with it; the next ``tend`` proposes repairs of the rest, as it does
        after a finding of its own.

        ``NotYours`` where ``by``, or the ``caller`` of a server, would clear what it wrote itself.
        """
        person = check_name(by, "by", printable=True)
        event = await self._in_store_thread(self._labels.label, item, label, person, caller)
        await self._outbox.write_back()
        return event

    async def settle(self, keep: str, *, over: str, by: str, caller: Identity | None = None) -> None:
        """Decide between two items that contradict each other: ``keep`` holds, ``over`` is replaced by it.

        Called the other way round, it takes the decision back.
        """
        person = check_name(by, "by", printable=True)
        await self._in_store_thread(self._labels.settle, keep, over, person, caller)

    async def appeal(self, item: str, reason: str, *, by: str) -> Event:
        """Record that somebody disputes the ruling on an item; it holds until a person labels or releases the item."""
        words, person = read_text(reason, MAX_REASON), check_name(by, "by", printable=True)
        return await self._in_store_thread(self._labels.appeal, item, words, person)

    # stores of your own

    def join(self, system: str, store: ForeignStore) -> None:
        """Let rulings and repairs reach the store that keeps the records of ``system``: they are written back to it.

        What is held is deleted there, what is rewritten or released is put there again. See ``write_back``.
        """
        self._outbox.join(system, store)

    async def forget(
        self, ref: Ref | Sequence[str], *, agent: str, principal: str | None = None, by_right: bool = False
    ) -> None:
        """Record that the agent deleted a record in a store of your own: it is not recalled any more.

        ``Forbidden`` for a record that belongs to another writer: ask before you delete it there. ``by_right``: whoever
        decides may delete it, whoever owns it. ``principal``: as in ``check``.
        """
        by, gone = check_name(agent, "agent", printable=True), check_ref(ref)
        behind = f"{PROCESS}{by}" if principal is None else check_principal(principal)

        def work() -> None:
            if not by_right:
                self._owners.require_owner(gone, by, behind)
            self._outbox.note_deleted(gone, by)

        await self._in_store_thread(work)

    async def import_records(self, records: Iterable[ForeignRecord], *, agent: str) -> Imported:
        """Judge and record what a store of your own holds, with what is known of where it came from.

        ``agent`` counts as the writer of records that name none. Records that are known as they are cost nothing; what
        is held here is taken out there by the next ``write_back``.
        """
        writer = check_name(agent, "agent", printable=True)

        async def judge(record: ForeignRecord, parents: tuple[str, ...]) -> Decision:
            raw = RawInput(
                record.agent or writer, Channel.MEMORY, parents=parents, source=record.source, time=record.time,
                ref=record.ref, value=record.value, principal=record.principal,
            )  # fmt: skip
            return await self._judge_and_record(raw, stored_anyway, stands=True)

        return await Importer(self.ledger, judge).run(records, self._in_store_thread)

    async def reconcile(
        self, system: str, namespace: str | None = None, *, entries: Iterable[Entry] | None = None
    ) -> Reconciled:
        """What a store has and the ledger has not, and the reverse; nothing is changed.

        The store is a joined one, or ``entries`` are all it holds: namespace, key and value of each record.
        """
        self._require_open()
        return await self._outbox.reconcile(system, namespace, entries)

    async def write_back(self) -> tuple[WrittenBack, ...]:
        """Write to joined stores what is due there; repairs, labels and ``tend`` call it by themselves."""
        self._require_open()
        return await self._outbox.write_back()

    async def due_writes(self, system: str, *, limit: int = 256) -> tuple[DueWrite, ...]:
        """What is due in a store that this process cannot reach; do it there, then call ``note_written``."""
        self._require_open()
        return await self._in_store_thread(self._outbox.due, system, limit)

    async def note_written(
        self, ref: Ref | Sequence[str], *, item: str, write: Literal["put", "delete"], error: str = ""
    ) -> bool:
        """Record that a due write was done elsewhere, or with ``error`` why it was not; False: that was known.

        May be called again. Where the ruling changed in between, what follows from that is due next.
        """
        name = check_name(item, "item", printable=True)
        return await self._in_store_thread(self._outbox.note_written, check_ref(ref), name, write, error)

    # repairs

    async def plan(self, /, item: str, repair: str | Repair, *, reason: str = "", **options: Any) -> RepairPlan:
        """What a repair would do and cost; nothing is changed. ``RepairRefused`` when it is past a limit.

        By name with its options as keywords, or as an object: ``plan(item, "isolate", descendants=True)`` is
        ``plan(item, Isolate(descendants=True))``.
        """
        made = make_repair(repair, options)
        request = RepairRequest(check_name(item, "item", printable=True), reason)
        return await self._in_store_thread(engine.prepare, made, request, self._view, self.policy.repair)

    async def dry_run(self, plan: RepairPlan) -> tuple[engine.Preview, ...]:
        """Every item the plan touches, as it is and as it would be; nothing is changed."""
        return await self._in_store_thread(engine.preview, plan, self.ledger)

    async def apply(self, plan: RepairPlan, *, caller: Identity | None = None) -> Receipt:
        """Do what a plan says, as a whole, if nothing it rests on has changed. New texts pass the gates.

        ``NotYours`` where the ``caller`` of a server would clear what it wrote itself.
        """
        return await self._apply(plan, caller)

    async def _apply(self, plan: RepairPlan, caller: Identity | None, also: Sequence[Draft] = ()) -> Receipt:
        """``also`` is recorded with the repair or not at all."""
        began = now()
        await self._judge_replacements(plan)

        def work() -> Receipt:
            shown = [step.item for step in plan.steps if step.action == "show"]
            touched = {step.item for step in plan.steps}
            back = taking_back(shown, self.ledger, touched) if shown else TakenBack()
            touched |= set(back.states)
            freed = [one for one in self._taints.freeing([*shown, *back.shown]) if one.subject not in touched]
            cleared = [*engine.cleared_by(plan), *back.shown, *(draft.subject for draft in freed)]
            self._ask_before_clearing(caller, cleared)
            followed = [*back.drafts, *freed, *also]
            receipt = engine.apply(plan, self.ledger, self.policy.repair, followed, back.states)
            log_acts([engine.receipt_draft(receipt), *followed])
            self._lessons.catch_up()
            return receipt

        receipt = await self._written_back(await self._in_store_thread(work))
        self.watchers.tell("repaired", self.ledger.namespace, receipt, began)
        return receipt

    async def _judge_replacements(self, plan: RepairPlan) -> None:
        """``RepairRefused`` for a plan that would bring in a text which no agent could have brought in."""
        await self._in_store_thread(engine.check_plan, plan, self.ledger)
        for step in plan.steps:
            if step.action != "replace":
                continue
            old, new = await self._in_store_thread(self.ledger.item, step.item), step.detail["replacement"]
            raw = RawInput(old.agent, old.channel, new["text"], None, new.get("fields", old.fields), (), old.source)
            raw = replace(raw, principal=principal_of(old))
            observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
            decision = await self._gates.judge(observation)
            if not decision.allowed:
                raise RepairRefused(
                    f"the new text for {step.item} is itself ruled {decision.ruling.label} ({decision.rule})"
                )

    def _ask_before_clearing(self, caller: Identity | None, items: Sequence[str]) -> None:
        """``NotYours`` where the caller wrote something of what would be shown again."""
        if caller is not None and items:
            require_not_own(caller, "", self.ledger.items(ids=items, hidden=True, limit=None))

    async def undo(self, receipt_id: str, *, caller: Identity | None = None) -> Receipt:
        """Put everything back as it was before a repair. ``caller``: as in ``apply``."""

        def freeing(items: Sequence[str]) -> list[Draft]:
            drafts = self._taints.freeing(items)
            held = [item for item, state in self.ledger.states(items).items() if not state.visible]
            self._ask_before_clearing(caller, [*held, *(draft.subject for draft in drafts)])
            return drafts

        def work() -> Receipt:
            name = check_name(receipt_id, "receipt", printable=True)
            receipt = engine.undo(name, self.ledger, freeing)
            self._lessons.catch_up()
            items = [step.item for step in receipt.plan.steps]
            acts.info("%d items are as they were before the repair %s, which is undone", len(items), name)
            if any(step.action == "show" for step in receipt.plan.steps):
                self._taints.hold_what_came_from(items)  # held again, and with it what came from it
            return receipt

        return await self._written_back(await self._in_store_thread(work))

    async def release(
        self, item: str, *, reason: str = "", descendants: bool = False, caller: Identity | None = None
    ) -> Receipt:
        """Bring a held item back: plan and apply in one call. ``caller``: as in ``apply``."""
        plan = await self.plan(item, "release", reason=reason, descendants=descendants)
        return await self.apply(plan, caller=caller)

    async def receipts(self) -> tuple[Receipt, ...]:
        """Every repair of this namespace, oldest first."""
        found = await self._in_store_thread(engine.receipts, self.ledger)
        return await self._in_store_thread(self._outbox.with_outcomes, found)

    async def proposals(self) -> tuple[Proposal, ...]:
        """Repairs that looking again proposes and nobody has decided on, newest first."""
        return await self._in_store_thread(proposals.waiting, self.ledger)

    async def proposal(self, name: str) -> ProposedRepair:
        """What a proposal would do now, with what each item says before and after; nothing is changed."""
        asked = check_name(name, "proposal", printable=True)
        found = await self._in_store_thread(proposals.find, asked, self.ledger)
        plan = await self._tending.repairs.planned(found.origin, self._in_store_thread)
        ids = [step.item for step in plan.steps]
        items = await self._in_store_thread(lambda: self.ledger.items(ids=ids, hidden=True, limit=None) if ids else [])
        changes = proposals.changes_of(plan.steps, {one.id: one.text for one in items})
        return ProposedRepair(found, plan, changes, proposals.work_of(plan))

    async def accept(self, name: str, *, by: str, seen: str = "", caller: Identity | None = None) -> Receipt:
        """Do what a proposal says. ``seen`` is that of the ``ProposedRepair`` that somebody looked at: where something
        else would be done by now, it is refused. ``caller``: as in ``apply``."""
        person = check_name(by, "by", printable=True)
        found = await self.proposal(name)
        if not found.plan.steps:
            raise RepairRefused(f"{name} has nothing to do any more; dismiss it")
        if seen and seen != found.seen:
            raise RepairRefused(f"{name} would do something else by now than what was shown; look at it again")
        plan = replace(found.plan, reason=f"{found.plan.reason} ({name}, accepted by {person})")
        return await self._apply(plan, caller, proposals.closing(name, "applied", person))

    async def dismiss(self, name: str, *, by: str, reason: str = "", caller: Identity | None = None) -> None:
        """Leave everything as it is: the proposal waits no longer, and is not made again. What is held stays held."""
        person, words = check_name(by, "by", printable=True), read_text(reason, MAX_REASON)
        asked = check_name(name, "proposal", printable=True)

        def work() -> None:
            found = proposals.find(asked, self.ledger)
            require_not_own(caller, person, [self.ledger.item(found.origin)])
            drafts = proposals.closing(asked, "dismissed", person, words)
            self.ledger.append(drafts)
            log_acts(drafts)

        await self._in_store_thread(work)

    # looking again

    async def tend(self, *, limit: int | None = None, news: int = 1) -> Tended:
        """Judge memories again, up to ``limit`` of them (default: the policy's): release what proves clean, hold what
        slipped through with what was made from it, and propose repairs of the rest (``repair.automatic``,
        ``proposals``). Call again while ``left`` is above 0. What labels and repairs decided since becomes cases of the
        debate.

        Nothing is looked at until there were ``news`` (memories, outcomes, labels) since the last pass. A person's word
        is never overturned.
        """
        most = self.policy.review.limit if limit is None else limit
        for field, number in (("limit", most), ("news", news)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(field, f"is {number!r}", "Give 1 or more")
        self._require_open()
        async with self._tends:
            tended = await self._tending.run(most, news, self._in_store_thread)
            tainted = await self._in_store_thread(self._taints.hold_what_came_from_found, tended.held)
            tended = replace(tended, held=tuple(dict.fromkeys((*tended.held, *tainted))))
            await self._in_store_thread(self._taints.free_what_came_from, tended.released)
            await self._outbox.write_back()
            return replace(tended, cases=await self._cases.step(self._in_store_thread))

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
        self._gates.close()
        self._cases.close()
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

    async def _written_back(self, receipt: Receipt) -> Receipt:
        """The receipt with what became of its records in stores of the caller's own."""
        await self._outbox.write_back()
        return (await self._in_store_thread(self._outbox.with_outcomes, [receipt]))[0]

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
        follow_ups: FollowUps = lambda _observation, _decision: [],
        *,
        writes: bool = False,
        stated: bool = False,
        stands: bool = False,
    ) -> Decision:
        """The way of every item: read, examine, decide, record, learn.

        ``follow_ups`` says which events belong to the item besides its ruling; they are recorded with it or not at all.
        ``writes``: the agent made it itself, so what it read lately counts; ``stated``: it says what it made it from;
        ``stands``: it stands in a store of the caller's own already.
        """
        self._require_open()  # before the gates are troubled
        began = now()
        observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
        if not self._lessons.current:
            await self._in_store_thread(self._lessons.catch_up)
        if observation.parents:
            await self._in_store_thread(require_known, self.ledger, observation.parents, "parents")
        if raw.image is not None:
            digest = await self._in_store_thread(self.ledger.put_blob, raw.image)
            observation = replace(observation, image=digest)
        if raw.once is not None and (before := await self._in_store_thread(self._recorder.recorded, observation)):
            return before
        decided = await self._gates.judge(observation)

        def work() -> Decision:
            mind = self._recorder.in_mind(observation, stated) if writes else InMind()
            owned = functools.partial(self._owners.ruled, stands=stands)
            return self._recorder.record(observation, decided, mind, follow_ups, owned)

        decision = await self._in_store_thread(work)
        self.watchers.tell("decided", observation, decision, began)
        return decision

    def _hold_again(self, observations: Sequence[Observation]) -> tuple[str, ...]:
        """Hold those of some memories that would be held today, with what came from them; returns the former."""
        held = self._tending.recheck(observations)
        if held:
            self._taints.hold_what_came_from(held)
        return held


def _channel_for(text: str | bytes, image: bytes | None) -> Channel:
    return Channel.IMAGE if image is not None and not text else Channel.MESSAGE
