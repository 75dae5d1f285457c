"""The memory gate: does a text give agents orders or change facts it may not, does a record go against the evidence?

The same order is a task when the user gives it, and poison when a web page does: orders from trusted source classes
pass, others are held.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lazaretto.gates.memory.claims import corrections
from lazaretto.gates.memory.claims.conflicts import ruling_on, with_claims
from lazaretto.gates.memory.claims.judge import ClaimJudge
from lazaretto.gates.memory.claims.relation import LlmTiebreak
from lazaretto.gates.memory.claims.settings import DEFAULT_CLAIMS, ClaimSettings
from lazaretto.gates.memory.record_model import Look, RecordModel, shared_model
from lazaretto.gates.memory.record_watch import RecordJudgement, RecordWatch, notes
from lazaretto.gates.memory.text_screener import (
    GRAY,
    MOST_SECONDS,
    Screening,
    TextScreener,
    UnreadLanguage,
    has_order_sign,
    hides_a_change,
    shared_screener,
)
from lazaretto.gates.memory.trusted_plans import supporting_memories
from lazaretto.gates.protocol import CARRIED_BY, MEASURED, UNREAD, GateContext, SecondLook, measured
from lazaretto.gates.secrets import shown
from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.models.deep import reader_for
from lazaretto.models.openai_chat import OpenAIChat
from lazaretto.models.protocol import ChatModel
from lazaretto.pictures import open_picture
from lazaretto.pictures.words import (
    FEWEST_WORDS,
    LETTERING,
    TURNED,
    can_read_lettering,
    file_readings,
    lettering,
)
from lazaretto.policy import CLOSED, DEFAULT_TRUST, RulingWord, Share, TrustPolicy, read_settings
from lazaretto.policy.plugins import require
from lazaretto.processor_time import NOT_WHOLE, in_thread, left, until
from lazaretto.provenance.text_edits import without_spans
from lazaretto.reading.text import reading_of
from lazaretto.types import UNHEARD, Channel, Correction, Cost, Evidence, Observation, Ruling, SourceClass, Verdict

MEMORY_POISONING = "ASI06"
INTER_AGENT = "ASI07"
GOAL_HIJACK = "ASI01"
_MOST_QUOTED = 3
"""Most unreadable sentences that the evidence quotes."""
KNOWN_PLAN, MILD = "known_plan", "mild_order"
_NOT_COMPARED = "Only some of its claims were compared with known ones, in the time of one item (processor_s)."
SCREENING = 0.75
"""The screener's share of an item's remaining processor time."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The policy's ``[gates.memory]`` table."""

    __pydantic_config__ = CLOSED
    false_positive_rate: Annotated[
        Share,
        Field(description="Share of honest memories that may be held; measured on what was left out of training."),
    ] = 0.01
    review_rate: Annotated[Share, Field(description="Share of honest texts that may be held or sent to a person.")] = (
        0.02
    )
    faint_rate: Annotated[
        Share,
        Field(
            description="Share of honest texts that a larger reader is asked about, where one is set up for their"
            " language (`lazaretto deep setup`); until it answers they pass with a warning."
        ),
    ] = 0.05
    ruling: Annotated[RulingWord, Field(description="Ruling for a text above the first rate's threshold.")] = (
        Ruling.QUARANTINE
    )
    possible_order: Annotated[
        RulingWord,
        Field(
            description="Ruling for a text between the thresholds of the two rates, or above that of `faint_rate` with"
            " a sign of an order: it asks to be passed on, speaks to machines that read, or wants something kept from"
            " a person."
        ),
    ] = Ruling.REVIEW
    possible_order_untrusted: Annotated[
        RulingWord, Field(description="The same for sources trusted less than `readable_trust`.")
    ] = Ruling.REVIEW
    mild_order: Annotated[
        RulingWord,
        Field(
            description="Ruling for a text of a source trusted less than `readable_trust` that reads like no order, but"
            " tells its readers to weaken a control or to send something away."
        ),
    ] = Ruling.REVIEW
    unknown_language: Annotated[
        RulingWord, Field(description="Ruling for text in a language the screener was not made for.")
    ] = Ruling.REVIEW
    unknown_language_untrusted: Annotated[
        RulingWord,
        Field(
            description="The same for sources trusted less than `readable_trust`: what nobody here can read may order."
        ),
    ] = Ruling.REVIEW
    readable_trust: Annotated[
        Share, Field(description="Least trust of a source that is not `untrusted` in the rulings above.")
    ] = 0.5
    may_order: Annotated[
        tuple[SourceClass, ...], Field(description="Source classes whose orders are tasks, not poison.")
    ] = (SourceClass.DIRECT_USER, SourceClass.SYSTEM)
    may_plan: Annotated[
        tuple[SourceClass, ...],
        Field(description="Source classes whose texts may plan what a trusted memory says, in the words of an order."),
    ] = (SourceClass.MODEL_INFERENCE,)
    claims: ClaimSettings = DEFAULT_CLAIMS


class MemoryGate:
    """Screens texts that agents read and keep for foreign orders, and for claims that their source may not change."""

    name = "memory"
    channels = frozenset(Channel)
    rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "false_positive_rate": (0.001, 0.005, 0.01, 0.02, 0.05),
        "review_rate": (0.001, 0.005, 0.01, 0.02, 0.05),
    }

    def __init__(
        self,
        settings: MemorySettings,
        screener: TextScreener | None = None,
        model: RecordModel | None = None,
        chat: ChatModel | None = None,
    ) -> None:
        """``screener``, ``model``: others than those that ship, which are loaded when they are first needed; ``chat``:
        who is asked about gray pairs of claims, instead of the settings' endpoint."""
        self.settings = settings
        self._given = screener
        self._model = model
        self._watches: dict[str, RecordWatch] = {}
        endpoint = settings.claims.models.get("default")
        asked = chat or (OpenAIChat(endpoint) if endpoint else None)
        self.claims = ClaimJudge(
            settings.claims.rule(), settings.claims.little_trust, llm_tiebreak=LlmTiebreak(asked) if asked else None
        )

    @property
    def _screener(self) -> TextScreener:
        return self._given or shared_screener()

    @cached_property
    def _hold_at(self) -> float:
        return self._screener.calibration.threshold(self.settings.false_positive_rate)

    @cached_property
    def _ask_at(self) -> float:
        return self._screener.calibration.threshold(self.settings.review_rate)

    @cached_property
    def _faint_at(self) -> float:
        return self._screener.calibration.threshold(self.settings.faint_rate)

    @cached_property
    def _outright_at(self) -> float:
        """The logit of an order that is never a plan, in any language: ten times rarer among honest texts."""
        return self._screener.calibration.threshold(self.settings.false_positive_rate / 10)

    def warm_up(self) -> None:
        """Load the screener, and let it read a line, so that its later parts are loaded too."""
        self._screener.screen(["The berth is number nine."])
        if self.settings.claims.compare:
            self.claims.warm_up()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """One pass over the text and over the words of a picture; the strongest order decides."""
        verdicts = []
        if observation.fields is not None:
            verdicts.append(await in_thread(self._examine_record, observation, context))
        if observation.image is not None:
            verdicts += await self._examine_picture(observation, context)
        if observation.text or not verdicts:
            verdicts.append(await in_thread(self._examine_text, observation, context))
        return functools.reduce(_stricter, verdicts)

    def _screen(self, text: str) -> Screening:
        """Screen as much of the text as there is time for; the remaining time is for claims."""
        return self._screener.screen([text], left(MOST_SECONDS / SCREENING) * SCREENING)[0]

    def _examine_text(self, observation: Observation, context: GateContext) -> Verdict:
        started = time.perf_counter()
        screening = self._screen(observation.text)
        ms = (time.perf_counter() - started) * 1000
        verdict = self.judge(observation, screening, ms, trust=context.trust)
        numbers = _numbers(screening)
        if self._may_be_plan(observation, verdict.rule, screening):
            verdict = self._as_plan(verdict, observation, context)
            numbers["plan"] = verdict.rule == KNOWN_PLAN
        if observation.text and self.settings.claims.compare:
            verdict, numbers["claims"] = self._compare_claims(verdict, observation, context)
        return replace(verdict, evidence=_with_numbers(verdict.evidence, numbers))

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Sequence[Verdict], trust: TrustPolicy
    ) -> Verdict | None:
        """As of ``Tunable``. Pictures and structured records keep too little."""
        numbers = measured(verdict)
        if numbers is None or observation.image is not None or observation.fields is not None:
            return None
        screening = _screening(numbers)
        ruling, rule = self._rule(observation, screening, "", trust)
        risk = min(screening.risk, 0.1) if rule == "trusted_order" else screening.risk
        risk = max(risk, GRAY) if rule == MILD else risk
        if self._may_be_plan(observation, rule, screening):
            if "plan" not in numbers:  # nobody has looked whether trusted memories say so
                return None
            if numbers["plan"]:
                ruling, rule, risk = Ruling.ALLOW, KNOWN_PLAN, min(risk, 0.1)
        claims = numbers.get("claims")
        if claims is not None:
            their_ruling, their_risk = Ruling.from_label(claims["ruling"]), float(claims["risk"])
            if their_ruling > ruling or (their_ruling is ruling and their_ruling > Ruling.WARN and their_risk > risk):
                ruling, rule, risk = their_ruling, claims["rule"], their_risk
            risk = max(risk, their_risk)
            if claims["cut"] and ruling < Ruling.REVIEW:
                ruling, rule = Ruling.REVIEW, UNREAD
        return replace(verdict, ruling=ruling, rule=rule, risk=risk)

    async def _examine_picture(self, observation: Observation, context: GateContext) -> list[Verdict]:
        """A verdict for every reading of the picture that says something, else one that says there is none.

        A picture that cannot be opened raises: nothing was read, and the guard's fail mode says so.
        """
        started = time.perf_counter()
        found = await open_picture(context.ledger.blob(str(observation.image)), context.limits)
        readings, unread = file_readings(found), [] if found.texts_whole else ["more text than is read of one"]
        if can_read_lettering():
            letters = await asyncio.to_thread(lettering, found)
            readings += tuple(reading for reading in letters if len(reading.text.split()) >= FEWEST_WORDS)
        else:
            unread.append("lettering and codes, which need lazaretto[vision]")
        screenings = [await in_thread(self._screen, reading.text) for reading in readings]
        ms = (time.perf_counter() - started) * 1000
        verdicts = [
            self.judge(observation, screening, ms, within=reading.view, trust=context.trust)
            for reading, screening in zip(readings, screenings, strict=True)
        ]
        verdicts = verdicts or [Verdict(self.name, observation.id, Ruling.ALLOW, 0.0, (0.0, 1.0), "no_words")]
        if unread:
            note = Evidence("measure", f"Of the picture was not read: {', '.join(unread)}.", {})
            verdicts[0] = replace(verdicts[0], evidence=(*verdicts[0].evidence, note))
        if not found.texts_whole and verdicts[0].ruling < Ruling.REVIEW:
            verdicts[0] = replace(verdicts[0], ruling=Ruling.REVIEW, rule=UNREAD)
        return verdicts

    def again(self, observations: Sequence[Observation], context: GateContext) -> Sequence[SecondLook | None]:
        """Structured memories on today's evidence; a text does not change, so ``examine`` reads it."""
        records = [o.id for o in observations if o.fields is not None]
        looks = iter(self._watch_of(context).again(records, context.ledger) if records else ())
        trust = context.trust
        return [self._second_look(o, next(looks), trust) if o.fields is not None else None for o in observations]

    def _second_look(
        self, observation: Observation, found: tuple[RecordJudgement, Look, int] | None, trust: TrustPolicy
    ) -> SecondLook | None:
        if found is None:
            return None
        judged, look, row = found
        verdict = record_verdict(observation, judged, self.settings.ruling)
        if observation.text:
            screening = self._screener.screen([observation.text])[0]
            verdict = _stricter(verdict, self.judge(observation, screening, trust=trust))
        model = self._watch_model()
        risk = model.fusion.calibrated(float(look.terms.fused[row]))[0]
        likeness = float(look.evidence.pairs[row, :, 4].max())
        return SecondLook(verdict, notes(model, look, row), risk, float(look.evidence.conflict[row]), likeness)

    def claims_of(self, observation: Observation) -> Sequence[ClaimRow]:
        """The claims of a memory, under any ruling: a held one may still be one of several voices."""
        wanted = observation.channel is Channel.MEMORY and self.settings.claims.compare
        return self.claims.rows_of(observation) if wanted else ()

    def find(self, query: str, ledger: Ledger, limit: int) -> Sequence[str]:
        """Ids of memories near to a query in meaning, nearest first; none where claims are not compared."""
        return self.claims.find(query, ledger, limit) if self.settings.claims.compare else ()

    def correction(
        self, poison: str, tainted: Collection[str], context: GateContext
    ) -> Callable[[Observation], tuple[Correction, ...]] | None:
        """A function that corrects texts which repeat a poisoned memory's claims against trusted ones."""
        if not self.settings.claims.compare:
            return None
        item, trust = context.ledger.item(poison), context.trust.table()
        trusted = corrections.trusted_against(item, self.claims, context.ledger, context.graph, trust, tainted)
        wrong = corrections.falsehoods(item, self.claims, context.ledger, trusted)
        return (lambda text_item: corrections.corrections(text_item.text, wrong, self.claims)) if wrong else None

    def _may_be_plan(self, observation: Observation, rule: str, screening: Screening) -> bool:
        asked = rule in ("possible_order", "foreign_order") and screening.logit <= self._outright_at
        return asked and observation.source in self.settings.may_plan and self.settings.claims.compare

    def _as_plan(self, verdict: Verdict, observation: Observation, context: GateContext) -> Verdict:
        """The verdict on a text that reads like an order; one that only carries out trusted memories may pass."""
        table, least = context.trust.table(), self.settings.claims.sensitive_trust
        grounds = supporting_memories(observation, self.claims, context.ledger, context.graph, table, least)
        if not grounds:
            return verdict
        words = f"Reads like an order, and plans only what {', '.join(grounds)} says, which is trusted."
        evidence = Evidence("measure", words, {"items": list(grounds), "least_trust": least})
        return replace(
            verdict, ruling=Ruling.ALLOW, rule=KNOWN_PLAN, risk=min(verdict.risk, 0.1), taxonomy=(), replacement=None,
            interval=(0.0, max(verdict.interval[1], 0.1)), evidence=(evidence, *verdict.evidence),
        )  # fmt: skip

    def _compare_claims(
        self, verdict: Verdict, observation: Observation, context: GateContext
    ) -> tuple[Verdict, dict[str, Any]]:
        """The verdict with the findings about claims, and the numbers of these findings alone."""
        judged = self.claims.judge(observation, context.ledger, context.graph, context.trust.table())
        joined = with_claims(verdict, judged, self.settings.claims)
        alone = ruling_on(judged, self.settings.claims).label
        numbers = {"ruling": alone, "rule": judged.rule, "risk": judged.risk, "cut": judged.cut}
        if judged.unheard:
            joined = replace(
                joined, evidence=(*joined.evidence, Evidence("measure", judged.unheard, {UNHEARD: "mpnet"}))
            )
        if judged.cut:
            note = Evidence("measure", _NOT_COMPARED, {})
            joined = replace(joined, evidence=(*joined.evidence, note), interval=(joined.interval[0], 1.0))
            if joined.ruling < Ruling.REVIEW:
                return replace(joined, ruling=Ruling.REVIEW, rule=UNREAD), numbers
        if joined.rule == judged.rule and joined.ruling is Ruling.REWRITE:
            joined = self._offering(
                joined, corrections.restored(observation, judged.items, self.claims, context.ledger)
            )
        return joined, numbers

    def _offering(self, verdict: Verdict, text: str) -> Verdict:
        """A verdict that offers a text to use instead; without one there is nothing to use, and it is held."""
        if text:
            return replace(verdict, replacement=text)
        return replace(verdict, ruling=Ruling.QUARANTINE, replacement=None)

    def _examine_record(self, observation: Observation, context: GateContext) -> Verdict:
        judged = self._watch_of(context).screen(observation, context.ledger)
        return record_verdict(observation, judged, self.settings.ruling)

    def _watch_of(self, context: GateContext) -> RecordWatch:
        namespace = context.ledger.namespace
        if namespace not in self._watches:
            self._watches[namespace] = RecordWatch(self._watch_model(), self.settings.false_positive_rate)
        return self._watches[namespace]

    def _watch_model(self) -> RecordModel:
        self._model = self._model or shared_model()
        return self._model

    def judge(
        self,
        observation: Observation,
        screening: Screening,
        ms: float = 0.0,
        *,
        within: str = "",
        trust: TrustPolicy = DEFAULT_TRUST,
    ) -> Verdict:
        """The verdict that a screening means for an item of this source; ``within``: where in its picture it reads."""
        ruling, rule = self._rule(observation, screening, within, trust)
        risk, interval = screening.risk, screening.interval
        if rule == "trusted_order":  # an order, but not a foreign one
            risk, interval = min(risk, 0.1), (0.0, max(interval[1], 0.1))
        elif rule == MILD:
            risk, interval = max(risk, GRAY), (interval[0], 1.0)
        verdict = Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=ruling,
            risk=risk,
            interval=(min(interval[0], risk), interval[1]),
            rule=rule,
            evidence=_evidence(screening, rule, self._hold_at, within),
            taxonomy=_taxonomy(observation.channel) if ruling > Ruling.WARN else (),
            cost=Cost(ms=ms, calls=1),
        )
        return (
            self._offering(verdict, self._without_orders(observation.text, screening))
            if (ruling is Ruling.REWRITE)
            else verdict
        )

    def _without_orders(self, text: str, screening: Screening) -> str:
        """The text without the sentences that read like orders; empty where these cannot be separated, or all do."""
        spans = [(span.start, span.end) for span in screening.spans if span.view == "plain"]
        if not spans or any(span.view != "plain" for span in screening.spans):
            return ""
        rest = without_spans(text, spans)
        if not rest or self._screener.screen([rest])[0].logit > self._ask_at:
            return ""
        return rest

    def _rule(
        self, observation: Observation, screening: Screening, within: str, trust: TrustPolicy
    ) -> tuple[Ruling, str]:
        sure = screening.logit > self._hold_at or (screening.mixed_logit or 0.0) > self._outright_at
        order = sure or screening.logit > self._ask_at or self._has_sign(observation, screening)
        mine = observation.source in self.settings.may_order
        found = [(Ruling.ALLOW, "trusted_order" if order and mine else "clean")]
        if not screening.whole:
            found.insert(0, (Ruling.REVIEW, UNREAD))
        if screening.unread:
            found.insert(0, (self._of_unread(observation, screening, within, trust), "unknown_language"))
        if order and not mine:
            doubt = self._of_doubt(observation, trust)
            found.insert(0, (self.settings.ruling, "foreign_order") if sure else (doubt, "possible_order"))
        elif not (mine or within):
            if screening.mild > 0 and self._little(observation, trust):
                found.insert(0, (self.settings.mild_order, MILD))
            if screening.logit > self._faint_at and reader_for(observation.text, "orders"):
                found.insert(0, (Ruling.WARN, "faint_order"))  # a larger reader is asked
        return max(found, key=lambda pair: pair[0])  # the first of the strictest

    def _has_sign(self, observation: Observation, screening: Screening) -> bool:
        """Whether a text hides a change, or reads faintly like an order and has a sign of one, in any disguise."""
        faint, views = screening.logit > self._faint_at, reading_of(observation.text).views(until())
        return any(hides_a_change(view.text) or (faint and has_order_sign(view.text)) for view in views)

    def _of_doubt(self, observation: Observation, trust: TrustPolicy) -> Ruling:
        """The ruling for a text that may be an order."""
        little = self._little(observation, trust)
        return self.settings.possible_order_untrusted if little else self.settings.possible_order

    def _little(self, observation: Observation, trust: TrustPolicy) -> bool:
        return trust.table()[observation.source] < self.settings.readable_trust

    def _of_unread(self, observation: Observation, screening: Screening, within: str, trust: TrustPolicy) -> Ruling:
        """The ruling for a text in an unknown language. Letters read off a picture are often wrong: those of the Latin
        alphabet, or upside down, do not tell a language."""
        known = [part for part in screening.unread if part.sure]
        if within in (LETTERING, TURNED):
            known = [part for part in known if within == LETTERING and not part.latin]
        little = self._little(observation, trust)
        return self.settings.unknown_language_untrusted if known and little else self.settings.unknown_language


def _numbers(screening: Screening) -> dict[str, Any]:
    """The numbers behind the ruling on a text, for ``ruled_again``."""
    unread = "" if not screening.unread else "sure" if any(part.sure for part in screening.unread) else "fragments"
    numbers = {"logit": screening.logit, "risk": screening.risk, "whole": screening.whole, "unread": unread}
    numbers |= {"mild": screening.mild} if screening.mild > 0 else {}
    return numbers | ({} if screening.mixed_logit is None else {"mixed": screening.mixed_logit})


def _screening(numbers: Mapping[str, Any]) -> Screening:
    """The other way round: as much of a screening as a ruling needs."""
    unread = (UnreadLanguage(0, 0, "", "", False, numbers["unread"] == "sure"),) if numbers["unread"] else ()
    return Screening(
        numbers["risk"], (0.0, 1.0), numbers["logit"], "", not unread, (), numbers["whole"], unread,
        numbers.get("mixed"), numbers.get("mild", -math.inf),
    )  # fmt: skip


def _with_numbers(evidence: tuple[Evidence, ...], numbers: Mapping[str, Any]) -> tuple[Evidence, ...]:
    first = evidence[0]
    return (replace(first, data={**first.data, MEASURED: numbers}), *evidence[1:])


def _stricter(of_record: Verdict, of_text: Verdict) -> Verdict:
    """The stricter of the two, for a note must not excuse its record; the record's notes go with it."""
    if (of_record.ruling, of_record.risk) >= (of_text.ruling, of_text.risk):
        return of_record
    return replace(of_text, evidence=(*of_text.evidence, *of_record.evidence))


def record_verdict(observation: Observation, judged: RecordJudgement, ruling: Ruling) -> Verdict:
    """The verdict that a judgement of a structured memory means."""
    rule = "conflicts_with_evidence" if judged.suspicious else "in_line" if judged.informed else "too_little_evidence"
    return Verdict(
        gate=MemoryGate.name,
        subject=observation.id,
        ruling=ruling if judged.suspicious else Ruling.ALLOW,
        risk=judged.risk,
        interval=judged.interval,
        rule=rule,
        evidence=judged.evidence,
        taxonomy=(MEMORY_POISONING,) if judged.suspicious else (),
        cost=Cost(ms=judged.ms, calls=1),
    )


def _taxonomy(channel: Channel) -> tuple[str, ...]:
    """The number in OWASP's list, by channel: sent to a colleague, kept, or read."""
    return ({Channel.MESSAGE: INTER_AGENT, Channel.MEMORY: MEMORY_POISONING}.get(channel, GOAL_HIJACK),)


def _evidence(screening: Screening, rule: str, hold_at: float, within: str = "") -> tuple[Evidence, ...]:
    if rule == "unknown_language":
        return tuple(_not_read(part, within) for part in screening.unread[:_MOST_QUOTED])
    if rule in ("clean", UNREAD):
        words = "Nothing in it reads like an order to an agent." if rule == "clean" else NOT_WHOLE
        if rule == "clean" and screening.risk >= GRAY:
            words = "It may be an order to an agent; the policy's review_rate lets it pass."
        return (Evidence("measure", words, {"logit": round(screening.logit, 2), "hold_at": round(hold_at, 2)}),)
    if rule == MILD:
        words = "It tells its readers to weaken a control or to send something away, in the words of a report."
        words += f" “{shown(screening.spans[0].quote or screening.spans[0].text)}”" if screening.spans else ""
        return (Evidence("measure", words, {"logit": round(screening.logit, 2), "mild": round(screening.mild, 2)}),)
    if rule == "faint_order":
        words = "Something in it reads faintly like an order to an agent; a larger reader is asked."
        return (Evidence("measure", words, {"logit": round(screening.logit, 2), "hold_at": round(hold_at, 2)}),)
    spans = screening.spans[:3]
    carried = {CARRIED_BY: within} if within else {}
    if not spans:
        words = f"The {within or 'text'} as a whole reads like an order to an agent."
        facts = {"logit": round(screening.logit, 2), "hold_at": round(hold_at, 2), **carried}
        return (Evidence("measure", words, facts),)
    return tuple(
        Evidence(
            "span",
            f"Reads like an order to an agent{_where(span.view, within)}: “{shown(span.quote or span.text)}”",
            {
                "start": span.start,
                "end": span.end,
                "view": f"{within}, {span.view}" if within else span.view,
                "logit": round(span.logit, 2),
                **carried,
            },
        )
        for span in spans
    )


def _not_read(part: UnreadLanguage, within: str) -> Evidence:
    words = f"In {part.language!r}, which the screener was not made for; nobody has read it: “{shown(part.text, 120)}”"
    facts = {"language": part.language, "sentence": shown(part.text, 400)}
    return Evidence("measure", words, facts | ({"view": within} if within else {}))


def _where(view: str, within: str) -> str:
    place = f" (in the picture: {within})" if within else ""
    return place if view == "plain" else f"{place} (once its disguise is off: {view})"


def make(settings: Mapping[str, Any]) -> MemoryGate:
    """The gate, from the policy's table; raises where its packages are absent. Weights are loaded by ``warm_up``."""
    made = MemoryGate(read_settings(MemorySettings, settings, key="gates.memory"))
    require("the memory gate", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")
    return made
