"""The block list: what was once ruled harmful is caught again at once, also when re-encoded or trivially edited.

An item is known by up to five fingerprints, each one indexed look-up in the ledger, so the price does not grow with
the list. It is fed by the guard's rulings and by people's labels; a benign label or a release takes an item off.

Whole texts are compared, never parts of them: a context from which the poison was removed is another text, and passes.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from lazaretto.config import CLOSED, RulingWord, read_settings
from lazaretto.gates import pictures
from lazaretto.gates.folding import fold
from lazaretto.gates.protocol import GateContext
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, Verdict

EXACT, FOLDED, FILE, PIXELS, LOOK = "text", "text_folded", "file", "pixels", "look"
CLEARED = Ruling.ALLOW.label
"""Mark of what a person released: it stops the search, so that a mere likeness does not flag it again."""
SLICES = 6
KEPT = 2
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
        started = time.perf_counter()
        match = next(self._matches(observation, context), None)
        cost = Cost(ms=(time.perf_counter() - started) * 1000)
        if match is None or match.ruling is Ruling.ALLOW:
            rule = "cleared" if match else "unknown"
            return Verdict(self.name, observation.id, Ruling.ALLOW, 0.05, (0.0, 1.0), rule, cost=cost)
        near = match.rule == "look"
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
        """List what was quarantined or blocked; clear what a person released or called benign."""
        news = bool(context.earlier)  # a ruling on a fresh item, not a person's word about an old one
        if ruling <= Ruling.WARN:
            if not news:
                self._mark(self._keys(observation, context), observation.id, Ruling.ALLOW, context)
            return
        condemning = {v.gate for v in context.earlier if v.ruling >= Ruling.QUARANTINE}
        # A look-alike of a known item brings no news: listing it would let the list drift, one likeness at a time.
        if ruling < Ruling.QUARANTINE or condemning == {self.name}:
            return
        keys = self._keys(observation, context)
        if condemning and condemning <= {*self.settings.form_gates, self.name}:
            keys = [key for key in keys if key[0] in (EXACT, FILE)]
        self._mark(keys, observation.id, ruling, context)

    def _keys(self, observation: Observation, context: GateContext) -> list[tuple[str, str]]:
        keys = [*text_keys(observation.text, self.settings.min_folded)]
        if observation.image is not None:
            keys.append((FILE, observation.image))
            image = self._decoded(observation, context)
            if image is not None:
                keys += [(PIXELS, pictures.pixel_digest(image)), (LOOK, pictures.Look.of(image).hex())]
        return keys

    @staticmethod
    def _mark(keys: list[tuple[str, str]], item: str, ruling: Ruling, context: GateContext) -> None:
        """Newest word wins: whatever equals this item and is marked the other way is forgotten."""
        equal = [(kind, key) for kind, key in keys if kind != LOOK]
        for kind, key in equal:
            for known in context.ledger.find_known(kind, [key]):
                if (known.label == CLEARED) != (ruling <= Ruling.WARN):
                    context.ledger.forget_known(known.item)
        context.ledger.forget_known(item)
        context.ledger.mark_known(equal, item, CLEARED if ruling <= Ruling.WARN else ruling.label)
        for look in (key for kind, key in keys if kind == LOOK and ruling > Ruling.WARN):
            bands = [(LOOK, band) for band in look_keys(pictures.Look.from_hex(look).hash)]
            context.ledger.mark_known(bands, item, f"{ruling.label} {look}")

    def _matches(self, observation: Observation, context: GateContext) -> Iterator[Match]:
        """Cheapest first, and lazily: the first match ends the search."""
        for kind, key in text_keys(observation.text, self.settings.min_folded):
            yield from self._equal(kind, key, context)
        if observation.image is None:
            return
        yield from self._equal(FILE, observation.image, context)
        image = self._decoded(observation, context)
        if image is not None:
            yield from self._equal(PIXELS, pictures.pixel_digest(image), context)
            yield from self._alike(pictures.Look.of(image), context)

    @staticmethod
    def _equal(kind: str, key: str, context: GateContext) -> Iterator[Match]:
        found = context.ledger.find_known(kind, [key])
        for known in sorted(found, key=lambda k: Ruling.from_label(k.label), reverse=True):
            yield Match(kind, known.item, Ruling.from_label(known.label), {"known_as": known.label})

    def _alike(self, look: pictures.Look, context: GateContext) -> Iterator[Match]:
        for known in context.ledger.find_known(LOOK, look_keys(look.hash)):
            label, _, stored = known.label.partition(" ")
            other = pictures.Look.from_hex(stored)
            bits, gap = look.distance(other), look.colour_gap(other)
            if bits <= self.settings.distance and gap <= self.settings.colour_gap:
                detail = {"known_as": label, "bits": bits, "colour_gap": gap}
                yield Match("look", known.item, self.settings.near_picture, detail)

    @staticmethod
    def _decoded(observation: Observation, context: GateContext) -> Any:
        """The picture, or None where it cannot be decoded: that is the structural gate's finding, not ours."""
        try:
            return pictures.decode(context.ledger.blob(str(observation.image)), context.limits.max_pixels)
        except pictures.Unreadable:
            return None


_SAYINGS = {
    EXACT: "the same text as",
    FOLDED: "the same text, trivially edited, as",
    FILE: "the same picture file as",
    PIXELS: "the same picture, encoded anew, as",
    LOOK: "a picture that looks like",
}


def text_keys(text: str, min_folded: int) -> Iterator[tuple[str, str]]:
    """The fingerprints of a text, the exact one first; a very short text has no other."""
    if not text:
        return
    yield EXACT, hashlib.sha256(text.encode()).hexdigest()
    folded = fold(text)
    if len(folded) >= min_folded:
        yield FOLDED, hashlib.sha256(folded.encode()).hexdigest()


def look_keys(hashed: int) -> Sequence[str]:
    """Index keys of a perceptual hash: every choice of two of its six slices, so that near hashes share one."""
    bounds = [round(64 * i / SLICES) for i in range(SLICES + 1)]
    slices = [(hashed >> low) & ((1 << (high - low)) - 1) for low, high in itertools.pairwise(bounds)]
    return [".".join(f"{i}:{slices[i]:x}" for i in chosen) for chosen in itertools.combinations(range(SLICES), KEPT)]


def make(settings: Mapping[str, Any]) -> BlocklistGate:
    """The gate for the policy's table."""
    return BlocklistGate(read_settings(BlocklistSettings, settings, key="gates.blocklist"))
