"""``LAZARETTO_URL``: commands that ask a running ``lazaretto serve`` instead of loading gates and models themselves.

A server that is away, refuses or answers with anything but a decision is an error: nothing passes. ``LAZARETTO_TOKEN``
goes to that address alone: redirects are not followed, proxies are not used.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import orjson

from lazaretto.cli.common import console, print_plain
from lazaretto.cli.context import CommandContext
from lazaretto.errors import Forbidden, InputError, LazarettoError, StoreUnavailable
from lazaretto.types import Ruling

URL, TOKEN = "LAZARETTO_URL", "LAZARETTO_TOKEN"
SECONDS = 180.0
_LARGEST = 20_000_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        """None: the redirect is the answer, and no decision."""


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def server_of(context: CommandContext) -> str:
    """The address to ask; empty where this process judges itself. The server has its own store, policy and tenant."""
    url = os.environ.get(URL, "").strip().rstrip("/")
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise InputError(URL, f"{url!r} is not the address of a server", "For example http://127.0.0.1:8787")
    beside = {
        "policy": context.policy_given,
        "store": context.store,
        "namespace": context.namespace != context.policy.namespace,
    }
    for name, given in beside.items():
        if given:
            raise InputError(name, f"is given beside {URL}; the server has its own", f"Leave it out, or unset {URL}")
    return url


def decide(url: str, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """The server's decision."""
    headers = {"content-type": "application/json"}
    if token := os.environ.get(TOKEN, "").strip():
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{url}/v1/{call}", orjson.dumps(body), headers, method="POST")
    try:
        with _opener.open(request, timeout=SECONDS) as answer:
            data = orjson.loads(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))[:200]
        fix = f"start it with 'lazaretto serve', or unset {URL}"
        raise StoreUnavailable(f"{url} gives no answer ({reason}): {fix}; nothing was judged") from None
    known = {ruling.label for ruling in Ruling}
    if not isinstance(data, dict) or data.get("ruling") not in known or not isinstance(data.get("allowed"), bool):
        raise StoreUnavailable(f"{url} answers with something that is no decision; is it a lazaretto server?")
    return data


def _refusal(url: str, error: urllib.error.HTTPError) -> LazarettoError:
    try:
        body = orjson.loads(error.read(100_000))
        message, field = str(body["message"]), body.get("field")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        message, field = f"status {error.code}", None
    if error.code in (401, 403):
        return Forbidden(f"{url} refuses: {message} (key: {TOKEN})")
    if error.code in (400, 413, 422):
        return InputError(str(field or "request"), f"{url} refuses it: {message}", "See the message")
    return StoreUnavailable(f"{url} could not judge it ({message}); nothing was decided")


def show(data: dict[str, Any]) -> None:
    """A decision of a server for a person."""
    colour = "green" if data["allowed"] else "red"
    console.print(f"[bold {colour}]{data['ruling']}[/]  ", end="", highlight=False)
    print_plain(f"{data.get('item', '')}\nrule {data.get('rule', '')}")
    for reason in data.get("reasons") or ():
        print_plain(f"- {reason}")
    if not data.get("complete", False):
        console.print("Not every gate and reader looked at it.", highlight=False)
