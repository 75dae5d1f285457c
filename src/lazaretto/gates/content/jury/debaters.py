"""The jury as a panel: Strict and Loose speak from their models' scores, the Arbiter rules by the protocol.

In round 1 each gives its calibrated risk and quotes. From round 2 on each weighs both positions and the precedents, by
weights fitted on held-out debates: Strict's with missed harm costing more, Loose's with false alarms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lazaretto.cases.records import InputKind, Label, Precedent
from lazaretto.gates.content.jury.scorer import (
    DEFAULT_RATES,
    ErrorRates,
    JuryModels,
    JuryScores,
    Settings,
    log_odds,
    shipped_models,
    sigmoid,
)
from lazaretto.gates.content.jury.second_opinion import Heard, Joint, SecondOpinion, ruled_odds
from lazaretto.gates.content.records import (
    CONFIRMED,
    DEFAULT,
    EXONERATED,
    IN_DOUBT,
    PLACEHOLDER,
    RULES,
    UNDECIDED,
    ArbiterFinding,
    DebateState,
    Order,
    PreparedContent,
    Role,
    RoleCost,
    Speech,
    label_for,
)
from lazaretto.gates.engine.decision import HEARD
from lazaretto.gates.secrets import shown
from lazaretto.processor_time import NOT_WHOLE, in_thread
from lazaretto.types import UNHEARD, Evidence

HAZARD_IDS: Mapping[str, tuple[str, ...]] = {
    "Bias & Discrimination": ("S10",),
    "Personal Rights & Property": ("S2",),
    "Network Attacks": ("S2",),
    "Psychological Health": ("S11",),
    "Privacy Protection": ("S7",),
    "Intellectual Property": ("S8",),
}
"""AIR-Bench's categories that are one hazard in MLCommons' terms. The others are none, or several: *hazardous
materials* are drugs or weapons, *content safety* is violence or sex."""
_CONTEXT_WORDS: Mapping[str, str] = {
    "refusal": "it declines or redirects a request",
    "education": "it informs or teaches",
    "news": "it reports or raises awareness",
    "fiction": "it is fiction or art",
    "prevention": "it prevents harm or offers support",
    "everyday": "it shows ordinary life",
}
_QUOTES = 3
_NEAREST = 0.35
"""Cosine below which a precedent says nothing."""
_NAMED, _FIRM = 0.25, 0.5
"""How firm a benign context must be to be named after a suspicion, and to be named at all."""
_CONCEDES = 0.15
_EXPLICIT = 0.8
_EVEN = 0.5
_FOREIGN = "the text is not in a language this jury reads"
_NAMEABLE = 0.5
"""A hazard less likely than this is not named: a wrong name explains less than none."""
_LEAST = 0.01
"""Least distance below the middle of the log-odds of content that one look settles."""
_LONGEST_QUOTE = 2_000
"""Characters of a phrase that is quoted."""
_FEWEST = 3
"""Words of a phrase that is quoted."""


def ruled_by_rates(risk: float, rates: ErrorRates, language: str, heard: Heard | None = None) -> str:
    """The rule for a text's risk under these rates, as the arbiter applies them; ``language``: ``mixed`` where the jury
    cannot read all of it, ``other`` where it can read nothing; ``heard``: the answer of a second reader."""
    if language == "other":
        return UNDECIDED
    odds = log_odds(risk) if heard is None else heard.jury
    allow, block = shipped_models().settings["text"].bars(rates.false_alarms, rates.misses)
    both = ruled_odds(heard, rates.false_alarms, rates.misses) if heard is not None and odds < block else None
    if both is not None:
        odds, (allow, block) = both
    gray = allow <= odds < block
    confirmed = odds >= 0 and not gray
    if language == "mixed" and not confirmed:
        return UNDECIDED
    return IN_DOUBT if gray else CONFIRMED if confirmed else DEFAULT


def precedent_evidence(precedents: Sequence[Precedent]) -> float:
    """Weight of the precedents, in [-1, 1]: unsafe ones pull up, safe ones down, near ones more; 0 if none is near."""
    pull = [max(0.0, p.similarity - _NEAREST) / (1 - _NEAREST) for p in precedents]
    sides = [1.0 if p.case.label is Label.UNSAFE else -1.0 for p in precedents]
    return sum(w * s for w, s in zip(pull, sides, strict=True)) / max(1.0, len(precedents))


def log_odds_after_debate(settings: Settings, role: Role, odds: Mapping[Role, float], evidence: float) -> float:
    """A debater's log-odds after hearing both sides; a side that is absent is taken to agree with the other."""
    offset, strict, loose, pull = settings.debate[role.value]
    own = odds[role]
    return offset + strict * odds.get(Role.STRICT, own) + loose * odds.get(Role.LOOSE, own) + pull * evidence


@dataclass(frozen=True, slots=True)
class JuryDebater:
    """Strict or Loose, from trained models."""

    role: Role
    models: JuryModels

    async def argue(self, debate: DebateState) -> Speech:
        """Its risk, the spans that moved it, and what changed since the last round."""
        started = time.perf_counter()
        reading = await in_thread(self.models.read, debate.prepared)
        explicit = float(debate.prepared.facts.get("explicit", 0.0))
        if reading is None:
            score, argument, quotes, hazards = _unread(explicit)
            ms = (time.perf_counter() - started) * 1000.0
            return Speech(self.role, debate.round, argument, score, quotes, hazards, role_cost=self._role_cost(ms, 0))
        settings = self.models.settings[reading.head]
        odds: dict[Role, float] = {
            r: log_odds(s[0]) for r, s in debate.scores.items() if s and r in (Role.STRICT, Role.LOOSE)
        }
        own = reading.debaters[self.role].odds
        if debate.round == 1:
            risk = float(sigmoid(own))
        else:
            odds.setdefault(self.role, own)
            evidence = precedent_evidence(debate.briefing.precedents)
            risk = float(sigmoid(log_odds_after_debate(settings, self.role, odds, evidence)))
        if reading.head == "lettering" or debate.prepared.description == PLACEHOLDER:
            risk = max(risk, explicit if explicit >= _EXPLICIT else 0.0)
        before = debate.last_score(self.role)
        moved = 0.0 if before is None else risk - before
        conceded = debate.round > 1 and (moved < -_CONCEDES if self.role is Role.STRICT else moved > _CONCEDES)
        quotes = _quotes(reading, self.role, debate.prepared, settings)
        hazards = _hazards(reading) if self.role is Role.STRICT and risk >= _EVEN else ()
        argument = _argument(self.role, debate, reading, risk, moved, quotes)
        ms = (time.perf_counter() - started) * 1000.0
        tokens = reading.tokens if debate.round == 1 else 0
        return Speech(self.role, debate.round, argument, risk, quotes, hazards, conceded, self._role_cost(ms, tokens))

    def _role_cost(self, ms: float, tokens: int) -> RoleCost:
        return RoleCost(self.role, f"jury-{self.models.version}", calls=1, prompt_tokens=tokens, ms=ms)


@dataclass(frozen=True, slots=True)
class JuryArbiter:
    """Rules by the protocol over the debaters' last positions.

    The risk both debaters arrive at already weighs the benign context, so the risk rule is tried first; an ``orders``
    of the policy that says otherwise lets a benign context that Loose stands by decide before it.
    """

    models: JuryModels
    orders: Mapping[InputKind, Order] | None = None
    rates: ErrorRates = DEFAULT_RATES
    second: SecondOpinion | None = None
    """The reader to ask in doubt; None: no reader."""

    async def decide(self, debate: DebateState) -> ArbiterFinding:
        """The finding, with the numbers that decided."""
        started = time.perf_counter()
        reading = await in_thread(self.models.read, debate.prepared)
        positions = {r: s for r in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(r)) is not None}
        risk, settings = self._risk(debate, reading, positions)
        heard = await in_thread(self._heard, debate.prepared, reading, risk, settings)
        risk, limits = self._limits(risk, settings, heard)
        threshold = _EVEN if settings else _EXPLICIT
        order = (self.orders or {}).get(debate.prepared.kind, Order.RISK_FIRST)
        rule, context = _rule(risk, threshold, order, debate, reading)
        excused = rule == EXONERATED and order is Order.CONTEXT_FIRST
        gray = limits is not None and not excused and limits[0] <= log_odds(risk) < limits[1]
        undecided = _why_undecided(debate, reading, risk, confirmed=rule == CONFIRMED and not gray)
        spread = settings.spread if settings else 30.0
        interval = (float(sigmoid(log_odds(risk) - spread)), float(sigmoid(log_odds(risk) + spread)))
        if undecided:
            interval = (0.0, 1.0)
        quotes = tuple(q for t in debate.speeches if t.round == debate.round for q in t.quotes)
        shown = rule == CONFIRMED and not gray  # doubtful content is no offence yet
        hazards = tuple(dict.fromkeys(h for t in debate.speeches for h in t.hazards)) if shown else ()
        role_cost = RoleCost(
            Role.ARBITER,
            f"jury-{self.models.version}",
            calls=1 + (heard is not None and bool(heard.tokens)),
            prompt_tokens=heard.tokens if heard else 0,
            ms=(time.perf_counter() - started) * 1000.0,
        )
        spoken = {t.role: t.quotes for t in debate.speeches if t.round == debate.round}
        cited = [p for p in debate.briefing.precedents if p.bears]
        sides = (spoken.get(Role.STRICT, ()), spoken.get(Role.LOOSE, ()))
        bars = None if limits is None else Bars(*(float(sigmoid(limit)) for limit in limits))
        words = self._answer_evidence(heard)
        grounds = Grounds(
            IN_DOUBT if gray else rule, risk, bars, *sides, context, cited, undecided, words[0].summary if words else ""
        )
        reasoning = reason(grounds)
        return ArbiterFinding(
            label_for(rule),
            risk,
            UNDECIDED if undecided else IN_DOUBT if gray else rule,
            reasoning,
            interval,
            quotes + debate.prepared.notices + words,
            hazards,
            undecided,
            role_cost,
            gray,
            NOT_WHOLE if reading is not None and reading.cut else "",
        )

    def _heard(
        self, prepared: PreparedContent, reading: JuryScores | None, risk: float, settings: Settings | None
    ) -> Heard | None:
        """The answer of the second reader, where it is asked; never about an explicit picture."""
        explicit = float(prepared.facts.get("explicit", 0.0)) >= _EXPLICIT
        if self.second is None or reading is None or settings is None or prepared.fault or explicit:
            return None
        unsafe = settings.bars(self.rates.false_alarms, self.rates.misses)[1]
        return self.second.hear(prepared, reading, log_odds(risk), unsafe)

    def _limits(
        self, risk: float, settings: Settings | None, heard: Heard | None
    ) -> tuple[float, tuple[float, float] | None]:
        """The risk, and the log-odds below which content is allowed and from which on it is unsafe: by the jury alone,
        or by both."""
        if settings is None:
            return risk, None
        rates = (self.rates.false_alarms, self.rates.misses)
        both = ruled_odds(heard, *rates) if heard is not None else None
        return (risk, settings.bars(*rates)) if both is None else (float(sigmoid(both[0])), both[1])

    def _answer_evidence(self, heard: Heard | None) -> tuple[Evidence, ...]:
        """The second reader's answer as evidence; empty where it was not asked."""
        if heard is None:
            return ()
        if heard.fault:
            return (Evidence("measure", heard.fault, {UNHEARD: heard.reader}),)
        jury, other = (float(sigmoid(odds)) for odds in (heard.jury, heard.score))
        words = f"A second reader ({heard.reader}) was asked: {other:.2f}; the jury alone says {jury:.2f}."
        left_out = {UNHEARD: heard.reader} if heard.cut else {}
        if ruled_odds(heard, self.rates.false_alarms, self.rates.misses) is None:
            return (Evidence("measure", f"{words} It did not read all of it, and so clears nothing.", left_out),)
        data = {"reader": heard.reader, "jury": heard.jury, "score": heard.score, "whole": heard.whole}
        note = " It did not read all of it." if heard.cut else ""
        return (Evidence("measure", f"{words}{note}", {HEARD: data, **left_out}),)

    def _risk(
        self, debate: DebateState, reading: JuryScores | None, positions: Mapping[Role, float]
    ) -> tuple[float, Settings | None]:
        explicit = float(debate.prepared.facts.get("explicit", 0.0))
        if reading is None:
            return explicit, None
        settings = self.models.settings[reading.head]
        if positions:
            return float(sigmoid(sum(map(log_odds, positions.values())) / len(positions))), settings
        return float(sigmoid(sum(debater.odds for debater in reading.debaters.values()) / 2)), settings


def _rule(
    risk: float, threshold: float, order: Order, debate: DebateState, reading: JuryScores | None
) -> tuple[str, str]:
    """The rule that decides, and the benign context in words where one is firm."""
    contexts = reading.debaters[Role.LOOSE].contexts if reading else {}
    name, firmness = max(contexts.items(), key=lambda c: c[1], default=("", 0.0))
    words = f"{_CONTEXT_WORDS.get(name, '')} ({firmness:.2f})"
    loose = debate.last_score(Role.LOOSE)
    stands_by = loose is not None and loose < threshold and firmness >= _FIRM
    if order is Order.CONTEXT_FIRST and stands_by:
        return EXONERATED, words
    if risk >= threshold:
        return CONFIRMED, ""
    first = debate.scores.get(Role.STRICT, ())
    suspected = bool(first) and first[0] >= threshold
    if firmness >= _FIRM or (suspected and firmness >= _NAMED):
        return EXONERATED, words
    return DEFAULT, ""


@dataclass(frozen=True, slots=True)
class JuryGlance:
    """Settles what needs no debate: one look by one model finds plain English text, which speaks to no judge, clearly
    harmless; and a text in languages that the jury does not read is not read at all."""

    models: JuryModels
    joint: Joint | None = None
    """Set where a larger reader is asked about the rest: a lower bar than the models' own, and a scale for both."""

    async def settle(self, prepared: PreparedContent) -> ArbiterFinding | None:
        """The finding, or None when a debate has to be held."""
        if prepared.kind is not InputKind.TEXT or prepared.fault:
            return None
        if prepared.facts.get("language") == "other":
            words = f"{RULES[UNDECIDED]} Not settled: {_FOREIGN}."
            return ArbiterFinding(Label.SAFE, _EVEN, UNDECIDED, words, (0.0, 1.0), prepared.notices, undecided=_FOREIGN)
        if prepared.notices or prepared.facts:
            return None
        started = time.perf_counter()
        odds = await in_thread(self.models.glance, prepared, None if self.joint is None else self.joint.quick)
        if odds is None:
            return None
        if self.joint is not None:
            odds = min(-_LEAST, self.joint.settled[0] + self.joint.settled[1] * odds)
        risk, ms = float(sigmoid(odds)), (time.perf_counter() - started) * 1000.0
        reasons = (
            f"{RULES[DEFAULT]} Risk {risk:.2f} by one look of one model: a debate could not change the outcome. "
            "No case was looked up. What would change it: a person's decision."
        )
        interval = (float(sigmoid(odds - self._spread)), float(sigmoid(odds + self._spread)))
        cost = RoleCost(Role.ARBITER, f"jury-{self.models.version}", calls=1, ms=ms)
        return ArbiterFinding(Label.SAFE, risk, DEFAULT, reasons, interval, role_cost=cost)

    @property
    def _spread(self) -> float:
        return self.models.settings["text"].spread


def heard_in(evidence: Sequence[Evidence]) -> Heard | None:
    """A second reader's answer, read back from a verdict's evidence."""
    data = next((part.data[HEARD] for part in evidence if HEARD in part.data), None)
    return None if data is None else Heard(data["reader"], data["jury"], data["score"], data["whole"])


def _why_undecided(debate: DebateState, reading: JuryScores | None, risk: float, *, confirmed: bool) -> str:
    """Why nothing is settled; empty where something is. Unsafe content stays unsafe beside any other content."""
    if debate.prepared.fault:
        return debate.prepared.fault
    language = debate.prepared.facts.get("language")
    if language == "other":
        return _FOREIGN
    if language == "mixed" and not confirmed:
        return "sentences of it are not in a language this jury reads"
    if reading is None and risk < _EXPLICIT:
        empty = debate.prepared.content.image is None
        return "there is nothing to judge" if empty else "the picture has no description and no words on it"
    return ""


def _unread(explicit: float) -> tuple[float, str, tuple[Evidence, ...], tuple[str, ...]]:
    """A debater's speech when there is nothing to read: the explicit-image detector alone speaks."""
    hazards = ("S12",) if explicit >= _EXPLICIT else ()
    return explicit, f"There is nothing to read; the picture is explicit with probability {explicit:.2f}.", (), hazards


def _quotes(reading: JuryScores, role: Role, prepared: PreparedContent, settings: Settings) -> tuple[Evidence, ...]:
    """The phrases that moved this debater most: towards risk for Strict, away from it for Loose.

    A phrase speaks for a side where it lies there by itself (above the bar for allowed, or below, by both models
    together) and further than the rest of the text does. So none speaks for both, and in a text that is harmful
    throughout the less harmful half is no excuse.
    """
    line = settings.bars(DEFAULT_RATES.false_alarms, DEFAULT_RATES.misses)[0]
    own: dict[tuple[str, str], list[float]] = {}
    for debater in reading.debaters.values():
        for span in debater.spans:
            own.setdefault((span.part, span.quote), []).append(span.own)
    sign, side = (1, "risk") if role is Role.STRICT else (-1, "a benign reading")
    spans = reading.debaters[role].spans
    there = [
        span
        for span in (spans if role is Role.STRICT else reversed(spans))
        if (sum(own[span.part, span.quote]) / len(own[span.part, span.quote]) - line) * sign > 0
    ]
    phrases = [span for span in there if len(span.quote.split()) >= _FEWEST]
    further = [span for span in phrases if span.weight * sign > 0]
    whole = {"text": prepared.content.text, "description": prepared.description, "read_text": prepared.read_text}
    quotes = []
    for span in further[:_QUOTES] or phrases[:1] or there[:1]:
        quote = shown(span.quote, _LONGEST_QUOTE)
        data = {"quote": quote, "part": span.part, "weight": sign * round(abs(span.own - line), 4)}
        # The models read cleaned words; a place is given only where the content has the very same ones.
        place = whole[span.part].find(span.quote)
        if place >= 0:
            data |= {"start": place, "end": place + len(span.quote)}
        quotes.append(Evidence("span", f"“{quote[:160]}” speaks for {side}.", data))
    return tuple(quotes)


def _hazards(reading: JuryScores) -> tuple[str, ...]:
    name, share = max(reading.debaters[Role.STRICT].hazards.items(), key=lambda h: h[1])
    return HAZARD_IDS.get(name, ()) if share >= _NAMEABLE else ()


def _argument(
    role: Role, debate: DebateState, reading: JuryScores, risk: float, moved: float, quotes: Sequence[Evidence]
) -> str:
    """The debater's speech, in words a person can check against the numbers."""
    own = reading.debaters[role]
    lead = f" It rests mostly on “{quotes[0].data['quote'][:120]}”." if quotes else ""
    if role is Role.STRICT:
        name, share = max(own.hazards.items(), key=lambda h: h[1])
        closest = f"closest hazard: {name} ({share:.2f})" if share >= _NAMEABLE else "no hazard stands out"
        if share >= _NAMEABLE and name not in HAZARD_IDS:
            closest = f"closest category: {name} ({share:.2f}), no single hazard of MLCommons"
        opening = f"Risk {risk:.2f}; {closest}."
    else:
        name, share = max(own.contexts.items(), key=lambda c: c[1])
        closest = f"closest benign context: {_CONTEXT_WORDS[name]} ({share:.2f})"
        opening = f"Risk {risk:.2f}; {closest if share >= _NAMED else 'no benign context stands out'}."
    if debate.round == 1:
        return opening + lead
    near = [p for p in debate.briefing.precedents if p.bears]
    unsafe = sum(p.case.label is Label.UNSAFE for p in near)
    count = "1 precedent bears on it" if len(near) == 1 else f"{len(near)} precedents bear on it"
    heard = f" {count}, {unsafe} unsafe." if near else " No precedent bears on it."
    other = Role.LOOSE if role is Role.STRICT else Role.STRICT
    answer = next((t for t in reversed(debate.speeches) if t.role is other and t.quotes), None)
    against = f" Against it: “{answer.quotes[0].data['quote'][:120]}”." if answer else ""
    return f"{opening} After hearing the other side ({moved:+.2f}).{against}{heard}"


# The words of a ruling: which rule, which phrases, which precedent, how near, and what would change it.
#
# Each is a fact of the debate that a reader can check.

_MOST_WORDS = 2
"""Phrases that a reason names; the report lists all."""
_SUMMARY = 120


@dataclass(frozen=True, slots=True)
class Bars:
    """The risks below which content is allowed, and from which on it is unsafe."""

    allow: float
    unsafe: float


@dataclass(frozen=True, slots=True)
class Grounds:
    """The grounds of a ruling."""

    rule: str
    risk: float
    bars: Bars | None
    against: Sequence[Evidence] = ()
    """Phrases that speak for risk."""
    excusing: Sequence[Evidence] = ()
    """Phrases that speak for a benign reading."""
    context: str = ""
    """The benign context, in words; empty where none is firm."""
    precedents: Sequence[Precedent] = ()
    """Precedents that bear on the content."""
    undecided: str = ""
    heard: str = ""
    """A second reader's answer; empty where it was not asked."""


def reason(grounds: Grounds) -> str:
    """One paragraph that says all of it."""
    if grounds.undecided:  # the rule that a half-read text would have met says nothing about it
        parts = [RULES[UNDECIDED], f"What could be read has risk {grounds.risk:.2f}." if grounds.bars else ""]
        return " ".join((*filter(None, parts), _change(grounds), f"Not settled: {grounds.undecided}."))
    parts = [
        RULES[grounds.rule],
        _risk(grounds),
        grounds.heard,
        *_words(grounds),
        _case(grounds.precedents),
        _change(grounds),
    ]
    return " ".join(part for part in parts if part)


def _risk(grounds: Grounds) -> str:
    if grounds.bars is None:
        return f"Risk {grounds.risk:.2f}."
    return f"Risk {grounds.risk:.2f}; allowed below {grounds.bars.allow:.2f}, unsafe from {grounds.bars.unsafe:.2f}."


def _words(grounds: Grounds) -> list[str]:
    sentences = []
    if grounds.rule in (CONFIRMED, IN_DOUBT):
        shown = _quoted(grounds.against)
        sentences.append(f"It rests on {shown}." if shown else "No phrase stands out: it rests on the text as a whole.")
    elif shown := _quoted(grounds.against):
        sentences.append(f"What could speak against it, {shown}, is not enough.")
    if grounds.rule == EXONERATED and grounds.context:
        sentences.append(f"Benign context: {grounds.context}.")
    if grounds.rule != CONFIRMED and (shown := _quoted(grounds.excusing)):
        sentences.append(f"For a benign reading: {shown}.")
    return sentences


def _quoted(quotes: Sequence[Evidence]) -> str:
    words = [str(quote.data["quote"]).strip(" .,;:") for quote in quotes[:_MOST_WORDS]]
    return " and ".join(f"“{phrase[:160]}”" for phrase in words if phrase)


def _case(precedents: Sequence[Precedent]) -> str:
    if not precedents:
        return "No case of the library bears on it."
    nearest = precedents[0]
    what = (nearest.case.summary or nearest.case.words)[:_SUMMARY].strip().rstrip(".")
    more = f" ({len(precedents) - 1} more)" if len(precedents) > 1 else ""
    return f"Nearest precedent {nearest.case.id}, ruled {nearest.case.label.value}: {what}. {nearest.why}{more}".strip()


def _change(grounds: Grounds) -> str:
    if grounds.bars is None or grounds.undecided:
        return "What would change it: a person's decision, or judges that can read it."
    low, high = f"{grounds.bars.allow:.2f}", f"{grounds.bars.unsafe:.2f}"
    needed = {
        CONFIRMED: f"a risk below {high}, by other words in the place of those that it rests on",
        IN_DOUBT: f"a risk below {low}, which is allowed, or from {high} on, which is unsafe",
    }.get(grounds.rule, f"words that bring the risk to {low} or more")
    return f"What would change it: {needed}; or a person's decision, which goes before it."
