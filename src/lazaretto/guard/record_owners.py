"""Owners of records in callers' stores: who may change and delete a record, by what stands in it and who wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lazaretto.errors import Forbidden
from lazaretto.gates.memory.claims.comparison import differences, opposed_in_words
from lazaretto.gates.memory.claims.extraction import MAX_PASSAGE_CHARS, read_claim
from lazaretto.gates.memory.claims.update_rule import Witness, at_stake, newcomer, witnesses
from lazaretto.gates.memory.claims.values import values_in
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import RefState, SeenRecord, seen_record
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import (
    Evidence,
    Observation,
    Ref,
    Ruling,
    SourceClass,
    Verdict,
    is_author,
    principal_of,
    same_author,
)

RECORDS = "records"
"""The name in verdicts and rules, in the place of a gate's name."""
OTHERS_RECORD = "others_record"
_PEOPLE = frozenset({SourceClass.DIRECT_USER, SourceClass.SYSTEM})
_RECEIVERS = frozenset({"account", "mail", "phone", "package"})
_WHEN = frozenset({"date", "year", "time"})
_MOST_READ, _MOST_VALUES = 20_000, 10_000
"""Characters of a record in which receivers are looked for, and of values in them."""
_AROUND = 100
"""Characters around a change: they may say what the value is."""
_WEIGHTY_NAME = re.compile(
    r"\b(?:banks?|iban|accounts?|payees?|payments?|pay|invoices?|wallets?|beneficiar(?:y|ies)|payroll|salar(?:y|ies)|"
    r"passwords?|secrets?|tokens?|credentials?|(?:api )?keys?|permissions?|privileges?|roles?|access|approv(?:er|al)s?|"
    r"limits?|polic(?:y|ies)|contacts?|hotlines?|allerg(?:y|ies)|doses?|dosages?|medications?|webhooks?|endpoints?)\b",
    re.I)  # fmt: skip


class RecordOwners:
    """Says who may change and delete the records of one namespace. Every call blocks."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy) -> None:
        self._ledger, self._graph, self._policy = ledger, graph, policy

    def verdict(self, observation: Observation, *, stands: bool = False) -> Verdict | None:
        """The verdict for the owner of a record on another version of it; None where the owner has nothing against it.

        ``stands``: the version is in the store already, from any writer, and its reader is not its writer.
        """
        return self._verdict(observation, self._state(observation), stands)

    def ruled(self, observation: Observation, *, stands: bool = False) -> tuple[Verdict | None, SeenRecord]:
        """``verdict``, with the record as it was seen when it was made."""
        state = self._state(observation)
        return self._verdict(observation, state, stands), seen_record(state)

    def _state(self, observation: Observation) -> RefState | None:
        ref = observation.ref
        return None if ref is None else self._ledger.ref_states([ref]).get(ref)

    def _verdict(self, observation: Observation, state: RefState | None, stands: bool) -> Verdict | None:
        if self._policy.refs.others is Ruling.ALLOW:
            return None
        if state is None or not state.owner or state.owner_held:
            return None
        known = {
            item.id: item for item in self._ledger.items(ids=[state.owner, state.wanted or state.owner], any_state=True)
        }
        owner, current = known.get(state.owner), known.get(state.wanted or state.owner)
        if owner is None or current is None or observation.id in known or _same(current, observation):
            return None
        weighty = is_weighty(current, observation)
        if stands and not weighty:
            return None
        trust = self._policy.trust.table()
        new = newcomer(observation, self._graph, trust)
        old = witnesses([current], self._graph, trust)[current.id]
        return None if _may(observation, owner, new, old, weighty) else self._held(observation, owner, old, new)

    def require_owner(self, ref: Ref, agent: str, principal: str) -> None:
        """``Forbidden`` unless a record belongs to this writer, or has no owner."""
        state = self._ledger.ref_states([ref]).get(ref)
        if state is None or not state.owner:
            return
        owner = self._ledger.item(state.owner)
        if not is_author(agent, principal, owner.agent, principal_of(owner)):
            raise Forbidden(
                f"the record {tuple(ref)} belongs to {owner.agent!r}, not to {agent!r}; a reviewer may delete it"
            )

    def _held(self, observation: Observation, owner: Observation, old: Witness, new: Witness) -> Verdict:
        words = (
            f"Changes the record {tuple(observation.ref or ())}, which belongs to {owner.agent!r}: what stands there "
            f"({old.item}) has trust {old.trust:.2g}, this {new.trust:.2g}. Its owner or a person may change it."
        )
        data = {"owner": owner.id, "item": old.item, "trust": round(new.trust, 2)}
        return Verdict(
            RECORDS, observation.id, self._policy.refs.others, 0.6, (0.2, 1.0), OTHERS_RECORD,
            (Evidence("match", words, data),), ("ASI03", "ASI06"),
        )  # fmt: skip


def _may(observation: Observation, owner: Observation, new: Witness, old: Witness, weighty: bool) -> bool:
    """Whether a writer may change the content of a record."""
    if same_author(observation, owner):  # the owner, unless a more trusted writer wrote there since
        return new.trust >= old.trust or (not weighty and new.same_voice(old))
    return new.trust >= old.trust and (not weighty or observation.source in _PEOPLE)


def _same(first: Observation, second: Observation) -> bool:
    return (first.text, first.value, first.image) == (second.text, second.value, second.image)


def is_weighty(old: Observation, new: Observation) -> bool:
    """Whether one version of a record differs from another in something that is at stake."""
    names = [
        part for item in (old, new) if item.ref for part in (item.ref.namespace, item.ref.key, *_names(item.value))
    ]
    if _WEIGHTY_NAME.search(" ".join(_spoken(name) for name in names)):
        return True
    before, after = _changed(old.text, new.text)
    if max(len(before), len(after)) > _MOST_READ:
        return True  # nobody can tell
    ours, theirs = _receivers(old.text[:_MOST_READ] + "\n" + before), _receivers(after)
    if any(ours[kind] and theirs[kind] - ours[kind] for kind in ours):
        return True
    if max(len(old.text), len(new.text)) > MAX_PASSAGE_CHARS:
        return False
    earlier, later = read_claim(old.text), read_claim(new.text)
    differing = {difference.kind for difference in differences(earlier, later)} - _WHEN
    return bool(differing or opposed_in_words(earlier, later)) and at_stake(earlier, later)


def _changed(old: str, new: str) -> tuple[str, str]:
    """The part in which two texts differ, as it was and as it is, with some words around it."""
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    begin, end = max(0, begin - _AROUND), max(0, end - _AROUND)
    return old[begin : len(old) - end], new[begin : len(new) - end]


def _alike(first: str, second: str) -> int:
    """The number of characters in which two texts begin alike."""
    differing = (place for place, (ours, theirs) in enumerate(zip(first, second, strict=False)) if ours != theirs)
    return next(differing, min(len(first), len(second)))


def _receivers(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {kind: set() for kind in (*_RECEIVERS, "host")}
    for value in values_in(text, _MOST_VALUES):
        if value.kind in _RECEIVERS:
            found[value.kind].add(value.norm)
        elif value.kind == "host":
            found["host"].add(value.norm.split("/", 1)[0].split(":", 1)[0])
    return found


def _spoken(name: str) -> str:
    """A name in words: ``vendorBank`` and ``vendor_bank`` are about a bank."""
    return re.sub(r"[\W_\d]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))


def _names(value: Any) -> Iterator[str]:
    """The keys of a value, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
