"""The content gate as the guard sees it: one observation in, one verdict out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lazaretto.errors import MissingExtra, ModelError
from lazaretto.gates.content.arbitration import CONFIRMED, IN_DOUBT, UNDECIDED
from lazaretto.gates.content.assembly import LiveLibrary, make_panel, ready_library
from lazaretto.gates.content.debate import Transcript, hold_debate
from lazaretto.gates.content.library import starter_cases
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import Content, InputKind, Label
from lazaretto.gates.content.report import evidence_of, taxonomy
from lazaretto.gates.content.settings import ContentSettings, content_settings
from lazaretto.gates.protocol import MEASURED, GateContext, measured
from lazaretto.ledger import Ledger
from lazaretto.policy import Limits, TrustPolicy
from lazaretto.policy.plugins import require
from lazaretto.types import Channel, Evidence, Observation, Ruling, Verdict

NAME, EMBEDDED = "content", "embedded"
EMPTY_RULE = "nothing-to-judge"
UNREAD_RULE = "too_long_to_read_whole"


class ContentGate:
    """Moderation by debate."""

    name = NAME
    channels = frozenset(Channel)
    rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "false_alarms": (0.001, 0.005, 0.01, 0.02, 0.05, 0.1),
        "misses": (0.5, 0.3, 0.2, 0.15),
    }

    @property
    def needs_s(self) -> float:
        """Language models answer one after another: their debate may take longer than the channel gives a gate."""
        return self.settings.hearing_s if self.settings.jury == "chat" else 0.0

    def __init__(self, settings: ContentSettings, panel: Panel | None = None) -> None:
        """``panel``: given judges instead of those the settings describe."""
        self.settings = settings
        self._given = panel
        self._lock = threading.Lock()
        self._libraries: dict[tuple[str, str], LiveLibrary] = {}
        self._panels: dict[tuple[str, str, Limits], Panel] = {}
        """Panels by tenant and limits."""

    def warm_up(self) -> None:
        """Load the embedded models, so that no item's time is spent on it; what reads pictures waits for the first.

        Nothing is loaded in the background: a process that ends meanwhile would end in a crash.
        """
        if self._given is None and self.settings.jury == "embedded":
            _load_models()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """Hold a debate about one item. An unreadable picture raises: the guard then rules by its fail mode."""
        image = context.ledger.blob(observation.image) if observation.image else None
        content = Content(observation.id, observation.text, image)
        if image is None and not observation.text.strip():
            return Verdict(NAME, observation.id, Ruling.ALLOW, 0.0, (0.0, 0.0), EMPTY_RULE)
        panel = self._known_panel(context.ledger, context.limits)
        if panel is None:  # may load models and embed cases
            panel = await asyncio.to_thread(self.panel_for, context.ledger, context.limits)
        transcript = await hold_debate(panel, content, self.settings.debate)
        return verdict_of(transcript, self.settings)

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Sequence[Verdict], trust: TrustPolicy
    ) -> Verdict | None:
        """As of ``Tunable``: texts that the embedded jury judged, by its measured order of rules."""
        numbers, settings = measured(verdict), self.settings
        if numbers is None or settings.jury != "embedded" or settings.risk_first != "measured":
            return None
        if numbers["glance"]:  # a glance settles nothing where fewer misses are wanted than it was measured for
            stands = settings.quick and settings.misses >= DEFAULT_MISSES
            return replace(verdict, ruling=_least_where_unread(Ruling.ALLOW, numbers)) if stands else None
        from lazaretto.gates.content.jury.debaters import ErrorRates, heard_in, ruled_by_rates
        from lazaretto.models.deep import is_set_up

        rates, heard = ErrorRates(settings.false_alarms, settings.misses), heard_in(verdict.evidence)
        if heard is not None and not settings.add_reader:
            return None  # the jury alone was not asked to rule
        rule = ruled_by_rates(verdict.risk, rates, numbers["language"], heard)
        if heard is None and verdict.rule == CONFIRMED != rule and settings.add_reader and is_set_up("mpnet"):
            return None  # the jury was sure, and by these rates is not: nobody knows what the reader would say
        ruling = {CONFIRMED: settings.unsafe, IN_DOUBT: settings.gray, UNDECIDED: settings.undecided}.get(
            rule, Ruling.ALLOW
        )
        least = _least_where_unread(ruling, numbers)
        return replace(verdict, ruling=least, rule=rule if least is ruling else UNREAD_RULE)

    def panel_for(self, ledger: Ledger, limits: Limits) -> Panel:
        """The panel with the tenant's live case library; made once."""
        known = self._known_panel(ledger, limits)
        if known is not None:
            return known
        if "retrieval" in self.settings.without:
            self._given = make_panel(self.settings, None, limits)
            return self._given
        with self._lock:
            key = (ledger.url, ledger.namespace)
            if key not in self._libraries:
                self._libraries[key] = LiveLibrary(ledger, self.settings.encoder)
            if (*key, limits) not in self._panels:
                self._panels[(*key, limits)] = make_panel(self.settings, self._libraries[key], limits)
            return self._panels[(*key, limits)]

    def _known_panel(self, ledger: Ledger, limits: Limits) -> Panel | None:
        return self._given or self._panels.get((ledger.url, ledger.namespace, limits))


def verdict_of(transcript: Transcript, settings: ContentSettings) -> Verdict:
    """A debate's outcome in the guard's words."""
    finding = transcript.finding
    if finding.undecided:
        ruling = settings.undecided
    elif finding.gray:
        ruling = settings.gray
    elif finding.label is Label.UNSAFE:
        ruling = settings.unsafe
    else:
        ruling = Ruling.ALLOW
    rule, interval, evidence = finding.rule, finding.interval, _with_numbers(evidence_of(transcript), transcript)
    if finding.unread:
        evidence = (Evidence("measure", finding.unread, {}), *evidence)
        interval = (interval[0], 1.0)
        if ruling < Ruling.REVIEW:
            ruling, rule = Ruling.REVIEW, UNREAD_RULE
    return Verdict(
        NAME,
        transcript.prepared.content.id,
        ruling,
        finding.risk,
        interval,
        rule,
        evidence,
        taxonomy(transcript),
        transcript.cost,
    )


DEFAULT_MISSES = 0.15
"""The misses that a glance was measured for, as of ``jury.debaters.DEFAULT_RATES``."""


def _least_where_unread(ruling: Ruling, numbers: Mapping[str, Any]) -> Ruling:
    return ruling if numbers["whole"] else max(ruling, Ruling.REVIEW)


def _with_numbers(evidence: tuple[Evidence, ...], transcript: Transcript) -> tuple[Evidence, ...]:
    """The evidence, with what ``ruled_again`` needs; only a text that was read and judged keeps it."""
    finding, prepared = transcript.finding, transcript.prepared
    if prepared.kind is not InputKind.TEXT or prepared.fault or transcript.panel != EMBEDDED:
        return evidence
    language = str(prepared.facts.get("language", ""))
    if transcript.faults or (finding.undecided and language not in ("mixed", "other")):
        return evidence
    glance = transcript.rounds == 0 and not finding.undecided
    numbers = {"glance": glance, "language": language, "whole": not finding.unread}
    return (replace(evidence[0], data={**evidence[0].data, MEASURED: numbers}), *evidence[1:])


def make(table: Mapping[str, Any]) -> ContentGate:
    """The gate from the policy's ``[gates.content]``; raises where the packages of its jury are absent."""
    settings = content_settings(table)
    if settings.jury == "embedded":
        require("the content gate", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")
    return ContentGate(settings)


def _load_models() -> None:
    """Load the models and cases of the embedded jury; a missing one is reported when an item is judged."""
    from lazaretto.gates.content.jury.scorer import shipped_models

    try:
        shipped_models().warm_up()
        ready_library(starter_cases())
    except (ModelError, MissingExtra):
        pass
