"""``lazaretto serve``: the guard over HTTP."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.common import console
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError, MissingExtra

MOST_CONNECTIONS = 512
"""Beyond these a caller is told to come back."""


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
        str | None, typer.Option(envvar="LAZARETTO_TOKEN", help="A bearer token that may do everything.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(envvar="LAZARETTO_KEYS", help="Key file made by 'lazaretto keys'.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Name the server answers to; repeat it. Default: any with keys.")
    ] = None,
) -> None:
    """Serve the guard over HTTP; the calls are described at /docs."""
    from lazaretto.api.access import Door, KeyFile

    known = KeyFile(keys).keys() if keys else ()
    if keys and not known:
        raise InputError("keys", f"{keys} holds no key", "Make one with 'lazaretto keys add'")
    door = Door(context.namespace, token, known)  # says what is wrong with a token before anything listens
    if door.open and not _this_machine_only(host):
        raise InputError("token", f"is missing, and {host} can be reached by others", "Set LAZARETTO_TOKEN or --keys")

    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("the HTTP server", "api") from None
    from lazaretto.api.app import create_app
    from lazaretto.api.border import LOCAL_HOSTS

    with context.open_guard() as guard, _listening(host, port) as listener:
        where = f"http://{host}:{listener.getsockname()[1]} (calls: /docs, for people: /console)"
        console.print(f"Lazaretto on {where}, store {guard.ledger.url}, namespace {context.namespace}", soft_wrap=True)
        if door.open:
            console.print("Open: whoever can reach this machine's loopback may do everything. Close it with --keys.")
        hosts = allow_host or ((host, *LOCAL_HOSTS) if door.open else ())
        app = create_app(guard.guard, token, keys=known, hosts=hosts)
        settings = {"log_level": "warning", "timeout_keep_alive": 5, "limit_concurrency": MOST_CONNECTIONS}
        server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, **settings))  # type: ignore[arg-type]
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
