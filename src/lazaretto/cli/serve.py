"""``lazaretto serve``: the guard over HTTP."""

from __future__ import annotations

import ipaddress
import socket
from typing import Annotated

import typer

from lazaretto.cli.common import console
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError, MissingExtra


def _this_machine_only(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@with_context(json=False)
def serve(
    context: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8787,
    token: Annotated[
        str | None, typer.Option(envvar="LAZARETTO_TOKEN", help="What callers must send as bearer token.")
    ] = None,
) -> None:
    """Serve the guard over HTTP; the calls are described at /docs."""
    if token is None and not _this_machine_only(host):
        raise InputError("token", f"is missing, and {host} can be reached by others", "Set LAZARETTO_TOKEN")
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("the HTTP server", "api") from None
    from lazaretto.api.app import build

    with context.open_guard() as guard, _listening(host, port) as listener:
        where = f"http://{host}:{listener.getsockname()[1]} (calls: /docs)"
        console.print(f"Lazaretto on {where}, store {guard.ledger.url}, namespace {context.namespace}", soft_wrap=True)
        server = uvicorn.Server(uvicorn.Config(build(guard.guard, token), host=host, port=port, log_level="warning"))
        server.run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that nothing is announced which does not work."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError("port", f"{host}:{port} cannot be used ({error.strerror})", "Choose another --port") from None


def register(app: typer.Typer) -> None:
    """Add ``serve`` to the application."""
    app.command()(serve)
