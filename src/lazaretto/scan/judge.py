"""Judges the texts of a scan, many at a time, each by itself; and the journal from which a killed scan goes on.

Without provenance only the words count: does a text give orders, hide something, or carry a secret? A file that is
meant to instruct agents is excused only for a *possible* order, and has to keep ``gates/instructions.py`` as well.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import orjson
import platformdirs

from lazaretto import kept_texts
from lazaretto.errors import InputError
from lazaretto.gates.instructions import instruction_faults
from lazaretto.gates.memory.text_screener import Screening, UnreadLanguage, shared_screener
from lazaretto.gates.secrets import find_secrets, shown
from lazaretto.gates.structure import StructureSettings, text_findings
from lazaretto.scan.contradictions import ClaimMark, marks_of
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


# The judgements of a scan so far, on disk, so that a killed one goes on where it stopped.
#
# Judgements are kept by a hash of text and settings, so a store may change in between.

_FORMAT = 3
"""Format of a journal; one of another format is started again."""


def journal_path(target: str, settings: ScanSettings) -> Path:
    """The path of a scan's journal: in the user's cache folder, one for each target and settings."""
    name = hashlib.sha256(orjson.dumps([target, asdict(settings), version("lazaretto")])).hexdigest()[:24]
    return Path(platformdirs.user_cache_dir("lazaretto")) / "scans" / f"{name}.sqlite"


def digest_of(text: str, instructions: bool) -> bytes:
    """The key of a text in the journal."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, salt=b"i" * instructions).digest()


class Journal:
    """Judgements by the digest of the judged text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # it quotes memories: only the owner may read it
            self._database = sqlite3.connect(path, timeout=5)
            self._database.execute("PRAGMA journal_mode = WAL")
            if self._database.execute("PRAGMA user_version").fetchone() != (_FORMAT,):  # written by another version
                self._database.execute("DROP TABLE IF EXISTS judged")
                self._database.execute(f"PRAGMA user_version = {_FORMAT}")
            self._database.execute("CREATE TABLE IF NOT EXISTS judged (digest BLOB PRIMARY KEY, found BLOB NOT NULL)")
            self.resumed = self._database.execute("SELECT 1 FROM judged LIMIT 1").fetchone() is not None
        except (OSError, sqlite3.Error) as error:
            raise InputError("journal", f"{path} cannot be used ({error})", "Name another with --journal") from None

    def known(self, digests: Sequence[bytes]) -> dict[bytes, JudgedText]:
        """The texts that were judged before, with their judgements."""
        marks = ",".join("?" * len(digests))
        rows = self._database.execute(f"SELECT digest, found FROM judged WHERE digest IN ({marks})", list(digests))
        return {bytes(digest): _read(found) for digest, found in rows}

    def keep(self, judged: Mapping[bytes, JudgedText] | Iterable[tuple[bytes, JudgedText]]) -> None:
        """Add judgements, all or none of them."""
        pairs = judged.items() if isinstance(judged, Mapping) else judged
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO judged VALUES (?, ?)", [(digest, _written(judged)) for digest, judged in pairs]
            )

    def close(self, *, finished: bool = False) -> None:
        """Let it go; a finished scan needs it no more."""
        self._database.close()
        if finished:
            for end in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)


def _written(judged: JudgedText) -> bytes:
    hits = [[h.kind, h.rule, h.level, h.message, h.start, h.end, h.risk] for h in judged.hits]
    return orjson.dumps([hits, [[c.start, c.end, c.words, c.about] for c in judged.claims]])


def _read(found: bytes) -> JudgedText:
    hits, claims = orjson.loads(found)
    return JudgedText(
        tuple(Hit(kind, rule, Level(level), *more) for kind, rule, level, *more in hits),
        tuple(ClaimMark(start, end, tuple(words), about) for start, end, words, about in claims),
    )
