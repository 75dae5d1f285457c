"""A debate from its first speech to its report: one debate, or many at once with back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

from lazaretto.cases.records import InputKind
from lazaretto.errors import InputError, LazarettoError, MissingExtra
from lazaretto.gates.content.prompts import HAZARDS
from lazaretto.gates.content.records import (
    PLACEHOLDER,
    RULES,
    ArbiterFinding,
    Briefing,
    Content,
    Debater,
    DebateState,
    Panel,
    PreparedContent,
    Role,
    RoleCost,
    Speech,
    undecided_finding,
)
from lazaretto.gates.secrets import MARK, OVERLAP, find_secrets
from lazaretto.names import counted
from lazaretto.reports import spelled
from lazaretto.types import Cost, Evidence, plain

FIRST_FALLBACK = 0.5
"""A debater's score in round 1 when none could be read; later its previous one stands."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DebateSettings:
    """How long a debate lasts."""

    rounds: int = 2
    """1 to 3."""
    adaptive: bool = False
    """Stop when positions have converged or the outcome can no longer change."""
    converged: float = 0.15
    """Adaptive: debaters this close to each other, on one side of one half, have converged."""
    settled: float = 0.2
    """Adaptive: both debaters this far or further from one half, on the same side, can no longer change the outcome."""

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= 3:
            raise InputError("rounds", f"{self.rounds} rounds asked for", "Use 1, 2 or 3")


TWO_ROUNDS = DebateSettings()
"""The paper's debate: two rounds, never cut short."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything that happened in one debate."""

    panel: str
    """Name of the panel."""
    prepared: PreparedContent
    briefing: Briefing
    speeches: tuple[Speech, ...]
    scores: Mapping[Role, tuple[float, ...]]
    finding: ArbiterFinding
    rounds: int
    """Rounds that took place."""
    planned: int
    """Rounds asked for."""
    ms: float
    faults: tuple[str, ...] = ()
    """Faults on the way, role by role; the finding says whether they mattered."""

    @property
    def role_costs(self) -> tuple[RoleCost, ...]:
        """One bill per role, rounds added up."""
        sums: dict[tuple[Role, str], RoleCost] = {}
        for role_cost in (
            self.prepared.role_cost,
            self.briefing.role_cost,
            *(t.role_cost for t in self.speeches),
            self.finding.role_cost,
        ):
            key = (role_cost.role, role_cost.model)
            sums[key] = add_role_costs(sums[key], role_cost) if key in sums else role_cost
        return tuple(c for c in sums.values() if c.calls or c.ms)

    @property
    def cost(self) -> Cost:
        """The whole debate's cost."""
        bills = self.role_costs
        tokens = sum(c.prompt_tokens + c.completion_tokens for c in bills)
        return Cost(self.ms, tokens, sum(c.calls for c in bills))


def add_role_costs(a: RoleCost, b: RoleCost) -> RoleCost:
    """Two bills of one role as one."""
    return RoleCost(
        a.role,
        a.model,
        a.calls + b.calls,
        a.prompt_tokens + b.prompt_tokens,
        a.completion_tokens + b.completion_tokens,
        a.cached_tokens + b.cached_tokens,
        a.prompt_chars + b.prompt_chars,
        a.ms + b.ms,
        a.dollars + b.dollars,
    )


@dataclass(slots=True)
class _DebateRun:
    """The debate in progress; the only mutable thing of a debate."""

    panel: Panel
    settings: DebateSettings
    faults: list[str] = field(default_factory=list)

    async def run(self, content: Content) -> Transcript:
        started = time.perf_counter()
        prepared = await self._prepare(content)
        settled = await self._glance(prepared)
        if settled is not None:
            ms = (time.perf_counter() - started) * 1000.0
            planned = self.settings.rounds
            return Transcript(
                self.panel.name, prepared, Briefing(), (), {}, settled, 0, planned, ms, tuple(self.faults)
            )
        briefing = await self._brief(prepared)
        debate = DebateState(prepared, briefing, rounds=self.settings.rounds)
        took_place = 0
        if self.panel.strict or self.panel.loose:
            for number in range(1, self.settings.rounds + 1):
                debate = replace(debate, round=number)
                for role, debater in ((Role.STRICT, self.panel.strict), (Role.LOOSE, self.panel.loose)):
                    if debater is not None:
                        debate = await self._speak(debate, role, debater)
                took_place = number
                if self.settings.adaptive and is_settled(debate, self.settings):
                    break
        finding = await self._decide(debate)
        ms = (time.perf_counter() - started) * 1000.0
        return Transcript(
            self.panel.name,
            prepared,
            briefing,
            debate.speeches,
            debate.scores,
            finding,
            took_place,
            self.settings.rounds,
            ms,
            tuple(self.faults),
        )

    async def _try(self, answer: Awaitable[T]) -> T | str:
        try:
            return await answer
        except (InputError, asyncio.CancelledError):
            raise
        except LazarettoError as error:
            return str(error) or type(error).__name__
        except Exception as error:  # a role may be foreign code: its crash is a recorded fault, not ours
            return f"{type(error).__name__}: {error}"

    async def _prepare(self, content: Content) -> PreparedContent:
        got = await self._try(self.panel.preprocessor.prepare(content))
        if isinstance(got, str):
            words = content.description or ("" if content.kind is InputKind.TEXT else PLACEHOLDER)
            got = PreparedContent(content, words, fault=got)
        self._note("preprocessor", got.fault)
        return got

    async def _glance(self, prepared: PreparedContent) -> ArbiterFinding | None:
        if self.panel.glance is None:
            return None
        got = await self._try(self.panel.glance.settle(prepared))
        if isinstance(got, str):
            self._note("glance", got)  # the debate decides
            return None
        return got

    async def _brief(self, prepared: PreparedContent) -> Briefing:
        if self.panel.supporter is None:
            return Briefing()
        got = await self._try(self.panel.supporter.brief(prepared))
        if isinstance(got, str):
            got = Briefing(fault=got)
        self._note("supporter", got.fault)
        return got

    async def _speak(self, debate: DebateState, role: Role, debater: Debater) -> DebateState:
        got = await self._try(debater.argue(debate))
        if isinstance(got, str):
            got = Speech(role, debate.round, "", None, role_cost=RoleCost(role), fault=got)
        self._note(f"{role.value} round {debate.round}", got.fault)
        before = debate.scores.get(role, ())
        score = got.score
        if score is None:
            score = before[-1] if before else FIRST_FALLBACK
        scores = {**debate.scores, role: (*before, score)}
        return replace(debate, speeches=(*debate.speeches, got), scores=scores)

    async def _decide(self, debate: DebateState) -> ArbiterFinding:
        got = await self._try(self.panel.arbiter.decide(debate))
        if isinstance(got, str):
            got = undecided_finding(debate, got, RoleCost(Role.ARBITER))
        self._note("arbiter", got.undecided)
        return got

    def _note(self, role: str, fault: str) -> None:
        if fault:
            self.faults.append(f"{role}: {fault}")


def is_settled(debate: DebateState, settings: DebateSettings) -> bool:
    """Whether another round could still matter: no, when both sides agree closely or both stand clear of one half on
    the same side.
    """
    strict, loose = debate.last_score(Role.STRICT), debate.last_score(Role.LOOSE)
    if strict is None or loose is None or any(s.fault for s in debate.speeches if s.round == debate.round):
        return False
    same_side = (strict >= 0.5) == (loose >= 0.5)
    close = abs(strict - loose) <= settings.converged
    clear = min(abs(strict - 0.5), abs(loose - 0.5)) >= settings.settled
    return same_side and (close or clear)


async def hold_debate(panel: Panel, content: Content, settings: DebateSettings = TWO_ROUNDS) -> Transcript:
    """One debate from start to finding. Raises only for input that is unusable in itself."""
    return await _DebateRun(panel, settings).run(content)


async def hold_debates(
    panel: Panel, contents: Iterable[Content], settings: DebateSettings = TWO_ROUNDS, *, at_once: int = 64
) -> AsyncIterator[tuple[Content, Transcript | InputError]]:
    """Many debates, yielded as they finish. At most ``at_once`` are under way, and none starts while the reader lags
    behind.
    """
    source = iter(contents)
    under_way: set[asyncio.Task[tuple[Content, Transcript | InputError]]] = set()

    async def debate_on(content: Content) -> tuple[Content, Transcript | InputError]:
        try:
            return content, await hold_debate(panel, content, settings)
        except InputError as error:
            return content, error

    def fill() -> None:
        while len(under_way) < at_once:
            content = next(source, None)
            if content is None:
                return
            under_way.add(asyncio.create_task(debate_on(content)))

    try:
        fill()
        while under_way:
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            under_way.difference_update(done)
            fill()
            for task in done:
                yield task.result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


# A debate as a report: the same facts as JSON data, Markdown and one self-contained HTML page.

_SHOWN = 4000
"""Characters of a part of the content that a report repeats."""
_KEPT = 2000
"""Characters of a speech that are kept with the ruling."""
DEBATE = "debate"
"""The kind of evidence that holds a transcript."""


def taxonomy(transcript: Transcript) -> tuple[str, ...]:
    """Policy references: MLCommons hazards of the finding, and OWASP ASI01 where the content speaks to its judges."""
    return transcript.finding.hazards + (("ASI01",) if transcript.prepared.notices else ())


def report_data(transcript: Transcript) -> dict[str, Any]:
    """The whole report as JSON data: of what (a hash), by which version, when; without secrets of the content."""
    finding, prepared, briefing = transcript.finding, transcript.prepared, transcript.briefing
    report = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("lazaretto"),
        "sha256": content_hash(prepared.content),
        "id": prepared.content.id,
        "kind": prepared.kind.value,
        "label": finding.outcome.value,
        "guess": finding.label.value,
        "risk": round(finding.risk, 4),
        "interval": [round(v, 4) for v in finding.interval],
        "rule": finding.rule,
        "rule_text": RULES.get(finding.rule, ""),
        "reasoning": finding.reasoning,
        "undecided": finding.undecided,
        "taxonomy": list(taxonomy(transcript)),
        "evidence": plain(finding.evidence),
        "notices": plain(prepared.notices),
        "exhibit": {
            "text": prepared.content.text[:_SHOWN],
            "description": prepared.description[:_SHOWN],
            "read_text": prepared.read_text[:_SHOWN],
            "facts": plain(prepared.facts),
        },
        "briefing": {
            "summary": briefing.summary,
            "cues": list(briefing.cues),
            "differences": list(briefing.differences),
            "patterns": list(briefing.patterns),
        },
        "precedents": [
            {
                "id": p.case.id,
                "label": p.case.label.value,
                "similarity": round(p.similarity, 3),
                "summary": p.case.summary or p.case.words[:160],
                "why": p.why,
                "differs": p.differs,
                "source": p.case.source,
            }
            for p in briefing.precedents
            if p.bears
        ],
        "weighed": sum(not p.bears for p in briefing.precedents),
        "transcript": [
            {
                "round": t.round,
                "role": t.role.value,
                "score": round(transcript.scores[t.role][t.round - 1], 4),
                "stated": t.score is not None,
                "conceded": t.conceded,
                "argument": t.argument,
                "quotes": [str(q.data.get("quote", q.summary)) for q in t.quotes],
                "fault": t.fault,
            }
            for t in transcript.speeches
        ],
        "trajectories": {role.value: [round(s, 4) for s in scores] for role, scores in transcript.scores.items()},
        "rounds": transcript.rounds,
        "table": transcript.panel,
        "cost": {
            "ms": round(transcript.ms, 2),
            "tokens": transcript.cost.tokens,
            "calls": transcript.cost.calls,
            "dollars": round(sum(c.dollars for c in transcript.role_costs), 6),
            "by_role": [plain(c) for c in transcript.role_costs],
        },
        "faults": list(transcript.faults),
    }
    parts = (prepared.content.text, prepared.description, prepared.read_text)
    return _without_secrets(report, _secrets_in(*parts))


def content_hash(content: Content) -> str:
    """The SHA-256 of a content: of its text, its description and its picture's own SHA-256, a line each."""
    picture = "" if content.image is None else hashlib.sha256(content.image).hexdigest()
    words = "\n".join((content.text, content.description, picture))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def _secrets_in(*parts: str) -> dict[str, str]:
    """Secrets in what a report may repeat, each with the mark in its place."""
    found: dict[str, str] = {}
    with contextlib.suppress(MissingExtra):
        for part in parts:
            words = part[: _SHOWN + OVERLAP]
            found |= {words[secret.start : secret.end]: MARK.format(kind=secret.kind) for secret in find_secrets(words)}
    return found


def _without_secrets(report: dict[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """The report with a mark in the place of each secret; phrases point to their places in the exhibit with marks."""
    if not secrets:
        return report
    anywhere = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return anywhere.sub(lambda found: secrets[found[0]], value)
        if isinstance(value, dict):
            return {key: clean(held) for key, held in value.items()}
        return [clean(held) for held in value] if isinstance(value, list) else value

    cleaned: dict[str, Any] = clean(report)
    for row in cleaned["evidence"]:
        data = row["data"]
        if "start" in data:
            place = cleaned["exhibit"][data["part"]].find(data["quote"])
            del data["start"], data["end"]
            if place >= 0:
                data |= {"start": place, "end": place + len(data["quote"])}
    return cleaned


def references(ids: Sequence[str]) -> str:
    names = {"ASI01": "OWASP ASI01 agent goal hijack"}
    return ", ".join(names.get(i, f"MLCommons {i} {HAZARDS.get(i, '')}".strip()) for i in ids) or "none"


def markdown(report: Mapping[str, Any]) -> str:
    """The report for people who read text. Everything quoted stands in code or block quotes, so that nothing in it
    renders.
    """
    low, high = report["interval"]
    lines = [
        f"# Audit of `{_code(report['id'])}`: {report['label'].upper()}",
        "",
        f"Risk {report['risk']:.2f} ({low:.2f} to {high:.2f}) · rule `{report['rule']}` · {report['rounds']} rounds "
        f"· {report['table']}",
        "",
        f"Made {report['made']} by lazaretto {report['version']} of content with the SHA-256 `{report['sha256']}`",
        "",
        _words(report["rule_text"]),
        "",
        *_quote(report["reasoning"]),
        "",
        f"Policy references: {references(report['taxonomy'])}",
    ]
    if report["undecided"]:
        lines += ["", f"**Undecided**: {_line(report['undecided'])}"]
    for title, rows in (("Evidence", report["evidence"]), ("Notices", report["notices"])):
        if rows:
            lines += ["", f"## {title}", "", *(f"- {_evidence_line(row)}" for row in rows)]
    if report["precedents"]:
        lines += ["", "## Precedents", ""]
        lines += [
            "| case | ruled | similarity | what it was | why it applies, where it differs |",
            "|---|---|---|---|---|",
        ]
        for p in report["precedents"]:
            bearing = _cell(f"{p['why']} {p['differs']}".strip())
            lines.append(f"| `{p['id']}` | {p['label']} | {p['similarity']:.2f} | {_cell(p['summary'])} | {bearing} |")
    if report.get("weighed"):
        lines += ["", f"Cases further off, weighed for little and not cited: {report['weighed']}."]
    lines += ["", "## Transcript"]
    if report["briefing"]["summary"]:
        lines += ["", "**Supporter**", "", *_quote(report["briefing"]["summary"])]
    for speech in report["transcript"]:
        mark = " (concedes)" if speech["conceded"] else ""
        stated = "" if speech["stated"] else " (fallback)"
        name = f"Round {speech['round']}, {speech['role'].capitalize()}"
        lines += ["", f"**{name}**: {speech['score']:.2f}{stated}{mark}", ""]
        lines += _quote(speech["argument"] or f"no usable speech: {speech['fault']}")
    cost = report["cost"]
    spent = f"{cost['ms']:.0f} ms, {cost['calls']} calls, {cost['tokens']} tokens, ${cost['dollars']:.6f}"
    lines += ["", "## Cost", "", spent]
    if report["faults"]:
        lines += ["", "## Faults", "", *(f"- {_line(fault)}" for fault in report["faults"])]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return " ".join(spelled(str(text)).split()).replace("`", "ˋ").replace("<", "‹")


def _line(text: str) -> str:
    return "`" + _code(text) + "`"


_ACTIVE = re.compile(r"[\\`*\[\]~]|(?<!\w)_|_(?!\w)|&(?=#?\w{1,32};)|^[-+=>#](?!\Z)|^\d+(?=[.)])")
"""Signs that Markdown takes for a link, a picture, emphasis, a code, an entity, or the start of a heading or list."""


def _words(text: str) -> str:
    """One line of text in which nothing is Markdown."""
    line = spelled(text).replace("<", "‹")
    return _ACTIVE.sub(lambda found: f"\\{found[0]}" if not found[0].isdigit() else f"{found[0]}\\", line)


def _cell(text: str) -> str:
    return _words(" ".join(str(text).split())).replace("|", "¦")


def _quote(text: str) -> list[str]:
    return ["> " + _words(line) for line in spelled(text or "-").split("\n")]


def _evidence_line(row: Mapping[str, Any]) -> str:
    return f"{row['kind']}: {_cell(row['summary'])}"


def evidence_of(transcript: Transcript) -> tuple[Evidence, ...]:
    """The evidence of the verdict: the finding's evidence, the notices and the nearest precedents."""
    cited = tuple(
        Evidence(
            "precedent",
            f"Precedent ruled {p.case.label.value}: {p.case.summary or p.case.words[:120]}",
            {"case": p.case.id, "label": p.case.label.value, "similarity": round(p.similarity, 3)},
        )
        for p in transcript.briefing.precedents
        if p.bears
    )
    words = transcript.finding.reasoning or RULES[transcript.finding.rule]
    reason = Evidence("measure", words, {"scores": plain(transcript.scores)})
    return (reason, *transcript.finding.evidence, *transcript.prepared.notices, *cited, debate_evidence(transcript))


def debate_evidence(transcript: Transcript) -> Evidence:
    """The debate itself, as the ledger keeps it beside the ruling: what the Curator learns from."""
    report = report_data(transcript)
    speeches = [
        {**{k: t[k] for k in ("role", "round", "score")}, "argument": t["argument"][:_KEPT], "quotes": t["quotes"][:8]}
        for t in report["transcript"]
    ]
    precedents = [{k: p[k] for k in ("id", "label", "summary")} for p in report["precedents"]]
    described = transcript.prepared.description
    data = {
        "transcript": speeches,
        "precedents": precedents,
        "description": "" if described == PLACEHOLDER else described[:_SHOWN],
        "read_text": transcript.prepared.read_text[:_SHOWN],
        "rule": transcript.finding.rule,
        "taxonomy": report["taxonomy"],
    }
    rounds, rule = counted(transcript.rounds, "round"), transcript.finding.rule
    return Evidence(
        DEBATE, f"{rounds} of debate ended with {rule}" if transcript.rounds else "No debate was held.", data
    )
