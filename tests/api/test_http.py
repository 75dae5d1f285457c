"""The guard over HTTP: the same answers, clear errors, a token that is really asked for."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the api extra")
httpx = pytest.importorskip("httpx", reason="needs the openai extra")

from lazaretto import Guard
from lazaretto.api.app import create_app
from lazaretto.cli import build as build_cli
from lazaretto.policy import Review


@pytest.fixture
async def client(guard: Guard) -> AsyncIterator[Any]:
    transport = httpx.ASGITransport(app=create_app(guard))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_a_note_is_kept_traced_isolated_and_brought_back(client: Any) -> None:
    note = (await client.post("/v1/remember", json={"agent": "scout", "text": "the key is 4711"})).json()
    assert (note["allowed"], note["complete"], note["action"]) == (True, True, "allow")
    child = await client.post(
        "/v1/remember", json={"agent": "ada", "text": "use the key 4711", "parents": [note["item"]]}
    )
    told = await client.post(
        "/v1/exchange", json={"sender": "ada", "receiver": "bob", "text": "4711!", "parents": [child.json()["item"]]}
    )
    done = await client.post("/v1/report", json={"agent": "bob", "what": "opened", "rests_on": [told.json()["item"]]})
    reached = (await client.get(f"/v1/items/{note['item']}/blast-radius")).json()
    assert [one["hops"] for one in reached["items"]] == [1, 2]
    assert [one["id"] for one in reached["decisions"]] == [done.json()["decision"]]
    lineage = (await client.get(f"/v1/items/{told.json()['item']}/lineage")).json()
    assert len(lineage["items"]) == 2
    assert [one["agent"] for one in (await client.get("/v1/agents/bob/contacts")).json()] == ["ada"]

    plan = await client.post(
        "/v1/repairs/plan", json={"repair": "isolate", "item": note["item"], "options": {"descendants": True}}
    )
    receipt = (await client.post("/v1/repairs/apply", json=plan.json())).json()
    assert (await client.post("/v1/recall", json={"agent": "bob", "query": "key"})).json() == []
    assert (await client.post(f"/v1/repairs/{receipt['id']}/undo")).json()["undone"] is True
    assert len((await client.post("/v1/recall", json={"agent": "bob", "query": "key"})).json()) == 2
    assert len((await client.get("/v1/repairs")).json()) == 1
    assert (await client.get("/v1/ledger/verify")).json()["ok"] is True


async def test_memories_are_judged_again_on_request_and_by_the_server_itself(guard: Guard, client: Any) -> None:
    for n in range(3):
        await client.post("/v1/remember", json={"agent": "ada", "text": f"note {n}"})
    done = (await client.post("/v1/recheck?limit=2")).json()
    assert (done["looked"], done["left"], done["held"]) == (2, 1, [])
    assert (await client.get("/v1/suspects")).json() == []
    assert (await client.post("/v1/recheck?limit=0")).json()["field"] == "limit"

    looked = asyncio.Event()
    recheck = guard.recheck

    async def watched(**options: Any) -> Any:
        try:
            return await recheck(**options)
        finally:
            looked.set()

    guard.policy = replace(guard.policy, review=Review(every=1, interval_s=0.01))
    guard.recheck = watched  # type: ignore[method-assign]
    app = create_app(guard)
    async with app.router.lifespan_context(app):
        await asyncio.wait_for(looked.wait(), 10)
    assert (await recheck()).left == 0


async def test_pictures_travel_as_base64(client: Any) -> None:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    sent = {"agent": "ada", "image": base64.b64encode(made.getvalue()).decode()}
    assert (await client.post("/v1/check", json=sent)).json()["allowed"] is True
    wrong = await client.post("/v1/check", json={"agent": "ada", "image": "no!"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "image")


async def test_a_label_holds_an_item(client: Any) -> None:
    note = (
        await client.post("/v1/remember", json={"agent": "scout", "text": "a bad note about the harbour gate"})
    ).json()["item"]
    assert (await client.post(f"/v1/items/{note}/label", json={"label": "harmful", "by": "eve"})).status_code == 200
    again = (
        await client.post("/v1/remember", json={"agent": "scout", "text": "A BAD note, about the harbour GATE!"})
    ).json()
    assert (again["allowed"], again["rule"].startswith("blocklist:")) == (False, True)


@pytest.mark.parametrize(
    ("call", "body", "status", "field"),
    [
        ("/v1/check", {"text": "no agent"}, 422, "agent"),
        ("/v1/check", {"agent": "a", "text": "x", "colour": "red"}, 422, "colour"),
        ("/v1/check", {"agent": "a", "text": "x", "channel": "smoke"}, 422, "channel"),
        ("/v1/remember", {"agent": "a", "text": "x", "parents": ["it_none"]}, 404, "parents"),
        ("/v1/recall", {"agent": "a", "limit": 0}, 422, "limit"),
        ("/v1/repairs/plan", {"repair": "melt", "item": "it_none"}, 422, "repair"),
        ("/v1/repairs/rc_none/undo", None, 404, "receipt"),
    ],
)
async def test_bad_input_names_the_field(client: Any, call: str, body: Any, status: int, field: str) -> None:
    got = await client.post(call, json=body)
    assert got.status_code == status
    assert got.json()["field"] == field
    assert "Traceback" not in got.text


async def test_wrong_names_are_answered_in_plain_words(client: Any) -> None:
    told = (await client.post("/v1/check", json={"agent": "a", "text": "x", "colour": "red"})).json()
    assert told["message"] == "colour: is no field of this call"
    assert (await client.get("/v1/nothing")).json()["message"] == "no such call: /docs lists them"


async def test_without_the_token_nothing_but_health_answers(guard: Guard) -> None:
    transport = httpx.ASGITransport(app=create_app(guard, token="s3cret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/healthz")).json()["ok"] is True
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "}):
            assert (await client.get("/v1/repairs", headers=headers)).status_code == 401
        assert (await client.get("/v1/repairs", headers={"authorization": "Bearer s3cret"})).status_code == 200
        spoofed = await client.get("/v1/repairs", headers={"host": "guard/healthz?"})
        assert spoofed.status_code == 401, "which path is asked for is not the Host header's to say"


def test_serving_others_without_a_token_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        build_cli("serve"), ["serve", "--host", "0.0.0.0", "--store", f"sqlite:///{tmp_path}/x.db"]
    )
    assert result.exit_code == 2
    assert "LAZARETTO_TOKEN" in result.output
