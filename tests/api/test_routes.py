"""Every call of the guard as a route: the answers are what the document says they are."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import TypeAdapter

pytest.importorskip("fastapi", reason="needs the api extra")
httpx = pytest.importorskip("httpx", reason="needs the openai extra")

from fastapi.routing import APIRoute

from lazaretto import Guard, Policy
from lazaretto.api.access import KeyFile, Role
from lazaretto.api.answers import DecisionAnswer, ObservationAnswer, StateAnswer, VerdictAnswer
from lazaretto.api.app import ROUTERS, create_app
from lazaretto.gates.engine.decision import decision_from_body
from lazaretto.ledger import ItemState
from lazaretto.testing import ScriptedGate
from lazaretto.types import Decision, Observation, Ruling, Verdict, decision_data, plain

BAD = "a bad note about the harbour gate"
POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["structure"], ["scripted"]]}}}


@pytest.fixture
def guard(open_guard: Callable[..., Guard]) -> Guard:
    gate = ScriptedGate(lambda seen: Ruling.QUARANTINE if BAD in seen.text.lower() else Ruling.ALLOW)
    return open_guard(POLICY, gates={"scripted": gate})


@pytest.fixture
async def client(guard: Guard) -> AsyncIterator[Any]:
    transport = httpx.ASGITransport(app=create_app(guard))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def declared(method: str, template: str) -> TypeAdapter[Any]:
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.path == template and method in route.methods:
                return TypeAdapter(route.response_model)
    raise AssertionError(f"no route {method} {template}")


async def asked(client: Any, method: str, template: str, *, json: Any = None, query: str = "", **names: str) -> Any:
    """The answer, held against the schema of its route."""
    got = await client.request(method, template.format(**names) + query, json=json)
    assert got.status_code == 200, got.text
    declared(method, template).validate_json(got.content)
    return got.json()


def test_the_schemas_are_those_of_the_records() -> None:
    words = {"allowed", "complete", "action", "reasons"}
    for schema, record, more in (
        (DecisionAnswer, Decision, words), (VerdictAnswer, Verdict, set()), (StateAnswer, ItemState, set()),
        (ObservationAnswer, Observation, set()),
    ):  # fmt: skip
        assert set(schema.model_fields) <= {one.name for one in fields(record)} | more  # type: ignore[arg-type]
        assert {one.name for one in fields(record)} <= set(schema.model_fields)  # type: ignore[arg-type]


async def test_a_held_item_is_seen_disputed_and_released(client: Any, guard: Guard) -> None:
    again = await asked(client, "POST", "/v1/remember", json={"agent": "ada", "text": BAD.upper()})
    assert (again["allowed"], again["action"]) == (False, "deny")
    assert again["reasons"]
    assert await asked(client, "GET", "/v1/items") == []
    shown = await asked(client, "GET", "/v1/items", query="?hidden=true&agent=ada")
    assert [(one["item"]["id"], one["held"], one["visible"]) for one in shown] == [(again["item"], True, False)]
    await asked(client, "POST", "/v1/items/{item}/appeal", json={"reason": "it is harmless"}, item=again["item"])
    waiting = await asked(client, "GET", "/v1/held")
    assert (waiting[0]["id"], waiting[0]["appealed"]) == (again["item"], True)
    receipt = await asked(client, "POST", "/v1/items/{item}/release", json={"reason": "seen"}, item=again["item"])
    assert receipt["plan"]["repair"] == "release"
    detail = await asked(client, "GET", "/v1/items/{item}", item=again["item"])
    assert detail["visible"] and detail["decision"]["ruling"] == again["ruling"]
    assert {event["kind"] for event in detail["events"]} >= {"seen", "ruled", "appealed"}
    for beside in ("hidden=true", "channel=message"):
        refused = await client.get(f"/v1/items?query=harbour&{beside}")
        assert refused.status_code == 422 and beside.partition("=")[0] in refused.text
    assert [one["item"]["id"] for one in await asked(client, "GET", "/v1/items", query="?query=harbour")] == [
        again["item"]
    ]
    call = "/v1/items/{item}/label"
    said = await asked(client, "POST", call, json={"label": "benign", "by": "vera"}, item=again["item"])
    assert [one["decision"] for one in await asked(client, "GET", "/v1/labels")] == [said["seq"]]
    back = await asked(client, "POST", "/v1/labels/{decision}/undo", json={"by": "vera"}, decision=said["seq"])
    assert back["restored"] == [again["item"]] and (await asked(client, "GET", "/v1/labels"))[0]["taken_back"]
    await asked(client, "POST", call, json={"label": "harmful", "by": "vera"}, item=again["item"])
    found = await asked(client, "GET", "/v1/incidents")
    one = await asked(client, "GET", "/v1/incidents/{incident}", incident=found[0]["id"])
    assert one["id"] == found[0]["id"]
    for style, begins in (("markdown", "#"), ("html", "<!"), ("sarif", "{")):
        report = await client.get(f"/v1/incidents/{one['id']}/report?format={style}")
        assert (report.status_code, report.text[: len(begins)]) == (200, begins)
    assert await asked(client, "GET", "/v1/contacts-to-screen") == await guard_names(guard)


async def guard_names(guard: Guard) -> list[str]:
    return list(await guard.incidents.contacts())


async def test_a_repair_is_tried_dry_first(client: Any) -> None:
    item = (await asked(client, "POST", "/v1/remember", json={"agent": "scout", "text": "the key is 4711"}))["item"]
    plan = await asked(client, "POST", "/v1/repairs/plan", json={"repair": "isolate", "item": item})
    seen = await asked(client, "POST", "/v1/repairs/dry-run", json=plan)
    assert [(one["before"]["hidden"], one["after"]["hidden"]) for one in seen] == [(False, True)]
    assert (await client.post("/v1/repairs/dry-run", json={**plan, "reason": "altered"})).status_code == 409
    receipt = await asked(client, "POST", "/v1/repairs/apply", json=plan)
    await asked(client, "POST", "/v1/repairs/{receipt}/undo", receipt=receipt["id"])
    for path in ("/v1/repairs", "/v1/suspects", "/v1/conflicts", "/v1/ledger/head", "/v1/ledger/verify"):
        await asked(client, "GET", path)
    for path in ("blast-radius", "lineage"):
        await asked(client, "GET", f"/v1/items/{{item}}/{path}", item=item)
    await asked(client, "GET", "/v1/agents/{agent}/contacts", agent="scout")
    await asked(client, "POST", "/v1/recheck")


async def test_memories_in_a_batch_are_kept_as_if_each_came_alone(client: Any, guard: Guard) -> None:
    items = [
        {"agent": "ada", "text": "The gate opens at six.", "once": "one"},
        {"agent": "ada", "text": " "},
        {"agent": "bob", "text": BAD, "once": "two"},
        {"agent": "bob", "text": "Made from nothing.", "parents": ["it_nobody"]},
        {"agent": "ada", "text": "The gate opens at six.", "once": "one"},
        {"agent": "ada", "text": "The gate opens at seven.", "once": "one"},
        {"agent": "bob", "text": "The mill is shut."},
    ]
    results = (await asked(client, "POST", "/v1/remember/batch", json={"items": items}))["results"]
    assert [one.get("field", one.get("ruling")) for one in results] == [
        "allow", "text", "quarantine", "parents", "allow", "once", "allow",
    ]  # fmt: skip
    assert results[0]["item"] == results[4]["item"] and guard.ledger.verify().ok
    again = (await asked(client, "POST", "/v1/remember/batch", json={"items": items[:3]}))["results"]
    assert [one.get("item") for one in again] == [one.get("item") for one in results[:3]]
    alone = await client.post("/v1/remember", json=items[2] | {"once": None}, headers={"idempotency-key": "two"})
    assert alone.status_code == 422  # a single write has the header
    alone = await client.post("/v1/remember", json={"agent": "bob", "text": BAD}, headers={"idempotency-key": "two"})
    assert alone.json()["item"] == results[2]["item"]
    kept = guard.ledger.stats()["kinds"]["seen"]
    assert kept == 3 and (await client.post("/v1/remember/batch", json={"items": []})).status_code == 422


async def test_screening_records_nothing(client: Any, guard: Guard) -> None:
    before = guard.ledger.head().seq
    one = await asked(client, "POST", "/v1/screen", json={"text": "The gate opens at six."})
    assert (one["allowed"], one["complete"]) == (True, True)
    batch = {"items": [{"text": "fine"}, {"text": " "}, {"text": "a‮b", "channel": "tool"}]}
    results = (await asked(client, "POST", "/v1/screen/batch", json=batch))["results"]
    assert [one.get("field", one.get("ruling")) for one in results][:2] == ["allow", "text"]
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(picture, "PNG")
    sent = base64.b64encode(picture.getvalue()).decode()
    assert (await asked(client, "POST", "/v1/screen", json={"image": sent, "channel": "image"}))["allowed"]
    assert guard.ledger.head().seq == before
    checked = await asked(client, "POST", "/v1/check", json={"agent": "ada", "image": sent})
    shown = await client.get(f"/v1/items/{checked['item']}/image")
    assert (shown.content, shown.headers["content-type"]) == (picture.getvalue(), "image/png")
    assert (await client.get("/v1/items/it_none/image")).status_code == 404


async def test_structured_memories_reports_and_recall(client: Any) -> None:
    record = {"state": [0.5, 0.25], "action": [1.0], "tags": ["door"], "meta": {"success": True}}
    note = await asked(client, "POST", "/v1/remember", json={"agent": "ada", "text": "the gate", "fields": record})
    kept = await asked(client, "GET", "/v1/items/{item}", item=note["item"])
    assert kept["item"]["fields"]["state"] == [0.5, 0.25]
    wrong = await client.post("/v1/remember", json={"agent": "ada", "fields": {"mood": 1}})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "fields.mood")
    assert (await asked(client, "POST", "/v1/recall", json={"agent": "bob"}))[0]["id"] == note["item"]
    await asked(client, "POST", "/v1/report", json={"agent": "bob", "what": "opened", "rests_on": [note["item"]]})
    await asked(client, "POST", "/v1/exchange", json={"sender": "ada", "receiver": "bob", "text": "open it"})
    unready = await client.post("/v1/before-turn", json={"agent": "ada"})
    assert (unready.status_code, unready.json()["field"]) == (422, "foresight")


async def test_records_of_others_are_kept_recalled_and_forgotten_by_ref(client: Any, guard: Guard) -> None:
    bank, bad, none = (["notes", "crew", key] for key in ("bank", "bad", "none"))
    value = {"text": "Brightwater is paid at account 4711.", "tags": ["bank"]}
    kept = await asked(client, "POST", "/v1/remember", json={"agent": "ada", "ref": bank, "value": value})
    held = await asked(client, "POST", "/v1/remember", json={"agent": "ada", "ref": bad, "value": {"text": BAD}})
    assert (kept["allowed"], held["allowed"]) == (True, False)
    got = await asked(client, "POST", "/v1/recall/refs", json={"agent": "bob", "refs": [none, bad, bank]})
    assert [one["id"] for one in got["memories"]] == [kept["item"]], "held: neither shown nor unknown"
    assert got["memories"][0]["ref"] == got["unknown"][0] | {"key": "bank"} and got["unknown"][0]["key"] == "none"
    (plain_recall,) = await asked(client, "POST", "/v1/recall", json={"agent": "bob"})
    assert plain_recall["ref"]["key"] == "bank"
    await asked(client, "POST", "/v1/forget", json={"agent": "ada", "ref": bank})
    got = await asked(client, "POST", "/v1/recall/refs", json={"agent": "bob", "refs": [bank]})
    assert got == {"memories": [], "unknown": []}
    for refs, field in (([], "refs"), ([["a", "b"]], "refs.0"), ([["", "b", "c"]], "refs[0].system")):
        wrong = await client.post("/v1/recall/refs", json={"agent": "bob", "refs": refs})
        assert (wrong.status_code, wrong.json()["field"]) == (422, field)


async def test_a_store_that_the_server_cannot_reach_follows_repairs(client: Any, guard: Guard) -> None:
    store: dict[str, Any] = {}

    async def follow(*, acknowledge: bool = True) -> list[str]:
        """What the caller's own side does: fetch what is due, do it, say so."""
        due = await asked(client, "GET", "/v1/write-backs", query="?system=notes")
        for one in due:
            if one["write"] == "put":
                store[one["ref"]["key"]] = one["value"]
            else:
                store.pop(one["ref"]["key"], None)
        writes = [{"ref": list(one["ref"].values()), "item": one["item"], "write": one["write"]} for one in due]
        if writes and acknowledge:
            noted = await asked(client, "POST", "/v1/write-backs/done", json={"writes": writes})
            assert noted == {"noted": len(writes)}
            assert await asked(client, "POST", "/v1/write-backs/done", json={"writes": writes}) == {"noted": 0}
        return [f"{one['write']} {one['ref']['key']}" for one in due]

    ref, value = ["notes", "crew", "bank"], {"text": "Brightwater is paid at 4711.", "n": 1}
    kept = await asked(client, "POST", "/v1/remember", json={"agent": "ada", "ref": ref, "value": value})
    store["bank"] = value
    assert await follow() == []
    made = await asked(client, "POST", "/v1/repairs/plan", json={"repair": "isolate", "item": kept["item"]})
    receipt = await asked(client, "POST", "/v1/repairs/apply", json=made)
    assert await follow(acknowledge=False) == ["delete bank"]
    assert await follow() == ["delete bank"] and not store, "not acknowledged: due again, to the same effect"
    (after,) = await asked(client, "GET", "/v1/repairs")
    assert after["foreign"][0]["outcome"] == "deleted"
    await asked(client, "POST", "/v1/repairs/{receipt}/undo", receipt=receipt["id"])
    late = {"ref": ref, "item": kept["item"], "write": "put"}
    said = await asked(client, "POST", "/v1/write-backs/done", json={"writes": [late | {"error": "disk full"}]})
    (due,) = await asked(client, "GET", "/v1/write-backs", query="?system=notes")
    assert said == {"noted": 1} and (due["write"], due["value"], due["error"]) == ("put", value, "disk full")
    assert await follow() == ["put bank"] and store == {"bank": value}
    # somebody deletes it late, after it was put back: what stands there is what was said last, and it is put again
    await asked(client, "POST", "/v1/write-backs/done", json={"writes": [late | {"write": "delete"}]})
    assert await follow() == ["put bank"]
    assert (await asyncio.to_thread(guard.ledger.verify)).ok


async def test_records_of_a_far_store_are_imported_and_compared(client: Any) -> None:
    def record(key: str, text: str, **more: Any) -> dict[str, Any]:
        return {"ref": ["notes", "crew", key], "value": {"text": text}, **more}

    records = [
        record("tea", "Tea is at four.", agent="ada", source="untrusted_document", time=5.0),
        record("milk", "With milk.", parents=[["notes", "crew", "tea"]]),
        record("bad", BAD), record("empty", " "), record("orphan", "x y", parents=["it_unheard"]),
    ]  # fmt: skip
    done = await asked(client, "POST", "/v1/records/import", json={"agent": "importer", "records": records})
    assert [one["ref"]["key"] for one in done["items"]] == ["tea", "milk", "bad"]
    assert [one["key"] for one in done["held"]] == ["bad"]
    assert [one["ref"]["key"] for one in done["refused"]] == ["empty", "orphan"]
    milk = await asked(client, "GET", "/v1/items/{item}", item=done["items"][1]["item"])
    assert milk["item"]["parents"] == [done["items"][0]["item"]]
    (due,) = await asked(client, "GET", "/v1/write-backs", query="?system=notes")
    assert (due["write"], due["ref"]["key"]) == ("delete", "bad"), "it stands there, and is held"
    standing = [{"key": key, "value": {"text": text}} for key, text in (("tea", "Tea is at five."), ("new", "x"))]
    body: dict[str, Any] = {"system": "notes", "namespace": "crew", "records": standing}
    nameless = await client.post("/v1/records/reconcile", json={"system": "", "namespace": "", "records": []})
    assert nameless.json()["field"] == "system", "a store without a name is not called clean"
    found = await asked(client, "POST", "/v1/records/reconcile", json=body)
    keys = {name: [one["key"] for one in found[name]] for name in ("unknown", "changed", "held", "missing")}
    assert keys == {"unknown": ["new"], "changed": ["tea"], "held": [], "missing": ["milk"]} and not found["clean"]


async def test_a_write_is_noted_only_of_the_record_it_is_about(client: Any) -> None:
    for key in ("a", "b"):
        body = {"agent": "ada", "ref": ["notes", "", key], "value": f"note {key}"}
        item = (await asked(client, "POST", "/v1/remember", json=body))["item"]
    for write, status in (
        ({"ref": ["notes", "", "a"], "item": item, "write": "delete"}, 422),
        ({"ref": ["notes", "", "b"], "item": "it_unheard", "write": "delete"}, 404),
        ({"ref": ["notes", "", "b"], "item": item, "write": "burn"}, 422),
        ({"ref": ["notes", ""], "item": item, "write": "put"}, 422),
    ):
        got = await client.post("/v1/write-backs/done", json={"writes": [write]})
        assert got.status_code == status, got.text
    assert (await client.get("/v1/write-backs")).status_code == 422
    assert await asked(client, "GET", "/v1/write-backs", query="?system=notes") == []


async def test_an_agents_key_forgets_what_that_agent_wrote_alone(guard: Guard, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("scout", Role.AGENT, agents=["scout"])
    refs = {writer: ["notes", "", writer] for writer in ("scout", "ada")}
    await guard.remember("a note of ada", agent="ada", ref=refs["ada"])
    transport = httpx.ASGITransport(app=create_app(guard, keys=file.keys()))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers={"x-api-key": key}
    ) as client:
        own = {"agent": "scout", "text": "a note of scout", "ref": refs["scout"]}
        assert (await client.post("/v1/remember", json=own)).status_code == 200
        codes = [
            (await client.post("/v1/forget", json={"agent": "scout", "ref": ref})).status_code for ref in refs.values()
        ]
    assert codes == [200, 403]
    assert [one.agent for one in await guard.recall(agent="bob", items=list(map(tuple, refs.values())))] == ["ada"]


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])
async def test_a_dummy_does_not_take_a_record_over(store_url: str, tmp_path: Path, bound: bool) -> None:
    file = KeyFile(tmp_path / "keys.json")
    scout = file.add("scout", Role.AGENT, agents=["scout"] if bound else [], any_agent=not bound)
    ada, boss = file.add("ada", Role.AGENT, agents=["ada"]), file.add("boss", Role.REVIEWER)
    ref = ["notes", "", "tea"]
    with Guard.open(store_url, Policy.minimal()) as guard:
        transport = httpx.ASGITransport(app=create_app(guard, keys=file.keys()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def post(path: str, key: str, **body: Any) -> int:
                return (await client.post(path, json=body, headers={"x-api-key": key})).status_code

            def forgets(key: str, agent: str) -> Any:
                return post("/v1/forget", key, agent=agent, ref=ref)

            assert await post("/v1/remember", ada, agent="ada", ref=ref, text="Tea is at four.") == 200
            assert await post("/v1/remember", scout, agent="scout", ref=ref, text="A dummy.") == 200
            assert await forgets(scout, "scout") == 403
            assert await forgets(scout, "ada") == 403, "a name that a key is bound to is that key's"
            assert await post("/v1/remember", scout, agent="ada", ref=ref, text="Tea is off.") == 403
            assert [one.ref for one in await guard.recall(agent="bob", items=[tuple(ref)])] == [tuple(ref)]
            assert await forgets(ada, "ada") == 200
            assert not await guard.recall(agent="bob", items=[tuple(ref)])
            assert await post("/v1/remember", ada, agent="ada", ref=ref, text="Tea is at five.") == 200
            assert await forgets(boss, "boss") == 200


async def test_the_server_says_what_it_goes_by(open_guard: Callable[..., Guard], tmp_path: Path) -> None:
    guard = open_guard({"preset": "minimal", "record": {"witness": f"sqlite:///{tmp_path}/w.db"}})
    app = create_app(guard, "t0ken")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://localhost", headers={"x-api-key": "t0ken"}
    ) as client:
        policy = await asked(client, "GET", "/v1/policy")
        assert policy["preset"] == "minimal"
        gates = {one["name"]: one for one in await asked(client, "GET", "/v1/gates")}
        assert gates["structure"]["ready"] and "memory" in gates["structure"]["channels"]
        me = await asked(client, "GET", "/v1/whoami")
        assert (me["name"], me["role"], me["open"]) == ("token", "admin", False)
        assert await asked(client, "GET", "/v1/thresholds")
        library = await asked(client, "GET", "/v1/cases")
        assert library["live"] == "starter"
        assert len(await asked(client, "GET", "/v1/cases/{version}", version="starter", query="?limit=3")) == 3
        assert (await client.get("/v1/cases/none")).status_code == 422
        assert (await client.post("/v1/cases/rollback", json={})).status_code == 422, "there is nothing before it"
        assert (await client.get("/v1/nowhere")).json()["error"] == "NoSuchCall"
        assert (await client.put("/v1/check")).status_code == 405


async def test_the_same_write_sent_twice_is_recorded_once(client: Any, guard: Guard) -> None:
    note = {"agent": "scout", "text": "The gate code is 4711."}
    once = {"idempotency-key": "n-1"}
    first = (await client.post("/v1/remember", json=note, headers=once)).json()
    events = guard.ledger.head().seq
    again = (await client.post("/v1/remember", json=note, headers=once)).json()
    assert again == first
    assert guard.ledger.head().seq == events
    other = await client.post("/v1/remember", json={**note, "text": "another"}, headers=once)
    assert (other.status_code, other.json()["field"]) == (422, "once")
    for field, changed in (("key", "identity.role"), ("ref", ["notes", "crew", "gate"]), ("parents", [])):
        other = await client.post("/v1/remember", json={**note, field: changed}, headers=once)
        assert other.status_code == 422 and other.json()["field"] == "once", field
        batch = {"items": [{**note, field: changed, "once": "n-1"}]}
        (answered,) = (await client.post("/v1/remember/batch", json=batch)).json()["results"]
        assert answered["field"] == "once", "a name of a batch is the same as that of a single write"
    sent = {"sender": "scout", "receiver": "bob", "text": "The gate is open."}
    assert (await client.post("/v1/exchange", json=sent, headers={"idempotency-key": "n-2"})).json()["allowed"]
    other = await client.post("/v1/exchange", json={**sent, "receiver": "eve"}, headers={"idempotency-key": "n-2"})
    assert (other.status_code, other.json()["field"]) == (422, "once")
    events = guard.ledger.head().seq
    one, two = await asyncio.gather(*(guard.remember("hello", agent="ada", once="c") for _ in range(2)))
    assert (one.item, one.ruling) == (two.item, two.ruling)
    assert [event.kind for event in guard.ledger.events(after=events)] == ["seen", "ruled"], "at once, and still once"


def test_a_decision_is_read_back_as_it_was() -> None:
    from lazaretto.types import Cost, Evidence, GateRun, RunStatus

    verdict = Verdict(
        "g", "it_1", Ruling.REVIEW, 0.5, (0.1, 0.9), "r", (Evidence("span", "why", {"at": 3}),), ("ASI06",), Cost(1.0)
    )
    made = Decision(
        "it_1", Ruling.ALLOW, 0.5, (0.1, 0.9), "g:r", (verdict,), (GateRun("g", RunStatus.RAN, 1.0),), Cost(2.0),
        None, ("x:y",), Ruling.REVIEW,
    )  # fmt: skip
    assert decision_from_body(plain(made)) == made
    assert decision_data(made)["reasons"] == ["why"]


async def test_roles_hold_on_every_route(guard: Guard, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    scout = file.add("scout", Role.AGENT, agents=["scout"])
    vera = file.add("vera", Role.REVIEWER)
    app = create_app(guard, keys=file.keys())
    for_agents = {
        "/v1/check", "/v1/remember", "/v1/remember/batch", "/v1/recall", "/v1/recall/refs", "/v1/forget",
        "/v1/exchange", "/v1/report", "/v1/before-turn", "/v1/screen",
        "/v1/screen/batch", "/v1/audit", "/v1/audit/batch", "/v1/items/{item}/appeal", "/v1/gates", "/v1/whoami",
        "/healthz", "/v1/moderations", "/v1/tasks", "/v1/authorize",
    }  # fmt: skip
    for_admins = {"/v1/cases/rollback"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path, calls in app.openapi()["paths"].items():
            if not path.startswith("/v1"):
                continue
            for method in calls:
                place = path.format(
                    item="it_x", agent="a", incident="in_x", receipt="rc_x", version="v", token="ac_x", proposal="pr_x",
                    decision=1,
                )  # fmt: skip
                statuses = {}
                for name, key in (("nobody", ""), ("scout", scout), ("vera", vera)):
                    headers = {"authorization": f"Bearer {key}"}
                    statuses[name] = (await client.request(method, place, json={}, headers=headers)).status_code
                assert statuses["nobody"] == 401, path
                if path.startswith("/v1") and path not in for_agents | for_admins:
                    assert statuses["scout"] == 403, path
                if path in for_admins:
                    assert statuses["vera"] == 403, path
                elif path not in for_agents:
                    assert statuses["vera"] != 403, path


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b'{"agent": "ada"', "application/json", "body: is not JSON (at character 16)"),
        (b"agent=ada", "application/x-www-form-urlencoded", "body: is not a JSON object"),
        (b"[1]", "application/json", "body: is not a JSON object"),
        (b"", "application/json", "body: is missing"),
        (b'{"text": "Tea is at four."}', "application/json", "agent: is missing"),
    ],
)
async def test_a_body_that_is_no_json_object_is_called_that(client: Any, body: bytes, kind: str, says: str) -> None:
    told = await client.post("/v1/check", content=body, headers={"content-type": kind})
    answer = told.json()
    assert told.status_code == 422 and answer["message"].startswith(says) and answer["field"] in ("body", "agent")
    assert "content-type: application/json" in answer["fix"] or answer["field"] == "agent"


async def test_a_call_by_the_wrong_method_names_the_right_one(client: Any) -> None:
    told = await client.get("/v1/check")
    assert (told.status_code, told.json()["message"]) == (405, "GET is not known here. Use POST")
