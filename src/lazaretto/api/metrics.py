"""Numbers for Prometheus, and the log of requests: the call, the decision and the time it took.

Labels come from closed sets (routes, rulings, gates); with several workers their numbers are added up
(``PROMETHEUS_MULTIPROC_DIR``). A line of the log has the pattern of the path: no ids, no query, no content.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from lazaretto.api.request_limits import Application, Message, Receive, Scope, Send
from lazaretto.errors import MissingExtra
from lazaretto.types import Decision, Observation, Receipt

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts for one application; also a watcher of its guard."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(name, says, labels, registry=self._registry)

        def histogram(name: str, says: str, *labels: str) -> Histogram:
            return Histogram(name, says, labels, registry=self._registry, buckets=_SECONDS)

        self._requests = counter("lazaretto_requests", "Requests by route and status.", "method", "route", "status")
        self._request_s = histogram("lazaretto_request_seconds", "Time to answer a request.", "route")
        self._decisions = counter("lazaretto_decisions", "Decisions by channel and ruling.", "channel", "ruling")
        self._incomplete = counter(
            "lazaretto_decisions_incomplete", "Decisions that not every gate or reader had a say in."
        )
        self._decision_s = histogram("lazaretto_decision_seconds", "Time from call to recorded decision.", "channel")
        self._gates = counter("lazaretto_gate_runs", "What became of gates that were asked.", "gate", "status")
        self._gate_s = histogram("lazaretto_gate_seconds", "Time a gate took.", "gate")
        self._recalls = counter("lazaretto_recalls", "Recalls.")
        self._recalled = counter("lazaretto_recalled_items", "Memories handed out.")
        self._repairs = counter("lazaretto_repairs", "Repairs applied.", "repair")
        self._undone = counter("lazaretto_repairs_undone", "Repairs undone, wholly or in part.", "repair")
        self._rechecked = counter("lazaretto_tended_items", "Memories judged again in the background.", "outcome")
        self._webhooks = counter("lazaretto_webhooks", "Webhook deliveries.", "outcome")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def decided(self, observation: Observation, decision: Decision, began: int) -> None:
        """Something was judged."""
        channel = observation.channel.value
        self._decisions.labels(channel, decision.ruling.label).inc()
        self._decision_s.labels(channel).observe(max(0.0, (time.time_ns() - began) / 1e9))
        if not decision.complete:
            self._incomplete.inc()
        for run in decision.runs:
            self._gates.labels(run.gate, run.status.value).inc()
            if run.ms:
                self._gate_s.labels(run.gate).observe(run.ms / 1000)

    def recalled(self, namespace: str, agent: str, items: Sequence[str], began: int) -> None:
        """An agent was given memories."""
        self._recalls.inc()
        self._recalled.inc(len(items))

    def repaired(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A repair was applied."""
        self._repairs.labels(receipt.plan.repair).inc()

    def undone(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A repair was undone."""
        self._undone.labels(receipt.plan.repair).inc()

    def looked_again(self, outcome: str, items: int) -> None:
        """Memories were judged again."""
        self._rechecked.labels(outcome).inc(items)

    def delivered(self, outcome: str) -> None:
        """A webhook was sent, or not."""
        self._webhooks.labels(outcome).inc()

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


log = logging.getLogger("lazaretto.access")


class AccessLog:
    """Counts and logs requests."""

    def __init__(self, app: Application, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, size = 499, 0  # the client hung up before there was an answer

        async def watched(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            status = 500
            raise
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", None) or "(none)"
            method = scope["method"] if scope["method"] in METHODS else "(other)"
            self._metrics.answered(method, route, status, seconds)
            if log.isEnabledFor(logging.INFO):
                caller = scope.get("state", {}).get("caller")
                line = {
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "method": method, "route": route,
                    "status": status, "ms": round(seconds * 1000, 1), "bytes": size,
                    "caller": caller.name if caller is not None else None,
                }  # fmt: skip
                log.info("%s", orjson.dumps(line).decode())


METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
