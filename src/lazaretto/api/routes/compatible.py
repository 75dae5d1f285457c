"""OpenAI's moderation, as its clients call it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lazaretto.api import outgoing
from lazaretto.api.access import Caller
from lazaretto.api.answers import ERRORS, answer
from lazaretto.api.callers import Anyone, TheGuard, claimed
from lazaretto.api.requests import MOST_AT_ONCE
from lazaretto.errors import InputError, TooLarge
from lazaretto.guard import Guard
from lazaretto.types import Channel, Decision, new_id, plain

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
    return _result(await asyncio.gather(*work), kinds)


async def read_picture(url: str, field: str, guard: Guard, request: Request) -> bytes:
    """The picture in a data URL. One that lies elsewhere is fetched only where the operator switched that on."""
    limit = guard.policy.limits.max_image_bytes
    if url.startswith("data:"):
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InputError(field, "is not a base64 data URL", "Use data:image/png;base64,...")
        if len(data) > limit * 4 // 3 + 4:
            raise TooLarge(field, len(data), limit)
        try:
            return base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            raise InputError(field, "is not base64", "Use data:image/png;base64,...") from None
    if not request.app.state.fetch_images:
        fix = "Send the picture as a data URL, or start the server with --fetch-images"
        raise InputError(field, "lies elsewhere, and this server fetches nothing", fix)
    reply = await asyncio.to_thread(outgoing.call, "GET", url, field=field, limit=limit)
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
