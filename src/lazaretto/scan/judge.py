"""Judges the texts of a scan, many at a time, each by itself.

Without provenance only the words count: does a text give orders, hide something, or carry a secret? A file that is
meant to instruct agents is excused only for a *possible* order, and has to keep ``gates/instructions.py`` as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto import kept_texts
from lazaretto.gates.instructions import instruction_faults
from lazaretto.gates.memory.text_screener import Screening, UnreadLanguage, shared_screener
from lazaretto.gates.secrets import find_secrets, shown
from lazaretto.gates.structure import StructureSettings, text_findings
from lazaretto.scan.claims import ClaimMark, marks_of
from lazaretto.scan.records import NOT_JUDGED, POISONED, SECRET, Hit, Level
from lazaretto.types import Ruling

QUOTED = 160


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """Settings of a scan."""

    false_positive_rate: float = 0.01
    """Share of honest texts that may be called poisoned, as measured on texts left out of training."""
    review_rate: float = 0.05
    """The same for those that are noted as doubtful."""
    contradictions: bool = True


@dataclass(frozen=True, slots=True)
class JudgedText:
    """The result for one text."""

    hits: tuple[Hit, ...]
    claims: tuple[ClaimMark, ...]


def judge_texts(texts: Sequence[tuple[str, bool]], settings: ScanSettings) -> list[JudgedText]:
    """Each text, with whether it is meant to instruct agents, judged by itself; in order."""
    with kept_texts.reading():
        screened = shared_screener().screen([text for text, _ in texts], most_seconds=math.inf)
        return [
            JudgedText(
                (*_form(text), *_secrets(text), *_orders(text, screening, rules, settings)),
                marks_of(text) if settings.contradictions else (),
            )
            for (text, rules), screening in zip(texts, screened, strict=True)
        ]


_FORM = StructureSettings()


def _form(text: str) -> list[Hit]:
    found = []
    for defect in text_findings(text, _FORM):
        level = Level.ERROR if defect.ruling >= Ruling.QUARANTINE else Level.WARNING
        level = level if defect.ruling > Ruling.WARN else Level.NOTE
        place = next(iter(defect.evidence.data.get("offsets", ())), 0)
        words = f"Hides something: {defect.evidence.summary.partition(': ')[2] or defect.evidence.summary}"
        found.append(Hit(POISONED, defect.rule, level, words, place, place + 1, 0.85))
    return found


def _secrets(text: str) -> list[Hit]:
    # baselines know findings by these words (``accepted.fingerprint``): other words would bring accepted ones back
    words = "Holds a secret ({}), which whoever reads the memory learns."
    return [
        Hit(SECRET, "credential", Level.ERROR, words.format(secret.kind), secret.start, secret.end, 0.9)
        for secret in find_secrets(text)
    ]


def _orders(text: str, screening: Screening, rules: bool, settings: ScanSettings) -> list[Hit]:
    found = _in_rules(text) if rules else []
    found += [_unread(screening.unread)] if screening.unread else []
    if not screening.whole:
        found.append(Hit(NOT_JUDGED, "too_long_to_read_whole", Level.NOTE, "Only parts of it were read.", risk=0.5))
    at = shared_screener().calibration.threshold
    sure = screening.logit > at(settings.false_positive_rate)
    sure |= (screening.mixed_logit or 0.0) > at(settings.false_positive_rate / 10)
    if not sure and (rules or screening.logit <= at(settings.review_rate)):  # a rule file may well read like an order
        return found
    span = screening.spans[0] if screening.spans else None
    quoted = f": “{shown(span.quote or span.text, QUOTED)}”" if span else ""
    disguise = f" (once its disguise is off: {span.view})" if span and span.view != "plain" else ""
    words = f"{'Reads' if sure else 'May read'} like an order to an agent{disguise}{quoted}"
    start, end = (span.start, span.end) if span and span.view == "plain" else (0, 0)
    rule, level = ("foreign_order", Level.ERROR) if sure else ("possible_order", Level.NOTE)
    return [Hit(POISONED, rule, level, words, start, end, round(screening.risk, 4)), *found]


def _unread(parts: Sequence[UnreadLanguage]) -> Hit:
    languages = ", ".join(repr(language) for language in dict.fromkeys(part.language for part in parts))
    words = f"A part is in {languages}, which the screener was not made for: it was not judged for orders."
    return Hit(NOT_JUDGED, "unknown_language", Level.NOTE, words, parts[0].start, parts[0].end, 0.5)


def _in_rules(text: str) -> list[Hit]:
    """Sentences that instructions to an agent must not have."""
    return [
        Hit(
            POISONED,
            fault.rule,
            Level.WARNING,
            f"{fault.words}: “{text[fault.start : fault.end][:QUOTED]}”",
            fault.start,
            fault.end,
            0.6,
        )
        for fault in instruction_faults(text)
    ]
