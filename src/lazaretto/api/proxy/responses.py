"""OpenAI's responses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazaretto.api.proxy.dialects import (
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
    of_document,
    own_content,
    setter,
    settings,
    short_name,
    with_roles,
    words_in,
)
from lazaretto.policy import ProxySources
from lazaretto.types import Channel, new_id

_OWN = ("instructions", "tools", "tool_choice", "text", "reasoning", "model", "include", "service_tier", "truncation",
        "user", "safety_identifier", "prompt_cache_key", "previous_response_id", "conversation", "metadata",
        "stream_options", "max_tool_calls", "background")  # fmt: skip
_BROUGHT = frozenset({"output", "outputs", "results", "error", "tools", "result", "logs"})
"""Fields of an item with content from outside: a tool's result, or its description of itself."""


class Responses:
    """``/v1/responses``."""

    path = "/v1/responses"
    name = "openai-responses"

    def text_part(self, words: str) -> Json:
        return {"type": "input_text", "text": words}

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        if isinstance(body.get("input"), str):
            yield from own_content(body, "input", sources.user, sources, self.text_part)
        else:
            items, called = objects(body, "input"), dict[str, str]()
            earlier = earlier_places(with_roles(items))
            for place, item in enumerate(items):
                if item.get("type") == "function_call":
                    called[str(item.get("call_id"))] = name_of(item.get("name"))
                yield from as_earlier(self._item(item, setter(items, place), sources, called), place in earlier)
        prompt = body.get("prompt")
        if prompt is not None:  # a template of the operator's own, filled in with values from anywhere
            yield of_document(prompt, setter(body, "prompt"), lambda _: {}, sources.document)
        yield from rest_of_request(body, ("input", "prompt"), _OWN, sources)

    def _item(self, item: Json, put: Any, sources: ProxySources, called: Mapping[str, str]) -> Iterator[Unit]:
        role = item.get("role")
        if _from_outside(item):
            marked = marked_source(item, sources.tool)
            here = item.get("type") == "function_call_output" and not marked
            yield Unit(
                item, put, lambda words: self._instead(item, words), Channel.TOOL, marked or sources.tool,
                tool=called.get(str(item.get("call_id")), "") if here else "", answer=words_in(item.get("output")),
            )  # fmt: skip
        elif role in ("user", "system", "developer"):
            source = sources.user if role == "user" else sources.system
            yield from own_content(item, "content", source, sources, self.text_part)
            rest = {key: value for key, value in item.items() if key != "content"}
            yield settings(rest, item.update, Channel.MESSAGE, source)
        else:  # the model's text, calls or thoughts
            yield of_model(item, put, lambda words: self._instead(item, words), sources)

    def _instead(self, item: Json, words: str) -> Json:
        kind = str(item.get("type", ""))
        if kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            return {"type": kind, "call_id": item.get("call_id", ""), "output": words}
        if kind == "function_call":
            name = short_name(item.get("name"))
            return {"type": kind, "call_id": item.get("call_id", ""), "name": name, "arguments": "{}"}
        if item.get("role") == "assistant":
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        return {"type": "message", "role": "user", "content": [self.text_part(words)]}

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        output = body.get("output")
        items: list[Any] = output if isinstance(output, list) else []
        for place, item in enumerate(items):
            outside = isinstance(item, dict) and _from_outside(item)
            yield (of_tool if outside else of_model)(item, setter(items, place), str, sources)
        yield rest_of_answer(body, ("output",) if isinstance(output, list) else (), sources)

    def withhold(self, body: Json, notice: str) -> Json:
        part = {"type": "output_text", "text": notice, "annotations": []}
        message = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        return {
            "id": new_id("resp"), "object": "response", "created_at": time.time(), "model": name_of(body.get("model")),
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"}, "output": [message],
        }  # fmt: skip

    def foreign(self, event: Json) -> bool:
        item = event.get("item")
        return isinstance(item, dict) and _from_outside(item)

    def finished(self, events: Sequence[Json]) -> bool:
        ends = ("response.completed", "response.incomplete", "response.failed")
        return any(event.get("type") in ends for event in events)

    def as_stream(self, model: str, words: str) -> bytes:
        whole = self.withhold({"model": model}, words)
        empty: Json = {**whole, "output": [], "status": "in_progress", "incomplete_details": None}
        (item,) = whole["output"]
        at = {"item_id": item["id"], "output_index": 0}
        events: list[Json] = [
            {"type": "response.created", "response": empty},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {
                "type": "response.content_part.added",
                **at,
                "content_index": 0,
                "part": {**item["content"][0], "text": ""},
            },
            {"type": "response.output_text.delta", **at, "content_index": 0, "delta": words, "logprobs": []},
            {"type": "response.output_text.done", **at, "content_index": 0, "text": words, "logprobs": []},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.incomplete", "response": whole},
        ]
        return b"".join(sse({**event, "sequence_number": n}, event["type"]) for n, event in enumerate(events))

    def fault(self, message: str, code: str) -> Json:
        return {"error": {"message": message, "type": "lazaretto", "param": None, "code": code}}

    def fault_in_stream(self, message: str, code: str) -> bytes:
        return sse({"type": "error", "message": message, "code": code, "param": None, "sequence_number": 0}, "error")


def _from_outside(item: Json) -> bool:
    """Whether an item brings something that a tool returned, here or at the endpoint."""
    return str(item.get("type", "")).endswith("_output") or any(item.get(key) for key in _BROUGHT)
