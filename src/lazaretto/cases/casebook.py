"""The history of the case library, in the ledger: every case, every version, who let it in and why.

A case library can be poisoned. So cases pass screens (its own, and the memory gate), a version goes live by an event of
its own and can be rolled back, and items of evaluation sets are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lazaretto.cases.library import CaseLibrary, NearDuplicateIndex, normal, read_case, starter_cases
from lazaretto.cases.records import Case, Label
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import Tail
from lazaretto.models.protocol import TextEmbedder
from lazaretto.reading.injections import find_injections, visible
from lazaretto.types import Draft, EventKind, plain

Admit = Callable[[Case], str]
"""The memory gate's opinion of a case: empty to let it in, else why not. The guard gives it; the library never
imports a gate.
"""

STARTER = "starter"
"""Version name of the library that ships, before anything was added."""
_SUBJECT, _PROTECTED = "case-library", "evaluation-set"
_MAX_CASE_CHARS = 20_000
_TELLING = 16
"""Characters from which a text of fewer than four words tells what it is: Chinese and Thai write without spaces."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A case that was not let in."""

    case: str
    """Its id."""
    reason: str
    item: str = ""
    """The evaluation item or the case it clashes with, by name."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The result of offering cases."""

    version: str
    """The version that holds them; not live until ``go_live``."""
    added: tuple[str, ...]
    merged: tuple[tuple[str, str], ...]
    """(offered, existing) pairs that are the same content."""
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the library."""

    name: str
    parent: str
    cases: tuple[str, ...]
    reason: str
    time: float
    by: str = ""
    """Who last put it in use; empty where nobody did."""
    preview: Mapping[str, Any] | None = None


class Casebook:
    """One tenant's case library and its versions."""

    def __init__(self, ledger: Ledger, *, starter: bool = True) -> None:
        """``starter=False`` begins with an empty library (the paper's cold start)."""
        self._tenant, self._ledger = ledger, _book_of(ledger)
        base = starter_cases() if starter else ()
        self._cases: dict[str, Case] = {case.id: case for case in base}
        self._shipped = frozenset(self._cases)
        self._versions: dict[str, Version] = {
            STARTER: Version(STARTER, "", tuple(self._cases), "ships with the package", 0.0)
        }
        self._live = [STARTER]
        self._protected = NearDuplicateIndex()
        self._tail = Tail(self._ledger, (EventKind.NOTED, EventKind.ERASED))
        self._case_of: dict[str, str] = {}
        self.read = 0
        """How far the tenant's ledger was read for cases; see ``revise``."""
        self.refresh()

    def refresh(self) -> None:
        """Take in what other processes have recorded since."""
        for event in self._tail.new():
            body = event.body
            if event.kind is EventKind.ERASED:
                self._cases.pop(event.subject, None)
                continue
            if body is None:
                continue
            what = body.get("what")
            if what == "case":
                self._cases[event.subject] = read_case(body["case"], event.subject)
                if "item" in body:
                    self._case_of[str(body["item"])] = event.subject
            elif what == "version":
                name = str(body["version"])
                self._versions[name] = Version(
                    name,
                    str(body["parent"]),
                    tuple(body["cases"]),
                    str(body["reason"]),
                    event.time,
                    preview=body.get("preview"),
                )
                self.read = max(self.read, int(body.get("read", 0)))
            elif what == "read":
                self.read = max(self.read, int(body["read"]))
            elif what == "live":
                name = str(body["version"])
                self._live.append(name)
                if name in self._versions:
                    self._versions[name] = replace(self._versions[name], by=str(body["by"]))
            elif what == "protect":
                for item, words in body["items"].items():
                    self._protected.add(item, words)

    def stands_for(self, item: str) -> str | None:
        """The case that was made from an item by ``revise``, if any."""
        return self._case_of.get(item)

    @property
    def has_learnt(self) -> bool:
        """Whether it has cases beyond those that ship."""
        return not self._cases.keys() <= self._shipped

    @property
    def live(self) -> str:
        """The name of the version in use."""
        return self._live[-1]

    def versions(self) -> tuple[Version, ...]:
        """Every version, oldest first."""
        return tuple(self._versions.values())

    def cases(self, version: str | None = None) -> tuple[Case, ...]:
        """The cases of a version, the live one by default."""
        ids = self._version(version or self.live).cases
        return tuple(self._cases[key] for key in ids if key in self._cases)  # others were erased with their item

    def library(
        self, embedder: TextEmbedder | None = None, version: str | None = None, cache_folder: Path | None = None
    ) -> CaseLibrary:
        """A version as something to retrieve from."""
        return CaseLibrary(self.cases(version), embedder, cache_folder)

    def _version(self, name: str) -> Version:
        try:
            return self._versions[name]
        except KeyError:
            known = ", ".join(list(self._versions)[-5:])
            raise InputError("version", f"no library version {name!r}", f"Known: {known}") from None

    def protect(self, items: Mapping[str, str]) -> int:
        """Name evaluation items whose content must never enter the library; returns how many are new."""
        fresh = {
            key: words[:_MAX_CASE_CHARS]
            for key, words in items.items()
            if words.strip() and self._protected.find(words, 1.0) is None
        }
        keys = list(fresh)
        drafts = [
            Draft(
                EventKind.NOTED,
                _PROTECTED,
                "curator",
                {"what": "protect", "items": {k: fresh[k] for k in keys[i : i + 200]}},
            )
            for i in range(0, len(keys), 200)
        ]
        self._ledger.append(drafts)
        self.refresh()
        return len(fresh)

    def leaks(self, cases: Iterable[Case]) -> tuple[Refusal, ...]:
        """The cases that overlap a protected evaluation item, each with the item's name."""
        return tuple(found for case in cases if (found := self._leak(case)) is not None)

    def _leak(self, case: Case) -> Refusal | None:
        for part in dict.fromkeys((case.words, case.text, case.description)):
            match = self._protected.find(part) or self._protected.within(part) if normal(part) else None
            if match is not None and (match.share == 1 or len(part.split()) >= 4 or len(part) >= _TELLING):
                return Refusal(case.id, f"overlaps an evaluation item ({match.share:.0%} of its shingles)", match.key)
        return None

    def offer(self, cases: Sequence[Case], reason: str, admit: Admit | None = None) -> Intake:
        """Screen cases and put those that pass into a new version on top of the live one. It is not live yet."""
        self.refresh()
        base = self._version(self.live)
        kept, merged, refused = self._screened(base.cases, cases, admit)
        added = tuple(key for key in kept if key not in base.cases)
        ids = tuple(dict.fromkeys((*base.cases, *kept)))
        version = self._record(base.name, ids, kept, reason)
        return Intake(version, added, tuple(merged), tuple(refused))

    def _screened(
        self, base: Sequence[str], cases: Sequence[Case], admit: Admit | None
    ) -> tuple[dict[str, Case], list[tuple[str, str]], list[Refusal]]:
        """Cases that may be added to ``base``, pairs of a duplicate and its twin, and refusals."""
        index = NearDuplicateIndex()
        for key in base:
            if key in self._cases:
                index.add(key, self._cases[key].words)
        kept: dict[str, Case] = {}
        merged: list[tuple[str, str]] = []
        refused: list[Refusal] = []
        for case in cases:
            why = self._leak(case) or _screen(case)
            if why is None and admit is not None and (reason := admit(case)):
                why = Refusal(case.id, f"the memory gate refused it: {reason}")
            match = index.find(case.words) if why is None else None
            if match is not None:
                twin = kept.get(match.key) or self._cases[match.key]
                if twin.label is not case.label:
                    why = Refusal(
                        case.id, f"contradicts a case of the same content labelled {twin.label.value}", twin.id
                    )
                else:
                    merged.append((case.id, twin.id))
                    union = _merge(twin, case)
                    if union != twin:
                        kept[twin.id] = union
                    continue
            if why is not None:
                refused.append(why)
                continue
            kept[case.id] = case
            index.add(case.id, case.words)
        return kept, merged, refused

    def revise(
        self, lessons: Mapping[str, Case | None], read: int, admit: Admit, *, by: str, erased: Collection[str] = ()
    ) -> Intake:
        """Let every item of ``lessons`` stand for the case given, or for none, and go live: in one step or not at all.

        ``read``: how far the tenant's ledger was read for them. The case that an item stood for before goes; that of
        an erased item is erased, too. A case nearly the same as a known one adds nothing. A second call with the
        same lessons changes nothing more.
        """
        self.refresh()
        base = self._version(self.live)
        old = {item: key for item in lessons if (key := self._case_of.get(item)) is not None}
        gone = {key for item, key in old.items() if (new := lessons[item]) is None or new.id != key}
        gone -= {key for item, key in self._case_of.items() if item not in lessons}
        self._erase({old[item] for item in erased if item in old} & gone)
        left = tuple(key for key in base.cases if key not in gone)
        item_of = {case.id: item for item, case in lessons.items() if case is not None and case.id not in left}
        offered = [case for case in lessons.values() if case is not None and case.id in item_of]
        overruled = self._overruled(left, offered)
        kept, merged, refused = self._screened([key for key in left if key not in overruled], offered, admit)
        added = {key: case for key, case in kept.items() if key in item_of}
        left = tuple(key for key in left if overruled.get(key) not in added)
        version = base.name
        if added or len(left) < len(base.cases):
            reason = f"{len(added)} learnt, {len(base.cases) - len(left)} withdrawn by the loop"
            version = self._record(base.name, (*left, *added), added, reason, items=item_of, read=read, live=by)
        elif read > self.read:
            self._ledger.append([Draft(EventKind.NOTED, _SUBJECT, by, {"what": "read", "read": read})])
            self.refresh()
        return Intake(version, tuple(added), tuple(merged), tuple(refused))

    def _overruled(self, base: Sequence[str], offered: Sequence[Case]) -> dict[str, str]:
        """Learnt cases called safe that are nearly the same as one called unsafe now, with the id of that one: the word
        on a twin keeps no later finding out."""
        index = NearDuplicateIndex()
        for key in base:
            if key in self._cases and key not in self._shipped and self._cases[key].label is Label.SAFE:
                index.add(key, self._cases[key].words)
        unsafe = (case for case in offered if case.label is Label.UNSAFE)
        return {match.key: case.id for case in unsafe if (match := index.find(case.words)) is not None}

    def follow_erasures(self) -> None:
        """Erase the cases that were made from items which are erased by now, and from no other."""
        self.refresh()
        states = self._tenant.states(list(self._case_of))
        gone = {item for item in self._case_of if item in states and states[item].erased}
        found = {key for item, key in self._case_of.items() if item in gone}
        self._erase(found - {key for item, key in self._case_of.items() if item not in gone})

    def _erase(self, cases: Collection[str]) -> None:
        for key in sorted(cases & self._cases.keys()):
            self._ledger.erase(key, "the item that it was made from was erased")
            self._cases.pop(key, None)

    def _record(
        self,
        parent: str,
        ids: tuple[str, ...],
        fresh: Mapping[str, Case],
        reason: str,
        *,
        items: Mapping[str, str] | None = None,
        read: int = 0,
        live: str = "",
    ) -> str:
        """Record a version with its new cases; ``items``: the item behind each; ``live``: who puts it in use."""
        known = [fresh.get(key) or self._cases[key] for key in ids if key in fresh or key in self._cases]
        name = f"v{len(self._versions)}-{CaseLibrary(known).version}"
        drafts = []
        for key, case in fresh.items():
            note: dict[str, Any] = {"what": "case", "case": {**plain(case), "id": key}}
            if items is not None:
                note["item"] = items[key]
            drafts.append(Draft(EventKind.NOTED, key, "curator", note))
        body = {"what": "version", "version": name, "parent": parent, "cases": list(ids), "reason": reason}
        drafts.append(Draft(EventKind.NOTED, _SUBJECT, "curator", {**body, "read": read} if read else body))
        if live:
            drafts.append(_going_live(name, live))
        self._ledger.append(drafts)
        self.refresh()
        return name

    def go_live(self, version: str, *, by: str, preview: Mapping[str, Any] | None = None) -> None:
        """Use a version from now on; the preview that justified it is recorded with it."""
        self._version(version)
        self._ledger.append([_going_live(version, by, preview)])
        self.refresh()

    def roll_back(self, to: str | None = None, *, by: str) -> str:
        """Go back to an earlier version (the one that was live before, by default); returns its name."""
        self.refresh()
        target = to or self._before_live()
        self.go_live(target, by=by, preview=None)
        return target

    def _before_live(self) -> str:
        parent = self._version(self.live).parent
        if not parent:
            raise InputError("version", "the live library is the first one", "There is nothing to roll back to")
        return parent


def _book_of(ledger: Ledger) -> Ledger:
    return ledger.within(f"{ledger.namespace}.cases")


def erase_cases_of_erased(ledger: Ledger) -> None:
    """Erase the cases that were made from erased items of a tenant."""
    if _book_of(ledger).head().seq:
        Casebook(ledger, starter=False).follow_erasures()


def _going_live(version: str, by: str, preview: Mapping[str, Any] | None = None) -> Draft:
    body = {"what": "live", "version": version, "by": by, "preview": dict(preview) if preview else None}
    return Draft(EventKind.NOTED, _SUBJECT, by, body)


def _merge(twin: Case, case: Case) -> Case:
    """The twin with the other's cues added; its content, and so its id, stays."""
    cues = tuple(dict.fromkeys((*twin.cues, *case.cues)))[:8]
    hazards = tuple(dict.fromkeys((*twin.hazards, *case.hazards)))
    return replace(twin, cues=cues, hazards=hazards, summary=twin.summary or case.summary)


def _screen(case: Case) -> Refusal | None:
    """Why the library refuses a case: no content, too long, or orders to the judges in its advice; else None."""
    if not case.words:
        return Refusal(case.id, "has no content")
    if len(case.words) > _MAX_CASE_CHARS:
        return Refusal(case.id, f"longer than {_MAX_CASE_CHARS:,} characters")
    orders = ("orders the judges", "orders to ignore the instructions", "closes a delimiter")
    for line in (*case.cues, case.summary):
        kind = next((a.kind for a in find_injections(line) if a.kind in orders), "")
        kind = kind or next((kind for kind, pattern in _TO_JUDGES if pattern.search(visible(line))), "")
        if kind:
            return Refusal(case.id, f"its cues speak to the judges ({kind})")
    return None


_ROLE = r"(?:judges|judge|jury|jurors?|moderators?|classifiers?|system|assistant|richter\w*|juez|jueces|juges?)"
_LIKE = r"(?:similar|resembl\w+|alike|ähnlich\w*|solche\w*|parecid\w*|semejante\w*|semblable\w*)"
_MUST = r"(?:always|every|must|has to|have to|immer|stets|jede\w*|siempre|cada|toujours|chaque)"
_PASSES = r"(?:safe|allowed|benign|harmless|sicher|erlaubt|harmlos|segur[oa]s?|permitid[oa]s?|sûre?s?|permise?s?)"
_SETS = r"(?:set|give|assign|put|setze?|pon|mets|mettez)"
_DEBATE = r"(?:debaters?|arbiters?|judges?|jury|jurors?|moderators?|richter\w*|juez|jueces|juges?)"
_NOT_HEARD = r"(?:ignore|disregard|overrule|skip|ignorier\w*|übergeh\w*|ignora\w*|ignore[zr])"
_TO_JUDGES = (
    ("silences a judge", re.compile(rf"\b{_NOT_HEARD}\b[^.\n]{{0,30}}\b{_DEBATE}\b", re.I)),
    ("calls the judges", re.compile(rf"(?:^|[\n.!?])\W{{0,4}}{_ROLE}\s{{0,2}}:", re.I)),
    (
        "sets a score",
        re.compile(rf"\b{_SETS}\b[^.\n]{{0,30}}(?:risk|score|risiko|riesgo|risque)[^.\n]{{0,20}}\b[01]\b", re.I),
    ),
    ("rules about others", re.compile(rf"\b{_LIKE}\b[^.\n]{{0,60}}\b{_MUST}\b[^.\n]{{0,30}}\b{_PASSES}\b", re.I)),
    ("rules about others", re.compile(rf"\b{_MUST}\b[^.\n]{{0,40}}\b{_LIKE}\b[^.\n]{{0,60}}\b{_PASSES}\b", re.I)),
    (
        "closes a delimiter",
        re.compile(r"[\[<({]{2}[^\n]{0,40}\b(?:end|close)\b|\bend of (?:the )?precedents?\b", re.I),
    ),
)
"""Advice describes one case. What it may not do: call the judges, set their score, or rule about other texts."""
