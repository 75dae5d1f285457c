"""The gateway: stands before other MCP servers and screens the results of their tools, resources and prompts.

Results and errors are judged; a notice replaces parts that the guard does not allow. A tool or prompt with a poisoned
description, or another one than was approved, is not offered. Parts that cannot be judged (sound, files) are withheld.
Requests of servers to the agent or its model (sampling, elicitation, roots), log messages, progress and instructions
are not passed on.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError, LazarettoError, MissingExtra
from lazaretto.identity import Identity, ProvedBy
from lazaretto.mcp.descriptions import Described, Pins, description_fault
from lazaretto.mcp.results import NOTICE, Results
from lazaretto.names import look_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp.server.lowlevel import Server

    from lazaretto.guard import Guard

log = logging.getLogger("lazaretto")
BETWEEN = "__"
"""Separates the server's name from the tool's where the gateway has several servers."""
_PAGES = 50
_TWO = "another tool has the same name here"
_LOOKS_ALIKE = "its name looks like another tool's"
_SHOWN = {"meta", "icons"}
"""Not part of the approval: these fields may change from call to call. They are judged all the same."""


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
        for name, settings in servers.items():
            extra = set(settings) - {"command", "args", "env", "url", "headers", "type"}
            if extra or bool(settings.get("command")) == bool(settings.get("url")):
                problem = f"server {name!r} has " + (
                    f"the unknown key {min(extra)!r}" if extra else "no command or url"
                )
                raise InputError("config", f"{file}: {problem}", "Give either command (args, env) or url (headers)")
            args = tuple(str(arg) for arg in settings.get("args", ()))
            found.append(
                Upstream(
                    name, settings.get("command", ""), args, dict(settings.get("env", {})), settings.get("url", ""),
                    dict(settings.get("headers", {})),
                )
            )  # fmt: skip
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        shape = '{"mcpServers": {"name": {"command": "...", "args": []}}}'
        raise InputError("config", f"{file} does not name any servers", f"It should read {shape}") from None
    if not found:
        raise InputError("config", f"{file} names no server", "Name at least one under mcpServers")
    return tuple(found)


class ServerFailed(LazarettoError):
    """A server answered with an error; its text was judged."""


class Gateway:
    """Screens the results of servers; one for all of them."""

    def __init__(self, guard: Guard, agent: str = "mcp", pins: Pins | None = None) -> None:
        """``pins``: the descriptions that were approved; without it the first ones that are seen count as approved."""
        self._guard, self._agent = guard, agent
        self._results = Results(guard, agent)
        self._pins = pins
        self._clients: dict[str, Client] = {}
        self._offered: set[str] = set()
        self._described: dict[str, tuple[str, Any]] = {}
        self._whose: dict[tuple[str, str], tuple[str, str]] = {}
        """By kind and shown name, the server and its own name for it."""
        self._first: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        """Tools that are not offered, and why, in words for an agent."""

    @asynccontextmanager
    async def connected(self, upstreams: Sequence[Upstream]) -> AsyncIterator[None]:
        """Keep every server connected while the block runs; one that does not start is an ``InputError``."""
        async with connected(upstreams) as clients:
            self._clients |= clients
            yield

    def join(self, name: str, client: Client) -> None:
        """Stand before one more server, by a client that is connected already."""
        self._clients[name] = client

    def _shown(self, server: str, kind: str, name: str) -> str:
        """The name under which an agent knows a server's tool or prompt; calls of it go to that server."""
        shown = name if len(self._clients) == 1 else f"{server}{BETWEEN}{name}"
        self._whose[kind, shown] = server, name
        return shown

    async def _asked(self, server: str, answer: Awaitable[Any]) -> Any:
        """A server's answer; the text of a failure, by the server or by its client, is judged."""
        try:
            return await answer
        except LazarettoError:
            raise
        except Exception as error:
            raise ServerFailed(await self._results.of_error(error, server)) from None

    async def _listed(self, server: str, kind: str) -> list[Any]:
        """A server's list of one kind; empty where it has none."""
        client, several = self._clients[server], f"{kind}s"
        if getattr(client.server_capabilities, several, None) is None:
            return []
        try:
            return await everything(getattr(client, f"list_{several}"), several)
        except Exception as error:
            log.warning("server %r cannot list its %s: %r", server, several, error)
            return []

    def _fault(self, server: str, kind: str, listed: Any) -> str:
        """The reason why a listed part is not shown, in words for an agent; a person finds its words in the log."""
        fault = description_fault(listed.model_dump(mode="json", exclude_none=True), quoted=False)
        if not fault and kind != "resource":
            described = described_as(server, kind, listed)
            if self._pins is not None:
                fault = self._pins.fault(described)
            elif self._first.setdefault(described.key, described.digest) != described.digest:
                fault = "it is described differently from when it was first offered"
        if fault:
            log.warning("the %s %r of server %r is not offered: %s", kind, listed.name, server, fault)
        return fault

    async def tools(self) -> list[Any]:
        """The tools of all servers whose descriptions may be read by an agent.

        One that is described differently from when it was approved, or first offered, is not offered any more: that was
        the description that a person agreed to.
        """
        found, self.refused = [], {}
        for server in self._clients:
            for tool in await self._listed(server, "tool"):
                shown = self._shown(server, "tool", tool.name)
                fault = self._fault(server, "tool", tool)
                if fault:
                    self.refused[shown] = fault
                else:
                    found.append(tool.model_copy(update={"name": shown}))
        self.refused |= dict.fromkeys(_several(found), _TWO) | dict.fromkeys(_alike(found), _LOOKS_ALIKE)
        self._described = {tool.name: (str(tool.description or ""), tool.input_schema) for tool in found}
        self._offered = {tool.name for tool in found} - set(self.refused)
        return [tool for tool in found if tool.name in self._offered]

    async def call(self, shown: str, arguments: dict[str, Any] | None) -> Any:
        """Call a tool, and return the parts of its result that may be read."""
        from mcp import types

        if shown not in self._offered:
            await self.tools()  # nobody has asked yet, or the server has a new one
        if shown in self.refused:
            raise InputError("name", f"{shown!r} is not offered: {self.refused[shown]}", "Use another tool")
        if shown not in self._offered:
            raise InputError("name", f"{shown!r} is unknown", "Use a name that the gateway lists")
        server, name = self._whose["tool", shown]
        client = self._clients[server]
        words, schema = self._described[shown]
        if refused := await self._refused(shown, arguments, words, schema):
            return types.CallToolResult(content=[types.TextContent(type="text", text=refused)], is_error=True)
        try:
            result = await self._asked(server, client.call_tool(name, arguments or {}))
        except ServerFailed as error:
            notice = types.TextContent(type="text", text=str(error))
            return types.CallToolResult(content=[notice], is_error=True)
        return await self._results.of_tool(result, server, shown)

    async def _refused(self, shown: str, arguments: Any, description: str, schema: Any = None) -> str:
        """Why something may not be sent to a server now; empty where it may. Nobody is asked where the policy has no
        table ``[actions]``."""
        if not self._guard.policy.actions:
            return ""
        made = await self._guard.authorize(
            shown, arguments or {}, agent=self._agent, description=description, schema=schema,
            principal=Identity(ProvedBy.MCP, self._agent).principal(self._agent),
        )  # fmt: skip
        return "" if made.allowed else made.notice

    async def resources(self) -> list[Any]:
        """The resources of all servers, without those whose descriptions are poisoned, and those that several servers
        answer for."""
        listed = await self._resources()
        unclear = _unclear(listed)
        return [resource for several in listed.values() for resource in several if resource.uri not in unclear]

    async def _resources(self) -> dict[str, list[Any]]:
        return {
            server: [
                resource
                for resource in await self._listed(server, "resource")
                if not self._fault(server, "resource", resource)
            ]
            for server in self._clients
        }

    async def read(self, uri: str) -> Any:
        """A resource, by the server that lists it."""
        listed = await self._resources()
        servers = [server for server, several in listed.items() if uri in {resource.uri for resource in several}]
        if not servers:
            raise InputError("uri", f"{uri!r} is unknown", "Use a resource that the gateway lists")
        if uri in _unclear(listed):
            why = f"{uri!r} is not offered: several servers have it, or it looks like another server's"
            raise InputError("uri", why, "Use another resource")
        result = await self._asked(servers[0], self._clients[servers[0]].read_resource(uri))
        return await self._results.of_resource(result, uri, servers[0])

    async def prompts(self) -> list[Any]:
        """The prompts of all servers whose descriptions may be read by an agent."""
        found = [
            prompt.model_copy(update={"name": self._shown(server, "prompt", prompt.name)})
            for server in self._clients
            for prompt in await self._listed(server, "prompt")
            if not self._fault(server, "prompt", prompt)
        ]
        several = _several(found)
        return [prompt for prompt in found if prompt.name not in several]

    async def prompt(self, shown: str, arguments: dict[str, str] | None) -> Any:
        """A prompt that is listed, with every message screened. Arguments go to the server, as those of a call do."""
        listed = {prompt.name: prompt for prompt in await self.prompts()}
        if shown not in listed:
            raise InputError("name", f"{shown!r} is unknown or not offered", "Use a prompt that the gateway lists")
        if arguments and (refused := await self._refused(shown, arguments, str(listed[shown].description or ""))):
            raise InputError("arguments", refused, "Ask a person, or use another prompt")
        server, name = self._whose["prompt", shown]
        result = await self._asked(server, self._clients[server].get_prompt(name, arguments))
        return await self._results.of_prompt(result, server)


def _several(named: Sequence[Any]) -> set[str]:
    """Names that more than one of them has: nobody could say whose is meant, so none of these is offered."""
    count = Counter(found.name for found in named)
    return {name for name in count if count[name] > 1}


def _unclear(listed: Mapping[str, Sequence[Any]]) -> set[str]:
    """Resources for which nobody could say which server is meant, and those whose foreign letters look like another."""
    uris = {server: {str(resource.uri) for resource in several} for server, several in listed.items()}
    count = Counter(uri for several in uris.values() for uri in several)
    looks = Counter(map(look_of, count))
    return {uri for uri in count if count[uri] > 1 or (not uri.isascii() and looks[look_of(uri)] > 1)}


def _alike(named: Sequence[Any]) -> set[str]:
    """Names with foreign letters that look like the name of another: a reader takes it for the other."""
    looks = Counter(look_of(found.name) for found in named)
    return {found.name for found in named if not found.name.isascii() and looks[look_of(found.name)] > 1}


@asynccontextmanager
async def connected(upstreams: Sequence[Upstream]) -> AsyncIterator[dict[str, Client]]:
    """Clients of servers, by name, while the block runs."""
    from mcp import Client, StdioServerParameters

    found: dict[str, Client] = {}
    async with AsyncExitStack() as stack:
        for upstream in upstreams:
            try:
                if upstream.url:
                    target: Any = await _http(stack, upstream) if upstream.headers else upstream.url
                else:
                    target = StdioServerParameters(
                        command=upstream.command, args=list(upstream.args), env=dict(upstream.env)
                    )
                found[upstream.name] = await stack.enter_async_context(Client(target))
            except LazarettoError:
                raise
            except Exception as error:
                problem = f"{upstream.name!r} cannot be reached ({type(error).__name__}: {error})"
                raise InputError("server", problem, "Check its command or URL") from None
        yield found


async def _http(stack: AsyncExitStack, upstream: Upstream) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    client = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(upstream.headers), timeout=60))
    return streamable_http_client(upstream.url, http_client=client)


async def everything(list_page: Callable[..., Awaitable[Any]], attribute: str) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await list_page(cursor=cursor)
        found += getattr(page, attribute)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def described_as(server: str, kind: str, described: Any) -> Described:
    """The description of a tool or prompt that a person approves."""
    return Described(server, kind, described.name, described.model_dump(mode="json", exclude=_SHOWN, exclude_none=True))


async def described_by(upstreams: Sequence[Upstream]) -> list[Described]:
    """The tools and prompts of servers, as they are described now."""
    found = []
    async with connected(upstreams) as clients:
        for server, client in clients.items():
            for kind in ("tool", "prompt"):
                if getattr(client.server_capabilities, f"{kind}s", None) is not None:
                    listed = await everything(getattr(client, f"list_{kind}s"), f"{kind}s")
                    found += [described_as(server, kind, described) for described in listed]
    return found


def build(gateway: Gateway, upstreams: Sequence[Upstream] = ()) -> Server[Any]:
    """The MCP server that an agent is given. ``upstreams`` are connected while it runs."""
    try:
        from mcp import MCPError, types
        from mcp.server.lowlevel import Server
    except ImportError:
        raise MissingExtra("the MCP gateway", "mcp") from None
    from importlib.metadata import version

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        async with gateway.connected(upstreams):
            yield {}

    async def answered(answer: Awaitable[Any]) -> Any:
        """Only judged texts of a server go to the agent, also in an error."""
        try:
            return await answer
        except LazarettoError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except Exception:
            log.exception("a server's answer could not be judged")
            raise MCPError(types.INTERNAL_ERROR, f"{NOTICE}: an answer that cannot be judged]") from None

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await answered(gateway.tools()))

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return await answered(gateway.call(params.name, params.arguments))  # type: ignore[no-any-return]
        except MCPError as error:  # nothing passes unjudged: no store, no result
            notice = error.message if error.message.startswith(NOTICE) else f"{NOTICE}: {error.message}]"
            return types.CallToolResult(content=[types.TextContent(type="text", text=notice)], is_error=True)

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await answered(gateway.resources()))

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await answered(gateway.read(str(params.uri)))  # type: ignore[no-any-return]

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=await answered(gateway.prompts()))

    async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await answered(gateway.prompt(params.name, params.arguments))  # type: ignore[no-any-return]

    return Server(
        "lazaretto-gateway", version=version("lazaretto"), lifespan=lifespan, on_list_tools=list_tools,
        on_call_tool=call_tool, on_list_resources=list_resources, on_read_resource=read_resource,
        on_list_prompts=list_prompts, on_get_prompt=get_prompt,
    )  # fmt: skip
