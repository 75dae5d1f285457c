"""The three forms in which crews talk to models: OpenAI's chat and responses, Anthropic's messages.

Each says where passages stand in a request and in an answer, what a stream says in the end, and how an answer is
withheld. What tools returned, and pictures, are replaced by a notice; a message of the crew that is refused refuses
the request. System prompts are the operator's own word and are not judged; neither are the model's earlier answers,
which were judged when they were given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import orjson

from lazaretto.api.proxy.passages import Json, Slot, setter, texts
from lazaretto.types import Channel, SourceClass, new_id

MODEL = SourceClass.MODEL_INFERENCE
_OURS = ("system", "developer", "assistant")


class Dialect(Protocol):
    """One form."""

    path: str

    def asked(self, body: Json) -> Iterator[Slot]:
        """What the model would read."""

    def answered(self, body: Json) -> Iterator[Slot]:
        """What the agent would act on."""

    def withhold(self, body: Json, notice: str) -> Json:
        """The answer with nothing but the notice."""

    def streamed(self, events: Sequence[Json]) -> list[str]:
        """Everything a stream says: texts, and what it calls tools with."""

    def finished(self, events: Sequence[Json]) -> bool:
        """Whether a stream came to its end."""

    def as_stream(self, model: str, words: str) -> bytes:
        """A stream that says these words and ends."""

    def fault(self, message: str, code: str) -> Json:
        """An error, as clients of this form read it."""

    def fault_in_stream(self, message: str, code: str) -> bytes:
        """The same, where a stream has begun."""


def sse(data: Any, event: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + (data if isinstance(data, bytes) else orjson.dumps(data)) + b"\n\n"


class Chat:
    """``/v1/chat/completions``."""

    path = "/v1/chat/completions"
    _kinds = {"text": "text", "refusal": "refusal"}  # noqa: RUF012

    def asked(self, body: Json) -> Iterator[Slot]:
        for message in _dicts(body.get("messages")):
            role = message.get("role")
            if role in ("tool", "function"):
                yield from texts(message, "content", Channel.TOOL, None, self._kinds)
            elif role not in _OURS:
                yield from texts(message, "content", Channel.MESSAGE, None, self._kinds, fatal=True)

    def answered(self, body: Json) -> Iterator[Slot]:
        for choice in _dicts(body.get("choices")):
            message = choice.get("message")
            if not isinstance(message, dict):
                continue
            yield from texts(message, "content", Channel.MESSAGE, MODEL, self._kinds)
            for call in _dicts(message.get("tool_calls")):
                for kind, key in (("function", "arguments"), ("custom", "input")):
                    if isinstance(call.get(kind), dict):
                        yield from texts(call[kind], key, Channel.MESSAGE, MODEL, {}, fatal=True)
            old = message.get("function_call")
            if isinstance(old, dict):
                yield from texts(old, "arguments", Channel.MESSAGE, MODEL, {}, fatal=True)
            audio = message.get("audio")
            if isinstance(audio, dict):
                yield from texts(audio, "transcript", Channel.MESSAGE, MODEL, {}, fatal=True)

    def withhold(self, body: Json, notice: str) -> Json:
        choices = [
            {**choice, "message": {"role": "assistant", "content": notice}, "finish_reason": "content_filter"}
            for choice in _dicts(body.get("choices"))
        ]
        return {**body, "choices": choices}

    def streamed(self, events: Sequence[Json]) -> list[str]:
        said: dict[Any, str] = {}
        for event in events:
            for choice in _dicts(event.get("choices")):
                delta, at = choice.get("delta"), choice.get("index")
                if not isinstance(delta, dict):
                    continue
                for key in ("content", "refusal"):
                    _add(said, (at, key), delta.get(key))
                _add(said, (at, "function"), (delta.get("function_call") or {}).get("arguments"))
                _add(said, (at, "audio"), (delta.get("audio") or {}).get("transcript"))
                for call in _dicts(delta.get("tool_calls")):
                    _add(said, (at, "call", call.get("index")), (call.get("function") or {}).get("arguments"))
                    _add(said, (at, "custom", call.get("index")), (call.get("custom") or {}).get("input"))
        return list(said.values())

    def finished(self, events: Sequence[Json]) -> bool:
        return any(choice.get("finish_reason") for event in events for choice in _dicts(event.get("choices")))

    def as_stream(self, model: str, words: str) -> bytes:
        head = {
            "id": new_id("chatcmpl"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        first = {"index": 0, "delta": {"role": "assistant", "content": words}, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": "content_filter"}
        return sse({**head, "choices": [first]}) + sse({**head, "choices": [last]}) + sse(b"[DONE]")

    def fault(self, message: str, code: str) -> Json:
        return {"error": {"message": message, "type": "lazaretto", "param": None, "code": code}}

    def fault_in_stream(self, message: str, code: str) -> bytes:
        return sse(self.fault(message, code))


class Responses:
    """``/v1/responses``."""

    path = "/v1/responses"
    _asked = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}  # noqa: RUF012
    _said = {"output_text": "text", "refusal": "refusal"}  # noqa: RUF012

    def asked(self, body: Json) -> Iterator[Slot]:
        if isinstance(body.get("input"), str):
            yield from texts(body, "input", Channel.MESSAGE, None, self._asked, fatal=True)
            return
        for item in _dicts(body.get("input")):
            for key in ("output", "results", "logs"):  # of whatever tool
                if item.get(key) is not None:
                    yield from texts(item, key, Channel.TOOL, None, self._asked)
            if "content" in item and item.get("role") not in _OURS:
                yield from texts(item, "content", Channel.MESSAGE, None, self._asked, fatal=True)

    def answered(self, body: Json) -> Iterator[Slot]:
        for item in _dicts(body.get("output")):
            if item.get("type") == "message":
                yield from texts(item, "content", Channel.MESSAGE, MODEL, self._said)
            for key in ("arguments", "input", "code"):
                if isinstance(item.get(key), str):
                    yield from texts(item, key, Channel.MESSAGE, MODEL, {}, fatal=True)

    def withhold(self, body: Json, notice: str) -> Json:
        part = {"type": "output_text", "text": notice, "annotations": []}
        message = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        return {**body, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": [message]}

    def streamed(self, events: Sequence[Json]) -> list[str]:
        said: dict[Any, str] = {}
        for event in events:
            kind = str(event.get("type", ""))
            if kind.endswith(".delta") and "reasoning" not in kind:
                _add(said, (event.get("item_id"), event.get("content_index"), kind), event.get("delta"))
            for holder in (event.get("response"), {"output": [event.get("item")]}):
                if isinstance(holder, dict):
                    for slot in self.answered(holder):
                        if slot.passage is not None:
                            said[("whole", slot.passage.text)] = slot.passage.text
            for key in ("text", "arguments", "input"):
                if kind.endswith(".done") and "reasoning" not in kind and isinstance(event.get(key), str):
                    said[("whole", event[key])] = event[key]
        return list(dict.fromkeys(said.values()))

    def finished(self, events: Sequence[Json]) -> bool:
        ends = ("response.completed", "response.incomplete", "response.failed")
        return any(event.get("type") in ends for event in events)

    def as_stream(self, model: str, words: str) -> bytes:
        empty: Json = {
            "id": new_id("resp"), "object": "response", "created_at": time.time(), "model": model, "output": [],
            "status": "in_progress", "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
        }  # fmt: skip
        whole = self.withhold(empty, words)
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


class Messages:
    """``/v1/messages``."""

    path = "/v1/messages"
    _kinds = {"text": "text"}  # noqa: RUF012

    def asked(self, body: Json) -> Iterator[Slot]:
        for message in _dicts(body.get("messages")):
            if message.get("role") in _OURS:
                continue
            content = message.get("content")
            if isinstance(content, str):
                yield from texts(message, "content", Channel.MESSAGE, None, self._kinds, fatal=True)
                continue
            blocks: list[Any] = content if isinstance(content, list) else []
            for number, block in enumerate(blocks):
                kind = block.get("type") if isinstance(block, dict) else None
                if kind == "text":
                    yield from texts(block, "text", Channel.MESSAGE, None, self._kinds, fatal=True)
                elif isinstance(kind, str) and kind.endswith("tool_result"):
                    yield from texts(block, "content", Channel.TOOL, None, self._kinds)
                elif kind == "document" and (block.get("source") or {}).get("type") == "text":
                    yield from texts(block["source"], "data", Channel.DOCUMENT, None, self._kinds)
                else:
                    one = [block]
                    for slot in texts({"content": one}, "content", Channel.MESSAGE, None, self._kinds):
                        yield Slot(slot.passage, self._in_place(blocks, number))

    @staticmethod
    def _in_place(content: list[Any], number: int) -> Any:
        def put(words: str) -> None:
            content[number] = {"type": "text", "text": words}

        return put

    def answered(self, body: Json) -> Iterator[Slot]:
        for block in _dicts(body.get("content")):
            if block.get("type") == "text":
                yield from texts(block, "text", Channel.MESSAGE, MODEL, self._kinds)
            elif "input" in block:
                held = {"input": orjson.dumps(block["input"]).decode()}
                for slot in texts(held, "input", Channel.MESSAGE, MODEL, {}, fatal=True):
                    yield Slot(slot.passage, setter(held, "input"), fatal=True)

    def withhold(self, body: Json, notice: str) -> Json:
        return {**body, "content": [{"type": "text", "text": notice}], "stop_reason": "refusal", "stop_sequence": None}

    def streamed(self, events: Sequence[Json]) -> list[str]:
        said: dict[Any, str] = {}
        for event in events:
            at, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
            if isinstance(block, dict):
                _add(said, at, block.get("text"))
            if isinstance(delta, dict):
                _add(said, at, delta.get("text"))
                _add(said, (at, "json"), delta.get("partial_json"))
        return list(said.values())

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


DIALECTS: dict[str, Dialect] = {one.path: one for one in (Chat(), Responses(), Messages())}


def _dicts(value: Any) -> Iterator[Json]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _add(said: dict[Any, str], key: Any, words: Any) -> None:
    if isinstance(words, str) and words:
        said[key] = said.get(key, "") + words
