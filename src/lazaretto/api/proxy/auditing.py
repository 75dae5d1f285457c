"""Judges requests, answers, errors and streams: every part is judged as its speaker's text."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from lazaretto.api.conversations import JudgedPassage, Passage, has_heard, judge
from lazaretto.api.offered_tools import leave_out
from lazaretto.api.proxy.calls import ToolCall, calls_before, calls_in, calls_in_stream, described
from lazaretto.api.proxy.dialects import Dialect, Responses
from lazaretto.api.proxy.kept_answers import before_it_is_sent, note_answer
from lazaretto.api.proxy.passages import (
    COULD_NOT,
    MARK,
    Json,
    Unit,
    marked_source,
    withhold_named,
)
from lazaretto.api.proxy.streams import StreamTexts, read_object
from lazaretto.gates.engine.decision import held_side_by_side
from lazaretto.guard import Guard
from lazaretto.identity import ORDERS
from lazaretto.ingest.strings import MOST_TOGETHER, Cleaned, Path, cleaned, left_out, read_strings
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.names import MAX_NAME
from lazaretto.types import Channel, SourceClass

_REWRITTEN = ("content", "text", "refusal")
"""Fields of an answer in which other words may stand: not in arguments of tools."""


_FROM_OUTSIDE = (Channel.TOOL, Channel.DOCUMENT)
_MOST_PASSED = 1 << 20
"""Bytes of digests of texts that passed side by side."""
_PASSED: weakref.WeakKeyDictionary[Guard, KeptTexts[bool]] = weakref.WeakKeyDictionary()


class Refused(Exception):
    """A part of a request or an answer may not be passed on."""

    def __init__(self, verdict: JudgedPassage | None) -> None:
        reason = "it could not be judged" if verdict is None else f"{verdict.rule} ({verdict.item}): {verdict.reason}"
        super().__init__(f"refused by {reason}" if verdict else f"refused: {reason}")
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class PartCounts:
    """How many parts of a request were looked at, and how many replaced."""

    judged: int
    withheld: int
    unread: tuple[str, ...] = ()
    """Fields that bring in what the endpoint keeps and nobody here read."""


@dataclass(frozen=True, slots=True)
class ConversationAuditor:
    """Judges for one agent of one conversation."""

    guard: Guard
    dialect: Dialect
    agent: str
    principal: str
    conversation: str = ""
    user_source: str = ""
    """A lower source for the role user, by a header."""
    passed: list[str] = field(default_factory=list)
    """Items of this request and its answer that may be read."""

    async def asked(self, body: Json) -> PartCounts:
        """Put notices in place of parts that may not be read; ``Refused`` if the crew's own words may not be."""
        sources = self.guard.policy.proxy
        unread, held = await before_it_is_sent(self.guard, body, self.agent, self.principal)
        if held:
            why = "Something in the conversation that the endpoint keeps was found harmful: begin a new one."
            raise Refused(JudgedPassage(held, False, "held:since", why))
        if self.user_source:
            lower = marked_source({MARK: self.user_source}, sources.user) or sources.user
            sources = replace(sources, user=lower)
        named = sum(
            withhold_named(body[key], self.dialect.text_part)
            for key in ("messages", "input", "system", "prompt", "prediction", "documents")
            if isinstance(body.get(key), (list, dict))
        )
        named += await leave_out(self.guard, body)
        units = [unit for unit in self.dialect.asked(body, sources) if self._says_something(unit, frozenset())]
        if self.guard.policy.actions:
            unknown = frozenset(
                call.name for call in calls_before(body) if not self.guard.actions.called_before(self.agent, *call)
            )
            units = [await self._of_history(unit, unknown) for unit in units]
        done = await asyncio.gather(*(self._unit(unit, stop=unit.own) for unit in units))
        done = await self._side_by_side(units, done)
        changed = 0
        for unit, result in zip(units, done, strict=True):
            if result.changed:
                unit.put(result.value if result.whole is None else unit.instead(result.whole))
                changed += 1
        return PartCounts(len(units) + named, changed + named, unread)

    async def _of_history(self, unit: Unit, unknown: frozenset[str]) -> Unit:
        """A part of a request, where calls are asked about. A history comes from wherever it was stored: words of the
        user and the operator in it, and answers of directories, count as such only where they were read here before, or
        where the model's call was answered here. ``unknown``: the tools of other calls."""
        theirs = unit.earlier and unit.source in ORDERS
        if not theirs and unit.tool not in unknown:
            return unit
        words = read_strings(unit.value, self._left_out(frozenset())).text
        if theirs:
            if await self._has_heard(Passage(words, channel=unit.channel, source=unit.source)):
                return unit
            return replace(unit, channel=Channel.DOCUMENT, source=SourceClass.AGENT_MESSAGE, own=False)
        if (listing := self.guard.actions.listing(unit.tool, unit.answer)) is None:
            return replace(unit, tool="")
        source = unit.source if listing.speaks else SourceClass.TOOL_OUTPUT_INTERNAL
        passage = Passage(words, channel=unit.channel, source=source, tool=unit.tool, answer=unit.answer)
        return unit if await self._has_heard(passage) else replace(unit, tool="")

    async def _has_heard(self, passage: Passage) -> bool:
        return await has_heard(
            self.guard, passage, agent=self.agent, conversation=self.conversation, principal=self.principal
        )

    async def _side_by_side(self, units: Sequence[Unit], done: Sequence[Cleaned]) -> list[Cleaned]:
        """The parts, with a notice for those that came from outside side by side and are harmful only together."""
        made, run = list(done), list[int]()
        for place, unit in enumerate([*units, None]):
            if unit is not None and unit.channel in _FROM_OUTSIDE and not (unit.by_model or unit.own):
                if done[place].changed:  # a notice stands there
                    continue
                run.append(place)
                continue
            texts = [read_strings(made[n].value, self._left_out(frozenset())).text for n in run]
            held = await self._held_together(texts, Channel.TOOL if run and units[run[0]].tool else Channel.DOCUMENT)
            if held is not None:
                for n in run:
                    made[n] = Cleaned(held, (((), False),), held)
            run = []
        return made

    async def _held_together(
        self, texts: Sequence[str], channel: Channel, source: SourceClass | None = None
    ) -> str | None:
        """The notice for texts that may not be read side by side. Nothing is recorded of texts that may: their
        words are on record already."""
        text = "\n".join(text for text in texts if text.strip())
        if sum(bool(text.strip()) for text in texts) < 2 or len(text) > MOST_TOGETHER:
            return None
        held = await self._held_if_read(text, channel, source or self.guard.policy.proxy.document)
        return None if held is None else notice(held)

    async def _held_if_read(self, text: str, channel: Channel, source: SourceClass) -> JudgedPassage | None:
        """The verdict on words that stand in several places, each of which may be read by itself; None where they may
        be read together."""
        key = digest(self.agent, channel.value, source.value, text)
        known = _PASSED.setdefault(self.guard, KeptTexts(_MOST_PASSED, lambda _: 200))
        if known.get(key):
            return None
        screened = await self.guard.screen(text, agent=self.agent, channel=channel, source=source)
        if not held_side_by_side(screened):
            known.put(key, True)
            return None
        verdict = await self._judge(Passage(text, channel=channel, source=source))
        return None if verdict.allowed else verdict

    async def answered(self, body: Json, known: frozenset[str], request: Json) -> Json:
        """The answer as the agent may have it; ``known``: strings of the request, which endpoints repeat."""
        done, unchanged = await self._judged(body, known)
        refused = await self.may_call(calls_in(done), request)
        if refused is not None:
            return self.dialect.withhold(done, refused)
        if unchanged:
            await self._note(request, done)
        return done

    async def _note(self, request: Json, answer: Any) -> None:
        """Note an answer that passed, where an endpoint keeps answers."""
        if self.dialect.name == Responses.name:
            await asyncio.to_thread(note_answer, self.guard, request, answer, self.agent, self.passed)

    async def may_call(self, calls: Sequence[ToolCall], request: Json) -> str | None:
        """The words to say in place of an answer with a call that may not be made; None where all may.

        Nobody is asked where the policy has no table ``[actions]``. All calls of an answer are withheld with the first:
        an agent gets the whole answer or none.
        """
        if not calls or not self.guard.policy.actions:
            return None
        tools, notices = described(request), []
        for call in calls:
            words, schema = tools.get(call.name, ("", None))
            made = await self.guard.authorize(
                call.name[:MAX_NAME] or "tool", call.arguments, agent=self.agent, description=words, schema=schema,
                principal=self.principal,
            )  # fmt: skip
            notices += [] if made.allowed else [made.notice]
        if not notices:
            for call in calls:
                self.guard.actions.has_called(self.agent, *call)
        return "\n".join(notices) or None

    async def _judged(self, body: Json, known: frozenset[str]) -> tuple[Json, bool]:
        """The answer as it may be handed on, and whether that is the whole answer as it was."""
        found = self.dialect.answered(body, self.guard.policy.proxy)
        echoes = [(unit, frozenset() if unit.rewritable else known) for unit in found]
        kept = [(unit, echo) for unit, echo in echoes if self._says_something(unit, echo)]
        units = [unit for unit, _ in kept]
        try:
            done = await asyncio.gather(*(self._unit(unit, stop=True, known=echo, now=True) for unit, echo in kept))
        except Refused as refused:
            return self.dialect.withhold(body, notice(refused.verdict)), False
        for unit, result in zip(units, done, strict=True):
            if not result.changed:
                continue
            if result.whole is not None or not all(_may_be_rewritten(path) for path, _ in result.changed):
                return self.dialect.withhold(body, COULD_NOT), False
            unit.put(result.value)
        spoken = [unit.value for unit in units if unit.by_model and _is_spoken(unit.value)]
        texts = [read_strings(value, self._left_out(frozenset())).text for value in spoken]
        held = await self._held_together(texts, Channel.MESSAGE, self.guard.policy.proxy.assistant)
        if held is not None:
            return self.dialect.withhold(body, held), False
        return body, not any(result.changed for result in done)

    async def fault(self, content: bytes) -> Json:
        """An error of the endpoint as the agent may read it."""
        try:
            value: Any = orjson.loads(content)
        except orjson.JSONDecodeError:
            value = content
        sources = self.guard.policy.proxy
        unit = Unit(value, lambda _: None, str, Channel.TOOL, sources.tool)
        try:
            result = await self._unit(unit, stop=True)
        except Refused as refused:
            return self.dialect.fault(f"the endpoint's error is withheld: {notice(refused.verdict)}", "upstream_error")
        if result.changed:
            return self.dialect.fault("the endpoint's error is withheld: it could not be judged", "upstream_error")
        if isinstance(value, dict):
            return value
        return self.dialect.fault(read_strings(value).text[:2_000], "upstream_error")

    async def streamed(self, stream: StreamTexts, events: Sequence[Json], request: Json) -> str | None:
        """The words to say in place of a stream that may not be passed on; None where it may."""
        held = await self._held(stream)
        held = held if held is not None else await self.may_call(calls_in_stream(events), request)
        if held is None:
            await self._note(request, next((found for event in events[::-1] if (found := event.get("response"))), None))
        return held

    async def _held(self, stream: StreamTexts) -> str | None:
        if stream.unread:
            return COULD_NOT
        sources = self.guard.policy.proxy
        passages = [Passage(text, channel=Channel.MESSAGE, source=sources.assistant) for text in stream.texts]
        passages += [Passage(stream.rest, channel=Channel.MESSAGE, source=sources.assistant)] if stream.rest else []
        passages += [Passage(stream.foreign, channel=Channel.TOOL, source=sources.tool)] if stream.foreign else []
        passages += [
            Passage(image=picture, channel=Channel.IMAGE, source=sources.assistant) for picture in stream.pictures
        ]
        verdicts: Sequence[JudgedPassage] = await asyncio.gather(*map(self._judge, passages))
        held = next((notice(verdict) for verdict in verdicts if not verdict.allowed), None)
        if held is None:
            held = await self._held_together(stream.texts, Channel.MESSAGE, sources.assistant)
        if held is None and self.guard.policy.actions:
            for words in (*stream.texts, stream.rest):
                self.guard.actions.has_said(self.agent, words)
                given = read_object(words.encode("utf-8", "surrogatepass"))  # arguments of a tool, bit by bit
                if given is not None:
                    self.guard.actions.has_said(self.agent, read_strings(given).text)
        return held

    def _says_something(self, unit: Unit, known: frozenset[str]) -> bool:
        reading = read_strings(unit.value, self._left_out(known))
        return bool(reading.text.strip() or reading.pictures or reading.unread or reading.names)

    def _left_out(self, known: frozenset[str]) -> Any:
        table = left_out(self.dialect.name)

        def leave(path: Path, value: Any) -> bool:
            return table(path, value) or (isinstance(value, str) and value in known)

        return leave if known else table

    async def _judge(self, passage: Passage) -> JudgedPassage:
        verdict = await judge(
            self.guard, passage, agent=self.agent, conversation=self.conversation, principal=self.principal
        )
        if verdict.allowed and verdict.item:
            self.passed.append(verdict.item)
        return verdict

    def _channel(self, unit: Unit, words: str) -> Channel:
        """How a part of a request is read. If calls are asked about, earlier words of the model that it did not answer
        through here are a document: a history comes from wherever it was stored."""
        if not unit.by_model or not self.guard.policy.actions or self.guard.actions.said_before(self.agent, words):
            return unit.channel
        return Channel.DOCUMENT

    async def _unit(self, unit: Unit, *, stop: bool, known: frozenset[str] = frozenset(), now: bool = False) -> Cleaned:
        """A part as it may be passed on; with ``stop``, ``Refused`` at the first thing that may not be. ``now``: it is
        part of an answer that was just given."""

        directory = self.guard.actions.listing(unit.tool, unit.answer) if unit.tool else None
        directory_fields = {} if directory is None else {"tool": unit.tool, "answer": unit.answer}
        source = SourceClass.TOOL_OUTPUT_INTERNAL if directory is not None and not directory.speaks else unit.source

        async def text(words: str) -> str:
            channel = unit.channel if now else self._channel(unit, words)
            verdict = await self._judge(
                Passage(words, channel=channel, source=source, called_tool=unit.tool, **directory_fields)
            )
            if now and unit.by_model and verdict.allowed and self.guard.policy.actions:
                self.guard.actions.has_said(self.agent, words)
            if stop and not verdict.allowed and (verdict.replacement is None or not unit.rewritable):
                raise Refused(verdict)
            return words if verdict.allowed else notice(verdict)

        async def picture(data: bytes) -> str | None:
            verdict = await self._judge(
                Passage(image=data, channel=Channel.IMAGE, source=self._of_pictures(unit.source))
            )
            return None if verdict.allowed else notice(verdict)

        async def names(words: str) -> str:
            held = await self._held_if_read(words, unit.channel, unit.source)
            if stop and held is not None:
                raise Refused(held)
            return words if held is None else notice(held)

        done = await cleaned(
            unit.value, text, picture=picture, leave_out=self._left_out(known), block=self.dialect.text_part,
            names=names,
        )  # fmt: skip
        if stop and done.whole is not None and done.whole.startswith("[withheld by lazaretto: it could"):
            raise Refused(None)
        return done

    def _of_pictures(self, source: SourceClass) -> SourceClass:
        """Pictures are files: text in them is nobody's order, no matter who sends them."""
        sources = self.guard.policy.proxy
        return sources.document if source in (sources.user, sources.system) else source


def notice(verdict: JudgedPassage | None) -> str:
    """The text in the place of a held part: a notice, or the gates' replacement."""
    if verdict is None:
        return COULD_NOT
    return verdict.replacement or f"[withheld by Lazaretto: {verdict.rule}, {verdict.item}]"


def _is_spoken(value: Any) -> bool:
    """Whether a part of an answer is text of the model's, which clients put together with that of other parts."""
    return isinstance(value, dict) and value.get("type") in ("message", "text")


def _may_be_rewritten(path: Path) -> bool:
    return not path or path[-1] in _REWRITTEN
