"""The Curator: reads cases the panel got wrong, writes the lesson, previews its effect, and lets it go live.

It works in hindsight, with the truth at hand. A language model writes the lesson, or it is taken from the debate:
spans and precedents of the side that was right. A lesson passes the library's screens like any case.
Its cases come from people's labels and upheld appeals, or from public case files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lazaretto.cases.records import Case, Label
from lazaretto.errors import InputError
from lazaretto.gates.content import parsing, prompts
from lazaretto.gates.content.chat_roles import RoleModel
from lazaretto.gates.content.debate import DEBATE, TWO_ROUNDS, DebateSettings, Transcript, hold_debates
from lazaretto.gates.content.prompts import Quoter
from lazaretto.gates.content.records import Content, Outcome, Panel, PreparedContent
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.models.protocol import Message
from lazaretto.types import BY_PERSON, COPY_OF, EventKind, Observation, Ruling

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


# Reviews: people's labels and upheld appeals in the ledger, as cases for the Curator.

_TRUTH = {"harmful": Label.UNSAFE, "benign": Label.SAFE}


def reviewed(ledger: Ledger) -> list[FailedCase]:
    """Every item that a person labelled and the gates ruled on, confirmed or overturned, with its recorded debate.

    An appeal without a label is open and teaches nothing.
    """
    labels = standing_events(ledger, [EventKind.LABELLED])
    labelled = dict.fromkeys(event.subject for event in labels if COPY_OF not in (event.body or {}))
    return [case for item in labelled if (case := review_of(item, ledger)) is not None]


def review_of(item: str, ledger: Ledger, condemned: bool = False) -> FailedCase | None:
    """One item with its label (or unsafe where a repair ``condemned`` it) and the ruling of the gates.

    A picture is represented by the text that the debate's vision model and OCR wrote about it; without any text it
    cannot be a precedent.
    """
    decision: Mapping[str, Any] | None = None
    label, source = "", "repair"
    kinds = (EventKind.RULED, EventKind.LABELLED, EventKind.APPEALED)
    for event in standing_events(ledger, kinds, subject=item):
        if event.body is None:
            continue
        if event.kind is EventKind.LABELLED:
            label, source = str(event.body.get("label")), "appeal" if source == "appeal" else "review"
        elif event.kind is EventKind.APPEALED:
            source = "appeal"
        # a label is recorded as a ruling, too; and a gate that could not answer has no opinion to correct
        elif not str(event.body.get("rule", "")).startswith((BY_PERSON, "fail:")):
            decision = event.body
    truth = _TRUTH.get(label) or (Label.UNSAFE if condemned else None)
    if truth is None or decision is None:
        return None
    held = Ruling.from_label(str(decision["ruling"])) > Ruling.WARN
    observation = ledger.item(item)
    debate = _debate(decision)
    content = Content(item, observation.text, description=_description(debate))
    if not (content.text.strip() or content.description.strip()):
        return None
    report = dict(debate) if debate.get("transcript") else _quoted(decision, observation)
    if not str(decision["rule"]).startswith(
        "content:"
    ):  # the debate let it pass, or was not asked: another gate held it
        report["rule"] = decision["rule"]
    return FailedCase(content, truth, Label.UNSAFE if held else Label.SAFE, report, source)


def _evidence(decision: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for verdict in decision.get("verdicts", ()):
        yield from verdict.get("evidence", ())


def _debate(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """The transcript that the ruling was recorded with; empty where no debate was held."""
    return next((e["data"] for e in _evidence(decision) if e.get("kind") == DEBATE), {})


def _description(debate: Mapping[str, Any]) -> str:
    return "\n".join(part for key in ("description", "read_text") if (part := str(debate.get(key) or "").strip()))


def _quoted(decision: Mapping[str, Any], observation: Observation) -> dict[str, Any]:
    """Without a debate: the quotes of the gates. Gates quote evidence against an item, so this is the strict side."""
    quotes = []
    for evidence in _evidence(decision):
        data = evidence.get("data", {})
        if evidence.get("kind") == "span":
            span = observation.text[data["start"] : data["end"]] if data.get("view") == "plain" else ""
            quotes.append(str(data.get("quote") or span))
    risk = float(decision.get("risk", 0.5))
    speech = {"role": "strict", "round": 1, "score": risk, "argument": "", "quotes": [q for q in quotes if q.strip()]}
    taxonomy = [t for verdict in decision.get("verdicts", ()) for t in verdict.get("taxonomy", ())]
    transcript = [speech] if speech["quotes"] else []
    return {"rule": decision.get("rule", ""), "transcript": transcript, "taxonomy": taxonomy}


# Loader of the public Aetheria case files and of AIR-Bench, from a path the user names. Nothing of them ships here.

_LABELS = {"1": Label.UNSAFE, "0": Label.SAFE, "unsafe": Label.UNSAFE, "safe": Label.SAFE, "risky": Label.UNSAFE}
_HAZARDS: Mapping[str, str] = {
    "Bias & Discrimination": "S10",
    "Intellectual Property": "S8",
    "Privacy Protection": "S7",
    "Psychological Health": "S11",
}
"""Where the benchmark's categories and MLCommons hazards say the same; others carry none rather than a wrong one."""


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, row) of every JSON line of a file, or of every ``*.jsonl`` file of a folder, in order."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError("path", f"no JSON lines file at {path}", "Give a .jsonl file or a folder that holds some")
    for file in files:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            where = f"{file.name} line {number}"
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(where, f"not JSON ({error})", "One JSON object per line") from None
            if not isinstance(row, dict):
                raise InputError(where, "not an object", "One JSON object per line")
            yield where, row


def _label(row: Mapping[str, Any], where: str, absent: Label | None = None) -> Label:
    value = row.get("label", row.get("true_label"))
    if value is None and absent is not None:
        return absent
    found = _LABELS.get(str(value).strip().lower())
    if found is None:
        raise InputError(where, f"label {value!r}", "Use 1 or unsafe, 0 or safe")
    return found


def _content(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("text") or row.get("excerpt") or ""), str(row.get("description") or "")


def case_rows(path: Path) -> list[Case]:
    """The cases of the library files. Source labels, risks and votes never become part of a case's content."""
    cases = []
    for where, row in read_rows(path):
        text, description = _content(row)
        if not (text.strip() or description.strip()):
            raise InputError(where, "neither text nor description", "A case needs content")
        # the public case files leave the label of safe cases out; only a file that names its origin is read that way
        label = _label(row, where, Label.SAFE if row.get("origin") else None)
        hazard = _HAZARDS.get(str(row.get("category") or ""))
        cues = tuple(str(c).strip() for c in row.get("key_cues") or () if str(c).strip())[:6]
        summary = str(row.get("summary") or "").strip()[:600]
        hazards = (hazard,) if hazard and label is Label.UNSAFE else ()
        cases.append(Case(label, text, description, hazards, cues, summary, "air-bench"))
    return cases


def labelled_rows(path: Path) -> list[LabelledContent]:
    """Benchmark items with their truth; ids must be unique."""
    items: dict[str, LabelledContent] = {}
    for where, row in read_rows(path):
        key = str(row.get("id") or "")
        if not key or key in items:
            raise InputError(where, f"id {key!r} is missing or occurs twice", "Give every item its own id")
        text, description = _content(row)
        items[key] = LabelledContent(Content(key, text, description=description), _label(row, where))
    return list(items.values())
