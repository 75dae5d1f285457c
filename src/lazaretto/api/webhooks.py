"""Calls that the server makes: to addresses which callers named (pictures), and signed webhooks.

Webhooks tell others when an incident opens, changes or grows, and when a repair is proposed.

The form is that of Standard Webhooks. Deliveries are recorded in the ledger, so after a restart, or in another
worker, only messages that were not received are sent. A message is sent at least once, always with the same id.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import http.client
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import orjson

from lazaretto.errors import InputError, LazarettoError, TooLarge
from lazaretto.guard import Guard
from lazaretto.incidents.records import Incident
from lazaretto.names import is_sentence
from lazaretto.repair.proposals import Proposal
from lazaretto.types import Draft, EventKind

log = logging.getLogger("lazaretto")
PREFIX = "whsec_"
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 3_600.0
"""How long a receiver that failed is left alone: doubled each time, up to an hour."""
MOST_AT_ONCE = 20
_NOTED = "webhook"
LONG_NAME = "(a name that is long enough for a sentence)"
"""In the place of an agent's name that may not go out: a message may be read by another agent."""


def read_secret(secret: str) -> bytes:
    """The key in a secret such as ``whsec_...`` (base64, 24 to 64 bytes)."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if not 24 <= len(key) <= 64:
        fix = "Make one with: echo whsec_$(openssl rand -base64 32)"
        raise InputError("webhook secret", "is not whsec_ and 24 to 64 bytes in base64", fix)
    return key


def signature(key: bytes, name: str, moment: int, body: bytes) -> str:
    """The value of the header ``webhook-signature``."""
    signed = f"{name}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


@dataclass
class Webhooks:
    """Tells one address about the incidents of one guard."""

    guard: Guard
    url: str
    secret: str
    private: bool = False
    """Whether addresses of the private network may be called."""
    on_outcome: Callable[[str], None] = lambda _outcome: None
    _wait_s: float = FIRST_WAIT_S
    _not_before: float = 0.0
    _seen: int = -1
    _key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_url(self.url, "webhook")
        self._key = read_secret(self.secret)

    @property
    def _subject(self) -> str:
        return f"{_NOTED}:{hashlib.sha256(self.url.encode()).hexdigest()[:16]}"

    async def step(self) -> int:
        """Send the messages that were not received yet; returns how many were."""
        if time.monotonic() < self._not_before:
            return 0
        head = (await asyncio.to_thread(self.guard.ledger.head)).seq
        if head == self._seen:
            return 0
        due = await self._due()
        sent = 0
        for name, kind, data in due[:MOST_AT_ONCE]:
            if not await asyncio.to_thread(self._send, name, kind, data):
                self.on_outcome("failed")
                self._not_before = time.monotonic() + self._wait_s
                self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
                return sent
            self.on_outcome("delivered")
            note = Draft(EventKind.NOTED, self._subject, body={"what": _NOTED, "message": name})
            await asyncio.to_thread(self.guard.ledger.append, [note])
            self._wait_s = FIRST_WAIT_S
            sent += 1
        if sent == len(due):
            self._seen = (await asyncio.to_thread(self.guard.ledger.head)).seq if sent else head
        return sent

    async def _due(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Messages that nobody has received, the oldest first: id, type and data."""
        known, space = await asyncio.to_thread(self._delivered), self.guard.ledger.namespace
        incidents = [
            (_message_id(incident), f"incident.{incident.state}", _incident_data(incident, space))
            for incident in await self.guard.incidents.all()
        ]
        proposed = [
            (f"msg_{proposal.id}", "repair.proposed", _proposal_data(proposal, space))
            for proposal in await self.guard.repairs.proposals()
        ]
        return [message for message in (*reversed(incidents), *reversed(proposed)) if message[0] not in known]

    def _delivered(self) -> set[str]:
        events = self.guard.ledger.events(subject=self._subject, kinds=(EventKind.NOTED,))
        return {str(event.body["message"]) for event in events if event.body}

    def _send(self, name: str, kind: str, data: dict[str, Any]) -> bool:
        """Whether it was received. Nothing that an item says is sent, only where to look."""
        moment = int(time.time())
        body = orjson.dumps({"type": kind, "timestamp": moment, "data": data})
        headers = {
            "content-type": "application/json", "user-agent": "lazaretto", "webhook-id": name,
            "webhook-timestamp": str(moment), "webhook-signature": signature(self._key, name, moment, body),
        }  # fmt: skip
        try:
            reply = call("POST", self.url, field="webhook", body=body, headers=headers, private=self.private)
        except LazarettoError as error:
            log.warning("a webhook could not be delivered: %s", error)
            return False
        if not 200 <= reply.status < 300:
            log.warning("a webhook was answered with %d", reply.status)
            return False
        return True


def _incident_data(incident: Incident, namespace: str) -> dict[str, Any]:
    brought_by = LONG_NAME if is_sentence(incident.brought_by) else incident.brought_by
    return {
        "incident": incident.id, "state": incident.state, "false_alarm": incident.false_alarm,
        "namespace": namespace, "patient_zero": incident.patient_zero,
        "brought_by": brought_by, "opened": incident.opened, "found": incident.found,
        "updated": incident.updated, "items": len(incident.items), "agents": len(incident.agents),
        "decisions": len(incident.decisions),
    }  # fmt: skip


def _proposal_data(proposal: Proposal, namespace: str) -> dict[str, Any]:
    return {
        "proposal": proposal.id,
        "namespace": namespace,
        "origin": proposal.origin,
        "time": proposal.time,
        "items": proposal.counts,
    }


def _message_id(incident: Incident) -> str:
    """The same for the same news: a new state, or more items, agents or decisions, make another message."""
    counts = f"{len(incident.items)}:{len(incident.agents)}:{len(incident.decisions)}"
    news = f"{incident.id}:{incident.state}:{incident.false_alarm}:{counts}"
    return f"msg_{hashlib.sha256(news.encode()).hexdigest()[:24]}"


# Calls that the server makes to addresses which callers named: pictures, webhooks.
#
# Such an address may point into the server's own network. So a name is resolved once, all its addresses must be public
# (unless the operator says otherwise), redirects are not followed, and size and time are bounded.

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
