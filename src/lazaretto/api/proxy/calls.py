"""The tool calls in a model's answer, whole or streamed, in each dialect.

Tools that the endpoint ran itself (its web search) cannot be stopped here; their results are judged as a tool's.
Arguments are read as leniently as any client may read them: what only some readers understand is looked at, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from lazaretto.api.proxy.dialects import dicts
from lazaretto.api.proxy.passages import Json, turn_start, with_roles
from lazaretto.ingest.strings import readable

_DONE_THERE = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
_CALLS = ("_call", "_approval_request")
"""Ends of kinds of items that an agent acts on; who approves a call has the endpoint make it."""
_NO_ARGUMENT = frozenset({"type", "id", "call_id", "status", "name", "namespace", "created_by"})
_PIECES = {"response.function_call_arguments": "arguments", "response.custom_tool_call_input": "input"}
"""Events that bring what a tool of OpenAI's responses is called with, by the field of the call that it goes to."""


_MOST_INTEGER = 1 << 63


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
    bits, begun, found = _Bits(), _Begun(), list[ToolCall]()
    for event in events:
        bits.take(event)
        begun.take(event)
        response = event.get("response")
        found += calls_in(response) if isinstance(response, dict) else []
        item = event.get("item")
        if event.get("type") == "response.output_item.done" and isinstance(item, dict):
            found += _of_item(item)
    found += [*bits.calls(), *begun.calls()]
    return [call for place, call in enumerate(found) if call not in found[:place]]


@dataclass(slots=True)
class _Bits:
    """Calls of chats and messages, whose pieces name the place of the call that they belong to."""

    _names: dict[Any, str] = field(default_factory=dict)
    _words: dict[Any, list[str]] = field(default_factory=dict)
    _last: dict[Any, tuple[str, int]] = field(default_factory=dict)
    """By place, the id of the call that was named there last, and how many there were before it."""

    def take(self, event: Json) -> None:
        """The pieces of an event."""
        for at, key, name, words in _bits(event):
            before, number = self._last.get(at, ("", 0))
            if name and key and before and key != before:  # some endpoints give several calls one place, or none
                number += 1
            self._last[at] = key or before, number
            place = at, number
            if self._names.get(place) != name:  # else it is repeated with every piece
                self._names[place] = self._names.get(place, "") + name
            self._words.setdefault(place, []).append(words)

    def calls(self) -> list[ToolCall]:
        """The calls, put together."""
        return [ToolCall(self._names[place], _object("".join(parts))) for place, parts in self._words.items()]


@dataclass(slots=True)
class _Begun:
    """Calls of OpenAI's responses that a stream begins, and does not repeat as a whole."""

    _items: dict[str, Json] = field(default_factory=dict)
    _pieces: dict[str, list[str]] = field(default_factory=dict)
    _whole: set[str] = field(default_factory=set)
    """The ids of items that came whole."""

    def take(self, event: Json) -> None:
        """One event."""
        kind, at, item = str(event.get("type", "")), str(event.get("output_index")), event.get("item")
        response = event.get("response")
        if isinstance(item, dict) and kind == "response.output_item.added":
            self._items[at] = item
        elif isinstance(item, dict) and kind == "response.output_item.done":
            self._items.pop(at, None)
        elif isinstance(response, dict):
            self._whole |= {str(item.get("id")) for item in dicts(response.get("output"))}
        if kind.endswith(".delta") and kind.removesuffix(".delta") in _PIECES:
            self._pieces.setdefault(at, []).append(str(event.get("delta") or ""))
        elif kind.endswith(".done") and (name := _PIECES.get(kind.removesuffix(".done"))):
            self._pieces[at] = [str(event.get(name) or "")]

    def calls(self) -> list[ToolCall]:
        """The calls that came in pieces alone."""
        found = list[ToolCall]()
        for at, item in self._items.items():
            if str(item.get("id")) in self._whole:
                continue
            words = "".join(self._pieces.get(at, ()))
            name = "input" if str(item.get("type", "")).startswith("custom") else "arguments"
            found += _of_item({**item, name: words} if words else item)
        return found


def calls_before(request: Json) -> list[ToolCall]:
    """The calls in earlier turns of a request, in any dialect."""
    found: list[ToolCall] = []
    messages, items = list(dicts(request.get("messages"))), list(dicts(request.get("input")))
    for message in messages[: turn_start(messages) + 1]:
        if message.get("role") == "assistant":
            found += _of_chat(message)
            found += [call for block in dicts(message.get("content")) for call in _of_block(block)]
    return found + [call for item in items[: turn_start(with_roles(items)) + 1] for call in _of_item(item)]


Described = tuple[str, Mapping[str, Any] | None]


def described(request: Json) -> dict[str, Described]:
    """By tool, its description and the schema of its arguments, as the request has them; neither where it is described
    in two ways."""
    found: dict[str, Described] = {}
    for tool in _definitions([*dicts(request.get("tools")), *dicts(request.get("functions"))]):
        inner = tool.get("function")
        definition = inner if isinstance(inner, dict) else tool
        schema = definition.get("parameters", definition.get("input_schema"))
        name = str(definition.get("name", ""))
        made = (str(definition.get("description") or ""), schema if isinstance(schema, dict) else None)
        found[name] = made if found.get(name, made) == made else ("", None)
    return found


def _definitions(tools: Sequence[Json]) -> Iterator[Json]:
    """Definitions of tools; those of a namespace stand inside of it."""
    for tool in tools:
        yield from dicts(tool["tools"]) if isinstance(tool.get("tools"), list) else (tool,)


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
    return [{"function": called, "index": "old"}] if isinstance(called, dict) else []


def _of_item(item: Json) -> list[ToolCall]:
    """An item of OpenAI's responses; calls for the agent have many kinds, and all of them end alike."""
    kind = str(item.get("type", ""))
    there = kind in _DONE_THERE or (kind == "tool_search_call" and item.get("execution") == "server")
    if not kind.endswith(_CALLS) or there:
        return []
    name = str(item.get("name") or kind.removesuffix("_call"))
    if "arguments" in item:
        return [ToolCall(name, _object(item["arguments"]))]
    return [ToolCall(name, {key: value for key, value in item.items() if key not in _NO_ARGUMENT})]


def _of_block(block: Json) -> list[ToolCall]:
    if block.get("type") != "tool_use":
        return []
    return [ToolCall(str(block.get("name", "")), _object(block.get("input")))]


def _bits(event: Json) -> Iterator[tuple[Any, str, str, str]]:
    """The pieces of calls in an event: place, the id of the call if it names one, a piece of the name, and one of the
    arguments."""
    for choice in dicts(event.get("choices")):
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            continue
        for call in [*dicts(delta.get("tool_calls")), *_old_form(delta)]:
            inner = call.get("function", call.get("custom"))
            if isinstance(inner, dict):
                place = ("chat", str(choice.get("index")), str(call.get("index")))
                words = str(inner.get("arguments", inner.get("input")) or "")
                yield place, str(call.get("id") or ""), str(inner.get("name") or ""), words
    block, delta, at = event.get("content_block"), event.get("delta"), ("block", str(event.get("index")))
    if isinstance(block, dict) and block.get("type") == "tool_use":
        given = block.get("input")
        yield at, str(block.get("id") or ""), str(block.get("name", "")), orjson.dumps(given).decode() if given else ""
    if isinstance(delta, dict) and delta.get("type") == "input_json_delta":
        yield at, "", "", str(delta.get("partial_json") or "")


# Arguments, as any reader may read them.


def _object(given: Any) -> Any:
    if isinstance(given, dict):
        return given
    if given in (None, ""):
        return {}
    read = _read(given) if isinstance(given, str) else given
    return read if isinstance(read, dict) else {"input": given}  # a tool that takes words


def _read(text: str) -> Any:
    """The value of a JSON text; None for anything else. Numbers without end are words, and of a key that stands there
    twice all values count: readers differ in which one they take."""
    try:
        return _kept(json.loads(text, object_pairs_hook=_all_of, parse_constant=str))
    except (ValueError, OverflowError, RecursionError):
        return None


def _all_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    several: dict[str, list[Any]] = {key: [] for key in made}
    for key, value in pairs:
        several[key].append(value)
    return {key: found if len(found) > 1 else found[0] for key, found in several.items()}


def _kept(value: Any) -> Any:
    """The value with texts that can be kept: halves of characters are none."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {readable(key): _kept(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_kept(part) for part in value]
    if isinstance(value, int) and not -_MOST_INTEGER <= value < _MOST_INTEGER:
        value = float(value)
    return str(value) if isinstance(value, float) and math.isinf(value) else value
