"""Language models as judges: one prompt, one answer read strictly, one more try when it cannot be read."""

from __future__ import annotations

import asyncio
import io
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from PIL.Image import Image

from lazaretto.cases.library import FLOOR
from lazaretto.cases.records import InputKind, Label, Precedent
from lazaretto.gates.content import parsing, prompts
from lazaretto.gates.content.prompts import Quoter, fresh_code
from lazaretto.gates.content.records import (
    DEFAULT_ORDERS,
    PLACEHOLDER,
    ArbiterFinding,
    Briefing,
    Content,
    DebateState,
    Order,
    Panel,
    PreparedContent,
    Preprocessor,
    Role,
    RoleCost,
    Speech,
    undecided_finding,
)
from lazaretto.models.protocol import ChatModel, Completion, Message, Request
from lazaretto.pictures import Picture, frames_for_judges, open_picture
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.reading.injections import injection_evidence
from lazaretto.types import Evidence

A = TypeVar("A", bound=parsing.Answer)
R = TypeVar("R")
_DOUBT = 0.2
"""An Arbiter whose score is nearer than this to one half has not made up its mind: the item goes to review."""
_AROUND = " \t\r\n\"'“”‘’«»…."
"""Characters that models put around a quotation."""
_SHORTEST = 3
"""Fewest letters of a quotation."""
PICTURE_SIDE = 1024
"""Frames are shrunk to fit a square of this side before a vision model sees them."""


class Retriever(Protocol):
    """Finds precedents; the case library is one."""

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """The nearest cases, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    """For prompt tokens served from the provider's cache; None: as ``prompt``."""

    def of(self, answer: Completion) -> float:
        """The cost of one answer."""
        cached_price = self.prompt if self.cached is None else self.cached
        fresh = answer.prompt_tokens - answer.cached_tokens
        return (
            fresh * self.prompt + answer.cached_tokens * cached_price + answer.completion_tokens * self.completion
        ) / 1e6


@dataclass(frozen=True, slots=True)
class Reply(Generic[R]):
    """A model's answer, or why there is none."""

    answer: R | None
    """None: it could not be read, or there was none."""
    text: str
    """The model's words."""
    problem: str
    """Why there is no answer."""
    role_cost: RoleCost
    """The cost of all attempts."""


@dataclass(frozen=True, slots=True)
class RoleModel:
    """A model in a role: what it costs, how long it may speak, how often it may be asked again."""

    role: Role
    model: ChatModel
    price: Price = Price()
    max_tokens: int = 700
    retries: int = 1
    """Most repeated requests for an answer that cannot be read."""
    content_chars: int = 24_000
    """The most characters that one part of the content may take up in a prompt."""

    async def ask(
        self,
        messages: Sequence[Message],
        shape: type[A],
        content: str = "",
        unsound: Callable[[A], str] = lambda answer: "",
    ) -> Reply[A]:
        """Asks for an answer of this shape, and again with the problem named when it could not be read or is
        ``unsound``. ``content`` is the content under audit: words that an answer repeats from it do not count.
        """

        def read(text: str) -> tuple[A | None, str]:
            answer, problem = parsing.read(shape, text, content)
            problem = problem or (unsound(answer) if answer is not None else "")
            return (None, problem) if problem else (answer, "")

        return await self._ask(messages, parsing.schema(shape), read)

    async def ask_words(self, messages: Sequence[Message]) -> Reply[str]:
        """Asks for plain words, and again when there are none."""
        return await self._ask(messages, None, lambda text: (text, "") if text.strip() else (None, "empty answer"))

    async def _ask(
        self, messages: Sequence[Message], schema: dict[str, Any] | None, read: Callable[[str], tuple[R | None, str]]
    ) -> Reply[R]:
        role_cost = RoleCost(self.role, self.model.name)
        asked = tuple(messages)
        words = problem = ""
        for _ in range(self.retries + 1):
            completion = (await self.model.complete([Request(asked, self.max_tokens, schema=schema)]))[0]
            role_cost = self._bill(role_cost, asked, completion)
            if completion.fault:
                return Reply(None, "", completion.fault, role_cost)  # the backend has already retried
            words = completion.text
            answer, problem = read(words)
            if answer is not None:
                return Reply(answer, words, "", role_cost)
            # in the same turn: two turns of one speaker are an error to many chat templates
            again = (
                f"Your last answer could not be used: {problem}. Answer again, as one JSON object in your own words."
            )
            asked = (*messages[:-1], replace(messages[-1], text=f"{messages[-1].text}\n\n{again}"))
        return Reply(None, words, f"unreadable answer: {problem}", role_cost)

    def _bill(self, role_cost: RoleCost, asked: Sequence[Message], answer: Completion) -> RoleCost:
        return replace(
            role_cost,
            calls=role_cost.calls + 1,
            prompt_tokens=role_cost.prompt_tokens + answer.prompt_tokens,
            completion_tokens=role_cost.completion_tokens + answer.completion_tokens,
            cached_tokens=role_cost.cached_tokens + answer.cached_tokens,
            prompt_chars=role_cost.prompt_chars + sum(len(m.text) for m in asked),
            ms=role_cost.ms + answer.ms,
            dollars=role_cost.dollars + self.price.of(answer),
        )


def _quotes(prepared: PreparedContent, quotes: Sequence[str]) -> tuple[Evidence, ...]:
    """Quotes that really stand in the content, with their place; invented ones are dropped. Capitals, line breaks and
    marks around a quotation make no difference.
    """
    found = []
    parts = (("text", prepared.content.text), ("description", prepared.description), ("read_text", prepared.read_text))
    for words in dict.fromkeys(tuple(quote.strip(_AROUND).split()) for quote in quotes):
        pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
        long_enough = sum(map(len, words)) >= _SHORTEST
        places = ((part, match) for part, body in parts if long_enough and (match := pattern.search(body)))
        for part, match in places:
            quote = match.group()
            data = {"part": part, "start": match.start(), "end": match.end(), "quote": quote[:300]}
            found.append(Evidence("span", f"In the {part}: “{quote[:160]}”", data))
            break
    return tuple(found[:8])


def _hazards(named: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(h.strip().upper() for h in named if h.strip().upper() in prompts.HAZARDS))


@dataclass(frozen=True, slots=True)
class ChatPreprocessor:
    """Words for the picture: the caller's, a vision model's, or the neutral placeholder. Text that speaks to the
    judges is marked.
    """

    vision: RoleModel | None = None
    """A model with vision; None: pictures are not described."""
    limits: Limits = DEFAULT_LIMITS

    async def prepare(self, content: Content) -> PreparedContent:
        """The content in words."""
        role_cost = RoleCost(Role.PREPROCESSOR)
        words, fault, facts = content.description, "", dict[str, object]()
        if content.image is not None:
            picture = await _open(content.image, self.limits)
            facts = {"width": picture.header.width, "height": picture.header.height, "frames": picture.frame_count}
            if not words.strip() and self.vision is not None:
                words, fault, role_cost = await _describe(self.vision, picture)
        if content.kind is not InputKind.TEXT and not words.strip():
            words = PLACEHOLDER
        notices = injection_evidence(content.text, "text") + injection_evidence(words, "description")
        return PreparedContent(content, words, facts=facts, notices=notices, role_cost=role_cost, fault=fault)


@dataclass(frozen=True, slots=True)
class DescribingPreprocessor:
    """A vision model before another preprocessor, which reads its description as if the caller had given it."""

    vision: RoleModel
    inner: Preprocessor
    limits: Limits = DEFAULT_LIMITS

    async def prepare(self, content: Content) -> PreparedContent:
        """The inner preprocessor's words, with the picture described; a failed description is a recorded fault."""
        if content.image is None or content.description.strip():
            return await self.inner.prepare(content)
        words, fault, role_cost = await _describe(self.vision, await _open(content.image, self.limits))
        prepared = await self.inner.prepare(replace(content, description=words))
        return replace(prepared, role_cost=role_cost, fault=prepared.fault or fault)


async def _open(image: bytes, limits: Limits) -> Picture:
    return frames_for_judges(await open_picture(image, limits), side=PICTURE_SIDE)


async def _describe(vision: RoleModel, picture: Picture) -> tuple[str, str, RoleCost]:
    """(words, fault, cost): what a vision model says about the frames."""
    ask = (Message("user", prompts.vision_instructions(), tuple(map(_jpeg, picture.frames))),)
    reply = await vision.ask_words(ask)
    return reply.text, reply.problem, reply.role_cost


def _jpeg(frame: Image) -> bytes:
    out = io.BytesIO()
    frame.save(out, "JPEG", quality=85)
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class ChatSupporter:
    """Retrieves precedents, and has a model compare them with the content."""

    role_model: RoleModel
    codes: Callable[[PreparedContent], Quoter]
    library: Retriever | None = None
    precedents: int = 3

    async def brief(self, prepared: PreparedContent) -> Briefing:
        """The briefing; precedents are kept even when the model's words cannot be read."""
        near: tuple[Precedent, ...] = ()
        if self.library is not None:  # an encoder may run: not on the event loop
            found = await asyncio.to_thread(self.library.nearest, prepared.words, prepared.kind, self.precedents)
            near = tuple(precedent for precedent in found if precedent.similarity >= FLOOR)
        quoter = self.codes(prepared)
        file = prompts.content_file(prepared, quoter, self.role_model.content_chars)
        basis = prompts.precedent_file(Briefing(precedents=near), quoter)
        asked = (
            Message("system", prompts.CONSTITUTION),
            Message("user", f"{file}\n\n{basis}\n\n{prompts.supporter_instructions()}"),
        )
        reply = await self.role_model.ask(asked, parsing.SupporterAnswer)
        answer, role_cost = reply.answer, reply.role_cost
        if answer is None:
            return Briefing(precedents=near, role_cost=role_cost, fault=reply.problem)
        notes = {note.id.strip().removeprefix("Precedent").strip(): note for note in answer.precedents}
        weighed = tuple(
            replace(p, why=notes[key].why, differs=notes[key].differs) if (key := str(number)) in notes else p
            for number, p in enumerate(near, 1)
        )
        return Briefing(
            answer.summary, weighed, tuple(answer.cues), tuple(answer.differences), tuple(answer.patterns), role_cost
        )


@dataclass(frozen=True, slots=True)
class ChatDebater:
    """Strict or Loose, by a language model."""

    role_model: RoleModel
    codes: Callable[[PreparedContent], Quoter]

    async def argue(self, debate: DebateState) -> Speech:
        """One speech."""
        role = self.role_model.role
        file = prompts.debate_file(debate, self.codes(debate.prepared), self.role_model.content_chars)
        instructions = prompts.debater_instructions(role, debate.round, debate.rounds)
        asked = (Message("system", prompts.CONSTITUTION), Message("user", f"{file}\n\n{instructions}"))
        words = debate.prepared.words
        reply = await self.role_model.ask(
            asked, parsing.DebaterAnswer, words, lambda answer: parsing.echoes(answer.argument, words)
        )
        answer, role_cost = reply.answer, reply.role_cost
        if answer is None:
            return Speech(role, debate.round, reply.text[:4000], None, role_cost=role_cost, fault=reply.problem)
        quotes = _quotes(debate.prepared, answer.quotes)
        hazards = _hazards(answer.hazards)
        return Speech(
            role, debate.round, answer.argument, answer.risk_score, quotes, hazards, answer.concede, role_cost
        )


@dataclass(frozen=True, slots=True)
class ChatArbiter:
    """The Arbiter, by a language model that is held to the protocol: rule, label and score must agree."""

    role_model: RoleModel
    codes: Callable[[PreparedContent], Quoter]
    orders: Mapping[InputKind, Order] = field(default_factory=lambda: DEFAULT_ORDERS)

    async def decide(self, debate: DebateState) -> ArbiterFinding:
        """The finding, or a stand-in marked undecided."""
        order = self.orders.get(debate.prepared.kind, Order.CONTEXT_FIRST)
        file = prompts.debate_file(debate, self.codes(debate.prepared), self.role_model.content_chars)
        asked = (
            Message("system", prompts.CONSTITUTION),
            Message("user", f"{file}\n\n{prompts.arbiter_instructions(order)}"),
        )
        reply = await self.role_model.ask(
            asked,
            parsing.ArbiterAnswer,
            debate.prepared.words,
            lambda answer: parsing.unsound_ruling(answer, debate, bool(_quotes(debate.prepared, answer.quotes))),
        )
        answer, role_cost = reply.answer, reply.role_cost
        if answer is None:
            return undecided_finding(debate, reply.problem, role_cost)
        positions = [answer.score, *(s[-1] for s in debate.scores.values() if s)]
        cited = {c.strip().removeprefix("Precedent").strip() for c in answer.precedents}
        evidence = _quotes(debate.prepared, answer.quotes) + tuple(
            Evidence(
                "precedent", p.case.summary or p.case.words[:160], {"case": p.case.id, "label": p.case.label.value}
            )
            for number, p in enumerate(debate.briefing.precedents, 1)
            if str(number) in cited
        )
        return ArbiterFinding(
            Label(answer.label),
            answer.score,
            answer.rule,
            answer.reasoning,
            (min(positions), max(positions)),
            evidence,
            _hazards(answer.hazards) if answer.label == "unsafe" else (),
            role_cost=role_cost,
            gray=abs(answer.score - 0.5) < _DOUBT,
        )


class DebateCodes:
    """Hands every role of one debate the same code, and the next debate another. Keeps no content."""

    def __init__(self, make: Callable[[], str] = fresh_code) -> None:
        self._make = make
        self._known: dict[int, tuple[weakref.ref[PreparedContent], Quoter]] = {}

    def __call__(self, prepared: PreparedContent) -> Quoter:
        key = id(prepared)
        held = self._known.get(key)
        if held is None or held[0]() is not prepared:
            if len(self._known) > 4096:
                self._known.pop(next(iter(self._known)))
            held = self._known[key] = (weakref.ref(prepared), Quoter(self._make()))
        return held[1]


def chat_panel(
    role_models: Mapping[Role, RoleModel],
    library: Retriever | None = None,
    *,
    orders: Mapping[InputKind, Order] = DEFAULT_ORDERS,
    code: Callable[[], str] = fresh_code,
    precedents: int = 3,
    limits: Limits = DEFAULT_LIMITS,
) -> Panel:
    """A panel of language models. A role without a model stays empty; only the Arbiter is needed."""
    codes = DebateCodes(code)
    supporter, strict, loose = (
        role_models.get(Role.SUPPORTER),
        role_models.get(Role.STRICT),
        role_models.get(Role.LOOSE),
    )
    names = dict.fromkeys(role_model.model.name for role_model in role_models.values())
    return Panel(
        "+".join(names),
        ChatPreprocessor(role_models.get(Role.PREPROCESSOR), limits),
        ChatArbiter(role_models[Role.ARBITER], codes, orders),
        ChatSupporter(supporter, codes, library, precedents) if supporter else None,
        ChatDebater(strict, codes) if strict else None,
        ChatDebater(loose, codes) if loose else None,
    )
