"""Writes an item to the ledger: with its ruling, the items it rests on and its further events, whole or not at all.

An item rests on those it was made from, those its writer had read and those it repeats. Their state at that moment
counts: when one is held or released while the item is written, or the item's record gets another owner, the ruling is
made again. A decision that an agent reports is recorded with the items it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from lazaretto.errors import InputError, StaleState, StoreUnavailable
from lazaretto.gates.engine.decision import decision_from_body, ruling_body, with_verdict
from lazaretto.gates.engine.gate_set import GateSet
from lazaretto.gates.engine.record_owners import RecordOwners
from lazaretto.gates.memory.claims import consequences
from lazaretto.guard.recall import require_known
from lazaretto.ingest.read_history import ReadHistory, RecentReads, met_by, principal_body
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.names import check_ids, check_name, check_principal
from lazaretto.policy import Policy
from lazaretto.provenance import echoes, taint
from lazaretto.provenance.held_index import HeldIndex
from lazaretto.types import Decision, Draft, EventKind, Observation, Ruling, new_id, principal_of

_TRIES = 10
"""How often the items that an item rests on may change while it is recorded."""
FollowUps = Callable[[Observation, Decision], list[Draft]]
"""Gives further events of an item besides its ruling; they are recorded with it or not at all."""


class Recorder:
    """Writes judged items and reported decisions to the ledger, and knows what agents had read. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        gates: GateSet,
        owners: RecordOwners,
    ) -> None:
        """``gates`` give the claims they read, and learn the outcome."""
        self._ledger, self._policy, self._gates, self._owners = ledger, policy, gates, owners
        rules = policy.influence
        self._read_history = ReadHistory(
            ledger, messages=rules.messages, window_s=rules.window_s, max_sources=rules.max_sources
        )
        self._held = HeldIndex(ledger)

    def record(
        self,
        observation: Observation,
        decided: Decision,
        follow_ups: FollowUps,
        *,
        writes: bool,
        stated: bool,
        stands: bool,
        asked: Mapping[str, str | None] | None,
    ) -> Decision:
        """Write an item and its ruling to the ledger. The ruling may become stricter: because of the items it rests on,
        and because of the owner of its record. ``writes``, ``stated``, ``stands``: as in ``Core.judge_and_record``;
        ``asked`` is noted with it, for ``earlier_decision``."""
        recent_reads = self._recent_reads(observation, stated) if writes else RecentReads()
        taint_ruling, trust = self._policy.taint.ruling, self._policy.trust.table()
        for _ in range(_TRIES):
            echoed = () if taint_ruling is Ruling.ALLOW else echoes.echoed(observation, self._ledger, trust)
            rests_on = {*observation.parents, *recent_reads.links, *echoed}
            taint_verdict, states = taint.on_writing(
                observation, recent_reads.read, self._held, taint_ruling, echoed, rests_on
            )
            owner_verdict, seen_record = self._owners.ruled(observation, stands=stands)
            decision = with_verdict(with_verdict(decided, owner_verdict), taint_verdict)
            if self._policy.mode == "observe":
                decision = replace(decision, ruling=Ruling.ALLOW, would=decision.ruling)
            noted = {"asked": dict(asked)} if asked else {}
            drafts = [Draft(EventKind.RULED, observation.id, body={**ruling_body(decision), **noted})]
            if recent_reads.links:
                body = {"sources": list(recent_reads.links), **principal_body(observation.principal)}
                drafts.append(Draft(EventKind.INFLUENCED, observation.id, observation.agent, body))
            drafts += echoes.links(observation.id, echoed)
            if taint_verdict is not None and taint_verdict.ruling > Ruling.WARN:
                drafts += echoes.marks([observation])
            drafts += [*follow_ups(observation, decision), *consequences.follow_ups(decision)]
            try:
                claims = self._gates.claims_of(observation)
                self._ledger.append_item(observation, drafts, states=states, claims=claims, record=seen_record)
            except StaleState:
                continue  # something that it rests on was held or released in between, or its record was written
            except InputError as error:
                before = self.earlier_decision(observation, asked or {}) if error.field == "id" else None
                if before is None:
                    raise
                return before  # the same call, sent twice, arrived a moment earlier
            verdicts = decision.active_verdicts
            if verdicts:  # a ruling that only stands for a broken gate teaches nothing about the item
                self._gates.teach(observation, max(v.ruling for v in verdicts), verdicts)
            return decision
        raise StoreUnavailable(
            f"the items that {observation.id} rests on or its record keep changing; nothing was recorded, try again"
        )

    def earlier_decision(self, observation: Observation, asked: Mapping[str, str | None]) -> Decision | None:
        """The decision when an item of this id was recorded; None if there is none.

        ``InputError`` if it was another item, another call or another writer: a caller that names its writes must give
        each a different name. All that is recorded of an item is compared, but for its time.
        """
        if self._ledger.unknown([observation.id]):
            return None
        if self._ledger.state(observation.id).erased:
            raise _used_before("for an item that was erased since")
        found = self._ledger.item(observation.id)
        if principal_of(found) != principal_of(observation):
            raise _used_before("by another writer")
        if found.agent != observation.agent:
            raise _used_before("for another agent")
        _refuse_differing(_recorded_of(found), _recorded_of(observation))
        ruled = next(iter(self._ledger.events(subject=observation.id, kinds=(EventKind.RULED,), limit=1)), None)
        if ruled is None or ruled.body is None:
            return None
        decision = decision_from_body(ruled.body)
        before = ruled.body.get("asked")
        if before is None:  # by a version that did not note it: a delivery says to whom, if it was allowed
            before = {**asked, "receiver": self._receiver(observation.id)} if decision.allowed else asked
        _refuse_differing(before, asked)
        return decision

    def _receiver(self, item: str) -> str | None:
        """The agent to which an item was sent."""
        sent = next(iter(self._ledger.events(subject=item, kinds=(EventKind.SENT,), limit=1)), None)
        return None if sent is None or sent.body is None else sent.body.get("to")

    def _recent_reads(self, observation: Observation, stated: bool) -> RecentReads:
        """Items that the writer read lately and did not name; empty if the writer is trusted to name everything."""
        rules, trust = self._policy.influence, self._policy.trust.table()
        if not rules.infer or (stated and trust[observation.source] >= rules.believe_from):
            return RecentReads()
        recent = self._read_history.lately(observation.agent, observation.principal)
        links = tuple(item for item in recent.links if item not in observation.parents)
        if len(links) > rules.max_sources:
            found = self._ledger.items(ids=links, any_state=True, limit=None)
            links = taint.most_telling(observation, found, trust, rules.max_sources)
        return RecentReads(tuple(item for item in recent.read if item not in observation.parents), links)

    def record_outcome(
        self, what: str, agent: str, success: bool | None, rests_on: Sequence[str] | None, principal: str | None
    ) -> str:
        """Record a decision of an agent and how it went; returns its id. See ``Guard.report``."""
        limits, name = self._policy.limits, check_name(agent, "agent", printable=True)
        if not isinstance(what, str) or len(what) > limits.max_text_bytes:
            raise InputError("what", "is not text, or past limits.max_text_bytes", "Say in a sentence what was decided")
        if success is not None and not isinstance(success, bool):
            raise InputError("success", f"is {success!r}", "Give True, False or None")
        claimed: tuple[str, ...] = ()
        if rests_on is None:
            items = self._read_history.before_decision(name)
        else:
            items = check_ids(rests_on, "rests_on", limits.max_results)
            if principal is not None:
                require_known(self._ledger, items, "rests_on")
                met = met_by(check_principal(principal), name, items, self._ledger)
                items, claimed = met, tuple(item for item in items if item not in met)
        decision = new_id("de")
        body: dict[str, Any] = {"what": what, "success": success, "rests_on": list(items)}
        body |= {"claimed": list(claimed)} if claimed else {}
        body |= {} if principal is None else {"principal": principal}
        self._ledger.append([Draft(EventKind.REPORTED, decision, name, body)])
        return decision


def _recorded_of(observation: Observation) -> dict[str, bytes]:
    """All that an item's event holds, field by field, but for who proved to be behind it (``principal_of``)."""
    body = seen_draft(observation).body
    return {name: orjson.dumps(body[name], option=orjson.OPT_SORT_KEYS) for name in body if name != "principal"}


def _refuse_differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for field in sorted(before.keys() | now.keys()):
        if before.get(field) != now.get(field):
            raise _used_before(f"for another {field}")


def _used_before(how: str) -> InputError:
    return InputError("once", f"this name was used {how}", "Use a new name for every write")
