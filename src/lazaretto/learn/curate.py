"""The Curator: reads cases the panel got wrong, writes the lesson, previews its effect, and lets it go live.

It works in hindsight, with the truth at hand. A language model writes the lesson, or it is taken from the debate: spans
and precedents of the side that was right. A lesson passes the library's screens like any case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.gates.content import parsing, prompts
from lazaretto.gates.content.chat_roles import RoleModel
from lazaretto.gates.content.debate import TWO_ROUNDS, DebateSettings, Transcript, hold_debates
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.quoting import Quoter
from lazaretto.gates.content.records import Case, Content, Label, Outcome, PreparedContent
from lazaretto.models.protocol import Message

_CUE_CHARS = 80


@dataclass(frozen=True, slots=True)
class LabelledContent:
    """Content whose truth is known."""

    content: Content
    truth: Label


@dataclass(frozen=True, slots=True)
class FailedCase:
    """An item the panel got wrong or could not decide: its content, truth, ruling and the report of the debate."""

    content: Content
    truth: Label
    ruled: str
    """safe, unsafe or undecided."""
    report: Mapping[str, Any]
    source: str = "curated"
    """``curated`` from a labelled batch, ``appeal`` or ``review`` from a person."""


Writer = Callable[[FailedCase], Awaitable[Case]]
"""Writes the lesson of one failed item."""


def failures(reports: Iterable[Mapping[str, Any]], truths: Mapping[str, LabelledContent]) -> list[FailedCase]:
    """The verdict lines of a batch that the truth contradicts; undecided ones count as wrong."""
    wrong = []
    for line in reports:
        known = truths.get(str(line["id"]))
        if known is None:
            continue
        ruled = "undecided" if line.get("rule") == "undecided" else _guess(line).value
        if ruled != known.truth.value:
            wrong.append(FailedCase(known.content, known.truth, ruled, line.get("report") or {}))
    return wrong


def _guess(line: Mapping[str, Any]) -> Label:
    """The label of a verdict line; its best guess where the line asks for review."""
    if line["label"] == Outcome.REVIEW.value:
        return Label.UNSAFE if float(line["risk"]) >= 0.5 else Label.SAFE
    return Label(line["label"])


async def extract_lesson(failed: FailedCase) -> Case:
    """The lesson without a language model: quotes of the side that was right, and summaries of right precedents."""
    right, wrong = ("strict", "loose") if failed.truth is Label.UNSAFE else ("loose", "strict")
    quotes: dict[str, list[str]] = {right: [], wrong: []}
    for speech in failed.report.get("transcript", ()):
        quotes.setdefault(speech["role"], []).extend(f"“{quote[:_CUE_CHARS]}”" for quote in speech["quotes"])
    cues = quotes[right]
    if not cues and failed.truth is Label.SAFE:  # no side quoted anything for it: remember the quotes it was held for
        cues = [f"harmless here: {quote}" for quote in quotes[wrong]]
    for precedent in failed.report.get("precedents", ()):
        if precedent["label"] == failed.truth.value:
            cues.append(f"like: {precedent['summary'][:_CUE_CHARS]}")
    opening = " ".join((failed.content.text or failed.content.description).split())[:_CUE_CHARS]
    rule = failed.report.get("rule", "nobody")
    turn = "and" if failed.ruled == failed.truth else "but"
    summary = f"Ruled {failed.ruled} by {rule}, {turn} {failed.truth.value}: {opening}"
    hazards = tuple(h for h in failed.report.get("taxonomy", ()) if h in prompts.HAZARDS)
    return Case(
        failed.truth,
        failed.content.text,
        failed.content.description,
        hazards if failed.truth is Label.UNSAFE else (),
        tuple(dict.fromkeys(cues))[:4],
        summary,
        failed.source,
    )


@dataclass(frozen=True, slots=True)
class ChatCurator:
    """A language model as Curator; where its answer cannot be read, the lesson is extracted instead."""

    role_model: RoleModel

    async def __call__(self, failed: FailedCase) -> Case:
        """The lesson of one failed item."""
        quoter = Quoter()
        prepared = PreparedContent(failed.content, failed.content.description)
        log = "\n".join(
            f"Round {t['round']}, {t['role']}, {t['score']:.2f}: {t['argument'][:600]}"
            for t in failed.report.get("transcript", ())
        )
        file = prompts.content_file(prepared, quoter, 8_000)
        debate = quoter.block("debate", log or "no debate was recorded")
        instructions = prompts.curator_instructions(failed.truth.value, failed.ruled)
        asked = (Message("system", prompts.CONSTITUTION), Message("user", f"{file}\n\n{debate}\n\n{instructions}"))
        answer = (await self.role_model.ask(asked, parsing.CuratorAnswer)).answer
        plain = await extract_lesson(failed)
        if answer is None:
            return plain
        hazards = tuple(h for h in answer.hazards if h in prompts.HAZARDS) if failed.truth is Label.UNSAFE else ()
        cues = tuple(answer.key_cues[:4])
        return Case(plain.label, plain.text, plain.description, hazards, cues, answer.summary, failed.source)


async def curate(wrong: Sequence[FailedCase], writer: Writer = extract_lesson) -> tuple[Case, ...]:
    """One lesson per failed item, in order."""
    return tuple([await writer(failed) for failed in wrong])


@dataclass(frozen=True, slots=True)
class PanelTally:
    """The results of a panel on labelled items; an undecided item counts by the label of the stand-in."""

    items: int
    true_positive: int
    false_positive: int
    false_negative: int
    undecided: int

    @property
    def f1(self) -> float:
        """Of the class unsafe; 1.0 when there was nothing to find and nothing was found."""
        missed = self.false_positive + self.false_negative
        found = 2 * self.true_positive
        return found / (found + missed) if found + missed else 1.0


@dataclass(frozen=True, slots=True)
class LibraryPreview:
    """The changes that a new library version would make on a held-out sample."""

    before: PanelTally
    after: PanelTally
    mended: tuple[str, ...]
    """Items that were wrong and would be right."""
    broken: tuple[str, ...]
    """Items that were right and would be wrong."""

    @property
    def worse(self) -> bool:
        """Whether the new version would do worse."""
        return self.after.f1 < self.before.f1


async def preview(
    old: Panel, new: Panel, sample: Sequence[LabelledContent], settings: DebateSettings = TWO_ROUNDS
) -> LibraryPreview:
    """Judge a held-out sample with both versions."""
    before, after = await _labels(old, sample, settings), await _labels(new, sample, settings)
    was_right = {s.content.id for s in sample if before[s.content.id][0] is s.truth}
    is_right = {s.content.id for s in sample if after[s.content.id][0] is s.truth}
    mended, broken = tuple(sorted(is_right - was_right)), tuple(sorted(was_right - is_right))
    return LibraryPreview(_tally(before, sample), _tally(after, sample), mended, broken)


async def _labels(
    panel: Panel, sample: Sequence[LabelledContent], settings: DebateSettings
) -> dict[str, tuple[Label, bool]]:
    found: dict[str, tuple[Label, bool]] = {}
    async for content, outcome in hold_debates(panel, (s.content for s in sample), settings, at_once=8):
        if isinstance(outcome, Transcript):
            found[content.id] = (outcome.finding.label, bool(outcome.finding.undecided))
        else:
            found[content.id] = (Label.UNSAFE, True)
    return found


def _tally(labels: Mapping[str, tuple[Label, bool]], sample: Sequence[LabelledContent]) -> PanelTally:
    pairs = [(labels[s.content.id][0], s.truth) for s in sample]
    return PanelTally(
        len(pairs),
        sum(p is Label.UNSAFE and t is Label.UNSAFE for p, t in pairs),
        sum(p is Label.UNSAFE and t is Label.SAFE for p, t in pairs),
        sum(p is Label.SAFE and t is Label.UNSAFE for p, t in pairs),
        sum(labels[s.content.id][1] for s in sample),
    )
