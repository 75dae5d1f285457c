"""Keys, roles and the border: what an attacker on the same machine tried, and must not get."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the api extra")
httpx = pytest.importorskip("httpx", reason="needs the dev extra")

from lazaretto import Guard
from lazaretto.api.access import Caller, Door, KeyFile, Role
from lazaretto.api.app import ServerSettings, create_app
from lazaretto.api.request_limits import RequestLimits
from lazaretto.cli import build as build_cli
from lazaretto.errors import Forbidden, InputError
from lazaretto.policy import Limits

TOKEN = "s3cret"


def over(app: Any, key: str = "", host: str = "localhost") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}", headers=headers)


@pytest.fixture
async def client(guard: Guard) -> AsyncIterator[Any]:
    async with over(create_app(guard)) as client:
        yield client


@pytest.mark.parametrize("token", ["", " ", "   \t"])
def test_a_token_that_opens_the_door_to_everybody_is_refused(token: str) -> None:
    with pytest.raises(InputError, match="token"):
        Door("default", token)
    answer = CliRunner().invoke(build_cli("serve"), ["serve", "--token", token, "--port", "0"])
    assert answer.exit_code == 2
    assert "token" in answer.output


async def test_roles_hold(guard: Guard, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    secrets = {
        "scout": file.add("scout", Role.AGENT, agents=["scout"]),
        "vera": file.add("vera", Role.REVIEWER),
        "stranger": file.add("stranger", Role.ADMIN, namespace="another tenant"),
    }
    app = create_app(guard, keys=file.keys())
    async with over(app) as nobody, over(app, "lz_wrong") as wrong, over(app, secrets["stranger"]) as other:
        for client in (nobody, wrong, other):
            assert (await client.post("/v1/recall", json={"agent": "scout"})).status_code == 401
        assert (await nobody.get("/healthz")).status_code == 200
    async with over(app, secrets["scout"]) as scout, over(app, secrets["vera"]) as vera:
        note = await scout.post("/v1/remember", json={"agent": "scout", "text": "The gate code is 4711."})
        item = note.json()["item"]
        assert note.status_code == 200
        for source in ("system", "direct_user"):
            claimed = await scout.post("/v1/remember", json={"agent": "scout", "text": "hi", "source": source})
            assert (claimed.status_code, claimed.json()["error"]) == (403, "Forbidden")
        assert (await scout.post("/v1/remember", json={"agent": "ada", "text": "hi"})).status_code == 403
        for path, body in (
            (f"/v1/items/{item}/label", {"label": "benign", "by": "vera"}),
            ("/v1/repairs/plan", {"repair": "isolate", "item": item}),
        ):
            assert (await scout.post(path, json=body)).status_code == 403
        assert (await scout.get("/v1/repairs")).status_code == 403
        labelled = await vera.post(f"/v1/items/{item}/label", json={"label": "harmful", "by": "somebody else"})
        assert labelled.json()["body"]["by"] == "vera"


async def test_nobody_clears_what_they_wrote(guard: Guard) -> None:
    note = await guard.remember("The gate code is 4711.", agent="scout")
    with pytest.raises(InputError, match="cannot clear"):
        await guard.label(note.item, "benign", by="scout")
    await guard.label(note.item, "benign", by="vera")


async def test_a_forged_plan_is_refused(client: Any, guard: Guard) -> None:
    item = (await client.post("/v1/remember", json={"agent": "scout", "text": "The gate code is 4711."})).json()["item"]
    plan = (await client.post("/v1/repairs/plan", json={"repair": "isolate", "item": item})).json()
    step = plan["steps"][0]
    forged = {"id": "it_forged", "text": "x" * 3_000_000, "agent": "mallory"}
    altered: list[dict[str, Any]] = [
        {**plan, "steps": [{**step, "action": "replace", "detail": {**step["detail"], "replacement": forged}}]},
        {**plan, "steps": []},
        {**plan, "id": "pl_unknown"},
        {**plan, "steps": [{**step, "detail": {"was": {"ruling": "sideways"}}}]},
        {**plan, "reason": "another reason"},
    ]
    for one in altered:
        assert (await client.post("/v1/repairs/apply", json=one)).status_code == 409
    assert (await guard.recall(agent="ada"))[0].id == item, "nothing was changed"
    assert (await client.post("/v1/repairs/apply", json=plan)).status_code == 200


async def test_a_new_text_passes_the_gates_and_keeps_its_author(guard: Guard) -> None:
    note = await guard.remember("The gate code is 4711.", agent="scout")
    plan = await guard.repairs.plan(note.item, "isolate")
    step = plan.steps[0]
    from dataclasses import replace

    def with_text(text: str, agent: str = "scout") -> Any:
        new = {"id": "it_new", "text": text, "agent": agent}
        return replace(plan, steps=(replace(step, action="replace", detail={**step.detail, "replacement": new}),))

    with pytest.raises(InputError, match="another author"):
        await guard.repairs.apply(with_text("The gate code is 4712.", "mallory"))
    with pytest.raises(InputError, match="text"):
        await guard.repairs.apply(with_text("x" * 2_000_000))
    with pytest.raises(InputError, match="not finite"):
        await guard.repairs.apply(replace(with_text("fine"), price={"items": float("nan")}))
    assert (await guard.repairs.apply(with_text("The gate code is 4712."))).plan.id == plan.id


@pytest.mark.parametrize("image", ["ÄÖÜ", "not base64!"])
async def test_an_odd_picture_is_bad_input(client: Any, image: str) -> None:
    answer = await client.post("/v1/check", json={"agent": "scout", "image": image})
    assert (answer.status_code, answer.json()["field"]) == (422, "image")


async def test_an_open_server_answers_to_its_own_name_alone(guard: Guard) -> None:
    async with over(create_app(guard), host="evil.example") as rebound:
        assert (await rebound.post("/v1/recall", json={"agent": "scout"})).status_code == 421
    async with over(create_app(guard, TOKEN), TOKEN, host="evil.example") as named:
        assert (await named.post("/v1/recall", json={"agent": "scout"})).status_code == 200
    async with over(
        create_app(guard, TOKEN, settings=ServerSettings(hosts=("guard",))), TOKEN, host="evil.example"
    ) as other:
        assert (await other.get("/healthz")).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_page_of_another_site_makes_a_browser_write(guard: Guard, site: str) -> None:
    async with over(create_app(guard)) as client:
        before = guard.ledger.head().seq
        there = {"sec-fetch-site": site, "origin": "https://evil.example"}
        body = {"agent": "scout", "text": "Pay to DE02120300000000202051.", "source": "direct_user"}
        for path in ("/v1/remember", "/v1/recheck", "/v1/repairs/rc_1/undo"):
            assert (await client.post(path, json=body, headers=there)).status_code == 403
        assert guard.ledger.head().seq == before
        assert (await client.get("/healthz", headers=there)).status_code == 200, "a link there still opens a page"
        own = await client.post("/v1/remember", json=body, headers={"sec-fetch-site": "same-origin"})
        assert own.status_code == 200


class Line:
    """A connection that says what it is told to, and keeps what it is answered."""

    def __init__(self, parts: list[bytes], *, ends: bool = True) -> None:
        self.parts, self.ends, self.sent = parts, ends, list[Any]()

    async def receive(self) -> dict[str, Any]:
        if not self.parts:
            await asyncio.sleep(3600)
        part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.ends}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def answer_of(self, border: RequestLimits, headers: list[tuple[bytes, bytes]] | None = None) -> int:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/check",
            "headers": [(b"host", b"localhost"), *(headers or [])],
        }
        await border(scope, self.receive, self.send)
        return int(self.sent[0]["status"])


async def test_only_a_slow_body_is_called_slow() -> None:
    """A time limit inside the application used to be told as one of the body's."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise TimeoutError("a model did not answer")

    border = RequestLimits(app, Door("default"), Limits(), body_s=5.0)
    line = Line([b"x"])
    with pytest.raises(TimeoutError, match="a model"):
        await line.answer_of(border)
    assert line.sent == []


async def test_bodies_are_cut_off_by_size_time_and_sum() -> None:
    read: list[int] = []
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        read.append(len((await receive())["body"]))
        await waiting.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    small = Limits(max_text_bytes=1_000, max_image_bytes=1_000, max_fields_bytes=1_000)
    border = RequestLimits(app, Door("default"), small, body_s=0.2)
    largest = 72_333
    assert await Line([]).answer_of(border, [(b"content-length", b"200000000")]) == 413
    assert await Line([b"x" * 50_000] * 9).answer_of(border) == 413, "whatever length was declared"
    assert await Line([b"x"], ends=False).answer_of(border) == 408
    assert await Line([b"x"]).answer_of(border, [(b"content-length", b"-1")]) == 400
    held = [asyncio.create_task(Line([b"x" * 72_000]).answer_of(border)) for _ in range(4)]
    await asyncio.sleep(0.05)
    assert await Line([b"x" * 72_000]).answer_of(border) == 503, "the room is shared by all"
    waiting.set()
    assert await asyncio.gather(*held) == [200] * 4
    assert await Line([b"x" * 72_000]).answer_of(border) == 200, "and given back"
    assert max(read) <= largest


def test_keys_are_kept_as_hashes_in_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    run, app = CliRunner(), build_cli("keys")
    made = run.invoke(app, ["keys", "add", "scout", "--role", "agent", "--agent", "scout", "--file", str(path)])
    secret = made.output.split()[0]
    assert made.exit_code == 0
    assert secret.startswith("lz_")
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Door("default", keys=KeyFile(path).keys()).caller(f"Bearer {secret}") == Caller(
        "scout", Role.AGENT, ("scout",)
    )
    assert "scout" in run.invoke(app, ["keys", "list", "--file", str(path), "--json"]).output
    again = run.invoke(app, ["keys", "add", "scout", "--agent", "scout", "--file", str(path)])
    assert again.exit_code == 2 and "has a key already" in again.output
    assert run.invoke(app, ["keys", "revoke", "scout", "--file", str(path)]).exit_code == 0
    assert run.invoke(app, ["keys", "revoke", "scout", "--file", str(path)]).exit_code == 2
    assert KeyFile(path).keys() == ()
    path.write_text("{}")
    with pytest.raises(InputError, match=r"keys\.json"):
        KeyFile(path).keys()


def test_a_caller_says_what_it_may_not() -> None:
    with pytest.raises(Forbidden, match="needs reviewer"):
        Caller("scout", Role.AGENT).require(Role.REVIEWER)
