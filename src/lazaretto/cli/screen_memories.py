"""``lazaretto screen`` where a line brings memories: it is judged as if those had been remembered before it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazaretto.errors import InputError
from lazaretto.ingest.raw_input import RawInput, read_observation
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.policy import DEFAULT_TRUST, Limits
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Observation, Verdict, new_id

if TYPE_CHECKING:
    from lazaretto.gates.memory.gate import MemoryGate

MAX_MEMORIES = 1_000
_KNOWN = {"text", "source", "agent"}


def read_memories(given: Any, number: int) -> tuple[Observation, ...]:
    """The memories of a line; ``InputError`` names the line, the memory and the field."""
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MAX_MEMORIES:
        raise InputError(
            f"line {number}: memories", "is not a list of at most 1,000 memories", 'For example [{"text": "..."}]'
        )
    return tuple(_memory(entry, f"line {number}: memories[{place}]", place) for place, entry in enumerate(given))


def _memory(given: Any, where: str, place: int) -> Observation:
    if not isinstance(given, dict):
        raise InputError(where, "is not a JSON object", 'For example {"text": "...", "source": "direct_user"}')
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise InputError(where, f"unknown field {unknown[0]!r}", f"Use {', '.join(sorted(_KNOWN))}")
    text = given.get("text")
    if not isinstance(text, str) or not text:
        raise InputError(f"{where}.text", "is missing or not text", "Give what was remembered")
    try:
        # writers that are not named are different ones: nobody is taken for the maker of another's claim
        raw = RawInput(given.get("agent") or f"unnamed-{place}", Channel.MEMORY, text, source=given.get("source"))
        return read_observation(raw, "screen", Limits())
    except InputError as error:
        raise InputError(f"{where}.{error.field}", error.problem, error.fix) from None


class Rooms:
    """A store for the time of one command, with a namespace for each line that brings memories."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lazaretto-screen-")
        self._ledger: Ledger | None = None
        self._count = 0

    def close(self) -> None:
        """Delete the temporary store."""
        if self._ledger is not None:
            self._ledger.close()
        self._folder.cleanup()

    def compare(
        self, gate: MemoryGate, verdict: Verdict, new: Observation, memories: tuple[Observation, ...]
    ) -> tuple[Verdict, str, list[int]]:
        """The verdict with the evidence of the memories, the relation, and the memories it is to."""
        from lazaretto.gates.memory.claims.consequences import claim_evidence, with_claims

        settings, trust = gate.settings.claims, DEFAULT_TRUST.table()
        if not new.text:
            return verdict, "none", []
        if not memories:
            return with_claims(verdict, gate.claims.judge_alone(new, trust), settings), "none", []
        self._count += 1
        if self._ledger is None:
            self._ledger = Ledger.open(f"sqlite:///{Path(self._folder.name) / 'ledger.db'}")
        ledger = self._ledger.within(f"line-{self._count}")
        kept = [replace(memory, id=new_id(), namespace=ledger.namespace) for memory in memories]
        ledger.append([seen_draft(memory) for memory in kept])
        for memory in kept:
            gate.claims.reader.keep(ledger, memory.id, memory.text)
        graph = ProvenanceGraph(ledger)
        screened = replace(new, parents=(), namespace=ledger.namespace)
        judged = gate.claims.judge(screened, ledger, graph, trust, name_agreeing=True)
        place = {memory.id: number for number, memory in enumerate(kept)}
        found = with_claims(verdict, judged, settings)
        relation = claim_evidence([found]) or {"relation": "none", "with": []}
        named = [place[item] for item in relation["with"] if item in place]
        return _renamed(found, place), str(relation["relation"]), sorted(named)


def _renamed(verdict: Verdict, place: dict[str, int]) -> Verdict:
    """The verdict in the caller's terms: memories by their numbers, not by ids that nobody else knows."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            for item, number in place.items():
                value = value.replace(item, f"memories[{number}]")
            return value
        if isinstance(value, (list, tuple)):
            return [renamed(part) for part in value]
        if isinstance(value, dict):
            return {renamed(key): renamed(part) for key, part in value.items()}
        return value

    evidence = tuple(
        replace(evidence, summary=renamed(evidence.summary), data=renamed(dict(evidence.data)))
        for evidence in verdict.evidence
    )
    return replace(verdict, evidence=evidence)
