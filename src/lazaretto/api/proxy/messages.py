"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazaretto.api.proxy.dialects import (
    dicts,
    of_model,
    of_tool,
    rest_of_answer,
    rest_of_request,
    sse,
)
from lazaretto.api.proxy.passages import (
    Json,
    Unit,
    as_earlier,
    earlier_places,
    marked_source,
    name_of,
    objects,
    own_content,
    setter,
    settings,
    short_name,
    words_in,
)
from lazaretto.policy import ProxySources
from lazaretto.types import Channel, new_id

_OWN = ("tools", "tool_choice", "stop_sequences", "model", "thinking", "service_tier", "output_config",
        "output_format", "betas", "metadata")  # fmt: skip


class Messages:
    """``/v1/messages``."""

    path = "/v1/messages"
    name = "anthropic"

    def text_part(self, words: str) -> Json:
        return {"type": "text", "text": words}

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        yield from own_content(body, "system", sources.system, sources, self.text_part)
        called: dict[str, str] = {}
        messages = objects(body, "messages")
        earlier = earlier_places(messages)
        for place, message in enumerate(messages):
            if message.get("role") == "assistant":
                called |= {
                    str(block.get("id")): name_of(block.get("name"))
                    for block in dicts(message.get("content"))
                    if block.get("type") == "tool_use"
                }
            yield from as_earlier(self._message(message, sources, called), place in earlier)
        yield from rest_of_request(body, ("messages", "system"), _OWN, sources)

    def _message(self, message: Json, sources: ProxySources, called: Mapping[str, str]) -> Iterator[Unit]:
        role, content = message.get("role"), message.get("content")
        source = {"user": sources.user, "system": sources.system}.get(str(role), sources.document)
        if role == "assistant" and isinstance(content, str):
            yield of_model(content, setter(message, "content"), str, sources)
        elif role == "assistant" and isinstance(content, list):
            for place, block in enumerate(content):
                put = setter(content, place)
                yield _result(block, put, sources, {}) or of_model(block, put, _instead(block), sources)
        else:
            yield from own_content(
                message, "content", source, sources, self.text_part,
                lambda part, put: _result(part, put, sources, called if role == "user" else {}),
            )  # fmt: skip
        rest = {key: value for key, value in message.items() if key != "content"}
        yield settings(rest, message.update, Channel.MESSAGE, source)

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        content = body.get("content")
        blocks: list[Any] = content if isinstance(content, list) else []
        for place, block in enumerate(blocks):
            yield (of_tool if _from_tool(block) else of_model)(block, setter(blocks, place), str, sources)
        yield rest_of_answer(body, ("content",) if isinstance(content, list) else (), sources)

    def withhold(self, body: Json, notice: str) -> Json:
        return {
            "id": new_id("msg"), "type": "message", "role": "assistant", "model": name_of(body.get("model")),
            "content": [self.text_part(notice)], "stop_reason": "refusal", "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }  # fmt: skip

    def foreign(self, event: Json) -> bool:
        return _from_tool(event.get("content_block"))

    def finished(self, events: Sequence[Json]) -> bool:
        return any(event.get("type") == "message_stop" for event in events)

    def as_stream(self, model: str, words: str) -> bytes:
        usage = {"input_tokens": 0, "output_tokens": 0}
        message: Json = {
            "id": new_id("msg"), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        ended = {"stop_reason": "refusal", "stop_sequence": None}
        events: list[Json] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": usage},
            {"type": "message_stop"},
        ]
        return b"".join(sse(event, event["type"]) for event in events)

    def fault(self, message: str, code: str) -> Json:
        return {"type": "error", "error": {"type": code, "message": message}}

    def fault_in_stream(self, message: str, code: str) -> bytes:
        return sse(self.fault(message, code), "error")


def _from_tool(block: Any) -> bool:
    """Whether a block brings a tool's result, from here or from the endpoint."""
    kind = str(block.get("type", "")) if isinstance(block, dict) else ""
    return kind.endswith(("tool_result", "_result_error"))


def _result(block: Any, put: Any, sources: ProxySources, called: Mapping[str, str]) -> Unit | None:
    """A tool's result; ``called``: the tools of the calls that came before, by the calls' ids."""
    if not _from_tool(block):
        return None
    marked = marked_source(block, sources.tool)
    here = block.get("type") == "tool_result" and not marked
    return Unit(
        block, put, _instead(block), Channel.TOOL, marked or sources.tool,
        tool=called.get(str(block.get("tool_use_id")), "") if here else "", answer=words_in(block.get("content")),
    )  # fmt: skip


def _instead(block: Any) -> Any:
    """The replacement of a block; results and calls keep their ids, because each needs the other."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_result":
        return lambda words: {"type": kind, "tool_use_id": block.get("tool_use_id", ""), "content": words}
    if kind == "tool_use":
        name = short_name(block.get("name"))
        return lambda words: {"type": kind, "id": block.get("id", ""), "name": name, "input": {}}
    return lambda words: {"type": "text", "text": words}
