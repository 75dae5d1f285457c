"""The content gate as the guard sees it: one observation in, one verdict out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from lazaretto.errors import MissingExtra, ModelError
from lazaretto.gates.content.assembly import LiveLibrary, make_panel, ready_library
from lazaretto.gates.content.casebook import Casebook
from lazaretto.gates.content.debate import Transcript, hold_debate
from lazaretto.gates.content.library import starter_cases
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import Content, Label
from lazaretto.gates.content.report import evidence_of, taxonomy
from lazaretto.gates.content.settings import ContentSettings, content_settings
from lazaretto.gates.protocol import GateContext
from lazaretto.ledger import Ledger
from lazaretto.policy import Limits
from lazaretto.policy.plugins import require
from lazaretto.types import Channel, Evidence, Observation, Ruling, Verdict

NAME = "content"
EMPTY_RULE = "nothing-to-judge"
UNREAD_RULE = "too_long_to_read_whole"


class ContentGate:
    """Moderation by debate."""

    name = NAME
    channels = frozenset(Channel)

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
        """By tenant and limits."""

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
                self._libraries[key] = LiveLibrary(Casebook(ledger), self.settings.encoder)
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
    rule, interval, evidence = finding.rule, finding.interval, evidence_of(transcript)
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


def make(table: Mapping[str, Any]) -> ContentGate:
    """The gate from the policy's ``[gates.content]``; raises where the packages of its jury are absent."""
    settings = content_settings(table)
    if settings.jury == "embedded":
        require("the content gate", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")
    return ContentGate(settings)


def _load_models() -> None:
    """Load what every debate of the embedded jury needs; what is missing is said when an item is judged."""
    from lazaretto.gates.content.jury.scorer import shipped_models

    try:
        shipped_models().warm_up()
        ready_library(starter_cases())
    except (ModelError, MissingExtra):
        pass
