"""Proposed repairs over HTTP, in the console, by webhook and on the command line: shown with their difference, applied
as they were seen, or left."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
pytest.importorskip("httpx", reason="needs the dev extra")

from starlette.testclient import TestClient
from typer.testing import CliRunner

from lazaretto import Guard, Policy
from lazaretto.api import webhooks
from lazaretto.api.app import create_app
from lazaretto.cli import build
from lazaretto.repair.proposals import proposing
from lazaretto.repair.protocol import RepairView
from lazaretto.types import Correction, Observation, RepairPlan, RepairStep

WRONG, RIGHT = "The crane is run by <b>Halvorsen</b> at night.", "The crane is run by Okafor at night."


def knows_better(guard: Guard, trusted: str) -> None:
    """Let repairs put one name in the place of another, as a gate with models would."""

    def put_right(item: Observation) -> tuple[Correction, ...]:
        at = item.text.find("<b>Halvorsen</b>")
        return (Correction(at, at + 16, "Okafor", trusted),) if at >= 0 else ()

    view = RepairView(guard.ledger, guard.graph, correction=lambda _origin, _tainted: put_right)
    guard._core.rechecker.repairs._view = view


async def story(guard: Guard) -> dict[str, str]:
    made = {"trusted": (await guard.remember(RIGHT, agent="ann", source="direct_user")).item}
    made["origin"] = (await guard.remember("An honest note that was held late.", agent="ida")).item
    made["note"] = (await guard.remember(WRONG, agent="bo", parents=[made["origin"]])).item
    knows_better(guard, made["trusted"])
    await guard.label(made["origin"], "harmful", by="carol")
    plan = RepairPlan("contain", made["origin"], (RepairStep(made["note"], "replace"),), "held late")
    made["proposal"], drafts = proposing(plan)
    guard.ledger.append(drafts)
    return made


def client(guard: Guard) -> Any:
    return TestClient(create_app(guard), base_url="http://localhost")


async def test_over_http(open_guard: Callable[..., Guard], store_url: str) -> None:
    guard = open_guard(store=store_url)
    made = await story(guard)
    caller = client(guard)
    (one,) = caller.get("/v1/repairs/proposals").json()
    assert (one["id"], one["origin"], one["counts"]) == (made["proposal"], made["origin"], {"replace": 1})
    shown = caller.get(f"/v1/repairs/proposals/{made['proposal']}").json()
    (change,) = shown["changes"]
    assert (change["before"], change["after"]) == (WRONG, RIGHT) and "-The crane" in change["difference"]
    apply = f"/v1/repairs/proposals/{made['proposal']}/apply"
    assert caller.post(apply, json={}).status_code == 422
    assert caller.post(apply, json={"seen": "0" * 64}).status_code == 409
    assert guard.ledger.item(made["note"]).text == WRONG and not await guard.repairs.receipts()
    receipt = caller.post(apply, json={"seen": shown["seen"]})
    assert receipt.status_code == 200 and caller.get("/v1/repairs/proposals").json() == []
    assert caller.post(f"/v1/repairs/proposals/{made['proposal']}/dismiss", json={}).status_code == 409
    assert caller.get("/v1/repairs/proposals/pr_nothing").status_code == 404
    assert RIGHT in {item.text for item in guard.ledger.items(limit=None, agent="bo")}


async def test_it_is_dismissed_over_http(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard()
    made = await story(guard)
    done = client(guard).post(f"/v1/repairs/proposals/{made['proposal']}/dismiss", json={"reason": "fine"})
    assert done.json() == {"dismissed": made["proposal"]} and await guard.repairs.proposals() == ()


async def test_in_the_console(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard()
    made = await story(guard)
    person = client(guard)
    queue = person.get("/console/queue").text
    assert f"/console/proposals/{made['proposal']}" in queue and 'data-key="p"' in queue
    page = person.get(f"/console/proposals/{made['proposal']}").text
    assert html.escape(WRONG) in page and RIGHT in page and "<b>Halvorsen" not in page, "what agents wrote is escaped"
    csrf, seen = (re.search(rf'name="{name}" value="([^"]+)"', page) for name in ("csrf", "seen"))
    assert csrf and seen
    forged = person.post(f"/console/accept/{made['proposal']}", data={"seen": seen.group(1)})
    assert forged.status_code == 403 and not await guard.repairs.receipts()
    done = person.post(f"/console/accept/{made['proposal']}", data={"csrf": csrf.group(1), "seen": seen.group(1)})
    assert done.status_code == 200 and "Receipt" in done.text and len(await guard.repairs.receipts()) == 1
    assert made["proposal"] not in person.get("/console/queue").text


async def test_it_is_left_from_the_console(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard()
    made = await story(guard)
    person = client(guard)
    page = person.get(f"/console/proposals/{made['proposal']}").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf
    person.post(f"/console/dismiss/{made['proposal']}", data={"csrf": csrf.group(1)})
    assert await guard.repairs.proposals() == () and not await guard.repairs.receipts()


async def test_a_webhook_tells_of_it_once_and_quotes_nothing(
    open_guard: Callable[..., Guard], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = open_guard()
    made = await story(guard)
    bodies: list[bytes] = []

    class Reply:
        status = 204

    def call(*_: object, body: bytes, **__: object) -> Reply:
        bodies.append(body)
        return Reply()

    monkeypatch.setattr(webhooks, "call", call)
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    telling = webhooks.Webhooks(guard, "https://example.org/hook", secret)
    while await telling.step():
        pass
    told = [json.loads(body) for body in bodies]
    (asked,) = [one["data"] for one in told if one["type"] == "repair.proposed"]
    assert (asked["proposal"], asked["origin"], asked["items"]) == (made["proposal"], made["origin"], {"replace": 1})
    assert b"Halvorsen" not in b"".join(bodies)
    assert await webhooks.Webhooks(guard, "https://example.org/hook", secret).step() == 0, "told once"


async def test_on_the_command_line(open_guard: Callable[..., Guard], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('preset = "minimal"\n')
    store = f"sqlite:///{tmp_path / 'crew.db'}"
    guard = open_guard(Policy.minimal())
    made = await story(guard)
    environment = {"LAZARETTO_STORE": store, "LAZARETTO_POLICY": str(policy), "COLUMNS": "200"}

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(build(arguments[0]), list(arguments), env=environment)

    shown = run("held").stdout
    assert made["proposal"] in shown and f"rewrite 1, because {made['origin']} is held" in shown
    listed = json.loads(run("repair", "proposals", "--json").stdout)
    assert [one["id"] for one in listed] == [made["proposal"]]
    # the minimal policy knows nothing better, so there is nothing to do by now: it says so, and it is dismissed
    refused = run("repair", "accept", made["proposal"], "--by", "dan")
    assert refused.exit_code == 4 and "nothing to do" in refused.output
    told = run("repair", "proposal", made["proposal"])
    said = next(iter(guard.ledger.items(ids=[made["origin"]], any_state=True, limit=None))).text
    assert told.exit_code == 0 and f'{made["origin"]} "{said[:20]}' in " ".join(told.output.split())
    assert run("repair", "dismiss", made["proposal"], "--by", "dan").exit_code == 0
    assert json.loads(run("repair", "proposals", "--json").stdout) == []
