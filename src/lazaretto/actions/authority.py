"""The interface of the last gate: judges a call, records it, and keeps people's answers. Every method blocks.

A call that only reads is recorded as a note, every other one as a decision that rests on the items it was made from.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from lazaretto.actions.call_log import (
    ASKED,
    CALLED,
    AgentView,
    CallLog,
    Lacking,
    PeopleAnswers,
    call_subject,
    endorsement_subject,
    listed_subject,
    task_subject,
    word_subject,
)
from lazaretto.actions.classes import Tool, guess, is_sum
from lazaretto.actions.judge import Call, Judge, Judgement
from lazaretto.actions.known_claims import KnownClaims
from lazaretto.actions.leaves import products
from lazaretto.actions.listing import Listing, listing_of
from lazaretto.actions.records import ActionClass, ActionSettings, Answer, Asked, Authorization, ValueKind, ValueOrigin
from lazaretto.actions.values import (
    account_form,
    accounts_in,
    all_else,
    fingerprint,
    plain_form,
    read_arguments,
    stands_in,
    value_form,
    values_of,
)
from lazaretto.errors import InputError, NotYours, StaleState, UnknownItem
from lazaretto.identity import Identity, require_not_own
from lazaretto.ledger import Ledger
from lazaretto.names import check_name
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass, new_id

MOST_RESTED_ON = 16
"""Items that a decision is linked to: those that named its values or carried it, then the least trusted in mind."""
SHOWN, SHOWN_TO_PEOPLE = 400, 4_000
"""Characters of a value that a decision keeps, and that a person who is asked sees."""
VERIFIER = "tool:"
_MOST_BEGUN = 10_000
_MOST_ANSWERED = 50_000
"""Lines of models' answers that are remembered by their digests, the newest."""
_NEWEST = 5_000
"""Items of any writer that are searched for a value which a person endorses."""


def classify(settings: ActionSettings, tool: Tool) -> tuple[ActionClass, str]:
    """The class of a tool, and the reason for it: the policy's entry, else a guess. A directory is read."""
    named = settings.named_class(tool.name)
    if named is not None:
        return named, "the policy names it"
    return (ActionClass.READ, "the policy names it as a directory") if settings.is_directory(tool.name) else guess(tool)


class Authority:
    """The last gate of one guard. Safe to share between threads."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy, file: str = "policy") -> None:
        self._ledger = ledger
        self.settings = ActionSettings.of(policy.actions, file)
        self._observes = "observe" in (policy.mode, self.settings.mode)
        self._limit = policy.limits.max_text_bytes
        own = policy.trust.table()[SourceClass.MODEL_INFERENCE]
        self._judge = Judge(self.settings, own, ledger.namespace)
        self._claims = KnownClaims(ledger, graph, policy)
        self._log = CallLog(ledger, graph, policy, self.settings)
        self.begun: dict[str, str] = {}
        """The task of each agent that was begun here last."""
        self._answered: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._calls_made: OrderedDict[str, None] = OrderedDict()
        self._counting = threading.Lock()

    def classify(self, tool: Tool) -> tuple[ActionClass, str]:
        """The class of a tool, and the reason for it."""
        return classify(self.settings, tool)

    def follows(self, agent: str) -> bool:
        """Whether calls of an agent are judged here, so that its mind is kept ready."""
        return self._log.follows(agent)

    def take_in(self, agent: str) -> None:
        """Take in the items an agent just read, so that its next call need not wait for it."""
        with self._log.about(agent):
            pass

    def has_in_mind(self, agent: str, item: str) -> bool:
        """Whether an agent read an item in its present task, or lately where it has none."""
        with self._log.about(agent) as view:
            return view.mind.has_read(item)

    def has_said(self, agent: str, text: str) -> None:
        """Note the answer of an agent's model here in its present task, line by line."""
        for line in _lines(text):
            self._answered[agent, f"{self.begun.get(agent, '')} {line}"] = None
        while len(self._answered) > _MOST_ANSWERED:
            self._answered.popitem(last=False)

    def said_before(self, agent: str, text: str) -> bool:
        """Whether the agent's model answered every line of a text here in its present task: an answer of an
        earlier task was made from items read then."""
        task = self.begun.get(agent, "")
        return all((agent, f"{task} {line}") in self._answered for line in _lines(text))

    def has_called(self, agent: str, tool: str, arguments: Any) -> None:
        """Note a call in an answer of an agent's model here."""
        self._calls_made[_call_digest(agent, tool, arguments)] = None
        while len(self._calls_made) > _MOST_ANSWERED:
            self._calls_made.popitem(last=False)

    def called_before(self, agent: str, tool: str, arguments: Any) -> bool:
        """Whether the agent's model made this call in an answer here."""
        return _call_digest(agent, tool, arguments) in self._calls_made

    def listing(self, tool: str, answer: Any) -> Listing | None:
        """The single values of a tool's answer, if the policy names the tool as a directory."""
        return listing_of(answer) if self.settings.is_directory(tool) else None

    def listed_draft(self, item: str, agent: str, listing: Listing) -> Draft:
        """The ledger's note of a directory's answer: its whole values, by their fingerprints."""
        space = self._ledger.namespace
        body: dict[str, Any] = {"item": item, "values": sorted({fingerprint(space, value) for value in listing.values})}
        if listing.spoken_of:
            body["spoken_of"] = sorted({fingerprint(space, value) for value in listing.spoken_of})
        return Draft(EventKind.NOTED, listed_subject(agent), agent, body)

    def authorize(
        self, tool: Tool, arguments: Any, agent: str, task: str | None = None, principal: str = ""
    ) -> Authorization:
        """Judge a call and record it. Where calls are counted, one is judged after the other."""
        if not any(self.settings.needs(action).max_per_hour for action in ActionClass):
            return self._authorize(tool, arguments, agent, task, principal)
        with self._counting:
            return self._authorize(tool, arguments, agent, task, principal)

    def _authorize(self, tool: Tool, arguments: Any, agent: str, task: str | None, principal: str) -> Authorization:
        given, raw = read_arguments(arguments, self._limit)
        if not tool.arguments:  # its schema is not known: use the names it is called with
            tool = replace(tool, arguments=tuple(given))
        action, _ = self.classify(tool)
        if action is ActionClass.EXECUTE and self.settings.named_class(tool.name) is None and is_sum(given):
            action = ActionClass.READ  # a calculator that is given nothing but numbers does nothing
        values = values_of(tool, given, action, self.settings)
        subject = call_subject(agent, tool.name, raw, principal)
        marks = [fingerprint(self._ledger.namespace, value.value) for value in values]
        read = Call(tool, action, values, marks, all_else(given, values), [*products(given)])
        with self._log.about(agent, task) as view:
            task_item = view.task.item if view.task is not None else ""
            words = [word_subject(agent, task_item, mark) for mark in marks] if task_item else []
            answers = PeopleAnswers(self._ledger, subject, marks, tool.name, action, words)
            made = self._judge.judge(read, view, answers, self._claims)
            rests_on = _rests_on(made, view)
        lacking = Lacking(task_item, made.lacks, made.destinations)
        call = _Call(tool, action, agent, given, subject, principal, made, rests_on, answers, lacking)
        if self._observes:
            return self._record(call, "allow", (), would=made.ruling)
        if made.ruling == "ask":
            return self._ask(call)
        return self._record(call, made.ruling, made.reasons)

    def _ask(self, call: _Call) -> Authorization:
        """A call that a person has to agree to: answers about exactly this call count."""
        state = call.answers.answered()
        if state.refused:
            return self._record(call, "block", (f"{state.by} refused exactly this call", *call.made.reasons))
        if state.approved:
            used = Draft(EventKind.NOTED, call.subject, call.agent, {"used": state.token})
            try:
                return self._record(call, "allow", (f"approved by {state.by}",), used, first=f"{_USED}{state.token}")
            except StaleState:  # another call used it a moment ago
                state = call.answers.answered(again=True)
        if state.waiting:
            return self._record(call, "ask", call.made.reasons, token=state.token)
        if by := call.answers.refused(call.made.lacks):
            return self._record(call, "block", (f"{by} refused this in this task", *call.made.reasons))
        token = new_id("ac")
        note = {"asked": token, "tool": call.tool.name, "class": call.action.value, "reasons": list(call.made.reasons)}
        shown = {
            **note,
            "arguments": _shown(call.arguments, SHOWN_TO_PEOPLE),
            "call": call.subject,
            "principal": call.principal,
            "lacking": call.lacking.note(),
        }
        drafts = (
            Draft(EventKind.NOTED, ASKED, call.agent, shown),
            Draft(EventKind.NOTED, call.subject, call.agent, note),
        )
        return self._record(call, "ask", call.made.reasons, *drafts, token=token)

    def _record(
        self,
        call: _Call,
        ruling: Answer,
        reasons: tuple[str, ...],
        *more: Draft,
        token: str = "",
        would: Answer | None = None,
        first: str | None = None,
    ) -> Authorization:
        decision, made = new_id("de"), call.made
        note: dict[str, Any] = {
            "tool": call.tool.name,
            "class": call.action.value,
            "ruling": ruling,
            "values": {mark: _own_trust(origin) for mark, origin in zip(made.marks, made.origins, strict=True)},
        }
        if first:
            note["approved"] = sorted(_seen_go_out(made))
        note |= {} if would is None else {"would": would, "why": list(made.reasons)}
        note |= {"principal": call.principal} if call.principal else {}
        if call.action is ActionClass.READ or (call.action is ActionClass.FETCH and ruling == "allow"):
            draft = Draft(EventKind.NOTED, CALLED, call.agent, {"id": decision, **note})
        else:
            note |= {"arguments": _shown(call.arguments), "reasons": list(reasons), "token": token}
            what = f"{ruling}: {call.tool.name} ({call.action.value})"
            body = {"what": what, "success": None, "rests_on": list(call.rests_on), "action": note}
            draft = Draft(EventKind.REPORTED, decision, call.agent, body)
        marks = [Draft(EventKind.NOTED, first, call.agent, {"used": True})] if first else []
        self._ledger.append([draft, *more, *marks], first=first)
        return Authorization(
            decision, ruling, call.tool.name, call.agent, call.action, reasons, made.control, made.origins, token, would
        )

    # answers of people

    def answer(self, token: str, agree: bool, by: str, caller: Identity | None = None) -> Asked:
        """A person's decision on a call that waits: yes lets exactly this call through once, no blocks it."""
        asked = self._waiting().get(token)
        if asked is None:
            raise UnknownItem(token, self._ledger.namespace, "token")
        question, subject, lacking = asked
        if agree:
            require_not_own(caller, by, [_as_item(question)])
        body = {"approved" if agree else "refused": token, "by": by}
        drafts = [Draft(EventKind.NOTED, subject, by, body), Draft(EventKind.NOTED, ASKED, by, {"answered": token})]
        agreed = {mark for mark, value in lacking.destinations.items() if not self._is_own(value, by, caller)}
        drafts += lacking.words(question, by, agreed if agree else None, subject)
        try:
            self._ledger.append(
                [*drafts, Draft(EventKind.NOTED, f"{_ANSWERED}{token}", by, body)], first=f"{_ANSWERED}{token}"
            )
        except StaleState:
            raise UnknownItem(token, self._ledger.namespace, "token") from None
        return question

    def answer_all(
        self, tokens: Sequence[str], agree: bool, by: str, caller: Identity | None = None
    ) -> tuple[Asked, ...]:
        """One answer for several calls of one agent's task, each as by ``answer``; none is answered if one of them
        does not wait, or is the person's own."""
        waiting = self._waiting()
        for token in tokens:
            if token not in waiting:
                raise UnknownItem(token, self._ledger.namespace, "token")
        asked = [waiting[token][0] for token in tokens]
        if len({(question.agent, question.task) for question in asked}) > 1:
            raise InputError("tokens", "are of several agents or tasks", "Answer those of each task by themselves")
        for question in asked if agree else ():
            require_not_own(caller, by, [_as_item(question)])
        return tuple(self.answer(token, agree, by, caller) for token in tokens)

    def waiting(self) -> tuple[Asked, ...]:
        """Calls that wait for a person, the newest first."""
        return tuple(
            sorted((question for question, _, _ in self._waiting().values()), key=lambda question: -question.time)
        )

    def _waiting(self) -> dict[str, tuple[Asked, str, Lacking]]:
        found: dict[str, tuple[Asked, str, Lacking]] = {}
        for event in self._ledger.events(subject=ASKED, kinds=(EventKind.NOTED,)):
            body = event.body or {}
            if "answered" in body:
                found.pop(body["answered"], None)
            elif "asked" in body:
                lacking = Lacking.of(body.get("lacking"))
                question = Asked(
                    body["asked"], event.agent, body["tool"], body["class"],
                    orjson.dumps(body["arguments"]).decode(), tuple(body["reasons"]), event.time,
                    str(body.get("principal", "")), lacking.task,
                )  # fmt: skip
                found[question.token] = (question, body["call"], lacking)
        return found

    # endorsement

    def endorse(self, value: str, purpose: str, by: str, caller: Identity | None = None) -> str:
        """Raise the trust of a value for one purpose: a class of actions or a tool. Returns the receipt's id.

        ``NotYours`` for a value that an item of ``by``, or of the ``caller``, names.
        """
        if not isinstance(value, str) or not value_form(value):
            raise InputError("value", "is empty or no text", "Give the account, address or name itself")
        check_name(purpose, "purpose", printable=True)
        if by.startswith(VERIFIER) and by.removeprefix(VERIFIER) not in self.settings.verifiers:
            fix = "Name it in actions.verifiers, or let a person endorse the value"
            raise InputError("by", f"{by.removeprefix(VERIFIER)!r} is no verifier", fix)
        self._require_not_own(value, by, caller)
        receipt = new_id("en")
        mark = fingerprint(self._ledger.namespace, value)
        body = {"endorsed": receipt, "purpose": purpose, "by": by}
        self._ledger.append([Draft(EventKind.NOTED, endorsement_subject(mark), by, body)])
        return receipt

    def _require_not_own(self, value: str, by: str, caller: Identity | None) -> None:
        require_not_own(caller, by, self._naming(value, {by, *((caller.name, *caller.agents) if caller else ())}))

    def _is_own(self, value: str, by: str, caller: Identity | None) -> bool:
        """Whether who answers brought a value in: then a yes is good for the one call alone."""
        try:
            self._require_not_own(value, by, caller)
        except NotYours:
            return True
        return False

    def _naming(self, value: str, names: set[str]) -> list[Observation]:
        """Items that name a value: of the newest ones, and of all that were written under some names."""
        found = self._ledger.items(any_state=True, limit=_NEWEST)
        for name in names:
            found += self._ledger.items(agent=name, any_state=True, limit=None)
        account, form = account_form(value), value_form(value)
        if account:
            return [item for item in found if account in accounts_in(item.text)]
        return [item for item in found if stands_in(form, plain_form(item.text))]

    # tasks

    def task_drafts(self, item: str, agent: str, tools: tuple[str, ...]) -> list[Draft]:
        """Events that begin a task with an item given to an agent."""
        self.begun[agent] = item
        while len(self.begun) > _MOST_BEGUN:
            del self.begun[next(iter(self.begun))]
        body = {"item": item, "tools": list(tools)}
        moment = time.time()
        read = Draft(EventKind.RETRIEVED, item, agent, time=moment)
        return [Draft(EventKind.NOTED, task_subject(agent), agent, body, time=moment), read]


_USED, _ANSWERED = "actions:used:", "actions:answer:"


def _call_digest(agent: str, tool: str, arguments: Any) -> str:
    return call_subject(agent, tool, orjson.dumps(arguments, default=str, option=orjson.OPT_SORT_KEYS))


@dataclass(frozen=True, slots=True)
class _Call:
    """One call on its way to the ledger."""

    tool: Tool
    action: ActionClass
    agent: str
    arguments: Mapping[str, Any]
    subject: str
    principal: str
    made: Judgement
    rests_on: tuple[str, ...]
    answers: PeopleAnswers
    lacking: Lacking


def _as_item(asked: Asked) -> Observation:
    """A call as a message of its agent: nobody may agree to their own."""
    return Observation(agent=asked.agent, channel=Channel.MESSAGE, principal=asked.principal, id=asked.token)


def _rests_on(made: Judgement, view: AgentView) -> tuple[str, ...]:
    named = [item for origin in made.origins for item in (origin.item, origin.against) if item]
    named += [made.control.item] if made.control.item else []
    named += [view.task.item] if view.task is not None else []
    return tuple(dict.fromkeys([*named, *view.mind.weakest(MOST_RESTED_ON)]))[: 2 * MOST_RESTED_ON]


def _seen_go_out(made: Judgement) -> set[str]:
    """The parts that a person who agrees sees go out, by fingerprint: destinations and names, each a whole argument."""
    parts = Counter(origin.argument for origin in made.origins)
    kinds = (ValueKind.DESTINATION, ValueKind.NAME)
    both = zip(made.marks, made.origins, strict=True)
    return {mark for mark, origin in both if origin.kind in kinds and parts[origin.argument] == 1}


def _own_trust(origin: ValueOrigin) -> float:
    """The trust of a value that the crew hands out, when it is read again: a yes does not count in another task."""
    return 0.0 if origin.found == "agreed" else origin.trust


def _lines(text: str) -> list[str]:
    """The lines of a text that say something, by their digests."""
    lines = (plain_form(line) for line in text.splitlines())
    lines_with_words = (line for line in lines if any(map(str.isalnum, line)))
    return [hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:24] for line in lines_with_words]


def _shown(value: Any, most: int = SHOWN) -> Any:
    """Arguments for people: cut values are marked."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    if isinstance(value, list):
        cut = [f"… ({len(value)} values)"] if len(value) > SHOWN else []
        return [*(_shown(part, most) for part in value[:SHOWN]), *cut]
    if isinstance(value, Mapping):
        return {_shown(key, SHOWN): _shown(part, most) for key, part in value.items()}
    return value
