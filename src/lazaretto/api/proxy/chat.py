"""OpenAI's chat completions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazaretto.api.proxy.dialects import (
    dicts,
    of_model,
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
    words_in,
)
from lazaretto.policy import ProxySources
from lazaretto.types import Channel, new_id

_OWN = ("tools", "functions", "tool_choice", "function_call", "response_format", "stop", "model", "modalities",
        "reasoning_effort", "verbosity", "service_tier", "stream_options", "logit_bias", "user", "safety_identifier",
        "prompt_cache_key", "web_search_options", "audio", "metadata")  # fmt: skip


class Chat:
    """``/v1/chat/completions``."""

    path = "/v1/chat/completions"
    name = "openai-chat"

    def text_part(self, words: str) -> Json:
        return {"type": "text", "text": words}

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        messages, called = objects(body, "messages"), dict[str, str]()
        earlier = earlier_places(messages)
        for place, message in enumerate(messages):
            if message.get("role") == "assistant":
                called |= {str(call.get("id")): _called(call) for call in dicts(message.get("tool_calls"))}
            yield from as_earlier(self._message(message, setter(messages, place), sources, called), place in earlier)
        for key in ("documents", "prediction"):
            if isinstance(found := body.get(key), list):
                for place, document in enumerate(found):
                    yield of_document(document, setter(found, place), str, sources.document)
            elif found is not None:
                yield of_document(found, setter(body, key), lambda _: None, sources.document)
        yield from rest_of_request(body, ("messages", "documents", "prediction"), _OWN, sources)

    def _message(self, message: Json, put: Any, sources: ProxySources, called: Mapping[str, str]) -> Iterator[Unit]:
        role = message.get("role")
        if role in ("tool", "function"):
            kept = {key: message[key] for key in ("role", "tool_call_id", "name") if key in message}
            marked = marked_source(message, sources.tool)
            tool = "" if marked else called.get(str(message.get("tool_call_id")), "")
            yield Unit(
                message, put, lambda words: {**kept, "content": words}, Channel.TOOL, marked or sources.tool,
                tool=tool, answer=words_in(message.get("content")),
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
    texts = {message.get("content"), message.get("refusal"), ""}
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
