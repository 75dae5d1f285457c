"""Calls that the server makes to addresses which callers named: pictures, webhooks.

Such an address may point into the server's own network. So a name is resolved once, all its addresses must be public
(unless the operator says otherwise), redirects are not followed, and size and time are bounded.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from lazaretto.errors import InputError, LazarettoError, TooLarge

SECONDS = 10.0
_EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""Addresses that stand for others, which may be private."""
_CHUNK = 65_536


class Unreachable(LazarettoError):
    """The other side did not answer, or not in time."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The reply to a call."""

    status: int
    body: bytes


def is_public(address: str) -> bool:
    """Whether an address belongs to the open internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if any(ip in network for network in _EMBEDDING):
            return False
    return ip.is_global and not ip.is_multicast


def check_url(url: str, field: str) -> SplitResult:
    """``InputError`` for an address that is not http(s), or carries a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(field, "is not an address", "Use https://host/path") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(field, "is not an http(s) address", "Use https://host/path")
    if parts.username is not None or parts.password is not None:
        raise InputError(field, "carries a name or password", "Leave it out")
    return parts


def _address(parts: SplitResult, field: str, private: bool) -> tuple[str, int]:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise Unreachable(f"{field}: {host} is unknown") from None
    if not private and not all(map(is_public, found)):
        raise InputError(field, f"{host} is not a public address", "Only addresses of the open internet are called")
    return found[0], port


def call(
    method: str, url: str, *, field: str, body: bytes = b"", headers: Mapping[str, str] | None = None,
    limit: int = 100_000, private: bool = False, seconds: float = SECONDS,
) -> HttpReply:  # fmt: skip
    """One request, blocking. ``private``: addresses of the private network may be called."""
    parts = check_url(url, field)
    deadline = time.monotonic() + seconds
    host, port = _address(parts, field, private)
    connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=seconds)
    try:
        plain = socket.create_connection((host, port), timeout=seconds)
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname)
        else:
            connection.sock = plain
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body or None, dict(headers or {}))
        response = connection.getresponse()
        read = bytearray()
        while part := response.read1(_CHUNK):
            read += part
            if len(read) > limit:
                raise TooLarge(field, len(read), limit)
            if time.monotonic() > deadline:
                raise Unreachable(f"{field}: {parts.hostname} took longer than {seconds:g} s")
        return HttpReply(response.status, bytes(read))
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, LazarettoError):
            raise
        raise Unreachable(f"{field}: {parts.hostname} does not answer ({type(error).__name__})") from None
    finally:
        connection.close()
