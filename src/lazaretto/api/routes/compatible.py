"""Calls in the form that others have: OpenAI's moderation, LiteLLM's guardrail."""

from __future__ import annotations

import asyncio
import base64
import binascii
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lazaretto.api import webhooks
from lazaretto.api.access import Caller
from lazaretto.api.answers import ERRORS, answer
from lazaretto.api.callers import Anyone, TheGuard, claimed
from lazaretto.api.conversations import JudgedPassage, Passage, judge
from lazaretto.api.offered_tools import faults_of
from lazaretto.api.proxy.dialects import dicts
from lazaretto.api.proxy.passages import CalledTools
from lazaretto.api.requests import MOST_AT_ONCE
from lazaretto.errors import InputError, TooLarge
from lazaretto.gates.engine.decision import held_side_by_side
from lazaretto.guard import Guard
from lazaretto.identity import ProvedBy
from lazaretto.ingest.strings import MOST_TOGETHER, ReadStrings, left_out, read_strings
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.types import CLAIMED, Channel, Decision, new_id, plain

# OpenAI's moderation, as its clients call it.

router = APIRouter(tags=["compatible"], responses=ERRORS)
MODEL = "lazaretto"
HELD = "lazaretto/held"
"""Our own category: the guard would hold it, for any reason."""
CATEGORIES: dict[str, tuple[str, ...]] = {
    "harassment": ("S5",), "harassment/threatening": (), "hate": ("S10",), "hate/threatening": (),
    "illicit": ("S2", "S14"), "illicit/violent": ("S1", "S9"), "self-harm": ("S11",), "self-harm/instructions": (),
    "self-harm/intent": (), "sexual": ("S3", "S12"), "sexual/minors": ("S4",), "violence": ("S1",),
    "violence/graphic": (),
}  # fmt: skip
"""OpenAI's categories, each with the MLCommons hazards that mean it."""


class Address(BaseModel):
    """The address of a picture."""

    url: str


class Part(BaseModel):
    """A piece of a content that is judged as a whole."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: Address | None = None


class ModerationBody(BaseModel):
    """``POST /v1/moderations``, as OpenAI's clients send it."""

    model_config = ConfigDict(extra="ignore")
    input: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=MOST_AT_ONCE)]
        | Annotated[list[Part], Field(min_length=1, max_length=16)]
    )
    model: str | None = None


class ModerationResult(BaseModel):
    """One judgement."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[Literal["text", "image"]]]


class ModerationAnswer(BaseModel):
    """One result for each text, or one for all parts together."""

    id: str
    model: str
    results: list[ModerationResult]


@router.post("/v1/moderations", response_model=ModerationAnswer)
async def moderations(body: ModerationBody, request: Request, guard: TheGuard, caller: Anyone) -> Response:
    """Judge texts and pictures as OpenAI's moderation does: its clients work with this server as base URL. Nothing is
    recorded. ``flagged``: the guard would hold it; the category ``lazaretto/held`` says so if no other fits."""
    given = [body.input] if isinstance(body.input, str) else body.input
    texts = [part for part in given if isinstance(part, str)]
    if texts:
        judged = await asyncio.gather(*(_screened(guard, caller, text, None) for text in texts))
        results = [_result([decision], ["text"]) for decision in judged]
    else:
        results = [await _together([part for part in given if isinstance(part, Part)], request, guard, caller)]
    return answer({"id": new_id("modr"), "model": MODEL, "results": results})


async def _screened(guard: Guard, caller: Caller, text: str, image: bytes | None) -> Decision:
    agent = caller.agents[0] if caller.agents else "unknown"
    channel = Channel.MESSAGE if image is None else Channel.IMAGE
    return await guard.screen(text, channel=channel, image=image, **plain(claimed(caller, guard, agent, None, channel)))


async def _together(parts: Sequence[Part], request: Request, guard: Guard, caller: Caller) -> dict[str, Any]:
    work, kinds = [], []
    for part in parts:
        if part.type == "text":
            work.append(_screened(guard, caller, part.text, None))
            kinds.append("text")
        else:
            if part.image_url is None:
                raise InputError("input.image_url", "is missing", "Give {'url': 'data:image/png;base64,...'}")
            picture = await read_picture(part.image_url.url, "input.image_url", guard, request)
            work.append(_screened(guard, caller, "", picture))
            kinds.append("image")
    decisions = await asyncio.gather(*work)
    texts = [part.text for part in parts if part.type == "text" and part.text.strip()]
    if len(texts) > 1 and held_side_by_side(whole := await _screened(guard, caller, "\n".join(texts), None)):
        decisions, kinds = [*decisions, whole], [*kinds, "text"]  # an order may be cut over parts
    return _result(decisions, kinds)


async def read_picture(url: str, field: str, guard: Guard, request: Request) -> bytes:
    """The picture in a data URL. One that lies elsewhere is fetched only where the operator switched that on."""
    limit = guard.policy.limits.max_image_bytes
    if url.startswith("data:"):
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InputError(field, "is not a base64 data URL", "Use data:image/png;base64,...")
        if len(data) > limit * 4 // 3 + 4:
            raise TooLarge(field, len(data) * 3 // 4, limit, "Make it smaller", setting="limits.max_image_bytes")
        try:
            return base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            raise InputError(field, "is not base64", "Use data:image/png;base64,...") from None
    if not request.app.state.fetch_images:
        fix = "Send the picture as a data URL, or start the server with --fetch-images"
        raise InputError(field, "lies elsewhere, and this server fetches nothing", fix)
    reply = await asyncio.to_thread(webhooks.call, "GET", url, field=field, limit=limit)
    if reply.status != 200:
        raise InputError(field, f"was answered with {reply.status}", "Check the address")
    return reply.body


def _result(decisions: Sequence[Decision], kinds: Sequence[str]) -> dict[str, Any]:
    scores = dict.fromkeys((*CATEGORIES, HELD), 0.0)
    found = dict.fromkeys((*CATEGORIES, HELD), False)
    applied: dict[str, list[str]] = {name: [] for name in (*CATEGORIES, HELD)}
    for decision, kind in zip(decisions, kinds, strict=True):
        bad = (decision.ruling if decision.would is None else decision.would).hook_action != "allow"
        _raise(scores, HELD, decision.risk)
        found[HELD] |= bad
        if kind not in applied[HELD]:
            applied[HELD].append(kind)
        for verdict in decision.verdicts:
            for name, hazards in CATEGORIES.items():
                if not any(hazard in verdict.taxonomy for hazard in hazards):
                    continue
                _raise(scores, name, verdict.risk)
                found[name] |= bad and verdict.ruling.hook_action != "allow"
                if kind not in applied[name]:
                    applied[name].append(kind)
    flagged = any(found.values())
    return {
        "flagged": flagged, "categories": found, "category_scores": scores, "category_applied_input_types": applied,
    }  # fmt: skip


def _raise(scores: dict[str, float], name: str, risk: float) -> None:
    scores[name] = max(scores[name], risk)


# LiteLLM's guardrail call: every string of a conversation is judged, and nobody is believed about who they are.

_TOOLS = ("tool", "function")
"""Roles of a tool's answer."""
_OPERATOR = ("system", "developer")
"""Roles of instructions: LiteLLM has a setting that leaves their words out of the texts."""


class GuardrailBody(BaseModel):
    """The request of LiteLLM's generic guardrail; fields that we do not use are ignored."""

    model_config = ConfigDict(extra="ignore")
    input_type: Literal["request", "response"]
    texts: list[str] | None = None
    images: list[str] | None = None
    tools: list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    structured_messages: list[dict[str, Any]] | None = None
    litellm_trace_id: str | None = None
    request_data: dict[str, Any] | None = None
    additional_provider_specific_params: dict[str, Any] | None = None


class GuardrailAnswer(BaseModel):
    """The answer to LiteLLM: the action for the texts."""

    action: Literal["NONE", "BLOCKED", "GUARDRAIL_INTERVENED"]
    blocked_reason: str | None = None
    texts: list[str] | None = None


@router.post("/beta/litellm_basic_guardrail_api", response_model=GuardrailAnswer)
async def litellm_guardrail(body: GuardrailBody, request: Request, guard: TheGuard, caller: Anyone) -> Response:
    """LiteLLM's generic guardrail: tool results count as such, everything else as messages; all of it is recorded.

    The agent is ``agent`` of ``additional_provider_specific_params``, else the alias of LiteLLM's key. Clients may send
    that field, too, so the name in it proves nothing.
    """
    agent, vouched = _agent(body, caller)
    claim = claimed(caller, guard, agent)
    who = claim.principal
    if not vouched and caller.identity.kind is ProvedBy.OPERATOR:
        who = f"{CLAIMED}{_alias(body) or caller.name}/{agent}"
    for place, fault in (await faults_of(guard, body.tools)).items():
        return answer({"action": "BLOCKED", "blocked_reason": f"tools.{place}: {fault}", "texts": None})
    texts, messages = body.texts or [], body.structured_messages or []
    from_tools = _tool_texts(messages)
    passages = [
        Passage(text, channel=Channel.TOOL, called_tool=from_tools[text]) if text in from_tools else Passage(text)
        for text in texts
    ]
    for call in body.tool_calls or []:
        passages.append(Passage(_read("tool_calls", call).text))
    pictures = [await read_picture(url, f"images.{n}", guard, request) for n, url in enumerate(body.images or [])]
    passages += [Passage(image=picture, channel=Channel.IMAGE) for picture in pictures]
    passages += [*_beside(messages, {*texts}, {*pictures}), *await _side_by_side(guard, agent, messages)]
    conversation = body.litellm_trace_id or ""
    work = (
        judge(guard, passage, agent=agent, conversation=conversation, principal=who)
        for passage in passages
        if passage.text.strip() or passage.image
    )
    judged = await asyncio.gather(*work)
    several = sum(bool(text.strip()) for text in texts)  # only these can be mended
    refused = [
        verdict for n, verdict in enumerate(judged) if not verdict.allowed and (n >= several or not verdict.replacement)
    ]
    if refused:
        reason = f"{refused[0].rule}: {refused[0].reason}"
        return answer({"action": "BLOCKED", "blocked_reason": reason, "texts": None})
    if any(not verdict.allowed for verdict in judged):
        return answer({"action": "GUARDRAIL_INTERVENED", "blocked_reason": None, "texts": _mended(texts, judged)})
    return answer({"action": "NONE", "blocked_reason": None, "texts": None})


def _mended(texts: Sequence[str], judged: Sequence[JudgedPassage]) -> list[str]:
    waiting = iter(judged)
    mended = []
    for text in texts:
        verdict = next(waiting) if text.strip() else None
        mended.append(text if verdict is None or verdict.allowed else verdict.replacement or "")
    return mended


def _agent(body: GuardrailBody, caller: Caller) -> tuple[str, bool]:
    """The agent, and whether LiteLLM itself says so: it fills in what it knows of the key that called it."""
    named, own = (body.additional_provider_specific_params or {}).get("agent"), _alias(body)
    if isinstance(named, str) and named.strip():
        return named, named == own
    if own:
        return own, True
    return (caller.agents[0] if caller.agents else "litellm"), True


def _alias(body: GuardrailBody) -> str:
    data: Mapping[str, Any] = body.request_data or {}
    names = (data.get("user_api_key_alias"), data.get("user_api_key_user_id"))
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _read(field: str, value: Any) -> ReadStrings:
    reading = read_strings(value, left_out("openai-chat"))
    if not reading.whole:
        raise InputError(field, f"cannot be read ({reading.unread[0].why})", "Send only what can be judged")
    return reading


def _tool_parts(message: Mapping[str, Any]) -> Iterator[Any]:
    """Answers of tools in a message: its content, or the blocks of results in it."""
    content = message.get("content")
    if message.get("role") in _TOOLS:
        yield content
        return
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and str(part.get("type", "")).endswith(("tool_result", "_output")):
            yield part


def _tool_texts(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The tool results among the texts of a conversation, each with the tool that was called; empty where none is
    known."""
    called, found = CalledTools(), dict[str, str]()
    for message in messages:
        for call in dicts(message.get("tool_calls")):
            function = call.get("function")
            called.call(call.get("id"), function.get("name") if isinstance(function, Mapping) else None)
        for part in _tool_parts(message):
            tool = called.answered(message.get("tool_call_id"))
            for text in read_strings(part, left_out("openai-chat")).texts:
                found.setdefault(text.text, tool)
    return found


def _beside(messages: Sequence[Mapping[str, Any]], texts: set[str], pictures: set[bytes]) -> Iterator[Passage]:
    """Strings that LiteLLM does not name among the texts: names, calls, thoughts, files."""
    for message in messages:
        own = message.get("role") in _OPERATOR
        reading = _read("structured_messages", {key: message[key] for key in message if key != "content" or not own})
        channel = Channel.TOOL if message.get("role") in _TOOLS else Channel.MESSAGE
        rest = [found for found in reading.texts if found.text not in texts]
        yield Passage(ReadStrings(tuple(rest)).text, channel=channel)
        for picture in reading.pictures:
            if picture.data not in pictures:
                yield Passage(image=picture.data, channel=Channel.IMAGE)


async def _side_by_side(guard: Guard, agent: str, messages: Sequence[Mapping[str, Any]]) -> list[Passage]:
    """The answers of tools of one turn, and the parts of a message of a person, put together, where they are held
    together and not each by itself. Nothing is recorded of others: their words are on record already."""
    found = list[Passage]()
    for channel, pieces_of in ((Channel.TOOL, _tool_parts), (Channel.MESSAGE, _spoken_parts)):
        run = list[str]()
        for message in [*messages, {}]:
            if pieces := [text for part in pieces_of(message) for text in _pieces(part)]:
                run += pieces
                continue
            text = "\n".join(run)
            if len(run) > 1 and len(text) <= MOST_TOGETHER and await _is_held(guard, agent, text, channel):
                found.append(Passage(text, channel=channel))
            run = []
    return found


_MOST_PASSED = 1 << 20
_PASSED: weakref.WeakKeyDictionary[Guard, KeptTexts[bool]] = weakref.WeakKeyDictionary()
"""Texts that passed side by side: a conversation is sent whole with every call."""


async def _is_held(guard: Guard, agent: str, text: str, channel: Channel) -> bool:
    key = digest(agent, channel.value, text)
    known = _PASSED.setdefault(guard, KeptTexts(_MOST_PASSED, lambda _: 200))
    if known.get(key):
        return False
    held = held_side_by_side(await guard.screen(text, agent=agent, channel=channel))
    if not held:
        known.put(key, True)
    return held


def _spoken_parts(message: Mapping[str, Any]) -> Iterator[Any]:
    """The content of a message of a user: not of a tool, the model or the operator."""
    content = message.get("content")
    if message.get("role") in (*_TOOLS, *_OPERATOR, "assistant", None) or next(_tool_parts(message), None) is not None:
        return
    yield content


def _pieces(part: Any) -> list[str]:
    """The texts of a tool's answer, each part of a list by itself."""
    parts = part if isinstance(part, list) else [part]
    return [text for inner in parts if (text := _read("structured_messages", inner).text).strip()]
