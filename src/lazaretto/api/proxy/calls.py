"""The tool calls in a model's answer, whole or streamed, in each dialect.

Tools that the endpoint ran itself (its web search) cannot be stopped here; their results are judged as a tool's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from lazaretto.api.proxy.dialects import dicts
from lazaretto.api.proxy.passages import Json, turn_start, with_roles

_DONE_THERE = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
_NO_ARGUMENT = frozenset({"type", "id", "call_id", "status", "name", "namespace", "created_by"})


class ToolCall(NamedTuple):
    """One call."""

    name: str
    arguments: Any
    """The arguments as an object; None if they cannot be read."""


def calls_in(answer: Json) -> list[ToolCall]:
    """The calls of a whole answer, in any dialect."""
    found = [call for choice in dicts(answer.get("choices")) for call in _of_chat(choice.get("message"))]
    found += [call for item in dicts(answer.get("output")) for call in _of_item(item)]
    return found + [call for block in dicts(answer.get("content")) for call in _of_block(block)]


def calls_in_stream(events: Sequence[Json]) -> list[ToolCall]:
    """The calls that the events of a stream bring bit by bit, put together."""
    bits: dict[Any, list[str]] = {}
    names: dict[Any, str] = {}
    found: list[ToolCall] = []
    for event in events:
        for place, name, words in _bits(event):
            names[place] = names.get(place, "") + name
            bits.setdefault(place, []).append(words)
        response = event.get("response")
        found += calls_in(response) if isinstance(response, dict) else []
        item = event.get("item")
        if event.get("type") == "response.output_item.done" and isinstance(item, dict):
            found += _of_item(item)
    found += [ToolCall(names[place], _object("".join(parts))) for place, parts in bits.items()]
    return [call for place, call in enumerate(found) if call not in found[:place]]


def calls_before(request: Json) -> list[ToolCall]:
    """The calls in earlier turns of a request, in any dialect."""
    found: list[ToolCall] = []
    messages, items = list(dicts(request.get("messages"))), list(dicts(request.get("input")))
    for message in messages[: turn_start(messages) + 1]:
        if message.get("role") == "assistant":
            found += _of_chat(message)
            found += [call for block in dicts(message.get("content")) for call in _of_block(block)]
    return found + [call for item in items[: turn_start(with_roles(items)) + 1] for call in _of_item(item)]


def described(request: Json) -> dict[str, tuple[str, Mapping[str, Any] | None]]:
    """By tool, its description and the schema of its arguments, as the request has them."""
    found: dict[str, tuple[str, Mapping[str, Any] | None]] = {}
    for tool in [*dicts(request.get("tools")), *dicts(request.get("functions"))]:
        inner = tool.get("function")
        definition = inner if isinstance(inner, dict) else tool
        schema = definition.get("parameters", definition.get("input_schema"))
        found[str(definition.get("name", ""))] = (
            str(definition.get("description") or ""),
            schema if isinstance(schema, dict) else None,
        )
    return found


def _of_chat(message: Any) -> Iterator[ToolCall]:
    if not isinstance(message, dict):
        return
    for call in [*dicts(message.get("tool_calls")), *_old_form(message)]:
        inner = call.get("function", call.get("custom", call))
        if isinstance(inner, dict):
            given = inner.get("arguments", inner.get("input"))
            yield ToolCall(str(inner.get("name", "")), _object(given))


def _old_form(message: Json) -> list[Json]:
    called = message.get("function_call")
    return [{"function": called}] if isinstance(called, dict) else []


def _of_item(item: Json) -> list[ToolCall]:
    """An item of OpenAI's responses; calls for the agent have many kinds, and all of them end alike."""
    kind = str(item.get("type", ""))
    if not kind.endswith("_call") or kind in _DONE_THERE:
        return []
    name = str(item.get("name") or kind.removesuffix("_call"))
    if "arguments" in item:
        return [ToolCall(name, _object(item["arguments"]))]
    return [ToolCall(name, {key: value for key, value in item.items() if key not in _NO_ARGUMENT})]


def _of_block(block: Json) -> list[ToolCall]:
    if block.get("type") != "tool_use":
        return []
    return [ToolCall(str(block.get("name", "")), _object(block.get("input")))]


def _bits(event: Json) -> Iterator[tuple[Any, str, str]]:
    for choice in dicts(event.get("choices")):
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            continue
        for call in [*dicts(delta.get("tool_calls")), *_old_form(delta)]:
            inner = call.get("function", call.get("custom"))
            if isinstance(inner, dict):
                place = ("chat", choice.get("index"), call.get("index"))
                yield place, str(inner.get("name") or ""), str(inner.get("arguments", inner.get("input")) or "")
    block, delta, at = event.get("content_block"), event.get("delta"), ("block", event.get("index"))
    if isinstance(block, dict) and block.get("type") == "tool_use":
        given = block.get("input")
        yield at, str(block.get("name", "")), orjson.dumps(given).decode() if given else ""
    if isinstance(delta, dict) and delta.get("type") == "input_json_delta":
        yield at, "", str(delta.get("partial_json") or "")


def _object(given: Any) -> Any:
    if isinstance(given, dict):
        return given
    if given in (None, ""):
        return {}
    try:
        read = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        return {"input": given}  # a tool that takes words
    return read if isinstance(read, dict) else {"input": given}
