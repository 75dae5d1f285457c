"""The block list: what was once ruled harmful is caught again at once, also when re-encoded or trivially edited.

An item is known by up to five fingerprints, each one indexed look-up in the ledger, so the price does not grow with
the list. It is fed by the guard's rulings, by repairs and by people's labels; a benign label, a release or an undone
repair takes an item off.

Whole texts are compared, never parts of them: a context from which the poison was removed is another text, and passes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.gates.normalization import fold
from lazaretto.gates.picture_hash import PerceptualHash
from lazaretto.gates.protocol import FOR_ITS_SOURCE, REPAIR, UNDONE, GateContext, SecondLook
from lazaretto.ledger import Fingerprint
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import open_picture, opened
from lazaretto.policy import CLOSED, RulingWord, read_settings
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, SourceClass, Verdict

KIND = "blocklist"
"""What the ledger files our fingerprints under; a key is ``rule:fingerprint``, so that one look-up serves several."""
EXACT, FOLDED, FILE, PIXELS, LOOK = "text", "text_folded", "file", "pixels", "look"
CLEARED = Ruling.ALLOW.label
"""Mark of what a person released: it stops the search, so that a mere likeness does not flag it again."""
OWN_WORD = (SourceClass.DIRECT_USER, SourceClass.SYSTEM)
SWEEP = "sweep"
"""The repair that takes a picture out wherever it stands."""
SLICES = 6
KEPT = 2
Key = tuple[str, str]
"""Rule and fingerprint."""
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
            description="Shortest folded text by which something a repair took out only because of what it was made "
            "from is known again; shorter ones are said by anybody.",
        ),
    ] = 40
    form_gates: Annotated[
        tuple[str, ...],
        Field(description="Gates that judge form: what only they condemned is listed by its exact bytes alone."),
    ] = ("structure",)


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

    def __init__(self, settings: BlocklistSettings) -> None:
        self.settings = settings

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """``allow`` for what is not known; else what was ruled then, or ``near_picture`` for a mere resemblance."""
        if observation.image is not None:
            with contextlib.suppress(UnreadablePicture):  # decoded here, it is at hand below
                await open_picture(context.ledger.blob(observation.image), context.limits)
        return self._verdict(observation, context)

    def again(self, observations: Sequence[Observation], context: GateContext) -> Sequence[SecondLook]:
        """What is known of others that are the same. That it was listed itself is no reason, and what a user or the
        system said is not condemned afterwards because somebody repeated it."""
        return [SecondLook(self._verdict(o, context, again=True)) for o in observations]

    def _verdict(self, observation: Observation, context: GateContext, again: bool = False) -> Verdict:
        started = time.perf_counter()
        match = None if again and observation.source in OWN_WORD else self._match(observation, context, again)
        cost = Cost(ms=(time.perf_counter() - started) * 1000)
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

    def learn(self, observation: Observation, ruling: Ruling, context: GateContext) -> None:
        """List what was quarantined, blocked or repaired; clear what a person released or called benign."""
        repair = next((v for v in context.earlier if v.gate == REPAIR), None)
        if repair is not None:
            self._learn_repair(observation, repair, context)
            return
        news = bool(context.earlier)  # a ruling on a fresh item, not a person's word about an old one
        if ruling <= Ruling.WARN:
            if not news:
                self._mark(self._keys(observation, context), observation.id, Ruling.ALLOW, context)
            return
        condemning = {v.gate for v in context.earlier if v.ruling >= Ruling.QUARANTINE and v.rule not in FOR_ITS_SOURCE}
        if news and not condemning:
            return
        # A look-alike of a known item brings no news: listing it would let the list drift, one likeness at a time.
        if ruling < Ruling.QUARANTINE or condemning == {self.name}:
            return
        keys = self._keys(observation, context)
        if condemning and condemning <= {*self.settings.form_gates, self.name}:
            keys = [key for key in keys if key[0] in (EXACT, FILE)]
        self._mark(keys, observation.id, ruling, context)

    def _learn_repair(self, observation: Observation, repair: Verdict, context: GateContext) -> None:
        """List what a repair took out, for the ruling it carries; forget it when the repair was undone."""
        if repair.rule == UNDONE:
            context.ledger.forget_known(observation.id)
            return
        made = repair.ruling < Ruling.QUARANTINE
        if made and observation.image is None and len(fold(observation.text)) < self.settings.min_made:
            return
        keys = self._keys(observation, context)
        if repair.rule == SWEEP and observation.image and observation.text:
            keys += self._keys(
                replace(observation, text=""), context
            )  # it takes the picture, whatever stands beside it
        self._mark(keys, observation.id, repair.ruling, context)

    def _keys(self, observation: Observation, context: GateContext) -> list[Key]:
        """What an item is listed under: text and picture of one item as a pair, for either may be harmless."""
        if observation.image is None or observation.text:
            return text_keys(observation.text, self.settings.min_folded, observation.image or "")
        keys = [(FILE, observation.image)]
        try:
            picture = self._opened(observation, context)
        except PictureWorkerFailed:  # listed by its file alone
            picture = None
        return keys if picture is None else [*keys, (PIXELS, picture.digest), (LOOK, PerceptualHash.of(picture).hex())]

    @staticmethod
    def _mark(keys: list[Key], item: str, ruling: Ruling, context: GateContext) -> None:
        """Newest word wins: whatever equals this item and is marked the other way is forgotten."""
        ledger, cleared = context.ledger, ruling <= Ruling.WARN
        equal = [f"{rule}:{key}" for rule, key in keys if rule != LOOK]
        for known in ledger.find_known(KIND, equal):
            if (known.label == CLEARED) != cleared:
                ledger.forget_known(known.item)
        ledger.forget_known(item)
        ledger.mark_known([(KIND, key) for key in equal], item, CLEARED if cleared else ruling.label)
        for look in (key for rule, key in keys if rule == LOOK and not cleared):
            bands = [(KIND, band) for band in look_keys(PerceptualHash.from_hex(look).hash)]
            ledger.mark_known(bands, item, f"{ruling.label} {look}")

    def _match(self, observation: Observation, context: GateContext, again: bool = False) -> Match | None:
        """What the text, the picture, or both together are known as; the strictest of these."""
        own = observation.id if again else ""
        text, image = observation.text, observation.image
        alone = text_keys(text, self.settings.min_folded)
        pair = text_keys(text, self.settings.min_folded, image) if image and text else []
        file = [(FILE, image)] if image else []
        found = self._look_up([*alone, *pair, *file], context, own)
        shown = _nearest(found, file)
        if image and shown is None:
            shown = self._seen_before(observation, context, own)
        matches = [match for match in (_nearest(found, alone), _nearest(found, pair), shown) if match]
        return max(matches, key=lambda match: match.ruling, default=None)

    def _seen_before(self, observation: Observation, context: GateContext, own: str) -> Match | None:
        """A picture whose file is unknown: the same pixels, or a likeness."""
        picture = self._opened(observation, context)
        if picture is None:
            return None
        look, pixels = PerceptualHash.of(picture), (PIXELS, picture.digest)
        found = self._look_up([pixels, *(("", key) for key in look_keys(look.hash))], context, own)
        return _nearest(found, [pixels]) or next(self._alike(look, found), None)

    @staticmethod
    def _look_up(keys: Sequence[Key], context: GateContext, own: str) -> list[Fingerprint]:
        wanted = [f"{rule}:{key}" if rule else key for rule, key in keys]
        return [known for known in context.ledger.find_known(KIND, wanted) if known.item != own] if wanted else []

    def _alike(self, look: PerceptualHash, found: Sequence[Fingerprint]) -> Iterator[Match]:
        for known in found:
            label, _, stored = known.label.partition(" ")
            if not stored:
                continue
            other = PerceptualHash.from_hex(stored)
            bits, gap = look.distance(other), look.colour_gap(other)
            if bits <= self.settings.distance and gap <= self.settings.colour_gap:
                detail = {"known_as": label, "bits": bits, "colour_gap": gap}
                yield Match(LOOK, known.item, self.settings.near_picture, detail)

    @staticmethod
    def _opened(observation: Observation, context: GateContext) -> Opened | None:
        """The picture, or None where it cannot be decoded: that is the structural gate's finding, not ours."""
        try:
            return opened(context.ledger.blob(str(observation.image)), context.limits)
        except UnreadablePicture:
            return None


_SAYINGS = {
    EXACT: "the same text as",
    FOLDED: "the same text, trivially edited, as",
    FILE: "the same picture file as",
    PIXELS: "the same picture, encoded anew, as",
    LOOK: "a picture that looks like",
}


def _nearest(found: Sequence[Fingerprint], keys: Sequence[Key]) -> Match | None:
    """The most exact of the matches for these keys; among equals the strictest."""
    for rule, key in keys:
        labels = [(Ruling.from_label(known.label), known.item) for known in found if known.key == f"{rule}:{key}"]
        if labels:
            ruling, item = max(labels)
            return Match(rule, item, ruling, {"known_as": ruling.label})
    return None


def text_keys(text: str, min_folded: int, beside: str = "") -> list[Key]:
    """The fingerprints of a text (with the picture beside it), the exact one first; a very short text has no other."""
    if not text:
        return []
    keys = [(EXACT, _digest(text, beside))]
    folded = fold(text)
    return [*keys, (FOLDED, _digest(folded, beside))] if len(folded) >= min_folded else keys


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{text}\0{beside}".encode() if beside else text.encode()).hexdigest()


def look_keys(hashed: int) -> Sequence[str]:
    """Index keys of a perceptual hash: every choice of two of its six slices, so that near hashes share one."""
    bounds = [round(64 * i / SLICES) for i in range(SLICES + 1)]
    slices = [(hashed >> low) & ((1 << (high - low)) - 1) for low, high in itertools.pairwise(bounds)]
    return [".".join(f"{i}:{slices[i]:x}" for i in chosen) for chosen in itertools.combinations(range(SLICES), KEPT)]


def make(settings: Mapping[str, Any]) -> BlocklistGate:
    """The gate for the policy's table."""
    return BlocklistGate(read_settings(BlocklistSettings, settings, key="gates.blocklist"))
