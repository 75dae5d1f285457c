"""``lazaretto mcp serve | gateway``: the guard for agents that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lazaretto.cli.common import EXIT_FLAGGED, errors, plain_errors, print_plain, printable, read_file
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.serve import listening, refuse_blank_secrets, this_machine_only
from lazaretto.errors import InputError, MissingExtra
from lazaretto.types import SourceClass

if TYPE_CHECKING:
    from lazaretto.mcp.gateway import Upstream

family = typer.Typer(help="The guard over the Model Context Protocol.", no_args_is_help=True)
_MOST_CONFIG = 1_000_000

AgentOption = Annotated[str, typer.Option("--agent", "-a", help="The agent that asks; it cannot use another name.")]
HttpOption = Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of standard input.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on, with --http.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on, with --http.")]
TokenOption = Annotated[
    str | None, typer.Option(envvar="LAZARETTO_TOKEN", help="Bearer token that callers over HTTP must bring.")
]


@family.command("serve")
@with_context(json=False)
def serve(
    context: CommandContext,
    agent: AgentOption = "mcp",
    source: Annotated[
        SourceClass | None,
        typer.Option(help="The most trusted source that its calls may claim. Default: an agent's own words."),
    ] = None,
    http: HttpOption = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8788,
    token: TokenOption = None,
) -> None:
    """The guard's tools for an agent: screen, remember, recall, trace, contacts, audit, incident."""
    _refuse_strangers(http, host, token)
    _require_mcp()
    from lazaretto.mcp.server import build

    with _place(http, host, port) as listener, context.open_guard() as guard:
        server = build(guard.guard, agent, source)
        _run(server.run_stdio_async, server.streamable_http_app, listener, host, token)


ServerArgument = Annotated[
    list[str] | None, typer.Argument(help="The server to start, after --: its command and arguments.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help='JSON with "mcpServers", as agents have it.')]
UrlOption = Annotated[str | None, typer.Option("--url", help="A server that runs already (streamable HTTP).")]


@family.command("gateway")
@with_context(json=False)
def gateway(
    context: CommandContext,
    command: ServerArgument = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    pins: Annotated[
        Path | None, typer.Option("--pins", help="Offer only what this file of approved descriptions names.")
    ] = None,
    agent: AgentOption = "mcp",
    http: HttpOption = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8788,
    token: TokenOption = None,
) -> None:
    """Stand before other MCP servers: the results and descriptions of their tools are screened."""
    upstreams = _servers(command, config, url)
    _refuse_strangers(http, host, token)
    from lazaretto.mcp.descriptions import read_pins
    from lazaretto.mcp.gateway import Gateway, build

    approved = None if pins is None else read_pins(pins)
    with _place(http, host, port) as listener, context.open_guard() as guard:
        server = build(Gateway(guard.guard, agent, approved), upstreams)
        _run(lambda: _over_stdio(server), server.streamable_http_app, listener, host, token)


@family.command("pins")
@plain_errors
def pin(
    pins: Annotated[Path, typer.Option("--pins", help="The file of approved descriptions.")],
    command: ServerArgument = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve all that is listed now.")] = False,
) -> None:
    """Compare servers' descriptions of tools and prompts with the approved ones; --approve writes them to the file.

    Exit code 0: all is approved, 1: something is new, changed or gone.
    """
    upstreams = _servers(command, config, url)
    from lazaretto.mcp.descriptions import Pins, description_fault, read_pins, write_pins
    from lazaretto.mcp.gateway import described_by

    known = read_pins(pins) if pins.exists() or not approve else Pins()
    try:
        listed = asyncio.run(described_by(upstreams))
    except* InputError as several:
        raise _first(several) from None
    different = 0
    for tool in listed:
        refused = description_fault(tool.about)
        state = "refused" if refused else known.fault(tool)
        different += bool(known.fault(tool))
        if state:
            line = f"{refused or state}: {tool.about.get('description', '')}"
            print_plain(f"{printable(tool.key)}  {printable(line[:400])}")
    gone = sorted(set(known.digests) - {tool.key for tool in listed})
    for key in gone:
        print_plain(f"{printable(key)}  is not there any more")
    if approve:
        write_pins(pins, listed)
        words = f"{len(listed)} approved in {pins}"
        if refused_all := [printable(tool.key) for tool in listed if description_fault(tool.about)]:
            words += f"; not offered all the same, because of what they say: {', '.join(refused_all)}"
        print_plain(words)
    elif different or gone:
        raise typer.Exit(EXIT_FLAGGED)


def _servers(command: list[str] | None, config: Path | None, url: str | None) -> tuple[Upstream, ...]:
    """The servers that a command line names."""
    if sum(map(bool, (command, config, url))) != 1:
        raise InputError("server", "needs exactly one of a command, --config and --url", "See 'mcp gateway --help'")
    _require_mcp()
    from lazaretto.mcp.gateway import Upstream, read_config

    if config is not None:
        return read_config(read_file(config, "config", _MOST_CONFIG), str(config))
    if url is not None:
        return (Upstream("server", url=url),)
    program, *arguments = command or [""]
    return (Upstream("server", program, tuple(arguments)),)


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise MissingExtra("the Model Context Protocol", "mcp") from None


class _NoPlace:
    """Standard input and output need no socket."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _refuse_strangers(http: bool, host: str, token: str | None) -> None:
    if http:
        refuse_blank_secrets(token, Path())
        if token is not None and not token.strip():
            raise InputError("token", "is blank", "Leave it out, or use one such as 'openssl rand -hex 32' makes")
    if http and token is None and not this_machine_only(host):
        raise InputError("token", f"is missing, and {host} can be reached by others", "Set LAZARETTO_TOKEN")


def _place(http: bool, host: str, port: int) -> socket.socket | _NoPlace:
    return listening(host, port) if http else _NoPlace()


def _run(
    stdio: Callable[[], Coroutine[Any, Any, None]],
    app: Callable[..., Any],
    listener: socket.socket | None,
    host: str,
    token: str | None,
) -> None:
    logging.getLogger("mcp").setLevel(logging.ERROR)
    try:
        asyncio.run(_over_http(app(host=host), listener, host, token) if listener is not None else stdio())
    except* InputError as several:  # out of the task groups of the protocol
        raise _first(several) from None


def _first(several: BaseExceptionGroup[InputError]) -> InputError:
    first = several.exceptions[0]
    return first if isinstance(first, InputError) else _first(first)


async def _over_stdio(server: Any) -> None:
    from mcp import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _over_http(app: Any, listener: socket.socket, host: str, token: str | None) -> None:
    import uvicorn

    where = f"http://{host}:{listener.getsockname()[1]}/mcp"
    errors.print(f"MCP on {where}" + ("" if token else ", open to everyone who can reach this machine's loopback"))
    asked = app if token is None else _only_with(token, app)
    await uvicorn.Server(uvicorn.Config(asked, log_level="warning")).serve(sockets=[listener])


def _only_with(token: str, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The application for those who bring the token."""
    wanted = f"Bearer {token}".encode()

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            brought = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(brought, wanted):
                await send(
                    {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
                )
                await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})
                return
        await app(scope, receive, send)

    return asked
