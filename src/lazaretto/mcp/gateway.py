"""The gateway: stands before other MCP servers and screens what their tools, resources and prompts give to an agent.

The agent is given the gateway instead of the servers. A result that the guard does not allow is replaced by a notice; a
tool whose description is poisoned is not offered and cannot be called. What cannot be judged (sound, unknown files) is
withheld, because nobody knows what is in it. Requests of servers to the agent's own model (sampling, elicitation) are
not passed on.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError, LazarettoError, MissingExtra
from lazaretto.gates.instructions import instruction_faults
from lazaretto.gates.structure import StructureSettings, text_findings
from lazaretto.identity import Identity, Kind
from lazaretto.types import Channel, Decision, Ruling, SourceClass

if TYPE_CHECKING:
    from mcp import Client
    from mcp.server.lowlevel import Server

    from lazaretto.guard import Guard

log = logging.getLogger("lazaretto")
BETWEEN = "__"
"""Stands between the name of a server and that of its tool where the gateway stands before several."""
_PAGES = 50
_FORM = StructureSettings()


@dataclass(frozen=True, slots=True)
class Upstream:
    """One server behind the gateway: a command to start, or a URL."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def read_config(data: bytes, file: str) -> tuple[Upstream, ...]:
    """Servers from the JSON that agents' settings use: ``{"mcpServers": {name: {"command" | "url": ...}}}``."""
    try:
        servers = orjson.loads(data)["mcpServers"]
        found = []
        for name, one in servers.items():
            extra = set(one) - {"command", "args", "env", "url", "headers", "type"}
            if extra or bool(one.get("command")) == bool(one.get("url")):
                problem = f"server {name!r} has " + (
                    f"the unknown key {min(extra)!r}" if extra else "no command or url"
                )
                raise InputError("config", f"{file}: {problem}", "Give either command (args, env) or url (headers)")
            args = tuple(str(arg) for arg in one.get("args", ()))
            found.append(
                Upstream(name, one.get("command", ""), args, dict(one.get("env", {})), one.get("url", ""),
                         dict(one.get("headers", {})))
            )  # fmt: skip
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        shape = '{"mcpServers": {"name": {"command": "...", "args": []}}}'
        raise InputError("config", f"{file} does not name any servers", f"It should read {shape}") from None
    if not found:
        raise InputError("config", f"{file} names no server", "Name at least one under mcpServers")
    return tuple(found)


class Gateway:
    """Screens what servers give; one for all of them."""

    def __init__(self, guard: Guard, agent: str = "mcp") -> None:
        self._guard, self._agent = guard, agent
        self._principal = Identity(Kind.MCP, agent).principal(agent)
        self._clients: dict[str, Client] = {}
        self._offered: set[str] = set()
        self._first: dict[str, bytes] = {}
        self.refused: dict[str, str] = {}
        """Tools that are not offered, and why."""

    @asynccontextmanager
    async def connected(self, upstreams: Sequence[Upstream]) -> AsyncIterator[None]:
        """Keep every server connected while the block runs; one that does not start is an ``InputError``."""
        from mcp import Client, StdioServerParameters

        async with AsyncExitStack() as stack:
            for one in upstreams:
                try:
                    if one.url:
                        target: Any = await self._http(stack, one) if one.headers else one.url
                    else:
                        target = StdioServerParameters(command=one.command, args=list(one.args), env=dict(one.env))
                    self._clients[one.name] = await stack.enter_async_context(Client(target))
                except LazarettoError:
                    raise
                except Exception as error:
                    problem = f"{one.name!r} cannot be reached ({type(error).__name__}: {error})"
                    raise InputError("server", problem, "Check its command or URL") from None
            yield

    @staticmethod
    async def _http(stack: AsyncExitStack, one: Upstream) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        client = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(one.headers), timeout=60))
        return streamable_http_client(one.url, http_client=client)

    def join(self, name: str, client: Client) -> None:
        """Stand before one more server, by a client that is connected already."""
        self._clients[name] = client

    def _shown(self, server: str, name: str) -> str:
        return name if len(self._clients) == 1 else f"{server}{BETWEEN}{name}"

    def _meant(self, shown: str) -> tuple[Client, str, str]:
        """The client, the server and the server's own name for what the agent calls so."""
        if len(self._clients) == 1:
            ((server, client),) = self._clients.items()
            return client, server, shown
        server, _, name = shown.partition(BETWEEN)
        if server not in self._clients or not name:
            raise InputError("name", f"{shown!r} is unknown", "Use a name that the gateway lists")
        return self._clients[server], server, name

    async def _all(self, list_page: Callable[..., Awaitable[Any]], attribute: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await list_page(cursor=cursor)
            found += getattr(page, attribute)
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def tools(self) -> list[Any]:
        """The tools of all servers whose descriptions may be read by an agent.

        One that is described differently from when it was first offered is not offered any more: what a person agreed
        to was the first description.
        """
        found, self.refused = [], {}
        for server, client in self._clients.items():
            for tool in await self._all(client.list_tools, "tools"):
                described = tool.model_dump(mode="json", exclude={"meta", "icons"}, exclude_none=True)
                shown = self._shown(server, tool.name)
                first = self._first.setdefault(shown, orjson.dumps(described, option=orjson.OPT_SORT_KEYS))
                fault = description_fault(described)
                if not fault and first != orjson.dumps(described, option=orjson.OPT_SORT_KEYS):
                    fault = "it is described differently from when it was first offered"
                if fault:
                    self.refused[shown] = fault
                    log.warning("the tool %r of server %r is not offered: %s", tool.name, server, fault)
                else:
                    found.append(tool.model_copy(update={"name": shown}))
        self._offered = {tool.name for tool in found}
        return found

    async def call(self, shown: str, arguments: dict[str, Any] | None) -> Any:
        """Call a tool, and give back what may be read of its result."""
        from mcp import MCPError, types

        if shown not in self._offered:
            await self.tools()  # nobody has asked yet, or the server has a new one
        if shown in self.refused:
            raise InputError("name", f"{shown!r} is not offered: {self.refused[shown]}", "Use another tool")
        if shown not in self._offered:
            raise InputError("name", f"{shown!r} is unknown", "Use a name that the gateway lists")
        client, server, name = self._meant(shown)
        try:
            result = await client.call_tool(name, arguments or {})
        except MCPError as error:
            words = await self._readable(str(error), server)
            return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)
        return await self._screened(result, server)

    async def _screened(self, result: Any, server: str) -> Any:
        from mcp import types

        blocks, withheld = await self._blocks(result.content, server)
        structured = result.structured_content
        if structured is not None:
            said = orjson.dumps(structured, option=orjson.OPT_INDENT_2, default=str).decode()
            plainly = {block.text for block in result.content if isinstance(block, types.TextContent)}
            if withheld or (said not in plainly and await self._held(said, server) is not None):
                withheld, structured = True, None
        if withheld and not any(isinstance(b, types.TextContent) and NOTICE in b.text for b in blocks):
            blocks = [types.TextContent(type="text", text=f"{NOTICE}: its data may not be read]")]
        return types.CallToolResult(
            content=blocks, structured_content=structured, is_error=bool(result.is_error or withheld)
        )

    async def _blocks(self, content: Sequence[Any], server: str) -> tuple[list[Any], bool]:
        """Content blocks as the agent may read them. Texts are judged together first: an order may be cut in two."""
        from mcp import types

        texts = [block.text for block in content if isinstance(block, types.TextContent)]
        whole = await self._held("\n".join(texts), server) if len(texts) > 1 else None
        found, withheld = [], False
        for block in content:
            shown = await self._block(block, server)
            withheld |= shown is not block
            found.append(shown)
        if whole is not None and not withheld:  # harmful only together
            found = [b for b in found if not isinstance(b, types.TextContent)]
            found.append(types.TextContent(type="text", text=whole))
            withheld = True
        return found, withheld

    async def _block(self, block: Any, server: str) -> Any:
        """The block itself, or the notice that stands in its place."""
        from mcp import types

        notice: str | None
        if isinstance(block, types.TextContent):
            notice = await self._held(block.text, server)
        elif isinstance(block, types.ImageContent):
            notice = await self._held_picture(block.data, server)
        elif isinstance(block, types.EmbeddedResource):
            shown = await self._contents(block.resource, server)
            return block if shown is block.resource else types.TextContent(type="text", text=shown.text)
        elif isinstance(block, types.ResourceLink):
            said = " ".join(part for part in (block.name, block.title, block.description) if part)
            notice = await self._held(said, server)
        else:
            notice = f"{NOTICE}: {block.type} cannot be judged]"
        return block if notice is None else types.TextContent(type="text", text=notice)

    async def _contents(self, one: Any, server: str) -> Any:
        from mcp import types

        if isinstance(one, types.TextResourceContents):
            notice = await self._held(one.text, server)
        elif (one.mime_type or "").startswith("image/"):
            notice = await self._held_picture(one.blob, server)
        else:
            notice = f"{NOTICE}: a file of type {one.mime_type or 'unknown'} cannot be judged]"
        return one if notice is None else types.TextResourceContents(uri=one.uri, mime_type="text/plain", text=notice)

    async def resources(self) -> list[Any]:
        """The resources of all servers, without those whose descriptions are poisoned."""
        return [r for client in self._clients.values() for r in await self._listed(client, "resources")]

    async def _listed(self, client: Client, what: str) -> list[Any]:
        capable = getattr(client.server_capabilities, what, None) is not None
        found = await self._all(getattr(client, f"list_{what}"), what) if capable else []
        fields = {"meta", "icons"}
        return [o for o in found if not description_fault(o.model_dump(mode="json", exclude=fields, exclude_none=True))]

    async def read(self, uri: str) -> Any:
        """A resource, by the first server that lists it."""
        from mcp import types

        for server, client in self._clients.items():
            if uri in {one.uri for one in await self._listed(client, "resources")}:
                result = await client.read_resource(uri)
                return types.ReadResourceResult(contents=[await self._contents(o, server) for o in result.contents])
        raise InputError("uri", f"{uri!r} is unknown", "Use a resource that the gateway lists")

    async def prompts(self) -> list[Any]:
        """The prompts of all servers."""
        return [
            prompt.model_copy(update={"name": self._shown(server, prompt.name)})
            for server, client in self._clients.items()
            for prompt in await self._listed(client, "prompts")
        ]

    async def prompt(self, shown: str, arguments: dict[str, str] | None) -> Any:
        """A prompt with every message screened."""
        from mcp import types

        client, server, name = self._meant(shown)
        result = await client.get_prompt(name, arguments)
        messages = [
            types.PromptMessage(role=one.role, content=await self._block(one.content, server))
            for one in result.messages
        ]
        return types.GetPromptResult(messages=messages)

    async def _held(self, text: str, server: str) -> str | None:
        """The notice in place of a text that may not be read; None where it may."""
        if not text.strip():
            return None
        decision = await self._guard.check(
            text, agent=self._agent, channel=Channel.TOOL, source=SourceClass.TOOL_OUTPUT_EXTERNAL,
            principal=self._principal,
        )  # fmt: skip
        return _notice(decision, server)

    async def _readable(self, text: str, server: str) -> str:
        return await self._held(text, server) or text

    async def _held_picture(self, data: str, server: str) -> str | None:
        try:
            picture = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"{NOTICE}: a picture that cannot be read]"
        decision = await self._guard.check(
            image=picture, agent=self._agent, channel=Channel.IMAGE, source=SourceClass.TOOL_OUTPUT_EXTERNAL,
            principal=self._principal,
        )  # fmt: skip
        return _notice(decision, server)


NOTICE = "[withheld by Lazaretto"


def _notice(decision: Decision, server: str) -> str | None:
    if decision.allowed:
        return None
    if decision.ruling is Ruling.REWRITE and decision.replacement is not None:
        return decision.replacement
    return f"{NOTICE}: what the server {server!r} gave may not be used ({decision.rule}, item {decision.item})]"


def description_fault(described: Mapping[str, Any]) -> str:
    """What is wrong with what a server says of itself, in one sentence; empty where nothing is.

    Every text in it counts, those of its parameters too.
    """
    for text in _texts(described):
        hidden = next((d for d in text_findings(text, _FORM) if d.ruling > Ruling.WARN), None)
        if hidden is not None:
            return f"its description hides something ({hidden.rule})"
        for fault in instruction_faults(text):
            return f"{fault.words.lower()} ({fault.rule}): “{text[fault.start : fault.end][:120]}”"
    return ""


def _texts(value: Any, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 20:
        return []
    several = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [
        text for key, one in several for text in (*([key] if isinstance(key, str) else []), *_texts(one, depth + 1))
    ]


def build(gateway: Gateway, upstreams: Sequence[Upstream] = ()) -> Server[Any]:
    """The MCP server that an agent is given. ``upstreams`` are connected while it runs."""
    try:
        from mcp import types
        from mcp.server.lowlevel import Server
    except ImportError:
        raise MissingExtra("the MCP gateway", "mcp") from None
    from importlib.metadata import version

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        async with gateway.connected(upstreams):
            yield {}

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await gateway.tools())

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return await gateway.call(params.name, params.arguments)  # type: ignore[no-any-return]
        except LazarettoError as error:  # nothing passes unjudged: no store, no result
            told = [types.TextContent(type="text", text=f"{NOTICE}: {error}]")]
            return types.CallToolResult(content=list(told), is_error=True)

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await gateway.resources())

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await gateway.read(str(params.uri))  # type: ignore[no-any-return]

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=await gateway.prompts())

    async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await gateway.prompt(params.name, params.arguments)  # type: ignore[no-any-return]

    return Server(
        "lazaretto-gateway", version=version("lazaretto"), lifespan=lifespan, on_list_tools=list_tools,
        on_call_tool=call_tool, on_list_resources=list_resources, on_read_resource=read_resource,
        on_list_prompts=list_prompts, on_get_prompt=get_prompt,
    )  # fmt: skip
