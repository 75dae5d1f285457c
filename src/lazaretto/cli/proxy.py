"""``lazaretto proxy``: a guard between a crew and its model's endpoint."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.common import console
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.serve import UVICORN, keys_of, listening, refuse_blank_secrets, this_machine_only
from lazaretto.errors import InputError, MissingExtra


@with_context(json=False)
def proxy(
    context: CommandContext,
    upstream: Annotated[str, typer.Option(help="The endpoint without /v1, such as https://api.openai.com.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8788,
    keys: Annotated[
        Path | None, typer.Option(envvar="LAZARETTO_KEYS", help="Key file; crews send theirs as x-lazaretto-key.")
    ] = None,
    agent: Annotated[str, typer.Option(help="Agent name for requests without x-lazaretto-agent.")] = "agent",
    also: Annotated[
        list[str] | None,
        typer.Option("--also-namespace", help="Another namespace that x-lazaretto-namespace may name; repeat it."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=3600, help="Seconds the endpoint may be silent.")] = 600.0,
) -> None:
    """Stand between a crew and its model: point the crew's base URL here.

    Tool results are screened before the model reads them, answers audited before the agent acts; streams are held back
    until they are judged. Speaks OpenAI's chat completions and responses, and Anthropic's messages.
    """
    from lazaretto.api.access import Door
    from lazaretto.api.outgoing import check_url
    from lazaretto.api.request_limits import LOCAL_HOSTS

    check_url(upstream, "upstream")
    refuse_blank_secrets("", keys)
    known = keys_of(keys) if keys else ()
    door = Door(context.namespace, None, known)
    if door.open and not this_machine_only(host):
        raise InputError("keys", f"are missing, and {host} can be reached by others", "Set --keys")
    try:
        import uvicorn

        from lazaretto.api.proxy.app import ProxySettings, create_proxy
    except ImportError:
        raise MissingExtra("the proxy", "proxy") from None

    settings = ProxySettings(upstream.rstrip("/").removesuffix("/v1"), timeout, agent=agent)
    with ExitStack() as stack:
        listener = stack.enter_context(listening(host, port))
        names = dict.fromkeys((context.namespace, *(also or ())))
        guards = {name: stack.enter_context(context.open_guard(namespace=name)).guard for name in names}
        where = f"http://{host}:{listener.getsockname()[1]}/v1"
        console.print(f"Lazaretto before {settings.upstream}: set your crew's base URL to {where}")
        hosts = (host, *LOCAL_HOSTS) if door.open else ()
        app = create_proxy(guards, settings, keys=known, hosts=hosts)
        uvicorn.Server(uvicorn.Config(app, **UVICORN)).run(sockets=[listener])
