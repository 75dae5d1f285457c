"""The outermost layer: counts every answer and, where wanted, logs it as one line of JSON.

A line has the time, the caller, the pattern of the path, status, duration and size: no ids, no query, no content.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

import orjson

from lazaretto.api.metrics import Metrics
from lazaretto.api.request_limits import Application, Message, Receive, Scope, Send

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
        status, size = 499, 0  # whoever hangs up before there is an answer

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
