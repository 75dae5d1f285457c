"""Writes an item to the ledger: with its ruling, the items it rests on and its further events, whole or not at all.

An item rests on those it was made from, those its writer had read and those it repeats. Their state at that moment
counts: when one is held or released while the item is written, or the item's record gets another owner, the ruling is
made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from lazaretto.errors import InputError, StaleState, StoreUnavailable
from lazaretto.gates.engine.decision import decision_from_body, ruling_body, with_verdict
from lazaretto.gates.memory.claims import consequences
from lazaretto.ingest.read_history import ReadHistory, RecentReads, principal_body
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.ledger.refs import SeenRecord
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.policy import Policy
from lazaretto.provenance import echoes, taint
from lazaretto.provenance.held_index import HeldIndex
from lazaretto.types import Decision, Draft, EventKind, Observation, Ruling, Verdict, principal_of

_TRIES = 10
"""How often the items that an item rests on may change while it is recorded."""
FollowUps = Callable[[Observation, Decision], list[Draft]]
"""Gives further events of an item besides its ruling; they are recorded with it or not at all."""
RuleForOwner = Callable[[Observation], tuple[Verdict | None, SeenRecord]]
"""The ruling for the owner of an item's record, with the record as it was seen."""


class Recorder:
    """Writes judged items to the ledger, and knows what its writers had read. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        teach: Callable[[Observation, Ruling, tuple[Verdict, ...]], None],
        claims_of: Callable[[Observation], Sequence[ClaimRow]],
    ) -> None:
        """``teach`` passes the outcome of an item on to the gates that learn; ``claims_of``: the claims they read."""
        self._ledger, self._policy, self._teach, self._claims_of = ledger, policy, teach, claims_of
        rules = policy.influence
        self._read_history = ReadHistory(
            ledger, messages=rules.messages, window_s=rules.window_s, max_sources=rules.max_sources
        )
        self._held = HeldIndex(ledger)

    def record(
        self,
        observation: Observation,
        decided: Decision,
        recent_reads: RecentReads,
        follow_ups: FollowUps,
        rule_for_owner: RuleForOwner,
        asked: Mapping[str, str | None] | None = None,
    ) -> Decision:
        """Write an item and its ruling to the ledger. The ruling may become stricter: because of the items it rests on,
        and because of the owner of its record. ``asked`` is noted with it, for ``earlier_decision``."""
        taint_ruling, trust = self._policy.taint.ruling, self._policy.trust.table()
        for _ in range(_TRIES):
            echoed = () if taint_ruling is Ruling.ALLOW else echoes.echoed(observation, self._ledger, trust)
            rests_on = {*observation.parents, *recent_reads.links, *echoed}
            taint_verdict, states = taint.on_writing(
                observation, recent_reads.read, self._held, taint_ruling, echoed, rests_on
            )
            owner_verdict, seen_record = rule_for_owner(observation)
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
                claims = self._claims_of(observation)
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
                self._teach(observation, max(v.ruling for v in verdicts), verdicts)
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

    def recent_reads(self, observation: Observation, stated: bool) -> RecentReads:
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

    def before_decision(self, agent: str) -> tuple[str, ...]:
        """Items that the agent read since its last reported decision, as many as the policy lets count."""
        return self._read_history.before_decision(agent)


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
