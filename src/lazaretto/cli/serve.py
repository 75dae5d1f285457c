"""``lazaretto serve``: the guard over HTTP."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import typer

from lazaretto.cli.common import NamespaceOption, PolicyOption, StoreOption, console, plain_errors
from lazaretto.cli.guard import open_guard
from lazaretto.errors import InputError, MissingExtra


def _this_machine_only(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def register(app: typer.Typer) -> None:
    """Add ``serve`` to the application."""

    @app.command()
    @plain_errors
    def serve(
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8787,
        token: Annotated[
            str | None, typer.Option(envvar="LAZARETTO_TOKEN", help="What callers must send as bearer token.")
        ] = None,
        store: StoreOption = None,
        policy: PolicyOption = None,
        namespace: NamespaceOption = "default",
    ) -> None:
        """Serve the guard over HTTP; the calls are described at /docs."""
        if token is None and not _this_machine_only(host):
            raise InputError("token", f"is missing, and {host} can be reached by others", "Set LAZARETTO_TOKEN")
        try:
            import uvicorn
        except ImportError:
            raise MissingExtra("the HTTP server", "api") from None
        from lazaretto.api.app import build

        with open_guard(store, policy, namespace) as guard:
            console.print(f"Lazaretto on http://{host}:{port} (calls: /docs), store {guard.ledger.url}")
            uvicorn.run(build(guard, token), host=host, port=port, log_level="warning")
