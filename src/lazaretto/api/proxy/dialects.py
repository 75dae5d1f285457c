"""The three forms in which crews talk to models: OpenAI's chat and responses, Anthropic's messages.

Each says who wrote every part of a request and an answer, and how an answer is withheld. Unknown parts are foreign.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import orjson

from lazaretto.api.proxy.passages import (
    CalledTools,
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
from lazaretto.ingest.strings import is_sealed
from lazaretto.policy import ProxySources
from lazaretto.types import Channel, new_id


class Dialect(Protocol):
    """One form."""

    path: str
    name: str
    """Its name in the table of parts left out (``ingest/strings.py``)."""

    def text_part(self, words: str) -> Json:
        """A part of a message that says these words."""

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        """The parts that the model would read."""

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        """The parts that the agent would act on."""

    def withhold(self, body: Json, notice: str) -> Json:
        """An answer with nothing but the notice."""

    def foreign(self, event: Json) -> bool:
        """Whether an event of a stream brings a result of a tool at the endpoint."""

    def silent(self, event: Json) -> bool:
        """Whether an event of a stream brings nothing but what the endpoint alone can read."""

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


def dicts(value: Any) -> Iterator[Json]:
    """The objects of a list; none if it is no list."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def rest_of_request(body: Json, own_keys: Sequence[str], own: Sequence[str], sources: ProxySources) -> Iterator[Unit]:
    """The parts of a request besides messages: the crew's own settings, and unknown fields."""
    given = {key: body[key] for key in own if key in body}
    yield settings(given, body.update, Channel.MESSAGE, sources.system)
    unknown = {key: value for key, value in body.items() if key not in (*own_keys, *own)}
    yield settings(unknown, body.update, Channel.DOCUMENT, sources.document)


def rest_of_answer(body: Json, own_keys: Sequence[str], sources: ProxySources) -> Unit:
    """The parts of an answer besides the model's text."""
    rest = {key: value for key, value in body.items() if key not in own_keys}
    return settings(rest, body.update, Channel.TOOL, sources.tool)


def of_model(value: Any, put: Any, instead: Any, sources: ProxySources) -> Unit:
    """A text of the model."""
    return Unit(value, put, instead, Channel.MESSAGE, sources.assistant, by_model=True)


def of_tool(value: Any, put: Any, instead: Any, sources: ProxySources) -> Unit:
    """A result of a tool."""
    return Unit(value, put, instead, Channel.TOOL, sources.tool)


# OpenAI's chat completions.

_OWN_IN_CHAT = ("tools", "functions", "tool_choice", "function_call", "response_format", "stop", "model", "modalities",
        "reasoning_effort", "verbosity", "service_tier", "stream_options", "logit_bias", "user", "safety_identifier",
        "prompt_cache_key", "web_search_options", "audio", "metadata")  # fmt: skip


class Chat:
    """``/v1/chat/completions``."""

    path = "/v1/chat/completions"
    name = "openai-chat"

    def text_part(self, words: str) -> Json:
        return {"type": "text", "text": words}

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        messages, called = objects(body, "messages"), CalledTools()
        earlier = earlier_places(messages)
        for place, message in enumerate(messages):
            if message.get("role") == "assistant":
                for call in dicts(message.get("tool_calls")):
                    called.call(call.get("id"), _called(call))
            yield from as_earlier(self._message(message, setter(messages, place), sources, called), place in earlier)
        for key in ("documents", "prediction"):
            if isinstance(found := body.get(key), list):
                for place, document in enumerate(found):
                    yield of_document(document, setter(found, place), str, sources.document)
            elif found is not None:
                yield of_document(found, setter(body, key), lambda _: None, sources.document)
        yield from rest_of_request(body, ("messages", "documents", "prediction"), _OWN_IN_CHAT, sources)

    def _message(self, message: Json, put: Any, sources: ProxySources, called: CalledTools) -> Iterator[Unit]:
        role = message.get("role")
        if role in ("tool", "function"):
            kept = {key: message[key] for key in ("role", "tool_call_id", "name") if key in message}
            marked = marked_source(message, sources.tool)
            answered = called.answered(message.get("tool_call_id"))
            yield Unit(
                message, put, lambda words: {**kept, "content": words}, Channel.TOOL, marked or sources.tool,
                tool="" if marked else answered, answer=words_in(message.get("content")),
            )  # fmt: skip
            return
        if role == "assistant":
            yield of_model(message, put, lambda words: _assistant(message, words), sources)
            return
        source = {"system": sources.system, "developer": sources.system, "user": sources.user}.get(str(role))
        source_class = source or sources.document
        yield from own_content(message, "content", source_class, sources, self.text_part)
        rest = {key: value for key, value in message.items() if key != "content"}
        yield settings(rest, message.update, Channel.MESSAGE, source_class)

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        for choice in dicts(body.get("choices")):
            if "message" in choice:
                yield of_model(choice["message"], setter(choice, "message"), str, sources)
            rest = {key: value for key, value in choice.items() if key not in ("message", *_repeated(choice))}
            yield settings(rest, choice.update, Channel.TOOL, sources.tool)
        own_keys = ("choices",) if isinstance(body.get("choices"), list) else ()
        yield rest_of_answer(body, own_keys, sources)

    def withhold(self, body: Json, notice: str) -> Json:
        message = {"role": "assistant", "content": notice}
        count = max(1, sum(1 for _ in dicts(body.get("choices"))))
        choices = [{"index": n, "message": message, "finish_reason": "content_filter"} for n in range(count)]
        head = {"id": new_id("chatcmpl"), "object": "chat.completion", "created": int(time.time())}
        return {**head, "model": name_of(body.get("model")), "choices": choices}

    def foreign(self, event: Json) -> bool:
        return False

    def silent(self, event: Json) -> bool:
        return False

    def finished(self, events: Sequence[Json]) -> bool:
        return any(choice.get("finish_reason") for event in events for choice in dicts(event.get("choices")))

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


def _assistant(message: Json, words: str) -> Json:
    """An earlier answer with a notice alone; its calls keep their ids, for the results that follow them."""
    calls = [
        {"id": call.get("id"), "type": "function", "function": {"name": short_name(_called(call)), "arguments": "{}"}}
        for call in dicts(message.get("tool_calls"))
    ]
    return {"role": "assistant", "content": words, **({"tool_calls": calls} if calls else {})}


def _called(call: Json) -> str:
    function = call.get("function")
    return name_of(function.get("name")) if isinstance(function, dict) else "withheld"


def _repeated(choice: Json) -> tuple[str, ...]:
    """``logprobs``, where its tokens only repeat the message."""
    found, message = choice.get("logprobs"), choice.get("message")
    if not isinstance(found, dict) or not isinstance(message, dict):
        return ()
    texts = [message.get("content"), message.get("refusal"), ""]
    for key, tokens in found.items():
        listed = list(dicts(tokens))
        alike = all(
            len(str(other.get("token", ""))) < 64 for entry in listed for other in dicts(entry.get("top_logprobs"))
        )
        extra = any(set(entry) - {"token", "logprob", "bytes", "top_logprobs"} for entry in listed)
        if key not in ("content", "refusal") or extra or not alike:
            return ()
        if "".join(str(entry.get("token", "")) for entry in listed) not in texts:
            return ()
    return ("logprobs",)


# Anthropic's messages.

_OWN_IN_MESSAGES = ("tools", "tool_choice", "stop_sequences", "model", "thinking", "service_tier", "output_config",
        "output_format", "betas", "metadata")  # fmt: skip


class Messages:
    """``/v1/messages``."""

    path = "/v1/messages"
    name = "anthropic"

    def text_part(self, words: str) -> Json:
        return {"type": "text", "text": words}

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        yield from own_content(body, "system", sources.system, sources, self.text_part)
        messages, called = objects(body, "messages"), CalledTools()
        earlier = earlier_places(messages)
        for place, message in enumerate(messages):
            if message.get("role") == "assistant":
                for block in dicts(message.get("content")):
                    if block.get("type") == "tool_use":
                        called.call(block.get("id"), block.get("name"))
            yield from as_earlier(self._message(message, sources, called), place in earlier)
        yield from rest_of_request(body, ("messages", "system"), _OWN_IN_MESSAGES, sources)

    def _message(self, message: Json, sources: ProxySources, called: CalledTools) -> Iterator[Unit]:
        role, content = message.get("role"), message.get("content")
        source = {"user": sources.user, "system": sources.system}.get(str(role), sources.document)
        if role == "assistant" and isinstance(content, str):
            yield of_model(content, setter(message, "content"), str, sources)
        elif role == "assistant" and isinstance(content, list):
            for place, block in enumerate(content):
                if _is_sealed_thought(block):
                    continue
                put = setter(content, place)
                yield _result(block, put, sources) or of_model(block, put, _instead(block), sources)
        else:
            yield from own_content(
                message, "content", source, sources, self.text_part,
                lambda part, put: _result(part, put, sources, called if role == "user" else None),
            )  # fmt: skip
        rest = {key: value for key, value in message.items() if key != "content"}
        yield settings(rest, message.update, Channel.MESSAGE, source)

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        content = body.get("content")
        blocks: list[Any] = content if isinstance(content, list) else []
        for place, block in enumerate(blocks):
            if _is_sealed_thought(block):
                continue
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

    def silent(self, event: Json) -> bool:
        return event.keys() <= {"type", "index", "content_block"} and _is_sealed_thought(event.get("content_block"))

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


def _is_sealed_thought(block: Any) -> bool:
    """Whether a block is a thought of the model that only the endpoint can read, and nothing beside it."""
    if not isinstance(block, dict) or block.get("type") != "redacted_thinking" or block.keys() != {"type", "data"}:
        return False
    return isinstance(block["data"], str) and is_sealed(block["data"])


def _from_tool(block: Any) -> bool:
    """Whether a block brings a tool's result, from here or from the endpoint."""
    kind = str(block.get("type", "")) if isinstance(block, dict) else ""
    return kind.endswith(("tool_result", "_result_error"))


def _result(block: Any, put: Any, sources: ProxySources, called: CalledTools | None = None) -> Unit | None:
    """A tool's result; ``called``: the tools of the calls that came before."""
    if not _from_tool(block):
        return None
    marked = marked_source(block, sources.tool)
    here = block.get("type") == "tool_result" and not marked
    return Unit(
        block, put, _instead(block), Channel.TOOL, marked or sources.tool,
        tool=called.answered(block.get("tool_use_id")) if here and called is not None else "",
        answer=words_in(block.get("content")),
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


# OpenAI's responses.

_OWN_IN_RESPONSES = (
        "instructions", "tools", "tool_choice", "text", "reasoning", "model", "include", "service_tier", "truncation",
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
            items, called = objects(body, "input"), CalledTools()
            earlier = earlier_places(with_roles(items))
            for place, item in enumerate(items):
                if item.get("type") == "function_call":
                    called.call(item.get("call_id"), item.get("name"))
                yield from as_earlier(self._item(item, setter(items, place), sources, called), place in earlier)
        prompt = body.get("prompt")
        if prompt is not None:  # a template of the operator's own, filled in with values from anywhere
            yield of_document(prompt, setter(body, "prompt"), lambda _: {}, sources.document)
        yield from rest_of_request(body, ("input", "prompt"), _OWN_IN_RESPONSES, sources)

    def _item(self, item: Json, put: Any, sources: ProxySources, called: CalledTools) -> Iterator[Unit]:
        role = item.get("role")
        if _from_outside(item):
            marked = marked_source(item, sources.tool)
            here = item.get("type") == "function_call_output" and not marked
            yield Unit(
                item, put, lambda words: self._instead(item, words), Channel.TOOL, marked or sources.tool,
                tool=called.answered(item.get("call_id")) if here else "", answer=words_in(item.get("output")),
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

    def silent(self, event: Json) -> bool:
        return False

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
