"""Messages of an MCP server with a sentence at any one place: what a hostile server can say, and where.

``places`` walks a message of each kind and gives it once for every place that can hold a string: values, and keys where
the protocol lets a server choose them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from mcp import MCPError, types

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
_FIXED = {"type", "role", "data", "blob", "mimeType", "isError", "size", "priority", "resultType", "audience"}
"""Fields whose values the protocol itself checks, and bytes, which are judged as pictures."""


def open_value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value, as structured content and ``_meta`` may hold it."""
    kind = chance.randrange(6 if depth < 4 else 3)
    if kind == 0:
        return chance.choice([7, 2.5, True])
    if kind < 3:
        return chance.choice(["harbour", "The ferry leaves at nine.", "north pier"])
    if kind == 3:
        return [open_value(chance, depth + 1) for _ in range(chance.randrange(1, 4))]
    return {f"field_{n}": open_value(chance, depth + 1) for n in range(chance.randrange(1, 4))}


def block(chance: random.Random) -> dict[str, Any]:
    """One content block with all that may stand beside its content."""
    beside = {"_meta": {"trace": open_value(chance)}, "annotations": {"audience": ["user"], "lastModified": "2026"}}
    return chance.choice([
        {"type": "text", "text": "The harbour opens at nine.", **beside},
        {"type": "image", "data": PICTURE, "mimeType": "image/png", **beside},
        {"type": "resource_link", "uri": "file:///notes/a.md", "name": "note", "title": "A note",
         "description": "What the note says", "icons": [{"src": "https://x.example/i.png"}], **beside},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "Nine.",
                                          "_meta": {"k": open_value(chance)}}, **beside},
        {"type": "resource", "resource": {"uri": "file:///p", "mimeType": "image/png", "blob": PICTURE}, **beside},
    ])  # fmt: skip


def message(kind: str, chance: random.Random) -> dict[str, Any]:
    """A valid message of a kind."""
    meta = {"_meta": {"server": open_value(chance)}}
    if kind == "call":
        content = [block(chance) for _ in range(chance.randrange(1, 4))]
        structured = {"structuredContent": {"answer": open_value(chance)}} if chance.random() < 0.7 else {}
        return {"content": content, "isError": chance.random() < 0.2, **structured, **meta}
    if kind == "prompt":
        several = [{"role": "user", "content": block(chance)} for _ in range(chance.randrange(1, 3))]
        return {"description": "Greets", "messages": several, **meta}
    if kind == "resource":
        contents = [{"uri": "notes://a", "mimeType": "text/plain", "text": "Nine.", "_meta": {"k": open_value(chance)}},
                    {"uri": "notes://a", "mimeType": "image/png", "blob": PICTURE}]  # fmt: skip
        return {"contents": contents[: chance.randrange(1, 3)], **meta}
    if kind == "error":
        return {"code": -32000, "message": "It is closed.", "data": {"detail": open_value(chance)}}
    one = {
        "name": "page",
        "title": "Page",
        "description": "Reads a page.",
        "icons": [{"src": "https://x.example/i.png"}],
        **meta,
    }
    if kind == "prompts":
        return {**one, "arguments": [{"name": "who", "title": "Who", "description": "Whom to greet"}]}
    if kind == "resources":
        return {**one, "uri": "notes://a", "mimeType": "text/plain", "annotations": {"lastModified": "2026"}}
    fields = {"kind": {"type": "string", "title": "Kind", "description": "Which page", "default": "front",
                       "enum": ["front", "back"], "examples": ["front"]}}  # fmt: skip
    schema = {"type": "object", "properties": fields, "description": "Arguments"}
    shape = {"type": "object", "properties": {"answer": {"description": "What it says"}}}
    return {**one, "inputSchema": schema, "outputSchema": shape, "annotations": {"title": "Page reader"}}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a sentence can be put: a path to a string, or to a key of an open mapping (ends with ``("key", name)``)."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for name, part in value.items():
            if name in _FIXED:
                continue
            if "_meta" in path or "structuredContent" in path or "data" in path[:1]:
                yield (*path, ("key", name))
            yield from places(part, (*path, name))
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from places(part, (*path, n))


def put(value: Any, path: tuple[Any, ...], words: str) -> Any:
    """A copy of the message with the words at that place."""
    made = copy.deepcopy(value)
    at = made
    for step in path[:-1]:
        at = at[step]
    last = path[-1]
    if isinstance(last, tuple):
        at[words] = at.pop(last[1])
    else:
        at[last] = f"{at[last]} {words}"
    return made


class Says:
    """A client of a server that says one thing; it stands in for ``mcp.Client``."""

    def __init__(self, kind: str, said: dict[str, Any]) -> None:
        self.kind, self.said = kind, said
        self.server_capabilities = types.ServerCapabilities(
            tools=types.ToolsCapability(), prompts=types.PromptsCapability(), resources=types.ResourcesCapability()
        )

    def _listing(self, kind: str, plain: dict[str, Any]) -> dict[str, Any]:
        return self.said if self.kind == kind else plain

    async def list_tools(self, cursor: str | None = None) -> Any:
        plain = {"name": "page", "inputSchema": {"type": "object"}}
        return types.ListToolsResult(tools=[types.Tool.model_validate(self._listing("tools", plain))])

    async def list_prompts(self, cursor: str | None = None) -> Any:
        return types.ListPromptsResult(
            prompts=[types.Prompt.model_validate(self._listing("prompts", {"name": "page"}))]
        )

    async def list_resources(self, cursor: str | None = None) -> Any:
        plain = {"name": "page", "uri": "notes://a"}
        return types.ListResourcesResult(resources=[types.Resource.model_validate(self._listing("resources", plain))])

    def _answer(self, model: Any) -> Any:
        if self.kind == "error":
            raise MCPError(self.said["code"], self.said["message"], self.said["data"])
        return model.model_validate(self.said)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return self._answer(types.CallToolResult)

    async def get_prompt(self, name: str, arguments: dict[str, str] | None) -> Any:
        return self._answer(types.GetPromptResult)

    async def read_resource(self, uri: str) -> Any:
        return self._answer(types.ReadResourceResult)


KINDS = ("call", "prompt", "resource", "error", "tools", "prompts", "resources")


async def given(gateway: Any, kind: str, chance: random.Random) -> str:
    """All that an agent gets when it asks the gateway for this kind of message, as JSON."""
    listed = {"tools": gateway.tools, "prompts": gateway.prompts, "resources": gateway.resources}
    if kind in listed:
        return "\n".join([one.model_dump_json(by_alias=True) for one in await listed[kind]()])
    asked = {"call": lambda: gateway.call("page", {}), "prompt": lambda: gateway.prompt("page", None),
             "resource": lambda: gateway.read("notes://a")}  # fmt: skip
    wanted = kind if kind in asked else chance.choice(list(asked))
    try:
        return str((await asked[wanted]()).model_dump_json(by_alias=True))
    except Exception as error:  # what an agent reads of it
        return str(error)
