"""The block list: an item that was ruled harmful is caught again at once, also re-encoded or trivially edited.

An item has up to five fingerprints, each an indexed look-up, so the price does not grow with the list. Rulings, repairs
and labels add to it; a benign label, a release or an undone repair takes an item off. An entry names the sources for
which it holds and lists only the harmful part: an order in a picture's file, not its pixels. An
item that a person called benign is listed too (``decision.person_says``). Whole texts are compared, never parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.gates.memory.claims.conflicts import contradicted_by
from lazaretto.gates.protocol import (
    CALLED_BENIGN,
    CARRIED_BY,
    FOR_ITS_WRITER,
    NEARLY_BENIGN,
    OVER,
    REPAIR,
    UNDONE,
    WITHDRAWN,
    GateContext,
    SecondLook,
)
from lazaretto.identity import is_by_author
from lazaretto.ledger import Fingerprint, Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import open_picture, opened
from lazaretto.pictures.hashing import PerceptualHash
from lazaretto.pictures.words import IN_PIXELS
from lazaretto.policy import CLOSED, RulingWord, read_settings
from lazaretto.reading.normalization import fold, fold_bare, same_but_for_typing
from lazaretto.reading.views import decoded_whole
from lazaretto.types import MACHINE, Channel, Cost, EventKind, Evidence, Observation, Ruling, SourceClass, Verdict

# Entries of the block list: fingerprints of an item, the ruling, and the sources for which it holds.
#
# A ruling of gates holds for sources that are trusted as little, or less. A person's label "harmful", a secret and a
# virus picture hold for everybody. A person's label "benign" holds for its source and for more trusted ones.

KIND = "blocklist"
"""The kind of our fingerprints in the ledger; a key is ``rule:fingerprint``, so that one look-up serves several."""
EXACT, NEAR, FOLDED = "text", "text_near", "text_folded"
FILE, SEEN, PIXELS, LOOK = "file", "picture", "pixels", "look"
VOUCHING = frozenset({NEAR, SEEN})
"""Fingerprints by which only a person's decision that something is fine is found again."""
EVERYBODY = "all"
SLICES = 6
KEPT = 2
Key = tuple[str, str]
"""Rule and fingerprint."""
Trust = Mapping[SourceClass, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """One fingerprint of one item on the list."""

    item: str
    key: str
    ruling: Ruling
    whom: SourceClass | None
    """For sources trusted as little as this one or less; where a person cleared it, as much or more. None: for all."""
    look: str = ""
    """The perceptual hash, where it is one."""

    @property
    def cleared(self) -> bool:
        """Whether a person called it benign."""
        return self.ruling <= Ruling.WARN

    def holds_for(self, source: SourceClass, trust: Trust) -> bool:
        """Whether it says anything about an item of this source."""
        if self.whom is None:
            return True
        mine, theirs = trust[source], trust[self.whom]
        return mine >= theirs if self.cleared else mine <= theirs


def written(ruling: Ruling, whom: SourceClass | None, look: str = "") -> str:
    """The label in the ledger for a ruling and its scope."""
    label = f"{ruling.label}@{EVERYBODY if whom is None else whom.value}"
    return f"{label} {look}" if look else label


def read(known: Fingerprint, ledger: Ledger) -> Entry:
    """An entry as the ledger has it. An entry of an older version has no scope: its item gives it."""
    label, _, look = known.label.partition(" ")
    word, has_scope, scope = label.partition("@")
    ruling = Ruling.from_label(word)
    whom = _whom(scope) if has_scope else _whom_before(known.item, ruling, ledger)
    return Entry(known.item, known.key, ruling, whom, look)


def _whom(scope: str) -> SourceClass | None:
    return None if scope == EVERYBODY else SourceClass(scope)


def _whom_before(item: str, ruling: Ruling, ledger: Ledger) -> SourceClass | None:
    """The scope of an entry without one: all sources for a person's label "harmful", else its item's source.

    The source of a removed item is unknown: its entry holds for all but the user and the system, and clears the
    system alone.
    """
    state = ledger.states([item]).get(item)
    if state is None or state.erased:
        return SourceClass.TOOL_OUTPUT_INTERNAL if ruling > Ruling.WARN else SourceClass.SYSTEM
    labels = [event.body or {} for event in standing_events(ledger, (EventKind.LABELLED,), subject=item)]
    if ruling > Ruling.WARN and labels and labels[-1].get("label") == "harmful":
        return None
    return ledger.item(item).source


_TYPED_BY_HAND = 100_000
"""A longer text that differs in its typing is another text: people do not retype it."""


def text_keys(text: str, min_folded: int, beside: str = "") -> list[Key]:
    """The fingerprints of a text (with the picture beside it), the exact one first; a very short text has no other."""
    if not text:
        return []
    keys = [(EXACT, _digest(text, beside))]
    folded = fold(text)
    if len(folded) < min_folded:
        return keys
    near = same_but_for_typing(text) if len(text) <= _TYPED_BY_HAND else ""
    found = [*keys, *([(NEAR, _digest(near, beside))] if near else []), (FOLDED, _digest(folded, beside))]
    others = [bare for inner in (text, decoded_whole(text)) if len(bare := fold_bare(inner)) >= min_folded]
    return [*found, *((FOLDED, _digest(bare, beside)) for bare in dict.fromkeys(others) if bare != folded)]


def seen_key(picture: Opened) -> list[Key]:
    """The fingerprint of a picture's pixels and texts, in any encoding; none with more frames or unread texts."""
    if picture.frame_count != 1 or not picture.texts_whole:
        return []
    words = "\0".join(f"{where}\0{text}" for where, text in picture.texts)
    return [(SEEN, _digest(picture.digest, words) if words else picture.digest)]


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{text}\0{beside}".encode() if beside else text.encode()).hexdigest()


def look_keys(hashed: int) -> Sequence[str]:
    """Index keys of a perceptual hash: every choice of two of its six slices, so that near hashes share one."""
    bounds = [round(64 * i / SLICES) for i in range(SLICES + 1)]
    slices = [(hashed >> low) & ((1 << (high - low)) - 1) for low, high in itertools.pairwise(bounds)]
    return [".".join(f"{i}:{slices[i]:x}" for i in chosen) for chosen in itertools.combinations(range(SLICES), KEPT)]


# The gate: it looks an item up in the list, and learns from rulings, repairs and labels.

OWN_WORD = (SourceClass.DIRECT_USER, SourceClass.SYSTEM)
SWEEP = "sweep"
"""The repair that takes a picture out of every place."""
IN_FILE = "text_in_file"
"""The rule for a picture whose file carries a text that is listed."""
MAX_DISTANCE = SLICES - KEPT
"""Two hashes that differ in at most this many bits agree in two of six slices at least: pigeonhole."""


@dataclass(frozen=True, slots=True)
class BlocklistSettings:
    """The policy's ``[gates.blocklist]`` table."""

    __pydantic_config__ = CLOSED
    min_folded: Annotated[
        int,
        Field(ge=1, description="Shortest folded text, in characters, that a trivially edited one is compared with."),
    ] = 12
    near_picture: Annotated[
        RulingWord,
        Field(description="Ruling for a picture that only looks like a known one: its clean original looks so too."),
    ] = Ruling.REVIEW
    distance: Annotated[
        int, Field(ge=0, le=MAX_DISTANCE, description="Bits of 64 by which the perceptual hashes may differ.")
    ] = 4
    colour_gap: Annotated[
        int, Field(ge=0, le=255, description="Largest difference in a 4 x 4 grid of mean colours, on a scale to 255.")
    ] = 20
    min_made: Annotated[
        int,
        Field(
            ge=1,
            description="Shortest folded text by which the list recognises an item that a repair took out only because "
            "of its origin; shorter texts are too common.",
        ),
    ] = 40
    form_gates: Annotated[
        tuple[str, ...],
        Field(description="Gates that judge form: what only they condemned is listed by its exact bytes alone."),
    ] = ("structure",)
    for_all: Annotated[
        tuple[str, ...],
        Field(
            description="Gates whose findings hold for every source; findings of other gates hold for sources trusted "
            "as little as the one they came from, or less."
        ),
    ] = ("secrets",)


@dataclass(frozen=True, slots=True)
class Match:
    """A known item that this one equals or resembles."""

    rule: str
    item: str
    ruling: Ruling
    detail: Mapping[str, Any]


class BlocklistGate:
    """Looks an item up among those known to be harmful."""

    name = "blocklist"
    channels = frozenset(Channel)
    brief = True

    def __init__(self, settings: BlocklistSettings) -> None:
        self.settings = settings

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """``allow`` for an unknown item; else the ruling on the known item, or ``near_picture`` for mere likeness."""
        if observation.image is not None:
            with contextlib.suppress(UnreadablePicture):  # decoded here, it is at hand below
                await open_picture(context.ledger.blob(observation.image), context.limits)
        return self._verdict(observation, context)

    def again(self, observations: Sequence[Observation], context: GateContext) -> Sequence[SecondLook]:
        """Verdicts from entries of other items that are the same. An item's own entry does not count, and a text of a
        user or the system is not condemned later because others repeat it."""
        return [SecondLook(self._verdict(o, context, again=True)) for o in observations]

    def _verdict(self, observation: Observation, context: GateContext, again: bool = False) -> Verdict:
        started = time.perf_counter()
        found = self._look_up(observation, context, again)
        word = _word(found, lambda entry: _speaks_of(entry, observation, context.ledger))
        match = _match(found, self.settings)
        cost = Cost(ms=(time.perf_counter() - started) * 1000)
        if word is not None:
            return self._vouched(observation, word, context, cost)
        if match is None or match.ruling is Ruling.ALLOW:
            rule = "cleared" if match else "unknown"
            return Verdict(self.name, observation.id, Ruling.ALLOW, 0.05, (0.0, 1.0), rule, cost=cost)
        near = match.rule == LOOK
        summary = f"{_SAYINGS[match.rule]} {match.item}, which was ruled {match.detail['known_as']}"
        return Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=match.ruling,
            risk=0.6 if near else 0.97,
            interval=(0.2, 1.0) if near else (0.8, 1.0),
            rule=match.rule,
            evidence=(Evidence("match", summary, {"item": match.item, **match.detail}),),
            taxonomy=("ASI06",),
            cost=cost,
        )

    def _vouched(self, observation: Observation, word: tuple[str, Entry], context: GateContext, cost: Cost) -> Verdict:
        """The verdict of a person's decision; ``over``: the items it was known to contradict then."""
        rule, entry = word
        over = sorted(contradicted_by(context.ledger, entry.item))
        summary = f"{_SAYINGS[rule]} {entry.item}, which a person called benign or released"
        evidence = Evidence("precedent", summary, {"item": entry.item, "label": "benign", OVER: over})
        name = NEARLY_BENIGN if rule in VOUCHING else CALLED_BENIGN
        return Verdict(self.name, observation.id, Ruling.ALLOW, 0.02, (0.0, 1.0), name, (evidence,), cost=cost)

    def learn(self, observation: Observation, ruling: Ruling, context: GateContext) -> None:
        """List quarantined, blocked and repaired items; clear items that a person released or called benign."""
        repair = next((v for v in context.earlier if v.gate == REPAIR), None)
        if repair is not None:
            self._learn_repair(observation, repair, context)
            return
        news = bool(context.earlier)  # a ruling on a fresh item, not a person's decision about an old one
        if ruling <= Ruling.WARN:
            if not news:
                self._clear(observation, context)
            return
        condemning = {v.gate for v in context.earlier if v.ruling >= Ruling.QUARANTINE and v.rule not in FOR_ITS_WRITER}
        if news and not condemning:
            return
        # A look-alike of a known item brings no news: listing it would let the list drift, one likeness at a time.
        if ruling < Ruling.QUARANTINE or condemning == {self.name}:
            return
        keys = self._harmful_keys(observation, context)
        if condemning and condemning <= {*self.settings.form_gates, self.name}:
            keys = [key for key in keys if key[0] in (EXACT, FILE)]
        for_all = not news or bool(condemning & set(self.settings.for_all))
        self._list(keys, observation, ruling, None if for_all else observation.source, context, by_gates=news)

    def _learn_repair(self, observation: Observation, repair: Verdict, context: GateContext) -> None:
        """List an item that a repair took out, for the repair's ruling; remove it when the repair was undone."""
        if repair.rule == WITHDRAWN:
            return
        if repair.rule == UNDONE:
            context.ledger.drop_fingerprints(observation.id)
            return
        made = repair.ruling < Ruling.QUARANTINE
        if made and observation.image is None and len(fold(observation.text)) < self.settings.min_made:
            return
        virus = repair.rule == SWEEP and observation.image is not None
        if virus:  # it takes the picture, with any text beside it
            keys = [*self._keys(observation, context), *self._keys(replace(observation, text=""), context)]
        else:
            keys = self._harmful_keys(observation, context)
        picture = observation.image is not None and not observation.text
        whom = None if virus or (picture and not made) else observation.source
        self._list(list(dict.fromkeys(keys)), observation, repair.ruling, whom, context)

    def _keys(self, observation: Observation, context: GateContext) -> list[Key]:
        """The fingerprints of an item: its text and picture as a pair, for either may be harmless."""
        if observation.image is None or observation.text:
            return text_keys(observation.text, self.settings.min_folded, observation.image or "")
        try:
            picture = self._picture(observation, context)
        except PictureWorkerFailed:
            picture = None
        if picture is None:  # known by its file alone
            return [(FILE, observation.image)]
        shown = [*seen_key(picture), (PIXELS, picture.digest), (LOOK, PerceptualHash.of(picture).hex())]
        return [(FILE, observation.image), *shown]

    def _harmful_keys(self, observation: Observation, context: GateContext) -> list[Key]:
        """Fingerprints of the harmful part; where a picture's file carries it: the file and that text, no pixels."""
        keys = self._keys(observation, context)
        places = _carriers(observation, context) if observation.image and not observation.text else set()
        if not places or places & IN_PIXELS:
            return keys
        picture = self._picture(observation, context) if len(keys) > 1 else None
        carried = [words for where, words in picture.texts if where in places] if picture else []
        texts = [key for words in carried for key in text_keys(words, self.settings.min_folded)]
        return [key for key in keys if key[0] == FILE] + texts

    def _clear(self, observation: Observation, context: GateContext) -> None:
        """A person's decision: entries that equal this item and condemn it for such sources are removed."""
        ledger, trust = context.ledger, context.trust.table()
        keys = [f"{rule}:{key}" for rule, key in self._keys(observation, context) if rule != LOOK]
        for known in (read(row, ledger) for row in ledger.find_fingerprints(KIND, keys)):
            if not known.cleared and (known.whom is None or trust[known.whom] >= trust[observation.source]):
                ledger.drop_fingerprints(known.item)
        ledger.drop_fingerprints(observation.id)
        label = written(Ruling.ALLOW, observation.source)
        ledger.add_fingerprints([(KIND, key) for key in keys], observation.id, label)

    @staticmethod
    def _list(
        keys: list[Key],
        observation: Observation,
        ruling: Ruling,
        whom: SourceClass | None,
        context: GateContext,
        by_gates: bool = False,
    ) -> None:
        """List an item. Gates do not overturn a person's decision; people and repairs do, by the opposite."""
        ledger, trust = context.ledger, context.trust.table()
        equal = [f"{rule}:{key}" for rule, key in keys if rule != LOOK]
        for known in [] if by_gates else [read(row, ledger) for row in ledger.find_fingerprints(KIND, equal)]:
            opposite = whom is None or known.whom is None or trust[whom] >= trust[known.whom]
            if known.cleared and opposite:
                ledger.drop_fingerprints(known.item)
        ledger.drop_fingerprints(observation.id)
        listed = [(KIND, f"{rule}:{key}") for rule, key in keys if rule not in (LOOK, *VOUCHING)]
        ledger.add_fingerprints(listed, observation.id, written(ruling, whom))
        for look in (key for rule, key in keys if rule == LOOK):
            bands = [(KIND, band) for band in look_keys(PerceptualHash.from_hex(look).hash)]
            ledger.add_fingerprints(bands, observation.id, written(ruling, whom, look))

    def _look_up(self, observation: Observation, context: GateContext, again: bool) -> _Found:
        """Everything on the list that equals the item or looks like it, and holds for its source."""
        text, image = observation.text, observation.image
        alone = text_keys(text, self.settings.min_folded)
        pair = text_keys(text, self.settings.min_folded, image) if image and text else []
        file = [(FILE, image)] if image else []
        asked = _Asked(observation, context, again)
        known = asked.known([f"{rule}:{key}" for rule, key in (*alone, *pair, *file)])
        if not image or any(entry.key == f"{FILE}:{image}" for entry in known):
            return _Found(tuple(known), alone, pair, file)
        picture = self._picture(observation, context)
        if picture is None:
            return _Found(tuple(known), alone, pair, file)
        look = PerceptualHash.of(picture)
        shown = [*file, *seen_key(picture), (PIXELS, picture.digest)]
        carried = [key for _, words in picture.texts for key in text_keys(words, self.settings.min_folded)]
        wanted = [f"{rule}:{key}" for rule, key in (*shown[1:], *carried)]
        known += asked.known([*wanted, *look_keys(look.hash)])
        return _Found(tuple(known), alone, pair, shown, carried, look)

    @staticmethod
    def _picture(observation: Observation, context: GateContext) -> Opened | None:
        """The picture, or None where it cannot be decoded: that is the structural gate's finding, not ours."""
        try:
            return opened(context.ledger.blob(str(observation.image)), context.limits)
        except UnreadablePicture:
            return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query for one item: entries that do not hold for its source are left out."""

    observation: Observation
    context: GateContext
    again: bool
    """The item is recorded already: its own entry does not count, and a text of a user or the system is not condemned
    later because others repeat it."""

    def known(self, keys: Sequence[str]) -> list[Entry]:
        """The entries under these keys that hold for this source."""
        if not keys:
            return []
        item, trust = self.observation, self.context.trust.table()
        own = item.id if self.again else ""
        found = (read(known, self.context.ledger) for known in self.context.ledger.find_fingerprints(KIND, keys))
        spared = self.again and item.source in OWN_WORD
        return [
            entry
            for entry in found
            if entry.item != own and entry.holds_for(item.source, trust) and not (spared and not entry.cleared)
        ]


@dataclass(frozen=True, slots=True)
class _Found:
    """The entries that match an item, and the keys that were looked up, the most exact first."""

    known: tuple[Entry, ...]
    alone: Sequence[Key]
    pair: Sequence[Key] = ()
    shown: Sequence[Key] = ()
    carried: Sequence[Key] = ()
    look: PerceptualHash | None = None

    def under(self, key: Key) -> list[Entry]:
        """The entries under one key."""
        return [entry for entry in self.known if entry.key == f"{key[0]}:{key[1]}"]


def _word(found: _Found, speaks_of: Callable[[Entry], bool]) -> tuple[str, Entry] | None:
    """A person's decision that the whole item is fine, and by which fingerprint it was found. ``speaks_of``: whether an
    entry's person saw such an item, and may clear it."""
    keys = found.pair or found.alone or found.shown
    for rule, key in keys:
        if rule in (EXACT, NEAR, FILE, SEEN):
            for entry in found.under((rule, key)):
                if entry.cleared and speaks_of(entry):
                    return rule, entry
    return None


def _speaks_of(entry: Entry, item: Observation, ledger: Ledger) -> bool:
    """Whether the person who cleared an entry's item saw the same data beside the words, and is not the author of this
    one: nobody clears their own, by a copy neither."""
    if entry.item == item.id:
        return True
    seen = next(iter(ledger.items(ids=[entry.item], any_state=True, limit=None)), None)
    if seen is not None and (seen.fields, seen.value) != (item.fields, item.value):
        return False
    return not is_by_author(_signer(entry.item, ledger), item)


def _signer(item: str, ledger: Ledger) -> str:
    """The person whose word on an item is the last; empty where none signed."""
    words = list(standing_events(ledger, (EventKind.LABELLED, EventKind.RELEASED), subject=item))
    body = next((body for event in reversed(words) if (body := event.body or {}).get("by") != MACHINE), {})
    if receipt := body.get("receipt"):  # the repair that released it says by whom
        repaired = ledger.events(subject=str(receipt), kinds=(EventKind.REPAIRED,), limit=1)
        body = next((event.body or {} for event in repaired), {})
    return str(body.get("by", ""))


def _match(found: _Found, settings: BlocklistSettings) -> Match | None:
    """The strictest match of the text, the picture, the texts in its file, or text and picture together."""
    carried = _nearest(found, found.carried)
    if carried is not None:
        carried = None if carried.ruling is Ruling.ALLOW else replace(carried, rule=IN_FILE)
    shown = _nearest(found, found.shown) or next(_alike(found, settings), None)
    matches = [match for match in (_nearest(found, found.alone), _nearest(found, found.pair), shown, carried) if match]
    return max(matches, key=lambda match: match.ruling, default=None)


def _nearest(found: _Found, keys: Sequence[Key]) -> Match | None:
    """The most exact of the matches for these keys; among equals a person's decision, else the strictest."""
    for rule, key in keys:
        there = found.under((rule, key))
        if there:
            best = min(there, key=lambda entry: (not entry.cleared, -entry.ruling, entry.item))
            return Match(rule, best.item, best.ruling, {"known_as": best.ruling.label})
    return None


def _alike(found: _Found, settings: BlocklistSettings) -> Iterator[Match]:
    for known in found.known:
        if not known.look or found.look is None:
            continue
        other = PerceptualHash.from_hex(known.look)
        bits, gap = found.look.distance(other), found.look.colour_gap(other)
        if bits <= settings.distance and gap <= settings.colour_gap:
            detail = {"known_as": known.ruling.label, "bits": bits, "colour_gap": gap}
            yield Match(LOOK, known.item, settings.near_picture, detail)


def _carriers(observation: Observation, context: GateContext) -> set[str]:
    """The places in a picture where gates found the harm. Where a person or a repair ruled, the ledger's verdicts count
    too."""
    found = [evidence.data for v in context.earlier for evidence in v.evidence if v.ruling >= Ruling.QUARANTINE]
    if not context.earlier or any(v.gate == REPAIR for v in context.earlier):
        ruled = context.ledger.events(subject=observation.id, kinds=(EventKind.RULED,))
        verdicts = (v for event in ruled for v in (event.body or {}).get("verdicts", ()))
        found += [evidence.get("data") or {} for v in verdicts for evidence in v.get("evidence", ())]
    return {str(data[CARRIED_BY]) for data in found if CARRIED_BY in data}


def persons_decision(text: str, image: bytes | None, context: GateContext) -> tuple[str, Entry] | None:
    """A person's label for a content that is not recorded, for any writer: the fingerprint and the entry, or None.

    Only labels "benign", and entries that hold for everybody.
    """
    least = read_settings(BlocklistSettings, context.settings, key="gates.blocklist").min_folded
    digest = hashlib.sha256(image).hexdigest() if image is not None else ""
    keys = text_keys(text, least, digest)
    if image is not None and not text:
        keys = [(FILE, digest)]
        with contextlib.suppress(UnreadablePicture):
            keys += seen_key(opened(image, context.limits))
    wanted = [f"{rule}:{key}" for rule, key in keys]
    found = [read(row, context.ledger) for row in context.ledger.find_fingerprints(KIND, wanted)] if wanted else []
    bare = Observation("", Channel.MESSAGE, text, id="")
    found = [entry for entry in found if not entry.cleared or _speaks_of(entry, bare, context.ledger)]
    for rule, key in keys:
        there = [entry for entry in found if entry.key == f"{rule}:{key}" and (entry.cleared or entry.whom is None)]
        if there and not (there[0].cleared and rule == FOLDED):
            return rule, min(there, key=lambda entry: not entry.cleared)
    return None


_SAYINGS = {
    EXACT: "the same text as",
    NEAR: "the same text, typed otherwise, as",
    FOLDED: "the same text, trivially edited, as",
    FILE: "the same picture file as",
    SEEN: "the same picture, encoded anew, as",
    PIXELS: "the same picture, encoded anew, as",
    LOOK: "a picture that looks like",
    IN_FILE: "a picture whose file carries the text of",
}


def make(settings: Mapping[str, Any]) -> BlocklistGate:
    """The gate for the policy's table."""
    return BlocklistGate(read_settings(BlocklistSettings, settings, key="gates.blocklist"))
