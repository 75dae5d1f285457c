"""Copies stand as the words say that count.

When a word is given, replaced or taken back, those that were given it are told anew: what the last word says that
counts and was given for them, else they stand as the gates left them, and wait for a person. What gates decide about a
copy after a word overrules it. Nothing is removed: what a copy was told is set aside by a ``WITHDRAWN`` event.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lazaretto.errors import StaleState, StoreUnavailable
from lazaretto.gates.engine.recheck_queue import TENDED
from lazaretto.learn.spoken import WORD, Spoke, Spoken, names_a_word, origin, word_of
from lazaretto.ledger import ItemState, Ledger, changes_of, with_change
from lazaretto.ledger.history import states_before
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint import of_clean_descent
from lazaretto.provenance.taint_rulings import TaintRulings, log_acts
from lazaretto.types import BY_PERSON, COPY_OF, MACHINE, Decision, Draft, Event, EventKind, Ruling, plain

_TRIES = 10
CHANGED = "it was changed since by something else"
LEFT = "it was blocked before by a word that an older version let stand for it; label it by itself"
Key = int | str
"""A word: a label by its number, a release by its receipt."""


@dataclass(slots=True)
class Aligned:
    """What became of copies."""

    changed: list[str] = field(default_factory=list)
    """Those that stand otherwise now, or for another reason."""
    held: tuple[str, ...] = ()
    """What came from them and is held now, because they are."""
    released: tuple[str, ...] = ()
    """What came from them and is held no longer."""
    left: dict[str, str] = field(default_factory=dict)
    """Those that stay as they are, with the reason."""


@dataclass(slots=True)
class _Copy:
    """How a copy stands, and how it should."""

    item: str
    given: list[Event]
    """What it was told, and stands for."""
    now: ItemState
    before: ItemState
    """As the gates left it."""
    word: Event | None
    """What tells it the word that counts; None: nothing."""
    key: Key = 0
    tainted: bool = False
    """Whether it is held for what it was made from, since it was told."""
    passed: Sequence[int] = ()
    """Events that held it for that, and released it again."""

    @property
    def returns(self) -> bool:
        """Whether words let it be in use, once it stands as it should."""
        return self.before.visible if self.word is None else _label(self.word) == "benign"

    @property
    def shows(self) -> bool:
        """Whether it would come into use because no word counts for it any more."""
        return self.word is None and self.before.visible and not self.now.visible

    @property
    def as_told(self) -> bool:
        """Whether it stands as it was told, but for what it was made from."""
        told = self.before
        for event in self.given:
            for _, name, value in changes_of(event.kind, event.subject, event.body):
                told = with_change(told, name, value)
        return self.now == (replace(told, ruling=self.now.ruling) if self.tainted else told)


class Alignment:
    """Keeps the copies of one ledger in step with what was said. Safe to share between threads; every call blocks."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, taints: TaintRulings) -> None:
        self._ledger, self._graph, self._taints = ledger, graph, taints
        self._spoke, self._lock = Spoke(ledger), threading.RLock()
        self._read = 0
        self._copies: dict[str, dict[str, None]] = {}
        """Item -> those that were ever given a word on it."""

    def copies(self) -> list[str]:
        """Everything that was ever given a word as a copy."""
        with self._lock:
            self._follow()
            return list(dict.fromkeys(copy for found in self._copies.values() for copy in found))

    def given(self, item: str, word: Key) -> dict[str, str]:
        """The copies that were given a word on an item, each with the label; whatever was said of them later."""
        return {copy: _label(event) for copy, event in self._given(item, word).items()}

    def condemned_with(self, items: Collection[str]) -> list[str]:
        """Copies that were given a word on one of these items: harmful. Who wrote one does not change that word."""
        found = [self._given(item, None) for item in items]
        return [copy for given in found for copy, event in given.items() if _label(event) == "harmful"]

    def _given(self, item: str, word: Key | None) -> dict[str, Event]:
        """What told copies a word on an item; without ``word`` the one that counts."""
        with self._lock:
            self._follow()
            told = self._spoke.of([item, *self._copies.get(item, ())])
        found: dict[str, Event] = {}
        for copy, spoken in told.items():
            for event in spoken.offered:
                key = word_of(event, told[item]) if origin(event) == item else None
                if key is not None and (key == word or (word is None and told[item].counts(key, event.seq))):
                    found.setdefault(copy, event)
        return found

    def align(self, items: Collection[str]) -> Aligned:
        """Bring in step what was given words on these items, and these items themselves."""
        with self._lock:
            self._follow()
            concerned = dict.fromkeys((*items, *(copy for item in items for copy in self._copies.get(item, ()))))
            for _ in range(_TRIES):
                seq, done = self._ledger.head().seq, Aligned()
                copies = self._copies_of(list(concerned), done)
                notes = self._noted(copies)
                drafts = [draft for copy in copies for draft in _drafts(copy, notes.get(copy.item, ()))]
                if not drafts:
                    return done
                tainted = self._tainted(copies)
                try:
                    self._ledger.append(
                        [*drafts, *tainted], states={one.item: one.now for one in copies}, no_label_after=seq
                    )
                except StaleState:
                    continue
                log_acts(drafts)
                self._follow()
                return self._followed(copies, tainted, done)
        raise StoreUnavailable("what says the same as an item keeps changing; what was said of the item stands")

    def _follow(self) -> None:
        head = self._ledger.head().seq
        for event in self._ledger.events(after=self._read, kinds=(EventKind.LABELLED, EventKind.RELEASED)):
            if first := origin(event):
                self._copies.setdefault(first, {})[event.subject] = None
        self._read = max(self._read, head)

    def _copies_of(self, items: Sequence[str], done: Aligned) -> list[_Copy]:
        """Those of some items that do not stand as they should."""
        states = {item: state for item, state in self._ledger.states(items).items() if not state.erased}
        told = self._spoke.of(states)
        told = {item: one for item, one in told.items() if (one.offered or one.given) and not one.words}
        first = {origin(event) for one in told.values() for event in (*one.offered, *one.refused)}
        firsts = {**self._spoke.of(first - told.keys()), **told}
        found: dict[str, _Copy] = {}
        for item, spoken in told.items():
            key, word = _counting(spoken, firsts)
            last = _naming(spoken.given)
            if key != (0 if last is None else word_of(last, firsts[origin(last)])):
                found[item] = _Copy(
                    item, spoken.given, states[item], states[item], word, key, spoken.tainted, spoken.passed
                )
        since = {item: one.given[0].seq for item, one in found.items() if one.given}
        for item, before in (states_before(self._ledger, since) if since else {}).items():
            found[item].before = before
        done.left = {item: CHANGED for item, one in found.items() if not one.as_told}
        done.left |= {item: LEFT for item, one in found.items() if one.shows and _was_left(one.given, firsts)}
        return self._without_tainted([one for item, one in found.items() if item not in done.left])

    def _without_tainted(self, copies: list[_Copy]) -> list[_Copy]:
        """Benign words release no copy that was made from something which is held by now: it waits."""
        shown = [one.item for one in copies if one.word is not None and _label(one.word) == "benign"]
        fine = of_clean_descent(shown, shown, self._ledger, self._graph)
        for one in copies:
            if one.item in shown and one.item not in fine:
                one.word = None
        return [one for one in copies if one.word is not None or one.given]

    def _noted(self, copies: Sequence[_Copy]) -> dict[str, list[int]]:
        """The notes that what came from these copies is to be repaired, which count no longer."""
        since = {one.item: one.given[0].seq for one in copies if one.given}
        found: dict[str, list[int]] = {}
        first = min(since.values(), default=0)
        for event in self._ledger.events(after=first, subject=TENDED, kinds=(EventKind.NOTED,)) if since else ():
            origins = (event.body or {}).get("origins") or ("",)
            if event.body == {"origins": origins} and event.seq > since.get(origins[0], event.seq):
                found.setdefault(origins[0], []).append(event.seq)
        return found

    def _tainted(self, copies: Sequence[_Copy]) -> list[Draft]:
        """The rulings on what came from copies that were in use, and on copies that return while a source is held."""
        held = [one.item for one in copies if one.now.visible and not one.returns]
        drafts = self._taints.holding(held)
        for one in copies:
            if one.returns and one.word is None and all(draft.subject != one.item for draft in drafts):
                drafts += self._taints.on_return(one.item, [event.seq for event in one.given])
        return drafts

    def _followed(self, copies: Sequence[_Copy], tainted: Sequence[Draft], done: Aligned) -> Aligned:
        self._taints.tell(tainted)
        done.changed = [one.item for one in copies]
        states = self._ledger.states(done.changed)
        held = [one.item for one in copies if one.now.visible and not states[one.item].visible]
        shown = [one.item for one in copies if not one.now.visible and states[one.item].visible]
        more = self._taints.hold_what_came_from(held, tainted) if held or tainted else ()
        done.held = (*(draft.subject for draft in tainted), *more)
        done.released = self._taints.release_what_came_from(shown) if shown else ()
        return done


def _counting(spoken: Spoken, firsts: Mapping[str, Spoken]) -> tuple[Key, Event | None]:
    """The last word that counts and was given for a copy, since gates ruled on it."""
    refused = {(origin(event), word_of(event, firsts[origin(event)])) for event in spoken.refused}
    words: dict[tuple[str, Key], Event] = {}
    for event in spoken.offered:
        words.setdefault((origin(event), word_of(event, firsts[origin(event)])), event)
    for (first, key), event in sorted(words.items(), key=lambda row: -row[1].seq):
        if (first, key) not in refused and event.seq > spoken.ruled and firsts[first].counts(key, event.seq):
            return key, event
    return 0, None


def _was_left(given: Sequence[Event], firsts: Mapping[str, Spoken]) -> bool:
    """Whether a word blocked a copy that had been replaced before the last one was given or taken back.

    Copies are told at once today; older versions left them. What no longer blocks such a copy was not what happened
    last, so it is not shown for that.
    """
    told = [event for event in given if names_a_word(event)]
    for event, after in itertools.zip_longest(told, told[1:]):
        first = firsts[origin(event)]
        word = word_of(event, first)
        if _label(event) != "harmful" or not isinstance(word, int):
            continue
        replaced = next((one.seq for one in first.words if one.seq > word), None)
        if replaced is None or (after is not None and word_of(after, firsts[origin(after)]) == replaced):
            continue
        if (first.newest_label > replaced) if after is None else (replaced < after.seq):
            return True
    return False


def _naming(given: Sequence[Event]) -> Event | None:
    """The last of some events that names a word."""
    return next((event for event in reversed(given) if names_a_word(event)), None)


def _label(event: Event) -> str:
    return str((event.body or {}).get("label", "benign"))


def _drafts(copy: _Copy, notes: Sequence[int]) -> list[Draft]:
    drafts, last = [], _naming(copy.given)
    if last is not None:
        ruling = copy.before.ruling
        body = {
            "events": [*(event.seq for event in copy.given), *copy.passed, *notes],
            "was": {"hidden": copy.before.hidden, "ruling": None if ruling is None else ruling.label},
            "by": MACHINE,
            "label": _label(last),
            "decision": last.seq,
            COPY_OF: origin(last),
        }
        drafts.append(Draft(EventKind.WITHDRAWN, copy.item, body=body))
    if copy.word is not None:
        drafts += _given_again(copy.item, copy.word, copy.key, copy.before)
        if _label(copy.word) == "harmful" and copy.now.visible:  # it was in use: looking again repairs the rest
            drafts.append(Draft(EventKind.NOTED, TENDED, body={"origins": [copy.item]}))
    return drafts


def _given_again(item: str, word: Event, key: Key, before: ItemState) -> list[Draft]:
    body = {**(word.body or {}), **({WORD: key} if isinstance(key, int) else {})}
    drafts = [Draft(word.kind, item, body=body)]
    if _label(word) == "harmful":
        drafts.append(Draft(EventKind.RULED, item, body=plain(condemned(item))))
    elif word.kind is EventKind.LABELLED and before.held:
        drafts.append(Draft(EventKind.RELEASED, item, body={"by": body.get("by", ""), COPY_OF: origin(word)}))
    return drafts


def condemned(item: str) -> Decision:
    """The ruling that goes with a person's word that an item is harmful."""
    return Decision(item, Ruling.BLOCK, 1.0, (1.0, 1.0), f"{BY_PERSON}harmful")
