"""``lazaretto serve`` and ``proxy``: the guard over HTTP, and before a model's endpoint."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lazaretto.cli.common import console
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from lazaretto.api.access import KeyFile
    from lazaretto.api.worker import WorkerSettings

# ``lazaretto serve``: the guard over HTTP.

MOST_CONNECTIONS = 512
"""Beyond these a caller is asked to come back later."""


def this_machine_only(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def keys_of(path: Path) -> KeyFile:
    """The key file that was named; one that is missing or empty must not leave a server open."""
    from lazaretto.api.access import KeyFile

    file = KeyFile(path)
    if not file.keys():
        missing = "does not exist" if not path.exists() else "holds no key"
        raise InputError("keys", f"{path} {missing}", f"Make a key with 'lazaretto keys add NAME --file {path}'")
    return file


def refuse_blank_secrets(token: str | None, keys: Path | None = None) -> None:
    """``InputError`` for a variable that was meant to close the server and is blank: it would be open."""
    for field, given, variable in (("token", token, "LAZARETTO_TOKEN"), ("keys", keys, "LAZARETTO_KEYS")):
        if given is None and variable in os.environ and not os.environ[variable].strip():
            raise InputError(field, f"{variable} is set and blank", "Give it a value, or unset it")


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
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that serve; best on PostgreSQL.")] = 1,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests a second that one key may send to one worker; 0: any number.")
    ] = 0.0,
    access_log: Annotated[bool, typer.Option("--access-log", help="A line of JSON per request on stderr.")] = False,
    fetch_images: Annotated[
        bool, typer.Option("--fetch-images", help="Fetch pictures that a moderation names, from public addresses.")
    ] = False,
    webhook: Annotated[str, typer.Option(help="Address that is notified of incidents, signed.")] = "",
    webhook_secret: Annotated[
        str, typer.Option(envvar="LAZARETTO_WEBHOOK_SECRET", help="What signs it: whsec_ and base64.")
    ] = "",
    webhook_private: Annotated[
        bool, typer.Option("--webhook-private", help="The address may belong to your own network.")
    ] = False,
) -> None:
    """Serve the guard over HTTP; the calls are described at /docs."""
    from lazaretto.api.access import Door
    from lazaretto.api.request_limits import LOCAL_HOSTS

    refuse_blank_secrets(token, keys)
    known = keys_of(keys) if keys else ()
    door = Door(context.namespace, token, known)  # a wrong token is reported before anything listens
    if door.open and not this_machine_only(host):
        raise InputError("token", f"is missing, and {host} can be reached by others", "Set LAZARETTO_TOKEN or --keys")

    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("the HTTP server", "api") from None
    from lazaretto.api.app import ServerSettings, create_app
    from lazaretto.api.webhooks import check_url, read_secret
    from lazaretto.api.worker import WorkerSettings, log_access, log_acts

    if webhook:
        check_url(webhook, "webhook")
        read_secret(webhook_secret)
    hosts = tuple(allow_host or ((host, *LOCAL_HOSTS) if door.open else ()))
    settings = ServerSettings(hosts, rate, fetch_images, webhook, webhook_secret, webhook_private)
    with context.open_guard() as guard, listening(host, port) as listener:
        where = f"http://{host}:{listener.getsockname()[1]} (calls: /docs, for people: /console)"
        console.print(f"Lazaretto on {where}, store {guard.ledger.url}, namespace {context.namespace}")
        if door.open:
            console.print(
                "Open: everyone who can reach this machine's loopback may do everything. Close it with --keys."
            )
        if workers == 1:
            if access_log:
                log_access()
            log_acts()
            app = create_app(guard.guard, token, keys=known, settings=settings)
            uvicorn.Server(uvicorn.Config(app, **UVICORN)).run(sockets=[listener])
            return
        guard.close()  # each worker has its own; this one has shown that the store and the policy are good
        described = WorkerSettings(
            context.store, context.policy_given, context.namespace, str(keys) if keys else None, access_log, settings
        )
        _serve_with(workers, described, token, listener)


UVICORN: dict[str, Any] = {
    "http": "lazaretto.api.worker:WaitingConnection",  # times headers out, which no setting does
    "log_level": "warning",
    "timeout_keep_alive": 5,
    "limit_concurrency": MOST_CONNECTIONS,
    "timeout_graceful_shutdown": 30,
}
"""How every server runs. Asked to end, it takes no new requests and finishes the others, for half a minute at most."""


def _serve_with(workers: int, described: WorkerSettings, token: str | None, listener: socket.socket) -> None:
    """Several processes on one socket; one that dies is replaced."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from lazaretto.api.worker import ENVIRONMENT

    with tempfile.TemporaryDirectory(prefix="lazaretto-metrics-") as folder:
        os.environ |= {ENVIRONMENT: described.to_environment(), "PROMETHEUS_MULTIPROC_DIR": folder}
        if token is not None:
            os.environ["LAZARETTO_TOKEN"] = token
        config = uvicorn.Config("lazaretto.api.worker:app", factory=True, workers=workers, **UVICORN)
        Multiprocess(config, sockets=[listener]).run()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that nothing is announced which does not work."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            "port", f"{host}:{port} cannot be used ({os.strerror(error.errno or 0)})", "Choose another --port"
        ) from None
    # Connections inherit it. asyncio does not set it for a socket made so, and an answer in two parts then waits 40 ms
    # for the other side to confirm the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


# ``lazaretto proxy``: a guard between a crew and its model's endpoint.


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
    from lazaretto.api.request_limits import LOCAL_HOSTS
    from lazaretto.api.webhooks import check_url

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
