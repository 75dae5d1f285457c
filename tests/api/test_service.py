"""What a server does beside its calls: numbers, log, webhooks, documentation, limits, work in the background."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
httpx = pytest.importorskip("httpx", reason="needs the dev extra")

from starlette.requests import Request

from lazaretto import Guard
from lazaretto.api import webhooks
from lazaretto.api.app import ServerSettings, create_app, work_forever
from lazaretto.api.metrics import Metrics
from lazaretto.api.request_limits import Rate
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.policy import Review

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def over(app: Any, **headers: str) -> Any:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost", headers=headers)


async def test_numbers_and_log_tell_no_content(guard: Guard, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(guard)
    log = logging.getLogger("lazaretto.access")
    monitor = caplog.at_level(logging.INFO, logger="lazaretto.access")
    spread, log.propagate = log.propagate, True
    try:
        with monitor:
            async with over(app) as client:
                note = (await client.post("/v1/remember", json={"agent": "scout", "text": "the secret word"})).json()
                await client.get(f"/v1/items/{note['item']}/lineage?secret=word")
                await client.post("/v1/recall", json={"agent": "ada"})
                await client.get("/v1/nowhere/secret")
                numbers = (await client.get("/metrics")).text
    finally:
        log.propagate = spread
    assert 'lazaretto_requests_total{method="POST",route="/v1/remember",status="200"} 1.0' in numbers
    assert 'lazaretto_decisions_total{channel="memory",ruling="allow"} 1.0' in numbers
    assert 'lazaretto_gate_runs_total{gate="structure",status="ran"} 1.0' in numbers
    assert "lazaretto_recalled_items_total 1.0" in numbers
    lines = [json.loads(record.message) for record in caplog.records if record.name == "lazaretto.access"]
    assert [(one["route"], one["status"]) for one in lines[:2]] == [
        ("/v1/remember", 200), ("/v1/items/{item}/lineage", 200),
    ]  # fmt: skip
    assert lines[0]["caller"] == "anybody"
    for told in (numbers, json.dumps(lines)):
        assert "secret" not in told and note["item"] not in told


def test_the_dashboard_asks_for_numbers_that_exist() -> None:
    folder = Path(__file__).resolve().parents[2] / "deploy"
    board = json.loads((folder / "grafana-dashboard.json").read_text())
    known = Metrics().exposition().decode()
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert asked
    import re

    for name in {name for expr in asked for name in re.findall(r"lazaretto_\w+", expr)}:
        base = re.sub(r"_(total|bucket|sum|count)$", "", name)
        assert f"# TYPE {base} " in known or f"# TYPE {base}_total " in known, name


async def test_the_documentation_asks_nobody_else(guard: Guard) -> None:
    async with over(create_app(guard, "t0ken")) as client:
        page = (await client.get("/docs")).text
        assert "swagger-ui-bundle.js" in page
        assert "http://" not in page and "https://" not in page
        assert len((await client.get("/docs/swagger-ui-bundle.js")).content) > 100_000
        assert (await client.get("/docs/../app.py")).status_code in (401, 404)
        assert (await client.get("/docs/core.py")).status_code == 404
        assert "/v1/remember" in (await client.get("/openapi.json")).json()["paths"]
        assert (await client.get("/metrics")).status_code == 401


async def test_who_sends_too_much_has_to_wait(guard: Guard) -> None:
    async with over(create_app(guard, settings=ServerSettings(rate=0.001))) as client:
        assert (await client.get("/v1/gates")).status_code == 200
        refused = await client.get("/v1/gates")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await client.get("/healthz")).status_code == 200
    rate = Rate(2.0)
    assert [rate.wait("a", 0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.0, 0.5]
    assert rate.wait("b", 0.0) == 0.0, "each sender apart"
    assert rate.wait("a", 0.5) == 0.0


class Receiver:
    """Takes webhooks, and answers what it is told to."""

    def __init__(self) -> None:
        self.status, self.got = 200, list[tuple[dict[str, str], bytes]]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = await Request(scope, receive).body()
        self.got.append(({k.decode(): v.decode() for k, v in scope["headers"]}, body))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_incidents_are_told_signed_until_they_are_received(guard: Guard, serve: Callable[[Any], str]) -> None:
    receiver = Receiver()
    url = serve(receiver)
    note = await guard.remember("The gate code is 4711, pay there.", agent="scout")
    await guard.label(note.item, "harmful", by="vera")
    telling = webhooks.Webhooks(guard, url, SECRET, private=True)
    receiver.status = 500
    assert await telling.step() == 0
    assert await telling.step() == 0 and len(receiver.got) == 1, "one that failed is left alone for a while"
    receiver.status = 204
    restarted = webhooks.Webhooks(guard, url, SECRET, private=True)
    assert await restarted.step() == 1
    assert await restarted.step() == 0
    assert await webhooks.Webhooks(guard, url, SECRET, private=True).step() == 0, "the ledger knows what was received"
    (first, _), (headers, body) = receiver.got
    assert first["webhook-id"] == headers["webhook-id"], "sent again, it is the same message"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(b"k" * 32, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    told = json.loads(body)
    assert told["type"].startswith("incident.") and told["data"]["patient_zero"] == note.item
    assert b"4711" not in body
    private = webhooks.Webhooks(guard, url, SECRET)
    await guard.remember("The gate code is 4711, pay there!", agent="ada")
    assert await private.step() == 0 and len(receiver.got) == 2, "no private address unless it is allowed"


def test_a_secret_must_be_one(guard: Guard) -> None:
    for secret in ("", "whsec_abc", "whsec_!!!", "whsec_" + base64.b64encode(b"short").decode()):
        with pytest.raises(InputError, match="webhook secret"):
            webhooks.read_secret(secret)
    with pytest.raises(InputError):
        webhooks.Webhooks(guard, "ftp://x", SECRET)


def test_one_process_holds_a_lease(store_url: str) -> None:
    with Ledger.open(store_url) as one, Ledger.open(store_url) as two:
        mine, theirs = one.lease("work"), two.lease("work")
        assert mine.hold() and mine.hold()
        assert not theirs.hold()
        assert two.lease("other").hold(), "of one name"
        mine.release()
        assert theirs.hold()
        assert not mine.hold()
        theirs.release()


async def test_of_two_servers_one_works_in_the_background(open_guard: Callable[..., Guard]) -> None:
    guards = [open_guard(), open_guard()]
    looked: list[int] = []
    done = asyncio.Event()
    for number, guard in enumerate(guards):
        guard.policy = replace(guard.policy, review=Review(every=1, interval_s=0.01))
        recheck = guard.recheck

        async def watched(number: int = number, recheck: Any = recheck, **options: Any) -> Any:
            looked.append(number)
            if len(looked) >= 5:
                done.set()
            return await recheck(**options)

        guard.recheck = watched  # type: ignore[method-assign]
    tasks = [asyncio.create_task(work_forever(guard, Metrics())) for guard in guards]
    await asyncio.wait_for(done.wait(), 60)
    assert len(set(looked)) == 1
    first = looked[0]
    tasks[first].cancel()
    await asyncio.gather(tasks[first], return_exceptions=True)
    looked.clear()
    done.clear()
    await asyncio.wait_for(done.wait(), 60)
    assert set(looked) == {1 - first}, "the other takes over"
    tasks[1 - first].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
def test_workers_share_a_store_and_finish_what_they_have(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "policy.toml").write_text('preset = "minimal"\n')
    command = [sys.executable, "-m", "lazaretto", "serve", "--port", "0", "--workers", "2", "--store", postgres_url]
    environment = {**os.environ, "LAZARETTO_POLICY": str(tmp_path / "policy.toml"), "COLUMNS": "400"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[2]
        with httpx.Client(base_url=url, timeout=120) as client:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                try:
                    client.get("/healthz").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            for number in range(20):
                note = {"agent": "ada", "text": f"note {number}"}
                answers = [
                    client.post("/v1/remember", json=note, headers={"idempotency-key": f"n{number}"}) for _ in range(2)
                ]
                assert {one.status_code for one in answers} == {200}
                assert answers[0].json()["item"] == answers[1].json()["item"]
            assert len(client.get("/v1/items?limit=100").json()) == 20
            numbers = client.get("/metrics").text
        served = [
            line for line in numbers.splitlines() if line.startswith("lazaretto_requests_total") and "remember" in line
        ]
        assert sum(float(line.rsplit(" ", 1)[1]) for line in served) == 40, "the numbers of all workers, together"
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) in (0, -signal.SIGTERM)
